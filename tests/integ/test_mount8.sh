#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mount(8) and umount(8) with volumes: fstab, options, remounts, what is refused, and how it looks to findmnt and df.
# Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq setpriv unshare mount findmnt mkfs.ext4 losetup
own_mounts "$0" "$@"
start_volume_test
show_mount_helpers

data=$scratch/data pod=$scratch/pod two=$scratch/two
mkdir "$pod" "$two" "$scratch/empty"
make_files "$data" 300
touch "$data/d0/a,b"

options_of() { findmnt -nro VFS-OPTIONS "$1"; }
has_option() { [[ ,$(options_of "$1"), == *,$2,* ]]; }
goes() { until_list "all(.[]; .target != \"$1\")"; }

# says STATUS TEXT COMMAND...: one line of error with that text.
says() {
	local wanted=$1 text=$2 status=0

	shift 2
	"$@" >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
	same "$wanted" "$status" && same 1 "$(wc -l <"$scratch/stderr")" && grep -qF -- "$text" "$scratch/stderr" && return
	sed 's/^/#  /' "$scratch/stderr"
	return 1
}

# ---- an overlay ----

on() { mount -t fsgroupfs -o "gid=$GROUP,converge_rate=1,$1" "$data" "$pod"; }

check 'mount' on 'nosuid,noatime,noexec,defaults,_netdev,nofail,x-test=1,comment=of mine,exclude="*,b",keep-private'
check_same 'it is shown to its group' "0:$GROUP:660" "$(attributes "$pod/d2/f299")"
check_same 'but for what is excluded, with a comma' 0:0 "$(stat -c %u:%g "$pod/d0/a,b")"
check_same 'findmnt: its source' "$data fuse.fsgroupfs" "$(findmnt -nrvo SOURCE,FSTYPE "$pod")"
check_same 'findmnt: and what of it is there' "$data[/volume] /volume" "$(findmnt -nro SOURCE,FSROOT "$pod")"
check_same 'findmnt: found by its type' "$pod" "$(findmnt -nro TARGET -t fuse.fsgroupfs | grep -F "$pod")"
check_same 'findmnt: its options' rw,nosuid,noexec,noatime "$(options_of "$pod")"
check_same 'df: its source' "$data" "$(df --output=source "$pod" | tail -n 1)"
check_same 'mount: a line' "$data on $pod type fuse.fsgroupfs" "$(mount | grep -F " $pod " | cut -d '(' -f 1 | sed 's/ $//')"
check_same 'on record: options' '["*,b"] true' "$(ctl store dump | jq -r '.volumes[] | .volume[0] | "\(.excludes) \(.keep_private == 1)"')"
check 'the same again is a success' on 'nosuid,noatime,noexec,exclude="*,b",keep_private'
check 'another group is refused' says 32 'another fsgroup' mount -t fsgroupfs -o gid=4243 "$data" "$pod"

check 'remount read-only' mount -o remount,ro "$pod"
check_same 'it is' ro,nosuid,noexec,noatime "$(options_of "$pod")"
check_fails 'and cannot be written' touch "$pod/d0/f0"
check 'remount writable' mount -o remount,rw,exec "$pod"
check_same 'it is' rw,nosuid,noatime "$(options_of "$pod")"
check 'and can be written' touch "$pod/d0/f0"
exec 8>>"$pod/d0/f0"
check 'remount read-only while a file is written' says 32 'open for writing' mount -o remount,ro "$pod"
exec 8>&-
check 'remount with what does not differ' mount -o "remount,gid=$GROUP,keep_private,nodev" "$pod"
check 'remount with another group' says 32 'gid cannot change by a remount' mount -o remount,gid=7 "$pod"
check 'remount with another plugin' says 32 'plugin cannot change' mount -o remount,plugin=hostPath "$pod"
check 'remount with another file of objects' says 32 'objects cannot change' mount -o remount,objects=/x "$pod"
check_same 'nothing of that has changed' rw,nosuid,nodev,noatime "$(options_of "$pod")"
kill_daemon KILL
check 'the walk is let go, by the next daemon' ctl update "$pod" --converge-rate 0
check 'one with excludes stays an overlay' ctl wait "$pod" --for converged --timeout 20
check 'an overlay: umount' umount "$pod"
check 'an overlay: is gone' goes "$pod"

