#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates random sets of boxes with pycocotools and with coco_eval: precision, recall, scores and
the twelve numbers must be the same bytes. If faster-coco-eval is installed, it must agree with
pycocotools on the same sets: recall and scores are equal, precision up to rounding.

    coco.py COCO_EVAL [--seeds N] [--first SEED] [--keep DIRECTORY]
    coco.py COCO_EVAL --torch ...       with TorchMetrics' thresholds and recalls
    coco.py COCO_EVAL --wild ...        with boxes of no area, of 1e-160, 1e150 and the like, and of
                                        areas that underflow, whose overlap is NaN: faster-coco-eval
                                        matches those in another way than pycocotools and kolo
    coco.py COCO_EVAL --set FILE

Exits with 77 if pycocotools is not installed (script/bootstrap --oracles). """
import argparse
import contextlib
import importlib.metadata
import io
import os
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError as missing:
    print(f"skipped: {missing}; script/bootstrap --oracles installs it", file=sys.stderr)
    sys.exit(77)

import sets

TORCH32, TORCH32_V1 = 1, 2  # KOLO_THRESHOLDS_TORCH32 and so on
WORLDS = (2, 3, 4, 7, 8, 16)
TRANSPORTS = ("auto", "shm", "tcp")
# So many sets are also evaluated over shm and tcp: enough to have each way of dealing to each
# world, with many categories and with one that is split by score (30 x 8 seeds have 120 of them).
# More are not needed, because the way of the bytes does not depend on the boxes.
OVER_ALL = 120
THRESHOLDS = np.linspace(0.5, 0.95, 10)
WILD = (0.0, -0.0, 5e-324, 1e-160, 1e-30, 1 / 3, 0.5, 1.0, 3.0, 32.0, 96.0, 2.0 ** 53, 1e30, 1e150, -5.0, -1e30)
AT_EDGES = (1024.0, 9216.0, 0.0, 1e10, np.nextafter(1024.0, 0), np.nextafter(9216.0, 1e9))


def box(random, coarse):
    side = 2 ** random.normal(4.5, 1.6)
    w, h = side * 2 ** random.normal(0, 0.4), side * 2 ** random.normal(0, 0.4)
    x, y = random.uniform(0, 300), random.uniform(0, 300)
    values = [x, y, w, h]
    if coarse:  # equal overlaps, and areas at the edges of the ranges
        values = [float(16 * round(v / 16)) for v in values]
    return values


def jitter(random, values, coarse):
    x, y, w, h = values
    if random.random() < 0.15:
        return [x, y, w, h]
    if random.random() < 0.15:  # an overlap that equals a threshold, except for rounding
        return [x, y, w * random.choice(THRESHOLDS), h]
    move = random.choice([0.02, 0.1, 0.3])
    out = [x + w * random.normal(0, move), y + h * random.normal(0, move),
           w * 2 ** random.normal(0, move), h * 2 ** random.normal(0, move)]
    if coarse:
        out = [float(8 * round(v / 8)) for v in out]
    return out


def score(random, how):
    value = random.random()
    if how == 0:
        return float(value)
    if how == 1:
        return round(float(value), 1)  # many ties
    if how == 2:
        return float(np.float16(value))
    if how == 3:
        return float(random.choice([0.0, -0.0, 0.5, 1.0, -1.5]))
    return float(np.float32(value))


def make_truths(random, images, categories, coarse):
    truths = []
    for image in images:
        if random.random() < 0.15:
            continue
        for _ in range(random.integers(0, 9)):
            values = box(random, coarse)
            area = values[2] * values[3] * random.uniform(0.45, 0.95)
            if random.random() < 0.2:
                area = float(random.choice(AT_EDGES))
            truths.append({"image_id": image, "category_id": int(random.choice(categories)),
                           "bbox": values, "area": area, "iscrowd": int(random.random() < 0.1),
                           "ignore": int(random.random() < 0.2)})
    first = 0 if random.random() < 0.5 else 1
    ids = [int(i) for i in random.permutation(len(truths)) + first]
    for truth, number in zip(truths, ids):
        truth["id"] = number
    return truths


def make_found(random, images, categories, truths, coarse):
    found, how = [], random.integers(0, 5)
    crowded = random.random() < 0.1  # more than 100 detections for one image and category
    for truth in truths:
        for _ in range(random.choice([0, 1, 1, 2, 3])):
            category = truth["category_id"]
            if random.random() < 0.08:
                category = int(random.choice(categories))
            found.append({"image_id": truth["image_id"], "category_id": category,
                          "bbox": jitter(random, truth["bbox"], coarse)})
    for image in images:
        for _ in range(random.integers(0, 6)):
            found.append({"image_id": image, "category_id": int(random.choice(categories)),
                          "bbox": box(random, coarse)})
    if crowded and truths:
        for _ in range(130):
            truth = truths[0]
            found.append({"image_id": truth["image_id"], "category_id": truth["category_id"],
                          "bbox": jitter(random, truth["bbox"], coarse)})
    found = [found[i] for i in random.permutation(len(found))]
    for one in found:
        one["bbox"] = [abs(v) if i > 1 else v for i, v in enumerate(one["bbox"])]
        one["score"] = score(random, how)
    return found


def has_exact_corners(boxes):
    """True if computing right from left and width, and width from right, rounds nothing."""
    return all(b["bbox"][i] + b["bbox"][i + 2] - b["bbox"][i] == b["bbox"][i + 2]
               for b in boxes for i in (0, 1))


def make_set(seed):
    random = np.random.default_rng(seed)
    coarse = random.random() < 0.5
    images = sorted(int(i) for i in random.choice(1000, random.integers(1, 14), replace=False))
    categories = sorted(int(i) for i in random.choice(90, random.integers(1, 6), replace=False))
    if seed % 8 == 7:  # a single category: it is split by score among the ranks
        categories = categories[:1]
    given = [int(i) for i in random.permutation(images)]
    truths = make_truths(random, given, categories, coarse)
    if random.random() < 0.1:  # a category without ground truth
        truths = [t for t in truths if t["category_id"] != categories[0]]
    found = make_found(random, given, categories, truths, coarse)
    if random.random() < 0.1:  # a category without detections
        found = [f for f in found if f["category_id"] != categories[-1]]
    if not found:
        found = [{"image_id": images[0], "category_id": categories[0], "bbox": [1., 2., 3., 4.],
                  "score": 0.5}]
    options = {"any": int(random.random() < 0.15), "thresholds": [], "recalls": [], "areas": [],
               "caps": [], "ranks": int(WORLDS[seed % len(WORLDS)]), "deal": seed // 6 % 5}
    options["fixed"] = int(random.random() < 0.2)
    options["corners"] = int(has_exact_corners(truths) and has_exact_corners(found))
    if random.random() < 0.15:
        options["caps"] = [[1, 10, 50], [2, 5, 100, 300], [3, 7, 9]][random.integers(0, 3)]
    if random.random() < 0.1:
        options["thresholds"] = [0.3, 0.5, 0.6999, 0.75, 1.0]
        options["recalls"] = [0.0, 0.25, 1 / 3, 0.5, 0.99, 1.0]
    if random.random() < 0.1:
        options["areas"] = [[0.0, 1e10], [0.0, 2048.0], [2048.0, 1e10]]
    return images, categories, truths, found, options


def make_wild(made, seed):
    """The set with awkward boxes, some of them equal."""
    random, (images, categories, truths, found, options) = np.random.default_rng([seed, 1]), made
    for one in truths + found:
        if truths and random.random() < 0.3:
            one["bbox"] = list(truths[random.integers(len(truths))]["bbox"])
        values = [float(random.choice(WILD)) if random.random() < 0.4 else value for value in one["bbox"]]
        values[2:] = map(abs, values[2:])
        if np.isfinite([values[0] + values[2], values[1] + values[3], values[2] * values[3]]).all():
            one["bbox"] = values
    options["corners"] = int(has_exact_corners(truths) and has_exact_corners(found))
    return images, categories, truths, found, options


def torch_grids():
    """The thresholds and recalls that torchmetrics.detection.MeanAveragePrecision makes, and by which
    of kolo's modes."""
    try:
        is_old = importlib.metadata.version("torch").startswith("1.")
        if is_old:
            os.environ["ATEN_CPU_CAPABILITY"] = "default"  # vectors of eight floats on every machine
        import torch
    except ImportError as missing:
        print(f"skipped: {missing}; script/bootstrap --torch installs it", file=sys.stderr)
        sys.exit(77)
    return {"thresholds": torch.linspace(0.5, 0.95, round((0.95 - 0.5) / 0.05) + 1).tolist(),
            "recalls": torch.linspace(0.0, 1.0, round(1.0 / 0.01) + 1).tolist(),
            "torch32": TORCH32_V1 if is_old else TORCH32}


