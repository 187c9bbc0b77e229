#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# The hand-off while many processes open, lock, write, map and close: no call fails, no lock is had twice, no content is
# stale; and while there are many processes that do nothing, opens are held for no longer.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 unshare
own_mounts "$0" "$@"
start_test
export KEEPER_CTL_TIMEOUT=120
# Where all is slower they rest longer: there must be an instant in which nobody has a file open.
rest=3000
[ -z "$is_sanitized" ] || rest=20000

gid=4242
make_volume ext4 volume
lower=$scratch/volume/lower
target=$scratch/target
mkdir "$target"

# begin FILES: two directories with that many files of a page, a group that is not the wanted one.
begin() {
	local dir i

	rm -rf "$lower"
	mkdir -p "$lower"
	for dir in paths descriptor; do
		mkdir "$lower/$dir"
		for ((i = 0; i < $1; i++)); do
			truncate -s 4096 "$lower/$dir/$i"
		done
	done
	overlay main "$lower" "$target" "gid=$gid" paused "${@:2}"
}

# lockers KIND PROCESSES FILES REST: in the background, until end_lockers KIND.
declare -A locker_pid
lockers() {
	local log=$scratch/$1.log

	: >"$log"
	"$helpers/locker" "$1" "$target/$1" "$2" "$3" "$4" >"$log" &
	locker_pid[$1]=$!
	tail -n +1 -f --pid=$! "$log" | grep -q -m 1 ready || cat "$log"
}

# Shows its last words after a failure; leaves the count and the longest open in $count and $stall.
end_lockers() {
	local status=0

	kill "${locker_pid[$1]}"
	wait "${locker_pid[$1]}" || status=$?
	[ "$status" = 0 ] || sed 's/^/#  /' "$scratch/$1.log"
	read -r count stall < <(tail -n 1 "$scratch/$1.log")
	return "$status"
}

for round in 1 2 3; do
	name="round $round"
	check "$name: mounts" begin 6
	lockers paths 12 6 "$rest"
	lockers descriptor 3 6 "$rest"
	keeper main send resume >/dev/null
	check "$name: handed off under load" turns_native main
	check_same "$name: native" ext4 "$(type_at "$target")"
	check "$name: those that open by path see no error, no lock twice, nothing stale" end_lockers paths
	printf '#  %s locks, the longest open %s us\n' "$count" "$stall"
	check "$name: ... and have done something" test "$count" -gt 20
	check "$name: nor those on a descriptor of the old overlay" end_lockers descriptor
	check_same "$name: what was made right stays" "$gid" "$(stat -c %g "$target/paths/0")"
	check "$name: unmounts" umount "$target"
	check "$name: no process stays" no_process_stays
done

check 'two copies: mounts' begin 6 handoff=namespaces
mkdir "$scratch/other"
mount --bind "$target" "$scratch/other"
lockers paths 8 6 "$rest"
keeper main send resume >/dev/null
check 'two copies: both handed off under load' turns_native main
check_same 'two copies: the other' ext4 "$(type_at "$scratch/other")"
check 'two copies: no error, no lock twice, nothing stale' end_lockers paths
check 'two copies: unmounts' umount "$scratch/other" "$target"
check 'two copies: no process stays' no_process_stays
end_test
