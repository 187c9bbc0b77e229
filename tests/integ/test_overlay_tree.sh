#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, and the mkfs of ext4, xfs and btrfs.
#
# What is shown at once, what converging makes of it, and what is there after the hand-off: each of
# them equals a copy of the tree that was changed eagerly.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 mkfs.xfs mkfs.btrfs losetup
own_mounts "$0" "$@"
start_test

gid=4242

dump() {
	"$helpers/tree" dump "$1" >"$2"
}

compare() {
	dump "$2" "$scratch/got"
	check "$1" same_files "$scratch/wanted" "$scratch/got"
}

try_on() {
	local type=$1 volume=$scratch/$1

	make_volume "$type" "$type"
	mkdir "$volume/lower" "$volume/eager" "$volume/target"
	chmod 750 "$volume/lower"
	"$helpers/tree" make "$volume/lower"
	"$helpers/tree" copy "$volume/lower" "$volume/eager"
	dump "$volume/lower" "$scratch/before"
	dump "$volume/eager" "$scratch/got"
	check "$type: the copy is a copy" same_files "$scratch/before" "$scratch/got"
	"$helpers/tree" apply "$volume/eager" "$gid"
	dump "$volume/eager" "$scratch/wanted"

	check "$type: mounts" overlay "$type" "$volume/lower" "$volume/target" "gid=$gid" paused
	compare "$type: the presented tree equals the eager copy" "$volume/target"
	dump "$volume/lower" "$scratch/got"
	check "$type: nothing is written while paused" same_files "$scratch/before" "$scratch/got"

	check "$type: becomes native" turns_native "$type" resume
	check_same "$type: the file system itself is at the target" "$type" "$(type_at "$volume/target")"
	compare "$type: the converged tree equals the eager copy" "$volume/lower"
	compare "$type: the native tree equals the eager copy" "$volume/target"
	check "$type: unmounts" umount "$volume/target"
	check "$type: no process stays" no_process_stays
	umount "$volume"
}

for type in tmpfs ext4 xfs btrfs; do
	try_on "$type"
done
end_test
