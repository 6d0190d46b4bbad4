#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates random sets of other kinds and rules than those of coco.py with other implementations
and with coco_eval; the results must be the same bytes:

    keypoints  pycocotools, iouType keypoints
    proposals  pycocotools, useCats 0 and maxDets 100, 300, 1000
    lvis       the lvis package
    voc        a plain reference below, after PASCAL VOC's development kit

    rules.py COCO_EVAL [--seeds N] [--first SEED] [--only FAMILY] [--keep DIRECTORY]

Exits with 77 if the packages are not installed (script/bootstrap --oracles).

Keypoints use exp(), and that of the C library and NumPy's differ in the last bit for some
arguments. Results can show this only if a similarity is that close to a threshold or to another
similarity, and none of these sets has one. """
import argparse
import contextlib
import io
import logging
import os
import sys
import tempfile
import types

try:
    import numpy as np
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    for unused in ("cv2", "matplotlib", "matplotlib.pyplot", "matplotlib.patches"):
        sys.modules.setdefault(unused, types.ModuleType(unused))  # lvis draws with them
    sys.modules["matplotlib.patches"].Polygon = None
    np.float = float  # lvis is older than NumPy 1.24
    from lvis import LVIS, LVISEval, LVISResults
except ImportError as missing:
    print(f"skipped: {missing}; script/bootstrap --oracles installs it", file=sys.stderr)
    sys.exit(77)

import coco
import length
import sets

KINDS = {"boxes": 0, "masks": 1, "keypoints": 2}
RULES = {"coco": 0, "lvis": 1, "voc": 2}
TAG = 1
logging.disable(logging.WARNING)


def options_of(seed, **more):
    options = {"any": 0, "fixed": 0, "corners": 0, "thresholds": [], "recalls": [], "areas": [],
               "caps": [], "ranks": int(coco.WORLDS[seed % len(coco.WORLDS)]), "deal": seed // 6 % 5,
               "kind": "boxes", "rules": "coco", "image_cap": 0, "continuous": 0, "sigmas": [],
               "counts": 0, "absent": {}, "partial": {}, "groups": []}
    return options | more


def pick(random, most, count):
    return sorted(int(i) for i in random.choice(most, count, replace=False))


# ---- keypoints ----

def pose(random, values, points, coarse):
    x, y, w, h = values
    how = random.random()
    seen = random.choice([0, 1, 2], points, p=[1, 0, 0] if how < 0.15 else [0.3, 0.2, 0.5])
    xy = np.stack([x + w * random.random(points), y + h * random.random(points)], 1)
    if coarse:
        xy = 4 * np.round(xy / 4)
    xy[seen == 0] = 0
    return np.concatenate([xy, seen[:, None]], 1).ravel().tolist()


def moved(random, truth, sigmas, coarse):
    """Keypoints whose similarity is about a threshold."""
    points = np.array(truth["keypoints"]).reshape(-1, 3).copy()
    if random.random() < 0.1:
        return points.ravel().tolist()
    if not (points[:, 2] > 0).any():  # then OKS measures distances to the box
        x, y, w, h = truth["bbox"]
        points[:, 0] = x + w * random.uniform(-2, 3, len(points))
        points[:, 1] = y + h * random.uniform(-2, 3, len(points))
    else:
        reach = 2 * sigmas * np.sqrt(max(truth["area"], 1) * -2 * np.log(random.uniform(0.45, 0.99)))
        turn = random.uniform(0, 2 * np.pi, len(points))
        points[:, 0] += reach * np.cos(turn)
        points[:, 1] += reach * np.sin(turn)
    if coarse:
        points[:, :2] = np.round(points[:, :2])
    points[:, 2] = 1
    return points.ravel().tolist()


def keypoints_set(seed):
    random = np.random.default_rng(1000000 + seed)
    coarse = random.random() < 0.4
    images, categories = pick(random, 1000, random.integers(1, 10)), pick(random, 9, random.integers(1, 3))
    options = options_of(seed, kind="keypoints", fixed=int(random.random() < 0.2))
    sigmas = np.array([.26, .25, .25, .35, .35, .79, .79, .72, .72, .62, .62, 1.07, 1.07, .87, .87,
                       .89, .89]) / 10.0
    if random.random() < 0.3:
        sigmas = random.uniform(0.02, 0.12, random.choice([1, 5, 7, 8, 9, 23]))
        options["sigmas"] = sigmas.tolist()
    if random.random() < 0.2:
        options["caps"] = [[5, 20], [1, 20, 30], [3]][random.integers(0, 3)]
    given = [int(i) for i in random.permutation(images)]
    truths = coco.make_truths(random, given, categories, coarse)
    for truth in truths:
        if random.random() < 0.2:
            truth["area"] = 0.0 if random.random() < 0.2 else 1024.0
        truth["keypoints"] = pose(random, truth["bbox"], len(sigmas), coarse)
        truth["num_keypoints"] = int((np.array(truth["keypoints"][2::3]) > 0).sum())
    if random.random() < 0.2:  # as some files have it
        options["counts"] = 1
        for truth in truths:
            if random.random() < 0.3:
                truth["num_keypoints"] = int(random.integers(0, 2))
    found = keypoints_found(random, given, categories, truths, sigmas, coarse)
    return images, categories, truths, found, options


def keypoints_found(random, images, categories, truths, sigmas, coarse):
    found, how = [], random.integers(0, 5)
    for truth in truths:
        for _ in range(random.choice([0, 1, 1, 2, 3] + [12] * (random.random() < 0.1))):
            found.append({"image_id": truth["image_id"], "category_id": truth["category_id"],
                          "keypoints": moved(random, truth, sigmas, coarse)})
    for image in images:
        for _ in range(random.integers(0, 4)):
            found.append({"image_id": image, "category_id": int(random.choice(categories)),
                          "keypoints": pose(random, coco.box(random, coarse), len(sigmas), coarse)})
    if not found:
        found = [{"image_id": images[0], "category_id": categories[0], "keypoints": [1.0] * 3 * len(sigmas)}]
    found = [found[i] for i in random.permutation(len(found))]
    for one in found:
        one["score"] = coco.score(random, how)
        one["bbox"] = [0.0] * 4
    return found


class FixedPoints(coco.Fixed):
    def _prepare(self):
        super()._prepare()
        for truths in self._gts.values():
            for truth in truths:
                truth["ignore"] = int(truth["ignore"] or truth["num_keypoints"] == 0)


def by_keypoints(images, categories, truths, found, options):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {"images": [{"id": i} for i in images],
                         "categories": [{"id": k} for k in categories],
                         "annotations": [dict(t, ignored=t["ignore"], id=t["id"] + options["fixed"])
                                         for t in truths], "info": {}}
        truth.createIndex()
        results = truth.loadRes([{k: v for k, v in f.items() if k != "bbox"} for f in found])
        evaluation = (FixedPoints if options["fixed"] else COCOeval)(truth, results, "keypoints")
        if options["sigmas"]:
            evaluation.params.kpt_oks_sigmas = np.array(options["sigmas"])
        if options["caps"]:
            evaluation.params.maxDets = options["caps"]
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    made = evaluation.eval
    return [("precision", made["precision"]), ("recall", made["recall"]), ("scores", made["scores"]),
            ("stats", evaluation.stats)]


# ---- proposals ----

def proposals_set(seed):
    random = np.random.default_rng(2000000 + seed)
    images, categories = pick(random, 1000, 3), pick(random, 90, random.integers(1, 6))
    truths = coco.make_truths(random, images, categories, False)
    found = coco.make_found(random, images, categories, truths, False)
    for image, count in zip(images, (1100, 350, 120)):
        there = [t for t in truths if t["image_id"] == image]
        for _ in range(count):
            values = coco.box(random, False)
            if there and random.random() < 0.3:
                values = coco.jitter(random, there[random.integers(0, len(there))]["bbox"], False)
            values = [abs(v) if i > 1 else v for i, v in enumerate(values)]
            found.append({"image_id": image, "category_id": categories[0], "bbox": values,
                          "score": round(float(random.random()), 2)})
    found = [found[i] for i in random.permutation(len(found))]
    return images, categories, truths, found, options_of(seed, any=1, caps=[100, 300, 1000])


def by_proposals(*made):
    return sets.named(*coco.by_pycocotools(*made))


# ---- LVIS ----

def lvis_set(seed):
    random = np.random.default_rng(3000000 + seed)
    coarse = random.random() < 0.4
    images, categories = pick(random, 1000, random.integers(1, 10)), pick(random, 1200, random.integers(2, 9))
    given = [int(i) for i in random.permutation(images)]
    truths = coco.make_truths(random, given, categories, coarse)
    found = coco.make_found(random, given, categories, truths, coarse)
    for image in images:  # more detections than the cap of an image
        for _ in range(random.choice([0, 0, 30])):
            found.append({"image_id": image, "category_id": int(random.choice(categories)),
                          "bbox": coco.box(random, coarse), "score": round(float(random.random()), 1)})
    for truth in truths:
        truth["iscrowd"] = 0
    if not found:
        found = [{"image_id": images[0], "category_id": categories[0], "bbox": [1., 2., 3., 4.],
                  "score": 0.5}]
    some = {image: {k for k in categories if random.random() < 0.3} for image in images}
    there = {image: {t["category_id"] for t in truths if t["image_id"] == image} for image in images}
    options = options_of(
        seed, rules="lvis", fixed=int(random.random() < 0.2), caps=[300],  # use_cats 0 finds nothing in lvis
        image_cap=int(random.choice([300, 5, 12, -1])),
        absent={i: sorted(some[i] - there[i]) + [5000] * (i % 2) for i in images},
        partial={i: [int(k) for k in categories if random.random() < 0.3] for i in images},
        groups=[int(g) for g in random.integers(1, 4, len(categories))])
    if options["image_cap"] == 300 and seed % 2:
        options["caps"], options["image_cap"] = [], 0  # kolo's defaults
    return images, categories, truths, found, options


class FixedLVIS(LVIS):
    """lvis with the rules of kolo's fixed mode: objects without an area count."""

    def get_ann_ids(self, img_ids=None, cat_ids=None, area_rng=None):
        return super().get_ann_ids(img_ids, None, None)


