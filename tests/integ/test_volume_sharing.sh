#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One lower tree and several volumes: what is equal shares, what conflicts is refused or shown as virtual; what is right
# already is native at once; what one node has finished the next one knows.
# Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq setpriv unshare mkfs.ext4 setfattr getfattr setfacl
own_mounts "$0" "$@"
start_volume_test

data=$scratch/data one=$scratch/one two=$scratch/two three=$scratch/three
mkdir "$one" "$two" "$three"

# local ID SOURCE TARGET GROUP OPTION...
local_volume() {
	ctl mount --plugin local --volume-id "$1" --source "$2" --target "$3" --fsgroup "$4" "${@:5}"
}

refused_volume() {
	refuses 1 "$1" mount --plugin local --volume-id "$2" --source "$3" --target "$4" --fsgroup "$5" "${@:6}"
}

keepers() {
	overlay_pids | wc -l
}

# happens_reason ID TEXT: the state's reason becomes that.
happens_reason() {
	local line

	while IFS= read -r line; do
		[ "$(jq -r .reason <<<"$line")" != "$2" ] || return 0
	done < <(timeout 20 "$BIN/fsgroupctl" status "$1" --json --watch 2>/dev/null | jq -c --unbuffered .)
	return 1
}

# ---- equal arguments: one overlay ----

make_files "$data" 600
check 'share: the first' local_volume a "$data" "$one" "$GROUP" --converge-rate 1
alone=$(keepers)
check 'share: the second' local_volume b "$data" "$two" "$GROUP" --converge-rate 1
check_same 'share: no further process' "$alone" "$(keepers)"
check_same 'share: the same file system' "$(stat -c %d "$one")" "$(stat -c %d "$two")"
check 'share: a lock through one is seen through the other' \
	flock "$one/d0/f0" sh -c '! flock -n "$1" true' _ "$two/d0/f0"
check_fails 'share: ... and cannot be had twice' flock "$one/d0/f0" flock -n "$two/d0/f0" true
check 'share: chmod of a pending file through the second' chmod 0600 "$two/d5/f599"
check_same 'share: the first shows it' "0:$GROUP:600" "$(attributes "$one/d5/f599")"
check 'share: unmount the first' ctl unmount a
check_same 'share: the second goes on' "0:$GROUP:660" "$(attributes "$two/d4/f400")"
check 'share: the walk goes on' ctl converge b --rate max
check 'share: converged' ctl wait b --for converged --timeout 20
check_same 'share: the chmod is settled for all' "0:$GROUP:600" "$(attributes "$data/d5/f599")"
check 'share: unmount the second' ctl unmount b
check 'share: the last one out takes all away' nothing_mounted

# ---- the hand-off of a shared one ----

rm -rf "$data"
make_files "$data" 100
for handoff in yes namespaces; do
	chmod g-s "$data"
	for id in a b; do
		where=$one
		[ "$id" = a ] || where=$two
		check "shared, $handoff: mount $id" local_volume "$id" "$data" "$where" "$GROUP" --handoff "$handoff" \
			--converge-rate 1
	done
	check "shared, $handoff: repeating the second is a success" local_volume b "$data" "$two" "$GROUP" \
		--handoff "$handoff"
	check "shared, $handoff: converges" ctl converge a --rate max
	check "shared, $handoff: converged" ctl wait b --for converged --timeout 20
	if [ "$handoff" = yes ]; then
		check 'shared: stays, and says why' happens_reason a 'it is mounted at another place too'
		check 'shared: one goes' ctl unmount b
		check 'shared: the other is native' ctl wait a --for native --timeout 20
	else
		check 'shared: both are native' ctl wait a --for native --timeout 20
		check 'shared: ... by their own word' ctl wait b --for native --timeout 20
		check_same 'shared: ... and in truth' "$(stat -c %d "$data") $(stat -c %d "$data")" \
			"$(stat -c %d "$one" "$two" | paste -sd' ')"
		check 'shared: no process stays' no_process_stays
		check 'shared: repeating the second is a success' local_volume b "$data" "$two" "$GROUP"
		check 'shared: unmount the second' ctl unmount b
	fi
	check "shared, $handoff: unmount" ctl unmount a
	find "$data" -type f -exec chmod 0640 {} +
