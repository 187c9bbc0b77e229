#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_all.sh: all benchmarks, one after the other; then plots and tables, and after a quick run a look at the baseline.
# Needs root, /dev/fuse and loop devices.
#
#   QUICK=1    the comparison and the walk alone, small: under three minutes; else about an hour
#   BENCHES="compare converge"   these alone
#   ROUNDS, TYPES, PARTS, ...    as those say: PARTS is for bench_compare.sh
#
# One that fails does not keep the others from being run, nor what they measured from being shown; the exit status says so.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
repository=$(realpath "$here/../..")
OUTPUT_DIR=${OUTPUT_DIR:-$repository/build/bench}
failed=()

run() {
	local name=$1 began=$SECONDS

	shift
	printf '# bench_%s\n' "$name"
	env "$@" "OUTPUT=$OUTPUT_DIR/$name.json" "$here/bench_$name.sh" || failed+=("$name")
	printf '# bench_%s took %d s, %d s in all\n' "$name" $((SECONDS - began)) "$SECONDS"
}

mkdir -p "$OUTPUT_DIR"
if [ -n "${QUICK:-}" ]; then
	BENCHES=${BENCHES:-compare converge}
	walk=("FILES=${FILES:-10000}" "QUIET_CALLS=${QUIET_CALLS:-1000}" "ROUNDS=${ROUNDS:-3}" "TYPES=${TYPES:-ext4}"
		'PARTS=warm cold foreground')
else
	BENCHES=${BENCHES:-compare converge handoff restart upgrade memory call}
	walk=(-u PARTS)
fi
# What an earlier run has left is not taken for what this one measured.
for bench in $BENCHES; do
	rm -f "$OUTPUT_DIR/$bench.json"
done
rm -f "$OUTPUT_DIR"/*.svg
for bench in $BENCHES; do
	case $bench in
	compare) run compare ;;
	converge) run converge "${walk[@]}" ;;
	*) run "$bench" -u PARTS ;;
	esac
done
if [ -r "$OUTPUT_DIR/compare.json" ]; then
	"$repository/scripts/bench-plot" "$OUTPUT_DIR/compare.json"
	"$repository/scripts/bench-table" "$OUTPUT_DIR/compare.json"
	[ -z "${QUICK:-}" ] || "$repository/scripts/bench-guard" "$OUTPUT_DIR/compare.json"
fi
printf '# %d s; JSON and plots are in %s\n' "$SECONDS" "$OUTPUT_DIR"
[ ${#failed[@]} = 0 ] || printf '# failed: %s\n' "${failed[*]}"
[ ${#failed[@]} = 0 ]
