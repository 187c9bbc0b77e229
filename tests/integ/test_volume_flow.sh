#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The set-up flow, cut off everywhere: the daemon is made to crash at every step of mount and unmount
# (mountd/steps.h), five times running, for several plugins; then status must work, the next mount must finish
# and the next unmount undo what is there, and nothing may be left or lost. Needs root and /dev/fuse.
# timeout: 300
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod data=$scratch/data
mkdir "$pod"
make_files "$data" 30
echo '{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}' >"$scratch/memory.json"
cat >"$scratch/objects.json" <<END
{"kind": "List", "items": [
	{"kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": {"key": "b25l"}},
	{"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"key": "one"}},
	{"kind": "PersistentVolumeClaim", "metadata": {"name": "claim", "namespace": "default", "uid": "u"},
		"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}},
	{"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"local": {"path": "$data"},
		"claimRef": {"name": "claim", "namespace": "default", "uid": "u"}}}]}
END
sed 's/b25l/dHdv/; s/"one"/"two"/' "$scratch/objects.json" >"$scratch/changed.json"
echo '{"name": "s", "secret": {"secretName": "s"}}' >"$scratch/secret.json"
echo '{"name": "c", "configMap": {"name": "c"}}' >"$scratch/config.json"
echo '{"name": "d", "persistentVolumeClaim": {"claimName": "claim"}}' >"$scratch/claim.json"
mapfile -t mount_steps < <("$helpers/steps" | grep '^mount\.' | grep -v wrapped)
mapfile -t wrapped_steps < <("$helpers/steps" | grep '^mount\.wrapped')
mapfile -t unmount_steps < <("$helpers/steps" | grep '^unmount\.')

declare -A arguments=(
	[emptyDir]='--plugin emptyDir'
	[memory]="--spec $scratch/memory.json"
	[local]="--plugin local --source $data"
	[hostPath]="--plugin hostPath --source $data"
	[secret]="--spec $scratch/secret.json --objects $scratch/objects.json"
	[configMap]="--spec $scratch/config.json --objects $scratch/objects.json"
	[claim]="--spec $scratch/claim.json --objects $scratch/objects.json"
)

mount_kind() {
	# shellcheck disable=SC2086
	ctl mount ${arguments[$1]} --target "$pod" --fsgroup "$GROUP" --volume-id v && return
	sed 's/^/#  /' "$scratch/stderr"
	return 1
}

status_works() {
	local status=0

	ctl status v >/dev/null || status=$?
	[ "$status" = 0 ] || [ "$status" = 4 ]
}

# Set up and usable, with what it should hold.
is_usable() {
	case $1 in
	local | claim) ctl wait v --for converged --timeout 20 && is_right "$pod" ;;
	hostPath) same 30 "$(find "$pod" -type f | wc -l)" ;;
	memory) ctl wait v --for native --timeout 20 && same tmpfs "$(stat -fc %T "$pod")" && touch "$pod/new" ;;
	secret | configMap) same "one 0:$GROUP:2777" "$(cat "$pod/key") $(attributes "$pod")" ;;
	*) same "0:$GROUP:2777" "$(attributes "$pod")" && touch "$pod/new" ;;
	esac
}

# On record, mounted, or in the state directory: nothing, and the source is whole.
is_gone() {
	same '[]' "$(ctl list --json | jq -c .)" &&
		same '' "$(mounts_below "$scratch")" &&
		same '' "$(ls "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes" "$FSGROUPFS_ROOT/run/fsgroupfs/keepers" |
			grep -v ':$' | tr -d '\n')" &&
		same 30 "$(find "$data" -type f -size +0 | wc -l)"
}

# try_step KIND STEP UNDO: crash, unmount; crash, mount; crash in UNDO, unmount.
try_step() {
	local kind=$1 step=$2 undo=$3

	crash_at "$step" mount_kind "$kind"
	check "$kind: status after a crash at $step" status_works
	check "$kind: the next unmount undoes it" ctl unmount v
	check "$kind: nothing is left" is_gone

	crash_at "$step" mount_kind "$kind"
	check "$kind: the next mount finishes after a crash at $step" mount_kind "$kind"
	check "$kind: it is usable" is_usable "$kind"
	crash_at "$undo" ctl unmount v
	check "$kind: status after a crash at $undo" status_works
	check "$kind: the next unmount finishes it" ctl unmount v
	check "$kind: nothing is left" is_gone
}