def with_grids(grids, options):
    """The set's options, with the thresholds and recalls of @p grids if the set has none of its
    own."""
    options["torch32"] = grids["torch32"] if grids else 0
    return options if options["thresholds"] or not grids else options | grids


class Fixed(COCOeval):
    """pycocotools with the rules of kolo's fixed mode: the file's ignore is used, and no ground
    truth has the id 0."""

    def _prepare(self):
        super()._prepare()
        for truths in self._gts.values():
            for truth in truths:
                truth["ignore"] = int(truth["iscrowd"] or truth["ignored"])


def run(evaluation, options):
    """Evaluates with the options of a set. Returns the numbers, if it has those."""
    params = evaluation.params
    if options["any"]:
        params.useCats = 0
    if options["caps"]:
        params.maxDets = options["caps"]
    if options["thresholds"]:
        params.iouThrs, params.recThrs = map(np.array, (options["thresholds"], options["recalls"]))
    if options["areas"]:
        params.areaRng, params.areaRngLbl = options["areas"], ["all", "small", "medium"]
    start = time.monotonic()
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.eval["seconds"] = time.monotonic() - start
    if options["areas"]:
        return None
    evaluation.summarize()
    return evaluation.stats


def by_pycocotools(images, categories, truths, found, options):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {"images": [{"id": i} for i in images],
                        "categories": [{"id": k} for k in categories],
                        "annotations": [dict(t, ignored=t["ignore"], id=t["id"] + options["fixed"])
                                        for t in truths], "info": {}}
        coco.createIndex()
        kind = Fixed if options["fixed"] else COCOeval
        evaluation = kind(coco, coco.loadRes([dict(f) for f in found]), "bbox")
        stats = run(evaluation, options)
    return evaluation.eval, stats


