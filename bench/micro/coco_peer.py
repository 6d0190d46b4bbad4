#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long pycocotools or faster_coco_eval take from files to numbers, for
bench/detection: coco_peer.py PACKAGE GT.json DT.json [bbox|segm|keypoints] calls the package as its
users do, and prints one line of JSON with the seconds (without the import), the numbers, and the
peak memory of the process."""
import contextlib
import io
import json
import resource
import sys
import time


def main():
    package, truths, detections, *kind = sys.argv[1:]
    if package == "pycocotools":
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    else:
        from faster_coco_eval import COCO, COCOeval_faster as COCOeval
    times = [time.monotonic()]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(truths)
        found = truth.loadRes(detections)
        times.append(time.monotonic())
        evaluation = COCOeval(truth, found, *(kind or ["bbox"]))
        evaluation.evaluate()
        evaluation.accumulate()
        times.append(time.monotonic())
        evaluation.summarize()
    times.append(time.monotonic())
    print(json.dumps({"reading": times[1] - times[0], "evaluate": times[2] - times[1], "all": times[3] - times[0],
                      "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                      "stats": [float(value) for value in evaluation.stats]}))


if __name__ == "__main__":
    main()
