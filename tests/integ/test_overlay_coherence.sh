#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# What the kernel remembers of the overlay is true: for long where nobody but us changes the lower tree, for
# a second where others may; sizes, times, links and listings after everything that is done; and the mount's
# own options.
# alone: it counts requests, and test_bench and test_overlay_scale have the kernel forget names, of the whole machine
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 debugfs losetup findmnt setfattr python3
own_mounts "$0" "$@"
start_test

gid=4242
make_volume ext4 volume
volume=$scratch/volume
image=$volume.img
loop=${loops[0]}
lower=$volume/lower
target=$scratch/target
mkdir "$target"

owner_of_root=1000
begin() {
	rm -rf "$lower"
	mkdir -p "$lower/dir/sub" "$lower/list"
	for file in file other gone hot dir/file dir/sub/file; do
		printf 'content\n' >"$lower/$file"
	done
	ln -s file "$lower/link"
	chown -R -h 1000:1000 "$lower"
	chown "$owner_of_root" "$lower"
	overlay main "$lower" "$target" "gid=$gid" paused handoff=no "$@"
	server=$(keeper main get server_pid)
}

unmount() {
	umount "$1" && no_process_stays
}

finish() {
	check "$1: unmounts, and its processes end" unmount "$target"
}

# How many requests the server has read; it reads nothing else while it only looks things up.
requests() {
	awk '$1 == "syscr:" { print $2 }' "/proc/$server/io"
}

asked() { keeper main get requests; }

# soon TEXT WANTED COMMAND...: its output becomes that within three seconds.
soon() {
	local text=$1 wanted=$2 got i

	shift 2
	for ((i = 0; i < 30; i++)); do
		got=$("$@" 2>/dev/null || true)
		[ "$got" != "$wanted" ] || break
		# A time-out of the kernel is waited for: it has no event.
		sleep 0.1
	done
	check_same "$text" "$wanted" "$got"
}

names() {
	(cd "$1" && printf '%s ' *)
}

echo '# exclusive: what was asked once is not asked again'
# Of its first inode the kernel never keeps the ACL (it made it before INIT): a walk by anybody but the owner asks.
owner_of_root=0
begin coherence=exclusive
owner_of_root=1000
look_often() {
	local i

	for ((i = 0; i < 100; i++)); do
		# Without the birth time, which the kernel always asks for.
		stat -c '%u %g %a %s %y' "$target/dir/sub/file" "$target/link" "$target/hot" >/dev/null
		[ ! -e "$target/dir/absent" ]
	done
}
look_often
before=$(requests)
look_often
check_same 'hot names and attributes send no request' "$before" "$(requests)"
sleep 1.5
look_often
check_same 'nor after a second' "$before" "$(requests)"
: >"$target/dir/absent"
check 'a name that was absent and is made is there' [ -e "$target/dir/absent" ]
rm "$target/dir/absent"
check 'and gone again' [ ! -e "$target/dir/absent" ]
mv "$target/dir/sub/file" "$target/dir/absent"
check 'and there when moved' [ -s "$target/dir/absent" ]
check 'what was moved is not where it was' [ ! -e "$target/dir/sub/file" ]
chmod 640 "$target/hot"
check_same 'a change of mode is seen' "1000:$gid:640" "$(attributes "$target/hot")"
echo text >"$target/dir/written"
stat -c '%s %y' "$target/dir/written" >/dev/null
before=$(asked)
look_at_written() {
	local i

	for ((i = 0; i < 100; i++)); do
		stat -c '%s %y' "$target/dir/written" >/dev/null
	done
}
look_at_written
check_same 'what was written and closed is not asked for again either' "$before" "$(asked)"
exec 5>>"$target/dir/written"
stat -c '%s %y' "$target/dir/written" >/dev/null
before=$(asked)
stat -c '%s %y' "$target/dir/written" >/dev/null
check 'but while it is open for writing, or may be mapped' [ "$before" != "$(asked)" ]
exec 5>&-
mkdir "$target/many"
for ((i = 0; i < 50; i++)); do
	echo text >"$target/many/$i"
