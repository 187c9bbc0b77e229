#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The table of plugins and of what may happen to a volume: every plugin in every cell, with fsGroup and without. One
# row a plugin, one function a cell. `make test` runs a part of it: each row, each cell, and of the crashes one step
# each; LONG=1 runs every cell for every row, at every step. ROWS="secret local" selects rows, CELLS=TEXT cells.
# Needs root and /dev/fuse, and loop devices for the rows on devices.
# timeout: 1800
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq git losetup mkfs.ext4
own_mounts "$0" "$@"
start_volume_test

state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
pod=$scratch/pod objects=$scratch/objects source=$scratch/source
boots=0
mkdir "$pod" "$objects" "$source" "$scratch/spec"

# ---- the rows ----
#
# name | refresh: does a refresh change it | group: who gives the fsGroup (all: every entry has it; none: ignored)
#      | is what users write kept while it is mounted: writable or read-only | arguments of mount
declare -A refreshes=() group_of=() writable=() arguments=()
rows=()
row() {
	rows+=("$1")
	refreshes[$1]=$2 group_of[$1]=$3 writable[$1]=$4 arguments[$1]=$5
}
row emptyDir no all yes '--plugin emptyDir'
row memory no all yes "--spec $scratch/spec/memory"
row hostPath no none yes "--plugin hostPath --source $source"
row local no all yes "--plugin local --source $source"
row localDevice no all yes "--spec $scratch/spec/localDevice"
row secret yes all no "--spec $scratch/spec/secret --objects $objects --pod ns/p"
row configMap yes all no "--spec $scratch/spec/configMap --objects $objects --pod ns/p"
row downwardAPI yes all no "--spec $scratch/spec/downwardAPI --objects $objects --pod ns/p"
row projected yes all no "--spec $scratch/spec/projected --objects $objects --pod ns/p"
row gitRepo no all yes "--spec $scratch/spec/gitRepo"
row flexVolume no all yes "--spec $scratch/spec/flexVolume"
row persistentVolumeClaim no all yes "--spec $scratch/spec/claim --objects $objects --pod ns/p"
row gcePersistentDisk no all yes '--staged disk'

# What each row shows of its source, and where.
declare -A shown=(
	[hostPath]=file [local]=file [localDevice]=file [secret]=key [configMap]=key [downwardAPI]=labels
	[projected]=key [gitRepo]=file [flexVolume]=file [persistentVolumeClaim]=file [gcePersistentDisk]=file
)

new_loop() {
	truncate -s 16M "$scratch/$1.img"
	mkfs.ext4 -q -F "$scratch/$1.img"
	loop=$(losetup --find --show "$scratch/$1.img") || skip 'needs loop devices'
	loops+=("$loop")
	mkdir -p "$scratch/at"
	mount "$loop" "$scratch/at"
	echo one >"$scratch/at/file"
	umount "$scratch/at"
}

# set_sources TEXT: what sources that can be refreshed say.
set_sources() {
	printf '{"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "stringData": {"key": "%s"}}' "$1" >"$objects/s.json"
	printf '{"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"key": "%s"}}' "$1" >"$objects/c.json"
	printf '{"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u2", "labels": {"l": "%s"}}, "spec": {"containers": []}}' \
		"$1" >"$objects/p.json"
}

