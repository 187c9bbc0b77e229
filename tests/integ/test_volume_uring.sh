#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Volumes with --transport io_uring: what status says, what is refused, and that the daemon keeps to it.
# Needs root, /dev/fuse and a kernel with FUSE over io_uring (6.14), which it may switch on for as long as it runs.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
# shellcheck source=tests/integ/lib_uring.sh
. "$(dirname "$0")/lib_uring.sh"
need_root
need_fuse
need_tools jq setpriv unshare mount
own_mounts "$0" "$@"
need_io_uring
start_volume_test
show_mount_helpers
clean_groups=$(declare -f clean_more)
eval "${clean_groups/clean_more/clean_groups}"
clean_more() {
	leave_io_uring
	clean_groups
}

data=$scratch/data pod=$scratch/pod
mkdir "$pod"
make_files "$data" 300

local_volume() {
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id v "$@"
}
over_ring() {
	local_volume --handoff no --converge-rate 1 --transport io_uring "$@"
}
transport() { field_of v .server.transport; }

# ---- refused ----

check 'an unknown transport' refuses 1 'unknown transport' mount --plugin local --source "$data" --target "$pod" \
	--fsgroup "$GROUP" --transport uring
io_uring_is off
check 'where the kernel does not do it, by the name of the parameter' refuses 1 "$uring_parameter is not Y" mount --plugin local \
	--source "$data" --target "$pod" --fsgroup "$GROUP" --transport io_uring
check 'doctor tells' grep -q "^ok *FUSE io_uring  *off.*$uring_parameter" <(ctl doctor)
check 'nothing is mounted' no_mount_stays "$pod"
check_same 'there is no volume' '[]' "$(ctl list --json | jq -c .)"
io_uring_is on

check 'doctor tells' grep -q '^ok *FUSE io_uring  *on' <(ctl doctor)

# ---- what it says ----

check 'the device, else' local_volume --handoff no --converge-rate 1
check_same 'is said' 'dev null' "$(transport) $(field_of v .server.noFailover)"
check 'unmount' ctl unmount v
check 'a volume over io_uring' over_ring
check_same 'its group is shown' "$GROUP" "$(stat -c %g "$pod/d0/f1")"
check_same 'says so, and that the death of its server ends the mount' 'io_uring transport=io_uring' \
	"$(transport) $(field_of v .server.noFailover)"
ctl status v >"$scratch/shown"
check 'to people, too' grep -q 'over io_uring' "$scratch/shown"
check 'and why' grep -q 'its death ends the mount: transport=io_uring' "$scratch/shown"
check_same 'a member writes' '' "$(as 1500 1500 "$GROUP" sh -c 'echo more >>"$1/d0/f1"' _ "$pod" 2>&1)"
check 'no live upgrade' refuses 1 'could not be followed' upgrade --volume v
check 'for that reason' grep -q 'transport=io_uring' "$scratch/stdout"
check_same 'the server goes on' 0 "$(field_of v .server.upgrades)"
server=$(field_of v .server.pid)

# ---- the daemon keeps to it ----

check 'repeating the mount is a success' over_ring
check 'also without a word on it' local_volume --handoff no --converge-rate 1
check_same 'and changes nothing' "$server" "$(field_of v .server.pid)"
check_fails 'a remount cannot change it' mount -o remount,transport=dev "$pod"
mount -o remount,transport=dev "$pod" 2>"$scratch/out" || true
check 'and says so' grep -q 'transport cannot change by a remount' "$scratch/out"
check 'a remount that says the same' mount -o remount,transport=io_uring,noatime "$pod"
kill_daemon KILL
check_same 'another daemon adopts it' "$server io_uring" "$(field_of v .server.pid) $(transport)"
kill -9 "$server"
check 'a dead server is mounted again by the daemon' until_list "any(.[]; .server != null and .server.pid != $server)"
check_same 'over io_uring, as it is on record' io_uring "$(transport)"
check_same 'and works' "$GROUP" "$(stat -c %g "$pod/d0/f1")"
ctl events >"$scratch/events"
check 'with an event' grep -q ' v reconstructed .*remount' "$scratch/events"
check 'unmount' ctl unmount v

# ---- to its end, and by mount(8) ----

check 'converges and is handed off' local_volume --transport io_uring
check 'native' ctl wait v --for native --timeout 30
check_same 'and right' "$GROUP:660" "$(stat -c %g:%a "$data/d0/f2")"
check 'unmount' ctl unmount v
check 'by mount(8)' mount -t fsgroupfs -o "gid=$GROUP,handoff=no,converge_rate=1,transport=io_uring,volume_id=v" "$data" "$pod"
check_same 'over io_uring' io_uring "$(transport)"
check 'unmount' umount "$pod"
end_volume_test
