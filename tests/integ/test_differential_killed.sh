#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, and the mkfs of ext4, xfs and btrfs.
# timeout: 200
#
# Nothing outlives the lockstep driver (tests/differential/supervisor.h) when it is killed by SIGKILL in the middle of its
# work: no process, so no mount that only its processes have; no loop device; no directory. In a process namespace of its
# own, and in the first one, where its keepers are no relatives of it; the driver, its supervisor, or all in its group.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib_differential.sh
. "$(dirname "$0")/lib_differential.sh"
start_differential "$@"

processes() { marked_processes 'fsgroupfs*' differential; }

# Its devices by what they are backed with: the driver has unlinked that.
loop_devices() {
	losetup --list --noheadings --output NAME,BACK-MAJ:MIN,BACK-INO,BACK-FILE |
		awk -v below="$scratch/differential." 'index($4, below) == 1 { print $1, $2, $3 }'
}

# Of the two that it has one may be ending or beginning.
is_at_work() {
	[ "$(processes | grep -c 'fsgroupfs')" -ge 2 ] && [ "$(loop_devices | wc -l)" -ge 2 ]
}

no_process() { same '' "$(processes)"; }
no_directory() { same '' "$(find "$scratch" -maxdepth 1 -name 'differential.*')"; }

no_loop_device() {
	same '' "$(losetup --list --noheadings --output NAME,BACK-MAJ:MIN,BACK-INO | awk '{ print $1, $2, $3 }' |
		grep -xF "$1")"
}

# killed TEXT WHO OPTION...
killed() {
	local text=$1 who=$2 driver loops

	shift 2
	# In a group of its own.
	setsid "$differential" --fs ext4 --steps 1000000 --trial 2000 --seed "${DIFFERENTIAL_SEED:-1}" "$@" \
		>"$scratch/log" 2>&1 &
	driver=$!
	check "$text: overlays, on devices of their own" within 20 is_at_work
	loops=$(loop_devices)
	case $who in
	driver) kill -KILL "$driver" ;;
	supervisor) pkill -KILL -P "$driver" ;;
	group) kill -KILL -- "-$driver" ;;
	esac
	wait "$driver" 2>/dev/null || true
	check "$text: no process stays" within 20 no_process
	check "$text: no loop device stays" within 20 no_loop_device "$loops"
	check "$text: no directory stays" within 20 no_directory
}

killed 'in its own process namespace' driver
killed 'its group' group
killed 'its supervisor' supervisor
killed 'while it kills servers' driver --kill 60 --mode converging
if [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]; then
	killed 'idmapped' driver --idmap yes
	killed 'idmapped, its group' group --idmap yes
	killed 'idmapped, its supervisor' supervisor --idmap yes
	killed 'idmapped, while it kills servers' driver --idmap yes --kill 60 --mode converging
else
	echo 'ok - idmapped # SKIP needs the first pid namespace'
fi
end_test