make_sources() {
	local claim='"name": "c", "namespace": "ns", "uid": "u1"' drivers

	echo one >"$source/file"
	printf '{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}' >"$scratch/spec/memory"
	printf '{"name": "v", "secret": {"secretName": "s"}}' >"$scratch/spec/secret"
	printf '{"name": "v", "configMap": {"name": "c"}}' >"$scratch/spec/configMap"
	printf '{"name": "v", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}' \
		>"$scratch/spec/downwardAPI"
	printf '{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}' >"$scratch/spec/projected"
	printf '{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}' >"$scratch/spec/claim"
	printf '{"kind": "PersistentVolumeClaim", "metadata": {%s}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}' \
		"$claim" >"$objects/claim.json"
	printf '{"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"claimRef": {%s}, "local": {"path": "%s"}}}' \
		"$claim" "$source" >"$objects/pv.json"
	set_sources one

	git init -q -b trunk "$scratch/origin"
	echo one >"$scratch/origin/file"
	git -C "$scratch/origin" add file
	git -C "$scratch/origin" -c user.name=n -c user.email=e@example.org commit -qm one
	printf '{"name": "v", "gitRepo": {"repository": "file://%s/origin", "directory": "."}}' "$scratch" >"$scratch/spec/gitRepo"

	new_loop device
	printf '{"kind": "PersistentVolume", "spec": {"local": {"path": "%s", "fsType": "ext4"}}}' "$loop" >"$scratch/spec/localDevice"
	new_loop disk
	disk=$loop
	printf '{"gcePersistentDisk": {"pdName": "d", "fsType": "ext4"}}' >"$scratch/spec/disk"

	drivers=$FSGROUPFS_ROOT/usr/libexec/kubernetes/kubelet-plugins/volume/exec/example~bind
	mkdir -p "$drivers"
	cat >"$drivers/bind" <<-'END'
		#!/bin/bash
		case $1 in
		init) echo '{"status": "Success", "capabilities": {"attach": false, "fsGroup": true}}' ;;
		mount) mount --bind "$(jq -r .path <<<"$3")" "$2" && echo '{"status": "Success"}' ;;
		unmount) umount "$2" && echo '{"status": "Success"}' ;;
		*) echo '{"status": "Not supported"}'; exit 1 ;;
		esac
	END
	chmod 755 "$drivers/bind"
	printf '{"name": "v", "flexVolume": {"driver": "example/bind", "options": {"path": "%s"}}}' "$source" >"$scratch/spec/flexVolume"
}
GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null make_sources

# ---- what cells are made of; $row and $gid are the row and the fsGroup ("" : none) ----

# Devices are staged first, as their node agent does.
before_mount() {
	[ "$row" != gcePersistentDisk ] ||
		ctl stage --spec "$scratch/spec/disk" --device "$disk" --volume-id disk >"$scratch/stdout"
}

mount_it() {
	before_mount || return 1
	# shellcheck disable=SC2086
	ctl mount ${arguments[$row]} ${gid:+--fsgroup "$gid"} --target "$pod" --volume-id v >"$scratch/stdout"
}

refresh_it() {
	ctl refresh v --objects "$objects" --pod ns/p
}

unmount_it() {
	ctl unmount v || return 1
	[ "$row" != gcePersistentDisk ] || ctl unstage disk
}

source_is() {
	same "$1" "$(head -n 1 "$pod/${shown[$row]}" | sed 's/^l="\(.*\)"$/\1/')"
}

# Mounted, showing its source, and belonging to the group in the end, as the row says.
is_right_now() {
	local group=${1-$gid} state_now

	[ -z "${shown[$row]:-}" ] || source_is "${2:-one}" || return 1
	if [ -z "$group" ] || [ "${group_of[$row]}" = none ]; then
		same native "$(state_of v)" || return 1
	else
		ctl wait v --for converged --timeout 30 || return 1
		same '' "$(find "$pod" ! -gid "$group" | head -n 3)" || return 1
	fi
	state_now=$(state_of v)
	[ "$state_now" = native ] || [ "$state_now" = converged ] || same native "$state_now" || return 1
	[ "${writable[$row]}" = no ] || touch "$pod/written" || return 1
	same '' "$(ctl reconstruct --json | jq -r '.[] | "\(.volume) \(.found): \(.action)"')"
}

# On record, mounted, served or in the state directory: nothing; and no source has lost anything.
is_gone() {
	same '[]' "$(ctl list --json | jq -c .)" && same '' "$(mounts_below "$scratch")" &&
		same '' "$(find "$state/volumes" "$FSGROUPFS_ROOT/run/fsgroupfs/keepers" -mindepth 1 | head -n 3)" &&
		same one "$(cat "$source/file")" && no_process_stays
}

# In the moment of its hand-off the lower tree lies beneath the overlay: these are two.
is_mounted_once() {
	ctl wait v --for native --timeout 30 && same 1 "$(mounts_below "$pod" | wc -l)"
}

