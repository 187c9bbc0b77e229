#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each plugin that needs no device, server or driver of its own, with fsGroup and without: set up, set up again,
# refresh (unchanged, changed), another fsGroup, tear down, tear down again, and another boot before each of
# these. The crashes are in test_volume_flow and test_volume_payload_crash. Needs root, /dev/fuse and git.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq git
own_mounts "$0" "$@"
start_volume_test

readonly SECOND=4343
pod=$scratch/pod data=$scratch/data boot=0
mkdir "$pod" "$data"
echo one >"$data/key"
git -c init.defaultBranch=trunk init -q "$scratch/origin"
echo one >"$scratch/origin/key"
git -C "$scratch/origin" add key
git -c user.name=n -c user.email=e@example.org -C "$scratch/origin" commit -qm one
chmod -R a+rX "$scratch/origin"

# objects TEXT BASE64: all that the volumes are made from.
objects() {
	jq -n --arg text "$1" --arg bytes "$2" --arg path "$data" '
		def named($kind; $name): {kind: $kind, metadata: {name: $name, namespace: "default", uid: "u"}};
		{kind: "List", items: [
			named("Secret"; "s") + {data: {key: $bytes}},
			named("ConfigMap"; "c") + {data: {key: $text}},
			(named("Pod"; "p") | .metadata.labels = {color: $text} | .spec = {containers: []}),
			named("PersistentVolumeClaim"; "claim") + {spec: {volumeName: "pv"}, status: {phase: "Bound"}},
			{kind: "PersistentVolume", metadata: {name: "pv"}, spec: {local: {path: $path},
				claimRef: {name: "claim", namespace: "default", uid: "u"}}}]}'
}
objects one b25l >"$scratch/one.json"
objects two dHdv >"$scratch/two.json"

declare -A specs=(
	[emptyDir]='{"emptyDir": {}}'
	[memory]='{"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}'
	[local]='{"local": {"path": "'$data'"}}'
	[hostPath]='{"hostPath": {"path": "'$data'", "type": "Directory"}}'
	[gitRepo]='{"gitRepo": {"repository": "file://'$scratch/origin'", "directory": "."}}'
	[claim]='{"persistentVolumeClaim": {"claimName": "claim"}}'
	[secret]='{"secret": {"secretName": "s"}}'
	[configMap]='{"configMap": {"name": "c"}}'
	[downwardAPI]='{"downwardAPI": {"items": [{"path": "key", "fieldRef": {"fieldPath": "metadata.labels['"'color'"']"}}]}}'
	[projected]='{"projected": {"sources": [{"secret": {"name": "s"}}]}}'
)

is_payload() {
	case $1 in
	secret | configMap | downwardAPI | projected) ;;
	*) return 1 ;;
	esac
}

# mount_kind KIND GID TEXT: GID may be "".
mount_kind() {
	printf '%s\n' "${specs[$1]}" >"$scratch/spec.json"
	ctl mount --spec "$scratch/spec.json" --objects "$scratch/$3.json" --target "$pod" --volume-id v ${2:+--fsgroup "$2"}
}

# What the volume shows: the group of its root and of its file, and what is in it.
shows() {
	local kind=$1 gid=${2:-0} text=$3

	[ "$kind" != hostPath ] || gid=$(stat -c %g "$data")
	case $kind in
	emptyDir | memory) same "$gid" "$(stat -c %g "$pod")" ;;
	*) same "$gid $gid $text" "$(stat -Lc %g "$pod" "$pod/key" | tr '\n' ' ')$(cat "$pod/key")" ;;
	esac
}

settles() {
	ctl wait v --for native --timeout 20
}

restarts() {
	kill_daemon KILL
	unmount_below "$scratch"
	boot=$((boot + 1))
	FSGROUPFS_BOOT_ID=$(printf '00000000-0000-4000-8000-%012d' "$boot")
	export FSGROUPFS_BOOT_ID
	same absent "$(state_of v)"
}

is_gone() {
	nothing_mounted && same '' "$(ls "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes")" && same one "$(cat "$data/key")"
}

# Refreshable or not, and what a changed payload becomes; back to the first in the end.
try_refresh() {
	local kind=$1 gid=$2

	if ! is_payload "$kind"; then
		check "$kind: is not refreshable" refuses 1 'not refreshable' refresh v --objects "$scratch/one.json"
		return
	fi
	check "$kind: refresh, unchanged" same unchanged "$(ctl refresh v --objects "$scratch/one.json")"
	check "$kind: refresh, changed" same changed "$(ctl refresh "$pod" --objects "$scratch/two.json")"
	check "$kind: the change is there" shows "$kind" "$gid" two
	check "$kind: mounted again is refreshed" mount_kind "$kind" "$gid" one
	check "$kind: the first is there" shows "$kind" "$gid" one
	check_fails "$kind: nobody writes to it" touch "$pod/new"
}

try_kind() {
	local kind=$1 gid=$2

	check "$kind: set up, fsGroup ${gid:-unset}" mount_kind "$kind" "$gid" one
	check "$kind: is there" shows "$kind" "$gid" one
	check "$kind: set up again" mount_kind "$kind" "$gid" one
	check "$kind: settles" settles
	try_refresh "$kind" "$gid"
	check "$kind: another fsGroup" same 'changed: fsGroup' "$(ctl update v --fsgroup "$SECOND")"
	check "$kind: is shown" shows "$kind" "$SECOND" one
	check "$kind: settles" settles
	check "$kind: the same again" mount_kind "$kind" "$SECOND" one
	check "$kind: absent after a restart of the machine" restarts
	check "$kind: set up after a restart" mount_kind "$kind" "$SECOND" one
	check "$kind: is there" shows "$kind" "$SECOND" one
	check "$kind: settles" settles
	check "$kind: absent after another" restarts
	check "$kind: tear down after a restart" ctl unmount v
	check "$kind: tear down again" ctl unmount "$pod"
	check "$kind: nothing is left" is_gone
	check "$kind: set up" mount_kind "$kind" "$gid" one
	check "$kind: tear down" ctl unmount "$pod"
	check "$kind: tear down again" ctl unmount v
	check "$kind: nothing is left" is_gone
}

for kind in emptyDir memory local hostPath gitRepo claim secret configMap downwardAPI projected; do
	try_kind "$kind" "$GROUP"
	chgrp -R 0 "$data"
	try_kind "$kind" ''
	chgrp -R 0 "$data"
done

end_volume_test
