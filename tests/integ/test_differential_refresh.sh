#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, and the mkfs of ext4, xfs and btrfs.
# timeout: 300
#
# As test_differential.sh, while the lower tree is changed behind the overlay's back, and A the same: new files and
# directories, some in place of others, content, links, removals, moves. All is equal again when the second that the
# kernel may keep what it knows is over. Most of the time is that second: one file system does not wait for another.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib_differential.sh
. "$(dirname "$0")/lib_differential.sh"
start_differential "$@"

ends_well() {
	wait "$1" && return
	sed 's/^/#  /' "$2"
	return 1
}

# refreshed TEXT OPTION...: on all file systems at once.
refreshed() {
	local text=$1 type
	local -A running=()

	shift
	for type in tmpfs ext4 xfs btrfs; do
		"$differential" --fs "$type" --refresh --coherence shared --atime relatime --seed "${DIFFERENTIAL_SEED:-1}" \
			--steps "${DIFFERENTIAL_STEPS:-600}" --shrink 20 "$@" >"$scratch/$type.log" 2>&1 &
		running[$type]=$!
	done
	for type in "${!running[@]}"; do
		check "$type, $text" ends_well "${running[$type]}" "$scratch/$type.log"
		check "$type, $text: there were changes" grep -q '^ *[1-9][0-9]* changes were made' "$scratch/$type.log"
	done
}

refreshed paused --mode paused --durable yes
refreshed converging --mode converging
refreshed killed --mode converging --kill 60

if unshare -Ur true 2>/dev/null; then
	refreshed 'in a user namespace' --mode paused --durable yes --userns mapped
else
	echo 'ok - in a user namespace # SKIP needs user namespaces'
fi
end_test