check 'two of one tree: mount' on nosuid
check 'two of one tree: the second' mount -t fsgroupfs -o "gid=$GROUP,converge_rate=1,noexec" "$data" "$two"
check_same 'two of one tree: share an overlay' "$(stat -c %d "$pod")" "$(stat -c %d "$two")"
check_same 'two of one tree: each has its options' 'rw,nosuid,relatime rw,noexec,relatime' \
	"$(options_of "$pod") $(options_of "$two")"
check 'two of one tree: umount' umount "$pod" "$two"
check 'two of one tree: are gone' goes "$two"

check 'to be native: mount' mount -t fsgroupfs -o "gid=$GROUP,nodev,strictatime,converge_rate=1" "$data" "$pod"
check 'to be native: remount meanwhile' mount -o remount,ro,noexec "$pod"
check 'to be native: faster' ctl update "$pod" --converge-rate 0
check 'to be native: is' ctl wait "$pod" --for native --timeout 20
check_same 'native: it has the options that the overlay had last' "$(stat -fc %T "$data") ro,nodev,noexec" \
	"$(stat -fc %T "$pod") $(options_of "$pod")"
check 'native: remount' mount -t fsgroupfs -o remount,rw,noatime "$data" "$pod"
check_same 'native: mount(8) names both, so these are all its options' rw,noatime "$(options_of "$pod")"
check 'native: a new group makes it an overlay once more' ctl update "$pod" --fsgroup 4343
check_same 'native: with these options' rw,noatime "$(options_of "$pod")"
check 'native: another volume at its place, right after its umount' eval \
	'ctl wait "$pod" --for native --timeout 20 && umount "$pod" && mount -t fsgroupfs -o gid=7 "$scratch/empty" "$pod"'
check 'native: it becomes native' ctl wait "$pod" --for native --timeout 20
check 'native: umount -l' umount -l "$pod"
check 'native: is gone' goes "$pod"

# ---- fstab ----

{
	printf '%s %s fsgroupfs gid=%s,nosuid,nofail 0 0\n' "$data" "$pod" "$GROUP"
	printf 'none %s fsgroupfs plugin=emptyDir,gid=%s,noexec,x-systemd.automount 0 0\n' "$two" "$GROUP"
	printf '%s %s fsgroupfs gid=%s,noauto 0 0\n' "$scratch/empty" "$scratch/empty" "$GROUP"
} >"$scratch/fstab"
check 'mount -a' mount -T "$scratch/fstab" -a
check_same 'mounts the first' "$GROUP" "$(stat -c %g "$pod/d2/f299")"
check 'with its options' has_option "$pod" nosuid
check_same 'and the second' "$GROUP emptyDir" "$(stat -c %g "$two") $(ctl status "$two" --json | jq -r .plugin)"
check_fails 'and none with noauto' mountpoint -q "$scratch/empty"
check 'they become native' ctl wait "$pod" --for native --timeout 20
check 'both of them' ctl wait "$two" --for native --timeout 20
check 'mount -a again is a success' mount -T "$scratch/fstab" -a
check_same 'and mounts nothing' 1 "$(mounts_below "$scratch" | grep -cxF "$pod")"
echo precious >"$two/file"
check 'they are native' eval 'ctl wait "$pod" --for native --timeout 20 && ctl wait "$two" --for native --timeout 20'
check 'umount of both' umount "$pod" "$two"
check 'the first is gone' goes "$pod"
check 'mount by its place' mount -T "$scratch/fstab" "$two"
check_same 'data of an emptyDir is there again' precious "$(cat "$two/file")"
check 'it becomes native' ctl wait "$two" --for native --timeout 20
check 'umount' umount "$two"
check 'only fsgroupctl deletes it' ctl unmount "$two"
check_same 'then it is' '' "$(find "$FSGROUPFS_ROOT/var" -name file)"

