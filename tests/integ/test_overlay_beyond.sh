#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# What the kernel does not pass on to FUSE (the list in README.md): it answers as for a tmpfs, which has none of it either,
# without asking the server; and when the volume is native all of it is as on the lower file system.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 mkfs.xfs losetup
own_mounts "$0" "$@"
start_test

gid=4242
target=$scratch/target
mkdir "$target"

make_files() {
	mkdir -m 700 "$1"
	truncate -s 256K "$1/a" "$1/b"
	chmod 600 "$1/a" "$1/b"
}

# answers DIR [SERVER]: one a line.
answers() { "$helpers/beyond" "$1/a" "$1/b" "${@:2}"; }

# kinds: the requests that the server has answered so far, one a line.
kinds() { keeper main get requests | tr ' ' '\n'; }

make_volume tmpfs none
make_files "$scratch/none/dir"
answers "$scratch/none/dir" >"$scratch/wanted"
check_same 'a tmpfs: has none of it' '' "$(grep -E ' ok$' "$scratch/wanted" || true)"
umount "$scratch/none"

for type in ext4 xfs; do
	make_volume "$type" "$type"
	lower=$scratch/$type/lower
	make_files "$lower"
	answers "$lower" >"$scratch/lower"
	check "$type: the lower file system has it" grep -qxF 'FIEMAP ok' "$scratch/lower"
	check "$type: swap files, too, where the kernel has any" grep -qxE 'swapon (ok|ENOSYS|EPERM)' "$scratch/lower"
	rm -r "$lower"
	make_files "$lower"
	overlay main "$lower" "$target" "gid=$gid" paused
	server=$(keeper main get server_pid)
	answers "$target" "$server" >"$scratch/overlay"
	sed 's/^/#  /' "$scratch/overlay"
	check "$type: the overlay answers as a tmpfs" same_files "$scratch/wanted" <(sed 's/ [0-9]*$//' "$scratch/overlay")
	# swapon(2) opens the file and reads its first page, as anybody does.
	check_same "$type: and its server is not asked" '' "$(grep -vE '^swapon | 0$' "$scratch/overlay" || true)"
	check "$type: of a swap file no more than its content" eval 'kinds | grep -q OPEN && ! kinds | grep -q BMAP'
	check "$type: becomes native" turns_native main resume
	check_same "$type: is" "$type" "$(type_at "$target")"
	answers "$target" >"$scratch/native"
	check "$type: and has all that the lower file system has" same_files "$scratch/lower" "$scratch/native"
	umount "$target"
	check "$type: no process stays" no_process_stays
	umount "$scratch/$type"
done
end_test