done

# ---- conflicts ----

rm -rf "$data"
make_files "$data" 300
mkdir "$scratch/data-next"
: >"$scratch/data-next/file"
check 'conflict: the first' local_volume a "$data" "$one" "$GROUP" --converge-rate 1
check 'conflict: another group is refused by name' refused_volume 'volume a has another ownership on the same tree' \
	b "$data" "$two" 4343
check 'conflict: in an enclosed tree too' refused_volume 'volume a has another ownership on an enclosing tree' \
	b "$data/d1" "$two" 4343
check 'conflict: in an enclosing tree too' refused_volume 'volume a has another ownership on an enclosed tree' \
	b "$scratch" "$two" 4343
check 'conflict: two walks on one file are none' refused_volume 'an enclosing tree' b "$data/d1" "$two" "$GROUP"
check 'conflict: a neighbour with a longer name is none' local_volume n "$scratch/data-next" "$two" 4343
check 'conflict: unmount it' ctl unmount n
check 'conflict=virtual: mounts' local_volume b "$data" "$two" 4343 --conflict virtual
check_same 'conflict=virtual: is virtual' virtual "$(state_of b)"
check_same 'conflict=virtual: shows its own group' 0:4343:660 "$(attributes "$two/d1/f100")"
check_same 'conflict=virtual: the first shows its own' "0:$GROUP:660" "$(attributes "$one/d1/f100")"
check_same 'conflict=virtual: an event says so' \
	'volume a has another ownership on the same tree: shown as virtual' \
	"$(ctl events --json | jq -rs '[.[] | if type == "array" then .[] else . end | select(.kind == "conflict")][-1].message')"
