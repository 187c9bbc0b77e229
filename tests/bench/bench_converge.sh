#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_converge.sh: how fast the walk is, and how little it disturbs. Needs root, /dev/fuse and loop devices.
#
#   FILES=100000   files, 100 in a directory
#   ROUNDS=5       of everything; each figure is the median of its rounds' ratios, taken side by side
#   TYPES="ext4 xfs"
#   QUIET_CALLS=2000   how long it is looked at who calls while nothing walks
#   DURABLE=       not empty: the run has an id, as mountd's runs have
#   OUTPUT=build/bench/converge.json
#
#   warm     time of `chown -R` and `chmod -R` / time of the walk, everything in the cache; more is better
#   right    the walk over a tree that is right / a bare getdents+statx loop; less is better
#   cold     like warm, the file system freshly mounted, the image read past the page cache
#   both also against bare_walk.c: two threads that do what safety asks and nothing else; warm, 1 is the least there can be
#   create, stat, write   99th percentile while the walk runs / while it is paused
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/../integ/lib.sh"
need_root
need_fuse
need_tools losetup jq
own_mounts "$0" "$@"
start_test

FILES=${FILES:-100000}
ROUNDS=${ROUNDS:-5}
TYPES=${TYPES:-ext4 xfs}
PARTS=${PARTS:-warm right cold foreground}
QUIET_CALLS=${QUIET_CALLS:-2000}
OUTPUT=${OUTPUT:-$repository/build/bench/converge.json}
readonly PER=100 gid=4242
load=$TESTBIN/bench/load
target=$scratch/target
mkdir -p "$target" "$(dirname "$OUTPUT")"
export KEEPER_CTL_TIMEOUT=600

options=(gid=$gid handoff=no paused)
[ -z "${DURABLE:-}" ] || options+=(run=0123456789abcdef0123456789abcdef)

make_image() {
	local type=$1

	image=$scratch/$type.img
	volume=$scratch/$type
	lower=$volume/lower
	mkdir -p "$volume"
	truncate -s 4G "$image"
	case $type in
	ext4) mkfs.ext4 -q -F -b 4096 -N $((FILES * 3 + 100000)) "$image" ;;
	*) "mkfs.$type" -q -f "$image" ;;
	esac
	loop=$(losetup --find --show --direct-io=on "$image")
	loops+=("$loop")
	mount "$loop" "$volume"
	chmod 755 "$volume"
	mkdir "$lower"
	"$helpers/many" files "$lower" "$FILES" "$PER"
}

reset_tree() {
	"$load" reset "$lower" 1000 1000
	sync -f "$volume"
}

make_cold() {
	umount "$volume"
	mount "$loop" "$volume"
}

# Seconds of a command, into the variable $seconds.
measure() {
	local from to

	from=$(date +%s%N)
	"$@"
	to=$(date +%s%N)
	seconds=$(awk -v ns=$((to - from)) 'BEGIN { print ns / 1e9 }')
}

eager() {
	chown -R ":$gid" "$lower"
	chmod -R ug+rwX "$lower"
	chmod g+s "$lower"
}

mount_overlay() {
	overlay main "$lower" "$target" "${options[@]}"
}

walk() {
	keeper main wait state=converged resume
}

unmount() {
	umount "$target"
	no_process_stays
}

# measure_pair KIND HOW: one round, "ours other bare" appended to $scratch/KIND.
measure_pair() {
	local kind=$1 how=$2 ours other

	prepare_$how
	mount_overlay
	measure walk
	ours=$seconds
	unmount
	prepare_$how
	if [ "$how" = right ]; then measure "$load" list "$lower"; else measure eager; fi
	other=$seconds
	if [ "$how" != right ]; then
		prepare_$how
		measure "$TESTBIN/bench/bare_walk" "$lower" "$gid"
	fi
	printf '%s %s %s\n' "$ours" "$other" "$seconds" >>"$scratch/$kind"
}

prepare_warm() {
	reset_tree
	"$load" list "$lower"
}

prepare_cold() {
	reset_tree
	make_cold
}

prepare_right() {
	"$load" list "$lower"
}

foreground=("$load" foreground "$target/dir-0" "$target" "$FILES" "$PER")

