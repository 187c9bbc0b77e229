#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and a kernel with FUSE over io_uring (6.14), which it may switch on for as long as it runs.
#
# transport=io_uring: the same volume by another way, which says what it cannot do: whatever becomes of the server becomes of
# the mount.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 setfacl setfattr unshare
# shellcheck source=tests/integ/lib_uring.sh
. "$(dirname "$0")/lib_uring.sh"
own_mounts "$0" "$@"
need_io_uring
clean_more() { leave_io_uring; }
start_test

gid=4242
make_volume ext4 volume
lower=$scratch/volume/lower
target=$scratch/target
mkdir "$target" "$lower"

of() {
	keeper main get "$1"
}

# What the kernel was given by now over all rings of the server.
submitted() {
	awk '$1 == "SqTail:" { n += $2 } END { print n + 0 }' "/proc/$server/fdinfo/"*
}

member() {
	as 1500 1500 4242 "$@"
}

mounts() {
	overlay main "$lower" "$target" "gid=$gid" transport=io_uring "$@" || return
	server=$(of server_pid)
}

# ---- refused ----

io_uring_is off
check_fails 'refused where the kernel does not do it' overlay main "$lower" "$target" "gid=$gid" transport=io_uring
"$fsgroupfs" -o "gid=$gid,transport=io_uring" "$lower" "$target" >"$scratch/out" 2>&1 || true
check 'by the name of the parameter' grep -qF "$uring_parameter is not Y" "$scratch/out"
check_same 'with one line' 1 "$(wc -l <"$scratch/out")"
check 'and nothing is mounted' no_mount_stays "$target"
io_uring_is on

# ---- what it says ----

check 'mounts' mounts paused
check_same 'status says how requests come' io_uring "$(of transport)"
check_same 'and that the death of the server ends the mount' 'no: transport=io_uring' "$(of failover)"
check_fails 'no other program can take over' "$helpers/keeper_ctl" upgrade "$scratch/run/main" "$fsgroupfs"
"$helpers/keeper_ctl" upgrade "$scratch/run/main" "$fsgroupfs" >"$scratch/out" 2>&1 || true
check 'and why is said' grep -qF 'no server can follow this one: transport=io_uring' "$scratch/out"
check_same 'the data path is what it is otherwise' passthrough "$(of data_path)"
check_same 'the server runs on' "$server" "$(of server_pid)"

# ---- it works, over the rings ----

before=$(submitted)
mkdir "$target/dir"
for i in {1..50}; do
	: >"$target/dir/$i"
done
check_same 'creates files' 50 "$(find "$lower/dir" -type f | wc -l)"
check 'each over a ring' test $(($(submitted) - before)) -ge 100
check_same 'with group and set-group-ID' "0:$gid:2755" "$(attributes "$target/dir")"
rings=$(find "/proc/$server/fd" -lname 'anon_inode:\[io_uring\]' | wc -l)
check 'each processor has its ring' test "$rings" -ge "$(nproc)"
umount "$target"
check 'the server ends with the mount' no_process_stays

mkdir "$lower/tree" "$scratch/volume/eager"
"$helpers/tree" make "$lower/tree"
"$helpers/tree" copy "$lower/tree" "$scratch/volume/eager"
"$helpers/tree" apply "$scratch/volume/eager" "$gid"
"$helpers/tree" dump "$scratch/volume/eager" >"$scratch/wanted"
check 'mounts a tree' mounts paused
"$helpers/tree" dump "$target/tree" >"$scratch/got"
check 'which looks like the eager copy' same_files "$scratch/wanted" "$scratch/got"
umount "$target"
rm -rf "$lower"
mkdir -p "$lower/a/b"
printf 'content\n' | tee "$lower/a/b/file" "$lower/a/kept" >"$lower/a/log"
chown -R 1000:1000 "$lower"
chmod -R go-rwx "$lower"
check 'mounts again' mounts paused coherence=exclusive
deep=$target/a/b
check_same 'shows the group' 1000:4242:660 "$(attributes "$deep/file")"
check_same 'a member reads' content "$(member cat "$deep/file")"
check 'writes' member sh -c 'echo more >>"$1"' _ "$deep/file"
check_same 'and it is there' 'content more' "$(tr '\n' ' ' <"$lower/a/b/file" | sed 's/ $//')"
check 'creates' member sh -c 'umask 022; echo new >"$1"' _ "$deep/new"
check_same 'as himself' 1500:4242:644 "$(attributes "$lower/a/b/new")"
check 'makes directories' member sh -c 'umask 077; mkdir "$1"' _ "$deep/dir"
check_same 'as himself' 1500:4242:2700 "$(attributes "$lower/a/b/dir")"
check 'renames' member mv "$deep/file" "$deep/dir/renamed"
check 'links' member ln "$deep/new" "$deep/hard"
check 'deletes' member rm "$deep/hard"
check 'truncates' member truncate -s 3 "$deep/new"
check 'sets attributes' member setfattr -n user.name -v value "$deep/new"
check_same 'reads them' value "$(getfattr --only-values --absolute-names -n user.name "$deep/new")"
value=$(printf 'v%.0s' {1..3000})
check 'a long one, too' member setfattr -n user.long -v "$value" "$deep/new"
check_same 'reads it' "$value" "$(getfattr --only-values --absolute-names -n user.long "$deep/new")"
check 'sets ACLs' member setfacl -m u:1600:r "$deep/new"
check_fails 'a stranger is refused' as 1600 1600 '' cat "$target/a/kept"
check_same 'a root creates as root' 0:4242:644 "$(: >"$deep/root" && attributes "$lower/a/b/root")"
check 'an owner changes a mode' as 1000 1000 '' chmod 600 "$target/a/kept"
name=$(printf 'n%.0s' {1..255})
check 'the longest name' touch "$deep/$name"
check_same 'is read back' "$name" "$(find "$deep" -name 'nn*' -printf %f)"
check 'a long link' ln -s "$(printf 'l%.0s' {1..4000})" "$deep/link"
check_same 'is read back' 4000 "$(readlink -n "$deep/link" | wc -c)"
mkdir "$deep/many"
(cd "$deep/many" && seq 1 3000 | xargs touch)
check_same 'a large directory is listed' 3000 "$(find "$deep/many" -type f | wc -l)"

