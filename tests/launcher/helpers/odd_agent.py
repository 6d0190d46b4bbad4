# SPDX-License-Identifier: Apache-2.0
# A mock agent for tests/launcher/doctor.sh that greets correctly and then misbehaves as WHAT says:
# odd_agent.py VERSION PROTOCOL WHAT
import struct
import sys
import time

version, protocol, what = sys.argv[1].encode(), int(sys.argv[2]), sys.argv[3]
READY, PREPARED, DONE, EXAMINE, FACTS = b"READY", b"PREPARED", b"DONE", b"EXAMINE", b"FACTS"
# The numbers of frames, in the order of launcher/frames.h.
names = (b"READY PREPARED REFUSED STARTED OUTPUT EXITED WANTED NOTE STRAY DONE TIMELINE JOB START INPUT CREDIT SIGNAL END "
         b"PAUSE PAUSED RESUME EXAMINE FACTS BEAT").split()


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


sys.stdout.buffer.write(b"\n\x02kolo-agent-1\x03\0")
send(READY, struct.pack("<I", protocol) + text(version) + text(b"odd") + struct.pack("<I", 4711))
while take() != b"JOB":
    pass
if what == "unprepared":  # sends heartbeats and nothing else
    while True:
        send(b"BEAT")
        time.sleep(0.2)
send(PREPARED)
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
