# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_bench.sh: a volume, and those who show it: what the parts of bench_compare.sh share. Sourced after lib.sh.
#
#   make_bench_volume TYPE     a file system in a loop device: $volume, and in it the tree $lower
#   renew_bench_volume         the same, empty again
#   is_first_type              of $TYPES
#   say WORDS                  what it has come to, and when
#   can_run CONTENDER          whether it is installed here; says why not
#   show CONTENDER             $lower at $target; ${enter[@]} goes before commands that use it, ${servers[@]} are the
#                              processes that serve it
#   hide                       undoes show
#   each_in_turn COMMAND...    in each round, for each contender: show, COMMAND... CONTENDER, hide
#   counts_requests            whether it says how many requests it was sent: requests_of 'READ|WRITE', or of all kinds ''
#   sample WHAT UNIT VALUE [OWN SERVER]   of the contender shown now; CPU time in us a call
#   time_of COMMAND...         its seconds, in $seconds
#
# A sample is a line of $samples: part, file system, contender, what, unit, round, value, own, server. Units: "/s" and
# "MiB/s" (more is better), "s" (less is better), "bytes", "count".

# shellcheck disable=SC2154,SC2034 # set by those who source this, read by the parts
readonly gid=4242
target=$scratch/target
samples=$scratch/samples
mkdir -p "$target" "$scratch/run"
part='' contender='' type='' round=0

passthrough_hp=${PASSTHROUGH_HP:-$repository/build/deps/passthrough_hp}
ceiling=$TESTBIN/bench/ceiling

make_bench_volume() {
	local image

	type=$1
	image=$scratch/$type.img
	volume=$scratch/$type
	lower=$volume/lower
	mkdir -p "$volume"
	truncate -s "$IMAGE_SIZE" "$image"
	case $type in
	ext4) mkfs.ext4 -q -F -b 4096 -N "$IMAGE_INODES" "$image" ;;
	*) "mkfs.$type" -q -f "$image" ;;
	esac
	loop=$(losetup --find --show "$image")
	loops+=("$loop")
	mount "$loop" "$volume"
	chmod 755 "$volume"
	mkdir "$lower"
}

remove_bench_volume() {
	umount "$volume"
	losetup -d "$loop"
	rm -f "$scratch/$type.img"
}

renew_bench_volume() {
	remove_bench_volume
	make_bench_volume "$type"
}

is_first_type() { [ "$type" = "${TYPES%% *}" ]; }

say() { printf '# %4d s: %s, %s\n' "$SECONDS" "$type" "$*"; }

can_run() {
	case $1 in
	pending-uring)
		[ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ] || return 0
		printf '# left out: %s: FUSE over io_uring is off (/sys/module/fuse/parameters/enable_uring)\n' "$1"
		return 1
		;;
	pending-awake | ceiling*-0)
		[ ! -w /dev/cpu_dma_latency ] || return 0
		printf '# left out: %s: there is no /dev/cpu_dma_latency\n' "$1"
		return 1
		;;
	bindfs) command -v bindfs >/dev/null && return ;;
	passthrough_hp-killpriv) [ -x "$passthrough_hp-killpriv" ] && return ;;
	passthrough_hp*) [ -x "$passthrough_hp" ] && return ;;
	*) return 0 ;;
	esac
	printf '# left out: %s, which is not here (scripts/bootstrap)\n' "$1"
	return 1
}

# The ceiling has no files but those that it was just asked for.
has_files() {
	case $contender in
	*ceiling*) return 1 ;;
	esac
}

# Who is asked for what: the second passthrough_hp is another one in writing only.
takes_part() {
	case $1/$2 in
	call_and_list/ceiling* | move_data/passthrough_hp-killpriv | move_data/user-namespace-ceiling) ;;
	move_data/passthrough_hp) [ -z "${QUICK:-}" ] ;;
	call_and_list/pending-awake | use_tree/pending-awake) ;;
	*/*ceiling* | */passthrough_hp-killpriv | */pending-awake) return 1 ;;
	esac
}

# overlay_of OPTION...: where the namespaces of ${enter[@]} are.
overlay_of() {
	local option arguments=()

	for option in "gid=$gid" "$@"; do
		arguments+=(-o "$option")
	done
	rm -f "$scratch/run/main"
	"${enter[@]}" "$helpers/keeper_ctl" run "$scratch/run/main" "$fsgroupfs" "${arguments[@]}" "$lower" "$target"
	readarray -t servers < <(keeper main get keeper_pid server_pid)
}

# A user namespace with all ids of ours: the kernel's passthrough and file handles are refused in it.
enter_user_namespace() {
	local pid

	rm -f "$scratch/holder"
	mkfifo "$scratch/holder"
	unshare -Um --propagation private sh -c 'echo $$ >"$1"; exec sleep infinity' _ "$scratch/holder" &
	read -r pid <"$scratch/holder"
	printf '0 0 65536\n' >"/proc/$pid/uid_map"
	printf '0 0 65536\n' >"/proc/$pid/gid_map"
	holder=$pid
	enter=(nsenter -t "$pid" -U -m --preserve-credentials)
}