# ---- other volumes ----

echo '{"secret": {"secretName": "s"}}' >"$scratch/spec.json"
echo '{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}}' >"$scratch/objects.json"
check 'spec and objects' mount -t fsgroupfs -o "spec=$scratch/spec.json,objects=$scratch/objects.json,gid=$GROUP" none "$pod"
check_same 'are mounted' hidden "$(cat "$pod/key")"
check 'umount' umount "$pod"
check 'hostPath' mount -r -t fsgroupfs -o plugin=hostPath,volume-id=mine "$data" "$pod"
check_same 'is read-only, and has its id' 'true hostPath' "$(ctl status mine --json | jq -r '"\(.readOnly) \(.plugin)"')"
check 'a read-only volume never becomes writable' says 32 'read-only one' mount -t fsgroupfs -o remount,rw "$data" "$pod"
check 'umount' umount "$pod"
truncate -s 16M "$scratch/image"
mkfs.ext4 -q -F "$scratch/image"
loop=$(losetup --find --show "$scratch/image")
loops+=("$loop")
check 'a block device' mount -t fsgroupfs -o "gid=$GROUP" "$loop" "$pod"
check_same 'shows its group' "$GROUP" "$(stat -c %g "$pod/lost+found")"
check 'native' ctl wait "$pod" --for native --timeout 20
check 'umount' umount "$pod"
check 'is gone' goes "$pod"

# ---- what is refused, and what is not done ----

refused() { says 1 "$1" mount -t fsgroupfs -o "$2" "$data" "$pod"; }
check 'refused: an option that is unknown' refused 'option colour: unknown' gid=7,colour=red
check 'refused: user' refused 'option user: only root' user
check 'refused: users' refused 'option users: only root' users
check 'refused: owner' says 1 'option owner: only root' "$BIN/mount.fsgroupfs" "$data" "$pod" -o owner
check 'refused: group' says 1 'option group: only root' "$BIN/mount.fsgroupfs" "$data" "$pod" -o group
check 'refused: a label for the source' says 1 'option rootcontext: an overlay has one label' \
	"$BIN/mount.fsgroupfs" "$data" "$pod" -o rootcontext=u:r:t
check 'refused: a label that is none' says 1 'option context: needs a label' "$BIN/mount.fsgroupfs" "$data" "$pod" -o context=t
label=system_u:object_r:container_file_t:s0:c1,c2
# mount(8) takes it out where SELinux is off, if it knows of SELinux at all.
if [[ ! -e /sys/fs/selinux/enforce ]]; then
	check 'refused: a label, where SELinux is off' says 32 "context=$label: SELinux is off" \
		"$BIN/mount.fsgroupfs" "$data" "$pod" -o "gid=$GROUP,context=\"$label\""
	check 'refused: fsgroupctl'\''s' refuses 1 "context=$label: SELinux is off" \
		mount --plugin local --source "$data" --target "$pod" --context "$label"
	mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
	printf '[mount]\ncontext = %s\n' "$label" >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
	check 'refused: that of mountd.conf' says 32 "context=$label of mountd.conf: SELinux is off" \
		mount -t fsgroupfs -o "gid=$GROUP" "$data" "$pod"
	check_same 'which says so' "$label" "$(ctl config check --json | jq -r '.frontEnds[] | select(.name == "mount").context')"
	check_same 'and to people' "context $label" "$(ctl config check | sed -n '/^\[mount\]/,/^\[/s/^ *\(context\)  *\(.*\)/\1 \2/p')"
	check 'refused: nothing but that' "$BIN/mount.fsgroupfs" "$data" "$pod" -o "gid=$GROUP,handoff=no,context=none"
	check 'umount' umount "$pod"
	check 'is gone' goes "$pod"
	rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
