#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# The server of an overlay is killed at every point of every kind of request that changes the tree or the
# table of nodes: the caller gets the answer it would have got, and what it asked for has happened once.
# Then: what is open, mapped, held without a name, and waiting goes on; a server that hangs is replaced;
# one that keeps dying is given up until somebody says recover.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
own_mounts "$0" "$@"
need_root
need_fuse
need_tools mkfs.ext4 losetup setfattr getfattr mkfifo
start_test

gid=4242
once=$helpers/once
make_volume ext4 volume
volume=$scratch/volume
lower=$volume/lower
target=$scratch/target
mkdir "$target"

mkdir -p "$volume/template/dir" "$volume/template/empty" "$volume/template/many"
for file in a b c dir/x many/{1..200}; do
	printf 'content of %s\n' "$file" >"$volume/template/$file"
done
chmod 640 "$volume"/template/[a-c] "$volume"/template/*/*
setfattr -n user.old -v old "$volume/template/a"
chown -R -h 1000:1000 "$volume/template"

begin() {
	rm -rf "$lower"
	cp -a "$volume/template" "$lower"
	overlay main "$lower" "$target" "gid=$gid" paused "$@"
}

user() {
	(cd "$target" && as 1000 1000 "$gid" "$@")
}

finish() {
	check "$1: unmounts, and its processes end" unmounts
}

unmounts() {
	umount "$target" && no_process_stays
}

restarts() {
	keeper main get restarts
}

# Each case: the operation, and what must then be true of the lower tree.
op_mkdir() { user mkdir new; }
is_mkdir() { same "1000:$gid:2755" "$(attributes "$lower/new")"; }
op_mknod() { user mkfifo new; }
is_mknod() { same "1000:$gid:644" "$(attributes "$lower/new")" && [ -p "$lower/new" ]; }
op_symlink() { user ln -s a new; }
is_symlink() { same a "$(readlink "$lower/new")"; }
op_create() { user "$once" excl new text; }
is_create() { same "text 1000:$gid:640" "$(cat "$lower/new") $(attributes "$lower/new")"; }
op_tmpfile() { user "$once" tmpfile . new text; }
is_tmpfile() { same "text 1" "$(cat "$lower/new") $(stat -c %h "$lower/new")"; }
op_unlink() { user rm a; }
is_unlink() { [ ! -e "$lower/a" ] && [ -e "$lower/b" ]; }
op_rmdir() { user rmdir empty; }
is_rmdir() { [ ! -e "$lower/empty" ]; }
op_rename2() { user mv a new; }
is_rename2() { same 'content of a' "$(cat "$lower/new")" && [ ! -e "$lower/a" ]; }
op_rename() { user mv -f a b; }
is_rename() { same 'content of a' "$(cat "$lower/b")" && [ ! -e "$lower/a" ]; }
op_link() { user ln a new; }
is_link() { same 2 "$(stat -c %h "$lower/a")" && [ "$lower/a" -ef "$lower/new" ]; }
op_setattr() { user chmod 4751 a; }
is_setattr() { same "1000:$gid:4751" "$(attributes "$lower/a")"; }
op_setxattr() { user "$once" xattr-create a user.new value; }
is_setxattr() { same value "$(getfattr --only-values -n user.new "$lower/a")"; }
op_removexattr() { user setfattr -x user.old a; }
is_removexattr() { fails getfattr -n user.old "$lower/a"; }
op_open() { same 'content of a' "$(user cat a)"; }
is_open() { same 'content of a' "$(cat "$lower/a")"; }
op_release() { user tee -a a <<<more >/dev/null; }
is_release() { same more "$(tail -n 1 "$lower/a")"; }
op_lookup() { same a "$(user stat -c %n a)"; }
is_lookup() { true; }
op_readdirplus() { same 200 "$(user ls -l --color=always many | grep -c 4242)"; }
is_readdirplus() { true; }
op_fallocate() { user "$once" allocate a 5000; }
is_fallocate() { same 5000 "$(stat -c %s "$lower/a")"; }

# Whatever was counted wrongly of opens keeps the overlay; and then the real thing is there.
hands_off() {
	turns_native main converge && same ext4 "$(type_at "$target")"
}

try_point() {
	local kind=$1 point=$2 status=0

	begin "debug_kill=$kind.$point"
	"op_$kind" || status=$?
	# An answer to a release is not waited for: the next request is served after it, by either server.
	stat "$target/c" >/dev/null
	same 0 "$status" || return
	# The last points lie behind the answer.
	[ "$point" = replied ] || [ "$kind" = release ] || same 1 "$(restarts)" || return
	stat -t "$target" "$target/dir/x" >/dev/null || return
	"is_$kind" || return
	hands_off || return
	same "$gid:2775" "$(stat -c %g:%a "$target/dir")" || return
	same "" "$(find "$lower" ! -gid "$gid" ! -uid 1000)" || return
	umount "$target"
}

try_kind() {
	local kind=$1 point

	shift
	for point; do
		check "killed at $kind.$point: done once, and nobody notices" try_point "$kind" "$point"
		umount -l "$target" 2>/dev/null || true
	done
}

echo '# at every point of every kind'
made='begun started changed done counting counted replied'
moved='begun started changed done replied'
for kind in mkdir mknod symlink create; do
	# shellcheck disable=SC2086
	try_kind "$kind" $made
done
for kind in unlink rmdir rename rename2 link setattr setxattr removexattr; do
	# shellcheck disable=SC2086
	try_kind "$kind" $moved
done
for kind in tmpfile open release lookup readdirplus; do
	try_kind "$kind" begun counting counted replied
done
try_kind link counting counted
try_kind fallocate begun replied

echo '# in the middle of what takes several calls'
# What the caller may, and takes, follows from the file before: not from what a dead server had made of it.
half_done() {
	local what=$1 point=$2 name=$3 wanted=$4

	begin "debug_kill=$point"
	chown 0:1000 "$lower/b"
	chmod 2604 "$lower/a" "$lower/b"
	"$what" && same 1 "$(restarts)" && same "$wanted" "$(attributes "$lower/$name")" && umount "$target"
}
# Set-group-ID without group-execute is taken from whoever was not in the group, and by no one else than owner and CAP_FOWNER.
change_group() { (cd "$target" && as 1000 1000 2000 chgrp 2000 a); }
give_away() { setpriv --bounding-set=-fowner,-fsetid --inh-caps=-all chown 1001 "$target/b"; }
make_set_id() { user "$once" make dir/new 4770; }
for point in changing changed done; do
	check "killed at setattr.$point: a new group takes set-group-ID from who was not in the old one" \
		half_done change_group setattr.$point a 1000:2000:664
	umount -l "$target" 2>/dev/null || true
	check "killed at setattr.$point: an owner without privileges gives his file away" \
		half_done give_away setattr.$point b 1001:$gid:664
	umount -l "$target" 2>/dev/null || true
done
chmod g+s "$volume/template/dir"
for point in changed changing counted; do
	check "killed at mknod.$point: a new file in a pending directory has its set-user-ID" \
		half_done make_set_id mknod.$point dir/new 1000:$gid:4750
	umount -l "$target" 2>/dev/null || true
done
chmod g-s "$volume/template/dir"

kill_server() {
	local pid

	pid=$(keeper main get server_pid)
	kill -9 "$pid"
	keeper main wait "restarts>=$1"
}

echo '# what is held goes on'
begin handoff=no
exec 7<>"$target/a" 8<"$target/b"
coproc HELD { "$once" hold "$target/c"; }
held_pid=$HELD_PID
read -r _ <&"${HELD[0]}"
wanted=$(stat -c '%i' "$lower/c")
rm "$target/b" "$target/c"
cd "$target/empty"
rmdir "$target/empty"
check 'a server is killed' kill_server 1
stat "$target/a" >/dev/null
check_same 'an open file still has its name' "$target/a" "$(readlink /proc/$$/fd/7)"
check_same 'an open file is read on' 'content of a' "$(cat <&7)"
printf 'and more\n' >&7
check_same 'and written, where it belongs' 'and more' "$(tail -n 1 "$lower/a")"
check_same 'an open file without a name' 'content of b' "$(cat <&8)"
check_same 'a removed working directory' 0 "$(stat -c %h . | tr 2 0)"
echo >&"${HELD[1]}"
read -r got <&"${HELD[0]}"
check_same 'a descriptor of a file without a name' "$wanted 0" "$got"
check 'and another, with all it held' kill_server 2
echo >&"${HELD[1]}"
read -r got <&"${HELD[0]}"
check_same 'which still stands for it' "$wanted 0" "$got"
cd /
exec 7>&- 8<&- {HELD[1]}>&-
wait "$held_pid"
finish held

echo '# many that have lost their names are held, some not for long'
begin handoff=no
coproc HELD { "$once" crowd "$target" 200; }
held_pid=$HELD_PID
read -r _ <&"${HELD[0]}"
for kills in 1 2 3; do
	check 'a server is killed' kill_server "$kills"
	echo >&"${HELD[1]}"
	read -r got <&"${HELD[0]}"
	check_same 'each still stands for its file' 100 "$got"
done
exec {HELD[1]}>&-
wait "$held_pid"
finish crowd

echo '# the converger goes on'
begin handoff=no converge_rate=100
keeper main send resume >"$scratch/answer"
check 'while it walks the server is killed' kill_server 1
keeper main send rate rate=0 >"$scratch/answer"
check 'it gets to the end, as fast as it is told now' keeper main wait state=converged
check_same 'and everything is right' '' "$(find "$lower" ! -gid "$gid")"
finish converging

echo '# file data through the page cache, where layers are too many for the kernel'
begin handoff=no
layers=()
below=$target
for layer in 2 3 4; do
	mkdir -p "$scratch/layer$layer"
	overlay "layer$layer" "$below" "$scratch/layer$layer" "gid=$gid" paused handoff=no max_deaths=0
	below=$scratch/layer$layer
	layers=("$below" "${layers[@]}")
done
kill_top() {
	kill -9 "$(keeper layer4 get server_pid)"
	keeper layer4 wait "restarts>=$1"
}
"$once" rewrite "$below/written" 0 &
writer=$!
# Each as soon as it serves: while the memory is new to it that requests are read to.
kills=10
kill_all_tops() {
	local i

	for ((i = 1; i <= kills; i++)); do
		kill_top "$i" && kill -0 "$writer" || return
	done
}
check 'servers are killed while a file is written' kill_all_tops
kill "$writer"
check 'what was written is read, and what is mapped agrees' wait "$writer"
exec 7<>"$below/a"
rm "$below/a"
check 'and another is killed' kill_top $((kills + 1))
printf 'more of what is open\n' >&7
check_same 'an open file without a name is written and read' 'more of what is open' "$(cat /proc/self/fd/7)"
exec 7<&-
check_same 'by way of the page cache' cached "$(keeper layer4 get data_path)"
umount "${layers[@]}"
finish layers

echo '# after the hand-off'
begin
cd "$target/dir"
check 'it turns native, with a working directory below' turns_native main converge
check 'the server is killed' kill_server 1
check_same 'the directory is what it was' 'content of dir/x' "$(cat x)"
check 'in the background only' same ext4 "$(type_at "$target")"
cd /
finish 'handed off'

echo '# a server that hangs'
begin handoff=no watchdog=1
hanging=$(keeper main get server_pid)
check 'is stopped' stop_process "$hanging"
check_same 'answers all the same, in time' 'content of a' "$(timeout 30 cat "$target/a")"
check 'by another server' fails kill -0 "$hanging"
check_same 'which is the second' 1 "$(restarts)"
finish hanging
begin handoff=no watchdog=1
check 'stopped while nobody asks for anything' stop_process "$(keeper main get server_pid)"
check 'it is replaced, for nobody sees what it has read' keeper main wait restarts=1
finish 'stopped'

echo '# a keeper that has nothing to do'
begin handoff=no
sleeps() { awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "/proc/$1/status"; }
served=$(keeper main get keeper_pid)
slept=$(sleeps "$served")
seq 200 | xargs -I _ touch -c "$target/a"
# It looks after its server now and then, for which it may have woken once or twice.
check 'is not woken by requests' test $(($(sleeps "$served") - slept)) -lt 10
check 'of which there were many' test "$(keeper main get requests | tr ' ' '\n' | sed -n 's/^SETATTR://p')" -ge 200
stop_process "$(keeper main get server_pid)"
finish 'with a server that is stopped: it does not see the end'

echo '# a server that keeps dying'
begin
exec 7<"$target/a"
keep_dying() {
	local i

	for i in 1 2 3 4; do
		kill_server "$i" || return
	done
	kill -9 "$(keeper main get server_pid)"
	keeper main wait state=failed
}
check 'is given up' keep_dying
check_same 'which status says' 'server keeps dying' "$(keeper main get reason)"
answers_eio() {
	fails timeout 20 cat "$target/b" && same 'cat: b: Input/output error' \
		"$(cd "$scratch" && LC_ALL=C timeout 20 cat "$target/b" 2>&1 | sed "s|$target/||" || true)"
}
check 'requests are answered with an error, at once' answers_eio
exec 7<&-
check 'until somebody says recover' keeper main send recover >"$scratch/answer"
check_same 'then it is there again' 'content of b' "$(cat "$target/b")"
check_same 'as it was' presented "$(keeper main get state)"
check 'and lives on' kill_server 6
check_same 'like before' 'content of b' "$(cat "$target/b")"
check 'what was closed meanwhile does not seem open: it is handed off' hands_off
finish 'given up'

echo '# a keeper that is told to end while no server can'
begin handoff=no
check 'is given up again' keep_dying
finish 'refusing'
end_test
