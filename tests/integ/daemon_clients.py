# SPDX-License-Identifier: Apache-2.0
#
# daemon_clients.py SOCKET PID GID CANARY: clients of all kinds for test_daemon_clients.sh, against the daemon PID at
# SOCKET, whose status-group is GID. CANARY stands in what that group must not see. Prints "ok - " and "not ok - "
# lines; its exit status is 1 when one failed.
import json
import os
import resource
import socket
import struct
import sys

import lib_daemon
from lib_daemon import ask, ask_text, check, comes_true, frame, receive

PATH, PID, GID, CANARY = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
UID = 4711


def connect():
    return lib_daemon.connect(PATH)


def status_of(key):
    return lib_daemon.status_of(PID, key)


def falls_to(key, most):
    return comes_true(lambda: status_of(key) <= most)


def connect_as(uid, gid, groups=()):
    """A connection whose other end is seen as that user: credentials are taken when it connects."""
    os.setgroups(list(groups))
    os.setegid(gid)
    os.seteuid(uid)
    try:
        return connect()
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([])


def looker():
    return connect_as(UID, 100, [GID])


def answers_root():
    with connect() as s:
        reply = ask(s, command="ping")
    good = reply is not None and reply["exit"] == 0 and reply["result"]["pid"] == PID
    if not good:
        print("#  " + repr(reply), flush=True)
    return good


def ends_after(s, sent, exit_status, words):
    """Whether exactly one answer comes to what is sent, and then the end."""
    try:
        s.sendall(sent)
    except BrokenPipeError:
        pass  # sent away before all was sent
    reply = receive(s)
    rest = receive(s)
    s.close()
    return reply is not None and reply["exit"] == exit_status and words in reply["error"] and rest is None, reply


# ---- many that say nothing ----

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
threads = status_of("Threads")
memory = status_of("VmRSS")
late = looker()  # looked at in the end
late_body = looker()

idle = [connect() for _ in range(1000)]
check("a thousand idle connections are held", answers_root())
check("without a thread for any", status_of("Threads") <= threads + 4, status_of("Threads"))
check("each answers when it is asked", all(ask(s, command="ping")["exit"] == 0 for s in idle[::50] + idle[-1:]))
crowd = []
while True:
    s = looker()
    try:
        reply = ask(s, command="ping")
    except BrokenPipeError:
        reply = receive(s)
    if reply is None or reply["exit"] != 0:
        break
    crowd.append(s)
check("the group's connections are bounded, and one too many is told so",
      len(crowd) == 1022 and reply and "too many" in reply["error"], (len(crowd), reply))
check("root is answered while strangers hold all of theirs", answers_root())
for s in crowd:
    s.sendall(frame({"command": "status", "watch": True}))
first = [receive(s) for s in crowd[:4]]
check("a uid's requests at a time are bounded", all(r and r.get("more") for r in first) and
      status_of("Threads") <= threads + 12, (first, status_of("Threads")))
check("root is answered while strangers watch", answers_root())
check("memory stays small", status_of("VmRSS") < memory + 32 * 1024, (memory, status_of("VmRSS")))
for s in crowd + idle:
    s.close()
late.sendall(b"\x10\x00")
late_body.sendall(frame({"command": "ping"})[:-3])
check("when they are gone nothing stays", falls_to("Threads", threads + 2) and answers_root(),
      (threads, status_of("Threads")))

# ---- what is no request ----

BAD = [
    ("no JSON", frame(b"mount"), 2, "not one JSON object"),
    ("an array", frame([]), 2, "not one JSON object"),
    ("a zero byte", frame(b'{"command": "pi\0ng"}'), 2, "not one JSON object"),
    ("a name twice", frame(b'{"command": "ping", "command": "ping"}'), 2, "not one JSON object"),
    ("bytes that are no text", frame(b'{"command": "\xff\xfe"}'), 2, "not one JSON object"),
    ("nested too deeply", frame(b'{"command":' + b"[" * 5000), 2, "not one JSON object"),
    ("nothing", struct.pack("<I", 0), 2, "1 to"),
    ("a byte too many", struct.pack("<I", (16 << 20) + 1) + b"{}", 2, "1 to"),
    ("4 GiB", b"\xff\xff\xff\xff", 2, "1 to"),
    ("no command", frame({}), 2, "unknown command"),
    ("a command that is a number", frame({"command": 7}), 2, "unknown command"),
    ("an unknown command", frame({"command": "format-all"}), 2, "unknown command"),
    ("a newer client", frame({"command": "ping", "version": 99}), 1, "version 99"),
    ("an older client", frame({"command": "ping", "version": 0}), 1, "version 0"),
    ("a version that is a text", frame({"command": "ping", "version": "1"}), 2, "version"),
]
for text, sent, exit_status, words in BAD:
    good, reply = ends_after(connect(), sent, exit_status, words)
    check(f"{text}: one answer, then the end", good, reply)
with connect() as s:
    check("an argument too many is refused", ask(s, command="ping", more=1)["exit"] in (0, 2))
    check("a wrong argument is refused, and the connection goes on",
          ask(s, command="unmount", volume=7)["exit"] == 2 and ask(s, command="ping")["exit"] == 0)
    s.sendall(frame({"command": "ping"}) * 3)
    check("requests may be sent ahead", [receive(s)["exit"] for _ in range(3)] == [0, 0, 0])
with connect() as s:
    for byte in frame({"command": "ping", "version": 1}):
        s.sendall(bytes([byte]))
    check("byte by byte", receive(s)["exit"] == 0)
with connect() as s:
    s.sendall(frame({"command": "ping"}))
    s.shutdown(socket.SHUT_WR)
    check("whoever has closed his half is answered", receive(s)["exit"] == 0 and receive(s) is None)