try_steps() {
	local kind=$1 i

	shift
	for ((i = 1; i <= $#; i++)); do
		try_step "$kind" "${!i}" "${unmount_steps[$(((i - 1) % ${#unmount_steps[@]}))]}"
	done
}

try_steps emptyDir "${mount_steps[@]}"
try_steps memory "${mount_steps[@]}"
try_steps local "${mount_steps[@]}"
# What differs from those: no strategy; volumes within volumes, in memory and on disk.
try_steps hostPath mount.set-up mount.done mount.target-mounted
try_steps secret "${mount_steps[@]}" "${wrapped_steps[@]}"
try_steps claim mount.plugin-bound mount.done mount.overlay-started "${wrapped_steps[@]}"
try_steps configMap mount.done "${wrapped_steps[@]}"
try_step secret mount.set-up unmount.wrapped-torn-down

# ---- on the way to native, at the first, second and third change of state ----

make_pending() {
	chgrp -R 0 "$data"
	find "$data" -type d -exec chmod 750 {} + -o -exec chmod 640 {} +
}

mount_to_the_end() {
	mount_kind local && ctl wait v --for native --timeout 20
}

for step in follow.finished follow.changed{,:2,:3} follow.followed{,:2}; do
	make_pending
	crash_at "$step" mount_to_the_end
	check "native after a crash at $step" ctl wait v --for native --timeout 20
	check 'all files are right' is_right "$data"
	check 'the daemon mounts it again without a word' mount_kind local
	check 'unmount' ctl unmount v
	check 'nothing is left' is_gone
done

# ---- what users wrote is not lost ----

check 'emptyDir' mount_kind emptyDir
echo precious >"$pod/file"
for step in "${mount_steps[@]}"; do
	check 'native' ctl wait v --for native --timeout 20
	umount "$pod"
	crash_at "$step" mount_kind emptyDir
	check "mounted again after a crash at $step" mount_kind emptyDir
	check 'the data is there' same precious "$(cat "$pod/file")"
done
check 'unmount' ctl unmount v

# ---- refresh and update ----

key_is() {
	same "$1" "$(cat "$pod/key")"
}

check 'secret' mount_kind secret
check 'nothing new' same unchanged "$(ctl refresh v --objects "$scratch/objects.json")"
crash_at refresh.refreshed ctl refresh v --objects "$scratch/changed.json"
check 'the new payload is there after a crash' key_is two
check 'and the next refresh finds nothing to do' same unchanged "$(ctl refresh v --objects "$scratch/changed.json")"
check 'a repeated mount is a refresh' mount_kind secret
check 'so the payload is as the mount brings it' key_is one
check 'another fsGroup' same 'changed: fsGroup' "$(ctl update v --fsgroup 4343)"
check_same 'is that of the tree at once' '0:4343:2777' "$(attributes "$pod")"
check_same 'and of the payload' 4343 "$(stat -Lc %g "$pod/key")"
check 'a refresh writes nothing for it' same unchanged "$(ctl refresh v --objects "$scratch/objects.json")"
check 'unmount' ctl unmount v
check 'nothing is left' is_gone

# ---- a caller that goes away ----

# The daemon works on; its answer has no reader. The shell would report each that is killed.
callers_go_away() {
	local time

	for time in 0.02 0.04 0.06 0.08; do
		timeout -s KILL "$time" "$BIN/fsgroupctl" "$@" || true
	done >"$scratch/gone" 2>&1
}

# shellcheck disable=SC2086
callers_go_away mount ${arguments[local]} --target "$pod" --fsgroup "$GROUP" --volume-id v
check 'after callers of mount that went away the next finishes' mount_kind local
check 'it is usable' is_usable local
callers_go_away unmount v
check 'after callers of unmount that went away it can be mounted' mount_kind local
check 'it is usable' is_usable local
check 'unmount' ctl unmount v
check 'nothing is left' is_gone

# ---- the hook itself ----

kill_daemon KILL
complaint() {
	FSGROUPFS_CRASH_AT=$1 timeout 10 "$BIN/fsgroup-mountd" --root "$FSGROUPFS_ROOT" -f 2>&1 || true
}
check 'a step that is none is refused' grep -q 'is no step' <(complaint nonsense)
check 'so is a count that is none' grep -q 'is no step' <(complaint mount.done:0)
mapfile -t steps < <("$helpers/steps" | grep -E '^(mount|refresh|follow|unmount)\.') # others have tests of their own
check_same 'every step was reached' '' "$(unreached "${steps[@]}")"

end_volume_test
