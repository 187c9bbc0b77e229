#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# What consumers may do at once while everything is pending, what their files look like, and that nothing
# they decide is undone by converging.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools setpriv setfacl getfacl chattr setcap python3 mkfs.ext4
own_mounts "$0" "$@"
start_test

gid=4242
make_volume ext4 volume
volume=$scratch/volume

# A member (fsGroup only as a supplementary group), the files' owner, a stranger.
member() {
	as 1500 1500 "$gid" "$@"
}

owner() {
	as 1000 1000 '' "$@"
}

stranger() {
	as 1600 1600 '' "$@"
}

make_lower() {
	rm -rf "${volume:?}/$1"
	mkdir -p "$volume/$1/a/b/c/d/e" "$volume/$1/a/more" "$volume/$1/acl"
	printf 'content\n' | tee "$volume/$1/a/b/c/d/e/file" "$volume/$1/a/b/c/private" \
		"$volume/$1/a/gone" "$volume/$1/a/moved" "$volume/$1/a/shared" >"$volume/$1/a/acl"
	chown -R 1000:1000 "$volume/$1"
	find "$volume/$1" -type d -exec chmod 700 {} +
	find "$volume/$1" -type f -exec chmod 600 {} +
	setfacl -d -m u:1500:rwx,g:1501:rx,o::- "$volume/$1/acl"
}

echo '# a member at once, while all is pending'
make_lower lower
mkdir "$volume/target"
lower=$volume/lower
target=$volume/target
overlay main "$lower" "$target" "gid=$gid" paused
deep=$target/a/b/c/d/e
check_same 'reads a deep file' content "$(member cat "$deep/file")"
check 'writes it' member sh -c 'echo more >>"$1"' _ "$deep/file"
check 'creates a file' member sh -c 'echo new >"$1"' _ "$deep/new"
check 'creates a directory' member mkdir "$deep/dir"
check 'and a file in it' member touch "$deep/dir/file"
check 'renames' member mv "$deep/file" "$deep/renamed"
check 'moves to another directory' member mv "$target/a/moved" "$deep/moved"
check 'deletes' member rm "$target/a/gone"
check 'deletes a directory' member rm -r "$deep/dir"
check 'links' member ln "$deep/new" "$deep/link"
check 'makes a symbolic link' member ln -s new "$deep/symlink"
check_same 'what was written is there' 'content more' "$(tr '\n' ' ' <"$deep/renamed" | sed 's/ $//')"
check_same 'a new file has the group' "1500:$gid:644" "$(attributes "$deep/new")"
check_same 'a symbolic link has the group' "$gid" "$(stat -c %g "$deep/symlink")"
check_same 'on disk, too' "1500:$gid:644" "$(attributes "$lower/a/b/c/d/e/new")"
check_same 'the directory on disk is still pending' '1000:1000:700' \
	"$(attributes "$lower/a/b/c/d/e")"

echo '# strangers are refused'
check_fails 'to list' stranger ls "$target"
check_fails 'to read' stranger cat "$deep/renamed"
check_fails 'to create' stranger touch "$target/stranger"
chmod 755 "$target"
check_same 'a changed directory mode is shown' "1000:$gid:2755" "$(attributes "$target")"
check_fails 'to create where they may look' stranger touch "$target/stranger"
check_fails 'a member may not chmod what is not his' member chmod 777 "$target/a"
check_fails 'a member may not chown' member chown 1500 "$target/a/shared"
check_fails 'an owner outside the group may not give to another' owner chgrp 4243 "$target/a/shared"

echo '# what users decide before the walk comes'
check 'the owner makes a file private' owner chmod 600 "$target/a/b/c/private"
check 'root changes an owner' chown 1700:1701 "$target/a/shared"
# set_mode_acl FILE OWNER GROUP OTHERS: the ACL that says a mode and no more.
set_mode_acl() {
	python3 -c '
import os, struct, sys
os.setxattr(sys.argv[1], "system.posix_acl_access", struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, int(perm), 2**32 - 1) for tag, perm in zip((1, 4, 32), sys.argv[2:])))' "$@"
}
shown=$(stat -c '%a %z' "$target/a/acl")
check 'an ACL that says the mode that is shown' set_mode_acl "$target/a/acl" 6 6 0
check 'also by one who would lose set-group-ID with it' \
	setpriv --clear-groups --bounding-set -fsetid bash -c "$(declare -f set_mode_acl); set_mode_acl \"\$@\"" _ "$target/a/acl" 6 6 0
