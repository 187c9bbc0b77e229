#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# umount(2) by hand: the daemon hears of it and finishes the tear-down, of overlays, native, virtual and shared volumes,
# with -R and -l, while requests run and while it is down; what users have written stays; what was moved is left alone.
# Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq setpriv unshare
own_mounts "$0" "$@"
start_volume_test

data=$scratch/data pod=$scratch/pod two=$scratch/two
volumes=$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes
mkdir "$pod" "$two"
make_files "$data" 300
mkdir "$scratch/empty"

# goes ID: from the record.
goes() { until_list "all(.[]; .id != \"$1\")"; }
# becomes ID STATE REASON
becomes() { until_list "any(.[]; .id == \"$1\" and .state == \"$2\" and .reason == \"$3\")"; }

local_volume() { ctl mount --plugin local --volume-id "$1" --source "$data" --target "$2" --fsgroup "$GROUP" "${@:3}"; }
no_volume_mounts() { same '' "$(mounts_below "$volumes")" && same '' "$(ls "$volumes")"; }
has_event() { ctl events --json >"$scratch/events" && grep -qF -- "$1" "$scratch/events"; }

# ---- what is taken away ----

check 'overlay: mount' local_volume walking "$pod" --converge-rate 1
check 'overlay: umount' umount "$pod"
check 'overlay: its record goes' goes walking
check 'overlay: its server ends' no_process_stays
check 'overlay: nothing is left of it' no_volume_mounts
check 'overlay: an event says who it was' has_event "$pod was unmounted by somebody else"
check 'overlay: unmounting it once more is a success' ctl unmount "$pod"

check 'virtual: mount' local_volume virtual "$pod" --ownership virtual
check 'virtual: umount' umount "$pod"
check 'virtual: its record goes' goes virtual
check 'virtual: nothing is left of it' no_volume_mounts

check 'native: mount' local_volume native "$pod"
check 'native: becomes so' ctl wait native --for native --timeout 20
check 'native: umount' umount "$pod"
check 'native: its record goes' goes native
check 'native: nothing is left of it' no_volume_mounts

check 'plain: mount, without a group' ctl mount --plugin hostPath --source "$data" --target "$pod" --volume-id plain
check 'plain: umount' umount "$pod"
check 'plain: its record goes' goes plain

echo '{"secret": {"secretName": "s"}}' >"$scratch/secret.json"
echo '{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}}' >"$scratch/objects.json"
check 'secret: mount' ctl mount --spec "$scratch/secret.json" --objects "$scratch/objects.json" --target "$pod" \
	--fsgroup "$GROUP" --volume-id secret
check 'secret: umount' umount "$pod"
check 'secret: its record goes' goes secret
check 'secret: and its payload' no_volume_mounts

# ---- one of two consumers ----

check 'shared: mount' local_volume a "$pod" --converge-rate 1
check 'shared: a second time' local_volume b "$two" --converge-rate 1
check 'shared: umount of the first' umount "$pod"
check 'shared: its record goes' goes a
check_same 'shared: the second is served' "0:$GROUP:660" "$(attributes "$two/d2/f299")"
check 'shared: the first again' local_volume a "$pod" --converge-rate 1
check 'shared: umount of the second' umount "$two"
check 'shared: its record goes' goes b
check_same 'shared: the first is served' "0:$GROUP:660" "$(attributes "$pod/d2/f299")"
check 'shared: umount of the first' umount "$pod"
check 'shared: the last one out takes all away' goes a
check 'shared: nothing is left' no_volume_mounts
check 'shared: no process stays' no_process_stays

# ---- in use, with others below, elsewhere ----

check 'lazy: mount' local_volume lazy "$pod" --converge-rate 1
exec 8<"$pod/d2/f299"
check 'lazy: umount -l while a file is open' umount -l "$pod"
check 'lazy: its record goes' goes lazy
check_same 'lazy: the file can be read' 299 "$(cat <&8)"
exec 8<&-
check 'lazy: then the server ends' no_process_stays

