#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Volumes with --idmap yes: whose mount a container runtime may idmap, who may ask for it, and that the daemon keeps to it.
# Needs root, /dev/fuse and Linux 6.12.
# shellcheck disable=SC2317 # functions are called through check
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq unshare mount
own_mounts "$0" "$@"
start_volume_test
show_mount_helpers

data=$scratch/data pod=$scratch/pod copy=$scratch/copy other=$scratch/other
mkdir "$pod" "$copy" "$other"
make_files "$data" 30
rules=$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf
mkdir -p "${rules%/*}"

local_volume() {
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id v --handoff no "$@"
}
idmapped_copy() {
	"$helpers/idmap" mount 0:100000:65536 "$pod" "$copy" 2>>"$scratch/stderr" || return
	[ "$(stat -c %g "$copy/d0/f1")" = "$((GROUP + 100000))" ]
	umount "$copy"
}

check 'a word that is none' refuses 2 'neither yes nor no' mount --plugin local --source "$data" --target "$pod" \
	--fsgroup "$GROUP" --idmap maybe
check 'a volume without --idmap' local_volume
check_fails 'has no idmapped mount' idmapped_copy
check 'another of the same tree that is to have one is refused' refuses 1 'volume v shows the same tree without idmap=yes' \
	mount --plugin local --source "$data" --target "$other" --fsgroup "$GROUP" --idmap yes
ctl unmount v

check 'a volume with --idmap yes' local_volume --idmap yes
check 'has' idmapped_copy
check 'another of the same tree, which does not care' ctl mount --plugin local --source "$data" --target "$other" \
	--fsgroup "$GROUP" --volume-id w
ctl unmount w
kill_daemon KILL
check 'a repeated mount with the next daemon' local_volume
check 'leaves it as it is' idmapped_copy
check 'it cannot be updated' refuses 1 'idmap cannot change' update v --idmap no
ctl unmount v

check 'mount(8)' mount -t fsgroupfs -o "gid=$GROUP,idmap=yes,handoff=no,volume_id=v" "$data" "$pod"
check 'has it too' idmapped_copy
ctl unmount v

kill_daemon TERM
printf '[ctl]\nidmap = yes\n' >"$rules"
check 'mountd.conf may assume it' local_volume
check 'for who says nothing' idmapped_copy
ctl unmount v
check 'and not for who says no' local_volume --idmap no
check_fails 'it is not' idmapped_copy
ctl unmount v
check 'config check tells' grep -q '^ *idmap  *yes' <(ctl config check)

end_volume_test
