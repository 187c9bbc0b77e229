#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmarks run, and what they leave is whole: every contender, one round of everything, as small as can be. What
# they measure is not looked at. Needs root, /dev/fuse and loop devices.
# timeout: 600 (each contender is mounted four times: half a minute, and several on a machine that does much else)
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools bindfs fio git gnuplot jq losetup mkfs.ext4 mkfs.xfs nsenter
own_mounts "$0" "$@"
start_test

export OUTPUT_DIR=$scratch/bench BASELINE=$scratch/baseline.json README=$scratch/README.md
export QUICK=1 ROUNDS=1 CALL_FILES=5 LARGE_FILES=50 MEMORY_FILES=300 PROGRAM_FILES=20 READY_FILES='1000 2000' \
	DATA_JOBS='cached:4k:write cached:128k:read,randwrite direct:128k:read mapped:4k:randwrite' DATA_SIZE=1M IMAGE_SIZE=256M FILES=300
export QUIET_CALLS=20
result=$OUTPUT_DIR/compare.json

passes() {
	"$@" >"$scratch/log" 2>&1 && return
	sed 's/^/#  /' "$scratch/log"
	return 1
}
contenders() { jq -r --arg part "$1" '[.summary[] | select(.part == $part) | .contender] | unique | join(" ")' "$result"; }
# Rows of the first table: what the overlay is held to.
rows() { awk '/^[|]/ { if (++n > 2) print; next } n { exit }' "$scratch/table"; }
guard() { "$repository/scripts/bench-guard" "$@" >"$scratch/guard" 2>&1; }
warnings() { grep -c warning "$scratch/guard"; }

check 'all of it runs' passes "$repository/tests/bench/bench_all.sh"

ours='handed-off pending pending-shared user-namespace'
callers=$ours ceilings='ceiling ceiling-affine ceiling-awake'
[ ! -w /dev/cpu_dma_latency ] || callers=${ours/pending /pending pending-awake } \
	ceilings='ceiling ceiling-0 ceiling-affine ceiling-awake ceiling-awake-0'
check_same 'whose data is moved' "bindfs $ours" "$(contenders data | sed 's/native //;s/ passthrough_hp[a-z-]*//')"
check_same 'who is called' "bindfs $ceilings $callers" "$(contenders calls | sed 's/native //;s/ passthrough_hp//')"
check_same 'in whom programs run' "bindfs $callers" "$(contenders programs | sed 's/native //;s/ passthrough_hp//')"
check_same 'who is weighed' 'bindfs pending pending-shared user-namespace' "$(contenders memory | sed 's/ passthrough_hp//')"
check_same 'whom one waits for' 'chown, chmod fsgroupctl fsgroupfs one pass' "$(contenders ready)"
check_same 'data goes past the server' 0 \
	"$(jq '.summary[] | select(.what == "requests to read or write" and .contender == "pending") | .median' "$result")"

check 'the table' passes "$repository/scripts/bench-table" "$result"
cp "$scratch/log" "$scratch/table"
# Four of them compare with passthrough_hp, which is built by make bench.
if [ -x "$repository/build/deps/passthrough_hp-killpriv" ]; then
	wanted=48 wanted_awake=8
else
	wanted=44 wanted_awake=7
fi
[ "$callers" = "$ours" ] || wanted=$((wanted + wanted_awake))
check_same 'it has a row for everything that there is a target for' "$wanted" "$(rows | wc -l)"
check_same 'and a figure in each' '' "$(rows | awk -F ' *[|] *' '$5 !~ /^-?[0-9]/')"
check_same 'plots: how many' 13 "$(find "$OUTPUT_DIR" -name '*.svg' | wc -l)"
check_same 'plots that are not whole' '' "$(grep -L '^</svg>' "$OUTPUT_DIR"/*.svg)"

printf '%s\n' before '<!-- bench -->' old '<!-- /bench -->' after >"$README"
check 'it is put into a text' passes "$repository/scripts/bench-table" --readme "$result"
check_same 'in its place' "$(printf '%s\n' before '<!-- bench -->' '' "$(cat "$scratch/table")" '' '<!-- /bench -->' after)" \
	"$(cat "$README")"

check 'a baseline is made' guard --update "$result"
check 'against itself nothing is worse' guard "$result"
check_same '(no warning)' 0 "$(warnings)"
sed -i 's/"ratio":\([0-9.]*\),"spread":[0-9.]*/"ratio":9\1,"spread":0/' "$BASELINE"
check 'against a better one there are warnings' guard "$result"
check_same '(one for each)' "$(($(wc -l <"$BASELINE") - 1))" "$(warnings)"
jq '.quick = false' "$result" >"$scratch/long.json"
check_fails 'a long run is no baseline' guard --update "$scratch/long.json"
end_test
