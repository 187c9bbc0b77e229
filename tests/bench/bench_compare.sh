#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_compare.sh: the overlay beside the file system itself, bindfs and libfuse's passthrough_hp, in one run and in
# turn. Needs root, /dev/fuse and loop devices.
#
#   QUICK=1              everything small, ext4 alone, three rounds: some two minutes
#   ROUNDS, TYPES, PARTS, CONTENDERS   as below; PARTS="calls data" runs these alone
#   CALL_FILES, LARGE_FILES, ...       as below; DATA_JOBS="WAY:SIZE:PATTERN,PATTERN ..."
#   OUTPUT=build/bench/compare.json    the machine, the versions, every sample and a summary
#
# Beside them the ceiling: servers that answer at once and do nothing (ceiling.c), which show what /dev/fuse allows.
# "native" is the tree itself by way of a bind mount: whose group its files have makes no difference to its speed. Ratios
# are taken in each round, of speeds: 1 is native, more is faster; of the ready time native is one pass over the tree.
# shellcheck disable=SC2034 # read by the parts
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/../integ/lib_volume.sh"
need_root
need_fuse
need_tools bindfs fio git gnuplot jq losetup mkfs.ext4 mkfs.xfs nsenter
own_mounts "$0" "$@"
start_volume_test

# An inode takes a descriptor in passthrough_hp, and in ours in a user namespace. Whoever may not have more is given less.
ulimit -n 1048576 2>/dev/null || ulimit -n "$(ulimit -Hn)"
at_most() {
	local most=$(($(ulimit -n) - 1000))

	printf '%d\n' $(($1 < most ? $1 : most))
}
here=$(dirname "$(realpath "$0")")
PARTS=${PARTS:-ready calls data programs memory}
all='native pending pending-awake pending-shared converging virtual handed-off user-namespace bindfs passthrough_hp passthrough_hp-cached
	passthrough_hp-killpriv ceiling ceiling-awake ceiling-affine ceiling-0 ceiling-awake-0 user-namespace-ceiling'
if [ -n "${QUICK:-}" ]; then
	ROUNDS=${ROUNDS:-3} TYPES=${TYPES:-ext4}
	CONTENDERS=${CONTENDERS:-native pending pending-awake pending-shared handed-off user-namespace bindfs passthrough_hp
		passthrough_hp-killpriv ceiling ceiling-awake ceiling-affine ceiling-0 ceiling-awake-0}
	CALL_FILES=${CALL_FILES:-200} LARGE_FILES=${LARGE_FILES:-5000} MEMORY_FILES=${MEMORY_FILES:-10000}
	PROGRAM_FILES=${PROGRAM_FILES:-500} READY_FILES=${READY_FILES:-1000 10000}
	DATA_SIZE=${DATA_SIZE:-32M} DATA_TIMES=${DATA_TIMES:-1} IMAGE_SIZE=${IMAGE_SIZE:-2G} IMAGE_INODES=200000
	DATA_JOBS=${DATA_JOBS:-cached:4k:randread,randwrite cached:128k:randread,randwrite direct:128k:randread,randwrite
		mapped:4k:randread,randwrite}
else
	ROUNDS=${ROUNDS:-5} TYPES=${TYPES:-ext4 xfs} CONTENDERS=${CONTENDERS:-$all}
	CALL_FILES=${CALL_FILES:-500} LARGE_FILES=$(at_most "${LARGE_FILES:-100000}")
	MEMORY_FILES=$(at_most "${MEMORY_FILES:-100000}") PROGRAM_FILES=${PROGRAM_FILES:-2000}
	READY_FILES=${READY_FILES:-1000 10000 100000 1000000}
	DATA_SIZE=${DATA_SIZE:-128M} DATA_TIMES=${DATA_TIMES:-3} IMAGE_SIZE=${IMAGE_SIZE:-12G} IMAGE_INODES=2500000
	four=read,write,randread,randwrite
	DATA_JOBS=${DATA_JOBS:-cached:4k:$four cached:128k:$four cached:1m:read,write direct:4k:$four direct:128k:$four
		mapped:4k:$four}