# Many at once, more than there are threads.
storm() {
	local i pids=()

	for i in {1..16}; do
		sh -c 'i=0; while [ $i -lt 60 ]; do
			mkdir "$1.$i" && : >"$1.$i/file" && mv "$1.$i/file" "$1.$i/other" && sync "$1.$i/other" && rm -r "$1.$i" || exit
			i=$((i + 1)); done' _ "$deep/storm$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || return
	done
}
check 'many at once' storm
check_same 'leave nothing' '' "$(find "$lower" -name 'storm*')"

# ---- converging, and the hand-off, under load ----

readers() {
	while [ ! -e "$scratch/stop" ]; do
		cat "$target/a/kept" "$target/a/b/dir/renamed" >/dev/null || return
	done
}
rm -f "$scratch/stop"
for i in 1 2 3 4 5 6; do
	readers 2>>"$scratch/errors" &
	pids[i]=$!
done
check 'is handed off while files are opened' turns_native main resume
: >"$scratch/stop"
for pid in "${pids[@]}"; do
	check 'no reader sees it' wait "$pid"
done
check_same 'nor complains' '' "$(cat "$scratch/errors")"
check_same 'the lower tree itself is there' ext4 "$(type_at "$target")"
check_same 'what a user chose is kept' 1000:4242:600 "$(attributes "$target/a/kept")"
check_same 'all else is converged' 1000:4242:2770 "$(attributes "$lower/a/b")"
check 'unmounts' umount "$target"
check 'no process stays' no_process_stays

# ---- the end of a server ----

ends_at_once() {
	local status=0

	timeout 10 ls "$target" >"$scratch/out" 2>&1 || status=$?
	[ "$status" != 0 ] && [ "$status" != 124 ]
}
check 'mounts' mounts handoff=no paused
exec 8<"$target/a/kept"
kill -9 "$server"
check 'a killed server takes the mount with it' ends_at_once
check 'and its keeper' no_process_stays
# read(2) alone: cat(1) asks for attributes first, which may have been forgotten.
line=
IFS= read -r line <&8 || true
check_same 'what was open in passthrough is still read' content "$line"
exec 8<&-
check 'what is left is unmounted' umount "$target"
mountpoint -q /sys/fs/fuse/connections || mount -t fusectl fusectl /sys/fs/fuse/connections
check 'mounts' mounts handoff=no paused
printf 1 >"/sys/fs/fuse/connections/$(stat -c %Ld "$target")/abort"
check 'an aborted connection is its end' ends_at_once
check 'and its keeper and server end' no_process_stays
check 'what is left is unmounted' umount "$target"
check 'mounts' mounts handoff=no paused debug_kill=mkdir.changed
status=0
timeout 10 mkdir "$target/half" 2>"$scratch/out" || status=$?
check_same 'who waits for an answer when it dies is not left waiting' 1 "$status"
check 'and is told' grep -q 'abort\|not connected' "$scratch/out"
check 'the keeper ends' no_process_stays
check 'what is left is unmounted' umount "$target"

# ---- nobody can tell it from a tree that was eagerly changed ----

lockstep() {
	env BIN="$BIN" TMPDIR="$scratch" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" "$TESTBIN/differential" \
		--transport io_uring --atime noatime --steps "${DIFFERENTIAL_STEPS:-1500}" --shrink 20 "$@"
}
check 'random steps in lockstep, converging' lockstep --fs ext4 --mode converging --coherence exclusive
check 'random steps in lockstep, paused' lockstep --fs tmpfs --mode paused --coherence shared

# ---- as an ordinary user ----

inside='
	mount -t tmpfs tmpfs "$1" && mkdir "$1/lower" "$1/target" && echo content >"$1/lower/file" &&
	"$2" -o gid=0,handoff=no,paused,transport=io_uring "$1/lower" "$1/target" &&
	cat "$1/target/file" && head -c 3000000 /dev/urandom >"$1/target/large" &&
	cmp "$1/target/large" "$1/lower/large" && stat -c %a "$1/target/file" && umount "$1/target"'
mkdir "$scratch/user"
check_same 'works in a user namespace' "$(printf 'content\n664')" \
	"$(timeout 60 unshare -Urm --propagation private sh -c "$inside" _ "$scratch/user" "$fsgroupfs" 2>&1)"
end_test
