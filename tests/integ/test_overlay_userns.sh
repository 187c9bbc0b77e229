#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root (to become an ordinary user with a range of ids), /dev/fuse, and user namespaces.
#
# The overlay as an ordinary user has it, in a user namespace: with a range of ids, and with a single one.
# The user, his ranges and a /dev/fuse that he may open exist in a mount namespace of the test's own only.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"

member() {
	as 1500 1500 4242 "$@"
}

compare() {
	"$helpers/tree" dump "$2" >"$scratch/got"
	check "$1" same_files "$scratch/wanted" "$scratch/got"
}

# Four make links, each in a directory of its own, until they fail, and print how many, and why they stopped. They hold each,
# by a descriptor of which the server does not hear: what is in use the kernel cannot be asked to forget.
make_links() {
	perl -MFcntl -e 'my $dir = shift; my @held; for my $p (1 .. 4) { fork and next; my $made = 0;
		my $link = sub { "$dir/$p/link-$made" };
		while ($made < 1000 && symlink "anywhere", $link->()) {
			my $held = sysopen $held[$made], $link->(), O_NOFOLLOW | 010000000; # O_PATH
			$made++;
			last unless $held }
		print "$made ", $! + 0, "\n"; exit }
		1 while wait > 0' "$1"
}
# make_beyond_descriptors DIR LOWER: each inode that is known costs the server one, and each request some for a moment.
make_beyond_descriptors() {
	local server first round made='' errors='' left=''

	server=$(keeper main get server_pid)
	first=$(descriptors_of "$server")
	mkdir "$1"/{1..4}
	for round in 1 2 3 4 5; do
		prlimit --pid "$server" --nofile="$((first + 200)):4000"
		make_links "$1" >"$scratch/out"
		errors+=$(awk '{ print $2 }' "$scratch/out")$'\n'
		made+="$(awk '{ made += $1 } END { print made }' "$scratch/out") "
		left+="$(find "$2" -name 'link-*' | wc -l) "
		prlimit --pid "$server" --nofile=4000:4000
		rm -f "$1"/[1-4]/link-*
	done
	check_same 'where no descriptor is left, that is said (EMFILE)' 24 "$(sort -u <<<"$errors" | xargs)"
	check_same 'and nothing is made' "$made" "$left"
	check 'with more of them it is' ln -s anywhere "$1/beyond"
	check_same 'as asked for' anywhere "$(readlink "$2/beyond")"
}

