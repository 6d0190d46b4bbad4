#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""output.py BIN: reads what kolobench writes. JSON and CSV must agree with each other and with the
table, and derived figures must be right. Every collective, type, operator and way of calling must
pass its check."""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

bin_folder = sys.argv[1]
work = tempfile.mkdtemp()
failures = 0

COLUMNS = ("collective transport plan np bytes count dtype op root in_place memory time_us mean_us min_us p90_us p99_us "
           "max_us slowest_rank algbw_gbps busbw_gbps calls samples errors prescale postscale").split()
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
    """Runs kolobench, which must succeed. Returns the rows of its JSON, which must be those of the
    CSV file and the table."""
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
        if key == "busbw_gbps" and row["np"] == 1:
            if got is not None or other != "" or words[7] != "-":
                wrong(f"{name}: one rank has a busbw: {got}, {other}, {words}")
            continue
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
    busbw = algbw * BUS.get(row["collective"], lambda n: 1)(row["np"]) if row["np"] > 1 else None
    if abs(algbw - row["algbw_gbps"]) > 1e-6 + 1e-3 * algbw or (busbw is not None and abs(busbw - row["busbw_gbps"]) > 1e-6 + 1e-3 * busbw):
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
for extra in (("--in-place",), ("--memory", "user"), ("--async",), ("--barrier",), ("--root", "2"), ("--root", "rotate"), ("--deterministic",),
              ("--in-place", "--memory", "user", "--async", "--root", "rotate")):
    rows_of(3, "all", "-s", "52K", "-n", "3", *extra)
for dtype in "int8 int16 int32 int64 uint8 float16 bfloat16 float64".split():
    for op in "sum min max prod average".split():
        rows_of(0, "allreduce", "reduce_scatter", "reduce", "--threads", "3", "-s", "9,9K", "-n", "2", "-d", dtype, "-o", op)
for dtype in "int8 uint8 int64".split():
    for op in "band bor bxor land lor lxor".split():
        rows_of(0, "allreduce", "reduce_scatter", "--threads", "3", "-s", "9,9K", "-n", "2", "-d", dtype, "-o", op)
for size in run(0, "allreduce", "--threads", "2", "-t", "2ms", "-e", "64K", "-f", "16").stdout.splitlines():
    if not size.startswith("#") and int(size.split()[0]) not in (4, 64, 1024, 16384):
        wrong(f"sizes: {size}")
# Exactly as many calls are timed as -n says, whatever makes a sample.
for calls in 1, 19, 119, 1007, 100003:
    for row in rows_of(0, "allreduce", "barrier", "--threads", "1" if calls > 2000 else "2", "-s", "4", "-n", str(calls)):
        if row["calls"] != calls:
            wrong(f"-n {calls}: {row['calls']} calls in {row['samples']} samples")
# One rank, as without kolorun: nothing crosses a link.
for np, threads in ((0, ()), (0, ("--threads", "1")), (1, ())):
    if len(rows_of(np, *names, *threads, "-s", "4K", "-n", "2")) != len(names):
        wrong(f"one rank: {np} {threads}")
    for file in "o.json", "o.csv":
        drawn = run(0, "plot", f"{work}/{file}", "-o", f"{work}/one.svg")
        if drawn.returncode:
            wrong(f"plot {file} of one rank: {drawn.stderr}")
    alone = run(np, "allreduce", "broadcast", *threads, "-s", "4,8", "-n", "1")
    if alone.stderr.count("kolobench: one rank alone: nothing crosses a link") != 1:
        wrong(f"one rank: {np} {threads}: {alone.stderr}")
if "alone" in run(2, "allreduce", "-s", "4", "-n", "1").stderr:
    wrong("two ranks are said to be one")
piped = run(2, "allreduce", "-s", "4", "-n", "2")
if "\r" in piped.stderr or "\033" in piped.stderr:
    wrong("a progress line where nobody sees it")

# ---- pictures ----
SVG = "{http://www.w3.org/2000/svg}"


def picture(path):
    """Returns the picture's texts, its lines of data and its dashed lines. Everything must be
    inside the picture, and no two texts may overlap."""
    root = xml.etree.ElementTree.parse(path).getroot()
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = []
    for text in root.iter(SVG + "text"):
        size, x, y = (float(text.get(key)) for key in ("font-size", "x", "y"))
        long = 0.55 * size * len(text.text)
        left = x - {"start": 0, "middle": long / 2, "end": long}[text.get("text-anchor")]
        boxes.append((left, y - size, left + long, y, text.text))
    for i, a in enumerate(boxes):
        if a[0] < 0 or a[2] > width or a[1] < 0 or a[3] > height:
            wrong(f"{path}: '{a[4]}' leaves the picture")
        for b in boxes[:i]:
            if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
                wrong(f"{path}: '{a[4]}' over '{b[4]}'")
    lines = list(root.iter(SVG + "polyline"))
    for line in lines:
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            if not (0 <= x <= width and 0 <= y <= height):
                wrong(f"{path}: a point outside: {point}")
    return [box[4] for box in boxes], len(lines), sum(line.get("stroke-dasharray") is not None for line in lines)


rows_of(2, "allreduce", "allgather", "barrier", "-s", "4:1M:x4", "-n", "2", "--plot", f"{work}/own.svg")
texts, lines, dashed = picture(f"{work}/own.svg")
if lines != 4 or dashed or "allreduce: time" not in texts or "64 KiB" not in texts or "shm" not in texts:
    wrong(f"own picture: {lines} lines, {texts}")
os.rename(f"{work}/o.csv", f"{work}/a.csv")
rows_of(2, "allreduce", "-s", "4:1M:x4", "-n", "2", "--transport", "tcp")
run(2, "--limits", "-s", "4:1M:x4", "-t", "1ms", "--json", f"{work}/l.json")
drawn = run(0, "plot", f"{work}/a.csv", f"{work}/o.json", f"{work}/l.json", "-o", f"{work}/all.svg", "--title", "a < b & c")
if drawn.returncode:
    wrong(f"plot: {drawn.stderr}")
else:
    texts, lines, dashed = picture(f"{work}/all.svg")
    for label in ("a < b & c", "a, shm, kolo memory", "o, tcp, kolo memory", "l, shm, user memory", "limit, shm, kolo memory", "limit, shm, user memory", "limit, tcp"):
        if label not in texts:
            wrong(f"all in one: no '{label}' in {texts}")
    if (lines, dashed) != (16, 6):
        wrong(f"all in one: {lines} lines, {dashed} dashed")
drawn = run(0, "plot", f"{work}/l.json", "-o", f"{work}/limits.svg")
texts, lines, dashed = picture(f"{work}/limits.svg")
if drawn.returncode or (lines, dashed) != (10, 6) or not {"kolo memory", "user memory", "limit, tcp"} <= set(texts):
    wrong(f"limits alone: {lines} lines, {dashed} dashed, {texts}")
with open(f"{work}/bad.json", "w") as file:
    file.write("{\"rows\": 3}")
with open(f"{work}/bad.csv", "w") as file:
    file.write("collective,np,bytes,time_us,busbw_gbps\nallreduce,2,x,1,1\n")
with open(f"{work}/cut.json", "w") as file:
    file.write("{\"rows\": [")
absurd = {"nan.csv": ("nan", 1, 1), "inf.csv": (4, "inf", 1), "large.csv": ("1e300", 1, 1), "long.csv": (4, "1e300", 1),
          "short.csv": (4, "1e-300", 1), "fast.csv": (4, 1, "1e300"), "slow.csv": (4, 1, -1)}
for name, (size, time, busbw) in absurd.items():
    with open(f"{work}/{name}", "w") as file:
        file.write(f"collective,np,bytes,time_us,busbw_gbps\nallreduce,2,{size},{time},{busbw}\n")
with open(f"{work}/far.json", "w") as file:
    file.write('{"rows": [{"collective": "allreduce", "np": 1e300, "bytes": 4, "time_us": 1e-300}]}')
with open(f"{work}/edge.json", "w") as file:
    file.write('{"rows": [{"collective": "allreduce", "transport": "shm", "np": 1e300, "bytes": 1, "time_us": 1e-6}, {"collective": "allreduce", "transport": "shm", "np": 1e300, "bytes": 1e14, "time_us": 1e-6},'
               '{"collective": "allreduce", "transport": "shm", "np": 1e300, "bytes": 1e14, "time_us": 1e15}]}')
drawn = run(0, "plot", f"{work}/edge.json", "-o", f"{work}/edge.svg")
picture(f"{work}/edge.svg")
with open(f"{work}/edge.svg") as file:
    if drawn.returncode or re.search(r"\b(nan|inf)\b", file.read()):
        wrong(f"plot of what can just be drawn: {drawn.stderr}")
bounds = "expected at most 1.40737e+14 bytes, and from 1e-06 to 1e+15 us"
for name, text in (("nan.csv", "line 2: bytes is 'nan', not a finite number"), ("inf.csv", "time_us is 'inf'"), *((name, bounds) for name in
                   ("large.csv", "long.csv", "short.csv", "fast.csv", "slow.csv", "far.json")), ("bad.json", "no array"), ("bad.csv", "line 2: bytes is 'x'"), ("cut.json", "line 1"), ("none", "No such file"), ("", "Is a directory")):
    refused = run(0, "plot", f"{work}/{name}", "-o", f"{work}/none.svg")
    if refused.returncode != 1 or text not in refused.stderr or os.path.exists(f"{work}/none.svg"):
        wrong(f"plot {name}: {refused.returncode} {refused.stderr}")
# ---- places ----
with open(f"{work}/o.json", "rb") as read:
    before = read.read()
drawn_over = run(0, "plot", f"{work}/a.csv", f"{work}/o.json", "-o", f"{work}/o.json")
with open(f"{work}/o.json", "rb") as read:
    if drawn_over.returncode != 2 or "o.json, which is an input; name another" not in drawn_over.stderr or read.read() != before:
        wrong(f"plot over what it draws: {drawn_over.returncode} {drawn_over.stderr}")
for np, arguments, options in ((0, ("allreduce", "--threads", "2"), ("--json", "--plot")), (2, ("allreduce",), ("--csv", "--json")),
                               (2, ("--limits",), ("--json", "--plot"))):
    refused = run(np, *arguments, "-t", "1ms", "-s", "4", options[0], f"{work}/same", options[1], f"{work}/../{os.path.basename(work)}/same")
    said = [line for line in refused.stderr.splitlines() if "both name" in line]
    if refused.returncode == 0 or len(said) != 1 or os.path.exists(f"{work}/same") or refused.stdout.count("allreduce"):
        wrong(f"{options} of one file: {refused.returncode} {refused.stderr} {refused.stdout}")
os.system(f"rm -rf {work}")
print("output: all good" if failures == 0 else f"{failures} failures")
sys.exit(failures > 0)