clear_foreground() {
	rm -f "$lower"/dir-0/new-* "$lower/dir-0/data"
}

# One round: quiet (the walk is paused), then while it runs; "create quiet converging" and so on.
measure_foreground() {
	local pid stream

	reset_tree
	"$load" list "$lower"
	mount_overlay
	"${foreground[@]}" "$QUIET_CALLS" | sed 1d >"$scratch/quiet"
	unmount
	clear_foreground
	mount_overlay
	exec {stream}< <(exec "${foreground[@]}" 1000000)
	pid=$!
	read -r _ <&"$stream"
	walk
	kill "$pid"
	cat <&"$stream" >"$scratch/busy"
	exec {stream}<&-
	wait "$pid"
	unmount
	clear_foreground
	paste -d ' ' "$scratch/quiet" "$scratch/busy" >>"$scratch/foreground"
}

median() {
	sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.3f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; else print "null" }'
}

# summarise KIND EXPRESSION: the median of the ratio and of both columns, as JSON.
summarise() {
	[ -s "$scratch/$1" ] || { printf 'null' && return; }
	printf '{"ratio":%s,"walkSeconds":%s,"otherSeconds":%s,"ofBare":%s}' "$(awk "{ print $2 }" "$scratch/$1" | median)" \
		"$(awk '{ print $1 }' "$scratch/$1" | median)" "$(awk '{ print $2 }' "$scratch/$1" | median)" \
		"$(awk '{ print $1 / $3 }' "$scratch/$1" | median)"
}

summarise_foreground() {
	local op separator=

	[ -s "$scratch/foreground" ] || { printf 'null' && return; }
	printf '{'
	for op in create stat write; do
		printf '%s"%s":{"p99Ratio":%s,"quietP99Us":%s,"p99Us":%s,"quietP50Us":%s,"p50Us":%s,"samples":%s}' "$separator" "$op" \
			"$(awk -v op=$op '$1 == op { print $10 / $5 }' "$scratch/foreground" | median)" \
			"$(awk -v op=$op '$1 == op { print $5 }' "$scratch/foreground" | median)" \
			"$(awk -v op=$op '$1 == op { print $10 }' "$scratch/foreground" | median)" \
			"$(awk -v op=$op '$1 == op { print $3 }' "$scratch/foreground" | median)" \
			"$(awk -v op=$op '$1 == op { print $8 }' "$scratch/foreground" | median)" \
			"$(awk -v op=$op '$1 == op { print $7 }' "$scratch/foreground" | median)"
		separator=,
	done
	printf '}'
}

results='[]'
for type in $TYPES; do
	make_image "$type"
	rm -f "$scratch"/{warm,right,cold,foreground}
	for ((round = 0; round < ROUNDS; round++)); do
		case $PARTS in *warm*) measure_pair warm warm ;; esac
		case $PARTS in *right*) measure_pair right right ;; esac
		case $PARTS in *cold*) measure_pair cold cold ;; esac
		case $PARTS in *foreground*) measure_foreground ;; esac
	done
	results=$(jq -c --arg type "$type" --argjson files "$FILES" --argjson rounds "$ROUNDS" \
		--argjson warm "$(summarise warm '$2 / $1')" --argjson right "$(summarise right '$1 / $2')" \
		--argjson cold "$(summarise cold '$2 / $1')" --argjson foreground "$(summarise_foreground)" \
		'. + [{$type, $files, $rounds, $warm, $right, $cold, $foreground}]' <<<"$results")
	umount "$volume"
	losetup -d "$loop"
	rm -f "$image"
done
jq . <<<"$results" >"$OUTPUT"
jq -r '.[] | "\(.type): " + ([
	(.warm | select(.) | "warm \(.ratio) x chown+chmod (\(.ofBare) of the time of a bare walk)"),
	(.right | select(.) | "right \(.ratio) of getdents+statx"),
	(.cold | select(.) | "cold \(.ratio) x chown+chmod (\(.ofBare) of the time of a bare walk)"),
	(.foreground | select(.) | "p99 " + (to_entries | map("\(.key) \(.value.p99Ratio)") | join(", ")))] | join("; "))' "$OUTPUT"
