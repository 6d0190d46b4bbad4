# SPDX-License-Identifier: Apache-2.0
"""Shared by the programs that compare results of sets: an evaluating program reads FOLDER/NAME.set
and writes FOLDER/NAME.out, which must have the expected bytes: a list of (name, array) in the order
of the file."""
import os
import subprocess
import sys

import numpy as np

STATS_MAX = 13  # KOLO_DETECTION_STATS_MAX: the room for numbers, if anything follows


def numpy_rule():
    """The kolo_mean_rule that matches this NumPy."""
    return 0 if tuple(int(v) for v in np.__version__.split(".")[:2]) >= (2, 3) else 1


def named(evaluation, stats):
    """pycocotools' arrays, and its numbers if it has them."""
    parts = [(name, evaluation[name]) for name in ("precision", "recall", "scores")]
    return parts if stats is None else parts + [("stats", stats)]


def differences(path, expected):
    data, at = np.fromfile(path, float), 0
    for name, array in expected:
        if isinstance(array, int):  # so many numbers that only kolo has
            at += array
            continue
        array = np.ascontiguousarray(array, float)
        got = data[at:at + array.size].reshape(array.shape)
        at += STATS_MAX if name == "stats" else array.size
        if array.tobytes() != got.tobytes():
            places = np.argwhere(array.view(np.int64) != got.view(np.int64))
            where = tuple(places[0])
            yield (f"{name}: {len(places)} entries differ, first {where}: expected {array[where]!r}, "
                   f"kolo {got[where]!r}")


def play(program, folder, names, **how):
    """Runs a program that evaluates sets, after removing earlier results. Returns its exit
    status."""
    command = [program]
    for name in names:
        command += [f"{folder}/{name}.set", f"{folder}/{name}.out"]
        if os.path.exists(command[-1]):
            os.remove(command[-1])
    return subprocess.run(command, **how).returncode


def compare(program, folder, expected, transport="auto"):
    """Evaluates the sets of expected = {name: parts}, and prints what differs. Returns how many are
    wrong."""
    if play(program, folder, expected, env=os.environ | {"KOLO_TRANSPORT": transport}):
        sys.exit(f"{os.path.basename(program)} failed over {transport}")
    wrong = {name: list(differences(f"{folder}/{name}.out", parts)) for name, parts in expected.items()}
    for name, lines in wrong.items():
        for line in lines:
            print(f"{name} over {transport}: {line}")
    return sum(map(bool, wrong.values()))


def compare_one(program, path, expected):
    """Evaluates one set, prints what differs, and ends the process: status 0 if nothing does."""
    subprocess.run([program, path, path + ".out"], check=True)
    wrong = list(differences(path + ".out", expected))
    print("\n".join(wrong) or "the same bytes")
    sys.exit(bool(wrong))


def caught_by(program, folder, expected, parts, timeout):
    """Evaluates the sets in parts, a list of lists of names. Returns the name of a set that comes
    out wrong, or how the program failed; None if all are right. First only on one rank (sets.h),
    because most faults show there, and the threads that act as ranks take most of the time."""
    return next(filter(None, (caught_in(program, folder, expected, part, timeout, worlds)
                              for worlds in ("one", "all") for part in parts)), None)


def caught_in(program, folder, expected, names, timeout, worlds):
    try:
        failed = play(program, folder, names, stderr=subprocess.DEVNULL, timeout=timeout,
                      env=os.environ | {"EVALUATE_ON": worlds})
    except subprocess.TimeoutExpired:
        return "a hang"
    for name in names:
        path = f"{folder}/{name}.out"
        if os.path.exists(path) and any(differences(path, expected[name])):
            return name
    return f"exit status {failed}" if failed else None
