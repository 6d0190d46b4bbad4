#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A person at a terminal: dialogue.py KOLORUN FIFO starts two ranks in one. Rank 0 asks for a name,
which a person must see before typing it, though the question is no whole line. What rank 1 writes
meanwhile, when it may read FIFO, must not be in the same line. A question is seen also after more
than a slow terminal shows, and a line that is cut because a buffer was full is none. Exit status 1:
it was not so."""
import os
import pty
import select
import sys
import time

PATIENCE_S = 100
RANK = r"""
if [ "$RANK" = 0 ]; then
    printf 'your name? '
    read -r name
    printf 'hello %s\nbye' "$name"
else
    read -r word <"$1"
    echo "$word"
fi
"""


def hear(terminal, wanted):
    """Reads from the terminal until it shows @p wanted, which must be all of it."""
    text, end = b"", time.monotonic() + PATIENCE_S
    while len(text) < len(wanted) and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            text += os.read(terminal, 4096)
    if text != wanted:
        sys.exit(f"dialogue.py: {text!r} instead of {wanted!r}")


def start(script, *arguments, options=()):
    kolorun = sys.argv[1]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(kolorun, [kolorun, *options, "-np", "2", "bash", "-c", script, "bash", *arguments])
    return pid, terminal


def end(pid):
    if (status := os.waitpid(pid, 0)[1]) != 0:
        sys.exit(f"dialogue.py: status {status}")


def hold(marks, *options):
    fifo = sys.argv[2]
    pid, terminal = start(RANK, fifo, options=options)
    hear(terminal, b"%syour name? " % marks[0])
    with open(fifo, "w", encoding="ascii") as other:
        other.write("meanwhile\n")
    hear(terminal, b"%smeanwhile\r\n" % marks[1])
    os.write(terminal, b"Ann\n")
    hear(terminal, b"Ann\r\n%shello Ann\r\n%sbye%s" % marks[2:])
    end(pid)


def see_after_much():
    """The terminal is not read until rank 0 asks, or for a while."""
    up = sys.argv[2] + ".up"
    pid, terminal = start("""((RANK == 0)) || exit 0
        yes "$(printf '%099d' 0)" | head -n 11200; printf 'your name? '; : >"$1"; read -r name; echo "$name" """, up)
    slow = time.monotonic() + 3
    while not os.path.exists(up) and time.monotonic() < slow:
        select.select([], [], [], 0.02)
    select.select([], [], [], 0.5)
    line = b"[0] " + b"0" * 99 + b"\r\n"
    hear(terminal, line * 11200 + b"[0] your name? ")
    os.write(terminal, b"Ann\n")
    hear(terminal, b"Ann\r\n[0] Ann\r\n")
    end(pid)


def be_cut():
    """Rank 1 is read after what rank 0 has written would have been taken for a question."""
    pid, terminal = start("""if ((RANK == 0)); then
            printf '%04096d' 0; read -rt 0.4 <> <(:); echo 1 >"$1"; read -r word <"$1.more"; echo end
        else
            read -r word <"$1"; echo meanwhile; echo 2 >"$1.more"
        fi""", sys.argv[2])
    hear(terminal, b"[1] meanwhile\r\n[0] " + b"0" * 4096 + b"end\r\n")
    end(pid)


hold((b"[0] ", b"\r\n[1] ", b"[0] ", b"[0] ", b"\r\n"))
hold((b"", b"\r\n", b"", b"", b"\r\n"), "--no-prefix")
see_after_much()
os.mkfifo(sys.argv[2] + ".more")
be_cut()
