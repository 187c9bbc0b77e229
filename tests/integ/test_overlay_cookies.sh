#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# Listing directories of a file system whose cookies are good only for who has the directory open (overlayfs, merged): what
# stays in the directory is listed once, whatever comes and goes meanwhile. And what else overlayfs has to itself.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools perl setfattr
own_mounts "$0" "$@"
start_test

readonly FILES=3000 GROUP=4242
space=$scratch/space lower=$scratch/lower target=$scratch/target
mkdir "$space" "$lower" "$target"
mount -t tmpfs -o mode=755 tmpfs "$space"

begin() {
	mkdir -p "$space"/{below,upper}/dir "$space/work"
	# Those of the upper layer come last, the newest of them first.
	"$helpers/many" files "$space/upper/dir" "$FILES"
	touch "$space/below/dir/"{below,gone-{1..10}}
	mount -t overlay -o "lowerdir=$space/below,upperdir=$space/upper,workdir=$space/work" overlay "$lower"
	overlay main "$lower" "$target" "gid=$GROUP" paused "$@"
	server=$(keeper main get server_pid)
	fds=$(descriptors_of "$server")
}
finish() {
	check "$1: unmounts" umount "$target"
	check "$1: no process stays" no_process_stays
	umount "$lower"
	rm -r "${space:?}"/*
}
are_as_before() { [ "$(descriptors_of "$server")" = "$fds" ]; }

# It begins to list, changes the directory, and lists on: prints how many of those that stayed it has seen, and what it has
# seen twice. With an argument more that many others list it, too, and leave off where it changes.
list_and_change() {
	perl -e '
		my ($dir, $others, %seen) = ($ARGV[0], $ARGV[1] // 0);
		opendir(my $list, $dir) or die "$dir: $!\n";
		my @left = map { opendir(my $other, $dir) or die "$dir: $!\n"; readdir($other) for 1 .. 1000; $other } 1 .. $others;
		$seen{readdir($list)}++ for 1 .. 1000;
		unlink("$dir/gone-$_") for 1 .. 10;
		for (1 .. 100) { open(my $new, ">", "$dir/new-$_") or die "$dir/new-$_: $!\n" }
		while (defined(my $name = readdir($list))) { $seen{$name}++ }
		for (@left) { my %own; while (defined(my $name = readdir($_))) { $own{$name}++ } $seen{$_}++ for grep { $own{$_} > 1 } keys %own }
		my @stayed = grep { /^file-/ } keys %seen;
		print join(" ", scalar(@stayed), grep { $seen{$_} > 1 } sort keys %seen), "\n";
		unlink("$dir/new-$_") for 1 .. 100;
		for (1 .. 10) { open(my $again, ">", "$dir/gone-$_") or die "$dir/gone-$_: $!\n" }' "$@"
}

for coherence in exclusive shared; do
	echo "# $coherence"
	begin "coherence=$coherence"
	check_same "$coherence: what stays is listed once" "$FILES" "$(list_and_change "$target/dir")"
	check_same "$coherence: also by one of several" "$FILES" "$(list_and_change "$target/dir" 8)"
	check_same "$coherence: by more than are kept" "$FILES" \
		"$(list_and_change "$target/dir" 100 | sed 's/ .*//')"
	check "$coherence: with names and attributes" same $((FILES + 11)) \
		"$(find "$target/dir" -mindepth 1 -printf '%g\n' | grep -cx "$GROUP")"
	for dir in "$lower/native" "$target/view"; do
		mkdir -m 2775 "$dir"
		chown "1000:$GROUP" "$dir"
		chmod 2775 "$dir"
		as 1000 1000 '' setfattr -x system.posix_acl_access "$dir" 2>/dev/null || true
	done
	check_same "$coherence: who removes an ACL takes set-group-ID, as on the lower tree" 775 "$(stat -c %a "$lower/native")"
	check_same "$coherence: in the view, too" 775 "$(stat -c %a "$target/view")"
	rmdir "$lower/native" "$target/view"
	check "$coherence: and what is left off, is, when it is removed" rm -r "$target/dir"
	check "$coherence: closed" within 20 are_as_before
	finish "$coherence"
done
end_test