done
looks() { asked | tr ' ' '\n' | awk -F : '/^(GETATTR|LOOKUP|STATX):/ { n += $2 } END { print n + 0 }'; }
before=$(looks)
check_same 'what was written and is listed' 50 "$(find "$target/many" -type f -printf '%s %t\n' | wc -l)"
check 'is not asked for one by one' [ $(($(looks) - before)) -lt 10 ]
check 'but what is mapped for writing is seen as it changes, listed or not' python3 -c '
import mmap, os, sys, time
path, lower = (at + "/many/7" for at in sys.argv[1:])
fd = os.open(path, os.O_RDWR)
memory = mmap.mmap(fd, 4)
os.close(fd)
def listed():
    return {e.name: e.stat().st_mtime_ns for e in os.scandir(os.path.dirname(path))}["7"]
for i in range(3):
    os.close(os.open(path + f".{i}", os.O_CREAT)) # the next listing has attributes
    listed()
    time.sleep(0.02)
    memory[0] = 65 + i
    memory.flush()
    if not os.stat(path).st_mtime_ns == listed() == os.stat(lower).st_mtime_ns:
        sys.exit(f"store {i}")
memory.close()
' "$target" "$lower"
# An access time that is later than the other times lets a listing be kept.
mkdir "$target/from" "$target/to" "$target/from/moved"
touch "$target/from/moved/"{1..200}
sleep 0.02
list() { ls -f -a "$target/$1" >"$scratch/list"; }
listed() { asked | tr ' ' '\n' | awk -F : '/^READDIR/ { n += $2 } END { print n + 0 }'; }
list from/moved
list from/moved
before=$(listed)
list from/moved
check_same 'a directory that was listed is not listed again' "$before" "$(listed)"
before=$(asked)
list from/moved
check_same 'nor is the kernel asked to open it' "$before" "$(asked)"
check_same 'nor is any of it lost' 202 "$(wc -l <"$scratch/list")"
rm "$target/from/moved/7"
touch "$target/from/moved/new"
list from/moved
# shellcheck disable=SC2012 # the order is what is compared away
check_same 'what comes and goes is seen' "$(ls -f -a "$lower/from/moved" | sort)" "$(sort "$scratch/list")"
list from/moved
mv "$target/from/moved" "$target/to/moved"
# shellcheck disable=SC2012 # find looks it up again
check_same 'a moved directory is below its new parent' "$(stat -c %i "$lower/to")" \
	"$(ls -f -a -i "$target/to/moved" | awk '$2 == ".." { print $1 }')"
check_access() {
	local was

	list to/moved
	list to/moved
	sleep 0.02
	"$@"
	sleep 0.02
	was=$(stat -c %x "$lower/to/moved")
	list to/moved
	[ "$was" != "$(stat -c %x "$lower/to/moved")" ]
}
check 'the access time is that of the first listing after a change of mode' check_access chmod g-w "$target/to/moved"
check 'or of an attribute' check_access setfattr -n user.a -v b "$target/to/moved"
check 'or of the time itself' check_access touch -a -d 2001-01-01 "$target/to/moved"
check 'and is not changed by the one after it' fails check_access true
check 'a directory whose opening asked nothing can be synchronised' python3 -c '
import os, sys
os.fsync(os.open(sys.argv[1], os.O_RDONLY))' "$target"
check 'so it is for who has it open all the time' python3 -c '
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
def lists():
    time.sleep(0.02)
    before = os.stat(sys.argv[2]).st_atime_ns
    os.listdir(fd)
    return os.stat(sys.argv[2]).st_atime_ns != before
lists(), lists()
kept = lists()
os.chmod(sys.argv[1], 0o2751)
seen = lists()
os.setxattr(sys.argv[1], "user.a", b"c")
sys.exit(kept or not seen or not lists() or lists())
' "$target/to/moved" "$lower/to/moved"
# A listing with O_NOATIME is not seen, and before Linux 6.13 one may be as old as the change that it follows.
check 'and what a listing kept that leaves the next one to be seen' python3 -c '
import os, sys, time
held = os.open(sys.argv[1], os.O_RDONLY)
def is_due():
    time.sleep(0.02)
    st = os.stat(sys.argv[2])
    return st.st_atime_ns <= st.st_mtime_ns
