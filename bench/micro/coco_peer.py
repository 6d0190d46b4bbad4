#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long others take from files to numbers, for bench/RESULTS.md: files.py PACKAGE GT.json DT.json [bbox|segm|keypoints]
reads them as their users do and prints the seconds, without the import, the numbers, and the most memory of the process.
PACKAGE: pycocotools or faster_coco_eval."""
import contextlib
import io
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
        evaluation.summarize()
    times.append(time.monotonic())
    print(f"{package}: {times[2] - times[0]:.2f} s, {times[1] - times[0]:.2f} of them reading; "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    print([float(value) for value in evaluation.stats])


if __name__ == "__main__":
    main()
