#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_upgrade.sh: how long users wait when another program takes over from the server. Needs root, /dev/fuse and loop
# devices.
#
#   NODES="1000 100000"   files that the server has looked up
#   ROUNDS=20             upgrades of each; every other while the tree is walked
#   OUTPUT=build/bench/upgrade.json
#
# A process looks and writes a thousand times a second (tests/bench/pulse.c). quiet...: the longest that it waits in half
# a second without an upgrade, before each; pause...: in the time from the request to the answer of an upgrade; in
# microseconds, the median and the worst of the rounds. missedMs: milliseconds without a look and a write, in all
# upgrades. upgradeMs: from the request to the answer, the median.
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/../integ/lib.sh"
need_root
need_fuse
need_tools jq mkfs.ext4
own_mounts "$0" "$@"
start_test

NODES=${NODES:-1000 100000}
ROUNDS=${ROUNDS:-20}
OUTPUT=${OUTPUT:-$repository/build/bench/upgrade.json}
target=$scratch/target
mkdir -p "$target" "$(dirname "$OUTPUT")"
VOLUME_SIZE=2G make_volume ext4 volume
install -m 755 "$fsgroupfs" "$scratch/program"

# pulse_says: asks the process, into $longest and $missed.
pulse_says() {
	echo >&"$pulse_in"
	read -r longest missed _ <&"$pulse_out"
}

round() {
	local start

	pulse_says
	sleep 0.5
	pulse_says
	echo "$longest" >>"$scratch/quiet"
	start=${EPOCHREALTIME/./}
	"$helpers/keeper_ctl" upgrade "$scratch/run/main" "$scratch/program" >"$scratch/answer"
	echo $(((${EPOCHREALTIME/./} - start) / 1000)) >>"$scratch/took"
	# The beat that waited counts when it is over.
	stat "$target" >"$scratch/stat"
	pulse_says
	echo "$longest" >>"$scratch/pause"
	echo "$missed" >>"$scratch/missed"
}

median() {
	sort -n "$scratch/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

worst() {
	sort -n "$scratch/$1" | tail -n 1
}

results='[]'
for nodes in $NODES; do
	lower=$scratch/volume/$nodes
	mkdir "$lower"
	"$helpers/many" files "$lower" "$nodes"
	chmod 755 "$lower"
	rm -f "$scratch"/{quiet,pause,took,missed}
	overlay main "$lower" "$target" gid=4242 handoff=no paused converge_rate=1000
	find "$target" -newermt 2000-01-01 -printf '' # each is looked up
	coproc PULSE { exec "$TESTBIN/bench/pulse" "$target" "$nodes"; }
	pulse_pid=$PULSE_PID pulse_out=${PULSE[0]} pulse_in=${PULSE[1]}
	for ((i = 0; i < ROUNDS; i++)); do
		((i % 2)) && verb=resume || verb=pause
		keeper main send "$verb" >"$scratch/answer"
		round
	done
	[ "$(keeper main get upgrades)" = "$ROUNDS" ]
	exec {pulse_in}>&-
	wait "$pulse_pid"
	umount "$target"
	no_process_stays
	results=$(jq -c --argjson nodes "$nodes" --argjson rounds "$ROUNDS" --argjson quietMedianUs "$(median quiet)" \
		--argjson quietWorstUs "$(worst quiet)" --argjson pauseMedianUs "$(median pause)" \
		--argjson pauseWorstUs "$(worst pause)" --argjson missedMs "$(awk '{ n += $1 } END { print n }' "$scratch/missed")" \
		--argjson upgradeMs "$(median took)" '. + [{benchmark: "upgrade", $nodes, $rounds, $quietMedianUs,
			$quietWorstUs, $pauseMedianUs, $pauseWorstUs, $missedMs, $upgradeMs}]' <<<"$results")
done
jq . <<<"$results" >"$OUTPUT"
jq -r '.[] | "\(.nodes) nodes: a pause of \(.pauseMedianUs) us, at worst \(.pauseWorstUs) us; without an upgrade \(.quietMedianUs) us, at worst \(.quietWorstUs) us; done after \(.upgradeMs) ms"' "$OUTPUT"