def by_faster(images, categories, truths, found, options):
    """What by_pycocotools returns, of faster-coco-eval; None if it is not installed."""
    try:
        from faster_coco_eval import COCO as FasterCOCO, COCOeval_faster
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an id 0
        coco = FasterCOCO({"images": [{"id": i} for i in images], "categories": [{"id": k, "name": str(k)} for k in categories],
                           "annotations": [dict(t) for t in truths], "info": {}})
        evaluation = COCOeval_faster(coco, coco.loadRes([dict(f) for f in found]), "bbox", print_function=lambda *_: None)
        stats = run(evaluation, options)
    return evaluation.eval, stats


def differs_from_faster(expected, made):
    """What of pycocotools' arrays faster-coco-eval has not: it does not add 2^-52 to the
    denominator of a precision, and computes all else in the same way."""
    found = by_faster(*made) if not made[4]["fixed"] else None
    if not found:
        return []
    return [name for name in ("precision", "recall", "scores")
            if expected[name].shape != found[0][name].shape or
            np.abs(expected[name] - found[0][name]).max() > (1e-12 if name == "precision" else 0)]


def write_set(path, images, categories, truths, found, options):
    mode = options["fixed"] + 2 * options.get("torch32", 0)
    head = [len(images), len(truths), len(found), len(categories), mode, sets.numpy_rule(),
            options["any"], options["ranks"], options["deal"], options["corners"], len(options["thresholds"]),
            len(options["recalls"]), len(options["areas"]), len(options["caps"])]
    parts = [np.array(head, np.int64), np.array(images, np.int64), np.array(categories, np.int64),
             np.array(options["thresholds"], float), np.array(options["recalls"], float),
             np.array(options["areas"], float), np.array(options["caps"], np.int64)]
    for boxes in (truths, found):
        parts += [np.array([b["image_id"] for b in boxes], np.int64),
                  np.array([b["category_id"] for b in boxes], np.int64),
                  np.array([b["bbox"] for b in boxes], float)]
    parts.append(np.array([f["score"] for f in found], float))
    tail = [np.array([t["area"] for t in truths], float)]
    tail += [np.array([t[key] for t in truths], np.int64) for key in ("iscrowd", "id", "ignore")]
    parts = parts[:10] + tail + parts[10:]
    with open(path, "wb") as file:
        for part in parts:
            file.write(part.tobytes())