# ---- large ----

memory = status_of("VmRSS")
large = []
for _ in range(30):
    s = connect()
    s.setblocking(False)
    s.send(struct.pack("<I", 16 << 20))
    sent = 0
    try:
        while sent < 16 << 20:
            sent += s.send(b"[" * 65536)
    except BlockingIOError:
        pass
    large.append(s)
    check_now = answers_root()
    if not check_now:
        break
for _ in range(200):
    for s in large:
        try:
            s.send(b"[" * 65536)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
check("huge requests hold up nobody", check_now and answers_root())
check("and take no more memory than is set apart for them", status_of("VmRSS") < memory + 110 * 1024,
      (memory, status_of("VmRSS")))
for s in large:
    s.close()
with connect() as s:
    text = b'{"command": "ping"' + b" " * (1 << 20) + b"}"
    check("a large request is served when they are gone", ask_text(s, text)["exit"] == 0)

# ---- who does not read, who is killed ----

threads = status_of("Threads")
deaf = [connect() for _ in range(20)]
for s in deaf:
    for _ in range(8):
        s.sendall(frame({"command": "list"}))
check("who does not read holds up nobody", answers_root())
for s in deaf:
    s.close()
check("and is let go when he has gone", falls_to("Threads", threads + 2), (threads, status_of("Threads")))

child = os.fork()
if child == 0:
    half, waiting = connect(), connect()
    half.sendall(frame({"command": "ping"})[:-1])
    waiting.sendall(frame({"command": "wait", "volume": "slow", "for": "native"}))
    ready = connect()
    ask(ready, command="ping")
    os.kill(os.getpid(), 9)
os.waitpid(child, 0)
check("clients killed in the middle of requests leave nothing", falls_to("Threads", threads + 2) and answers_root(),
      status_of("Threads"))

# ---- how far it got ----


def told(**request):
    """The frames of progress, and the last reply."""
    frames = []
    with connect() as s:
        s.sendall(frame(dict(request, progress=True)))
        while True:
            reply = receive(s)
            if not reply or not reply.get("more"):
                return [one["result"] for one in frames], reply
            frames.append(reply)


frames, reply = told(command="wait", volume="slow", **{"for": "native", "timeoutMs": 100})
check("a wait tells how far the walk has got", frames and reply["exit"] == 3 and
      all(one["what"] == "converging" and 0 <= one["done"] and (one["total"] or 1) > 0 for one in frames), (frames, reply))
frames, reply = told(command="reconstruct", dryRun=True)
check("a reconstruction tells of its volumes", reply["exit"] == 0 and frames and frames[-1]["total"] == 2, (frames, reply))
frames, reply = told(command="unmount", volume="full")
check("an unmount tells what it has deleted", reply["exit"] == 0 and
      [one["done"] for one in frames] == sorted(one["done"] for one in frames) and
      frames[0]["what"] == "deleting" and frames[0]["done"] >= 256, (frames, reply))

# ---- who may only look ----

try:
    connect_as(UID, 100, [101]).close()
    stranger = "connected"
except PermissionError:
    stranger = "refused"
check("a stranger cannot connect", stranger == "refused")
with connect_as(UID, GID) as s:
    check("the group may be the primary one", ask(s, command="ping")["exit"] == 0)
with looker() as s:
    replies = {
        "status": ask(s, command="status", volume="slow"),
        "list": ask(s, command="list"),
        "events": ask(s, command="events"),
        "metrics": ask(s, command="metrics"),
    }
    nowhere = ask(s, command="status", volume="/proc/self/root/nowhere")
    alias = ask(s, command="status", volume=os.environ["ALIAS"])
    target = ask(s, command="status", volume=os.environ["TARGET"])
check("the group may look", all(r["exit"] == 0 for r in replies.values()), replies)
volume = replies["status"]["result"]
check("what a volume is made of is withheld",
      volume["source"] is None and volume["failures"] is None and volume["reason"] is None and
      volume["device"] is None and volume["overlayHolders"] is None, volume)
check("its state is not", volume["state"] == "converging" and volume["fsGroup"] == 4242 and
      volume["entries"]["seen"] >= 0, volume)
check("events come without their text", replies["events"]["result"] and
      all(e["message"] is None and e["kind"] for e in replies["events"]["result"]), replies["events"])
check("nowhere is a source, or a name of a file", CANARY not in json.dumps(replies), replies)
with connect() as s:
    check("which root sees", CANARY in json.dumps(ask(s, command="status", volume="slow")))
    check("root may use another path to the target", ask(s, command="status", volume=os.environ["ALIAS"])["exit"] == 0)
check("a path of the group's is not resolved", nowhere["exit"] == 4 and alias["exit"] == 4, (nowhere, alias))
check("the target as it is on record is known", target["exit"] == 0, target)
for command in ("mount", "unmount", "stage", "unstage", "expand", "refresh", "update", "wait", "pause", "resume",
                "recover", "converge", "reconstruct", "store", "explain", "explain-all"):
    exit_status, words = (2, "unknown") if command == "explain-all" else (1, "only root")
    good, reply = ends_after(looker(), frame({"command": command, "volume": "slow"}), exit_status, words)
    check(f"the group may not {command}", good, reply)
good, reply = ends_after(looker(), frame(b'{"command": "ping"' + b" " * 4096 + b"}"), 2, "1 to 4096")
check("the group's requests are small", good, reply)

reply = receive(late)
check("a request that does not get complete ends", reply and "in time" in reply["error"] and receive(late) is None, reply)
reply = receive(late_body)
check("also in the middle of its text", reply and "in time" in reply["error"] and receive(late_body) is None, reply)
check("the daemon is the same", answers_root())
lib_daemon.end()