fi
readonly CONVERGING_RATE=500
OUTPUT=${OUTPUT:-$repository/build/bench/compare.json}
mkdir -p "$(dirname "$OUTPUT")"

# shellcheck source=tests/bench/lib_bench.sh
. "$here/lib_bench.sh"
for part in $PARTS; do
	# shellcheck source=/dev/null
	. "$here/part_$part.sh"
done

available=
for name in $CONTENDERS; do
	! can_run "$name" || available+=" $name"
done
CONTENDERS=$available

machine() {
	jq -n --arg cpu "$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" --argjson cpus "$(nproc)" \
		--argjson kib "$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)" --arg kernel "$(uname -sr)" \
		--arg os "$(. /etc/os-release && echo "$PRETTY_NAME")" --arg host "$(systemd-detect-virt 2>/dev/null || true)" \
		--arg load "$(cut -d ' ' -f 1 /proc/loadavg)" \
		'{$cpu, $cpus, memoryGiB: ($kib / 1048576 * 10 | round / 10), $kernel, $os, virtualization: $host,
		loadAtStart: ($load | tonumber)}'
}

versions() {
	# shellcheck disable=SC2031 # nothing changes the directory
	jq -n --arg fsgroupfs "$(cat "$repository/VERSION")" --arg commit "$(git -C "$repository" describe --always --dirty 2>/dev/null)" \
		--arg libfuse "$(PKG_CONFIG_PATH=$repository/build/deps/prefix/lib/pkgconfig pkg-config --modversion fuse3)" \
		--arg bindfs "$(bindfs --version | head -n 1 | cut -d ' ' -f 2)" --arg fio "$(fio --version)" \
		'{$fsgroupfs, $commit, $libfuse, $bindfs, $fio}'
}

# Samples to JSON: each, and what follows from those of one kind: median, least, most, and the ratio to native.
summarise() {
	jq -n -R --argjson machine "$machine" --argjson versions "$(versions)" --arg quick "${QUICK:-}" --argjson rounds "$ROUNDS" '
	def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
	def number: if . == "" then null else tonumber end;
	[inputs | split("\t") | {part: .[0], fs: .[1], contender: .[2], what: .[3], unit: .[4], round: (.[5] | tonumber),
		value: (.[6] | tonumber), ownUs: (.[7] | number), serverUs: (.[8] | number)}] as $samples |
	($samples | map(select(.contender == (if .part == "ready" then "one pass" else "native" end))) |
		map({key: "\(.part)/\(.fs)/\(.what)/\(.round)", value: .value}) | from_entries) as $native |
	def speed($native_value): if $native_value == null or .value <= 0 or $native_value <= 0 then null
		elif .unit == "s" then $native_value / .value else .value / $native_value end;
	{machine: $machine, versions: $versions, quick: ($quick != ""), rounds: $rounds,
	 summary: ($samples | group_by([.part, .fs, .what, .contender]) | map(. as $group | .[0] |
		{part, fs, what, contender, unit,
		 median: ($group | map(.value) | median), min: ($group | map(.value) | min), max: ($group | map(.value) | max),
		 ratios: ($group | map(. as $s | $s | speed($native["\($s.part)/\($s.fs)/\($s.what)/\($s.round)"])) | map(values)),
		 ownUs: ($group | map(.ownUs | values) | if length > 0 then median else null end),
		 serverUs: ($group | map(.serverUs | values) | if length > 0 then median else null end)} |
		(.ratios | if length > 0 then {ratio: median, ratioSpread: ((max - min) / median)} else {ratio: null, ratioSpread: null} end) as $of |
		del(.ratios) + $of)),
	 samples: $samples}' <"$samples" >"$OUTPUT.new"
	mv "$OUTPUT.new" "$OUTPUT"
}

machine=$(machine)
: >"$samples"
for type in $TYPES; do
	make_bench_volume "$type"
	for part in $PARTS; do
		began=$SECONDS
		"part_$part"
		summarise # what is measured is kept, whatever happens to the rest
		say "$part took $((SECONDS - began)) s"
	done
	kill_daemon TERM
	remove_bench_volume
done
printf '# %s\n' "$OUTPUT"
end_volume_test