def read_set(path):
    """Reads a set of write_set or detection_rate, without its options."""
    with open(path, "rb") as file:
        def take(count, kind=np.int64):
            return np.frombuffer(file.read(8 * count), kind).tolist()

        head = take(14)
        images, categories = take(head[0]), take(head[3])
        lists = []
        for count in head[1:3]:
            image, category = take(count), take(count)
            box = np.array(take(4 * count, float)).reshape(-1, 4).tolist()
            boxes = [{"image_id": i, "category_id": k, "bbox": b}
                     for i, k, b in zip(image, category, box)]
            names = ("area", "iscrowd", "id", "ignore") if not lists else ("score",)
            for name in names:
                values = take(count, float if name in ("area", "score") else np.int64)
                for one, value in zip(boxes, values):
                    one[name] = value
            lists.append(boxes)
    options = {"any": 0, "fixed": 0, "thresholds": [], "recalls": [], "areas": [], "caps": []}
    return images, categories, lists[0], lists[1], options


def compare_file(coco_eval, path):
    made = read_set(path)
    faster = by_faster(*made)
    if faster:
        print(f"faster-coco-eval: evaluate and accumulate {faster[0]['seconds']:.2f} s, AP {faster[1][0]!r}", flush=True)
    start = time.monotonic()
    expected = by_pycocotools(*made)
    print(f"pycocotools: {time.monotonic() - start:.2f} s with its index, of which evaluate and "
          f"accumulate {expected[0]['seconds']:.2f} s")
    sets.compare_one(coco_eval, path, sets.named(*expected))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("coco_eval")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--torch", action="store_true", help="TorchMetrics' thresholds and recalls")
    parser.add_argument("--wild", action="store_true", help="awkward boxes")
    parser.add_argument("--keep", help="leave the sets there")
    parser.add_argument("--set", help="compare this file of detection_rate, and take the time")
    options = parser.parse_args()
    if options.set:
        compare_file(options.coco_eval, options.set)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        seeds = range(options.first, options.first + options.seeds)
        expected, others, grids = {}, 0, torch_grids() if options.torch else {}
        for seed in seeds:
            made = make_wild(make_set(seed), seed) if options.wild else make_set(seed)
            evaluation, stats = by_pycocotools(*made[:4], with_grids(grids, made[4]))
            expected[str(seed)] = sets.named(evaluation, stats)
            for name in differs_from_faster(evaluation, (*made[:4], with_grids(grids, made[4]))) if not options.wild else []:
                others += 1
                print(f"{seed}: faster-coco-eval has another {name} than pycocotools")
            write_set(f"{folder}/{seed}.set", *made)
        some = expected if os.environ.get("TEST_SOAK") == "1" else dict(list(expected.items())[:OVER_ALL])
        runs = {over: expected if over == TRANSPORTS[0] else some for over in TRANSPORTS}
        failed = sum(sets.compare(options.coco_eval, folder, some, over) for over, some in runs.items())
    total = sum(map(len, runs.values()))
    print(f"{total - failed} of {total} runs have pycocotools' bytes: "
          f"{', '.join(f'{len(some)} sets over {over}' for over, some in runs.items())}")
    sys.exit(failed + others > 0)


if __name__ == "__main__":
    main()
