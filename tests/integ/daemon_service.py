# SPDX-License-Identifier: Apache-2.0
#
# daemon_service.py DAEMON ROOT FSGROUPCTL: a service manager for test_daemon_service.sh: passes a listening socket, hears
# "ready", "stopping" and signs of life. ROOT is a root directory in which the daemon has run before.
import os
import shutil
import signal
import socket
import subprocess
import sys

import lib_daemon
from lib_daemon import ask, check, connect

DAEMON, ROOT, CTL = sys.argv[1:4]
RUN = ROOT + "/run/fsgroupfs"
PATH = RUN + "/mountd.sock"

notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(ROOT + "/notify")
notify.settimeout(lib_daemon.PATIENCE)


def listen(path, kind=socket.SOCK_STREAM, listening=True):
    if os.path.lexists(path):
        os.unlink(path)
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    os.chmod(path, 0o600)
    if listening:
        s.listen(128)
    return s


def start(passed, *options, count=None, pid=None, **environment):
    """The daemon in the foreground, with the sockets passed from descriptor 3 on."""

    def place():
        for number, s in enumerate(passed):
            os.dup2(s.fileno(), 100 + number)
        for number in range(len(passed)):
            os.dup2(100 + number, 3 + number)

    env = dict(os.environ, NOTIFY_SOCKET=ROOT + "/notify", LISTEN_FDS=str(len(passed) if count is None else count),
               **environment)
    # Its own pid is known in the child only: a shell puts it there, and exec keeps it.
    command = f'export LISTEN_PID={pid or "$$"}; exec "$@"'
    return subprocess.Popen(["/bin/sh", "-c", command, "sh", DAEMON, "--root", ROOT, "-f", *options], env=env,
                            preexec_fn=place, close_fds=False, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def hear(wanted):
    """The next message with that line in it; all before it are returned too."""
    heard = []
    while True:
        heard.append(notify.recv(4096).decode())
        if wanted in heard[-1].split("\n"):
            return heard


def ends(process, seconds=lib_daemon.PATIENCE):
    """Its exit status; None: it is still there."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def keepers_of(target):
    """Pids of those whose command line names it."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as text:
                words = text.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[0].endswith(b"/fsgroupfs") and (ROOT + target).encode() in words:
            pids.append(pid)
    return pids


def refused(text, words, *arguments, **options):
    process = start(*arguments, **options)
    error = process.communicate(timeout=lib_daemon.PATIENCE)[1].decode()
    check(text, process.returncode == 1 and error.count("\n") == 1 and words in error, (process.returncode, error))


def ctl(*arguments):
    return subprocess.run([CTL, "--root", ROOT, *arguments], capture_output=True, text=True,
                          timeout=lib_daemon.PATIENCE, check=False)


# ---- a daemon that was started on demand gives way ----

first = subprocess.Popen([DAEMON, "--root", ROOT, "--idle-exit", "1"])
check("a daemon in the background is there when it is ready", first.wait(lib_daemon.PATIENCE) == 0)
check("it has a volume", ctl("status", "kept", "--json").returncode == 0)
socket_passed = listen(PATH)
early = connect(PATH)
early.sendall(lib_daemon.frame({"command": "ping"}))
programs = ROOT + "/programs"  # as they are installed: an upgrade runs nothing that others can write
os.mkdir(programs)
for program in "fsgroupfs", "fsgroup-mountd":
    shutil.copy(os.path.join(os.path.dirname(DAEMON), program), programs)
    os.chmod(os.path.join(programs, program), 0o755)
daemon = start([socket_passed], "--idle-exit", "1", WATCHDOG_USEC="600000", FSGROUPFS_LIBEXEC=programs)

# ---- ready, alive, in the service's place ----

heard = hear("READY=1")
check("it is ready when it has been let in", any("STATUS=" in text for text in heard), heard)
reply = lib_daemon.receive(early)
check("whoever came before it is answered by it", reply and reply["result"]["pid"] == daemon.pid, reply)
early.close()
check("it gives signs of life", len(hear("WATCHDOG=1") + hear("WATCHDOG=1") + hear("WATCHDOG=1")) >= 3)
with open(f"/proc/{daemon.pid}/environ", "rb") as text:
    environment = text.read()
check("it was told so by its environment", b"NOTIFY_SOCKET" in environment)
with open(f"/proc/{daemon.pid}/cgroup", encoding="ascii") as theirs, open("/proc/self/cgroup", encoding="ascii") as ours:
    check("it stays in the control group of the service", theirs.read() == ours.read())
check("a volume is mounted", ctl("mount", "--plugin", "local", "--source", ROOT + "/source", "--target", ROOT + "/second",
                                 "--fsgroup", "4242", "--converge-rate", "1", "--volume-id", "second").returncode == 0)
keepers = keepers_of("/second")
check("its children do not speak for it", keepers and not any(
    word in open(f"/proc/{pid}/environ", "rb").read() for pid in keepers
    for word in (b"NOTIFY_SOCKET", b"LISTEN_", b"WATCHDOG_")), keepers)
check("they have none of its sockets", keepers and not any(
    os.readlink(f"/proc/{pid}/fd/{fd}") == os.readlink(f"/proc/self/fd/{socket_passed.fileno()}")
    for pid in keepers for fd in os.listdir(f"/proc/{pid}/fd")))

# ---- another version in its place ----

inode = os.stat(PATH).st_ino
upgraded = ctl("upgrade", "--all")
check("another daemon takes its place", upgraded.returncode == 0 and "daemon" in upgraded.stdout, upgraded)
heard = hear("READY=1")
check("and says so, as a service that goes on", not any("STOPPING=1" in text for text in heard), heard)
check("it is the same process", daemon.poll() is None)
check("gives signs of life", len(hear("WATCHDOG=1") + hear("WATCHDOG=1")) >= 2)
check("and has the service manager's socket", os.stat(PATH).st_ino == inode)

# ---- stopping ----

with connect(PATH) as waiting:
    waiting.sendall(lib_daemon.frame({"command": "wait", "volume": "second", "for": "native"}))
    with connect(PATH) as ready:
        ask(ready, command="ping")
    daemon.send_signal(signal.SIGTERM)
    heard = hear("STOPPING=1")
    check("a wait ends without an answer, to be asked again", lib_daemon.receive(waiting) is None)
check("it ends by itself, with 0", ends(daemon) == 0, daemon.returncode)
check("the socket is the service manager's and stays", os.stat(PATH).st_ino == inode)
with connect(PATH) as early:
    early.sendall(lib_daemon.frame({"command": "status", "volume": "second"}))
    daemon = start([socket_passed], "--idle-exit", "1")
    hear("READY=1")
    reply = lib_daemon.receive(early)
check("the next one has the volumes", reply and reply["exit"] == 0 and reply["result"]["state"] == "converging", reply)

# ---- idle ----

check("with volumes it stays", ends(daemon, 2) is None)
check("without", ctl("unmount", "--all").returncode == 0)
check("it ends when it has been idle", ends(daemon) == 0, daemon.returncode)
check("saying so", b"op=stop idle" in daemon.stderr.read())
check("and its socket stays", os.stat(PATH).st_ino == inode)

# ---- what is no socket of ours ----

other = listen(ROOT + "/other")
refused("a socket at another path", f"the socket is not {PATH}", [other])
refused("two sockets", "one listening stream socket", [socket_passed, other])
refused("a socket that does not listen", "one listening stream socket", [listen(ROOT + "/other", listening=False)])
refused("a socket of datagrams", "one listening stream socket", [listen(ROOT + "/other", socket.SOCK_DGRAM, False)])
refused("no socket where one is announced", "one listening stream socket", [], count=1)
daemon = start([socket_passed], "--idle-exit", "1", pid=1)
hear("READY=1")
check("sockets for another process are closed, and its own is made", os.stat(PATH).st_ino != inode)
with connect(PATH) as s:
    check("and answers", ask(s, command="ping")["result"]["pid"] == daemon.pid)
    os.unlink(PATH)  # a client keeps it from being idle
    ended = ends(daemon)
check("a daemon that nobody can reach ends", ended == 0 and b"another socket, or none" in daemon.stderr.read(), ended)

# ---- journald ----


def read_journal(words):
    """The first message that has all these words, or None."""
    while True:
        try:
            text = journal.recv(4096).decode()
        except TimeoutError:
            return None
        if all(word in text for word in words):
            return text


journal = listen("/run/systemd/journal/socket", socket.SOCK_DGRAM, False)
journal.settimeout(lib_daemon.PATIENCE)
overlay = [os.path.dirname(DAEMON) + "/fsgroupfs", "-o", "gid=4242,handoff=no", ROOT + "/source", ROOT + "/second"]
check("an overlay in the background", subprocess.run(overlay, check=False).returncode == 0)
for keeper in keepers_of("/second"):
    with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as text:
        for server in text.read().split():
            os.kill(int(server), signal.SIGKILL)
text = read_journal(["SYSLOG_IDENTIFIER=fsgroupfs\n", "PRIORITY="])
check("says to journald that its server died", text and "MESSAGE=op=" in text, text)
subprocess.run(["umount", ROOT + "/second"], check=True)
stream, theirs = socket.socketpair()
seen = os.fstat(theirs.fileno())
daemon = subprocess.Popen([DAEMON, "--root", ROOT, "-f"], stderr=theirs,
                          env=dict(os.environ, JOURNAL_STREAM=f"{seen.st_dev}:{seen.st_ino}"))
text = read_journal(["SYSLOG_IDENTIFIER=fsgroup-mountd\n", "op=start"])
check("a daemon whose standard error is journald's gives it fields", text and "\nFSGROUPFS_OP=start\n" in text, text)
daemon.terminate()
check("it ends", ends(daemon) == 0)
lib_daemon.end()
