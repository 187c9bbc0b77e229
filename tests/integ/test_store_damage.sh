#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What disks do to a store: flipped bytes, a torn file, a full disk, a read-only one. Volumes in use go on, nothing
# that is mounted is forgotten, nothing is deleted. DAMAGE_ROUNDS=N flips more often. Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq mkfs.ext4 python3
own_mounts "$0" "$@"
start_volume_test

rounds=${DAMAGE_ROUNDS:-12}
seed=${DAMAGE_SEED:-$RANDOM}
state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
for pod in a b c d; do
	mkdir "$scratch/$pod"
done
make_files "$scratch/data" 200
make_files "$scratch/other" 50
printf '# DAMAGE_SEED=%s\n' "$seed"

facts() {
	ctl list --json | jq -S 'map({id, plugin, source, target, fsGroup, policy, ownership, readOnly, createdAt, state})'
}

# flip FILE SEED: overwrites eight bytes of what is in use, never with what they were.
flip() {
	python3 -c '
import random, sys
path, rng = sys.argv[1], random.Random(int(sys.argv[2]))
data = bytearray(open(path, "rb").read())
used = [i for i, byte in enumerate(data) if byte]
for i in rng.sample(used, 8):
    data[i] ^= rng.randrange(1, 256)
open(path, "r+b").write(data)
' "$1" "$2"
}

works() {
	same 4300 "$(stat -c %g "$scratch/a/d1/f150")" && same "$GROUP" "$(stat -c %g "$scratch/b")" &&
		same 50 "$(find "$scratch/c" -type f | wc -l)"
}

# ---- flipped bytes ----

check 'a volume whose walk takes long' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4300 \
	--converge-rate 1 --volume-id walking
check 'a native one' ctl mount --plugin emptyDir --target "$scratch/b" --fsgroup "$GROUP" --volume-id empty
check 'one without a group' ctl mount --plugin hostPath --source "$scratch/other" --target "$scratch/c" --volume-id plain
facts >"$scratch/before"

survives() {
	local number=$1

	kill_daemon TERM
	flip "$state/store.db" $((seed + number))
	facts >"$scratch/after" || return 1
	same_files "$scratch/before" "$scratch/after" && works && ctl store check >"$scratch/stdout"
}
for ((i = 0; i < rounds; i++)); do
	check "eight bytes flipped, round $i" survives "$i"
done
check 'damaged stores are set aside, not deleted' \
	test "$(find "$state" -name 'store.db.damaged-*' ! -name '*-wal' ! -name '*-shm' | wc -l)" -gt 0
check_same 'for root alone' '' "$(find "$state" -name 'store.db*' ! -perm 600)"

torn() {
	kill_daemon KILL
	"$@" || return 1
	facts >"$scratch/after" || return 1
	same_files "$scratch/before" "$scratch/after" && works
}
check 'cut in the middle' torn truncate -s 100000 "$state/store.db"
check 'empty' torn truncate -s 0 "$state/store.db"
check 'not a database at all' torn cp "$scratch/before" "$state/store.db"
check 'the index is gone' torn rm -f "$state/store.db-shm"
check 'a log full of nonsense' torn sh -c 'head -c 200000 /dev/urandom >"$1"' _ "$state/store.db-wal"
check 'the walk goes on' ctl converge walking --rate max
check 'to its end' ctl wait walking --for native --timeout 30
check_same 'with the tree right' '' "$(find "$scratch/data" ! -gid 4300)"
check 'unmount --all' ctl unmount --all
check 'nothing is left' nothing_mounted
kill_daemon TERM

# ---- a full disk ----

