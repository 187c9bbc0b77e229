#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# --dry-run: each command that changes something says what it would do, refuses what it would refuse, and writes nothing.
# Needs root, /dev/fuse and loop devices.
set -euo pipefail
# shellcheck source=tests/integ/lib_block.sh
. "$(dirname "$0")/lib_block.sh"
need_root
need_fuse
need_tools jq losetup mkfs.ext4 sqlite3
own_mounts "$0" "$@"
start_block_test

pod=$scratch/pod data=$scratch/data
mkdir "$pod" "$scratch/other" "$scratch/secret"
make_files "$data" 100
ctl list >/dev/null

# All that a request could have written: records, events, directories and mounts. And what a device holds, unless it is
# mounted, when its file system writes what it likes.
is_staged=
everything() {
	sqlite3 -readonly "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db" .dump
	find "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes" "$data" -printf '%P %i %m %G %T@ %C@\n' | sort
	cut -d ' ' -f 3- /proc/self/mountinfo
	[ ! -e "$scratch/disk.img" ] || [ -n "$is_staged" ] || sha256sum <"$scratch/disk.img"
}

# Something else than a dry run: what there is is looked at anew.
really() {
	rm -f "$scratch/before"
	"$@"
}

# would WORDS ARGUMENT...: a dry run succeeds, says so, and nothing is another than before.
would() {
	local words=$1 status=0

	shift
	[ -e "$scratch/before" ] || everything >"$scratch/before"
	ctl "$@" --dry-run >"$scratch/stdout" || status=$?
	everything >"$scratch/after"
	same_files "$scratch/before" "$scratch/after" || return 1
	[ "$status" = 0 ] && grep -qF -- "would $words" "$scratch/stdout" && return
	sed 's/^/#  /' "$scratch/stdout" "$scratch/stderr"
	return 1
}

# would_not WORDS ARGUMENT...: it is refused as the real one would be, and nothing is another than before.
would_not() {
	local words=$1

	shift
	[ -e "$scratch/before" ] || everything >"$scratch/before"
	refuses 1 "$words" "$@" --dry-run || return 1
	everything >"$scratch/after"
	same_files "$scratch/before" "$scratch/after"
}

# ---- mount ----

mount=(mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id v)
check 'mount' would "put volume v of plugin local on record" "${mount[@]}"
check 'says what becomes of the owners' grep -qF "would show every file with group $GROUP at once" "$scratch/stdout"
check 'and where it would be' grep -qF "would mount it at $pod" "$scratch/stdout"
check 'virtual' would "show every file with group $GROUP, and write nothing" "${mount[@]}" --ownership virtual
check 'no group' would 'leave every owner and mode as it is' mount --plugin local --source "$data" --target "$pod"
check 'a plugin that does not manage ownership' would "ignore fsGroup $GROUP" \
	mount --plugin hostPath --source "$data" --target "$pod" --fsgroup "$GROUP"
check 'as JSON' same true "$(ctl "${mount[@]}" --dry-run --json | jq '.would | length > 1')"
check 'a target that is not there' would_not 'does not exist' "${mount[@]/$pod/$scratch/none}"
check 'a source that is not there' would_not 'No such file' "${mount[@]/$data/$scratch/none}"
check 'a policy that is none' would_not 'unknown policy' "${mount[@]}" --policy frob
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
printf '[ctl]\nplugins = emptyDir\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'what mountd.conf does not allow' would_not "no rule 'plugins'" "${mount[@]}"
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"

really ctl "${mount[@]}"
really ctl wait v --for native --timeout 30
# The event of it comes a moment later.
grep -qm1 '"native"' < <(timeout 30 "$BIN/fsgroupctl" events --follow --json)
check 'again' would 'do nothing: volume v is mounted so' "${mount[@]}"
check 'another group' would_not 'exists with another fsgroup' "${mount[@]/$GROUP/4300}"
other=(mount --plugin local --source "$data/d0" --target "$scratch/other" --fsgroup 4300)
check 'another group on a part of the tree' would_not 'volume v has another ownership' "${other[@]}"
check 'or virtual there' would 'be virtual: volume v has another ownership' "${other[@]}" --conflict virtual

# ---- update, unmount ----

check 'update of the rate' would 'change convergeRate' update v --converge-rate 500
check 'of the group' would 'mount it again, with a new run' update v --fsgroup 4301
check 'of nothing' would 'do nothing' update v --fsgroup "$GROUP"
check 'of an unknown policy' would_not 'unknown policy' update v --policy frob
exec 8<"$pod/d0/f0"
check 'of the group while it is in use' would_not " $$ (" update v --fsgroup 4301
check 'unmount while it is in use' would_not " $$ (" unmount v
check 'but lazily' would 'forget volume v' unmount v --lazy
exec 8<&-
check 'unmount' would 'leave what is in it' unmount "$pod"
check 'of what is not there' would 'do nothing' unmount frob
really mount -t tmpfs tmpfs "$pod"
check 'of what somebody has mounted over' would_not 'is not ours' unmount v
really umount "$pod"
really ctl unmount v
mkdir "$scratch/empty"
really ctl mount --plugin emptyDir --target "$scratch/empty" --volume-id empty
check 'an emptyDir loses its data' would 'delete what emptyDir has made' unmount empty
really ctl unmount empty

# ---- refresh ----

echo '{"secret": {"secretName": "s"}}' >"$scratch/spec"
echo '{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "old"}}' >"$scratch/objects"
secret=(mount --spec "$scratch/spec" --objects "$scratch/objects" --target "$scratch/secret" --fsgroup "$GROUP" --volume-id s)
check 'mount of a secret' would "write its files with group $GROUP" "${secret[@]}"
really ctl "${secret[@]}"
sed -i s/old/new/ "$scratch/objects"
check 'refresh' would 'write what differs' refresh s --objects "$scratch/objects"
check_same 'writes nothing' old "$(cat "$scratch/secret/key")"
check 'mount again' would 'refresh volume s' "${secret[@]}"
check 'refresh without objects' would_not 'needs objects' refresh s
really ctl unmount s

# ---- devices ----

really loop disk 64M
spec disk ',"fsType":"ext4"'
stage=(stage --spec "$scratch/spec.json" --device "$loop" --volume-id disk)
check 'an empty device is not formatted unasked' would_not 'holds no file system' "${stage[@]}"
check 'what would be formatted' would "make ext4 on $loop, which is empty" "${stage[@]}" --format
printf 'data' | really dd of="$scratch/disk.img" bs=1 seek=200000 conv=notrunc status=none
check 'a device that only seems empty' would_not 'is not empty' "${stage[@]}" --format
really mkfs.ext4 -q -F "$scratch/disk.img"
check 'a file system is not' would "check the ext4 file system of $loop" "${stage[@]}" --format
spec disk
check 'nor another one' would_not 'holds ext4, not xfs' "${stage[@]}" --fs-type xfs
really ctl "${stage[@]}" >/dev/null
is_staged=1
check 'staged' would 'do nothing: disk is staged so' "${stage[@]}"
check 'unstage' would 'take the device off' unstage disk
check 'mount of a staged device' would "mount it at $pod" mount --staged disk --target "$pod" --volume-id user
really ctl mount --staged disk --target "$pod" --volume-id user
check 'unstage while it is in use' would_not 'in use by 1 volume' unstage disk
check 'reconstruct' ctl reconstruct --dry-run
really ctl unmount user
really ctl unstage disk
end_volume_test