fi
check 'none of SELinux: mount' "$BIN/mount.fsgroupfs" "$data" "$pod" -o "gid=$GROUP,handoff=no,nosuid,context=none"
check_same 'none of SELinux: on record' 'nosuid,context="none"' "$(ctl store dump | jq -r '.volumes[] | .volume[0].mount_options')"
check 'none of SELinux: remount with it' "$BIN/mount.fsgroupfs" "$data" "$pod" -o remount,noexec,context=none
check_same 'none of SELinux: is remounted' rw,noexec,relatime "$(options_of "$pod")"
check_same 'none of SELinux: still on record' noexec,context=none \
	"$(ctl store dump | jq -r '.volumes[] | .volume[0].mount_options' | tr -d '"' | sed 's/.*noexec/noexec/')"
check 'refused: another with a remount' says 32 'context cannot change by a remount' \
	"$BIN/mount.fsgroupfs" "$data" "$pod" -o "remount,context=\"$label\""
check 'umount' umount "$pod"
check 'is gone' goes "$pod"
check 'refused: a value that is missing' refused 'option policy: needs a value' policy
check 'refused: a value too much' refused 'option persist: has no value' persist=7
check 'refused: a gid that is none' refused 'gid wheel: not a decimal gid' gid=wheel
check 'refused: two sources' refused 'two conflicting sources' "spec=$scratch/spec.json"
check 'refused: a policy that is unknown' says 32 'unknown policy Sometimes' \
	mount -t fsgroupfs -o gid=7,policy=Sometimes "$data" "$pod"
check 'refused: an absent source' says 32 "$scratch/nowhere" mount -t fsgroupfs -o gid=7 "$scratch/nowhere" "$pod"
check 'refused: his mount' says 1 'only root' as 65534 65534 '' "$BIN/mount.fsgroupfs" "$data" "$pod"
check 'sloppy: that is left out' mount -s -t fsgroupfs -o "gid=$GROUP,handoff=no,colour=red" "$data" "$pod"
check 'umount' umount "$pod"
check 'is gone' goes "$pod"
check 'fake: nothing is done' mount -f -t fsgroupfs -o gid=7 "$data" "$pod"
check_same 'fake: nothing is mounted' '[]' "$(ctl list --json | jq -c .)"
check 'without effect: is said' eval 'mount -t fsgroupfs -o gid=7,sync "$scratch/empty" "$pod" 2>&1 | grep -q "sync is of the source"'
check 'it becomes native' ctl wait "$pod" --for native --timeout 20
check 'umount' umount "$pod"
check 'is gone' goes "$pod"
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
printf '[mount]\nplugins = emptyDir\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'rules: what [mount] does not allow' says 32 'plugin local is not allowed' mount -t fsgroupfs -o gid=7 "$data" "$pod"
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"

# ---- other mount namespaces, other roots ----

# elsewhere COMMAND...: in a mount namespace of its own, with the propagation $spread.
spread=private
elsewhere() { unshare -m --propagation "$spread" "$@"; }
check 'place: a daemon' ctl list
files_of_daemon() { descriptors_of "$(daemon_pid)"; }
files=$(files_of_daemon)
other='in another mount namespace'
check 'place: fsgroupctl' says 1 "$other" elsewhere "$BIN/fsgroupctl" mount --plugin local --source "$data" --target "$pod"
check 'place: mount(8)' says 32 "$other" elsewhere mount -t fsgroupfs "$data" "$pod"
elsewhere "$BIN/fsgroup-flexvolume" mount "$pod" '{"plugin": "emptyDir"}' >"$scratch/answer" || true
check 'place: kubelet'\''s driver' grep -q "$other" "$scratch/answer"
check_same 'place: nothing was mounted' '[]' "$(ctl list --json | jq -c .)"
no_more_files() { [ "$(files_of_daemon)" -le "$files" ]; }
check 'place: the daemon has no more files open' within 10 no_more_files
check 'place: mount(8) with -N' elsewhere mount -N "/proc/$$/ns/mnt" -t fsgroupfs -o "gid=$GROUP,handoff=no" "$data" "$pod"
check_same 'place: is here' "$GROUP" "$(stat -c %g "$pod/d0")"
# shellcheck disable=SC2016
check 'place: a copy elsewhere is unmounted there' \
	elsewhere sh -c '"$1" "$2" && ! mountpoint -q "$2"' _ "$scratch/helpers/umount.fuse.fsgroupfs" "$pod"
