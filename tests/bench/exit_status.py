#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exit_status.py BIN: tests that kolobench, kolo-coco and kolorun follow one rule: wrong options
and settings end them with status 2, failures (files, calls) with status 1, and each prints why in
one line. That also holds if only the running job can find the error, on one rank and on two."""
import json
import os
import shlex
import subprocess
import sys
import tempfile

bin_folder = os.path.abspath(sys.argv[1])
short = os.environ.get("TEST_SHORT") == "1"  # a slow preset; others also test each command on two ranks
failures = 0
os.chdir(tempfile.mkdtemp())
TRUTHS = {"images": [{"id": 1, "width": 9, "height": 9}], "categories": [{"id": 1, "name": "a", "keypoints": ["nose", "ear"]}],
          "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 3], "area": 9, "iscrowd": 0,
                           "num_keypoints": 2, "keypoints": [1, 1, 2, 2, 2, 2]}]}
with open("gt.json", "w") as file:
    json.dump(TRUTHS, file)
with open("dt.json", "w") as file:
    file.write("[]")
with open("bad.json", "w") as file:
    file.write("[")
with open("sigmas", "w") as file:
    file.write("0.1 many")
KEYPOINTS = "gt.json dt.json --iou-type keypoints --sigmas"

# program and arguments, exit status, settings
TABLE = """
kolobench allreduce --frobnicate -> 2
kolobench frobnicate -> 2
kolobench allreduce -s 0 -> 2
kolobench allreduce -s 4 --root 9 -> 2
kolobench pingpong -s 4 --peer 9 -> 2
kolobench alltoall -s 1 -> 2
kolobench allreduce -s 4 --json x --csv x -> 2
kolobench allreduce -s 4 --json x --plot ./x -> 2
kolobench --limits -s 4 -t 1ms --json x --plot x -> 2
kolobench allreduce -s 4 --json '' -> 2
kolobench allreduce -s 4 --csv= -> 2
kolobench allreduce -s 4 --plot '' -> 2
kolobench --limits -s 4 -t 1ms --json '' -> 2
kolobench --limits -s 4 -t 1ms --csv x -> 2
kolobench --limits -s 4 -t 1ms --dtype int8 -> 2
kolobench --limits -s 4 -t 1ms --check -> 2
kolobench --limits -s 4 -t 1ms --memory user -> 2
kolobench --limits -s 4 -t 1ms --warmup 0 -> 2
kolobench --limits alltoallv -s 4K -t 1ms -> 2
kolobench --limits allreduce -s 3 -t 1ms -> 2
kolobench --limits all -s 4K -t 1ms -q -> 0
kolobench diagnose --json '' -> 2
kolobench profile -o '' -> 2
kolobench plot gt.json -o '' -> 2
kolobench allreduce -s 4 --transport pigeon -> 2
kolobench allreduce -s 4 --plan ring-o-roses -> 2
KOLO_NET=10.0.0.0/99 kolobench allreduce -s 4 --transport tcp -> 2
KOLO_NET=none.there kolobench allreduce -s 4 --transport tcp -> 2
KOLO_TIMEOUT=never kolobench allreduce -s 4 -> 2
KOLO_PROFILE=none.there kolobench allreduce -s 4 -> 2
kolobench allreduce -s 4 -n 1 --json none.there/x -> 1
kolobench allreduce -s 4 -n 1 --json . -> 1
kolobench plan allreduce --profile none.there -> 2
kolobench plan allreduce -np 0 -> 2
kolobench plan pingpong -> 2
kolobench plot -o x -> 2
kolobench plot none.there -o x -> 1
kolobench plot bad.json -o x -> 1
kolobench diagnose --factor 0 -> 2
kolobench profile --part all -> 2
kolobench profile -o . -> 2
kolobench profile --threads 2 -o none.there/x -> 1
kolobench allreduce -s 4 -n 1 -q -> 0
kolo-coco gt.json -> 2
kolo-coco gt.json dt.json --frobnicate -> 2
kolo-coco gt.json dt.json --iou-type masks -> 2
kolo-coco gt.json dt.json --areas 9,4 -> 2
kolo-coco gt.json dt.json --iou-thresholds 2 -> 2
kolo-coco gt.json dt.json --max-dets 0 -> 2
kolo-coco gt.json dt.json --sigmas 1 -> 2
kolo-coco KEYPOINTS 0 -> 2
kolo-coco KEYPOINTS -1,1 -> 2
kolo-coco KEYPOINTS 1e999,1 -> 2
kolo-coco KEYPOINTS , -> 2
kolo-coco KEYPOINTS none.there -> 2
kolo-coco KEYPOINTS sigmas -> 2
kolo-coco KEYPOINTS . -> 2
kolo-coco KEYPOINTS 0.1,0.2,0.3 -> 1
kolo-coco KEYPOINTS 0.1,0.2 -> 0
kolo-coco gt.json dt.json --json x --plot x -> 2
kolo-coco gt.json dt.json --json gt.json -> 2
kolo-coco gt.json dt.json --json '' -> 2
kolo-coco none.there none.there --plot= -> 2
kolo-coco gt.json dt.json --plot ./dt.json -> 2
KOLO_TIMEOUT=never kolo-coco gt.json dt.json -> 2
kolo-coco gt.json none.there -> 1
kolo-coco gt.json bad.json -> 1
kolo-coco gt.json dt.json --json none.there/x -> 1
kolo-coco gt.json dt.json --json . -> 1
kolo-coco gt.json dt.json -> 0
kolorun -np 0 true -> 2
kolorun -np many true -> 2
kolorun -np 2 -> 2
kolorun -np 1 --frobnicate true -> 2
kolorun -np 1 --bind-to moon true -> 2
kolorun -np 1 --timeout never true -> 2
kolorun -np 1 --hostfile none.there true -> 2
kolorun -np 1 -H : true -> 2
KOLO_TIMEOUT=never kolorun -np 1 true -> 2
KOLO_PORTS=9-1 kolorun -np 1 true -> 2
kolorun -np 1 ./none.there -> 127
kolorun -np 1 ./gt.json -> 126
kolorun -np 1 false -> 1
kolorun -np 1 true -> 0
"""

# Commands that print to standard output: if that cannot be written, they must fail.
SPEAKING = """
kolobench --help
kolobench --version
kolobench allreduce -s 4 -n 1
kolobench allreduce --threads 2 -s 4 -n 1 --json kept
kolobench --limits -s 4 -t 1ms --json kept
kolobench diagnose --threads 2 -t 1ms -r 1 -s 64K --json kept
kolobench diagnose --help
kolobench plan allreduce -np 4
kolobench profile --help
kolobench plot --help
kolo-coco --help
kolo-coco --version
kolo-coco gt.json dt.json --json kept
kolorun --help
kolorun help
kolorun info
kolorun -V
kolorun --help-settings
kolorun --print-settings
kolorun -np 2 --dry-run true
kolorun -np 2 echo
"""


def hold(command, expected, settings):
    global failures
    result = subprocess.run(command, text=True, capture_output=True, timeout=60, env=dict(os.environ, **settings))
    said = [line for line in result.stderr.splitlines() if "kolorun:" not in line or command[1] in ("-np", "-H")]
    if result.returncode != expected or (expected != 0 and "false" not in command and not said):
        failures += 1
        print(f"FAIL: {settings} {command}: {result.returncode}, expected {expected}: {result.stderr[-500:]}")


def hold_lost(command, how):
    global failures
    result = subprocess.run(f"'{command[0]}' {' '.join(command[1:])} {how}", shell=True, text=True, stderr=subprocess.PIPE,
                            timeout=60)
    said = [line for line in result.stderr.splitlines() if "be written" in line or "cannot write to standard output" in line]
    if result.returncode != 1 or len(said) != 1 or os.path.exists("kept"):
        failures += 1
        print(f"FAIL: {command} {how}: {result.returncode}, expected 1 and one line: {result.stderr[-500:]} {os.listdir('.')}")


for line in TABLE.strip().splitlines():
    words, expected = line.split(" -> ")
    words = shlex.split(words.replace("KEYPOINTS", KEYPOINTS))
    settings = dict([words.pop(0).split("=")]) if "=" in words[0] else {}
    program = f"{bin_folder}/{words[0]}"
    if words[0] == "kolo-coco" and not os.path.exists(program):  # only built if yajl is found
        continue
    hold([program, *words[1:]], int(expected), settings)
    if not short and words[0] != "kolorun" and words[1] not in ("plan", "plot", "profile"):
        hold([f"{bin_folder}/kolorun", "-np", "2", program, *words[1:]], int(expected), settings)
for line in SPEAKING.strip().splitlines():
    words = line.split()
    words[0] = f"{bin_folder}/{words[0]}"
    for how in ">/dev/full", ">&-":
        if os.path.exists(words[0]):
            hold_lost(words, how)
os.system(f"rm -rf {os.getcwd()}")
print("exit_status: all good" if failures == 0 else f"{failures} failures")
sys.exit(failures > 0)