check_same 'changes nothing' "$shown" "$(stat -c '%a %z' "$target/a/acl")"
check_same 'also on disk' 1000:1000:600 "$(attributes "$lower/a/acl")"
check 'one that says another' set_mode_acl "$target/a/acl" 6 4 0
check_same 'is a change of the mode' "1000:$gid:640 1000:$gid:640" "$(attributes "$target/a/acl") $(attributes "$lower/a/acl")"
check 'and back' set_mode_acl "$target/a/acl" 6 6 0
check 'an ACL is set' setfacl -m u:1600:r "$target/a/acl"
getfacl -npc "$target/a/acl" >"$scratch/acl.before"
check 'a file is created private' member sh -c 'umask 077; echo s >"$1"' _ "$target/a/secret"
check 'a directory is created private' member sh -c 'umask 077; mkdir "$1"' _ "$target/a/secrets"
secrets=$(attributes "$target/a/secrets")
check 'converges to native' turns_native main resume
check_same 'a file made private stays so' "1000:$gid:600" "$(attributes "$lower/a/b/c/private")"
check_same 'a changed owner stays' 1700:1701:660 "$(attributes "$lower/a/shared")"
getfacl -npc "$lower/a/acl" >"$scratch/acl.after"
check 'an ACL stays' same_files "$scratch/acl.before" "$scratch/acl.after"
check_same 'a file created private stays so' "1500:$gid:600" "$(attributes "$lower/a/secret")"
check_same 'a directory created private stays so' "$secrets" "$(attributes "$lower/a/secrets")"
check_same 'a changed directory mode stays' "1000:$gid:2755" "$(attributes "$lower")"
check_same 'all else is converged' "1000:$gid:2770" "$(attributes "$lower/a/b/c/d/e")"
umount "$target"

echo '# the same while the walk runs'
make_lower lower
mkdir "$lower/many"
for ((i = 0; i < 400; i++)); do : >"$lower/many/$i"; done
chown -R 1000:1000 "$lower/many"
overlay main "$lower" "$target" "gid=$gid" converge_rate=20
keeper main wait 'seen>=20'
keeper main send rate rate=5 >/dev/null
for ((i = 0; i < 400; i += 7)); do
	owner chmod 600 "$target/many/$i"
done
for ((i = 3; i < 400; i += 7)); do
	chown 1700:1701 "$target/many/$i"
done
for ((i = 0; i < 50; i++)); do
	member sh -c 'umask 077; : >"$1"' _ "$target/many/private-$i"
done
check_same 'the walk was still running' converging "$(keeper main get state)"
keeper main send rate rate=0 >/dev/null
check 'converges to native' turns_native main
kept() {
	local i bad=0

	for ((i = 0; i < 400; i++)); do
		case $((i % 7)) in
		0) [ "$(attributes "$lower/many/$i")" = "1000:$gid:600" ] ;;
		3) [ "$(attributes "$lower/many/$i")" = 1700:1701:664 ] ;;
		*) [ "$(attributes "$lower/many/$i")" = "1000:$gid:664" ] ;;
		esac || bad=$((bad + 1))
	done
	for ((i = 0; i < 50; i++)); do
		[ "$(attributes "$lower/many/private-$i")" = "1500:$gid:600" ] || bad=$((bad + 1))
	done
	[ "$bad" = 0 ] || printf '#  %d files are not as their users left them\n' "$bad"
	[ "$bad" = 0 ]
}
check 'every file is as its user left it' kept
umount "$target"

echo '# new files: as on the eagerly changed tree'
# The same, by several users under several umasks, on either tree.
operate() {
	local tree=$1 uid groups umask name

	for uid in 0 1000 1500 1501; do
		groups=$gid
		[ "$uid" != 1000 ] || groups=
		for umask in 000 002 022 027 077; do
			for name in a a/more acl; do
				as "$uid" "$uid" "$groups" sh -c '
					umask "$1"; cd "$2" 2>/dev/null || exit 0
					: >"file-$3"; mkdir "dir-$3"; : >"dir-$3/inside"; mkdir "dir-$3/dir"
					mkfifo "fifo-$3"; ln -s x "link-$3"; ln "file-$3" "hard-$3"
					: >"setid-$3"; chmod 6755 "setid-$3"; chmod 2750 "dir-$3/dir"
					cp -p "file-$3" "copy-$3"; chgrp "$4" "copy-$3"
					mktemp "temp-$3.XXXXXX" >/dev/null
					mv "hard-$3" "dir-$3/hard"' \
					_ "$umask" "$tree/$name" "$uid-$umask" "$uid" 2>>"$scratch/errors" || true
			done
		done
	done
}

look() {
	(cd "$1" && find . -mindepth 1 -printf '%P\n' | sed 's/\(temp-[-0-9]*\)\..*/\1.X/' | sort >"$2"
		find . -mindepth 1 -printf '%p %U:%G %m %y %n\n' |
			sed 's/\(temp-[-0-9]*\)\.[^ ]*/\1.X/; s/ d \(.*\) [0-9]*$/ d \1/' | sort >>"$2"
		find . -mindepth 1 -not -type l -not -name 'temp-*' -print0 | sort -z |
			xargs -0 getfacl -np >>"$2")
}

