#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every command that README.md shows in a block marked sh, in order, and the demo with few files.
# A comment behind a command that prints is what it must print. Needs root and /dev/fuse.
#
# timeout: 600
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_volume_test

cd "$repository"
awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md >"$scratch/commands"
check 'README.md has commands' test -s "$scratch/commands"

# Here the programs are built already, and may be those of another directory.
sed -i -e '/^make$/d' -e "s|\$PWD/build/bin|$BIN|" "$scratch/commands"
export SCRATCH=$scratch
run_commands() { bash -euo pipefail "$scratch/commands" >"$scratch/printed"; }
check 'they all succeed' run_commands
sed 's/^/#  /' "$scratch/printed"
check 'the README says what stat prints' test "$(grep -c '^664 4242$' "$scratch/printed")" = \
	"$(grep -c '# 664 4242' "$scratch/commands")"

run_demo() { env DEMO_FILES=2000 TMPDIR="$scratch" BIN="$BIN" scripts/demo >"$scratch/demo" 2>&1; }
check 'the demo, with few files' run_demo
tail -n 30 "$scratch/demo" | sed 's/^/#  /'
check 'the demo found the trees equal' grep -q 'links of .* entries: equal' "$scratch/demo"
check_same 'the demo left nothing behind' '' "$(find "$scratch" -maxdepth 1 -name 'fsgroupfs-demo.*')"
end_volume_test
