#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: builds the code of masks with one fault at a time, and checks that masks.py or
segm.py catches each fault.

    mask_faults.py [--seeds N] [--only WORD] SOURCE_TREE BUILD_TREE COMPILER...

Exits with 77 if pycocotools is not installed (script/bootstrap --oracles). """
import os
import re
import subprocess
import sys

import faults
import segm
import sets

# file of metrics/, text that it has once, text that the fault replaces it by
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
    ("mask_polygon.c", "(int)((double)PARTS * pixels + .5)", "(int)floor((double)PARTS * pixels + .5)"),
    ("mask_polygon.c", "(int)((double)PARTS * pixels + .5)", "(int)((double)PARTS * pixels)"),
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


def is_caught(folder, expected, seeds):
    caught = sets.caught_by(f"{folder}/segm_eval", folder, expected, [list(expected)], 60)
    if caught:
        return f"segm.py, {caught}"
    masks = os.path.join(os.path.dirname(__file__), "masks.py")
    try:
        failed = subprocess.run([sys.executable, masks, f"{folder}/libfaulty.so", "--seeds", str(seeds),
                                 "--one-will-do"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    except subprocess.TimeoutExpired:
        return "masks.py, a hang"
    return f"masks.py, exit status {failed.returncode}" if failed.returncode else None


def prepare(tree, folder, seeds):
    """Returns functions that build segm_eval and a library of masks with one file replaced, and
    that run them."""
    expected = segm.make_sets(folder, range(seeds))
    program, wrong = f"{folder}/segm_eval", f"{folder}/changed.o"
    tree.compile("-c", f"{tree.source}/tests/metrics/oracle/segm_eval.c", "-o", f"{program}.o")
    wanted = set(re.findall(r"\bkolo_mask_\w+(?=\()", tree.read("include/kolo/mask.h")))
    wanted = [f"-Wl,-u,{name}" for name in sorted(wanted | {"kolo_error_detail"})]

    def build(name, text):
        tree.compile("-c", faults.write(f"{folder}/{name}", text), "-o", wrong)
        tree.compile(wrong, f"{program}.o", "-o", program, *tree.libraries())
        tree.compile("-shared", wrong, "-o", f"{folder}/libfaulty.so", *wanted, *tree.libraries())

    return build, lambda name: is_caught(folder, expected, 3 * seeds)


if __name__ == "__main__":
    faults.run(FAULTS, 20, prepare)
