#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan.py BIN: tests that kolobench plan chooses one plan for every collective, size and number of
ranks, says why not the others, and is right: a job of that shape runs the chosen plan. Profiles are
used, and wrong input gives one line."""
import os
import re
import subprocess
import sys
import tempfile

bin_folder = sys.argv[1]
short = os.environ.get("TEST_SHORT") == "1"  # a slow preset; others test all
work = tempfile.mkdtemp()
failures = 0


def wrong(text):
    global failures
    failures += 1
    print("FAIL:", text)


def run(*command):
    return subprocess.run(command, text=True, capture_output=True, timeout=200)


def plan(*arguments):
    """Returns the plan that a job runs, and the expected time of the chosen plan."""
    result = run(f"{bin_folder}/kolobench", "plan", *arguments)
    chosen = [line.split() for line in result.stdout.splitlines() if line.startswith("->")]
    others = [line for line in result.stdout.splitlines() if line.startswith("  ")]
    if result.returncode or len(chosen) != 1:
        wrong(f"plan {arguments}: {result.stdout} {result.stderr}")
        return "", 0
    if any("(" not in line or len(line.split()) < 4 for line in others):
        wrong(f"plan {arguments}: no reason in {others}")
    scale = {"us": 1, "ms": 1e3, "s": 1e6}[chosen[0][3]]
    rounded = re.search(r"# a job rounds .* and runs (\S+) here", result.stdout)
    return rounded[1] if rounded else chosen[0][1], float(chosen[0][2]) * scale


NAMES = "allreduce reduce broadcast allgather reduce_scatter gather scatter alltoall barrier".split()
for name in NAMES:
    for np in ("8",) if short else ("2", "8", "33"):
        small, large = plan(name, "-np", np, "-s", "1K"), plan(name, "-np", np, "--size", "64M")
        if name != "barrier" and not 0 < small[1] < large[1]:
            wrong(f"{name} {np}: {small} for 1 KiB, {large} for 64 MiB")
        plan(name, "-np", np, "--hosts", "2", "-s", "1M", "--deterministic")

jobs = ((3, "inproc", "user"), (2, "shm", "user"), (4, "tcp", "kolo"), (2, "tcp", "kolo"), (3, "tcp", "kolo"),
        (2, "shm", "kolo"), (4, "shm", "kolo"))
for np, transport, memory in jobs[:3] if short else jobs:
    sizes = "4,1100,3M" if short else "4,1K,1100,6000,64K,3M,4M"
    ranks = ["--threads", str(np)] if transport == "inproc" else []
    launch = [] if ranks else [f"{bin_folder}/kolorun", "-np", str(np)]
    result = run(*launch, f"{bin_folder}/kolobench", "allreduce", "broadcast", "-s", sizes, "-n", "1", "--memory", memory,
                 "--transport", transport, "--csv", f"{work}/o.csv", *ranks)
    if result.returncode:
        wrong(f"the job: {result.stderr}")
    with open(f"{work}/o.csv") as file:
        rows = [line.split(",") for line in file.read().splitlines()[1:]]
    for row in rows:
        said = plan(row[0], "-np", str(np), "--transport", transport, "--memory", memory, "--size", row[4])[0]
        if said != row[2]:
            wrong(f"{row[0]} of {row[4]} on {np} ranks, {transport}, {memory}, ran {row[2]}, and was said to run {said}")

# A single plan.
everything = run(f"{bin_folder}/kolobench", "plan", "allreduce", "-np", "4", "--size", "64K").stdout.splitlines()
rows = {line.replace("->", "").split()[0]: line for line in everything if line[0] != "#"}
best = next(name for name, line in rows.items() if line.startswith("->"))
for name, line in rows.items():
    said = run(f"{bin_folder}/kolobench", "plan", "allreduce", "-np", "4", "--size", "64K", "--plan", name).stdout.splitlines()
    if [line for line in said if line[0] != "#"] != ([line] if name == best else [rows[best], line]):
        wrong(f"plan --plan {name}: {said}")

with open(f"{work}/slow", "w") as file:
    file.write("# a slow loopback\nloopback.byte 1000\nloopback.latency 5e6\n")
fast, slow = plan("allreduce", "--transport", "tcp"), plan("allreduce", "--transport", "tcp", "--profile", f"{work}/slow")
if slow[1] < 10 * fast[1]:
    wrong(f"the profile does not count: {fast}, {slow}")
# If little bandwidth is available between NUMA nodes, plans that send little between them win, and
# a job on such nodes runs the chosen plan.
with open(f"{work}/far", "w") as file:
    file.write("# 200 MB/s between NUMA nodes\nfar_byte 5\n")
for name in ("allreduce", "allgather", "reduce_scatter", "broadcast", "reduce"):
    close = plan(name, "-np", "8", "-s", "1M")
    for domains in ("1", "2", "4"):
        said = plan(name, "-np", "8", "--domains", domains, "-s", "1M", "--profile", f"{work}/far")
        if domains == "1" and said[0] != close[0] or domains != "1" and said[1] < 2 * close[1]:
            wrong(f"{name} in {domains} NUMA domains: {said}, and in one: {close}")
said = plan("allreduce", "-np", "8", "--domains", "2", "--size", "1M", "--profile", f"{work}/far")[0]
result = subprocess.run([f"{bin_folder}/kolorun", "-np", "8", "sh", "-c", 'KOLO_NUMA_NODE=$((LOCAL_RANK / 4)) exec "$@"', "sh",
                         f"{bin_folder}/kolobench", "allreduce", "-s", "1M", "-n", "1", "--check", "--csv", f"{work}/o.csv"],
                        text=True, capture_output=True, timeout=200, env=dict(os.environ, KOLO_PROFILE=f"{work}/far"))
with open(f"{work}/o.csv") as file:
    ran = file.read().splitlines()[1].split(",")[2]
if result.returncode or said != "numa" or ran != said:
    wrong(f"a job on two made-up NUMA nodes ran {ran}, and was said to run {said}: {result.stderr}")
if plan("allreduce", "-np", "8", "--domains", "2", "--profile", f"{work}/far", "--deterministic")[0] == "numa":
    wrong("a plan by NUMA node in deterministic mode")

measured = run(f"{bin_folder}/kolorun", "-np", "2", f"{bin_folder}/kolobench", "profile", "-t", "1ms", "-o", f"{work}/own")
if measured.returncode:
    wrong(f"no profile is saved between two ranks: {measured.stdout} {measured.stderr}")
plan("allreduce", "--profile", f"{work}/own")

# A profile of this host is used by jobs on this host, and only there.
cache = dict(os.environ, XDG_CACHE_HOME=f"{work}/cache")
saved = subprocess.run([f"{bin_folder}/kolobench", "profile", "-t", "1ms"], text=True, capture_output=True, timeout=200, env=cache)
names = dict(line.split() for line in saved.stdout.splitlines() if line and line[0] != "#")
if saved.returncode or "network.byte" not in names or "turn" not in names or min(map(float, names.values())) < 0:
    wrong(f"kolobench profile: {saved.stdout} {saved.stderr}")
if re.search(r"^memory +cma +works", run(f"{bin_folder}/kolorun", "info").stdout, re.M) and float(names.get("pull_byte", 0.09)) == 0.09:
    wrong(f"what is pulled is not measured: {saved.stdout}")
# The speed between NUMA nodes is measured if there are two; here they are simulated with the first
# two processors.
if {0, 1} <= os.sched_getaffinity(0):
    made_up = dict(cache, HWLOC_SYNTHETIC="numa:2 core:1 pu:1", HWLOC_THISSYSTEM="1")
    far = subprocess.run([f"{bin_folder}/kolobench", "profile", "-t", "1ms", "-o", f"{work}/two"], text=True, capture_output=True,
                         timeout=200, env=made_up)
    figures = dict(line.split() for line in far.stdout.splitlines() if line and line[0] != "#")
    if far.returncode or "# between two NUMA nodes" not in far.stdout or figures.get("far_byte") == "0.01":
        wrong(f"kolobench profile on two NUMA nodes: {far.stdout} {far.stderr}")
    if figures.get("far_flag") != "100":
        wrong(f"no two cores of a node, and how far a word goes is {figures.get('far_flag')}")
for variable, source in (("auto", f"the figures of {work}/cache/kolo/profile-"), ("none", "built-in figures")):
    said = subprocess.run([f"{bin_folder}/kolobench", "plan", "allreduce"], text=True, capture_output=True, timeout=200,
                          env=dict(cache, KOLO_PROFILE=variable)).stdout
    if source not in said:
        wrong(f"KOLO_PROFILE={variable}: {said}")
if len(os.listdir(f"{work}/cache/kolo")) != 1:
    wrong(f"left behind: {os.listdir(f'{work}/cache/kolo')}")

for arguments in (("allreduce", "--op", "band", "-d", "int32"), ("allgather", "-np", "4", "--size", "16"), ("barrier", "--size", "1")):
    plan(*arguments)
with open(f"{work}/bad", "w") as file:
    file.write("loopback.byte many\n")
for arguments, text, status in ((("alreduce",), "did you mean allreduce", 2), ((), "a collective", 2),
                                (("pingpong",), "expected one of allreduce, reduce, broadcast, allgather, reduce_scatter, gather, scatter, alltoall, barrier;", 2), (("reduce", "-np", "3", "--root", "3"), "below -np", 2),
                                (("reduce", "-np", "0"), "-np 0", 2), (("reduce", "--hosts", "3"), "--hosts 3", 2),
                                (("reduce", "-np", "4", "--hosts", "2", "--domains", "3"), "--domains 3", 2),
                                (("reduce", "--transport", "tpc"), "did you mean tcp", 2), (("reduce", "--size", "x"), "--size x", 2),
                                (("allgatherv",), "did you mean allgather?", 2), (("alltoall", "--plan", "ring"), "one that alltoall has: auto, ", 2),
                                (("allreduce", "--op", "band"), "--op band: expected an operator that floats have", 2),
                                (("allreduce", "--size", "3"), "--size 3: expected at least 4 bytes, the least of allreduce among 2 ranks", 2),
                                (("allgather", "-np", "4", "-d", "float64", "--size", "31"), "--size 31: expected at least 32 bytes", 2),
                                (("reduce", "--profile", f"{work}/none"), "No such file", 2),
                                (("reduce", "--profile", f"{work}/bad"), "bad:1", 2)):
    result = run(f"{bin_folder}/kolobench", "plan", *arguments)
    if result.returncode != status or text not in result.stderr or len(result.stderr.splitlines()) != 1:
        wrong(f"plan {arguments}: {result.returncode} {result.stderr}")
os.system(f"rm -rf {work}")
print("plan: all good" if failures == 0 else f"{failures} failures")
sys.exit(failures > 0)
