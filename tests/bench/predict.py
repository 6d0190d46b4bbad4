#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""predict.py BIN: the times by which plans are chosen, against what they take, at sizes far apart, among 2 and 4 ranks.

The figures are measured in the same run (kolobench profile), so the machine does not matter. What is held:
  - a plan takes at most FACTOR times what is expected of it, and at least a FACTOR-th;
  - the plan that would be chosen takes at most LOSS times what the best one takes.
A difference below NOTICED microseconds is no fault: no program loses anything by it. Over shared memory the times of plans
over links are not held: figures of a link are of ordinary memory, and kolo_alloc memory, which is measured, is read in
place; they lose all the same. All choose as if all memory were of kolo_alloc, so of other memory what is expected is held,
and not the choice. Among 4 ranks, which may share processors, broadcasts are not held, whose calls in a row overlap, nor long
vectors over TCP, of which up to four times too much is expected there, of all plans alike. Every plan is measured in turn,
round after round; its time is the least of its rounds. A plan whose rounds do not agree within STEADY says nothing about the
model: the machine was busy. A cell that breaks the rule is measured again, with figures that are measured anew, since those may
have been taken in a bad moment too; it fails if it breaks the rule PROOF times and never holds it. Nothing steady at all: skipped."""
import csv
import itertools
import os
import re
import subprocess
import sys
import tempfile

FACTOR, LOSS, NOTICED, STEADY, ROUNDS, ATTEMPTS, PROOF = 4, 2, 2, 1.5, 3, 5, 3
SIZES = (8, 64 << 10, 16 << 20)
LONG_ENOUGH = {"kolo": "10ms", "user": "100ms"}  # the faster way of user memory is expected, and found out by trying
SIZES_USER = (64 << 10, 1 << 20, 16 << 20)  # of an alltoall the middle one is pulled, the others go another way
SIZES_OF_4 = {"tcp": (16, 64 << 10), "shm": (16, 64 << 10, 16 << 20)}
bin_folder = sys.argv[1]
work = tempfile.mkdtemp()


def run(*command):
    result = subprocess.run(command, text=True, capture_output=True, timeout=300)
    if result.returncode:
        sys.exit(f"FAIL: {' '.join(command)}: {result.stdout} {result.stderr}")
    return result.stdout


def expected(collective, ranks, transport, memory, size):
    """Microseconds by plan, and the name of the chosen one."""
    times, chosen = {}, None
    for line in run(f"{bin_folder}/kolobench", "plan", collective, "-np", str(ranks), "--transport", transport, "--memory", memory, "--size",
                    str(size), "--profile", f"{work}/profile").splitlines():
        found = re.match(r"(->|  ) (\S+) +([0-9.]+) (us|ms|s) ", line)
        if found:
            times[found[2]] = float(found[3]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[4]]
            chosen = found[2] if found[1] == "->" else chosen
    return times, chosen


def measured(cells):
    """Of cells that differ in size alone, {cell: plans}: of each cell microseconds by plan, the least of the rounds; and of which plans
    the rounds agree. All sizes of a plan are one program."""
    collective, ranks, transport, memory, _ = next(iter(cells))
    rounds = {cell: {name: [] for name in plans} for cell, plans in cells.items()}
    for _ in range(ROUNDS):
        for name in dict.fromkeys(name for plans in cells.values() for name in plans):
            sizes = {cell[-1]: cell for cell, plans in cells.items() if name in plans}
            run(f"{bin_folder}/kolorun", "-np", str(ranks), f"{bin_folder}/kolobench", collective, "--plan", name, "--transport",
                transport, "--memory", memory, "-s", ",".join(map(str, sizes)), "-t", LONG_ENOUGH[memory], "--csv", f"{work}/row")
            with open(f"{work}/row") as file:
                for row in csv.DictReader(file):
                    rounds[sizes[int(row["bytes"])]][name].append(float(row["time_us"]))
    return {cell: ({name: min(t) for name, t in found.items()}, {name for name, t in found.items() if max(t) < STEADY * min(t)})
            for cell, found in rounds.items()}


def judge(cell, times, chosen, took, steady):
    """What is wrong with the model here; None: nothing can be said."""
    _, _, transport, memory, _ = cell
    text = "  ".join(f"{name} {took[name]:.1f} ({times[name]:.1f}){'' if name in steady else '?'}"
                     for name in sorted(took, key=took.get))
    print(f"{' '.join(map(str, cell))}: {text}; chosen {chosen}", flush=True)
    if chosen not in steady:
        return None
    faults = [f"{name} takes {took[name]:.1f} us, expected were {times[name]:.1f}" for name in steady
              if (transport == "tcp" or name in ("oneshot", "twoshot")) and differs(took[name], times[name], FACTOR)]
    best = min(took, key=took.get)
    if memory == "kolo" and differs(took[chosen], took[best], LOSS):
        faults.append(f"{chosen} is chosen and takes {took[chosen]:.1f} us, {best} takes {took[best]:.1f}")
    return faults


def judge_all(cells):
    """(cell, what is wrong with the model there), of each."""
    for _, some in itertools.groupby(cells, key=lambda cell: cell[:-1]):
        asked = {cell: expected(*cell) for cell in some}
        found = measured({cell: list(times) for cell, (times, _) in asked.items()})
        for cell, answer in asked.items():
            yield cell, judge(cell, *answer, *found[cell])


def differs(one, other, factor):
    """Microseconds: by more than @p factor, and by so much that a program can notice it."""
    return abs(one - other) > NOTICED and not 1 / factor <= one / other <= factor


if os.cpu_count() < 2:
    print("skipped: two ranks would share one processor")
    sys.exit(77)
open_cells = [(name, 2, channel, "kolo", bytes_) for channel in ("tcp", "shm") for name in ("allreduce", "broadcast", "allgather")
              for bytes_ in SIZES]
open_cells += [(name, 2, "shm", "user", bytes_) for name in ("allreduce", "alltoall") for bytes_ in SIZES_USER]
open_cells += [(name, 4, channel, "kolo", bytes_) for channel, sizes in SIZES_OF_4.items()
               for name in ("allreduce", "allgather", "reduce_scatter", "alltoall") for bytes_ in sizes]
cells, held, broken = len(open_cells), 0, {cell: [] for cell in open_cells}
for attempt in range(ATTEMPTS):
    run(f"{bin_folder}/kolobench", "profile", "-t", "20ms", "-o", f"{work}/profile")
    for cell, wrong in list(judge_all(open_cells)):
        if wrong:
            broken[cell].append(wrong)
        elif wrong is not None:
            open_cells.remove(cell)
            held += 1
    if not any(broken[cell] for cell in open_cells):
        break
os.system(f"rm -rf {work}")
failed = [cell for cell in open_cells if len(broken[cell]) >= PROOF]
for cell in failed:
    for fault in broken[cell][-1]:
        print(f"FAIL: {' '.join(map(str, cell))}: {fault}")
print(f"{held} of {cells} cells held, {len(failed)} failed, of the others nothing can be said" if held or failed
      else "skipped: the machine is too busy to measure anything")
sys.exit(1 if failed else 0 if held else 77)
