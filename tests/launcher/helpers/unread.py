# SPDX-License-Identifier: Apache-2.0
"""A rank whose output is not read: writes lines of 16 KiB until nothing is read any more for a
second, writes one more, and makes the file that its argument names, with the number of lines."""

import fcntl
import os
import sys
import termios
import time

LINE = b"x" * 16383 + b"\n"


def is_unread():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if fcntl.ioctl(1, termios.FIONREAD, bytes(4)) == bytes(4):
            return False
        time.sleep(0.001)
    return True


count = 1
os.write(1, LINE)
while not is_unread():
    os.write(1, LINE)
    count += 1
os.write(1, LINE)
with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
    file.write(str(count + 1))
os.rename(sys.argv[1] + ".new", sys.argv[1])
