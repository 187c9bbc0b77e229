#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every command that README.md and scripts/CONTRIBUTING.md show in a block marked sh, in order, and the demo with few
# files. Needs root and /dev/fuse.
#
# timeout: 600
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
# shellcheck source=tests/integ/lib_document.sh
. "$(dirname "$0")/lib_document.sh"
need_root
need_fuse
need_tools jq gdb
own_mounts "$0" "$@"
start_volume_test
show_mount_helpers

cd "$repository"
export SCRATCH

# Here the programs are built already, and may be those of another directory.
run_document() {
	SCRATCH=$scratch/${2:-$1}
	mkdir -p "$SCRATCH"
	commands_of "$1" | sed -e '/^make$/d' -e "s|\$PWD/build/bin|$BIN|" -e "s|\$PWD/build/tests|$TESTBIN|" >"$SCRATCH/commands"
	check "$1 has commands" test -s "$SCRATCH/commands"
	check 'they do what it says' run_commands "$SCRATCH/commands"
	FSGROUPFS_ROOT=$SCRATCH/root ctl unmount --all
	FSGROUPFS_ROOT=$SCRATCH/root kill_daemon TERM
}
run_document README.md readme
run_document scripts/CONTRIBUTING.md contributing

sed -n 's/.*\[VOLUME_[A-Z_]*\].*"\([a-z-]*\)".*/\1/p' store/states.c | sort -u >"$scratch/states"
check 'there are states' test "$(wc -l <"$scratch/states")" -ge 10
check_same 'the README says of each what it means' '' \
	"$(while read -r state; do grep -qE "^\| .*\`$state\`.* \|.*\|.*\|$" README.md || echo "$state"; done <"$scratch/states")"

# Of each reason that the programs give, the longest piece that is always the same.
grep -ohE '(ret_reason|->reason), 256, "[^"]+"|reason\[256\] = "[^"]+"|->reason = (IGNORED )?"[^"]+"|refuse\(r, "[^"]+"' \
	fs/*.c mountd/plan.c | sed 's/[^"]*"\(.*\)"/\1/' | awk '{
		longest = ""
		count = split($0, pieces, /%[a-z]*/)
		for (i = 1; i <= count; i++)
			if (length(pieces[i]) > length(longest))
				longest = pieces[i]
		if (longest ~ /[a-z]/)
			print longest
	}' | sort -u >"$scratch/reasons"
check 'there are reasons' test "$(wc -l <"$scratch/reasons")" -gt 15
unsaid() {
	while IFS= read -r reason; do
		grep -qF -- "$reason" README.md || printf '%s\n' "$reason"
	done <"$scratch/reasons"
}
check_same 'the README says of each what to do' '' "$(unsaid)"

run_demo() { env DEMO_FILES=2000 TMPDIR="$scratch" BIN="$BIN" scripts/demo >"$scratch/demo" 2>&1; }
check 'the demo, with few files' run_demo
tail -n 30 "$scratch/demo" | sed 's/^/#  /'
check 'the demo found the trees equal' grep -q 'links of .* entries: equal' "$scratch/demo"
check_same 'the demo left nothing behind' '' "$(find "$scratch" -maxdepth 1 -name 'fsgroupfs-demo.*')"
end_volume_test
