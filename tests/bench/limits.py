#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""limits.py BIN: tests that kolobench --limits and diagnose run to their end, and that their output
can be parsed and has possible values. Times are not compared, because machines are shared."""
import json
import os
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


def run(np, *arguments):
    command = [f"{bin_folder}/kolorun", "-np", str(np)] if np else []
    return subprocess.run([*command, f"{bin_folder}/kolobench", *arguments], text=True, capture_output=True, timeout=250)


NAMES = "allreduce reduce broadcast allgather reduce_scatter gather scatter alltoall barrier".split()
FIGURES = set("""copy_gbps copy_all_gbps copy_cached_gbps reduce_gbps reduce_all_gbps reduce_cached_gbps flag_us
    flag_same_core_us wake_us wake_same_core_us ring_gbps tcp_us tcp_sleep_us tcp_gbps""".split())
for np, arguments in ((3, ()),) if short else ((2, ()), (3, ()), (0, ("--threads", "2"))):
    result = run(np, "--limits", *NAMES, *arguments, "-s", "12,3000,600K,2M", "-t", "1ms", "--json", f"{work}/l.json")
    if result.returncode != 0:
        wrong(f"np {np}: {result.stderr[-500:]}")
        continue
    with open(f"{work}/l.json") as file:
        limits = json.load(file)
    missing = FIGURES - set(limits["figures"])
    if missing - {"flag_us", "wake_us"} or any(value <= 0 for value in limits["figures"].values()):
        wrong(f"np {np}: figures {limits['figures']}")
    rows = {(row["collective"], row["channel"], row["bytes"]) for row in limits["limits"]}
    ranks = limits["machine"]["ranks"]
    for name in NAMES:
        whole = name not in ("allreduce", "reduce", "broadcast")
        for bytes_ in (12, 3000, 600 << 10, 2 << 20) if name != "barrier" else (0,):
            size = bytes_ // (4 * ranks) * 4 * ranks if whole else bytes_
            for channel in ("shm", "shm_user", "tcp"):
                if size or name == "barrier":
                    if (name, channel, size) not in rows:
                        wrong(f"np {np}: no limit of {name} {size} over {channel}")
    calls = {row["channel"] for row in limits["limits"] if row.get("kolo_us", 0) > 0 and row.get("plan")}
    if calls != {"shm", "shm_user"} or "kolo" not in result.stdout or any(
            ("kolo_us" in row) != (row["channel"] != "tcp") for row in limits["limits"]):
        wrong(f"np {np}: kolo's calls in turn with the loops over {calls}")
    rdma = limits["rdma"] # with RDMA there are rows for it too, which tests/vm/bench.sh tests
    said = "RDMA by" if rdma["usable"] else "no RDMA"
    if not rdma["text"] or f"# {said}: {rdma['text']}" not in result.stdout:
        wrong(f"np {np}: RDMA is {rdma}, and not so in {result.stdout}")
    if any(row["time_us"] <= 0 for row in limits["limits"]):
        wrong(f"np {np}: a limit of no time")

# A forced transport: only its figures and limits. RDMA is then reported as "not asked for".
result = run(2, "--limits", "--transport", "tcp", "-s", "12", "-t", "1ms", "--json", f"{work}/l.json")
if result.returncode != 0:
    wrong(f"--limits --transport tcp: {result.stderr[-500:]}")
else:
    with open(f"{work}/l.json") as file:
        limits = json.load(file)
    if set(limits["figures"]) != {key for key in FIGURES if key.startswith("tcp_")} or \
            {row["channel"] for row in limits["limits"]} != {"tcp"} or limits["rdma"]["text"] != "not asked for" or \
            not all(row["kolo_us"] > 0 for row in limits["limits"]):
        wrong(f"--limits --transport tcp: {limits}")

# inproc connects threads through the same memory as shm does, so it has the limits of shm. auto
# forces nothing.
for transport, channels in (("inproc", {"shm", "shm_user"}), ("auto", {"shm", "shm_user", "tcp"})):
    result = run(0, "--limits", "--threads", "2", "--transport", transport, "-s", "12", "-t", "1ms", "--json", f"{work}/l.json")
    with open(f"{work}/l.json") as file:
        limits = json.load(file)
    if result.returncode != 0 or {row["channel"] for row in limits["limits"]} != channels or "copy_gbps" not in limits["figures"]:
        wrong(f"--limits --transport {transport}: {result.returncode} {limits} {result.stderr[-500:]}")

for np, arguments in ((3, ()),) if short else ((1, ()), (3, ()), (3, ("--exhaustive", "--transport", "tcp"))):
    result = run(np, "diagnose", "-t", "1ms", "-r", "1", "--factor", "1000", "--json", f"{work}/d.json", *arguments)
    if result.returncode not in (0, 1):
        wrong(f"diagnose: {result.returncode} {result.stderr[-500:]}")
        continue
    with open(f"{work}/d.json") as file:
        diagnosis = json.load(file)
    if len(diagnosis["ranks"]) != np or len(diagnosis["links"]) != np * (np - 1):
        wrong(f"diagnose: {len(diagnosis['ranks'])} ranks, {len(diagnosis['links'])} links")
    if any(link["latency_us"] <= 0 or link["gbps"] <= 0 for link in diagnosis["links"]):
        wrong(f"diagnose: {diagnosis['links']}")
    if (result.returncode == 1) != bool(diagnosis["findings"]):
        wrong(f"diagnose: status {result.returncode} with {diagnosis['findings']}")

# Of more than one buffer of stdio, the first does not go there; that is no lack of memory.
result = run(0, "diagnose", "--threads", "12", "-t", "1ms", "-r", "1", "--json", "/dev/full")
if result.returncode != 1 or result.stderr.count("\n") != 1 or "--json /dev/full: No space left on device" not in result.stderr:
    wrong(f"diagnose --json /dev/full: {result.returncode} {result.stderr[-500:]}")
os.system(f"rm -rf {work}")
print("limits: all good" if failures == 0 else f"{failures} failures")
sys.exit(failures > 0)