check 'place: and is here still' mountpoint -q "$pod"
# shellcheck disable=SC2016
check 'place: a copy elsewhere is remounted there' elsewhere sh -c 'mount -o remount,ro "$1"' _ "$pod"
check 'place: and is writable here' has_option "$pod" rw
check 'place: -N of the helper of umount(8)' elsewhere "$scratch/helpers/umount.fuse.fsgroupfs" "$pod" -N "$$"
check_same 'place: is gone here' '[]' "$(ctl list --json | jq -c .)"
check 'place: -N that is none' says 2 'the mount namespace /dev/null' "$BIN/mount.fsgroupfs" "$data" "$pod" -N /dev/null
mount --bind "$two" "$two"
mount --make-shared "$two"
mkdir "$two/in"
spread=slave
# shellcheck disable=SC2016
check 'place: where mounts of here appear it is another matter' elsewhere sh -c \
	'"$1" mount --plugin local --source "$2" --target "$3" && mountpoint -q "$3"' _ "$BIN/fsgroupctl" "$scratch/empty" "$two/in"
check 'place: umount' umount "$two/in"
check 'place: is gone' goes "$two/in"
check 'place: nobody is in it any more' umount "$two"
mkdir "$scratch/jail"
mount --rbind / "$scratch/jail"
check 'place: another root' says 1 'has the client another root?' \
	chroot "$scratch/jail" "$BIN/fsgroupctl" mount --plugin local --source "$data" --target "$pod"
umount -R "$scratch/jail"

# ---- the helper of umount(8), which may call it or not ----

helper() { "$scratch/helpers/umount.fuse.fsgroupfs" "$@"; }
chmod -R g-s "$data"
check 'umount.fuse.fsgroupfs: mount' on handoff=no
exec 8<"$pod/d0/f0"
check 'umount.fuse.fsgroupfs: busy, and by whom' says 32 " $$ (" helper "$pod"
check 'umount.fuse.fsgroupfs: -r' helper -r "$pod"
check 'umount.fuse.fsgroupfs: makes it read-only' has_option "$pod" ro
exec 8<&-
mount --bind "$pod/d1" "$two"
check 'a bind mount of it: remount' mount -o remount,ro,nosuid "$two"
check_same 'a bind mount of it: alone has changed' 'ro,nosuid ro' "$(options_of "$two" | cut -d , -f 1,2) $(options_of "$pod" | cut -d , -f 1)"
check 'a bind mount of it: remount writable' mount -o remount,rw "$two"
check 'its volume stays as it is' has_option "$pod" ro
check 'umount.fuse.fsgroupfs: a bind mount of it' helper "$two"
check_same 'umount.fuse.fsgroupfs: is no business of the daemon' "$pod" "$(mounts_below "$scratch" | grep -F "$pod")"
check 'umount.fuse.fsgroupfs: umount' helper -v "$pod"
check_same 'umount.fuse.fsgroupfs: is waited for' '[]' "$(ctl list --json | jq -c .)"
check 'umount.fuse.fsgroupfs: once more' says 32 'Invalid argument' helper "$pod"
check 'umount.fuse.fsgroupfs: an emptyDir' ctl mount --plugin emptyDir --target "$pod" --fsgroup "$GROUP"
echo precious >"$pod/file"
check 'umount.fuse.fsgroupfs: of it' helper "$pod"
check_same 'umount.fuse.fsgroupfs: its data is kept' absent "$(state_of "$pod")"
check 'umount.fuse.fsgroupfs: unmount' ctl unmount "$pod"
kill_daemon TERM
check 'umount.fuse.fsgroupfs: an overlay without a daemon' "$fsgroupfs" -o gid=4242,handoff=no "$data" "$pod"
check 'umount.fuse.fsgroupfs: umount of that' helper "$pod"
umount /usr/sbin
check 'umount.fuse.fsgroupfs: its processes end' no_process_stays
check 'nothing is left' nothing_mounted
end_volume_test
