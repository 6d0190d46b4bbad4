# SPDX-License-Identifier: Apache-2.0
# A mock agent for tests/launcher/doctor.sh and malformed.sh that greets correctly and then misbehaves
# as WHAT says: odd_agent.py VERSION PROTOCOL WHAT. WHAT cut-NAME or long-NAME: sends frame NAME with a
# byte too few or too many. WHAT many-NAME: sends it without end. WHAT output: sends 8 MiB of output
# without credit, its process number in file PIDFILE.
import os
import struct
import sys
import time

version, protocol, what = sys.argv[1].encode(), int(sys.argv[2]), sys.argv[3]
READY, PREPARED, DONE, EXAMINE, FACTS = b"READY", b"PREPARED", b"DONE", b"EXAMINE", b"FACTS"
# The numbers of frames, in the order of launcher/frames.h.
names = (b"READY PREPARED REFUSED STARTED OUTPUT EXITED WANTED NOTE STRAY DONE TIMELINE JOB START INPUT CREDIT SIGNAL END "
         b"PAUSE PAUSED RESUME EXAMINE FACTS LOOK SEEN LOOKED BEAT").split()


def send(name, body=b""):
    sys.stdout.buffer.write(struct.pack("<IB", len(body), names.index(name) + 1) + body)
    sys.stdout.buffer.flush()


def take():
    head = sys.stdin.buffer.read(5)
    if len(head) < 5:
        sys.exit(0)
    size, kind = struct.unpack("<IB", head)
    sys.stdin.buffer.read(size)
    return names[kind - 1]


def text(data):
    return struct.pack("<H", len(data)) + data


def misfit(good):
    return good[:-1] if what.startswith("cut-") else good + b"x"


# Frames to kolorun, as they should be; at least as long, where anything may follow.
good = {
    b"READY": struct.pack("<I", protocol) + text(version) + text(b"odd") + struct.pack("<I", 4711),
    b"PREPARED": b"",
    b"REFUSED": struct.pack("<I", 126) + text(b"no such program"),
    b"STARTED": struct.pack("<II", 0, 4711),
    b"OUTPUT": struct.pack("<IB", 0, 1),
    b"EXITED": struct.pack("<IIIIBBBQ", 0, 4711, 0, 0, 0, 0, 0, 5),
    b"WANTED": struct.pack("<I", 1),
    b"STRAY": struct.pack("<IIB", 0, 4711, 1) + text(b"sleep"),
    b"SEEN": struct.pack("<III", 1, 0, 4711) + text(b"sleep") + struct.pack("<BIIQ", ord("S"), 1, 0, 9) + text(b"futex"),
    b"SIGNAL": struct.pack("<I", 15),
    b"NOTE": b"",
    b"DONE": b"",
    b"TIMELINE": struct.pack("<I", 0),
    b"PAUSED": struct.pack("<I", 1),
    b"LOOKED": struct.pack("<I", 1),
    b"BEAT": b"",
}
odd = what.partition("-")[2].encode() if what.startswith(("cut-", "long-", "many-")) else None

sys.stdout.buffer.write(b"\n\x02kolo-agent-1\x03\0")
send(READY, misfit(good[READY]) if odd == READY else good[READY])
while take() != b"JOB":
    pass
if what == "unprepared":  # sends heartbeats and nothing else
    while True:
        send(b"BEAT")
        time.sleep(0.2)
send(PREPARED, misfit(b"") if odd == PREPARED else b"")
if odd:
    while take() != b"START":
        pass
    try:
        while what.startswith("many-"):
            send(odd, good[odd])
    except BrokenPipeError:
        os._exit(0)
    send(odd, misfit(good[odd]))
    while take() != b"END":
        pass
    sys.exit(0)
if what == "output":
    while take() != b"START":
        pass
    with open(os.environ["PIDFILE"], "w") as file:
        file.write(str(os.getpid()))
    for _ in range(128):
        send(b"OUTPUT", struct.pack("<IB", 0, 1) + b"x" * 65535 + b"\n")
    send(b"EXITED", good[b"EXITED"])
    send(DONE)
    sys.exit(0)
while take() != EXAMINE:
    pass
bodies = {
    "nonsense": b"number\tcpus\tmany\n",
    "endless": b"x" * 5000,
    "early": b"",
    "path": b"begin\tstart\nend\tfacts\npath\t0\t15\tfine\t1\t\nend\tpaths\nend\tsurvey\n",
    "roce": b"begin\tstart\nbackend\ttransport\trdma\t1\t\nbackend\tport\tmlx5_0:1\t1\tRoCE v2 10.0.0.1\n"
            b"backend\tnetwork\tmlx5_0:1\t1\tRoCE v2 IPv4\nbackend\tport\tmlx5_1:1\t1\tRoCE v2 10.0.1.1\n"
            b"end\tfacts\nend\tpaths\nend\tsurvey\n",
    "infiniband": b"begin\tstart\nbackend\ttransport\trdma\t1\t\nbackend\tport\tib0:1\t1\tInfiniBand fe80::7\n"
                  b"backend\tnetwork\tib0:1\t1\tInfiniBand fe80::\nend\tfacts\nend\tpaths\nend\tsurvey\n",
    "colours": b"text\thost\t\x1b[31mred\n",
}
if what == "killed":  # what a worker reports if its guardian is gone
    send(b"REFUSED", struct.pack("<I", 255) + text(b"its agent was killed"))
    sys.exit(0)
send(FACTS, bodies[what])
while take() != b"END":
    pass
send(DONE)