# Of files that users see: what must not change where nothing has changed.
stamp() {
	find "$pod" -mindepth 1 ! -name written -printf '%P %i %T@ %C@\n' | sort
}

# crash_at STEP COMMAND...: with daemons that crash there; notes the steps that were come to.
crash_at() {
	local step=$1 before

	shift
	before_mount || true
	kill_daemon KILL
	before=$(daemons_started)
	FSGROUPFS_CRASH_AT=$step "$@" || true
	kill_daemon KILL
	if [ "$(daemons_started)" -gt "$((${before:-0} + 1))" ]; then
		printf '%s\n' "$step" >>"$scratch/reached"
	fi
}

# Everything that a restart of the machine ends: processes and mounts. Files stay, tmpfs go.
reboot() {
	local pids

	kill_daemon KILL
	pids=$(overlay_pids)
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill -9 $pids
	unmount_below "$scratch"
	no_process_stays
	boots=$((boots + 1))
	FSGROUPFS_BOOT_ID=$(printf '%08d-0000-4000-8000-000000000000' "$boots")
	export FSGROUPFS_BOOT_ID
}

waits_for_its_caller() {
	same '' "$(mounts_below "$scratch")" && same absent "$(state_of v)" && same '' "$(mounts_below "$scratch")"
}

# ---- the cells ----

cell_set_up() { mount_it && is_mounted_once && is_right_now; }

cell_set_up_again() {
	local before

	mount_it && is_right_now || return 1
	[ "${writable[$row]}" = no ] || echo mine >"$pod/mine"
	before=$(stamp)
	mount_it && is_mounted_once && same "$before" "$(stamp)"
}

cell_refresh_unchanged() {
	local before

	mount_it && is_right_now || return 1
	before=$(stamp)
	if [ "${refreshes[$row]}" = yes ]; then
		same unchanged "$(refresh_it)" || return 1
	else
		refuses 1 v refresh v || return 1
	fi
	same "$before" "$(stamp)" && is_right_now
}

cell_refresh_changed() {
	mount_it && is_right_now || return 1
	set_sources two
	if [ "${refreshes[$row]}" = yes ]; then
		same changed "$(refresh_it)" && is_right_now "$gid" two
	else
		refuses 1 v refresh v --objects "$objects" --pod ns/p && is_right_now
	fi
}

cell_tear_down() { mount_it && unmount_it && is_gone; }

cell_tear_down_again() { mount_it && unmount_it && ctl unmount v && ctl unmount "$pod" && is_gone; }

cell_update() {
	mount_it && is_right_now || return 1
	if [ -z "$gid" ]; then
		ctl update v --policy RootOnly >"$scratch/stdout" && is_right_now
		return
	fi
	ctl update v --fsgroup 5151 >"$scratch/stdout" && same 5151 "$(field_of v .fsGroup)" && is_right_now 5151
}

cell_reboot_set_up() {
	mount_it && is_right_now || return 1
	reboot
	waits_for_its_caller && mount_it && is_mounted_once && is_right_now
}

cell_reboot_tear_down() {
	mount_it && is_right_now || return 1
	reboot
	waits_for_its_caller && ctl unmount v && { [ "$row" != gcePersistentDisk ] || ctl unstage disk; } && is_gone
}

cell_reboot_refresh() {
	mount_it && is_right_now || return 1
	reboot
	waits_for_its_caller && refuses 1 v refresh v --objects "$objects" --pod ns/p && waits_for_its_caller &&
		mount_it && is_right_now
}

# The daemon is killed, and the store is gone.
lose_store() {
	kill_daemon KILL
	rm "$state"/store.db*
}

cell_lost_store_set_up() {
	local before

	mount_it && is_right_now || return 1
	before=$(stamp)
	lose_store
	same '' "$(ctl reconstruct --json | jq -r '.[] | "\(.volume) \(.found): \(.action)"')" && mount_it &&
		is_mounted_once && same "$before" "$(stamp)" && is_right_now
}

cell_lost_store_tear_down() {
	mount_it && is_right_now || return 1
	lose_store
	unmount_it && is_gone
}