VOLUME_SIZE=64M make_volume ext4 full
root=$FSGROUPFS_ROOT
export FSGROUPFS_ROOT=$scratch/full
state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
check 'volumes while there is room' ctl mount --plugin emptyDir --target "$scratch/a" --fsgroup "$GROUP" --volume-id eater
check 'another' ctl mount --plugin local --source "$scratch/other" --target "$scratch/b" --fsgroup 4300 --volume-id local
check 'a third' ctl mount --plugin hostPath --source "$scratch/other" --target "$scratch/c" --volume-id host
check 'to its end' ctl wait local --for native --timeout 30
check 'a volume is written to' fill_up "$scratch/a/data"
check_same 'what was written to a volume fills the disk' 0 "$(stat -fc %a "$scratch/full")"
check_same 'status works' native "$(state_of eater)"
check 'reconstruct works' ctl reconstruct
kill_daemon KILL
check 'and again' fill_up "$scratch/a/data"
check_same 'a daemon starts' native "$(state_of local)"
umount "$scratch/c"
check 'and finishes a tear-down' until_list 'all(.[]; .id != "host")'
check 'unmount one that is not what filled it' ctl unmount local
check 'unmount one that is gone' ctl unmount host
check 'unmount the one that filled it' ctl unmount eater
check_same 'its data is gone' '' "$(find "$state/volumes" -mindepth 1)"
check 'a mount works again' ctl mount --plugin emptyDir --target "$scratch/d" --volume-id more

# ---- a read-only disk ----

check 'a volume' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4301 --volume-id local
check 'to its end' ctl wait local --for native --timeout 30
no_process_stays
kill_daemon TERM
check_same 'no daemon' '' "$(daemon_pid)"
check 'what is to be remembered until the next boot alone is on another' mount -t tmpfs -o mode=700 tmpfs "$FSGROUPFS_ROOT/run"
# No disk becomes read-only that somebody writes to: this daemon's log, which keepers write to as well, is elsewhere.
"$BIN/fsgroup-mountd" --root "$FSGROUPFS_ROOT" -f 2>"$scratch/log" &
until [ -S "$FSGROUPFS_ROOT/run/fsgroupfs/mountd.sock" ]; do
	sleep 0.05
done
check 'a view that is never written' ctl mount --plugin local --source "$scratch/other" --target "$scratch/b" --fsgroup 4302 \
	--ownership virtual --volume-id shown
kill_daemon KILL
check 'the disk becomes read-only' mount -o remount,ro "$scratch/full"
check_same 'the volumes in use go on' '4301 4302' \
	"$(stat -c %g "$scratch/a/d1/f150" "$scratch/b/d0/f49" | paste -sd ' ')"
check_same 'a daemon starts, and knows them' 'native virtual' "$(printf '%s %s' "$(state_of local)" "$(state_of shown)")"
check_same 'and follows their keepers' 1 "$(overlay_pids | grep -cx "$(field_of shown .server.pid)")"
check 'a new mount says what is wrong' refuses 1 'ead-only file system' mount --plugin emptyDir --target "$scratch/c" --volume-id new
check_same 'and leaves nothing' '' "$(mounts_below "$scratch/c")"
check 'a repeated one is as it was' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4301 --volume-id local
check 'reconstruct' ctl reconstruct
check 'an unmount says what it could not do' refuses 1 'stays on record' unmount shown
check_same 'what was mounted is gone' '' "$(mounts_below "$scratch/b")"
check 'with its processes' no_process_stays
check 'another' refuses 1 'stays on record' unmount more
check_same 'is gone, too' '' "$(mounts_below "$scratch/d")"
check 'the disk is writable again' mount -o remount,rw "$scratch/full"
check_same 'the daemon goes on' "$(daemon_pid)" "$(ctl unmount shown >"$scratch/null" && daemon_pid)"
check 'with what it could not do' refuses 4 'no such volume' status shown
check_same 'nothing is lost' 'native' "$(state_of local)"
check 'a mount works again' ctl mount --plugin emptyDir --target "$scratch/c" --fsgroup "$GROUP" --volume-id new
check 'unmount --all' ctl unmount --all
check_same 'nothing is on record' '[]' "$(ctl list --json | jq -c .)"
kill_daemon TERM
umount "$FSGROUPFS_ROOT/run"
kill_daemon TERM
umount "$scratch/full"
export FSGROUPFS_ROOT=$root

end_volume_test