check 'conflict=virtual: an enclosed one' local_volume c "$data/d2" "$three" 4444 --conflict virtual
check_same 'conflict=virtual: shows its own group too' 0:4444:660 "$(attributes "$three/f299")"
# A chmod through one view is not undone by the run behind another: what both show then is what stays.
check 'conflict=virtual: no walk meanwhile' ctl pause a
pending=()
for mode in 600 400 755 4711 1666 000; do
	file=f$((200 + ${#pending[@]}))
	chmod 2754 "$data/d2/$file"
	chown 0:0 "$data/d2/$file"
	chmod "$mode" "$two/d2/$file"
	pending+=("$file")
done
setfacl -m u:1005:rwx,m::r "$two/d2/f210"
pending+=(f210)
views() {
	(cd "$1/d2" && stat --cached=never -c '%n %a' "${pending[@]}")
}
before=$(views "$two")
check_same 'conflict=virtual: the first shows what was changed through the second' "$before" "$(views "$one")"
check 'conflict=virtual: the first converges' ctl converge a --rate max
check 'conflict=virtual: to the end' ctl wait a --for native --timeout 20
check_same 'conflict=virtual: it stays in the second' "$before" "$(views "$two")"
check_same 'conflict=virtual: and in the first' "$before" "$(views "$one")"
check 'conflict=virtual: only the first writes' is_right "$data"
check_same 'conflict=virtual: the second shows its own still' 0:4343:660 "$(attributes "$two/d1/f100")"
check 'unmount all' ctl unmount --all

# ---- a group for each view ----

rm -rf "$data"
make_files "$data" 10
check 'views: one' local_volume a "$data" "$one" 4242 --ownership virtual
check 'views: two' local_volume b "$data" "$two" 4343 --ownership virtual
check_same 'views: the first group' 0:4242:2770 "$(attributes "$one/d0")"
check_same 'views: the second group' 0:4343:2770 "$(attributes "$two/d0")"
check 'views: the first makes a file' as 1000 1000 4242 sh -c 'umask 077; echo one >"$1"' _ "$one/d0/made"
sleep_for_timeouts() { # entries and attributes are looked at again within a second
	local i

	for ((i = 0; i < 30; i++)); do
		[ "$(as 2000 2000 4343 cat "$1" 2>&1)" = "$2" ] && return
		read -r -t 0.1 <> <(:) || true
	done
	as 2000 2000 4343 cat "$1"
}
check 'views: the second reads it' sleep_for_timeouts "$two/d0/made" one
check 'views: the second writes it' as 2000 2000 4343 sh -c 'echo two >>"$1"' _ "$two/d0/made"
check_same 'views: the first reads that' "$(printf 'one\ntwo')" "$(as 1000 1000 4242 cat "$one/d0/made")"
check_same 'views: nothing of the tree was changed' 0:0:640 "$(attributes "$data/d0/f1")"
check 'unmount all' ctl unmount --all

# ---- native at once ----

mkdir "$scratch/empty"
check 'empty: mounts' local_volume e "$scratch/empty" "$one" "$GROUP"
check_same 'empty: is native' native "$(state_of e)"
check_same 'empty: no server was started' '' "$(overlay_pids)"
check_same 'empty: its root is right' "0:$GROUP:2775" "$(attributes "$scratch/empty")"
check 'empty: the same tree again' local_volume f "$scratch/empty" "$two" "$GROUP"
check_same 'empty: is native beside a native one' native "$(state_of f)"
check 'unmount all' ctl unmount --all

# ---- Always, and what is on record ----

rm -rf "$data"
make_files "$data" 50
for round in 1 2; do
	check "Always, round $round: mounts" local_volume a "$data" "$one" "$GROUP"
	check "Always, round $round: native" ctl wait a --for native --timeout 20
	check_same "Always, round $round: was walked" 52 "$(field_of a .entries.seen)"
	[ "$round" = 1 ] || check_same "Always, round 2: nothing was written" 0 "$(field_of a .entries.changed)"
	check "Always, round $round: unmounts" ctl unmount a
done

make_volume ext4 disk
mkdir "$scratch/disk/tree"
tree=$scratch/disk/tree
make_files "$tree" 50
check 'record: the first node' local_volume a "$tree" "$one" "$GROUP" --policy OnRootMismatch
check 'record: native' ctl wait a --for native --timeout 20
check 'record: unmount' ctl unmount a
check 'record: it is on the root' getfattr --absolute-names -n trusted.fsgroupfs.run "$tree" >/dev/null
chmod g-s "$tree" # now the root itself no longer tells
FSGROUPFS_ROOT=$scratch/second
mkdir "$FSGROUPFS_ROOT"
check 'record: the next node' local_volume a "$tree" "$one" "$GROUP" --policy OnRootMismatch
check_same 'record: native at once' native "$(state_of a)"
check_same 'record: nothing was walked' 0 "$(field_of a .entries.seen)"
check_same 'record: no server was started' '' "$(overlay_pids)"
check 'record: unmount' ctl unmount a
cp -a --preserve=all "$tree" "$scratch/disk/copy"
check 'record: the copy has it' getfattr --absolute-names -n trusted.fsgroupfs.run "$scratch/disk/copy" >/dev/null
check 'record: a copy' local_volume c "$scratch/disk/copy" "$two" "$GROUP" --policy OnRootMismatch
check 'record: native' ctl wait c --for native --timeout 20
check_same 'record: copied, it is void' 52 "$(field_of c .entries.seen)"
check 'record: unmount' ctl unmount c
check 'record: another group' local_volume a "$tree" "$one" 4343 --policy OnRootMismatch
check 'record: native' ctl wait a --for native --timeout 20
check 'record: unmount' ctl unmount a
kill_daemon TERM
FSGROUPFS_ROOT=$scratch/root
check 'record: back on the first node' local_volume a "$tree" "$one" "$GROUP" --policy OnRootMismatch
check 'record: native' ctl wait a --for native --timeout 20
check_same 'record: its own memory is void, all is changed again' 52 "$(field_of a .entries.changed)"
check 'record: unmount' ctl unmount a
FSGROUPFS_ROOT=$scratch/second
check 'record: a run that is not finished' local_volume a "$tree" "$one" 4343 --converge-rate 1
check 'record: unmount' ctl unmount a
kill_daemon TERM
chgrp "$GROUP" "$tree"
chmod g+s "$tree"
FSGROUPFS_ROOT=$scratch/root
check 'record: elsewhere, with a root that seems right' local_volume a "$tree" "$one" "$GROUP" --policy OnRootMismatch
check 'record: native' ctl wait a --for native --timeout 20
check 'record: the rest was made right' is_right "$tree"
check 'record: unmount' ctl unmount a
umount "$scratch/disk"
check 'nothing is left' nothing_mounted
end_volume_test
