#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""output.py BIN: what kolobench writes, read back: JSON and CSV agree with each other, with the table and with
arithmetic; every collective, type, operator and way of calling passes its check."""
import csv
import json
import os
import subprocess
import sys
import tempfile

bin_folder = sys.argv[1]
work = tempfile.mkdtemp()
failures = 0

COLUMNS = ("collective transport plan np bytes count dtype op root in_place memory time_us mean_us min_us p90_us p99_us "
           "max_us slowest_rank algbw_gbps busbw_gbps calls samples errors").split()
BUS = {"allreduce": lambda n: 2 * (n - 1) / n, "allgather": lambda n: (n - 1) / n, "allgatherv": lambda n: (n - 1) / n,
       "reduce_scatter": lambda n: (n - 1) / n, "gather": lambda n: (n - 1) / n, "gatherv": lambda n: (n - 1) / n,
       "scatter": lambda n: (n - 1) / n, "alltoall": lambda n: (n - 1) / n, "alltoallv": lambda n: (n - 1) / n,
       "reduce_scatterv": lambda n: (n - 1) / n, "scatterv": lambda n: (n - 1) / n}


def wrong(text):
    global failures
    failures += 1
    print("FAIL:", text)


def run(np, *arguments):
    command = [f"{bin_folder}/kolorun", "-np", str(np)] if np else []
    return subprocess.run([*command, f"{bin_folder}/kolobench", *arguments], text=True, capture_output=True, timeout=200)


def rows_of(np, *arguments):
    """The rows of a run that must pass: of the JSON, held against CSV and table."""
    result = run(np, *arguments, "--check", "--json", f"{work}/o.json", "--csv", f"{work}/o.csv")
    if result.returncode != 0:
        wrong(f"{arguments}: {result.stderr[-400:]} {result.stdout[-200:]}")
        return []
    with open(f"{work}/o.json") as file:
        rows = json.load(file)["rows"]
    with open(f"{work}/o.csv", newline="") as file:
        reader = csv.DictReader(file)
        lines = list(reader)
    if reader.fieldnames != COLUMNS:
        wrong(f"{arguments}: CSV columns {reader.fieldnames}")
    table = [line.split("] ")[-1] for line in result.stdout.splitlines() if "#" not in line]
    if not len(rows) == len(lines) == len(table):
        wrong(f"{arguments}: {len(rows)} rows of JSON, {len(lines)} of CSV, {len(table)} of the table")
    for row, line, text in zip(rows, lines, table):
        hold(row, line, text.split(), arguments)
    return rows


def hold(row, line, words, arguments):
    name = f"{arguments}: {row['collective']} {row['bytes']}"
    for key in COLUMNS:
        got, other = row[key], line[key]
        same = abs(got - float(other)) <= 1e-3 + 1e-3 * abs(got) if isinstance(got, float) else str(int(got) if isinstance(
            got, bool) else got) == other
        if not same:
            wrong(f"{name}: {key} is {got} in JSON and {other} in CSV")
    if row["errors"] != 0:
        wrong(f"{name}: {row['errors']} errors")
    if not row["min_us"] <= row["time_us"] <= row["p90_us"] <= row["p99_us"] <= row["max_us"]:
        wrong(f"{name}: percentiles out of order: {row}")
    if not 0 <= row["slowest_rank"] < row["np"] or row["calls"] < row["samples"] or row["samples"] < 1:
        wrong(f"{name}: {row}")
    algbw = row["bytes"] / row["time_us"] / 1e3
    busbw = algbw * BUS.get(row["collective"], lambda n: 1)(row["np"])
    if abs(algbw - row["algbw_gbps"]) > 1e-6 + 1e-3 * algbw or abs(busbw - row["busbw_gbps"]) > 1e-6 + 1e-3 * busbw:
        wrong(f"{name}: bandwidths {row['algbw_gbps']}, {row['busbw_gbps']}, expected {algbw}, {busbw}")
    if int(words[0]) != row["bytes"] or words[-1] != f"{row['transport']}/{row['plan']}":
        wrong(f"{name}: the table says {words}")


def collectives():
    text = run(0, "--help").stdout
    return text[text.index("all, ") + 5:].split("\n")[0].split(", ")


names = collectives()
for np, transport in ((2, "shm"), (3, "shm"), (4, "tcp")):
    rows = rows_of(np, "all", "-s", "4,1000,40K", "-n", "4", "--transport", transport)
    got = sorted({row["collective"] for row in rows})
    if got != sorted(names):
        wrong(f"all is {got}, not {sorted(names)}")
for extra in (("--in-place",), ("--memory", "user"), ("--async",), ("--barrier",), ("--root", "2"), ("--root", "rotate"),
              ("--in-place", "--memory", "user", "--async", "--root", "rotate")):
    rows_of(3, "all", "-s", "52K", "-n", "3", *extra)
for dtype in "int8 int16 int32 int64 uint8 float16 bfloat16 float64".split():
    for op in "sum min max prod average".split():
        rows_of(0, "allreduce", "reduce_scatter", "reduce", "--threads", "3", "-s", "9,9K", "-n", "2", "-d", dtype, "-o", op)
for size in run(0, "allreduce", "--threads", "2", "-t", "2ms", "-e", "64K", "-f", "16").stdout.splitlines():
    if not size.startswith("#") and int(size.split()[0]) not in (4, 64, 1024, 16384):
        wrong(f"sizes: {size}")
with open("/dev/null") as none:
    piped = run(2, "allreduce", "-s", "4", "-n", "2")
if "\r" in piped.stderr or "\033" in piped.stderr:
    wrong("a progress line where nobody sees it")
os.system(f"rm -rf {work}")
print("output: all good" if failures == 0 else f"{failures} failures")
sys.exit(failures > 0)
