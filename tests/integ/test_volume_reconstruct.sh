#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Reconstruction: a lost store, dead keepers, interrupted set-ups and tear-downs, another boot, strangers. Needs root
# and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq sqlite3
own_mounts "$0" "$@"
start_volume_test

state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
second_boot=11111111-2222-3333-4444-555555555555
for pod in a b c d; do
	mkdir "$scratch/$pod"
done
make_files "$scratch/data" 300
make_files "$scratch/other" 300

# "volume action" of each row, sorted.
rows() {
	ctl reconstruct --json "$@" | jq -r '.[] | "\(.volume) \(.action)\(if .error then " FAILED" else "" end)"' | sort
}

mounts() {
	mounts_below "$scratch" | sort
}

lose_store() {
	kill_daemon KILL
	mkdir -p "$scratch/lost"
	mv "$state"/store.db* "$scratch/lost/"
}

# Keeper and server of the one overlay that there is.
kill_keepers() {
	local pids

	pids=$(overlay_pids)
	# shellcheck disable=SC2086
	kill -9 $pids
	for pid in $pids; do
		timeout 10 tail -s 0.02 --pid="$pid" -f /dev/null
	done
}

# until_true COMMAND...: what only another process brings; at most 20 s.
until_true() {
	local end=$((SECONDS + 20))

	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

no_volume() { [ "$(ctl list --json)" = '[]' ]; }
has_event() { ctl events --json >"$scratch/events" && grep -qF -- "$1" "$scratch/events"; }
has_state() { [ "$(state_of "$1")" = "$2" ]; }
has_group() { [ "$(stat -c %g "$1" 2>/dev/null)" = "$2" ]; }

mount_all() {
	ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup "$GROUP" --converge-rate 1 --volume-id walking &&
		ctl mount --plugin emptyDir --target "$scratch/b" --fsgroup "$GROUP" --volume-id empty &&
		ctl mount --plugin local --source "$scratch/other" --target "$scratch/c" --volume-id plain &&
		ctl mount --spec "$scratch/memory.json" --target "$scratch/d" --fsgroup "$GROUP" --volume-id memory
}
printf '{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}\n' >"$scratch/memory.json"

# ---- nothing to do ----

check 'four volumes' mount_all
echo kept >"$scratch/b/file"
echo kept >"$scratch/d/file"
ctl list --json | jq -S 'map({id, plugin, target, fsGroup, policy, state})' >"$scratch/before"
check_same 'nothing to reconstruct' '' "$(rows)"
check_same 'volume.json is 0600' '600 600 600 600' "$(stat -c %a "$state"/volumes/*/volume.json | paste -sd ' ')"
check 'and is JSON' jq -e '.record.volume[0].id == "plain"' "$state/volumes/plain/volume.json"
check 'the store is whole' ctl store check

# ---- a lost store ----

mounts >"$scratch/mounts"
lose_store
check 'the next call makes the store again' ctl list
ctl list --json | jq -S 'map({id, plugin, target, fsGroup, policy, state})' >"$scratch/after"
check 'with every volume as it was' same_files "$scratch/before" "$scratch/after"
mounts >"$scratch/mounts.after"
check 'no mount has come or gone' same_files "$scratch/mounts" "$scratch/mounts.after"
check_same 'events say so' 4 "$(ctl events --json | jq -c 'select(.kind == "reconstructed")' | grep -c rebuild)"
check_same 'the keeper is followed' converging "$(state_of walking)"
check 'speeds it up' ctl converge walking --rate max
check 'the run ends' ctl wait walking --for native --timeout 30
check 'repeated mounts find what is there' mount_all
check_same 'the data is there' 'kept kept' "$(cat "$scratch/b/file" "$scratch/d/file" | paste -sd ' ')"
check 'the store is whole' ctl store check

lose_store
cp "$state/volumes/empty/volume.json" "$scratch/empty.json"
sed -i 's/emptyDir/emptyBir/' "$state/volumes/empty/volume.json"
check 'a damaged volume.json' ctl list
check_same 'is reported, and its directory left alone' kept "$(cat "$state/volumes/empty/data/file")"
check_same 'as two strangers: a directory, no volume' 'report only' \
	"$(ctl reconstruct --dry-run --json | jq -r '.[] | select(.found | contains("volumes/empty")) | .action')"
cp "$scratch/empty.json" "$state/volumes/empty/volume.json"
check_same 'dry run: it can be made again' 'empty rebuild' "$(rows --dry-run)"
check_same 'nothing was done' 'empty rebuild' "$(rows)"
check_same 'now it is done' '' "$(rows)"
check_same 'and works' native "$(state_of empty)"

# ---- read back from a dump ----

ctl store dump >"$scratch/dump"
kill_daemon KILL
rm "$state"/store.db* "$state"/volumes/*/volume.json
check 'no store and no volume.json' ctl list
check_same 'nothing is on record' '[]' "$(ctl list --json | jq -c .)"
check_same 'but every mount is reported' 3 \
	"$(ctl reconstruct --json | jq '[.[] | select(.found | contains("is mounted at"))] | length')"
mounts >"$scratch/mounts.after"
check 'a dump is read back' ctl store restore "$scratch/dump"
check_same 'four volumes are there' 'empty memory plain walking' "$(ctl list --json | jq -r '[.[].id] | join(" ")')"
check 'again: they are left as they are' refuses 1 'not every volume' store restore "$scratch/dump"
check 'what is no dump is refused' refuses 1 'not a dump' store restore "$scratch/memory.json"
check 'unmount --all' ctl unmount --all
check 'nothing is left' nothing_mounted

# ---- dead keepers ----

check 'a slow walk' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4300 \
	--converge-rate 1 --volume-id walking
check_same 'shown' 4300 "$(stat -c %g "$scratch/a/d2/f299")"
exec 9<"$scratch/a/d2/f299"
kill_keepers
check 'keeper and server dead: it is remounted at once' until_true has_event remount
check_same 'and shown' 4300 "$(stat -c %g "$scratch/a/d2/f299")"
exec 9<&-
check 'events say what was lost' has_event 'dead overlay could not be kept'
kill_daemon KILL
kill_keepers
check_same 'with the daemon dead as well' 'Transport endpoint is not connected' \
	"$(ls "$scratch/a/d1" 2>&1 >"$scratch/null" | sed 's/.*: //')"
check 'the next daemon' ctl list
check 'remounts it' until_true has_group "$scratch/a/d1/f150" 4300
check 'its run goes on' ctl converge walking --rate max
check 'to its end' ctl wait walking --for native --timeout 30
check_same 'the tree is right' '' "$(find "$scratch/data" ! -gid 4300)"
check 'unmount' ctl unmount walking

check 'a slow walk' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4301 \
	--converge-rate 1 --volume-id walking
kill_daemon KILL
kill_keepers
umount "$state/volumes/walking/lower"
mount --bind "$scratch/other" "$state/volumes/walking/lower"
check 'another tree is where its tree was' ctl list
check_same 'that is reported only' 'walking report only' "$(rows)"
check_same 'it is failed' failed "$(state_of walking)"
umount "$state/volumes/walking/lower"
check 'unmount' ctl unmount walking

# ---- interrupted ----

check 'mount' ctl mount --plugin emptyDir --target "$scratch/b" --fsgroup "$GROUP" --volume-id empty
kill_daemon KILL
sqlite3 "$state/store.db" "UPDATE volume SET state = 'tearing-down', updated_at_ms = updated_at_ms + 1" >"$scratch/null"
check 'a tear-down that was interrupted' ctl list
check 'is finished' until_true no_volume
check 'nothing is left' nothing_mounted

check 'mount' ctl mount --plugin emptyDir --target "$scratch/b" --fsgroup "$GROUP" --volume-id empty
kill_daemon KILL
umount "$scratch/b"
sqlite3 "$state/store.db" "UPDATE volume SET state = 'setting-up', mount_id = 0, updated_at_ms = updated_at_ms + 1" >"$scratch/null"
check 'a set-up that was interrupted' ctl list
check 'is finished' until_true has_state empty native
check_same 'at its target' 1 "$(mounts_below "$scratch/b" | wc -l)"

# ---- strangers ----

mkdir "$state/volumes/stranger" "$state/volumes/stranger/at"
mount -t tmpfs stranger "$state/volumes/stranger/at"
ctl reconstruct --json >"$scratch/rows"
check_same 'a directory and a mount of nobody are reported' 'report only report only' "$(jq -r '.[].action' "$scratch/rows" | paste -sd ' ')"
check 'the mount by its type' grep -q 'tmpfs is mounted at' "$scratch/rows"
check 'and left alone' mountpoint -q "$state/volumes/stranger/at"
umount "$state/volumes/stranger/at"
rmdir "$state/volumes/stranger/at" "$state/volumes/stranger"

# ---- flipped bits ----

kill_daemon KILL
sqlite3 "$state/store.db" "UPDATE volume SET fs_group = fs_group + 1" >"$scratch/null"
check_same 'a record that is not what was written is mended' "$GROUP" "$(field_of empty .fsGroup)"

# ---- another boot ----

check 'a volume that persists' ctl mount --plugin local --source "$scratch/other" --target "$scratch/c" --fsgroup 4300 \
	--persist --volume-id stays
check 'to its end' ctl wait stays --for native --timeout 30
check 'a volume that does not' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4300 --volume-id goes
check 'to its end' ctl wait goes --for native --timeout 30
kill_daemon KILL
unmount_below "$scratch"
mounts >"$scratch/mounts"
check_same 'all mounts are gone' '' "$(cat "$scratch/mounts")"
export FSGROUPFS_BOOT_ID=$second_boot
check 'another boot' ctl list
check 'what persists comes back' until_true has_state stays native
check_same 'nothing else is mounted' "$scratch/c" "$(mounts | grep -v "^$state/volumes/stays/")"
check_same 'the others wait' 'absent absent' "$(printf '%s %s' "$(state_of empty)" "$(state_of goes)")"
check_same 'data of an emptyDir on disk is kept' 1 "$(find "$state/volumes/empty/data" -maxdepth 0 | wc -l)"
check 'mount finishes' ctl mount --plugin local --source "$scratch/data" --target "$scratch/a" --fsgroup 4300 --volume-id goes
check 'unmount cleans up' ctl unmount empty
check_same 'nothing to reconstruct' '' "$(rows)"
check_same 'nothing of it is left' '' "$(find "$state/volumes/empty" 2>/dev/null)"
check 'the id is refused for the root directory of the machine' \
	sh -c '! "$1" --root / -f 2>"$2" && grep -q "is for tests" "$2"' _ "$BIN/fsgroup-mountd" "$scratch/refused"
kill_daemon KILL
export FSGROUPFS_BOOT_ID=nonsense
check 'and what is none is refused' refuses 1 'is not a boot id' list
export FSGROUPFS_BOOT_ID=$second_boot

end_volume_test
