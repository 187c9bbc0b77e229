# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib.sh: what the integration tests of the overlay share. Sourced after the gates.
#
#   need_root, need_fuse, need_tools NAME...  gates: exit 77 with the reason
#   own_mounts "$0" "$@"                      runs the test in a mount namespace of its own, so that no other
#                                             process of the machine gets copies of its mounts, which would
#                                             rightly keep overlays from being handed off and from ending
#   start_test                                a scratch directory $scratch, cleaned up whatever happens
#   check TEXT COMMAND...                     prints "ok - TEXT" or "not ok - TEXT"; goes on
#   check_fails TEXT COMMAND...               the same, for a command that must fail
#   check_same TEXT WANTED GOT                two texts
#   end_test                                  nothing must be left; the exit status
#   make_volume TYPE NAME                     a file system of its own at $scratch/NAME: ext4 xfs btrfs tmpfs
#   mount_again LOOP AT                       mounts what was shut down
#   fill_up FILE                              writes to it until no byte goes in
#   overlay NAME SOURCE TARGET OPTION...      mounts, with a control socket under that NAME
#   keeper NAME send|get|wait ...             talks to it (tests/helpers/keeper_ctl.c)
#   upgrade_overlay NAME PROGRAM              it takes over; where requests take too long it is asked again, for a
#                                             minute. What the keeper said is in $scratch/answer
#   turns_native NAME [VERB]                  waits for its hand-off
#   within SECONDS COMMAND...                 tries it again and again until it succeeds: for what has no event
#   stop_process PID                          stops it, and waits until it has
#   has_prune                                 whether the kernel can be asked to forget files (Linux 6.18)
#   descriptors_of PID                        how many it has
#   as UID GID GROUPS COMMAND...              runs a command as another user; GROUPS may be ""
#
# The programs are taken from $BIN, the helpers from $TESTBIN/helpers; is_sanitized is not empty where they were built
# with sanitizers.

set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BIN=${BIN:-$repository/build/bin}
TESTBIN=${TESTBIN:-$repository/build/tests}
helpers=$TESTBIN/helpers
fsgroupfs=$BIN/fsgroupfs
# shellcheck disable=SC2034 # for the tests
is_sanitized=
# shellcheck disable=SC2034
case ${BIN##*/} in
bin-*) is_sanitized=yes ;;
esac
failed=0
passed=0
scratch=
loops=()

skip() {
	printf 'skipped: %s\n' "$*"
	exit 77
}

need_root() {
	[ "$(id -u)" = 0 ] || skip 'needs root'
}

need_fuse() {
	[ -c /dev/fuse ] || skip 'needs /dev/fuse'
}

need_tools() {
	local tool

	for tool; do
		command -v "$tool" >/dev/null || skip "needs $tool"
	done
}

own_mounts() {
	need_tools unshare
	[ -z "${FSGROUPFS_OWN_MOUNTS:-}" ] || return 0
	export FSGROUPFS_OWN_MOUNTS=1
	exec unshare -m --propagation private "$@"
}

# marked_processes NAME...: of this test, by the mark that they inherited: number and name of those with such a name.
marked_processes() {
	local proc comm name

	for proc in /proc/[0-9]*; do
		comm=
		read -r comm <"$proc/comm" || true
		for name; do
			# shellcheck disable=SC2053 # a pattern
			[[ $comm != $name ]] || ! grep -qzxF "FSGROUPFS_TEST=$scratch" "$proc/environ" ||
				printf '%s %s\n' "${proc#/proc/}" "$comm"
		done
	done 2>/dev/null
	return 0
}

# Those that run the overlay.
overlay_pids() {
	marked_processes 'fsgroupfs*' | cut -d ' ' -f 1
}

