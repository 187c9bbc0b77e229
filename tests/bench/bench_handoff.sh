#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_handoff.sh: how long a hand-off holds up those who open files. Needs root, /dev/fuse and loop devices.
#
#   CROWDS="0 200 1000"   processes that do nothing, but have to be looked at
#   ROUNDS=3
#   OUTPUT=build/bench/handoff.json
#
# Six processes open, lock, write and close six files, with rests of 3 ms. The longest open(2) of a second with the walk
# paused is compared with the longest of the time from the resume until half a second after the volume is native; and the
# time that the hand-off takes from the resume on.
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/../integ/lib.sh"
need_root
need_fuse
need_tools jq mkfs.ext4
own_mounts "$0" "$@"
start_test

CROWDS=${CROWDS:-0 200 1000}
ROUNDS=${ROUNDS:-3}
OUTPUT=${OUTPUT:-$repository/build/bench/handoff.json}
target=$scratch/target
mkdir -p "$target" "$(dirname "$OUTPUT")"
make_volume ext4 volume
lower=$scratch/volume/lower

# load SECONDS-COMMAND...: the longest open in microseconds while the command runs, in $stall.
load() {
	local log=$scratch/locker.log pid

	: >"$log"
	"$helpers/locker" paths "$target" 6 6 3000 >"$log" &
	pid=$!
	tail -n +1 -f --pid="$pid" "$log" | grep -q -m 1 ready || true
	"$@"
	kill "$pid"
	wait "$pid" || cat "$log"
	stall=$(tail -n 1 "$log" | cut -d ' ' -f 2)
}

hand_off() {
	local start=${EPOCHREALTIME/./}

	turns_native main resume
	took=$((${EPOCHREALTIME/./} - start))
	sleep 0.5
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

results='[]'
for crowd in $CROWDS; do
	rm -f "$scratch"/{quiet,busy,took}
	mkfifo "$scratch/crowd"
	"$TESTBIN/bench/crowd" "$crowd" >"$scratch/crowd" &
	crowd_pid=$!
	read -r _ <"$scratch/crowd"
	rm "$scratch/crowd"
	for ((round = 0; round < ROUNDS; round++)); do
		rm -rf "$lower"
		mkdir -p "$lower"
		for i in 0 1 2 3 4 5; do
			truncate -s 4096 "$lower/$i"
		done
		overlay main "$lower" "$target" gid=4242 paused
		load sleep 1
		echo "$stall" >>"$scratch/quiet"
		for i in 0 1 2 3 4 5; do
			truncate -s 0 "$lower/$i"
			truncate -s 4096 "$lower/$i"
		done
		load hand_off
		echo "$stall" >>"$scratch/busy"
		echo "$took" >>"$scratch/took"
		umount "$target"
		no_process_stays
	done
	kill "$crowd_pid"
	wait "$crowd_pid" 2>/dev/null || true
	results=$(jq -c --argjson processes "$crowd" --argjson rounds "$ROUNDS" \
		--argjson quietLongestOpenUs "$(median <"$scratch/quiet")" \
		--argjson longestOpenUs "$(median <"$scratch/busy")" --argjson handoffUs "$(median <"$scratch/took")" \
		'. + [{$processes, $rounds, $quietLongestOpenUs, $longestOpenUs, $handoffUs}]' <<<"$results")
done
jq . <<<"$results" >"$OUTPUT"
jq -r '.[] | "\(.processes) processes: the longest open \(.longestOpenUs) us while handing off, \(.quietLongestOpenUs) us before; native after \(.handoffUs) us"' "$OUTPUT"
