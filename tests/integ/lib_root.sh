# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_root.sh: a machine's root directory to install into: what is written there is gone at the end.
#
#   make_root              at $root: all that this machine has, writable copies of it (overlayfs on a tmpfs), with empty
#                          /run, /tmp, /srv and /mnt that are tmpfs of their own. Skips where there is no overlayfs.
#   in_root COMMAND...     runs a command there, without the test's FSGROUPFS_ROOT and with a PATH as root has it
#
# To be sourced after lib.sh; the test has a mount namespace of its own (own_mounts), and the mounts end with it.

make_root() {
	local dir

	root=$scratch/machine
	mkdir "$scratch/writes" "$root"
	mount -t tmpfs -o mode=755 tmpfs "$scratch/writes"
	mkdir "$scratch/writes/upper" "$scratch/writes/work"
	mount -t overlay -o "lowerdir=/,upperdir=$scratch/writes/upper,workdir=$scratch/writes/work" overlay "$root" 2>/dev/null ||
		skip 'needs an overlayfs of /'
	for dir in run tmp srv mnt; do
		mount -t tmpfs -o mode=755 tmpfs "$root/$dir"
	done
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount --rbind /dev "$root/dev"
}

in_root() {
	env -u FSGROUPFS_ROOT -u FSGROUPFS_LIBEXEC PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
}