def is_seen():
    before = os.stat(sys.argv[2]).st_atime_ns
    os.listdir(held)
    return os.stat(sys.argv[2]).st_atime_ns != before
def touch(name):
    os.close(os.open(sys.argv[1] + "/" + name, os.O_CREAT))
touch("for-quiet")
quiet = os.open(sys.argv[1], os.O_RDONLY | os.O_NOATIME)
os.listdir(quiet)
if not is_due() or not is_seen() or is_due() or is_seen():
    sys.exit("with O_NOATIME")
for i in range(20):
    touch(f"tick{i}")
    os.listdir(held)
    if is_due() != is_seen():
        sys.exit("in the tick of the last change")
' "$target/to/moved" "$lower/to/moved"
mkdir "$target/parts"
touch "$target/parts/"{1..200}
sleep 0.02
list parts
list parts
check 'who is in the middle of a listing does not see what is removed then' python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(2000)
def read(fd):
    size, at, names = libc.getdents64(fd, buffer, len(buffer)), 0, []
    while at < size:
        end = at + int.from_bytes(buffer.raw[at + 16:at + 18], "little")
        names.append(buffer.raw[at + 19:end].split(b"\0")[0].decode())
        at = end
    return names
path = sys.argv[1]
for remove in os.unlink, lambda name: os.rename(name, path + "/../gone"):
    fd = os.open(path, os.O_RDONLY)
    seen = read(fd)
    victim = [name for name in os.listdir(path) if name not in seen][-1]
    remove(path + "/" + victim)
    while names := read(fd):
        seen += names
    if victim in seen or len(seen) < 150:
        sys.exit(f"{victim} is listed: {len(seen)}")
    os.listdir(path), os.listdir(path)
' "$target/parts"
keeper main wait state=converged resume
check_same 'converging changes nothing that is seen' "1000:$gid:664" "$(attributes "$target/other")"
check_same 'and the times as they are' "$(stat -c '%y %z' "$lower/other")" "$(stat -c '%y %z' "$target/other")"
finish exclusive

echo '# exclusive: what is kept is not kept until the access time is a day old, from when on every listing is seen in it'
begin coherence=exclusive
finish 'made anew'
chmod 755 "$lower"
now=$(date +%s)
umount "$volume"
for time in "ctime @$((now - 3 * 86400))" "mtime @$((now - 3 * 86400))" "atime @$((now - 86400 + 12))"; do
	debugfs -w -R "set_inode_field /lower/list $time" "$image" >/dev/null 2>&1
done
mount "$loop" "$volume"
check_same 'a listing of almost a day ago' $((now - 86400 + 12)) "$(stat -c %X "$lower/list")"
overlay main "$lower" "$target" "gid=$gid" paused handoff=no coherence=exclusive debug_listing=1
check 'is seen again as on the lower tree, though the server died meanwhile' python3 -c '
import os, signal, sys, time
def last():
    return os.stat(sys.argv[2]).st_atime_ns // 10**9
held = os.open(sys.argv[1], os.O_RDONLY)
first = last()
os.listdir(held)
os.kill(int(sys.argv[3]), signal.SIGKILL)
while time.time() < first + 86400 - 0.1:
    os.listdir(held)
    if last() != first:
        if time.time() < first + 86400:
            sys.exit("too early")
        break
    time.sleep(0.05)
time.sleep(0.3)
os.listdir(held)
sys.exit(last() == first)
' "$target/list" "$lower/list" "$(keeper main get server_pid)"
finish 'a day'

