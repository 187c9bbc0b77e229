#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Volumes on block devices, through fsgroupctl and the daemon: staged once, mounted for several consumers, unstaged;
# formatted only where that was asked for and the device is empty by every measure; checked; told apart from other
# devices. Needs root, /dev/fuse and loop devices.
set -euo pipefail
# shellcheck source=tests/integ/lib_block.sh
. "$(dirname "$0")/lib_block.sh"
need_root
need_fuse
need_tools jq losetup addpart delpart mkfs.ext4 mkfs.xfs mkfs.btrfs mkswap debugfs e2fsck sha256sum unshare
own_mounts "$0" "$@"
start_block_test

pod=$scratch/pod other=$scratch/other
mkdir "$pod" "$other"

# ---- three file systems: staged, mounted for two consumers, given back ----

for type in ext4 xfs btrfs; do
	case $type in
	ext4) size=64M ;;
	xfs) size=320M ;;
	btrfs) size=128M ;;
	esac
	loop "$type" "$size"
	spec "$type" ",\"fsType\":\"$type\""
	check "$type: an empty device is not formatted unless that is asked for" no_stage 'not to be formatted' "$type"
	check_same "$type: and nothing is written to it" 0 "$(stat -c %b "$scratch/$type.img")"
	check "$type: nothing is on record then" refuses 4 "$type" status "$type"
	check "$type: stage, formatting" stage "$type" --format
	check_same "$type: its id is printed" "$type" "$(cat "$scratch/stdout")"
	at=$volumes/$type/device
	check_same "$type: it is mounted once" "$at" "$(mounts_of "$loop")"
	check_same "$type: with this file system" "$type" "$(type_at "$at")"
	check_same "$type: its state" staged "$(state_of "$type")"
	check "$type: the same again is a success" stage "$type" --format
	check_same "$type: and mounts nothing" "$at" "$(mounts_of "$loop")"
	check "$type: with other options it is refused" no_stage 'another device, file system type or mount options' \
		"$type" --mount-options noatime
	make_files "$at" 120
	# Without hand-off, so that the second consumer surely shares the overlay of the first.
	check "$type: mount" \
		ctl mount --staged "$type" --target "$pod" --fsgroup "$GROUP" --volume-id one --handoff no
	check_same "$type: a file is shown to the group at once" "0:$GROUP:660" "$(attributes "$pod/d1/f119")"
	check "$type: mount for a second consumer" \
		ctl mount --staged "$type" --target "$other" --fsgroup "$GROUP" --volume-id two --handoff no
	check "$type: the same mount again is a success" \
		ctl mount --staged "$type" --target "$other" --fsgroup "$GROUP" --volume-id two --handoff no
	check_same "$type: it is shown to the second too" "0:$GROUP:660" "$(attributes "$other/d1/f119")"
	check "$type: another group at the same time is refused" refuses 1 '' \
		mount --staged "$type" --target "$scratch/run" --fsgroup 4243
	check_same "$type: status names its consumers" 'one two' "$(field_of "$type" '.device.consumers | join(" ")')"
	check "$type: it converges" ctl wait one --for converged --timeout 20
	check "$type: the tree is right" is_right "$at/d0"
	check "$type: in use by two volumes it is not unstaged" refuses 1 'in use by 2 volumes' unstage "$type"
	check "$type: it is not unmounted either" refuses 1 'unstage it' unmount "$type"
	check "$type: unmount" ctl unmount one
	check "$type: in use by one volume it is not unstaged" refuses 1 'in use by 1 volume: two at' unstage "$type"
	check "$type: unmount by path" ctl unmount "$other"
	check "$type: unmount again is a success" ctl unmount "$other"
	check "$type: unstage" ctl unstage "$type"
	check "$type: the device is free" is_free "$loop"
	check_same "$type: nothing is on record" '[]' "$(ctl list --json | jq -c .)"
	check_same "$type: no directory stays" '' "$(ls "$volumes")"
	check "$type: unstage again is a success" ctl unstage "$type"
	check "$type: staged again, not formatted" stage "$type" --format
	check_same "$type: the files are there" 120 "$(find "$at" -type f -name 'f*' | wc -l)"
	check "$type: fsGroup unset: mount" ctl mount --staged "$type" --target "$pod"
	check_same "$type: fsGroup unset: bound at once" native "$(state_of "$pod")"
	check "$type: fsGroup unset: unmount" ctl unmount "$pod"
	check "$type: with a fsGroup it becomes native" eval \
		'ctl mount --staged "$type" --target "$pod" --fsgroup "$GROUP" && ctl wait "$pod" --for native --timeout 20'
	check_same "$type: and is the file system itself" "$type" "$(type_at "$pod")"
	check "$type: unmount" ctl unmount "$pod"
	check "$type: unstage" ctl unstage "$type"
