#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks masks on purpose, one fault at a time, and sees masks.py or segm.py catch each: a test of the
tests.

    mask_faults.py SOURCE_TREE BUILD_TREE COMPILER [--seeds N] [--only WORD]

Exits with 77 where pycocotools is not installed (script/bootstrap --oracles).
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import segm

# file of metrics/, what is there (once), what the fault makes of it
FAULTS = [
    ("coco_mask.c", "fmin(params->threshold[0], 1 - 1e-10)", "1"),
    ("coco_mask.c", "group->truth[g].is_crowd, least", "false, least"),
    ("coco_mask.c", "for (size_t r = 1; r < mask->count; r += 2)",
     "for (size_t r = 0; r < mask->count; r += 2)"),
    ("coco_mask.c", "overlaps[d * group->truths + g]", "overlaps[g * group->detections + d]"),
    ("coco_mask.c", "first_found += ours;", ";"),
    ("mask_overlap.c", "uint32_t begin = most_of(a[0], b[0])", "uint32_t begin = least_of(a[0], b[0])"),
    ("mask_overlap.c", "both / (double)(is_crowd ? a->area", "both / (double)(is_crowd ? b->area"),
    ("mask_overlap.c", "most = least_of(a->area, b->area);", "most = least_of(a->area, b->area) / 2;"),
    ("mask_overlap.c", "(edge[last - 1] - 1) / height + 1", "edge[last - 1] / height + 1"),
    ("mask_overlap.c", "end - column > height", "end - column >= height"),
    ("mask_overlap.c", "        return -1;", "        return 0;"),
    ("mask_overlap.c", "edge[2 * middle + 1] <= place", "edge[2 * middle] <= place"),
    ("mask_overlap.c", "outlines->edges += edges;", ";"),
    ("mask_merge.c", "a.is_in && b.is_in : a.is_in || b.is_in", "a.is_in || b.is_in : a.is_in && b.is_in"),
    ("mask_merge.c", "&masks[i], intersect, &spare", "&masks[1], intersect, &spare"),
    ("mask_merge.c", "walk->left == 0 && walk->next", "false && walk->next"),
    ("mask_string.c", "DIFFERENCES_FROM = 3", "DIFFERENCES_FROM = 2"),
    ("mask_string.c", "bits |= ~UINT64_C(0) << DIGIT_BITS * digits;", ";"),
    ("mask_polygon.c", "(int)(PARTS * pixels + .5)", "(int)floor(PARTS * pixels + .5)"),
    ("mask_polygon.c", "(int)(PARTS * pixels + .5)", "(int)(PARTS * pixels)"),
    ("mask_polygon.c", "MIDDLE = 2", "MIDDLE = 3"),
    ("mask_polygon.c", "here < next ? here : next", "here > next ? here : next"),
    ("mask_polygon.c", "            kept--;", "            ;"),
    ("mask_polygon.c", "edge.is_turned ? -other : other", "other"),
    ("mask_polygon.c", "edge->y + t - 1", "edge->y + t"),
    ("mask_polygon.c", "(uint32_t)ceil(row)", "(uint32_t)(row + .5)"),
    ("mask_polygon.c", "row > mask->height ? mask->height : row", "row"),
    ("mask_polygon.c", "+ edge->slope * (double)t + .5", "+ edge->slope * (double)t"),
    ("mask.c", "? (size_t)y * mask->width + x", "? (size_t)y * mask->height + x"),
]
FLAGS = ["-std=gnu17", "-O1", "-w", "-fPIC", "-ffp-contract=off", "-D_GNU_SOURCE"]


def build(options, folder, name, text):
    """segm_eval and a library of masks, with one file replaced; the archive gives the rest."""
    flags = FLAGS + [f"-I{options.source}", f"-I{options.source}/include",
                     f"-I{options.build}/generated"]
    changed, wrong = f"{folder}/{name}", f"{folder}/changed.o"
    with open(changed, "w", encoding="utf-8") as file:
        file.write(text)
    libraries = [f"{options.build}/lib/libkolo_core.a", "-lcrypto", "-lhwloc", "-lm", "-lpthread"]
    subprocess.run([options.compiler, *flags, "-c", changed, "-o", wrong], check=True)
    subprocess.run([options.compiler, *flags, wrong, f"{folder}/segm_eval.o", "-o",
                    f"{folder}/segm_eval", *libraries], check=True)
    with open(f"{options.source}/include/kolo/mask.h", encoding="utf-8") as file:
        wanted = set(re.findall(r"\bkolo_mask_\w+(?=\()", file.read())) | {"kolo_error_detail"}
    subprocess.run([options.compiler, "-shared", wrong, "-o", f"{folder}/libfaulty.so",
                    *(f"-Wl,-u,{one}" for one in sorted(wanted)), *libraries], check=True)


def is_caught(folder, expected, seeds):
    command = [f"{folder}/segm_eval"]
    for seed in expected:
        command += [f"{folder}/{seed}.set", f"{folder}/{seed}.out"]
        if os.path.exists(command[-1]):
            os.remove(command[-1])
    try:
        failed = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60).returncode
        for seed, result in expected.items():
            path = f"{folder}/{seed}.out"
            if os.path.exists(path) and any(segm.differences(path, result)):
                return f"segm.py, seed {seed}"
        if failed:
            return f"segm.py, exit status {failed}"
        masks = os.path.join(os.path.dirname(__file__), "masks.py")
        failed = subprocess.run([sys.executable, masks, f"{folder}/libfaulty.so", "--seeds", str(seeds)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    except subprocess.TimeoutExpired:
        return "a hang"
    return f"masks.py, exit status {failed.returncode}" if failed.returncode else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("compiler")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="faults whose file or text has this")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        expected = segm.make_sets(folder, range(options.seeds))
        subprocess.run([options.compiler, *FLAGS, f"-I{options.source}/include",
                        f"-I{options.build}/generated", "-c",
                        f"{options.source}/tests/metrics/oracle/segm_eval.c", "-o",
                        f"{folder}/segm_eval.o"], check=True)
        with open(f"{options.source}/metrics/mask.c", encoding="utf-8") as file:
            build(options, folder, "mask.c", file.read())
        caught = is_caught(folder, expected, options.seeds)
        if caught:
            sys.exit(f"without a fault it is caught too, by {caught}")
        faults = [f for f in FAULTS if any(options.only in part for part in f[:2])]
        for name, old, new in faults:
            with open(f"{options.source}/metrics/{name}", encoding="utf-8") as file:
                text = file.read()
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} times: {old}")
            build(options, folder, name, text.replace(old, new))
            caught = is_caught(folder, expected, 3 * options.seeds)
            missed += caught is None
            print(f"{'MISSED' if caught is None else 'caught'} by {caught}: {name}: {old.strip()} "
                  f"-> {new.strip() or 'nothing'}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults caught")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
