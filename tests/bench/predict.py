#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""predict.py BIN: compares the expected times by which plans are chosen with measured times, at
sizes far apart, among 2 and 4 ranks.

The model's figures are measured in the same run (kolobench profile), so the machine does not
matter. The rules:
  - a plan takes at most FACTOR times its expected time, and at least a FACTOR-th of it;
  - the chosen plan takes at most LOSS times the time of the best plan.
A difference below NOTICED microseconds is no fault, because no program loses anything by it.

What is not judged:
  - over shared memory, the expected times of plans over links: the figures of a link are for
    ordinary memory, but the measured memory is of kolo_alloc and read in place. These plans lose
    anyway;
  - for memory that is not of kolo_alloc, the choice, since every choice assumes memory of
    kolo_alloc. The expected times are judged;
  - among 4 ranks, which may share processors, broadcasts, because their calls in a row overlap,
    and long vectors over TCP, because all their plans are expected to take up to four times too
    long there.

Plans are measured in turn, round after round, and a plan's time is the least of its rounds. If
its rounds differ by more than STEADY, or others had more than OTHERS of the processors meanwhile,
the machine was busy, and the plan says nothing about the model. A cell that breaks a rule is
measured again, together with the model's figures, which may have been measured in a bad moment too.
It fails if it breaks a rule PROOF times and never meets them. If no cell can be judged, the test
skips."""
import csv
import itertools
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

FACTOR, LOSS, NOTICED, STEADY, OTHERS, ROUNDS, ATTEMPTS, PROOF = 4, 2, 2, 1.5, 0.1, 3, 5, 3
SIZES = (8, 64 << 10, 16 << 20)
LONG_ENOUGH = {"kolo": "10ms", "user": "100ms"}  # kolo tries which way is faster for user memory
SIZES_USER = (64 << 10, 1 << 20, 16 << 20)  # an alltoall of the middle size is pulled
SIZES_OF_4 = {"tcp": (16, 64 << 10), "shm": (16, 64 << 10, 16 << 20)}
bin_folder = sys.argv[1]
work = tempfile.mkdtemp()


def run(*command):
    result = subprocess.run(command, text=True, capture_output=True, timeout=300)
    if result.returncode:
        sys.exit(f"FAIL: {' '.join(command)}: {result.stdout} {result.stderr}")
    return result.stdout


def processor_seconds():
    """Of all programs, and of those that this one has run. What an interrupt does is nobody's."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, _, _, stolen = map(int, file.readline().split()[1:9])
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + stolen) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def run_alone(*command):
    """Runs it, and returns whether it had the machine to itself."""
    began, (all_before, own_before) = time.monotonic(), processor_seconds()
    run(*command)
    all_after, own_after = processor_seconds()
    others = (all_after - all_before) - (own_after - own_before)
    return others <= OTHERS * (time.monotonic() - began) * os.cpu_count()


def expected(collective, ranks, transport, memory, size):
    """The expected microseconds of each plan, and the name of the chosen plan."""
    times, chosen = {}, None
    for line in run(f"{bin_folder}/kolobench", "plan", collective, "-np", str(ranks), "--transport", transport, "--memory", memory, "--size",
                    str(size), "--profile", f"{work}/profile").splitlines():
        found = re.match(r"(->|  ) (\S+) +([0-9.]+) (us|ms|s) ", line)
        if found:
            times[found[2]] = float(found[3]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[4]]
            chosen = found[2] if found[1] == "->" else chosen
    return times, chosen


def measured(cells):
    """Measures @p cells, {cell: plans}, which differ only in size; one program measures all sizes
    of a plan. Returns for each cell the microseconds of each plan (the least of the rounds), and
    the plans that were measured alone and whose rounds agree."""
    collective, ranks, transport, memory, _ = next(iter(cells))
    rounds = {cell: {name: [] for name in plans} for cell, plans in cells.items()}
    disturbed = set()
    for _ in range(ROUNDS):
        for name in dict.fromkeys(name for plans in cells.values() for name in plans):
            sizes = {cell[-1]: cell for cell, plans in cells.items() if name in plans}
            if not run_alone(f"{bin_folder}/kolorun", "-np", str(ranks), f"{bin_folder}/kolobench", collective, "--plan", name,
                             "--transport", transport, "--memory", memory, "-s", ",".join(map(str, sizes)), "-t", LONG_ENOUGH[memory],
                             "--csv", f"{work}/row"):
                disturbed.add(name)
            with open(f"{work}/row") as file:
                for row in csv.DictReader(file):
                    rounds[sizes[int(row["bytes"])]][name].append(float(row["time_us"]))
    return {cell: ({name: min(t) for name, t in found.items()},
                   {name for name, t in found.items() if name not in disturbed and max(t) < STEADY * min(t)})
            for cell, found in rounds.items()}


def judge(cell, times, chosen, took, steady):
    """A list of the model's faults in this cell; None if it cannot be judged."""
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
    """Yields (cell, faults) for each cell."""
    for _, some in itertools.groupby(cells, key=lambda cell: cell[:-1]):
        asked = {cell: expected(*cell) for cell in some}
        found = measured({cell: list(times) for cell, (times, _) in asked.items()})
        for cell, answer in asked.items():
            yield cell, judge(cell, *answer, *found[cell])


def differs(one, other, factor):
    """True if two times in microseconds differ by more than @p factor and by more than NOTICED."""
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
    if not run_alone(f"{bin_folder}/kolobench", "profile", "-t", "20ms", "-o", f"{work}/profile"):
        continue  # nothing can be said with such figures
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
