#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# The hand-off: at once when nobody uses the overlay; not while somebody does; by itself afterwards; and
# unseen by whoever works on it meanwhile.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 unshare
own_mounts "$0" "$@"
start_test

gid=4242
make_volume ext4 volume
lower=$scratch/volume/lower
target=$scratch/target
other=$scratch/other
mkdir "$target" "$other"

# A fresh overlay with some pending files, paused.
begin() {
	rm -rf "$lower"
	mkdir -p "$lower/dir/sub"
	printf 'content\n' >"$lower/file"
	truncate -s 8192 "$lower/mapped"
	: >"$lower/log"
	printf 'deep\n' >"$lower/dir/sub/file"
	overlay main "$lower" "$target" "gid=$gid" paused "$@"
}

resume() {
	keeper main send resume >/dev/null
}

is_overlay() {
	[ "$(type_at "$target")" = fuse.fsgroupfs ]
}

is_native() {
	[ "$(type_at "$target")" = ext4 ]
}

finish() {
	check "$1: unmounts" umount "$target"
	check "$1: no process stays" no_process_stays
	check "$1: nothing is mounted" no_mount_stays "$target"
}

# Starts a helper that uses the overlay until release_user.
start_user() {
	coproc USER_OF_IT { "$@"; }
	user_in=${USER_OF_IT[1]}
	user_out=${USER_OF_IT[0]}
	user_pid=$USER_OF_IT_PID
	read -r -u "$user_out" answer
	[ "$answer" = ready ] || printf '#  %s\n' "$answer"
}

# Prints what the helper says at its end; its exit status.
release_user() {
	exec {user_in}>&-
	read -r -u "$user_out" answer || answer='no answer'
	wait "$user_pid"
}

blocked_by() {
	local text=$1 reason=$2

	resume
	check "$text: converged, not handed off, and says why" keeper main wait "reason^=$reason"
	check_same "$text: the state" converged "$(keeper main get state)"
	check "$text: the overlay is still there" is_overlay
}

goes_native() {
	check "$1: native by itself afterwards" turns_native main
	check "$1: the file system itself is there" is_native
	check_same "$1: its group is real" "$gid" "$(stat -c %g "$target/dir/sub/file")"
}

check 'unused: mounts' begin
check 'unused: an overlay first' is_overlay
resume
goes_native unused
check 'unused: nothing holds the overlay' no_process_stays
finish unused

begin
start_user "$helpers/hold" open "$target/file"
blocked_by 'an open file' '1 open file'
check_fails 'an open file: unmounting is refused' umount "$target"
release_user
goes_native 'an open file'
finish 'an open file'

begin
start_user "$helpers/hold" map "$target/mapped"
blocked_by 'a file mapped after its close' 'process '
release_user
goes_native 'a file mapped after its close'
check_same 'a file mapped after its close: the store is there' mapped \
	"$(head -c 6 "$target/mapped")"
finish 'a file mapped after its close'

begin
mount --bind "$target" "$other"
blocked_by 'a bind mount elsewhere' 'it is mounted at another place'
umount "$other"
goes_native 'a bind mount elsewhere'
finish 'a bind mount elsewhere'

begin
mount --bind "$target/dir" "$other"
blocked_by 'a bind mount of a directory' 'it is mounted at another place'
umount "$other"
goes_native 'a bind mount of a directory'
finish 'a bind mount of a directory'

begin
mount -t tmpfs tmpfs "$target/dir"
blocked_by 'a mount inside' 'something is mounted below'
umount "$target/dir"
goes_native 'a mount inside'
finish 'a mount inside'

begin
start_user unshare -m sh -c 'echo ready; cat; echo done'
blocked_by 'another mount namespace' 'it is mounted in the mount namespace'
release_user
goes_native 'another mount namespace'
finish 'another mount namespace'

begin handoff=no
resume
check 'handoff=no: converges' keeper main wait state=converged
check_same 'handoff=no: says why' 'hand-off is off' "$(keeper main get reason)"
check 'handoff=no: stays an overlay' is_overlay
finish 'handoff=no'

for round in 1 2 3; do
	name="swap under work, round $round"
	begin
	start_user "$helpers/hold" append "$target/log"
	appender_in=$user_in appender_out=$user_out appender_pid=$user_pid
	# bash has one coproc at a time: the second is a job with a pipe of its own.
	mkfifo "$scratch/creator"
	"$helpers/hold" create "$target/dir" <"$scratch/creator" >"$scratch/created" &
	creator_pid=$!
	exec 8>"$scratch/creator"
	resume
	check "$name: handed off" turns_native main
	check "$name: native is there" is_native
	user_in=$appender_in user_out=$appender_out user_pid=$appender_pid
	check "$name: who appends sees no error" release_user
	check_same "$name: no line is lost" "$answer" "$(wc -l <"$lower/log")"
	exec 8>&-
	check "$name: who creates and deletes sees no error" wait "$creator_pid"
	grep -v -e ready -e '^[0-9]*$' "$scratch/created" || true
	rm "$scratch/creator"
	check_same "$name: nothing of it stays" sub "$(ls "$lower/dir")"
	finish "$name"
done

# Whoever stands inside goes on working on the old overlay, which ends when he leaves.
begin
exec 9<"$target/dir"
cd "$target/dir/sub"
resume
check 'standing inside: does not keep the hand-off' turns_native main
check 'standing inside: native' is_native
check_same 'standing inside: the overlay is held' 1 "$(keeper main get holders)"
check 'standing inside: creates' touch here
check_same 'standing inside: reads' deep "$(cat file)"
check 'standing inside: through a descriptor' touch /proc/self/fd/9/there
check_same 'standing inside: others see it' "$gid" "$(stat -c %g "$target/dir/sub/here")"
check 'standing inside: and that' test -e "$target/dir/there"
cd /
exec 9<&-
check 'standing inside: the overlay ends when he leaves' no_process_stays
finish 'standing inside'

# A shared parent mount, as systemd makes every mount; then one with a peer.
plain=$target
mount --bind "$plain" "$plain"
mount --make-shared "$plain"
mkdir "$plain/shared"
target=$plain/shared
begin
resume
goes_native 'a shared parent'
finish 'a shared parent'
mount --bind "$plain" "$other"
begin
check_same 'a peer of the parent: sees the overlay' fuse.fsgroupfs "$(type_at "$other/shared")"
blocked_by 'a peer of the parent' 'it is mounted at another place'
finish 'a peer of the parent'
umount "$other"
umount "$plain"
target=$plain

begin
exec 9<"$target/file"
check_fails 'unmounting what is in use is refused' umount "$target"
exec 9<&-
finish 'in the end'
end_test