inside() {
	local lower=$scratch/lower target=$scratch/target deep

	start_test
	lower=$scratch/lower target=$scratch/target
	mkdir "$target" "$scratch/eager" "$lower"
	mkdir -p "$lower/a/b/c"
	printf 'content\n' | tee "$lower/a/b/c/file" "$lower/a/kept" "$lower/a/log" >"$lower/a/mapped"
	truncate -s 8192 "$lower/a/mapped"
	printf 'foreign\n' >"$lower/a/foreign"
	chown -R 1000:1000 "$lower"
	chown 1700:1700 "$lower/a/foreign"
	chmod -R go-rwx "$lower"

	check 'mounts' overlay main "$lower" "$target" gid=4242 paused
	cat "$target/a/kept" >/dev/null
	check_same 'data goes through the page cache' cached "$(keeper main get data_path)"
	check_same 'no server can follow this one, which status says' 'no: file handles cannot be opened here' \
		"$(keeper main get failover)"
	check_fails 'nor can one take over' "$helpers/keeper_ctl" upgrade "$scratch/run/main" "$fsgroupfs"
	check_same 'shows the group' 1000:4242:660 "$(attributes "$target/a/b/c/file")"
	check_same 'and set-group-ID' 1000:4242:2770 "$(attributes "$target/a/b")"
	check_same 'writes nothing' 1000:1000:600 "$(attributes "$lower/a/b/c/file")"
	deep=$target/a/b/c
	check_same 'a member reads' content "$(member cat "$deep/file")"
	check 'writes' member sh -c 'echo more >>"$1"' _ "$deep/file"
	check_same 'and it is there' 'content more' "$(tr '\n' ' ' <"$deep/file" | sed 's/ $//')"
	check_same 'below, too' 'content more' \
		"$(tr '\n' ' ' <"$lower/a/b/c/file" | sed 's/ $//')"
	check 'creates' member sh -c 'umask 022; echo new >"$1"' _ "$deep/new"
	check_same 'with the group' 1500:4242:644 "$(attributes "$deep/new")"
	check 'makes directories' member mkdir "$deep/dir"
	check_same 'with the group and set-group-ID' 1500:4242:2755 "$(attributes "$deep/dir")"
	check 'renames' member mv "$deep/file" "$deep/dir/renamed"
	check 'links' member ln "$deep/new" "$deep/hard"
	check 'deletes' member rm "$deep/hard"
	check 'truncates' member truncate -s 3 "$deep/new"
	check_same 'to the length asked for' 3 "$(stat -c %s "$deep/new")"
	check_fails 'a stranger is refused' as 1600 1600 '' cat "$target/a/kept"
	check 'sets extended attributes' member setfattr -n user.name -v value "$deep/new"
	check_same 'reads them' value "$(getfattr --only-values --absolute-names -n user.name "$deep/new")"
	check 'sets ACLs' member setfacl -m u:1600:r "$deep/new"
	check 'a chmod by the owner' as 1000 1000 '' chmod 600 "$target/a/kept"
	check 'a chown' chown 1700 "$target/a/log"
	check 'maps' "$helpers/setid" mmap "$target/a/mapped"
	check_same 'and the store arrives' m "$(head -c 1 "$lower/a/mapped")"
	check 'hands off' turns_native main resume
	check_same 'the overlay is gone' "$(stat -f -c %T "$lower")" "$(stat -f -c %T "$target")"
	check_same 'a chmod is kept' 1000:4242:600 "$(attributes "$target/a/kept")"
	check_same 'a chown is kept' 1700:4242:660 "$(attributes "$target/a/log")"
	check_same 'files of other owners too are converged' 1700:4242:660 "$(attributes "$target/a/foreign")"
	check_same 'all else is converged' 1000:4242:2770 "$(attributes "$lower/a/b/c")"
	check 'unmounts' umount "$target"
	check 'no process stays' no_process_stays

	check 'once more' overlay main "$lower" "$target" gid=4242 paused coherence=exclusive
	make_beyond_descriptors "$target/a" "$lower/a"
	check 'unmounts' umount "$target"

	mount -t tmpfs -o mode=755 tmpfs "$scratch/eager"
	lower=$scratch/eager/lower
	mkdir "$lower" "$scratch/eager/eager"
	"$helpers/tree" make "$lower"
	"$helpers/tree" copy "$lower" "$scratch/eager/eager"
	"$helpers/tree" apply "$scratch/eager/eager" 4242
	"$helpers/tree" dump "$scratch/eager/eager" >"$scratch/wanted"
	check 'mounts a large tree' overlay large "$lower" "$target" gid=4242 paused
	compare 'the presented tree equals the eager copy' "$target"
	check 'hands off' turns_native large resume
	compare 'the converged tree equals the eager copy' "$lower"
	compare 'the native tree equals the eager copy' "$target"
	umount "$target"
	umount "$scratch/eager"
	mkdir "$scratch/again"
	check 'mounts again' overlay main "$scratch/again" "$target" gid=4242 paused coherence=exclusive
	reads() { keeper main get requests | tr ' ' '\n' | sed -n 's/^READ://p'; }
	head -c 300000 /dev/urandom >"$target/data"
	cat "$target/data" >/dev/null
	before=$(reads)
	check_same 'what was read once is in the cache for the next who opens it' "$(sum <"$scratch/again/data") $before" \
		"$(sum <"$target/data") $(reads)"
	printf changed | dd of="$target/data" conv=notrunc status=none
	check_same 'and what is written to it drops nothing of that' "$(sum <"$scratch/again/data") $before" \
		"$(sum <"$target/data") $(reads)"
	truncate -s 200000 "$target/data"
	check_same 'as it was changed' "$(sum <"$scratch/again/data")" "$(sum <"$target/data")"
	kill -9 "$(keeper main get server_pid)"
	check_fails 'a server that dies takes the mount with it' timeout 5 ls "$target"
	check 'and the keeper' no_process_stays
	check 'what is left is unmounted' umount "$target"
	end_test
}

inside_single() {
	local target

	start_test
	target=$scratch/target
	mkdir -m 750 "$target" "$scratch/lower"
	printf 'content\n' >"$scratch/lower/file"
	overlay other "$scratch/lower" "$target" gid=4242 >"$scratch/out" 2>&1 || true
	check 'a group that is not mapped is refused by name' grep -q '4242.*not mapped' "$scratch/out"
	check 'with one line' same 1 "$(wc -l <"$scratch/out")"
	check 'and nothing is mounted' no_mount_stays "$target"
	# Only the machine's root may say how fast its processors wake.
	check 'the mapped group mounts' overlay main "$scratch/lower" "$target" gid=0 paused cpu_latency=0
	check_same 'is shown' 0:0:2770 "$(attributes "$target")"
	check 'can be written' sh -c 'echo more >>"$1"' _ "$target/file"
	check_same 'and read' 'content more' "$(tr '\n' ' ' <"$target/file" | sed 's/ $//')"
	check 'hands off' turns_native main resume
	check_same 'is real' 0:0:664 "$(attributes "$scratch/lower/file")"
	check 'unmounts' umount "$target"
	end_test
}

case ${1:-} in
inside | inside_single)
	"$1"
	;;
esac

need_root
need_fuse
need_tools unshare setpriv newuidmap newgidmap setfattr getfattr setfacl prlimit
unshare -Ur true 2>/dev/null || skip 'needs user namespaces'
own_mounts "$0" "$@"
# shellcheck source=tests/integ/lib_user.sh
. "$(dirname "$0")/lib_user.sh"
start_test

make_user "$0"
echo '# with a range of ids'
check 'in a user namespace with a range of ids' \
	as_user unshare --map-auto -Urm "$user_tests/$(basename "$0")" inside
echo '# with a single id'
check 'in a user namespace with a single id' \
	as_user unshare -Urm "$user_tests/$(basename "$0")" inside_single
check_same 'nothing is left behind' '' "$(ls "$user_tmp")"
end_test