mkdir "$scratch/tree"
mount -t tmpfs tmpfs "$scratch/tree"
mkdir "$scratch/tree/one" "$scratch/tree/two"
check 'recursive: mount' local_volume one "$scratch/tree/one" --converge-rate 1
check 'recursive: a second' ctl mount --plugin local --source "$scratch/empty" --target "$scratch/tree/two" \
	--fsgroup "$GROUP" --volume-id two
# The keeper, which is about to end, has the directory open in which its target was.
umount -R "$scratch/tree" 2>"$scratch/stderr" || check 'recursive: only what is above them may be busy' \
	grep -q "$scratch/tree: target is busy" "$scratch/stderr"
check 'recursive: the record of the first goes' goes one
check 'recursive: and that of the second' goes two
check 'recursive: no process stays' no_process_stays
[ -z "$(mounts_below "$scratch")" ] || check 'recursive: umount of what is above them' umount "$scratch/tree"
check 'recursive: nothing is left' no_volume_mounts

check 'moved: mount' local_volume moved "$pod"
check 'moved: native' ctl wait moved --for native --timeout 20
mount --move "$pod" "$two"
ctl reconstruct --json >"$scratch/rows"
check_same 'moved: it is reported, and left alone' 'report only' "$(jq -r '.[].action' "$scratch/rows")"
check_same 'moved: it is there' 299 "$(cat "$two/d2/f299")"
check 'moved: umount where it is' umount "$two"
check 'moved: then its record goes' goes moved

# ---- what users have written stays ----

check 'emptyDir: mount' ctl mount --plugin emptyDir --target "$pod" --fsgroup "$GROUP" --volume-id empty
echo precious >"$pod/file"
check 'emptyDir: umount' umount "$pod"
check 'emptyDir: is absent, and says why' becomes empty absent 'unmounted by somebody else; its data is kept'
check 'emptyDir: comes back' ctl mount --plugin emptyDir --target "$pod" --fsgroup "$GROUP" --volume-id empty
check_same 'emptyDir: with its data' precious "$(cat "$pod/file")"
kill_daemon KILL
umount "$pod"
check 'emptyDir: without a daemon, the same' becomes empty absent 'unmounted by somebody else; its data is kept'
check_same 'emptyDir: the data is there' precious "$(cat "$volumes/empty/data/file")"
check 'emptyDir: only unmount takes it away' ctl unmount empty
check 'emptyDir: and does' no_volume_mounts

check 'persist: mount' local_volume stays "$pod" --persist
check 'persist: native' ctl wait stays --for native --timeout 20
check 'persist: umount' umount "$pod"
check 'persist: stays on record' becomes stays absent 'unmounted by somebody else; it persists'
check_same 'persist: nothing of it is mounted' '' "$(mounts_below "$scratch")"
check 'persist: unmount' ctl unmount stays

# ---- while the daemon is down, or at work ----

check 'down: mount' local_volume walking "$pod" --converge-rate 1
check 'down: a native one' ctl mount --plugin local --source "$scratch/empty" --target "$two" --fsgroup "$GROUP" --volume-id native
kill_daemon KILL
umount "$pod" "$two"
check 'down: the next daemon takes away the first' goes walking
check 'down: and the second' goes native
check 'down: nothing is left' no_volume_mounts

# A mount that waits for its settle budget is no longer at work on the volume; one that is set up is.
check 'at work: crash after the mount' crash_at mount.presented local_volume busy "$pod" --converge-rate 1
umount "$pod"
check 'at work: mounted again' local_volume busy "$pod" --converge-rate 1
for round in 1 2 3 4 5; do
	local_volume busy "$pod" --converge-rate 1 &
	umount "$pod" || break
	wait $! || true
	ctl mount --plugin local --volume-id busy --source "$data" --target "$pod" --fsgroup "$GROUP" --converge-rate 1 || break
done
check_same 'at work: mounted and unmounted at the same time' 5 "$round"
check_same 'at work: it is mounted' "0:$GROUP:660" "$(attributes "$pod/d2/f299")"
umount "$pod"
check 'at work: its record goes' goes busy
check 'nothing is left' nothing_mounted
end_volume_test
