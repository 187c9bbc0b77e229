#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# Who may open what, where more counts than mode and owner: programs that run, files that are append-only or immutable or
# on a disk that has become read-only while somebody has them open (the kernel opens nothing on the lower tree for one
# more user of a file in passthrough), and what fs.protected_* forbid in a directory like /tmp. The same is done on a tree
# that was changed eagerly, and every answer is the same.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 losetup python3 chattr sysctl
own_mounts "$0" "$@"
start_test

gid=4242
make_volume ext4 volume
volume=$scratch/volume
eager=$volume/eager lower=$volume/lower target=$scratch/target
mkdir "$target"

fill() {
	mkdir -p "$1/tmp"
	cp "$(command -v sleep)" "$1/program"
	for file in plain append immutable; do
		echo content >"$1/$file"
	done
	chmod 640 "$1"/{plain,append,immutable}
	chown -R 1000:1000 "$1"
	chmod 1777 "$1/tmp"
	for owner in 1000 1500 1600; do
		mkfifo "$1/tmp/fifo-$owner"
		for file in "file-$owner" "secret-$owner" "setuid-$owner" "setgid-$owner"; do
			echo content >"$1/tmp/$file"
		done
		ln -s ../plain "$1/tmp/link-$owner"
		chown -h "$owner:$owner" "$1/tmp/"*"-$owner"
		chmod 666 "$1/tmp/fifo-$owner" "$1/tmp/file-$owner"
		chmod 600 "$1/tmp/secret-$owner"
		chmod 4777 "$1/tmp/setuid-$owner"
		chmod 2777 "$1/tmp/setgid-$owner"
	done
}
fill "$eager"
fill "$lower"
chown -R -h ":$gid" "$eager"
find "$eager" -type d -exec chmod g+rwxs {} +
find "$eager" -not -type d -not -type l -exec chmod ug+rw {} +
# A change of group takes them; the overlay keeps those of files that are not written (README.md).
find "$eager/tmp" -name 'setuid-*' -exec chmod u+s {} + -o -name 'setgid-*' -exec chmod g+s {} +

cat >"$scratch/try.py" <<'END'
import contextlib, errno, os, subprocess, sys

def answer(what, call, *arguments):
    try:
        result = call(*arguments)
        if isinstance(result, int) and result > 2:
            os.close(result)
        print(what, "ok")
    except OSError as error:
        print(what, errno.errorcode[error.errno])

WAYS = {"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR, "append": os.O_WRONLY | os.O_APPEND,
        "truncate": os.O_WRONLY | os.O_TRUNC}

def every_way(what, path):
    for name, flags in WAYS.items():
        answer(f"{what}: {name}", os.open, path, flags)

@contextlib.contextmanager
def running(path):
    child = subprocess.Popen([path, "60"])
    try:
        yield
    finally:
        child.kill()
        child.wait()

def execute(path):
    subprocess.run([path, "0"], check=True)
    return 0

def opens(shown, real):
    # Before anybody has it open for writing: on its own file system that ends when the server has heard of it.
    for where, path in (("on its file system", real), ("here", shown)):
        with running(f"{path}/program"):
            every_way(f"program that runs {where}", f"{shown}/program")
    answer("program that ran", os.open, f"{shown}/program", os.O_WRONLY)
    for name, flags in WAYS.items():
        with os.fdopen(os.open(f"{shown}/program", flags & ~os.O_TRUNC)):
            answer(f"program that is open for {name}: exec", execute, f"{shown}/program")
    for name, flag in (("append", "a"), ("immutable", "i")):
        for held in os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND:
            fd = os.open(f"{shown}/{name}", held)
            subprocess.run(["chattr", "+" + flag, f"{real}/{name}"], check=True)
            every_way(f"{name} that is open by {held}", f"{shown}/{name}")
            answer(f"{name} that is open by {held}: link", os.link, f"{shown}/{name}", f"{shown}/new")
            subprocess.run(["chattr", "-" + flag, f"{real}/{name}"], check=True)
            every_way(f"{name} no more", f"{shown}/{name}")
            os.close(fd)

def plain(shown, real):
    every_way("plain", f"{shown}/plain")
    answer("create", os.open, f"{shown}/new", os.O_WRONLY | os.O_CREAT)

def read_only(shown, real):
    with open(f"{shown}/plain"):
        every_way("read-only", f"{shown}/plain")
        answer("read-only: create", os.open, f"{shown}/new", os.O_WRONLY | os.O_CREAT)
        answer("read-only: create what is there", os.open, f"{shown}/plain", os.O_RDONLY | os.O_CREAT)

def protected(shown, real):
    os.chdir(f"{shown}/tmp")
    for owner in 1000, 1500, 1600:
        for name in "file", "fifo":
            answer(f"{name} of {owner}", os.open, f"{name}-{owner}", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK)
            answer(f"{name} of {owner}, exclusively", os.open, f"{name}-{owner}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
            answer(f"{name} of {owner}, by no creation", os.open, f"{name}-{owner}", os.O_RDWR | os.O_NONBLOCK)
        for name in "file", "secret", "setuid", "setgid", "fifo":
            answer(f"link to {name} of {owner}", os.link, f"{name}-{owner}", f"by-{os.getuid()}-{name}-{owner}")
        answer(f"symbolic link of {owner}", os.open, f"link-{owner}", os.O_RDONLY)
        answer(f"symbolic link of {owner}, removed", os.unlink, f"link-{owner}" if os.getuid() == 1600 else "/")

uid, gid, *groups = map(int, sys.argv[1].split(":"))
os.setgroups(groups)
os.setresgid(gid, gid, gid)
os.setresuid(uid, uid, uid)
globals()[sys.argv[2]](*sys.argv[3:])
END

# tried HOW UID:GID[:GROUP]: whether on both trees this user is answered alike.
tried() {
	python3 "$scratch/try.py" "$2" "$1" "$eager" "$eager" >"$scratch/$1.eager" &&
		python3 "$scratch/try.py" "$2" "$1" "$target" "$lower" >"$scratch/$1.overlay" &&
		same_files "$scratch/$1.eager" "$scratch/$1.overlay"
}
answers() { grep -cE "$2" "$scratch/$1.overlay"; }

overlay main "$lower" "$target" "gid=$gid" paused handoff=no
check 'by root: programs, append-only and immutable files' tried opens 0:0
check_same 'a program that runs cannot be written' 8 "$(answers opens 'runs.* ETXTBSY$')"
check_same 'nor run while it is open for writing' 4 "$(answers opens 'exec ETXTBSY$')"
check_same 'an append-only file' 9 "$(answers opens '^append that.*(write|both|truncate) EPERM$')"
check_same 'an immutable one' 12 "$(answers opens '^immutable that.*(write|both|truncate|append) EPERM$')"
sysctl fs.protected_{fifos,hardlinks,regular,symlinks} | sed 's/^/#  /'
check 'in a directory like /tmp: root' tried protected 0:0
check 'in a directory like /tmp: a member' tried protected "1500:1500:$gid"
check 'in a directory like /tmp: a stranger' tried protected 1600:1600
# What was removed and closed last the server may be told of yet.
check 'the disk becomes read-only' within 20 mount -o remount,ro "$volume"
check 'on a disk that is read-only now' tried read_only 0:0
check_same 'where nothing is written' 5 "$(answers read_only ' EROFS$')"
mount -o remount,rw "$volume"
check 'and on one that is writable again' tried plain 0:0
check_same 'where all is' 6 "$(answers plain ' ok$')"
umount "$target"
check 'its processes end' no_process_stays
umount "$volume"
end_test
