#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Staging and unstaging a block device, cut off everywhere: the daemon is made to crash at every step (mountd/steps.h), and is
# killed while mkfs runs; then status must work, and staging again or unstaging must finish; an interrupted mkfs is
# reported and never repeated. Needs root, /dev/fuse and loop devices.
set -euo pipefail
# shellcheck source=tests/integ/lib_block.sh
. "$(dirname "$0")/lib_block.sh"
need_root
need_fuse
need_tools jq losetup mkfs.ext4 sha256sum unshare
own_mounts "$0" "$@"
start_block_test
ctl list >/dev/null

pod=$scratch/pod
mkdir "$pod"
loop victim 64M
image=$scratch/victim.img
spec victim

blank() {
	blank_image "$image"
}

# What is known after a crash: the command answers, and a state is one of a device.
status_works() {
	local status=0 state

	state=$(state_of victim) || status=$?
	case $status/$state in
	4/ | 0/staged | 0/failed | 0/absent | 0/tearing-down) return ;;
	esac
	printf '#  status %s, state %s\n' "$status" "$state"
	return 1
}

# What unstage leaves.
is_given_back() {
	same '' "$(mounts_of "$loop")" && is_free "$loop" && same '' "$(ls "$volumes")" &&
		same '[]' "$(ctl list --json | jq -c .)"
}

# ---- stage ----

mapfile -t steps < <("$helpers/steps" | grep '^stage[.]')
steps+=(mount.plugin-bound stage.device-recorded:2 stage.device-recorded:3)
touch "$scratch/reached"
for step in "${steps[@]}"; do
	for next in stage unstage; do
		blank
		crash_at "$step" stage victim --format
		check "crash at $step: status works" status_works
		if [ "$step" = stage.device-recorded:2 ]; then
			check "crash at $step: mkfs is not repeated" no_stage 'is not repeated' victim --format
			check_same "crash at $step: its state" failed "$(state_of victim)"
			check_same "crash at $step: and had not begun" 0 "$(stat -c %b "$image")"
			check "crash at $step: unstage" ctl unstage victim
		fi
		if [ "$next" = stage ]; then
			check "crash at $step: stage again" stage victim --format
			check_same "crash at $step: mounted once" "$volumes/victim/device" "$(mounts_of "$loop")"
			check_same "crash at $step: staged" staged "$(state_of victim)"
		fi
		check "crash at $step: unstage after $next" ctl unstage victim
		check "crash at $step: the device is given back" is_given_back
	done
done

check_same 'every step of stage was come to' '' "$(unreached "${steps[@]%%:*}")"

# ---- unstage ----

mapfile -t steps < <("$helpers/steps" | grep '^unstage[.]')
blank
for step in "${steps[@]}"; do
	for next in unstage stage; do
		check "before $step: stage" stage victim --format
		crash_at "$step" ctl unstage victim
		check "crash at $step: status works" status_works
		if [ "$next" = stage ]; then
			check "crash at $step: stage again" stage victim
			check_same "crash at $step: staged" staged "$(state_of victim)"
		fi
		check "crash at $step: unstage after $next" ctl unstage victim
		check "crash at $step: the device is given back" is_given_back
	done
done

check_same 'every step of unstage was come to' '' "$(unreached "${steps[@]}")"

# ---- mkfs interrupted ----

cp "$(readlink -f "$(command -v mkfs.ext4)")" "$scratch/mke2fs"
cat >"$scratch/mkfs.wrapper" <<-EOF
	#!/bin/bash
	[ ! -e "$scratch/swap" ] || ln -sfn "\$(cat "$scratch/swap")" "$scratch/link"
	[ ! -e "$scratch/before" ] || { kill -9 \$(cat "$scratch/before"); exec sleep 100; }
	(exec -a mkfs.ext4 "$scratch/mke2fs" "\$@")
	[ ! -e "$scratch/after" ] || { kill -9 \$(cat "$scratch/after"); exec sleep 100; }
EOF
chmod 755 "$scratch/mkfs.wrapper"
mount --bind "$scratch/mkfs.wrapper" "$(readlink -f "$(command -v mkfs.ext4)")"
for when in before after; do
	blank
	ctl list >/dev/null
	daemon_pid >"$scratch/$when"
	# The client asks the next daemon again, which refuses.
	check "killed $when mkfs: the next daemon does not repeat it" \
		no_stage 'mkfs.ext4 of' victim --format
	rm "$scratch/$when"
	before=$(sum_of "$image")
	check "killed $when mkfs: that is reported" eval 'field_of victim .reason | grep -q "mkfs.ext4.*interrupted"'
	check_same "killed $when mkfs: its state" failed "$(state_of victim)"
	check "killed $when mkfs: not repeated" no_stage 'was interrupted, and is not repeated' victim --format
	check "killed $when mkfs: also without formatting" no_stage 'was interrupted, and is not repeated' victim
	check_same "killed $when mkfs: the device is not touched" "$before" "$(sum_of "$image")"
	check "killed $when mkfs: unstage" ctl unstage victim
	check "killed $when mkfs: stage as if nothing had been" stage victim --format
	check "killed $when mkfs: unstage again" ctl unstage victim
	check "killed $when mkfs: the device is free" is_free "$loop"
done

# ---- a path that leads elsewhere by the time mkfs runs ----

blank
truncate -s 64M "$scratch/innocent.img"
innocent=$(losetup --find --show "$scratch/innocent.img")
loops+=("$innocent")
ln -s "$loop" "$scratch/link"
printf '%s\n' "$innocent" >"$scratch/swap"
check 'stage by a path that changes before mkfs' \
	ctl stage --spec "$scratch/spec.json" --device "$scratch/link" --volume-id victim --format >/dev/null
check_same 'the path leads elsewhere now' "$innocent" "$(readlink "$scratch/link")"
check_same 'nothing was written there' 0 "$(stat -c %b "$scratch/innocent.img")"
check_same 'the device that was looked at is mounted' "$volumes/victim/device" "$(mounts_of "$loop")"
check 'unstage' ctl unstage victim
umount "$(readlink -f "$(command -v mkfs.ext4)")"

# ---- the store is lost ----

blank
check 'stage' stage victim --format
check 'mount' ctl mount --staged victim --target "$pod" --fsgroup "$GROUP" --volume-id one
check 'native' ctl wait one --for native --timeout 20
kill_daemon KILL
rm "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db"*
check_same 'the device is found again' staged "$(state_of victim)"
check 'with its consumer' refuses 1 'in use by 1 volume: one' unstage victim
check 'the same stage is a success' stage victim --format
check 'unmount' ctl unmount one
check 'unstage' ctl unstage victim
check 'the device is given back' is_given_back

# ---- no byte is free for the state ----

kill_daemon TERM
own=$FSGROUPFS_ROOT
export FSGROUPFS_ROOT=$scratch/small
mkdir "$FSGROUPFS_ROOT"
mount -t tmpfs -o size=32M tmpfs "$FSGROUPFS_ROOT"
volumes=$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes
check 'stage' stage victim
check 'mount' ctl mount --staged victim --target "$pod" --fsgroup "$GROUP" --volume-id one
check 'the disk is full' fill_up "$FSGROUPFS_ROOT/fill"
check 'full disk: unmount' ctl unmount one
check 'full disk: unstage' ctl unstage victim
check 'full disk: the device is given back' is_given_back
kill_daemon TERM
umount "$FSGROUPFS_ROOT"
export FSGROUPFS_ROOT=$own

check 'nothing is left' nothing_mounted
end_volume_test