# within SECONDS COMMAND...: it succeeds by then, tried again and again: for what has no event.
within() {
	local until=$((SECONDS + $1))

	shift
	while ((SECONDS < until)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.02
	done
	"$@"
}

# None of its threads will do anything more; but those that wait in the kernel for a disk.
is_stopped() {
	! awk '{ sub(/.*\) /, "") } $1 == "R" || $1 == "S" { runs = 1 } END { exit !runs }' "/proc/$1/task/"*/stat
}

# stop_process PID: SIGSTOP, and not before it has come: a thread that gets no processor meanwhile keeps others going.
stop_process() {
	kill -STOP "$1" && within 20 is_stopped "$1"
}

mounts_below() {
	awk -v below="$1/" 'index($5 "/", below) == 1 { print $5 }' /proc/self/mountinfo
}

unmount_below() {
	local mount

	# mountinfo has \012 and the like in a name.
	mounts_below "$1" | tac | while IFS= read -r mount; do
		printf -v mount %b "$mount"
		umount -l "$mount" || true
	done
}

# What there is besides, when all processes have been killed.
clean_more() { :; }

# Those of ${loops[@]} that are this test's still: the number of one that it has detached may be another test's by now.
own_loops() {
	local loop

	for loop in "${loops[@]}"; do
		[[ $(losetup -n -O BACK-FILE "$loop" 2>/dev/null) != "$scratch"/* ]] || printf '%s\n' "$loop"
	done
}

clean_up() {
	local status=$? pids jobs_left own

	trap - EXIT INT TERM HUP
	set +e
	jobs_left=$(jobs -p)
	# shellcheck disable=SC2086
	[ -z "$jobs_left" ] || kill -9 $jobs_left 2>/dev/null
	cd /
	own=$(own_loops) # while its files are where it has put them
	unmount_below "$scratch"
	pids=$(overlay_pids)
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill -9 $pids 2>/dev/null
	unmount_below "$scratch"
	clean_more
	# shellcheck disable=SC2086
	[ -z "$own" ] || losetup -d $own 2>/dev/null
	chattr -R -f -i -a "$scratch" 2>/dev/null
	"$helpers/tree" remove "$scratch" 2>/dev/null
	rm -rf --one-file-system "$scratch"
	exit "$status"
}

start_test() {
	[ -x "$fsgroupfs" ] || skip "$fsgroupfs is not built"
	[ -x "$helpers/tree" ] || skip "$helpers is not built"
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/fsgroupfs-test.XXXXXX")
	trap clean_up EXIT
	trap 'exit 1' INT TERM HUP
	export FSGROUPFS_TEST=$scratch
	chmod 755 "$scratch"
	mkdir "$scratch/run"
	umask 022
}

check() {
	local text=$1

	shift
	if "$@"; then
		passed=$((passed + 1))
		printf 'ok - %s\n' "$text"
	else
		failed=$((failed + 1))
		printf 'not ok - %s\n' "$text"
	fi
}

fails() {
	! "$@" >/dev/null 2>&1
}

check_fails() {
	local text=$1

	shift
	check "$text" fails "$@"
}

same() {
	[ "$1" = "$2" ] && return
	printf '#  wanted: %s\n#  got:    %s\n' "$1" "$2"
	return 1
}

check_same() {
	check "$1" same "$2" "$3"
}

# Two files that must be equal; the first differences are shown.
same_files() {
	cmp -s "$1" "$2" && return
	diff "$1" "$2" | cut -c1-300 | head -n 10 | sed 's/^/#  /' || true
	return 1
}

no_process_stays() {
	local pids

	pids=$(overlay_pids)
	[ -z "$pids" ] && return
	# shellcheck disable=SC2086
	KEEPER_CTL_TIMEOUT=60 "$helpers/keeper_ctl" gone $pids
}

no_mount_stays() {
	local mounts

	mounts=$(mounts_below "$1")
	[ -z "$mounts" ] && return
	printf '#  still mounted: %s\n' "$mounts"
	return 1
}

end_test() {
	check 'no process stays' no_process_stays
	printf '# %d passed, %d failed\n' "$passed" "$failed"
	[ "$failed" = 0 ]
	exit
}

make_volume() {
	local type=$1 at=$scratch/$2 image=$scratch/$2.img loop

	mkdir -p "$at"
	case $type in
	tmpfs)
		mount -t tmpfs -o mode=755 tmpfs "$at"
		return
		;;
	ext4) truncate -s "${VOLUME_SIZE:-256M}" "$image" ;;
	*) truncate -s 512M "$image" ;;
	esac
	case $type in
	ext4) mkfs.ext4 -q -F -b 4096 "$image" ;;
	xfs) mkfs.xfs -q -f "$image" ;;
	btrfs) mkfs.btrfs -q -f "$image" >"$scratch/mkfs.log" 2>&1 || cat "$scratch/mkfs.log" ;;
	esac
	loop=$(losetup --find --show "$image")
	loops+=("$loop")
	mount -t "$type" "$loop" "$at"
	chmod 755 "$at"
}

mounts_alive() {
	mount "$1" "$2" || return
	! { touch "$2/.alive" && rm "$2/.alive"; } || return 0
	umount "$2"
	return 1
}

# mount_again LOOP AT: after a file system was shut down. Until the last mount namespace that had it is gone its dead
# superblock would be mounted once more, which has no event.
mount_again() {
	umount "$2" && within 10 mounts_alive "$1" "$2"
}

# What others give back meanwhile (a log that is cut, a file that is removed) is filled too.
fill_up() {
	local said

	while :; do
		cat /dev/zero >>"$1" || true
		said=$({ printf 0 >>"$1"; } 2>&1) || break
	done 2>/dev/null
	sync "$1"
	[[ $said = *'No space left on device'* ]]
}

keeper() {
	local name=$1 verb=$2

	shift 2
	"$helpers/keeper_ctl" "$verb" "$scratch/run/$name" "$@"
}

overlay() {
	local name=$1 source=$2 target=$3 option args=()

	shift 3
	for option; do
		args+=(-o "$option")
	done
	rm -f "$scratch/run/$name"
	"$helpers/keeper_ctl" run "$scratch/run/$name" "$fsgroupfs" "${args[@]}" "$source" "$target"
}

upgrade_overlay() {
	local end=$((SECONDS + 60))

	until "$helpers/keeper_ctl" upgrade "$scratch/run/$1" "$2" >"$scratch/answer"; do
		grep -qF 'a request takes too long' "$scratch/answer" && ((SECONDS < end)) || return
	done
}

# Waits for the hand-off; after VERB, when given. A keeper that is gone has done it, or died: look at the
# mount afterwards.
turns_native() {
	local name=$1 status=0

	shift
	keeper "$name" wait state=native "$@" || status=$?
	[ "$status" = 0 ] || [ "$status" = 4 ]
}

# The type of the file system at a mount point, as mountinfo has it.
type_at() {
	awk -v at="$1" '$5 == at { for (i = 7; $i != "-"; i++); type = $(i + 1) } END { print type }' \
		/proc/self/mountinfo
}

as() {
	local uid=$1 gid=$2 groups=$3

	shift 3
	if [ -n "$groups" ]; then
		setpriv --reuid "$uid" --regid "$gid" --groups "$groups" --inh-caps=-all -- "$@"
	else
		setpriv --reuid "$uid" --regid "$gid" --clear-groups --inh-caps=-all -- "$@"
	fi
}

attributes() {
	stat -c '%u:%g:%a' "$@"
}

has_prune() {
	local major minor

	IFS=.- read -r major minor _ < <(uname -r)
	[ "$major" -gt 6 ] || { [ "$major" = 6 ] && [ "$minor" -ge 18 ]; }
}

descriptors_of() {
	find "/proc/$1/fd" -type l | wc -l
}