echo '# shared: what others do on the lower tree is seen within a second or so'
begin coherence=shared
stat "$target"/* "$target/dir/"* "$target/absent" >/dev/null 2>&1 || true
printf 'more\n' >"$lower/absent"
soon 'a new file' more cat "$target/absent"
soon 'which is pending like the others' "0:$gid:664" attributes "$target/absent"
rm "$lower/gone"
soon 'a removed file' '' ls "$target/gone"
check_same 'is not listed either' 0 "$(find "$target" -name gone | wc -l)"
chmod 604 "$lower/file"
soon 'a mode' "1000:$gid:664" attributes "$target/file"
chown 1234 "$lower/file"
soon 'an owner' "1234:$gid:664" attributes "$target/file"
printf 'longer content\n' >"$lower/other"
soon 'a size' 15 stat -c %s "$target/other"
check_same 'a content' 'longer content' "$(cat "$target/other")"
touch -d 2001-01-01 "$lower/other"
soon 'a time' 978307200 stat -c %Y "$target/other"
mv "$lower/dir/file" "$lower/dir/sub/moved"
soon 'a renamed file: the new name' content cat "$target/dir/sub/moved"
soon 'a renamed file: the old name' '' ls "$target/dir/file"
mv "$lower/dir" "$lower/moved"
soon 'a renamed directory' content cat "$target/moved/sub/file"
ln -sfn other "$lower/link"
soon 'a replaced symbolic link' other readlink "$target/link"
check_same 'leads to its new target' 'longer content' "$(cat "$target/link")"
ln "$lower/other" "$lower/linked"
soon 'a count of links' 2 stat -c %h "$target/other"
mkdir "$lower/new"
soon 'a new directory' "0:$gid:2775" attributes "$target/new"
rmdir "$lower/new"
printf 'file now\n' >"$lower/new"
soon 'a directory that becomes a file' 'file now' cat "$target/new"
# Each listing is answered; that must not make what was told before be believed for longer.
check 'a size, by who lists the directory all the time' python3 -c '
import os, sys, time
lower, target = (at + "/list" for at in sys.argv[1:])
for i in range(50):
    open("%s/%d" % (lower, i), "w").close()
def sizes():
    return {entry.name: entry.stat().st_size for entry in os.scandir(target)}
until = time.monotonic() + 3
while len(sizes()) != 50 and time.monotonic() < until:
    pass
for i in range(50):
    with open("%s/%d" % (lower, i), "w") as f:
        f.write("text")
began = time.monotonic()
while set(sizes().values()) != {4} and time.monotonic() < began + 3:
    pass
sys.exit(set(sizes().values()) != {4} and "still %s" % sizes())
' "$lower" "$target"
# So is what is kept of a listing, also when times are put back (rsync does) and the directory is looked at all the time.
check 'a new name, by who lists and looks at the directory all the time' python3 -c '
import os, sys, time
lower, target = (at + "/list" for at in sys.argv[1:])
def is_there():
    os.stat(target)
    return "new" in os.listdir(target)
time.sleep(0.02)
is_there(), is_there()
st = os.stat(lower)
open(lower + "/new", "w").close()
os.utime(lower, ns=(st.st_atime_ns, st.st_mtime_ns))
began = time.monotonic()
while not is_there():
    if time.monotonic() > began + 3:
        sys.exit("not seen")
' "$lower" "$target"
# A second may end anywhere: the quickest of some.
check 'what was listed a moment ago is not asked for again' python3 -c '
import os, subprocess, sys
def asked():
    requests = subprocess.run(sys.argv[2:], check=True, capture_output=True, text=True).stdout
    return [r for r in requests.split() if not r.startswith(("OPENDIR", "RELEASEDIR"))]
def asks():
    sum(entry.stat().st_size for entry in os.scandir(sys.argv[1]))
    before = asked()
    sum(entry.stat().st_size for entry in os.scandir(sys.argv[1]))
    return asked() != before
sys.exit(all(asks() for i in range(20)))
' "$target/list" "$helpers/keeper_ctl" get "$scratch/run/main" requests
check_same 'names' 51 "$(find "$target/list" -type f -size -10 | wc -l)"
sleep 1.1
before=$(looks)
check_same 'names a second later' 51 "$(find "$target/list" -type f -size -10 | wc -l)"
check 'come with what is told of each' [ $(($(looks) - before)) -lt 20 ]
rm -rf "$lower/moved"
soon 'a removed tree' '' ls "$target/moved"
check_same 'the listing is the lower tree'"'"'s' "$(names "$lower")" "$(names "$target")"
printf 'content\n' | tee "$lower/replaced" >"$lower/alone"
exec 5<"$target/replaced" 6<"$target/alone"
printf 'new\n' >"$lower/new"
mv -T "$lower/new" "$lower/replaced"
rm "$lower/alone"
keeper main wait state=converged resume
soon 'a file that replaced another is converged' "0:$gid:664" attributes "$target/replaced"
# A time-out of the kernel is waited for: it has no event.
sleep 1.1
check_same 'the replaced one too, for who has it open' "0 $gid 664" "$(stat -L -c '%u %g %a' /proc/self/fd/5)"
check_same 'and a removed one' "0 $gid 664" "$(stat -L -c '%u %g %a' /proc/self/fd/6)"
check_same 'which can be read' content "$(cat <&6)"
exec 5<&- 6<&-
printf 'text\n' >"$target/written"
# Of a thousand looks hardly any asks: a few may be a second after the last.
looks_are_kept() {
	local before

	before=$(looks)
	python3 -c 'import os, sys
for i in range(1000):
    os.stat(sys.argv[1])' "$target/written"
	[ $(($(looks) - before)) -ge 500 ] || echo kept
}
if has_prune; then
	handle=$(python3 -c '
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
class handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
h, mount = handle(128), ctypes.c_int()
if libc.name_to_handle_at(-100, sys.argv[1].encode(), ctypes.byref(h), ctypes.byref(mount), 0) < 0:
    raise OSError(ctypes.get_errno(), "name_to_handle_at")
print(h.type, bytes(h.data[:h.bytes]).hex())
' "$target/written")
	soon 'what was written and closed is not asked for again' kept looks_are_kept
	check 'its handle leads to it as before' python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
kind, data = sys.argv[3].split()
h = handle(len(data) // 2, int(kind), (ctypes.c_ubyte * 128)(*bytes.fromhex(data)))
at = os.open(sys.argv[1], os.O_RDONLY)
fd = libc.open_by_handle_at(at, ctypes.byref(h), os.O_RDONLY)
if fd < 0:
    raise OSError(ctypes.get_errno(), "open_by_handle_at")
sys.exit(os.fstat(fd).st_ino != os.stat(sys.argv[2]).st_ino)
' "$target" "$target/written" "$handle"
fi
exec 5>>"$target/written"
check 'but while it is open for writing' [ "$(looks_are_kept)" != kept ]
echo more >&5
check_same 'a size that grows is seen at once' 10 "$(stat -c %s "$target/written")"
exec 5>&-
check 'nor, when it is closed, as long as it may be stored to' python3 -c '
import mmap, os, sys, time
name = sys.argv[1]
fd = os.open(name, os.O_RDWR)
memory = mmap.mmap(fd, 10)
os.close(fd)
for i in range(20):
    memory[0] = 65
    memory.flush()
    before = os.stat(name).st_mtime_ns
    time.sleep(0.02)  # the kernel is asked to forget it
    os.stat(name)
    memory[1] = 66
    if os.stat(name).st_mtime_ns == before:
        sys.exit("the time is the old one after store %d" % i)
' "$target/written"
if has_prune; then
	soon 'and again when it is not mapped any more' kept looks_are_kept
	forgotten() { asked | tr ' ' '\n' | awk -F : '/FORGET/ { n += $2 } END { print n + 0 }'; }
	before=$(forgotten)
	printf 'text\n' >"$target/unseen"
	soon 'what was written and nobody looks at is forgotten' $((before + 1)) forgotten
fi
finish shared

for coherence in exclusive shared; do
	echo "# $coherence: sizes and times"
	begin "coherence=$coherence"
	for way in write pwrite append truncate mmap mmap-closed; do
		stat "$target/file" >/dev/null
		check "$coherence: $way" "$helpers/agree" "$way" "$target/file" "$lower/file"
	done
	echo "# $coherence: links"
	ln "$target/file" "$target/second"
	check_same "$coherence: after link" '2 2' "$(stat -c %h "$target/file" "$target/second" | tr '\n' ' ' | sed 's/ $//')"
	exec 5<"$target/file"
	mv -f "$target/other" "$target/file"
	check_same "$coherence: a rename over one name leaves one link" 1 "$(stat -c %h "$target/second")"
	check_same "$coherence: for those who have it open too" 1 "$(stat -L -c %h /proc/self/fd/5)"
	rm "$target/second"
	check_same "$coherence: none is left" 0 "$(stat -L -c %h /proc/self/fd/5)"
	exec 5<&-
	check_same "$coherence: as on the lower tree" 1 "$(stat -c %h "$target/file")"
	ln "$target/file" "$target/dir/third"
	stat "$target/file" "$target/dir/third" >/dev/null
	rm "$target/dir/third"
	check_same "$coherence: unlinked through another name" 1 "$(stat -c %h "$target/file")"
	links=$(stat -c %h "$target/dir")
	mkdir "$target/dir/one"
	check_same "$coherence: a directory counts its directories" $((links + 1)) "$(stat -c %h "$target/dir")"
	rmdir "$target/dir/one"
	check_same "$coherence: and counts down" "$links" "$(stat -c %h "$target/dir")"
	echo "# $coherence: listings"
	check "$coherence: what stays is listed once whatever comes and goes" "$helpers/agree" list \
		"$target/list" "$lower/list"
	rm -rf "$target/list"
	finish "$coherence"
done

echo '# mount options'
options() {
	findmnt -n -o VFS-OPTIONS "$target"
}
remount_volume() {
	mount -o "remount,bind,$1" "$volume"
}
make_special_files() {
	mknod "$lower/null" c 1 3
	cp "$(command -v id)" "$lower/id"
	chown 0:0 "$lower/id" "$lower/null"
	chmod 4755 "$lower/id"
}
begin
check_same 'a plain lower mount' rw,relatime "$(options)"
finish plain
remount_volume nosuid,nodev,noexec,noatime
begin
check_same 'nosuid, nodev, noexec and noatime are those of the lower mount' rw,nosuid,nodev,noexec,noatime "$(options)"
finish inherited
begin suid dev exec relatime
check_same 'and can be set otherwise' rw,relatime "$(options)"
printf '#!/bin/sh\necho run\n' >"$lower/program"
chmod 755 "$lower/program"
check_same 'exec is honoured' run "$("$target/program")"
make_special_files
check_same 'suid is honoured' 0 "$(as 1000 1000 '' "$target/id" -u)"
check 'dev is honoured' sh -c ': <"$1"' _ "$target/null"
finish other
remount_volume suid,dev,exec,atime,relatime
begin nosuid,nodev,noexec,noatime,nodiratime
check_same 'set where the lower mount is plain' rw,nosuid,nodev,noexec,noatime,nodiratime "$(options)"
printf '#!/bin/sh\necho run\n' >"$lower/program"
chmod 755 "$lower/program"
check_fails 'noexec is honoured' "$target/program"
make_special_files
check_fails 'nodev is honoured' sh -c ': <"$1"' _ "$target/null"
mount -i -o remount,bind,exec,nosuid "$target"
check_same 'nosuid is honoured' 1000 "$(as 1000 1000 '' "$target/id" -u)"
touch -a -d 2001-01-01 "$lower/file"
cat "$target/file" >/dev/null
check_same 'noatime is honoured on the lower tree' 978307200 "$(stat -c %X "$lower/file")"
finish set
begin strictatime coherence=exclusive
touch -a -d 2001-01-01 "$lower/file"
cat "$target/file" >/dev/null
check 'strictatime too' [ "$(stat -c %X "$lower/file")" -gt 978307200 ]
check 'at every listing by who has a directory open all the time' python3 -c '
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(3):
    time.sleep(0.02)
    before = os.stat(sys.argv[2]).st_atime_ns
    os.listdir(fd)
    if os.stat(sys.argv[2]).st_atime_ns == before:
        sys.exit(1)
' "$target/list" "$lower/list"
mkdir -p "$lower/list/a/b"
: >"$lower/list/a/b/file"
touch -a -d 2001-01-01 "$lower/list/a/b" "$lower/list/a" "$lower/list"
exec {held}<"$target/list/a/b"
# What the kernel has forgotten of the lower tree's names it finds by reading directories.
mount -o remount "$volume"
stat "/proc/self/fd/$held/file" >/dev/null
check_same 'but not when the kernel looks for a name that it has forgotten' '978307200 978307200' \
	"$(stat -c %X "$lower/list" "$lower/list/a" | xargs)"
exec {held}<&-
finish strictatime
rm -rf "$lower"
mkdir "$lower"
printf 'content\n' >"$lower/file"
chown -R 1000:1000 "$lower"
chmod 600 "$lower/file"
remount_volume ro
overlay main "$lower" "$target" "gid=$gid"
check_same 'a read-only lower mount' ro,relatime "$(options)"
check_same 'is shown with the read-only mask' "1000:$gid:640" "$(attributes "$target/file")"
check_fails 'and not written' touch "$target/file"
check_same 'for ever' virtual "$(keeper main get state)"
finish ro
remount_volume rw
overlay main "$lower" "$target" "gid=$gid" ro
check_same 'ro can be asked for' ro,relatime "$(options)"
check_fails 'and is honoured' touch "$target/new"
finish 'asked for ro'

echo '# a mount like others'
begin
check_same 'findmnt' "$target $lower[/volume] fuse.fsgroupfs" "$(findmnt -n -o TARGET,SOURCE,FSTYPE "$target" | tr -s ' ')"
check_same 'which can leave out what of the file system is there' "$lower" "$(findmnt -n -v -o SOURCE "$target")"
check_same 'and finds it by its source' "$target" "$(findmnt -n -o TARGET -S "$lower" -t fuse.fsgroupfs)"
check_same 'df has the size of the lower file system' "$(df --output=size,itotal "$lower" | tail -n 1)" \
	"$(df --output=size,itotal "$target" | tail -n 1)"
check_same 'and the free space' "$(stat -f -c '%f %a %d %s %l' "$lower")" "$(stat -f -c '%f %a %d %s %l' "$target")"
check_same 'mountpoint knows it' 0 "$(mountpoint -q "$target"; echo $?)"
# -i: not by way of a mount.fuse.fsgroupfs that may be installed.
exec 5>>"$target/file"
check_fails 'a remount to ro while a file is open for writing is refused' mount -i -o remount,ro "$target"
exec 5>&-
check 'a remount to ro' mount -i -o remount,ro "$target"
check_same 'is shown' ro "$(options | cut -d , -f 1)"
check_fails 'is honoured: no new file' touch "$target/new"
check_fails 'no writing' sh -c ': >>"$1"' _ "$target/file"
check_fails 'no change of mode' chmod 600 "$target/file"
check 'reading goes on' grep -q content "$target/file"
check 'a remount to rw' mount -i -o remount,rw "$target"
check 'is honoured' touch "$target/new"
check 'of this mount alone' mount -i -o remount,bind,ro "$target"
check_fails 'is honoured too' touch "$target/newer"
check 'and back' mount -i -o remount,bind,rw "$target"
check 'nosuid later' mount -i -o remount,bind,nosuid "$target"
check_same 'is shown' rw,nosuid,relatime "$(options)"
finish remounted

echo '# mounts below the source'
mkdir -p "$lower/dir/nested"
mount -t tmpfs tmpfs "$lower/dir/nested"
refused() {
	"$fsgroupfs" -o "gid=$gid" "$lower" "$target" 2>"$scratch/message" && return 1
	grep -qF "$lower/dir/nested is mounted" "$scratch/message"
}
check 'are refused, by their names' refused
check 'nothing is mounted then' no_mount_stays "$target"
umount "$lower/dir/nested"
check 'and not when they are gone' "$fsgroupfs" -o "gid=$gid" -o paused "$lower" "$target"
check 'unmounts, and its processes end' unmount "$target"
end_test