class FixedResults(FixedLVIS, LVISResults):
    pass


def by_lvis(images, categories, truths, found, options):
    truth = LVIS.__new__(FixedLVIS if options["fixed"] else LVIS)
    truth.logger = logging.getLogger("lvis")
    truth.dataset = {
        "images": [{"id": i, "neg_category_ids": options["absent"][i],
                    "not_exhaustive_category_ids": options["partial"][i]} for i in images],
        "categories": [{"id": k, "frequency": " rcf"[g]} for k, g in zip(categories, options["groups"])],
        "annotations": [dict(t, id=t["id"] + options["fixed"]) for t in truths]}
    truth._create_index()
    cap = options["image_cap"] or 300
    results = (FixedResults if options["fixed"] else LVISResults)(truth, [dict(f) for f in found], cap)
    evaluation = LVISEval(truth, results, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    made = evaluation.eval
    return [("precision", made["precision"][..., None]), ("recall", made["recall"][..., None]),
            ("scores", made["precision"].size), ("stats", list(evaluation.results.values()))]


# ---- PASCAL VOC ----

def voc_set(seed):
    random = np.random.default_rng(4000000 + seed)
    images, categories = pick(random, 1000, random.integers(1, 12)), pick(random, 20, random.integers(1, 5))
    coarse = random.random() < 0.5
    given = [int(i) for i in random.permutation(images)]
    truths = coco.make_truths(random, given, categories, coarse)
    found = coco.make_found(random, given, categories, truths, coarse)
    for one in truths + found:  # as corners, in whole pixels like the data set's
        x, y, w, h = one["bbox"]
        one["bbox"] = [x, y, x + w, y + h]
        if one in truths or coarse:
            one["bbox"] = [float(round(v)) for v in one["bbox"]]
    options = options_of(seed, rules="voc", corners=1, continuous=int(random.random() < 0.2))
    if options["continuous"]:
        found = [f for f in found if f["bbox"][2] > f["bbox"][0] and f["bbox"][3] > f["bbox"][1]]
    if random.random() < 0.2:
        options["thresholds"] = [0.3, 0.5, 0.7]
        options["recalls"] = [0.0, 0.5, 1.0]
    if random.random() < 0.1:
        options["caps"] = [2, 100]
    return images, categories, truths, found, options


def voc_overlap(a, b, one):
    w, h = min(a[2], b[2]) - max(a[0], b[0]) + one, min(a[3], b[3]) - max(a[1], b[1]) + one
    if w <= 0 or h <= 0:
        return 0.0
    if not one:  # COCO's operations: corners become sizes
        (aw, ah), (bw, bh) = ((c[2] - c[0], c[3] - c[1]) for c in (a, b))
        w = min(aw + a[0], bw + b[0]) - max(a[0], b[0])
        h = min(ah + a[1], bh + b[1]) - max(a[1], b[1])
        return w * h / (aw * ah + bw * bh - w * h)
    return w * h / ((a[2] - a[0] + 1) * (a[3] - a[1] + 1) + (b[2] - b[0] + 1) * (b[3] - b[1] + 1) - w * h)


def voc_curve(images, truths, found, threshold, cap, overlap_of):
    """Recall and precision after each counted detection, the best first; None without ground
    truth."""
    by_image = {i: [f for f in found if f["image_id"] == i] for i in images}
    lines = []
    for place, image in enumerate(images):
        best = sorted(by_image[image], key=lambda f: -f["score"])[:cap]
        lines += [(-f["score"], place, i, f) for i, f in enumerate(best)]
    lines.sort(key=lambda line: line[:3])
    there = {i: [dict(t, taken=False) for t in truths if t["image_id"] == i] for i in images}
    counted = sum(not t["ignore"] for t in truths)
    tp, fp = [], []
    for _, _, _, f in lines:
        best, taken = -np.inf, None
        for truth in there[f["image_id"]]:
            overlap = overlap_of(f, truth)
            if overlap > best:
                best, taken = overlap, truth
        tp.append(0), fp.append(0)
        if best >= threshold:
            if not taken["ignore"]:
                tp[-1], fp[-1] = int(not taken["taken"]), int(taken["taken"])
                taken["taken"] = True
        else:
            fp[-1] = 1
    if not counted:
        return None
    tp, fp = np.cumsum(tp), np.cumsum(fp)
    keep = tp + fp > 0
    return tp[keep] / float(counted), tp[keep] / (tp[keep] + fp[keep])


def voc_area(recall, precision):
    recall, precision = np.concatenate(([0.], recall, [1.])), np.concatenate(([0.], precision, [0.]))
    for i in range(precision.size - 1, 0, -1):
        precision[i - 1] = np.maximum(precision[i - 1], precision[i])
    i = np.where(recall[1:] != recall[:-1])[0]
    return np.sum((recall[i + 1] - recall[i]) * precision[i + 1])


def by_voc(images, categories, truths, found, options, overlap_of=None):
    """overlap_of: a function of two objects; None: the overlap of their boxes."""
    one = not options["continuous"]
    overlap_of = overlap_of or (lambda a, b: voc_overlap(a["bbox"], b["bbox"], one))
    thresholds, caps = options["thresholds"] or [0.5], options["caps"] or [65535]
    points = options["recalls"] or list(np.arange(0., 1.1, 0.1))
    shape = (len(thresholds), len(categories), 1, len(caps))
    precision = np.full((shape[0], len(points)) + shape[1:], -1.0)
    recall, at_points, areas = (np.full(shape, -1.0) for _ in range(3))
    for t, threshold in enumerate(thresholds):
        for k, category in enumerate(categories):
            ours, theirs = ([b for b in boxes if b["category_id"] == category] for boxes in (truths, found))
            for m, cap in enumerate(caps):
                curve = voc_curve(images, ours, theirs, threshold, cap, overlap_of)
                if curve is None:
                    continue
                recall[t, k, 0, m] = curve[0][-1] if curve[0].size else 0
                areas[t, k, 0, m] = voc_area(*curve)
                average = 0.
                for r, point in enumerate(points):
                    reached = curve[1][curve[0] >= point]
                    precision[t, r, k, 0, m] = np.max(reached) if reached.size else 0.
                    average = average + precision[t, r, k, 0, m] / float(len(points))
                at_points[t, k, 0, m] = average
    stats = [np.mean(a[..., -1][a[..., -1] > -1]) if (a[..., -1] > -1).any() else -1.0
             for a in (at_points, areas)]
    return [("precision", precision), ("recall", recall), ("scores", precision.size),
            ("stats", stats), ("points", at_points), ("areas", areas)]


FAMILIES = {"keypoints": (keypoints_set, by_keypoints), "proposals": (proposals_set, by_proposals),
            "lvis": (lvis_set, by_lvis), "voc": (voc_set, by_voc)}


def write_set(path, images, categories, truths, found, options):
    """Writes the set as coco.py does, with a block after it that coco_eval reads."""
    if options["groups"]:  # groups follow the categories, whose order is free
        categories, options = categories[::-1], options | {"groups": options["groups"][::-1]}
    coco.write_set(path, images, categories, truths, found, options)
    lists = [[options[name].get(i, []) for i in images] for name in ("absent", "partial")]
    has_points = options["kind"] == "keypoints"
    points = (len(found[0]["keypoints"]) // 3) if has_points else 0
    head = [TAG, KINDS[options["kind"]], RULES[options["rules"]], options["image_cap"],
            options["continuous"], len(options["sigmas"]), points, options["counts"],
            sum(map(len, lists[0])), sum(map(len, lists[1])), len(options["groups"])]
    parts = [np.array(head, np.int64), np.array(options["sigmas"], float)]
    if has_points:
        parts += [np.array([t["num_keypoints"] for t in truths], np.int64)]
        parts += [np.array([b["keypoints"] for b in boxes], float) for boxes in (truths, found)]
    for one in lists:
        parts += [np.array([len(some) for some in one], np.int64),
                  np.array([k for some in one for k in some], np.int64)]
    parts.append(np.array(options["groups"], np.int64))
    with open(path, "ab") as file:
        for part in parts:
            file.write(part.tobytes())


def make(family, seed, path):
    """Writes a set, and returns its expected result."""
    makes, evaluates = FAMILIES[family]
    made = makes(seed)
    write_set(path, *made)
    return evaluates(*made)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("coco_eval")
    parser.add_argument("--seeds", type=int, default=length.seeds(150, 75), help="sets of each family; a tenth of that of proposals")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", choices=FAMILIES)
    parser.add_argument("--keep", help="a folder to keep the sets in")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        for family in [options.only] if options.only else FAMILIES:
            count = options.seeds // 10 if family == "proposals" else options.seeds
            expected = {}
            for seed in range(options.first, options.first + count):
                name = f"{family}-{seed}"
                expected[name] = make(family, seed, f"{folder}/{name}.set")
            bad = sets.compare(options.coco_eval, folder, expected)
            print(f"{family}: {len(expected) - bad} of {len(expected)} sets have the same bytes")
            failed += bad
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
