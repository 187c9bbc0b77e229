# SPDX-License-Identifier: Apache-2.0
#
# lib_daemon.py: what the Python parts of the daemon's tests share: lines for scripts/run-tests, and the local protocol
# (mountd/PROTOCOL.md) byte by byte, as no client of ours would let them speak it.
import json
import socket
import struct
import sys
import time

PATIENCE = 60  # seconds: what does not come by then never will
failed = 0


def check(text, good, shown=""):
    global failed
    failed += not good
    print(("ok - " if good else "not ok - ") + text, flush=True)
    if not good:
        print("#  " + repr(shown)[:600], flush=True)


def end():
    sys.exit(failed > 0)


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(PATIENCE)
    s.connect(path)
    return s


def frame(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<I", len(text)) + text


def receive(s):
    """One reply, or None at the end of the connection."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack("<I", data[:4])[0]:
        want = 4 - len(data) if len(data) < 4 else 4 + struct.unpack("<I", data[:4])[0] - len(data)
        try:
            piece = s.recv(want)
        except ConnectionResetError:
            piece = b""
        if not piece:
            return None
        data += piece
    return json.loads(data[4:])


def ask_text(s, text):
    s.sendall(frame(text))
    return receive(s)


def ask(s, **request):
    return ask_text(s, request)


def status_of(pid, key):
    """A number of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    return 0


def comes_true(condition):
    """Waits for what nobody tells: not of the daemon's doing alone, or of its threads' end."""
    end_at = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end_at:
            return False
        time.sleep(0.02)
    return True
