#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the evaluation of detections on purpose, one fault at a time, and sees coco.py's sets catch
each: a test of the tests.

    coco_faults.py SOURCE_TREE BUILD_TREE COMPILER [--seeds N] [--only WORD]

Exits with 77 where pycocotools is not installed (script/bootstrap --oracles).
"""
import argparse
import os
import subprocess
import sys
import tempfile

import coco

# file of metrics/, what is there (once), what the fault makes of it
FAULTS = [
    ("coco_box.c", "return a < b ? a : b;", "return a < b ? b : a;"),
    ("coco_box.c", "is_crowd ? area : area", "is_crowd ? truth_area : area"),
    ("coco_box.c", "area + truth_area - both", "area + (truth_area - both)"),
    ("coco_box.c", "area + truth_area - both", "area + truth_area"),
    ("coco_box.c", "overlaps[d * truths + g] =", "overlaps[g * detections + d] ="),
    ("coco_box.c", "        box.w -= box.x;\n", ""),
    ("coco_images.c", "truths->ignored && truths->ignored[i]", "false"),
    ("coco_match.c", "truth->area < area->low ", "truth->area <= area->low "),
    ("coco_match.c", "truth->area > area->high", "truth->area >= area->high"),
    ("coco_match.c", "scratch->taken[g] && !truth[g].is_crowd", "scratch->taken[g]"),
    ("coco_match.c", "overlaps[g] < best", "overlaps[g] <= best"),
    ("coco_match.c", "!scratch->ignored[found] && scratch->ignored[g]", "false"),
    ("coco_match.c", "fmin(threshold, 1 - 1e-10)", "threshold"),
    ("coco_match.c", "} else if (!truth[g].is_unseen) {", "} else {"),
    ("coco_match.c", "scratch->taken[g] = 1;", "scratch->taken[g] = !truth[g].is_unseen;"),
    ("coco_match.c", "areas[d] > params->area[a].high", "areas[d] >= params->area[a].high"),
    ("coco_match.c", "verdict->is_ignored &= ~flag;", ""),
    ("coco_match.c", "memset(scratch->taken, 0, truths);",
     "if (bit == 0) memset(scratch->taken, 0, truths);"),
    ("coco_images.c", "is_crowd || (!is_compatible", "is_crowd || (is_compatible"),
    ("coco_images.c", "comes_before(&slip, &slips[at - 1], by_score)",
     "!comes_before(&slips[at - 1], &slip, by_score)"),
    ("coco_images.c", "params->cap[update->params->caps - 1]", "params->cap[0]"),
    ("coco_images.c", "is_found && update->params->any_category", "false"),
    ("coco_sort.c", "score == 0 ? 0 : score", "score"),
    ("coco_sort.c", "score > records[order[at - 1]].score", "score >= records[order[at - 1]].score"),
    ("coco_curve.c", " + 0x1p-52", ""),
    ("coco_curve.c", "precision > walk->precision[flag * recalls + *reached - 1]", "true"),
    ("coco_curve.c", "precision[r] > highest ? precision[r] : highest", "precision[r]"),
    ("coco_curve.c", "walk->true_before[flag] + ++walk->is_true[flag]", "++walk->is_true[flag]"),
    ("coco_curve.c", "walk->misses_before[flag] + walk->seen", "walk->seen"),
    ("coco_curve.c", "(double)needed / (double)counted < recall",
     "(double)needed / (double)counted <= recall"),
    ("coco_curve.c", "record->position < params->cap[m]", "record->position <= params->cap[m]"),
    ("coco_curve.c", "walk->seen - walk->out_of_area[area] -", "walk->seen -"),
    ("coco_curve.c", "needed[*reached] <= found", "needed[*reached] < found"),
    ("coco_curve.c", "            walk->score[flag * params->recalls] = score;\n", ";"),
    ("coco_params.c", "values[i] = (double)i * step + first;",
     "values[i] = first + (last - first) * (double)i / (double)(count - 1);"),
    ("coco_params.c", "{32 * 32, 96 * 96}", "{32 * 32 + 1, 96 * 96}"),
    ("coco_share.c", "share->place_of[j] = share->place[i];", "share->place_of[j] = (uint32_t)i;"),
    ("coco_share.c", "seats[i].id == seats[i - 1].id", "false"),
    ("coco_pieces.c", "size_t start = share->class_start[k];\n        for",
     "size_t start = share->class_start[k] + (k > 0);\n        for"),
    ("coco_pieces.c", "            start = end;\n", ""),
    ("coco_route.c", "desk[i].place = share->place_of[number];", ""),
    ("coco_route.c", "route->from_places[r] = from->at;", "route->from_places[r] = 0;"),
    ("coco_route.c", "a->score > b->score : a->place < b->place",
     "a->score > b->score : a->place > b->place"),
    ("coco_route.c", "right < count && comes_before", "right < count && !comes_before"),
    ("coco_route.c", "    if (from != numbers)\n        memcpy", "    if (false)\n        memcpy"),
    ("coco_join.c", "            words[i] = sums[i];\n", ""),
    ("coco_join.c", "            values[i] = highest[i];\n", "            values[i] = 0;\n"),
    ("coco_join.c", "            memset(sums, 0, sizeof sums);", "            ;"),
    ("coco_join.c", "            memset(highest, 0, sizeof highest);", "            ;"),
    ("coco_join.c", "size_t first = is_first ? 0 :", "size_t first ="),
    ("coco_join.c", "needed[middle] <= found", "needed[middle] < found"),
    ("coco_join.c", "highest = behind;", "highest = 0;"),
    ("coco_join.c", "arrays->precision[at] = arrays->scores[at] = -1;",
     "arrays->precision[at] = -1;"),
    ("coco_join.c", "recall[at] += (double)", "recall[at] = (double)"),
    ("coco_mean.c", "half -= half % 8;", ""),
    ("coco_mean.c", "if (value > -1)", ""),
]


def make_sets(folder, seeds):
    """The sets in folder, and what each result must begin with."""
    expected = {}
    for seed in seeds:
        made = coco.make_set(seed)
        evaluation, stats = coco.by_pycocotools(*made)
        expected[seed] = (evaluation, stats)
        coco.write_set(f"{folder}/{seed}.set", *made)
    return expected


def is_caught(program, folder, expected):
    """By which seed, or by a program that ends badly; None: not at all."""
    command = [program]
    for seed in expected:
        command += [f"{folder}/{seed}.set", f"{folder}/{seed}.out"]
        if os.path.exists(command[-1]):
            os.remove(command[-1])
    try:
        failed = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=120).returncode
    except subprocess.TimeoutExpired:
        return "a hang"
    for seed, result in expected.items():
        path = f"{folder}/{seed}.out"
        if os.path.exists(path) and any(coco.differences(path, *result)):
            return f"seed {seed}"
    return f"exit status {failed}" if failed else None


def build(options, folder, name, text):
    """coco_eval with one file of the library replaced; the archive gives the rest."""
    flags = ["-std=gnu17", "-O1", "-w", "-ffp-contract=off", "-D_GNU_SOURCE", f"-I{options.source}",
             f"-I{options.source}/include", f"-I{options.build}/generated"]
    changed, program = f"{folder}/{name}", f"{folder}/coco_eval"
    with open(changed, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([options.compiler, *flags, changed,
                    f"{options.source}/tests/metrics/oracle/coco_eval.c", "-o", program,
                    f"{options.build}/lib/libkolo_core.a", "-lcrypto", "-lhwloc", "-lm",
                    "-lpthread"], check=True)
    return program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("compiler")
    parser.add_argument("--seeds", type=int, default=120)
    parser.add_argument("--only", default="", help="faults whose file or text has this")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        expected = make_sets(folder, range(options.seeds))
        faults = [f for f in FAULTS if any(options.only in part for part in f[:2])]
        for name, old, new in faults:
            with open(f"{options.source}/metrics/{name}", encoding="utf-8") as file:
                text = file.read()
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} times: {old}")
            caught = is_caught(build(options, folder, name, text.replace(old, new)), folder, expected)
            missed += caught is None
            print(f"{'MISSED' if caught is None else 'caught'} by {caught}: {name}: {old.strip()} "
                  f"-> {new.strip() or 'nothing'}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults caught")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
