#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse. Before Linux 6.18 it is skipped: there EMFILE is said, as test_overlay_userns looks at.
#
# More files than the server may have descriptors, where each that the kernel knows costs it one: in a user namespace, and on
# a lower file system without file handles.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"

readonly FILES=3000 LIMIT=400
readonly GROUP=4242

# Those that are not inodes' are some twenty, and an eighth of all is on its way at times.
are_to_spare() {
	[ "$(descriptors_of "$server")" -le $((LIMIT - LIMIT / 8)) ]
}

see_all() {
	same "$FILES" "$(find "$target"/dir-{0..2} -type f -size +0 -printf . | wc -c)" &&
		same "$wanted" "$(cat "$target"/dir-{0..2}/file-* | sum)"
}
all_at_once() {
	local i seen=()

	for i in 1 2 3 4; do
		see_all &
		seen+=($!)
	done
	for i in "${seen[@]}"; do
		wait "$i" || return
	done
}

# What is in use, and how it must be found again.
hold_some() {
	: >"$target/unlinked"
	cd "$target/dir-0"
	exec 5<"$target/dir-0/file-1" 6<>"$target/unlinked" 7>"$target/locked"
	flock -x 7
	echo unlinked >&6
	rm "$target/unlinked"
	inode=$(stat -c %i "$target/dir-0/file-1")
	exec 8< <("$helpers/hold" map "$target/mapped" <"$scratch/map")
	exec 4>"$scratch/map"
	read -r _ <&8
}
look_at_held() {
	same content "$(cat file-0)" &&
		same content "$(cat <&5)" &&
		same "$inode" "$(stat -L -c %i /proc/self/fd/5)" &&
		same unlinked "$(head -n 1 /proc/self/fd/6)" &&
		fails flock -n -x "$target/locked" true || return
	exec 4>&-
	read -r _ <&8 || true
	same mapped "$(head -c 6 "$lower/mapped")"
}
let_go() {
	exec 5<&- 6>&- 7>&- 8<&-
	cd /
}

# More than the server may have descriptors, by four at once.
store_many() {
	local dir

	for dir in "$target"/stored-{1..4}; do
		mkdir -p "$dir" && perl -e '
			my ($dir, $count) = @ARGV;
			for my $i (1 .. $count) { open my $f, ">", "$dir/$i" or die "$dir/$i: $!\n"; print $f "stored $i\n" }' \
			"$dir" 300 &
	done
	wait
	same 1200 "$(grep -lr '^stored' "$lower"/stored-* | wc -l)" && same 1200 "$(grep -lr '^stored' "$target"/stored-* | wc -l)"
}

# As many files as it may have descriptors: perl prints how many were opened, and why no more.
open_all() {
	perl -e '
		my ($dir, $count, @open) = @ARGV;
		for my $i (0 .. $count - 1) { open $open[$i], "<", sprintf("%s/dir-%d/file-%d", $dir, $i / 1000, $i) or last }
		printf "%d\n", $! + 0;
		exit !(grep { defined && eof($_) } @open)' "$target" 500
}
are_too_many() {
	same 24 "$(open_all)"
}

use_it() {
	server=$(keeper main get server_pid)
	prlimit --pid "$server" --nofile="$LIMIT:$LIMIT"
	check 'all files are seen and read' see_all
	check 'by four at once' all_at_once
	check 'descriptors are to spare' within 10 are_to_spare
	check 'some are in use' hold_some
	check 'all the others are seen' all_at_once
	check 'and those stay what they are' look_at_held
	let_go
	check 'many are made' store_many
	check 'more cannot be open at a time than there are descriptors, which is said (EMFILE)' are_too_many
	check 'then all are seen again' see_all
}

lay_out() {
	lower=$1 target=$scratch/target
	mkdir -p "$target"
	mkfifo "$scratch/map"
	"$helpers/many" files "$lower" "$FILES" 1000
	find "$lower" -type f -exec sh -c 'for file; do echo content >"$file"; done' _ {} +
	for name in locked mapped; do
		head -c 4096 /dev/zero >"$lower/$name"
	done
	wanted=$(cat "$lower"/dir-*/file-* | sum)
}

inside() {
	start_test
	mkdir "$scratch/lower"
	ulimit -n "$LIMIT"
	lay_out "$scratch/lower"
	check 'mounts' overlay main "$lower" "$target" "gid=$GROUP" paused "coherence=$2"
	check_same 'without handles' 'no: file handles cannot be opened here' "$(keeper main get failover)"
	use_it
	check 'hands off' turns_native main resume
	check_same 'all of it' '' "$(find "$lower" -type f -path '*/dir-*' -not -perm 660)"
	umount "$target"
	end_test
}

case ${1:-} in
inside)
	inside "$@"
	;;
esac

need_root
need_fuse
need_tools unshare newuidmap newgidmap perl prlimit flock
has_prune || skip 'needs Linux 6.18'
own_mounts "$0" "$@"
# shellcheck source=tests/integ/lib_user.sh
. "$(dirname "$0")/lib_user.sh"
# shellcheck source=tests/integ/lib_uring.sh
. "$(dirname "$0")/lib_uring.sh"
clean_more() { [ -z "$uring_was" ] || leave_io_uring; }
start_test

make_user "$0"
for coherence in exclusive shared; do
	echo "# in a user namespace, $coherence"
	check "in a user namespace, $coherence" \
		as_user unshare --map-auto -Urm "$user_tests/$(basename "$0")" inside "$coherence"
done

mkdir "$scratch/space"
mount -t tmpfs -o mode=755 tmpfs "$scratch/space"
mkdir "$scratch/space"/{below,upper,work} "$scratch/lower"
mount -t overlay -o "lowerdir=$scratch/space/below,upperdir=$scratch/space/upper,workdir=$scratch/space/work" overlay \
	"$scratch/lower"
lay_out "$scratch/lower"
chmod 777 "$lower"
# without_handles REASON OPTION...
without_handles() {
	local reason=$1

	shift
	check 'mounts' overlay main "$lower" "$target" "gid=$GROUP" paused "$@"
	check_same 'no server can follow' "no: $reason" "$(keeper main get failover)"
	use_it
	"$helpers/churn" "$target" 4 "$GROUP" 7 &
	churn=$!
	check 'four users work, and all is seen meanwhile' all_at_once
	kill -TERM "$churn" || true
	check 'whatever they asked for happened once' wait "$churn"
	umount "$target"
	rm -rf "$lower"/{user,stored}*
}
echo '# on a file system without file handles'
without_handles 'file handles cannot be opened here'
echo '# over io_uring'
need_io_uring
without_handles 'transport=io_uring' transport=io_uring
umount "$lower" "$scratch/space"
end_test