done

# ---- what is not empty is not formatted, and not touched ----

loop victim 64M
image=$scratch/victim.img
spec victim

# keeps TEXT WORDS [LOOP-OPTION]: the image as it is now is refused for WORDS, and is the same afterwards.
keeps() {
	local text=$1 words=$2 before

	reloop "$image" ${3:+"$3"}
	before=$(sum_of "$image")
	check "not formatted: $text" no_stage "$words" victim --format
	check_same "not touched: $text" "$before" "$(sum_of "$image")"
}

blank() {
	truncate -s 0 "$image"
	truncate -s 64M "$image"
}

write_at() {
	printf "$2" | dd of="$image" bs=1 seek="$1" conv=notrunc status=none
}

blank && write_at 700000 x
keeps 'a byte in the first MiB' 'it is not empty'
blank && write_at $(((64 << 20) - 1)) x
keeps 'the last byte' 'it is not empty'
blank && mkswap -q "$image" >/dev/null 2>&1
keeps 'swap space' 'holds swap'
blank && write_at 446 '\0\0\0\0\203\0\0\0\0\010\0\0\0\010\0\0' && write_at 510 '\125\252'
keeps 'a partition table' 'a partition table'
blank && write_at 512 'LABELONE\1\0\0\0\0\0\0\0\1\2\3\4\40\0\0\0LVM2 001AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
keeps 'a superblock with a wrong checksum' 'LVM2_member with a wrong checksum'
# Not every checksum is known to libblkid.
blank && mkfs.ext4 -q -F -O metadata_csum "$image" && write_at $((1024 + 120)) 'damaged'
keeps 'a damaged ext4' 'e2fsck'
cp --sparse=always "$scratch/xfs.img" "$image" && write_at 108 'damaged'
keeps 'a damaged xfs' 'mounting'
blank && mkfs.ext4 -q -F "$image"
spec victim ',"fsType":"xfs"'
keeps 'another file system' 'holds ext4, not xfs'
spec victim
blank
keeps 'a read-only device' 'is read-only' --read-only
# Superblocks of two file systems, each of them whole.
cp --sparse=always "$scratch/xfs.img" "$image"
dd if="$scratch/btrfs.img" of="$image" bs=4096 skip=16 seek=16 count=1 conv=notrunc status=none
keeps 'two file systems' 'several file systems'

blank
reloop "$image"
coproc holder { "$helpers/hold" claim "$loop"; }
read -r _ <&"${holder[0]}"
check 'a device that a process has claimed is refused, naming it' no_stage "held by process" victim --format
eval "exec ${holder[1]}>&-"
wait "${holder_PID:-}" 2>/dev/null || true
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
printf '[ctl]\nformat = no\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'mountd.conf may forbid formatting' no_stage "format = yes" victim --format
printf '[ctl]\nsources = /srv\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'mountd.conf may forbid the device' no_stage "sources" victim --format
printf '[ctl]\nplugins = local\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'mountd.conf may forbid the plugin' no_stage "plugins" victim --format
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check_same 'still nothing is written to it' 0 "$(stat -c %b "$image")"
check 'what is no device is refused' refuses 1 'not a block device' \
	stage --spec "$scratch/spec.json" --device "$image" --volume-id victim
check 'an unknown file system is not made' no_stage 'not a file system that is made here' victim --format \
	--fs-type minix
check 'options that need another kind of mount are refused' no_stage 'options that cannot be used' victim --format \
	--mount-options bind
check 'after that it is a file system' stage victim --mount-options noatime,nodev,x-systemd.automount
check_same 'mount options reach the mount' 'rw,nodev,noatime' \
	"$(awk -v dev="$loop" '$NF != "" && index($0, dev) { print $6 }' /proc/self/mountinfo)"
check 'unstage' ctl unstage victim

# ---- e2fsck ----

needs_check() {
	debugfs -w -R "$1" "$image" >/dev/null 2>&1
	debugfs -w -R 'set_super_value state 2' "$image" >/dev/null 2>&1
	reloop "$image"
}

needs_check 'set_inode_field <11> links_count 7'
check_fails 'the file system has errors' e2fsck -fn "$image"
check 'stage checks it first' stage victim
check 'unstage' ctl unstage victim
check 'the errors are gone' eval 'e2fsck -fn "$image" >/dev/null 2>&1'
needs_check 'clri <2>'
before=$(debugfs -R 'stat <2>' "$image" 2>&1)
check 'what preen mode does not mend is refused' no_stage 'e2fsck' victim
check_same 'and nobody mends it otherwise' "$before" "$(debugfs -R 'stat <2>' "$image" 2>&1)"
check 'nothing is on record' refuses 4 victim status victim

