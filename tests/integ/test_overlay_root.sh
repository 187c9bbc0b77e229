#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# The root of the overlay, through which every path leads: whoever is not its owner does not have the server asked for
# its ACL each time. It is not FUSE's own root, but what that has below it, and nobody notices: neither by attributes
# and file handles, nor after the server's death. What is above it can only be looked at. The same with an overlay whose
# root is FUSE's own, as an older program or on an older kernel begins them.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 losetup python3 setfacl
own_mounts "$0" "$@"
start_test

gid=4242
make_volume ext4 volume
lower=$scratch/volume/lower target=$scratch/target
mkdir -p "$lower/dir/sub" "$target"
echo content >"$lower/dir/sub/file"
chmod -R u=rwX,g=rX,o=rX "$lower"

cat >"$scratch/root.py" <<'END'
import ctypes, errno, os, stat, struct, sys

libc = ctypes.CDLL(None, use_errno=True)

def by_handle(mount, nodeid, flags, generation=0):
    """FILEID_INO64_GEN, as fuse_encode_fh() makes it."""
    payload = struct.pack("=III", nodeid >> 32, nodeid & 0xFFFFFFFF, generation)
    handle = ctypes.create_string_buffer(struct.pack("=Ii", len(payload), 0x81) + payload)
    fd = libc.open_by_handle_at(mount, handle, flags)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
    return fd

def handle_of(path):
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    if libc.name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount_id), 0) < 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return handle

def fails(wanted, call, *args, **more):
    try:
        call(*args, **more)
    except OSError as e:
        if e.errno == wanted:
            return
        raise SystemExit(f"{call.__name__}: {e}")
    raise SystemExit(f"{call.__name__}{args}: done")

def walk(uid, count, *paths):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    for path in paths:
        for _ in range(count):
            os.stat(path)

def handles(target):
    mount = os.open(target, os.O_RDONLY)
    for path in target, target + "/dir", target + "/dir/sub/file":
        fd = libc.open_by_handle_at(mount, handle_of(path), os.O_RDONLY)
        if fd < 0 or not os.path.samestat(os.fstat(fd), os.stat(path)):
            raise SystemExit(f"{path}: {os.strerror(ctypes.get_errno())}")
    root = libc.open_by_handle_at(mount, handle_of(target), os.O_RDONLY)
    if sorted(os.listdir(root)) != sorted(os.listdir(target)):
        raise SystemExit("another list")

def above(target):
    mount = os.open(target, os.O_RDONLY)
    top = by_handle(mount, 1, os.O_PATH)
    st = os.fstat(top)
    if (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid) != (stat.S_IFDIR, 0o555, 0, 0):
        raise SystemExit(f"{st}")
    root = os.stat("volume", dir_fd=top)
    if not os.path.samestat(root, os.stat(target)):
        raise SystemExit(f"{root}")
    os.stat("volume/dir/sub/file", dir_fd=top)
    fails(errno.ENOENT, os.stat, "other", dir_fd=top)
    fails(errno.EPERM, os.listdir, by_handle(mount, 1, os.O_RDONLY))
    fails(errno.EPERM, os.mkdir, "new", dir_fd=top)
    fails(errno.EPERM, os.mknod, "new", dir_fd=top)
    fails(errno.EPERM, os.symlink, "x", "new", dir_fd=top)
    fails(errno.EPERM, os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=top)
    fails(errno.EPERM, os.rmdir, "volume", dir_fd=top)
    fails(errno.EPERM, os.rename, "volume", "new", src_dir_fd=top, dst_dir_fd=top)
    fails(errno.EPERM, os.rename, "dir/sub/file", "new", src_dir_fd=mount, dst_dir_fd=top)
    fails(errno.EPERM, os.link, "dir/sub/file", "new", src_dir_fd=mount, dst_dir_fd=top)
    fails(errno.EPERM, os.chmod, f"/proc/self/fd/{top}", 0o777)
    fails(errno.EPERM, os.chown, f"/proc/self/fd/{top}", 1000, 1000)
    fails(errno.EPERM, os.setxattr, f"/proc/self/fd/{top}", "user.x", b"y")
    os.statvfs(f"/proc/self/fd/{top}")

