#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, user namespaces, loop devices, and the mkfs of ext4, xfs and btrfs.
# timeout: 300
#
# As test_differential.sh, with the overlay and the users in a user namespace: on file systems that root outside shows
# them by idmapped mounts, and on a tmpfs of their own.
# shellcheck source=tests/integ/lib_differential.sh
. "$(dirname "$0")/lib_differential.sh"
unshare -Ur true 2>/dev/null || skip 'needs user namespaces'
start_differential "$@"

# try_on TYPE WHOSE MODE COHERENCE DURABLE
try_on() {
	check "$1 ($2), $3, $4" "$differential" --fs "$1" --userns "$2" --mode "$3" --coherence "$4" --durable "$5" \
		--atime relatime --seed "${DIFFERENTIAL_SEED:-1}" --steps "${DIFFERENTIAL_STEPS:-1800}" --shrink 20
}

for type in tmpfs ext4 xfs btrfs; do
	try_on "$type" mapped converging shared yes
	try_on "$type" mapped converging exclusive no
	try_on "$type" mapped paused exclusive yes
done
try_on tmpfs own converging exclusive yes
try_on tmpfs own paused shared no

# The same with few descriptors, of which the users' open files take a third: the kernel is asked to forget all the time.
if has_prune; then
	ulimit -n 150
	try_on ext4 mapped converging shared no
	try_on tmpfs own converging exclusive no
fi
end_test
