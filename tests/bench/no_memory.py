#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""no_memory.py BIN: tests that kolobench writes whole files or says that memory is missing for them,
whichever allocation for its JSON fails (kolobench-poor)."""
import json
import os
import subprocess
import sys
import tempfile

COMMANDS = (("allreduce", "--threads", "1", "-s", "4", "-n", "1", "--check", "--json", "j", "--csv", "c", "--plot", "p"),
            ("diagnose", "--threads", "2", "--time", "1ms", "--rounds", "1", "--size", "64K", "--json", "j"))
failures = 0


def wrong(text):
    global failures
    failures += 1
    print("FAIL:", text)


def skeleton(value):
    """What does not depend on the run: the members, and how many elements there are."""
    if isinstance(value, dict):
        return {key: skeleton(member) for key, member in value.items() if key != "findings"}
    return [skeleton(element) for element in value] if isinstance(value, list) else None


def run(tool, command, nth):
    """Returns the process, and the JSON that it wrote; None: none, or what was there before."""
    for name in "jcp":
        with open(name, "w", encoding="utf-8") as file:
            file.write("old")
    done = subprocess.run([tool, *command], env=dict(os.environ, POOR_NTH=str(nth)), text=True, capture_output=True, check=False)
    with open("j", encoding="utf-8") as file:
        text = file.read()
    try:
        return done, None if text == "old" else json.loads(text)
    except ValueError as error:
        wrong(f"{command[0]}, allocation {nth}: status {done.returncode}, invalid JSON: {error}")
        return done, None


def check(tool, command):
    done, whole = run(tool, command, 0)
    if whole is None:
        wrong(f"{command[0]}: {done}")
        return
    nth, step = 1, 7 if os.environ.get("TEST_SHORT") else 1
    while True:
        done, found = run(tool, command, nth)
        if "it did not lack any" in done.stderr:
            break
        if found is None and (done.returncode != 1 or "memory" not in done.stderr):
            wrong(f"{command[0]}, allocation {nth}: status {done.returncode}, no JSON: {done.stderr}")
        if found is not None and skeleton(found) != skeleton(whole):
            wrong(f"{command[0]}, allocation {nth}: status {done.returncode}, incomplete JSON: {found}")
        if done.returncode == 0 and any(open(name, "rb").read() == b"old" for name in command if name in "jcp"):
            wrong(f"{command[0]}, allocation {nth}: success without a file")
        if sorted(os.listdir(".")) != ["c", "j", "p"]:
            wrong(f"{command[0]}, allocation {nth}: left {os.listdir('.')}")
        nth += step
    if nth < 50:
        wrong(f"{command[0]}: only {nth} allocations")


with tempfile.TemporaryDirectory() as work:
    tool = os.path.realpath(os.path.join(sys.argv[1], "kolobench-poor"))
    os.chdir(work)
    for words in COMMANDS:
        check(tool, words)
    os.chdir("/")
sys.exit(failures > 0)