globals()[sys.argv[1]](*[int(word) if word.isdigit() else word for word in sys.argv[2:]])
END

count_of() { keeper main get requests | tr ' ' '\n' | sed -n "s/^$1://p" | grep . || echo 0; }
shows() { awk -v at="$target" '$5 == at { print $4 }' /proc/self/mountinfo; }
walks() { python3 "$scratch/root.py" walk 1000 "$1" "$target" "$target/dir" "$target/dir/sub/file"; }

# walks_cost COUNT: GETXATTR requests of so many walks of a stranger.
walks_cost() {
	local before

	before=$(count_of GETXATTR)
	walks "$1"
	echo $(($(count_of GETXATTR) - before))
}
looks_like_lower() {
	same "$(stat -c '%i %h %F %Y' "$lower")" "$(stat -c '%i %h %F %Y' "$target")" &&
		same "$(stat -c %i "$scratch")" "$(stat -c %i "$target/..")" &&
		same "$(ls -ia "$lower/dir")" "$(ls -ia "$target/dir")"
}
kill_server() {
	kill -9 "$(keeper main get server_pid)"
	keeper main wait 'restarts>=1'
}

upgrade() { "$helpers/keeper_ctl" upgrade "$scratch/run/main" "$fsgroupfs" >/dev/null; }

for root in volume 1; do
	echo "# the root is $root"
	options=()
	[ "$root" = volume ] || options=(debug_root)
	overlay main "$lower" "$target" "gid=$gid" paused handoff=no coherence=exclusive "${options[@]}"
	if [ "$root" = volume ]; then
		check_same 'shown below the root of its file system' /volume "$(shows)"
		walks 1
		check_same 'walks of a stranger ask for no ACL again' 0 "$(walks_cost 200)"
		setfacl -m u:1000:rx "$target"
		walks 1
		check_same 'where there is one neither' 0 "$(walks_cost 200)"
		setfacl -m u:1000:- "$target"
		check_fails 'and it is followed at once' walks 1 2>/dev/null
		setfacl -b "$target"
		check 'also when it is gone' walks 1
		check 'what is above can only be looked at' python3 "$scratch/root.py" above "$target"
	else
		check_same 'shown as the root of its file system' / "$(shows)"
		check 'strangers walk' walks 1
	fi
	check 'attributes are those of the lower root' looks_like_lower
	check 'file handles lead back' python3 "$scratch/root.py" handles "$target"
	check 'another server takes over' kill_server
	check 'strangers walk' walks 1
	check 'attributes are those of the lower root' looks_like_lower
	check 'file handles lead back' python3 "$scratch/root.py" handles "$target"
	check 'another program takes over' upgrade
	check 'strangers walk' walks 1
	check 'the root can be changed' chmod 711 "$target"
	check_same 'and is' "2711 2711" "$(stat -c %a "$target") $(stat -c %a "$lower")"
	chmod 755 "$target"
	check 'converges, the root too' keeper main wait state=converged resume
	check_same 'and shows it' "$gid:2755 $gid:2755" "$(stat -c %g:%a "$target") $(stat -c %g:%a "$lower")"
	umount "$target"
	check 'its processes end' no_process_stays
	chgrp -R 0 "$lower"
	chmod -R u=rwX,g=rX,o=rX "$lower"
	find "$lower" -type d -exec chmod g-s {} +
done

echo '# the hand-off replaces what a copy of a part shows'
overlay main "$lower" "$target" "gid=$gid" paused handoff=namespaces
mkdir "$scratch/whole" "$scratch/part"
mount --bind "$target" "$scratch/whole"
mount --bind "$target/dir/sub" "$scratch/part"
check 'becomes native' turns_native main resume
check_same 'everywhere' 'ext4 ext4 ext4' "$(type_at "$target") $(type_at "$scratch/whole") $(type_at "$scratch/part")"
check_same 'the same part' "$(stat -c %i "$lower/dir/sub")" "$(stat -c %i "$scratch/part")"
umount "$scratch/whole" "$scratch/part" "$target"
check 'its processes end' no_process_stays
umount "$scratch/volume"
end_test
