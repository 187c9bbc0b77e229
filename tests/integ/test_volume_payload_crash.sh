#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Payload volumes cut off everywhere: the daemon crashes at every step of mount, refresh and unmount (mountd/steps.h),
# the memory goes with a restart of the machine, the disk is full, the store is lost. Afterwards the old or the new
# payload is seen, the next call finishes, nothing is left and no secret is found. Needs root.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq base64
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod
state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
mkdir "$pod"
printf '%s\n' CANARY-5c0a-secret >"$scratch/patterns"

# give VALUE: what the objects of every kind hold now. A builtin writes it, so that no command line has it.
give() {
	printf '{"kind": "List", "items": [{"kind": "Secret", "metadata": {"name": "o"}, "stringData": {"a": "%s", "b": "%s", "c": "CANARY-5c0a-secret"}}, {"kind": "ConfigMap", "metadata": {"name": "o"}, "data": {"a": "%s", "b": "%s"}}]}\n' \
		"$1" "$1" "$1" "$1" >"$scratch/objects.json"
}

printf '{"name": "v", "secret": {"secretName": "o"}}' >"$scratch/secret.json"
printf '{"name": "v", "configMap": {"name": "o"}}' >"$scratch/configMap.json"

mount_kind() {
	ctl mount --spec "$scratch/$1.json" --objects "$scratch/objects.json" --target "$pod" --fsgroup "$GROUP" --volume-id v
}

refresh() {
	ctl refresh v --objects "$scratch/objects.json"
}

shows() {
	same "$1 $1" "$(<"$pod/a") $(<"$pod/b")" && same '' "$(find "$pod" ! -gid "$GROUP")" &&
		same 1 "$(find "$pod" -maxdepth 1 -type d -name '..2*' | wc -l)"
}

shows_one_of() {
	local seen

	seen="$(<"$pod/a") $(<"$pod/b")"
	[ "$seen" = "$1 $1" ] || same "$2 $2" "$seen"
}

is_gone() {
	same '[]' "$(ctl list --json | jq -c .)" && same '' "$(mounts_below "$pod")$(mounts_below "$FSGROUPFS_ROOT")" &&
		same '' "$(ls "$state/volumes")"
}

no_canary() {
	same '' "$(find "$FSGROUPFS_ROOT" -xdev -type f -exec grep -laF -f "$scratch/patterns" {} + || true)"
}

steps_of() {
	"$helpers/steps" | grep "^$1\." | grep -v overlay || true
}

mapfile -t mount_steps < <(steps_of mount)
mapfile -t unmount_steps < <(steps_of unmount)
mapfile -t refresh_steps < <(steps_of refresh)
check 'there are steps of mount' test "${#mount_steps[@]}" -ge 8
check 'of unmount' test "${#unmount_steps[@]}" -ge 5
check 'and of refresh' test "${#refresh_steps[@]}" -ge 1

# ---- every step ----

for kind in secret configMap; do
	give old
	for i in "${!mount_steps[@]}"; do
		step=${mount_steps[$i]} undo=${unmount_steps[$((i % ${#unmount_steps[@]}))]}

		crash_at "$step" mount_kind "$kind"
		check "$kind: the next mount finishes after a crash at $step" mount_kind "$kind"
		check "$kind: it shows the payload" shows old
		crash_at "$undo" ctl unmount v
		check "$kind: the next unmount finishes after a crash at $undo" ctl unmount v
		check "$kind: nothing is left" is_gone
		[ "$kind" = configMap ] || check "$kind: no canary" no_canary
	done
	crash_at mount.set-up mount_kind "$kind"
	check "$kind: what was cut off can be unmounted" ctl unmount v
	check "$kind: nothing is left" is_gone

	mount_kind "$kind"
	for step in "${refresh_steps[@]}"; do
		give new
		crash_at "$step" refresh >"$scratch/stdout"
		check "$kind: after a crash at $step the old or the new is seen" shows_one_of old new
		check "$kind: the next refresh finishes" same 0 "$(refresh >/dev/null && echo $?)"
		check "$kind: it shows the new" shows new
		give old
		refresh >/dev/null
	done
	check "$kind: unmount" ctl unmount v
done

check_same 'every step was reached' '' "$(unreached "${mount_steps[@]}" "${unmount_steps[@]}" "${refresh_steps[@]}")"

# ---- a restart of the machine ----

for kind in secret configMap; do
	give old
	check "$kind: mount" mount_kind "$kind"
	kill_daemon KILL
	unmount_below "$scratch"
	export FSGROUPFS_BOOT_ID=11111111-2222-3333-4444-555555555555
	check_same "$kind: is known and not here after a restart of the machine" absent "$(state_of v)"
	give new
	check "$kind: the next mount sets it up" mount_kind "$kind"
	check "$kind: it shows the payload" shows new
	check "$kind: no set-up is due again" mount_kind "$kind"
	check "$kind: unmount" ctl unmount v
	check "$kind: nothing is left" is_gone
	check "$kind: mount" mount_kind "$kind"
	kill_daemon KILL
	unmount_below "$scratch"
	unset FSGROUPFS_BOOT_ID
	check "$kind: unmount after a restart" ctl unmount v
	check "$kind: nothing is left" is_gone
done

# ---- its memory is gone, and nobody restarted anything ----

give old
check 'mount' mount_kind secret
unmount_below "$scratch"
check 'mounting again sets it up again' mount_kind secret
check 'it shows the payload' shows old
check 'unmount' ctl unmount v
check 'nothing is left' is_gone
check 'no canary' no_canary

# ---- a lost store ----

give old
check 'mount' mount_kind secret
kill_daemon KILL
rm "$state"/store.db*
check 'without its store it is still seen' shows old
check 'and can be unmounted' ctl unmount "$pod"
check 'nothing is left' is_gone
check 'no canary' no_canary

kill_daemon TERM

# ---- a full disk ----

VOLUME_SIZE=24M make_volume ext4 small
export FSGROUPFS_ROOT=$scratch/small/root
state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
mkdir "$FSGROUPFS_ROOT"
give old
check 'configMap on a small disk' mount_kind configMap
before=$(find "$pod" -printf '%p %i %C@\n' | sort)
check 'the disk is filled' fill_up "$scratch/small/fill"
check_fails 'the disk is full' sh -c "echo x >'$scratch/small/more'"
give "$(head -c 300000 /dev/zero | tr '\0' x)"
check 'a refresh that does not fit fails' refuses 1 'No space left on device' refresh v --objects "$scratch/objects.json"
check 'the old payload is seen' shows old
check_same 'and nothing of the new one is left' "$(cut -d' ' -f1,2 <<<"$before" | grep -v "^$pod ")" \
	"$(find "$pod" -mindepth 1 -printf '%p %i\n' | sort)"
check 'unmount' ctl unmount v
check 'nothing is left' is_gone
rm "$scratch/small/fill"

end_volume_test