make_lower lower
make_lower eager
"$helpers/tree" apply "$volume/eager" "$gid"
overlay main "$lower" "$target" "gid=$gid" paused
: >"$scratch/errors"
operate "$volume/eager"
sed 's/^/eager: /' "$scratch/errors" >"$scratch/errors.eager"
sed -i "s|^eager: ||; s|$volume/eager|T|g" "$scratch/errors.eager"
: >"$scratch/errors"
operate "$target"
sed "s|$target|T|g" "$scratch/errors" >"$scratch/errors.overlay"
look "$volume/eager" "$scratch/wanted"
look "$target" "$scratch/got"
check 'the same operations succeed and fail' same_files "$scratch/errors.eager" \
	"$scratch/errors.overlay"
check 'and leave the same tree, presented' same_files "$scratch/wanted" "$scratch/got"
check 'converges to native' turns_native main resume
look "$lower" "$scratch/got"
check 'and the same tree, converged' same_files "$scratch/wanted" "$scratch/got"
umount "$target"

echo '# append-only and immutable files'
make_lower lower
mkdir "$lower/special"
printf 'log\n' >"$lower/special/append"
printf 'fixed\n' >"$lower/special/immutable"
chmod 660 "$lower/special/append"
chgrp "$gid" "$lower/special/append"
printf 'log\n' >"$lower/special/capable"
chgrp "$gid" "$lower/special/capable"
setcap cap_net_raw+ep "$lower/special/capable"
chmod 664 "$lower/special/capable"
chattr +a "$lower/special/append" "$lower/special/capable"
chattr +i "$lower/special/immutable"
overlay main "$lower" "$target" "gid=$gid" paused
check 'an append-only file: appends' sh -c 'echo more >>"$1"' _ "$target/special/append"
check_fails 'an append-only file: no overwriting' "$helpers/setid" write "$target/special/append"
check_fails 'an append-only file: no pwrite' "$helpers/setid" pwrite "$target/special/append"
check_fails 'an append-only file: no mapping for writing' "$helpers/setid" mmap "$target/special/append"
check_fails 'an append-only file: no truncating' "$helpers/setid" truncate "$target/special/append"
check_fails 'an append-only file: no O_TRUNC' "$helpers/setid" open-trunc "$target/special/append"
check_same 'an append-only file: as it should be' 'log more' \
	"$(tr '\n' ' ' <"$lower/special/append" | sed 's/ $//')"
# The kernel has us remove capabilities when somebody writes: only then may they go.
check 'an append-only file that is written to loses its capabilities, and only then' python3 -c '
import ctypes, os, sys
CAPABILITY = "security.capability"
path, lower = sys.argv[1:]
libc = ctypes.CDLL(None)
def is_there():
    return libc.getxattr(path.encode(), CAPABILITY.encode(), None, 0) > 0
def user_removes():
    try:
        os.removexattr(path, CAPABILITY)
    except PermissionError:
        return CAPABILITY not in os.listxattr(lower)
    return True
fd = os.open(path, os.O_WRONLY | os.O_APPEND)
if user_removes():
    sys.exit("a user removed them")
if not is_there() or not os.getxattr(path, CAPABILITY) or user_removes():
    sys.exit("a user removed them who had looked at them")
os.write(fd, b"more")
if CAPABILITY in os.listxattr(lower):
    sys.exit("a write left them")
' "$target/special/capable" "$lower/special/capable"
check_fails 'an immutable file: no writing' "$helpers/setid" write "$target/special/immutable"
check_fails 'an immutable file: no chmod' chmod 600 "$target/special/immutable"
check 'converges' keeper main wait state=converged resume
check_same 'an immutable file: counted' 1 "$(keeper main get failed)"
check_same 'an immutable file: reported with path and errno' '1 special/immutable' \
	"$(keeper main get failure.0)"
check_same 'an immutable file: the reason' '1 immutable file' "$(keeper main get reason)"
check_same 'an immutable file: still presented' "0:$gid:664" "$(attributes "$target/special/immutable")"
check_same 'an immutable file: untouched' 0:0:644 "$(attributes "$lower/special/immutable")"
check_same 'its directory is right all the same' "0:$gid:2775" "$(attributes "$lower/special")"
check_same 'the overlay stays' fuse.fsgroupfs "$(type_at "$target")"
chattr -i "$lower/special/immutable"
check 'once it can be changed, "converge" finishes' turns_native main converge
check_same 'and it is right' "0:$gid:664" "$(attributes "$lower/special/immutable")"
umount "$target"
end_test
