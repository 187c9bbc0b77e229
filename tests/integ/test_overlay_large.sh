#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# The walk's memory does not grow with the number of files, and with their depth by a few hundred bytes a level.
#
#   ENTRIES=40000   in one directory (make test-large: ten million)
#   DEPTH=2000      directories in each other (make test-large: ten thousand)
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.xfs losetup
own_mounts "$0" "$@"
start_test

ENTRIES=${ENTRIES:-40000}
DEPTH=${DEPTH:-2000}
gid=4242
target=$scratch/target
volume=$scratch/volume
lower=$volume/lower
export KEEPER_CTL_TIMEOUT=3600
mkdir "$target" "$volume"
truncate -s $((1 + ENTRIES / 500000))G "$volume.img"
truncate -s '>1G' "$volume.img"
mkfs.xfs -q -f "$volume.img"
loop=$(losetup --find --show "$volume.img")
loops+=("$loop")
mount "$loop" "$volume"

# walk FILES DEPTH: $peak is the most memory, in KiB, that the server had after converging so many files in one
# directory, and a file below so many directories; $descriptors what it holds then.
walk() {
	local pid

	"$helpers/tree" remove "$lower" 2>/dev/null || true
	rm -rf "$lower"
	mkdir -p "$lower/many" "$lower/deep"
	"$helpers/many" files "$lower/many" "$1"
	"$helpers/many" deep "$lower/deep" "$2"
	overlay main "$lower" "$target" "gid=$gid" handoff=no paused
	pid=$(keeper main get server_pid)
	keeper main wait state=converged resume || return
	peak=$(awk '$1 == "VmHWM:" { print $2 }' "/proc/$pid/status")
	same "$(($1 + $2 + 4)) 0" "$(keeper main get changed failed | tr '\n' ' ' | sed 's/ $//')" || return
	umount "$target"
	no_process_stays
}

# grown FILES DEPTH KIB: by so much at most, against the first walk.
grown() {
	walk "$1" "$2" || return
	printf '#  %d files, %d deep: %d KiB, %+d\n' "$1" "$2" "$peak" $((peak - first))
	# A sanitizer keeps what was freed: then only the walk itself is looked at.
	[ -n "$is_sanitized" ] || [ $((peak - first)) -le "$3" ]
}

check 'a thousand files, a hundred deep' walk 1000 100
first=$peak
check 'many files take no more memory' grown "$ENTRIES" 100 1024
check 'a deep tree takes less than a KiB for each level' grown 1000 "$DEPTH" $((1024 + DEPTH))
end_test