# ---- busy ----

blank
reloop "$image"
mkdir "$scratch/staging" "$scratch/elsewhere"
check 'stage at a path of the caller' stage victim --format --staging "$scratch/staging"
check_same 'it is mounted there' "$scratch/staging" "$(mounts_of "$loop")"
check 'another device at this path is refused' no_stage 'staged at this path' second --staging "$scratch/staging"
cd "$scratch/staging"
check 'a busy staging path is an error' refuses 1 'busy' unstage victim
cd /
check_same 'and it is still staged' staged "$(state_of victim)"
mount "$loop" "$scratch/elsewhere"
check 'while the device is mounted elsewhere it is not free' refuses 1 "mounted at $scratch/elsewhere" unstage victim
check 'a mount namespace that has it mounted is found' eval \
	'coproc holder { unshare -m --propagation private sh -c "umount \"\$1\" && mount \"\$2\" \"\$1\" && echo ready && read -r _" _ \
		"$scratch/elsewhere" "$loop"; } 2>/dev/null
	read -r _ <&"${holder[0]}" && umount "$scratch/elsewhere" && refuses 1 "in the mount namespace of process" unstage victim'
eval "exec ${holder[1]}>&-"
wait "${holder_PID:-}" 2>/dev/null || true
mount "$loop" "$scratch/elsewhere"
check_same 'that is on record' tearing-down "$(state_of victim)"
umount "$scratch/elsewhere"
check 'then unstage, by path' ctl unstage "$scratch/staging"
check 'the device is free' is_free "$loop"
check 'a directory of the caller stays' test -d "$scratch/staging"
check 'what others have mounted is not unstaged' eval \
	'mount "$loop" "$scratch/staging" && refuses 1 "not ours" unstage "$scratch/staging"; umount "$scratch/staging"'
mount "$loop" "$scratch/staging"
check 'nothing is staged over a foreign mount' no_stage 'mounted there' victim --staging "$scratch/staging"
check 'which stays' mountpoint -q "$scratch/staging"
check 'a device that is mounted already is not staged' no_stage "mounted at $scratch/staging" victim
umount "$scratch/staging"

# ---- another device behind the same path ----

real=$loop
ln -s "$real" "$scratch/link"
loop=$scratch/link
check 'stage' stage victim
kill_daemon KILL
umount "$volumes/victim/device"
cp --sparse=always "$image" "$scratch/impostor.img"
mkfs.ext4 -q -F "$scratch/impostor.img"
impostor=$(losetup --find --show "$scratch/impostor.img")
loops+=("$impostor")
ln -sfn "$impostor" "$scratch/link"
check 'its absence is found' eval '[ "$(state_of victim)" = absent ]'
check 'another device behind the same path is refused' no_stage 'another device than the recorded one: its file system UUID' \
	victim
check 'a consumer is told' refuses 1 'is not staged' mount --staged victim --target "$pod"
truncate -s 65M "$scratch/impostor.img"
losetup -c "$impostor"
check 'so is a larger one' no_stage 'its file system UUID' victim
truncate -s 63M "$scratch/impostor.img"
losetup -c "$impostor"
check 'so is a smaller one' no_stage 'its size is' victim
ln -sfn "$real" "$scratch/link"
check 'the recorded one is staged' stage victim
check_same 'so that it can be used' staged "$(state_of victim)"
check 'unstage' ctl unstage victim
loop=$real

# ---- partitions ----

blank
write_at 446 '\0\0\0\0\203\0\0\0\0\010\0\0\0\220\1\0' && write_at 510 '\125\252'
reloop "$image" --partscan
# Where the kernel reads no partition tables it is told of the partition.
[ -b "${loop}p1" ] || addpart "$loop" 1 2048 102400
if [ -b "${loop}p1" ]; then
	spec victim ',"partition":2'
	check 'a partition that is not there is refused' no_stage 'has no partition 2' victim --format
	spec victim ',"partition":1'
	check 'stage a partition' stage victim --format
	check_same 'it is that partition' "$volumes/victim/device" \
		"$(mounts_of "${loop}p1")"
	check 'unstage' ctl unstage victim
	spec victim
	check 'the whole device is not formatted' no_stage 'a partition table' victim --format
	delpart "$loop" 1
else
	printf 'skipped: partitions: no node %s\n' "${loop}p1"
fi

# ---- many at once ----

