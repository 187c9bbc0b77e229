#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The daemon: started on demand, killed, raced for; a full disk and an unreadable store. Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq mkfs.ext4 sqlite3
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod data=$scratch/data
mkdir "$pod"

# ---- one daemon a root ----

start_race() {
	local pids=() pid status=0

	for ((i = 0; i < 8; i++)); do
		"$BIN/fsgroupctl" list --json >"$scratch/race.$i" 2>&1 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	[ "$status" = 0 ] || cat "$scratch"/race.*
	return "$status"
}

check 'eight callers race to start it' start_race
check_same 'there is one daemon' 1 "$(daemon_pid | wc -l)"
first=$(daemon_pid)
check_fails 'in a session of its own' same "$(ps -o sid= -p $$)" "$(ps -o sid= -p "$first")"
check_same 'with no terminal and no stray descriptor' /dev/null "$(readlink "/proc/$first/fd/0")"
check_same 'state directories are 0700' '700 700' \
	"$(stat -c %a "$FSGROUPFS_ROOT/var/lib/fsgroupfs" "$FSGROUPFS_ROOT/run/fsgroupfs" | paste -sd ' ')"

# Who shows events for ever has a reader no more.
mkfifo "$scratch/pipe"
timeout 20 "$BIN/fsgroupctl" events --follow >"$scratch/pipe" &
shows=$!
exec 5<"$scratch/pipe" 5<&-
status=0
wait "$shows" || status=$?
check_same 'events --follow ends with its reader' 141 "$status"
check_same 'the store is 0600' 600 "$(stat -c %a "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db")"
check_fails 'an ordinary user is refused' as 1000 1000 '' "$BIN/fsgroupctl" --root "$FSGROUPFS_ROOT" list
kill_daemon KILL
check 'its socket is stale now' test -S "$FSGROUPFS_ROOT/run/fsgroupfs/mountd.sock"
check 'the next call starts another' ctl list

# ---- its death goes unnoticed ----

make_files "$data" 2000
check 'mount, slowly' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" \
	--converge-rate 20 --volume-id live
kill_daemon KILL
check_same 'without a daemon the volume works' "0:$GROUP:660" "$(attributes "$pod/d19/f1999")"
check 'and can be written' sh -c 'echo more >"$1/d19/new"' _ "$pod"
check_same 'a new daemon adopts it' converging "$(state_of live)"
check 'speeds it up' ctl converge live --rate max
check 'and sees it become native' ctl wait live --for native --timeout 30
rm "$data/d19/new"
check 'the tree is right' is_right "$data"
kill_daemon KILL
check_same 'a native volume stays native' native "$(state_of live)"
check 'and is unmounted by its path' ctl unmount "$pod"
check 'nothing is left' nothing_mounted

check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4243 --converge-rate 100 --volume-id gone
kill_daemon KILL
umount "$pod"
no_process_stays
check 'unmounted behind its back: gone, not failed' until_list 'all(.[]; .id != "gone")'
check 'a mount brings it back' \
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4243 --converge-rate 100 --volume-id gone
check_same 'shown to its group' 4243 "$(stat -c %g "$pod/d0/f0")"
check 'unmount' ctl unmount gone
check 'nothing is left' nothing_mounted
kill_daemon TERM

# ---- a store of a newer daemon, with volumes in use ----

store() { sqlite3 "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db" "$1"; }
check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4242 --converge-rate 1 --volume-id live
kill_daemon KILL
version=$(store 'PRAGMA user_version')
store 'ALTER TABLE volume ADD COLUMN later TEXT; PRAGMA user_version = 9999'
check 'is refused by name' refuses 1 'made by a newer version' status live
check_same 'the volume is left alone' "0:4242:660" "$(attributes "$pod/d19/f1999")"
check 'and can be written' sh -c 'echo more >"$1/d19/new"' _ "$pod"
check_same 'nothing was set aside' '' "$(find "$FSGROUPFS_ROOT/var/lib/fsgroupfs" -name '*.damaged-*')"
store "ALTER TABLE volume DROP COLUMN later; PRAGMA user_version = $version"
check_same 'the right daemon goes on with it' converging "$(state_of live)"
check 'unmount' ctl unmount live
rm "$data/d19/new"
kill_daemon TERM

# ---- a store that cannot be used ----

root=$FSGROUPFS_ROOT
export FSGROUPFS_ROOT=$scratch/newer
mkdir -p "$FSGROUPFS_ROOT/var/lib/fsgroupfs" "$FSGROUPFS_ROOT/run"
chmod -R 700 "$FSGROUPFS_ROOT"
sqlite3 "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db" 'PRAGMA user_version = 9999; CREATE TABLE theirs (x);'
sum=$(sha256sum <"$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db")
check 'a newer store is refused' refuses 1 store mount --plugin emptyDir --target "$pod" --volume-id x
check_same 'and left as it is' "$sum" "$(sha256sum <"$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db")"
kill_daemon KILL

export FSGROUPFS_ROOT=$scratch/unreadable
mkdir -p "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db" "$FSGROUPFS_ROOT/run"
check 'a store that is a directory is an error' refuses 1 store mount --plugin emptyDir --target "$pod" --volume-id x
check_same 'nothing is mounted' '' "$(mounts_below "$scratch")"
kill_daemon KILL

# ---- a full disk ----

make_volume ext4 full
export FSGROUPFS_ROOT=$scratch/full
check 'mount while there is room' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4244 \
	--converge-rate 50 --volume-id before
mkdir "$scratch/second" "$scratch/full/fresh"
check 'the disk is filled' fill_up "$scratch/full/filler"
check 'a mount whose state has no room says so' refuses 1 'No space left' --root "$scratch/full/fresh" \
	mount --plugin emptyDir --target "$scratch/second" --fsgroup "$GROUP" --volume-id after
check_same 'nothing of it is left' '' "$(mounts_below "$scratch/second")"
check_same 'the volume in use goes on' 4244 "$(stat -c %g "$pod/d0/f0")"
check 'its tear-down works with no byte free' ctl unmount before
check_same 'it is gone' '' "$(mounts_below "$pod")"
kill_daemon TERM
umount "$scratch/full"
export FSGROUPFS_ROOT=$root

end_volume_test
