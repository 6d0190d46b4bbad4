# SPDX-License-Identifier: Apache-2.0
# Starts an agent as kolorun does, for tests/launcher/malformed.sh, and sends it frame NAME with a byte
# too few ("cut") or too many ("long"): odd_launcher.py KOLORUN cut|long NAME. Prints what the agent
# says on its standard error, and its exit status.
import struct
import subprocess
import sys

kolorun, how, odd = sys.argv[1], sys.argv[2], sys.argv[3].encode()
names = (b"READY PREPARED REFUSED STARTED OUTPUT EXITED WANTED NOTE STRAY DONE TIMELINE JOB START INPUT CREDIT SIGNAL END "
         b"PAUSE PAUSED RESUME EXAMINE FACTS LOOK SEEN LOOKED BEAT").split()
number = struct.pack("<I", 9)
good = {b"JOB": None, b"START": b"", b"CREDIT": number, b"SIGNAL": number, b"END": b"", b"PAUSE": number,
        b"RESUME": number, b"LOOK": number + struct.pack("<I", 0), b"BEAT": b""}


def blob(data):
    return struct.pack("<I", len(data)) + data


def texts(*all_):
    return struct.pack("<I", len(all_)) + b"".join(map(blob, all_))


def misfit(body):
    return body[:-1] if how == "cut" else body + b"x"


# struct kolo_spec: one rank, which only waits
good[b"JOB"] = blob(b"/") + texts(b"sleep", b"600") + texts() + struct.pack("<IIIBBBIIIII", 1, 1, 0, 0, 0, 1, 0, 60000, 10000, 65536, 0)
agent = subprocess.Popen([kolorun, "--agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def send(name, body):
    agent.stdin.write(struct.pack("<IB", len(body), names.index(name) + 1) + body)
    agent.stdin.flush()


def await_frame(name):
    while True:
        head = agent.stdout.read(5)
        if len(head) < 5:
            break
        size, kind = struct.unpack("<IB", head)
        agent.stdout.read(size)
        if names[kind - 1] == name:
            return
    print("the agent ended before", name.decode())


agent.stdout.read(16)  # the preamble
await_frame(b"READY")
for name, answer in ((b"JOB", b"PREPARED"), (b"START", b"STARTED")):
    if odd == name:
        break
    send(name, good[name])
    await_frame(answer)
send(odd, misfit(good[odd]))
print(agent.communicate()[1].decode(), end="")
print("status", agent.returncode)