blank
reloop "$image"
spec victim
stage_all() {
	local job jobs=() failed=0

	for _ in 1 2 3 4 5; do
		"$BIN/fsgroupctl" stage --spec "$scratch/spec.json" --device "$loop" --volume-id victim --format \
			>/dev/null 2>>"$scratch/many" &
		jobs+=($!)
	done
	for job in "${jobs[@]}"; do
		wait "$job" || failed=1
	done
	return "$failed"
}
mount_all() {
	local job jobs=() failed=0

	for i in 1 2 3 4 5 6; do
		mkdir -p "$scratch/many.$i"
		"$BIN/fsgroupctl" mount --staged victim --target "$scratch/many.$i" 2>>"$scratch/many" &
		jobs+=($!)
	done
	for job in "${jobs[@]}"; do
		wait "$job" || failed=1
	done
	return "$failed"
}
check 'five stages at once' stage_all
check_same 'mount once' "$volumes/victim/device" "$(mounts_of "$loop")"
check 'six consumers at once' mount_all
check 'all count' refuses 1 'in use by 6 volumes' unstage victim
check 'unmount --all leaves the device' eval 'ctl unmount --all && [ "$(state_of victim)" = staged ]'
check 'unstage' ctl unstage victim

# ---- a local volume on a device ----

blank
reloop "$image"
check 'local: an empty device is never formatted' refuses 1 'holds no file system' \
	mount --plugin local --source "$loop" --target "$pod" --volume-id l1
check_same 'local: nothing is written to it' 0 "$(stat -c %b "$image")"
mkfs.ext4 -q -F "$image"
check 'what is not staged is not mounted' refuses 1 'staged first' \
	mount --spec "$scratch/spec.json" --target "$pod" --volume-id l1
cat >"$scratch/objects.json" <<-EOF
	{"kind": "List", "items": [
	{"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default", "uid": "u"},
	 "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}},
	{"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"mountOptions": ["noatime"],
	 "claimRef": {"name": "c", "namespace": "default", "uid": "u"}, "local": {"path": "$loop"}}}]}
EOF
echo '{"persistentVolumeClaim": {"claimName": "c"}}' >"$scratch/claim.json"
check 'local: through a claim' ctl mount --spec "$scratch/claim.json" --objects "$scratch/objects.json" \
	--target "$pod" --fsgroup "$GROUP" --volume-id l1
check_same 'local: with the options of its PersistentVolume' 1 "$(grep -c "$pod .*noatime" /proc/self/mountinfo)"
check 'local: unmount the claim' ctl unmount l1
check 'local: mount' ctl mount --plugin local --source "$loop" --target "$pod" --fsgroup "$GROUP" --volume-id l1
check 'local: mount for a second consumer' \
	ctl mount --plugin local --source "$loop" --target "$other" --fsgroup "$GROUP" --volume-id l2
touch "$pod/file"
check 'local: both see the same files' test -e "$other/file"
check 'local: unmount' ctl unmount l1
check 'local: unmount the other' ctl unmount l2
check 'local: the device is free' is_free "$loop"

# ---- read-only ----

spec victim ',"readOnly":true'
before=$(sum_of "$image")
check 'read-only: stage' stage victim
check 'read-only: mount' ctl mount --staged victim --target "$pod" --fsgroup "$GROUP"
check_fails 'read-only: nothing can be written' touch "$pod/new"
check 'read-only: unmount' ctl unmount "$pod"
check 'read-only: unstage' ctl unstage victim
check 'read-only: not formatted either' eval \
	'blank_image "$image"; no_stage "the volume is read-only" victim --format'
spec victim

# ---- the machine restarts ----

blank_image "$image"
check 'restart: stage' stage victim --format
check 'restart: mount' ctl mount --staged victim --target "$pod" --fsgroup "$GROUP" --volume-id one
check 'restart: native' ctl wait one --for native --timeout 20
kill_daemon TERM
umount "$pod"
mounts_below "$FSGROUPFS_ROOT" | tac | xargs -r umount
export FSGROUPFS_BOOT_ID=11111111-2222-3333-4444-555555555555
check_same 'restart: absent, both' 'absent absent' "$(state_of victim) $(state_of one)"
check_same 'restart: nothing is mounted by itself' '' "$(mounts_of "$loop")"
check 'restart: the consumer waits for its device' refuses 1 'not staged' \
	mount --staged victim --target "$pod" --fsgroup "$GROUP" --volume-id one
check 'restart: stage' stage victim --format
check 'restart: mount' ctl mount --staged victim --target "$pod" --fsgroup "$GROUP" --volume-id one
check 'restart: unmount' ctl unmount one
check 'restart: unstage' ctl unstage victim
check 'nothing is left' nothing_mounted

end_volume_test
