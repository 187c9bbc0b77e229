#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, ptrace(2).
#
# The walk among writers, and on file systems that refuse: it takes nothing that is not its, brings nothing
# back that a write took, reports what it could not do, and does it when it can.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 mkfs.xfs losetup setpriv setfacl getfacl setcap getcap xfs_io
own_mounts "$0" "$@"
start_test

gid=4242
target=$scratch/target
mkdir "$target"

begin() {
	volume=$scratch/$1
	lower=$volume/lower
	mkdir -p "$lower"
}

# COUNT files in each of 3 directories.
make_lower() {
	local i

	chattr -R -f -i -a "$lower" || true
	rm -rf "$lower"
	mkdir "$lower"
	for i in 0 1 2; do
		mkdir "$lower/dir$i"
		eval "touch '$lower/dir$i'/file{1..$1}"
	done
	chown -R 1000:1000 "$lower"
}

all_converged() {
	same '' "$(find "$lower" \( -not -gid "$gid" -o -type f -not -perm -0660 -o -type d -not -perm -2770 \) \
		-printf '%P %G:%m\n' | sed -n 1,3p)"
}

start() {
	overlay main "$lower" "$target" "gid=$gid" handoff=no "$@"
}

finish() {
	check "$1: unmounts" umount "$target"
	check "$1: no process stays" no_process_stays
}

make_volume ext4 ext4
make_volume xfs xfs

echo '# set-ID bits and capabilities do not come back after a write'
# write_at AT MODE: somebody writes before the walk's change number AT; what the file has afterwards.
write_at() {
	rm -rf "$lower"
	mkdir "$lower"
	printf 'program\n' >"$lower/program"
	chown 1000:1000 "$lower" "$lower/program"
	chmod "$2" "$lower/program"
	setcap cap_net_raw+ep "$lower/program"
	start paused
	CRASH_HOOK="setpriv --reuid 1001 --regid 1001 --clear-groups --inh-caps=-all -- dd if=/dev/zero of='$lower/program' bs=1 count=1 conv=notrunc status=none" \
		"$helpers/crash" run "$(keeper main get server_pid)" "$(keeper main get keeper_pid)" "$lower" "$1" 0 \
		"$helpers/keeper_ctl" wait "$scratch/run/main" state=converged resume >"$scratch/point" || return
	umount "$target"
	no_process_stays || return
	printf '%s %s %s\n' "$(cat "$scratch/point")" "$(stat -c '%g %a' "$lower/program")" \
		"$(getcap "$lower/program" | grep -c net_raw)"
}

for type in ext4 xfs; do
	begin "$type"
	# The file is the first that is changed; behind it comes the root.
	at=0
	for call in fchownat fchmodat2 setxattr; do
		at=$((at + 1))
		check_same "$type: a write before the walk's $call" "$call $gid 777 0" "$(write_at $at 6777)"
	done
	make_lower 1
	chmod 6755 "$lower/dir0/file1"
	setcap cap_net_raw+ep "$lower/dir1/file1"
	setfacl -m u:1001:r-- "$lower/dir2/file1"
	chmod 600 "$lower/dir2/file1"
	start
	check "$type: nobody writes: converges" keeper main wait state=converged
	finish "$type: nobody writes"
	check_same "$type: nobody writes: set-ID bits stay" 6775 "$(stat -c %a "$lower/dir0/file1")"
	check_same "$type: nobody writes: a capability stays" 1 "$(getcap "$lower/dir1/file1" | grep -c net_raw)"
	check_same "$type: an ACL's mask and entries" 'user:1001:r-- mask::rw-' \
		"$(getfacl -cpn "$lower/dir2/file1" | grep -E '^(user:1001|mask)' | tr '\n' ' ' | sed 's/ $//')"
done

echo '# access times'
begin ext4
make_lower 20
ln -s dir0 "$lower/symlink"
find "$lower" -exec touch -h -a -d '2001-01-01' {} +
mount -o remount,strictatime "$volume"
before=$(find "$lower" -printf '%P %A@\n' | sort)
# What looked just now has changed the directories' own.
find "$lower" -exec touch -h -a -d '2001-01-01' {} +
start strictatime
check 'access times: converges' keeper main wait state=converged
mount -o remount,noatime "$volume"
check_same 'access times: none has changed' "$(printf '%s\n' "$before" | awk '{ print $1 }')" \
	"$(find "$lower" -printf '%P %A@\n' | sort | awk '$NF == "978307200.0000000000" { print $1 }')"
finish 'access times'

echo '# a signal that stops and continues it'
make_lower 300
start converge_rate=400
server=$(keeper main get server_pid)
for _ in 1 2 3 4 5 6; do
	kill -STOP "$server"
	kill -CONT "$server"
done
check 'stopped and continued: converges' keeper main wait state=converged
check_same 'stopped and continued: nothing fails' 0 "$(keeper main get failed)"
check 'stopped and continued: all is done' all_converged
finish 'stopped and continued'