# As cpu_latency=0 has it, until the descriptor $latency is closed.
keep_processors_awake() {
	exec {latency}>/dev/cpu_dma_latency
	printf '\0\0\0\0' >&"$latency"
}

# As many as our server has: one for each processor, at least two.
server_threads() { nproc | awk '{ print $1 < 2 ? 2 : $1 }'; }

show_ceiling() {
	"${enter[@]}" "$ceiling" "$@" "$target"
	served_by bench/ceiling
	"${enter[@]}" mkdir "$target/calls"
}

served_by() {
	readarray -t servers < <(pgrep -f -- "$1.* $target\$")
}

show() {
	contender=$1
	enter=()
	servers=()
	holder=
	latency=
	case $contender in
	ceiling*-0) keep_processors_awake ;;
	esac
	case $contender in
	native) mount --bind "$lower" "$target" ;;
	pending) overlay_of handoff=no coherence=exclusive paused ;;
	pending-awake) overlay_of handoff=no coherence=exclusive paused cpu_latency=0 ;;
	pending-uring) overlay_of handoff=no coherence=exclusive paused transport=io_uring ;;
	pending-shared) overlay_of handoff=no coherence=shared paused ;;
	converging) overlay_of handoff=no coherence=exclusive "converge_rate=$CONVERGING_RATE" ;;
	virtual) overlay_of ownership=virtual ;;
	handed-off)
		overlay_of coherence=exclusive
		turns_native main
		servers=()
		;;
	user-namespace)
		enter_user_namespace
		overlay_of handoff=no coherence=exclusive paused
		;;
	bindfs)
		bindfs "--force-group=$gid" -p ug+rwX --multithreaded "$lower" "$target"
		served_by bindfs
		;;
	passthrough_hp | passthrough_hp-killpriv)
		"${passthrough_hp%/*}/$contender" -o allow_other "$lower" "$target" >/dev/null
		served_by "$contender"
		;;
	passthrough_hp-cached)
		"$passthrough_hp" -o allow_other --nopassthrough "$lower" "$target" >/dev/null
		served_by passthrough_hp
		;;
	ceiling | ceiling-0) show_ceiling "$(server_threads)" 0 ;;
	ceiling-awake | ceiling-awake-0) show_ceiling 1 1000 ;;
	ceiling-affine) show_ceiling 1 affine ;;
	user-namespace-ceiling)
		enter_user_namespace
		show_ceiling 1 1000
		;;
	esac
}

hide() {
	"${enter[@]}" umount "$target"
	[ ${#servers[@]} = 0 ] || "$helpers/keeper_ctl" gone "${servers[@]}"
	[ -z "$latency" ] || exec {latency}>&-
	if [ -n "$holder" ]; then
		kill "$holder"
		wait "$holder" 2>/dev/null || true
	fi
	no_process_stays
	case $contender in
	converging | handed-off) "$TESTBIN/bench/load" reset "$lower" 1000 1000 ;;
	esac
}

each_in_turn() {
	local name

	for ((round = 1; round <= ROUNDS; round++)); do
		for name in $CONTENDERS; do
			takes_part "$1" "$name" || continue
			show "$name"
			"$@" "$name"
			hide
		done
		say "$part: $1, round $round of $ROUNDS"
	done
}

sample() {
	local what=$1 unit=$2 value=$3 own=${4:-} server=${5:-}

	printf '%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n' "$part" "$type" "$contender" "$what" "$unit" "$round" "$value" \
		"$own" "$server" >>"$samples"
}

# Lines of tests/bench/rates.c: "NAME CALLS SECONDS OWN SERVER"; @1 goes before the names.
sample_rates() {
	local name rate own server

	while IFS=$'\t' read -r name rate own server; do
		sample "$1$name" /s "$rate" "$own" "$server"
	done < <(awk '{ printf "%s\t%.1f\t%.3f\t%.3f\n", $1, $2 / $3, $4 / $2 * 1e6, $5 / $2 * 1e6 }')
}

# Requests that the overlay was sent by now, those of the KINDs; of others nothing is known.
requests_of() {
	local kinds=$1

	keeper main get requests | tr ' ' '\n' | awk -F : -v kinds="$kinds" 'kinds == "" || $1 ~ "^(" kinds ")$" { n += $2 }
		END { printf "%d", n }'
}

counts_requests() {
	case $contender in
	pending* | user-namespace) ;;
	*) return 1 ;;
	esac
}

now_us() { printf '%s' "${EPOCHREALTIME/[.,]/}"; }

time_of() {
	local from to

	from=$(now_us)
	"$@"
	to=$(now_us)
	seconds=$(awk -v us=$((to - from)) 'BEGIN { printf "%.6f", us / 1e6 }')
}

forget_names() {
	sync -f "$volume"
	printf '2\n' >/proc/sys/vm/drop_caches
}