# The steps are those of mountd/steps.h; each is one more cell.
crash_then_set_up() { crash_at "$1" mount_it && mount_it && is_mounted_once && is_right_now; }
crash_then_tear_down() { crash_at "$1" mount_it && unmount_it && is_gone; }
crash_in_refresh() {
	mount_it && is_right_now || return 1
	set_sources two
	crash_at "$1" refresh_it >"$scratch/stdout"
	mount_it || return 1
	if [ "${refreshes[$row]}" = yes ]; then is_right_now "$gid" two; else is_right_now; fi
}
crash_in_update() {
	mount_it && is_right_now || return 1
	crash_at "$1" ctl update v --fsgroup 5151 >"$scratch/stdout"
	# What is wanted is on record: a caller that mounts again is served as well as one that updates again.
	ctl update v --fsgroup 5151 >"$scratch/stdout" || true
	mount_as 5151 && is_right_now 5151
}
crash_in_tear_down() { mount_it && is_right_now && { crash_at "$1" unmount_it || true; } && unmount_it && is_gone; }
crash_in_tear_down_then_set_up() {
	mount_it && is_right_now && { crash_at "$1" unmount_it || true; } && mount_it && is_mounted_once && is_right_now
}

mount_as() {
	local gid=$1

	mount_it
}

# run_cell FUNCTION [STEP]: whatever it comes to, the next cell finds nothing of it.
run_cell() {
	local text="$row, ${gid:-no} group: $*"

	[[ $text == *"${CELLS:-}"* ]] || return 0
	check "$text" "$@"
	[ ! -s "$scratch/stderr" ] || sed 's/^/#  /' "$scratch/stderr"
	ctl unmount v 2>/dev/null || true
	ctl unstage disk 2>/dev/null || true
	set_sources one
	rm -f "$source/written" "$source/mine"
	chgrp 0 "$source" "$source/file"
	is_gone >"$scratch/left" || {
		check "$text: nothing is left" cat_fails "$scratch/left"
		unmount_below "$scratch"
	}
}

cat_fails() {
	cat "$1"
	return 1
}

mapfile -t cells < <(declare -F | sed -n 's/^declare -f \(cell_.*\)/\1/p')
mapfile -t steps < <("$helpers/steps")

# A step of one command, and what is tried with it.
crash_cells() {
	local step=$1

	case $step in
	mount.*)
		run_cell crash_then_set_up "$step"
		run_cell crash_then_tear_down "$step"
		;;
	refresh.*) run_cell crash_in_refresh "$step" ;;
	update.*) [ -z "$gid" ] || run_cell crash_in_update "$step" ;;
	unmount.*)
		run_cell crash_in_tear_down "$step"
		run_cell crash_in_tear_down_then_set_up "$step"
		;;
	esac
}

number=0
for row in "${rows[@]}"; do
	[[ " ${ROWS:-$row} " == *" $row "* ]] || continue
	for gid in "$GROUP" ''; do
		for i in "${!cells[@]}"; do
			# The short form: every sixth, so that each cell comes in some rows, with the group and without.
			number=$((number + 1))
			[ -n "${LONG:-}" ] || [ $((number % 6)) = 0 ] || continue
			run_cell "${cells[$i]}"
		done
		for i in "${!steps[@]}"; do
			# Between a volume and the one that it wraps it is not known yet what becomes of the group.
			[ -n "${LONG:-}" ] || [ $(((i + number) % ${#steps[@]})) = 0 ] ||
				[ "$row ${steps[$i]}" = 'persistentVolumeClaim mount.wrapped-done' ] || continue
			crash_cells "${steps[$i]}"
		done
	done
done
if [ -n "${LONG:-}" ] && [ -z "${ROWS:-}${CELLS:-}" ]; then
	# Those of devices and of what keepers report: test_volume_block_crash and test_volume_flow.
	check_same 'every step was come to' '' "$(printf '%s\n' "${steps[@]}" | grep -vE '^(stage|unstage|follow)\.' | grep -vxFf "$scratch/reached" | paste -sd ' ' || true)"
fi

end_volume_test