echo '# a full disk'
for type in ext4 xfs; do
	begin "$type"
	make_lower 50
	check "$type: is filled" fill_up "$volume/fill"
	check_fails "$type: full" dd if=/dev/zero of="$volume/more" bs=64k count=1 status=none
	start run=0123456789abcdef0123456789abcdef paused
	check "$type: full: a user's chmod" as 1000 1000 '' chmod 604 "$target/dir0/file1"
	check "$type: full: converges" keeper main wait state=converged resume
	check_same "$type: full: nothing fails" 0 "$(keeper main get failed)"
	check_same "$type: full: the user's change stays" "1000:$gid:604" "$(attributes "$lower/dir0/file1")"
	chmod 660 "$lower/dir0/file1"
	check "$type: full: all is done" all_converged
	finish "$type: full"
	rm -f "$volume/fill" "$volume/more"
done

echo '# a file system that turns read-only under it'
begin ext4
make_lower 10
start paused
mount -o remount,ro "$volume"
check 'read-only: the walk ends' keeper main wait state=converged resume
check_same 'read-only: the reason' 'read-only file system' "$(keeper main get reason)"
check_same 'read-only: all are reported' 34 "$(keeper main get failed)"
check_same 'read-only: all are shown' "1000:$gid:664" "$(attributes "$target/dir0/file1")"
mount -o remount,rw "$volume"
check 'writable again: converges' keeper main wait failed=0 converge
check 'writable again: the state' keeper main wait 'changed>=34'
check 'writable again: all is done' all_converged
finish 'read-only'

echo '# quotas'
quota_volume() {
	make_volume btrfs btrfs
	btrfs quota enable "$scratch/btrfs" >/dev/null 2>&1 && btrfs subvolume create "$scratch/btrfs/sub" >/dev/null 2>&1
}
if command -v mkfs.btrfs >/dev/null && quota_volume; then
	volume=$scratch/btrfs
	lower=$volume/sub/lower
	mkdir "$lower"
	make_lower 30
	btrfs quota rescan -w "$volume" >/dev/null 2>&1 || true
	start paused
	sync -f "$volume"
	btrfs qgroup limit 16K "$volume/sub"
	check_fails 'quota: is used up' dd if=/dev/zero of="$lower/dir0/file1" bs=64k count=16 status=none
	check 'quota: the walk ends' keeper main wait state=converged resume
	keeper main get failed reason >"$scratch/status"
	failures=$(sed -n 1p "$scratch/status")
	check 'quota: some files fail' [ "$failures" -gt 0 ]
	check_same 'quota: the reason' "$failures files could not be changed: Disk quota exceeded" \
		"$(sed -n 2p "$scratch/status")"
	btrfs quota disable "$volume"
	check 'no quota: converges by itself' keeper main wait 'changed>=94'
	check 'no quota: the walk ends' keeper main wait state=converged
	check_same 'no quota: nothing fails' 0 "$(keeper main get failed)"
	check 'no quota: all is done' all_converged
	finish 'quota'
else
	echo '# no btrfs with quotas here'
fi

echo '# a file system that fails'
for type in ext4 xfs; do
	begin "$type"
	make_lower 300
	sync -f "$volume"
	start converge_rate=40
	keeper main wait 'changed>=20'
	xfs_io -x -c shutdown "$volume" >/dev/null
	keeper main send rate rate=0 >/dev/null
	check "$type: shut down: the walk ends" keeper main wait state=converged
	keeper main get failed failure.0 >"$scratch/status"
	check "$type: shut down: failures are reported" [ "$(sed -n 1p "$scratch/status")" -gt 0 ]
	check_same "$type: shut down: with the error" 5 "$(sed -n '2s/ .*//p' "$scratch/status")"
	finish "$type: shut down"
	loop=$(findmnt -n -o SOURCE "$volume")
	mount_again "$loop" "$volume"
	start
	check "$type: mounted again: converges" keeper main wait state=converged
	check "$type: mounted again: all is done" all_converged
	finish "$type: mounted again"
done

# Inode tables of their own in each group, so that a part of the files goes with the image's end. Nothing of them is
# in the cache yet: what cannot be read cannot be changed, everything else is.
echo '# an image whose end is gone'
begin short
truncate -s 512M "$scratch/short.img"
mkfs.ext4 -q -F -b 4096 -O ^flex_bg "$scratch/short.img"
loop=$(losetup --find --show "$scratch/short.img")
loops+=("$loop")
mount "$loop" "$volume"
mkdir "$lower"
for ((i = 0; i < 16; i++)); do
	mkdir "$volume/dir$i" # below the root directories are spread over the groups
	eval "touch '$volume/dir$i'/file{1..20}"
	mv "$volume/dir$i" "$lower"
done
chown -R 1000:1000 "$lower"
mount_again "$loop" "$volume"
start paused
truncate -s 200M "$scratch/short.img"
check 'short image: the walk ends' keeper main wait state=converged resume
keeper main get failed failure.0 changed >"$scratch/status"
failures=$(sed -n 1p "$scratch/status")
check 'short image: failures are reported' [ "$failures" -gt 0 ]
check_same 'short image: with the error' 5 "$(sed -n '2s/ .*//p' "$scratch/status")"
check 'short image: what can be read is changed' [ "$(sed -n 3p "$scratch/status")" -gt 20 ]
check_same 'short image: all of it' "$(sed -n 3p "$scratch/status")" \
	"$(find "$lower" -gid $gid 2>/dev/null | wc -l)"
finish 'short image'
umount "$volume"
end_test
