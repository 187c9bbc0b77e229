#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
# timeout: 900
#
# Many inodes cost no descriptors, and no more memory than those that the kernel knows at once; what has
# lost its name stays usable for whoever holds it; file handles lead to their own file or nowhere.
#
# SCALE_FILES, SCALE_WALKS: how many files are looked at, how often. A million 25 times took half an hour beside other
# tests: to be run by itself then, for run-tests ends it after the time above.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 losetup prlimit
[ -w /proc/sys/vm/drop_caches ] || skip 'needs /proc/sys/vm/drop_caches'
own_mounts "$0" "$@"
start_test

gid=4242
files=${SCALE_FILES:-120000}
walks=${SCALE_WALKS:-20}
if [ -n "$is_sanitized" ]; then
	files=40000
	walks=6
fi
volume=$scratch/volume
mkdir "$volume"
truncate -s 2G "$volume.img"
mkfs.ext4 -q -F -b 4096 -N $((files + 280000)) "$volume.img"
loop=$(losetup --find --show "$volume.img")
loops+=("$loop")
mount "$loop" "$volume"
chmod 755 "$volume"
lower=$volume/lower
target=$scratch/target
mkdir "$lower" "$target"

unmount() {
	umount "$1" && no_process_stays
}

field() {
	awk -v name="$2:" '$1 == name { print $2 }' "/proc/$1/status"
}

# That read the volume's root: of the tree, of its mount without access times, and, a moment after the server is ready,
# of a walk that has begun; which one that is paused has, too.
has_walk() {
	[ "$(find "/proc/$1/fd" -perm 500 -lname / | wc -l)" = 3 ]
}

# Of a server that is paused: with what its walk holds.
descriptors_paused() {
	within 60 has_walk "$1" || printf 'no walk at the root\n'
	descriptors_of "$1"
}

# KiB of the memory that keeper and server share.
shared_kib() {
	local fd

	for fd in "/proc/$1/fd/"*; do
		case $(readlink "$fd") in
		/memfd:*)
			printf '%d\n' $(($(stat -L -c %b "$fd") / 2))
			return
			;;
		esac
	done
}

# A sanitizer keeps what was freed: then only what is shared counts.
memory_kib() {
	local own=0

	[ -n "$is_sanitized" ] || own=$(field "$1" RssAnon)
	printf '%d\n' $((own + $(shared_kib "$1")))
}

forget() {
	printf '2\n' >/proc/sys/vm/drop_caches
}

# The kernel says what it has forgotten some time later.
forgets_all_but() {
	forget
	same "$2" "$(descriptors_of "$1")"
}

look() {
	find "$target" -printf '%s\n' | wc -l
}

echo "# $files files"
"$helpers/many" files "$lower" "$files" 1000
entries=$((1 + files + files / 1000))
overlay main "$lower" "$target" "gid=$gid" paused
server=$(keeper main get server_pid)
before=$(memory_kib "$server")
before_fds=$(descriptors_paused "$server")
check_same 'a walk sees them all' "$entries" "$(look)"
known=$(memory_kib "$server")
check_same 'a second one too' "$entries" "$(look)"
again=$(memory_kib "$server")
printf '# %d bytes of the server an inode that was looked up\n' $(((known - before) * 1024 / entries))
printf '# memory: %d KiB at first, %d after a walk, %d after two\n' "$before" "$known" "$again"
has_descriptors() { [ "$(descriptors_of "$server")" = "$1" ]; }
check 'no descriptor an inode' within 20 has_descriptors "$before_fds"
check 'a second walk takes no more memory' [ $((again - known)) -lt 2048 ]
check 'an inode takes less than 256 bytes' [ $(((known - before) * 1024 / entries)) -lt 256 ]
walk_and_forget() {
	local i

	for ((i = 0; i < walks; i++)); do
		forget
		same "$entries" "$(look)" || return 1
	done
}
check "$walks walks, with the kernel forgetting between them" walk_and_forget
after=$(memory_kib "$server")
printf '# memory: %d KiB after all the walks; resident %d KiB\n' "$after" "$(field "$server" VmRSS)"
check 'take no more memory than two' [ $((after - again)) -lt $((again / 10 + 2048)) ]
check 'and no descriptors' within 20 has_descriptors "$before_fds"
check 'converges to native' turns_native main resume
check_same 'all of it' "$entries" "$(find "$lower" -group "$gid" | wc -l)"
check 'unmounts, and its processes end' unmount "$target"
rm -rf "$lower"

echo '# 64 descriptors'
limited() {
	local server=$1

	prlimit --pid "$server" --nofile=64:64
	same 5006 "$(find "$target" -printf '%g %m\n' | wc -l)" &&
		cp -a "$target" "$scratch/copy" &&
		rm -rf "$scratch/copy" &&
		mkdir "$target/new" &&
		cp -a "$target/dir-0" "$target/new" &&
		same 1001 "$(find "$target/new/dir-0" | wc -l)"
}
mkdir "$lower"
"$helpers/many" files "$lower" 5000 1000
echo '#  from the start'
start_limited() {
	(
		ulimit -n 64
		overlay main "$lower" "$target" "gid=$gid" paused
	)
}
check 'mounts' start_limited
check 'works' limited "$(keeper main get server_pid)"
check 'with 300 files open' "$helpers/held" many "$target/dir-1" 300
check 'converges to native' turns_native main resume
check_same 'all of it' '' "$(find "$lower" -not -group "$gid")"
check 'unmounts, and its processes end' unmount "$target"
rm -rf "$lower"

echo '# removed directories'
mkdir -p "$lower/dir"
overlay main "$lower" "$target" "gid=$gid" paused handoff=no
before_fds=$(descriptors_paused "$(keeper main get server_pid)")
mkdir "$target/dir/"{1..300}
rmdir "$target/dir/"{1..300}
are_not_held() { [ "$(descriptors_of "$(keeper main get server_pid)")" = "$before_fds" ]; }
check 'are not held' within 20 are_not_held
check 'converges' keeper main wait state=converged resume
check_same 'nor walked for' 2 "$(keeper main get seen)"
check 'unmounts, and its processes end' unmount "$target"
rm -rf "$lower"

mkdir -p "$lower/held"
try_held() {
	local with=$1 what fds server

	overlay main "$lower" "$target" "gid=$gid" handoff=no "${@:2}"
	server=$(keeper main get server_pid)
	if [ "$2" = paused ]; then
		fds=$(descriptors_paused "$server")
	else
		keeper main wait state=converged
		fds=$(descriptors_of "$server")
	fi
	for what in file path renamed tmpfile directory; do
		check "$with: nameless, but held: $what" "$helpers/held" "$what" "$target/held"
	done
	check "$with: handles" "$helpers/held" handles "$target/held" 900
	check "$with: nothing is held any more" within 20 forgets_all_but "$server" "$fds"
	rm -rf "$target/held/"*
	check "$with: unmounts, and its processes end" unmount "$target"
}
echo '# what has lost its name'
for coherence in exclusive shared; do
	try_held "pending, $coherence" paused "coherence=$coherence"
	try_held "converged, $coherence" "coherence=$coherence"
done
end_test
