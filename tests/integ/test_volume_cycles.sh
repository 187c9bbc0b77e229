#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# CYCLES mounts and unmounts (default 50) of four kinds of volumes, and FAILOVERS deaths (default 20) of the server of one
# that stays: descriptors, threads, memory, the store, control groups, mounts and what lies below /run are what they were.
# The first cycles, WARM_UP of them, do not count. Needs root and /dev/fuse.
# timeout: 20000
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_volume_test

CYCLES=${CYCLES:-50}
FAILOVERS=${FAILOVERS:-20}
WARM_UP=${WARM_UP:-$((CYCLES < 400 ? 20 : CYCLES / 4))}
state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
mount -t tmpfs -o mode=755 tmpfs "$FSGROUPFS_ROOT"
make_volume tmpfs data
mkdir "$scratch/pods" "$scratch/stays"
make_files "$scratch/data/stays" 50
make_files "$scratch/data/cycled" 20
printf '{"name": "v", "secret": {"secretName": "s"}}' >"$scratch/secret"
printf '{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "value"}}' >"$scratch/objects"

# What is its own: how much of a library is counted as a process's depends on how many others have it. A sanitizer keeps
# what was freed.
memory_of() {
	case $BIN in
	*/bin) own_memory_of "$1" ;;
	*) echo 0 ;;
	esac
}
own_memory_of() { awk '/^Pss_Anon:|^Pss_Shmem:/ { sum += $2 } END { print sum }' "/proc/$1/smaps_rollup"; }

# Of each thing that may grow: its name, how much of it there is, and by how much it may have grown.
facts() {
	local daemon keeper server

	daemon=$(daemon_pid)
	server=$(field_of stays .server.pid)
	keeper=$(ps -o ppid= -p "$server" | tr -d ' ')
	cat <<-END
		daemon-descriptors $(descriptors_of "$daemon") 2
		daemon-threads $(find "/proc/$daemon/task" -mindepth 1 -maxdepth 1 | wc -l) 2
		daemon-memory-kB $(memory_of "$daemon") 1024
		keeper-descriptors $(descriptors_of "$keeper") 0
		keeper-memory-kB $(memory_of "$keeper") 64
		server-descriptors $(descriptors_of "$server") 2
		server-memory-kB $(memory_of "$server") 256
		processes $(overlay_pids | wc -l) 0
		mounts $(wc -l </proc/self/mountinfo) 0
		mounts-of-daemon $(wc -l <"/proc/$daemon/mountinfo") 0
		control-groups $(keeper_groups | wc -l) 2
		below-run $(find "$FSGROUPFS_ROOT/run" | wc -l) 0
		below-state $(find "$state" | wc -l) 1
		store-kB $(du -sk --apparent-size "$state"/store.db* | awk '{ sum += $1 } END { print sum }') 1024
	END
}

# what_grew BEFORE AFTER: nothing is printed where nothing has.
what_grew() {
	paste -d ' ' "$1" "$2" | awk '$5 > $2 + $3 { print $1 " " $2 " -> " $5 }'
}

cycle() {
	local number=$1 target=$scratch/pods/$1 arguments

	case $((number % 4)) in
	0) arguments=(--plugin local --source "$scratch/data/cycled" --policy Always) ;;
	1) arguments=(--plugin local --source "$scratch/data/cycled" --converge-rate 1 --policy Always) ;;
	2) arguments=(--plugin emptyDir) ;;
	3) arguments=(--spec "$scratch/secret" --objects "$scratch/objects") ;;
	esac
	mkdir "$target" &&
		ctl mount "${arguments[@]}" --target "$target" --fsgroup $((5000 + number % 2)) --volume-id "v$number" &&
		ctl unmount "v$number" && rmdir "$target" && return
	sed 's/^/#  /' "$scratch/stderr"
	return 1
}

cycles() {
	local i

	for ((i = $1; i < $2; i++)); do
		cycle "$i" || return
	done
}

is_followed() {
	local now

	now=$(field_of stays .server.pid)
	[ "$now" -gt 0 ] && [ "$now" != "$1" ]
}

# What the kernel still knows of a file needs no server: that there is another one is asked for, too.
failovers() {
	local i server

	for ((i = 0; i < $1; i++)); do
		server=$(field_of stays .server.pid)
		kill -9 "$server" || return
		stat "$scratch/stays/d0/f$((i % 50))" >"$scratch/stat" || return
		within 20 is_followed "$server" 2>/dev/null || return
		# Five deaths in a minute are too many, unless somebody says that he knows of what.
		ctl recover stays || return
	done
}

# What ended last may be on its way out yet.
have_not_grown() {
	facts >"$2" && [ -z "$(what_grew "$1" "$2")" ]
}
facts_stay() {
	within 20 have_not_grown "$@"
}

check 'a volume that stays' ctl mount --plugin local --source "$scratch/data/stays" --target "$scratch/stays" \
	--fsgroup "$GROUP" --volume-id stays --handoff no
check 'the first cycles' cycles 0 "$WARM_UP"
facts >"$scratch/before"
start=$EPOCHSECONDS
check "$CYCLES cycles" cycles "$WARM_UP" $((WARM_UP + CYCLES))
facts_stay "$scratch/before" "$scratch/after" || true
printf '# in %d s\n' $((EPOCHSECONDS - start))
paste -d ' ' "$scratch/before" "$scratch/after" | awk '{ print "# " $1 ": " $2 " -> " $5 }'
check_same 'nothing has grown' '' "$(what_grew "$scratch/before" "$scratch/after")"
check 'the store is whole' ctl store check
# Like with like: a successor, which has taken over what its predecessor knew, and knows all files.
find "$scratch/stays" -exec stat {} + >"$scratch/stat"
check 'a failover' failovers 1
facts >"$scratch/after"
check "$FAILOVERS more" failovers "$FAILOVERS"
facts_stay "$scratch/after" "$scratch/failed-over" || true
paste -d ' ' "$scratch/after" "$scratch/failed-over" | awk '{ print "# " $1 ": " $2 " -> " $5 }'
check_same 'nor has anything by these' '' "$(what_grew "$scratch/after" "$scratch/failed-over")"
check 'unmount --all' ctl unmount --all
kill_daemon TERM
umount "$FSGROUPFS_ROOT"
check 'nothing is mounted' same '' "$(mounts_below "$scratch" | grep -vx "$scratch/data")"
umount "$scratch/data"
end_test
