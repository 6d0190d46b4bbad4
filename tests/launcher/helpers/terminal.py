#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A shell with job control, in small: terminal.py KOLORUN starts `kolorun -np 1 cat` in the
background of a terminal, and moves it to the foreground, to the background and back. What is typed
must arrive while it is in the foreground, and must be left to others otherwise. Then a job writes
from the background to a terminal that stops whoever does that (stty tostop). Exit status 1:
something did not work."""
import fcntl
import os
import pty
import select
import signal
import sys
import termios
import time

PATIENCE_S = 100
QUIET_S = 1.5  # for which nothing may happen


def fail(text):
    print(f"terminal.py: {text}")
    sys.exit(1)


def hear(fd, wanted, seconds):
    """Reads until @p wanted comes, or nothing more; returns what came."""
    text, end = b"", time.monotonic() + seconds
    while wanted not in text and (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            piece = os.read(fd, 4096)
            if not piece:
                break
            text += piece
    return text


def expect(fd, wanted):
    text = hear(fd, wanted, PATIENCE_S)
    if wanted not in text:
        fail(f"{text!r} instead of {wanted!r}")


def expect_quiet(fd, what):
    text = hear(fd, b"\n", QUIET_S)
    if text:
        fail(f"{text!r}, {what}")


def start(kolorun, terminal, output, *program):
    """In a process group of its own, as a shell starts it with &."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.dup2(terminal, 0)
        os.dup2(output, 1)
        os.execv(kolorun, [kolorun, "--no-prefix", "-np", "1", *program])
    try:
        os.setpgid(pid, pid)
    except PermissionError:
        pass  # it has done so, and is kolorun already
    return pid


def end(job):
    if (status := os.waitpid(job, 0)[1]) != 0:
        fail(f"status {status}")


def read_terminal(master, terminal):
    ends = os.pipe()
    job = start(sys.argv[1], terminal, ends[1], "cat")
    os.close(ends[1])
    here = os.getpgrp()
    os.write(master, b"one\n")
    expect_quiet(ends[0], "although it is in the background")
    os.tcsetpgrp(terminal, job)
    expect(ends[0], b"one\n")
    os.write(master, b"two\n")
    expect(ends[0], b"two\n")
    # Ctrl-Z, bg: the read that was waiting must not end the input, nor take what is typed now.
    os.kill(job, signal.SIGTSTP)
    os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(terminal, here)
    os.kill(job, signal.SIGCONT)
    os.write(master, b"mine\n")
    expect_quiet(ends[0], "although it is in the background again")
    if os.read(terminal, 100) != b"mine\n":
        fail("what was typed for the shell is gone")
    os.tcsetpgrp(terminal, job)
    os.write(master, b"three\n")
    expect(ends[0], b"three\n")
    os.write(master, b"\x04")  # Ctrl-D
    end(job)
    os.close(ends[0])
    os.tcsetpgrp(terminal, here)


def write_terminal(master, terminal):
    """Its agent must not lose kolorun, which was stopped before without telling anybody."""
    modes = termios.tcgetattr(terminal)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    os.environ["KOLO_PEER_TIMEOUT"] = "1s"
    job = start(sys.argv[1], terminal, terminal, "sh", "-c", "echo begin; sleep 3; echo end")
    expect(master, b"begin\r\n")
    expect(master, b"end\r\n")
    end(job)


def main():
    master, terminal = pty.openpty()
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    read_terminal(master, terminal)
    write_terminal(master, terminal)


main()
