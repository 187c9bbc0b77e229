# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_volume.sh: what the integration tests of the volume manager share, on top of lib.sh.
#
#   start_volume_test     start_test, and a state directory of its own: FSGROUPFS_ROOT
#   ctl ARGUMENT...       fsgroupctl with that root, standard error kept in $scratch/stderr
#   refuses STATUS WORDS ARGUMENT...   fsgroupctl must exit with STATUS and one line of error that has WORDS
#   state_of ID, field_of ID JQ-PATH
#   kill_until_failed ID  its servers, one after the other, until no other is started: at the fifth death at latest
#   show_mount_helpers    mount(8) finds mount.fsgroupfs, in this test's mount namespace; a skip where it cannot be
#   until_list JQ-EXPRESSION   waits until the list of all volumes satisfies that
#   daemon_pid            of the daemon, empty when there is none
#   kill_daemon SIGNAL    and waits for its end
#   crash_at STEP COMMAND...   with a daemon that crashes at that step (mountd/steps.h), and each that is started after
#                         it; steps that were come to are noted in $scratch/reached
#   unreached STEP...     those that never were
#   keeper_groups [ID]    the control groups of its keepers
#   make_files DIR COUNT  a tree of small files, mode 0640, group 0
#   nothing_mounted       no mount of ours, no keeper, no volume
#   end_volume_test       unmounts all, ends the daemon, end_test

# shellcheck source=tests/integ/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly GROUP=4242

start_volume_test() {
	start_test
	export FSGROUPFS_ROOT=$scratch/root
	mkdir "$FSGROUPFS_ROOT"
	trap clean_up_volumes EXIT
}

# Whatever happens, the daemon ends before lib.sh looks at what is left.
clean_up_volumes() {
	local status=$?

	set +e
	kill_daemon KILL
	(exit "$status")
	clean_up
}

clean_more() {
	local group

	for group in $(keeper_groups ''); do
		for _ in {1..50}; do
			rmdir "$group" 2>/dev/null && break
			sleep 0.02
		done
	done
}

keeper_groups() {
	local hash

	hash=$(printf '%s' "$FSGROUPFS_ROOT/run/fsgroupfs/keepers" | sha256sum | cut -c1-12)
	find /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd -maxdepth 1 \
		-name "fsgroupfs-keeper-$hash-${1:-*}" 2>/dev/null | sort
}

ctl() {
	timeout 60 "$BIN/fsgroupctl" "$@" 2>"$scratch/stderr"
}

refuses() {
	local wanted=$1 words=$2 status=0

	shift 2
	ctl "$@" >"$scratch/stdout" || status=$?
	if [ "$status" != "$wanted" ]; then
		printf '#  exit status %s, not %s: %s\n' "$status" "$wanted" "$(cat "$scratch/stderr")"
		return 1
	fi
	if [ "$(wc -l <"$scratch/stderr")" != 1 ] || ! grep -qF -- "$words" "$scratch/stderr"; then
		printf '#  not one line with "%s": %s\n' "$words" "$(cat "$scratch/stderr")"
		return 1
	fi
}

field_of() {
	ctl status --json "$1" | jq -r "$2"
}

state_of() {
	field_of "$1" .state
}

kill_until_failed() {
	local state pid before='' kills=0

	# One that is killed is there for a moment yet: each is killed once.
	while read -r state pid < <(field_of "$1" '"\(.state) \(.server.pid)"') && [ "$state" != failed ]; do
		[ "$pid" != "$before" ] && [ "$pid" != 0 ] || continue
		((++kills <= 5)) && kill -9 "$pid" || return
		before=$pid
	done
	[ "$state" = failed ]
}

# mount(8) looks in one directory of the machine's: that, with our programs in front of it.
show_mount_helpers() {
	local name

	mkdir "$scratch/helpers"
	for name in mount.fsgroupfs mount.fuse.fsgroupfs umount.fuse.fsgroupfs; do
		ln -s "$BIN/mount.fsgroupfs" "$scratch/helpers/$name"
	done
	mount -t overlay overlay -o "lowerdir=$scratch/helpers:/usr/sbin" /usr/sbin 2>/dev/null ||
		skip 'needs overlay file systems'
}

until_list() {
	local line watcher stream found=1

	exec {stream}< <(exec timeout 20 "$BIN/fsgroupctl" status --json --watch 2>/dev/null)
	watcher=$!
	while [ "$found" = 1 ] && IFS= read -r line <&"$stream"; do
		! jq -e "$1" <<<"$line" >"$scratch/jq" || found=0
	done
	# One that is left would start another daemon when this one ends.
	kill "$watcher" 2>/dev/null || true
	wait "$watcher" || true
	exec {stream}<&-
	[ "$found" = 0 ] || ctl list --json
	return "$found"
}

daemon_pid() {
	pgrep -f "^[^ ]*fsgroup-mountd --root $FSGROUPFS_ROOT" || true
}

kill_daemon() {
	local pid

	for pid in $(daemon_pid); do
		kill "-$1" "$pid" 2>/dev/null || true
		timeout 20 tail -s 0.02 --pid="$pid" -f /dev/null
	done
}

daemons_started() {
	grep -c 'op=start' "$FSGROUPFS_ROOT/var/lib/fsgroupfs/mountd.log" 2>/dev/null || true
}

crash_at() {
	local step=$1 before

	shift
	kill_daemon KILL
	before=$(daemons_started)
	FSGROUPFS_CRASH_AT=$step "$@" || true
	kill_daemon KILL
	# What keepers report at once is met while the daemon is starting.
	if [ "$(daemons_started)" -gt "$((${before:-0} + 1))" ] ||
		grep -q 'ended while it was starting' "$scratch/stderr"; then
		printf '%s\n' "${step%%:*}" >>"$scratch/reached"
	fi
}

unreached() {
	printf '%s\n' "$@" | grep -vxFf "$scratch/reached" | paste -sd ' ' || true
}

make_files() {
	local dir=$1 count=$2

	mkdir -p "$dir"
	(
		cd "$dir"
		for ((i = 0; i < count; i++)); do
			((i % 100)) || mkdir -p "d$((i / 100))"
			printf '%d\n' "$i" >"d$((i / 100))/f$i"
		done
		find . -type d -exec chmod 750 {} +
		find . -type f -exec chmod 640 {} +
	)
}

# Entries of a tree that are not what the eager change would have made of them.
wrong_entries() {
	find "$1" \( ! -gid "$GROUP" -o -type d ! -perm -2770 -o ! -type d ! -type l ! -perm -0660 \) -print
}

is_right() {
	same '' "$(wrong_entries "$1" | sed -n 1,3p)"
}

nothing_mounted() {
	same '' "$(mounts_below "$scratch")" && no_process_stays && same '[]' "$(ctl list --json | jq -c .)"
}

end_volume_test() {
	check 'unmount --all' ctl unmount --all
	check 'nothing is mounted below the state directory' same '' "$(mounts_below "$FSGROUPFS_ROOT")"
	kill_daemon TERM
	end_test
}
