#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates random sets of masks with pycocotools (iouType segm) and with segm_eval: precision,
recall, scores and the twelve numbers must be the same bytes.

    segm.py SEGM_EVAL [--seeds N] [--first SEED] [--keep DIRECTORY]
    segm.py SEGM_EVAL --set FILE

Exits with 77 if pycocotools is not installed (script/bootstrap --oracles). """
import argparse
import contextlib
import io
import os
import sys
import tempfile
import time

try:
    import numpy as np
    from pycocotools import mask as masks
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError as missing:
    print(f"skipped: {missing}; script/bootstrap --oracles installs it", file=sys.stderr)
    sys.exit(77)

import length
import sets

WORLDS = (1, 2, 3, 4, 7)
EDGES = (1024.0, 9216.0, 0.0, 1e10, np.nextafter(1024.0, 0), np.nextafter(9216.0, 1e9))


def draw(random, height, width):
    """An object: an ellipse, a box (some of 1024 or 9216 pixels), specks, all pixels or none."""
    kind, pixels = random.random(), np.zeros((height, width), np.uint8)
    if kind < 0.45:
        y, x = np.mgrid[:height, :width]
        a, b = 2 ** random.normal(4.2, 1, 2) + 1
        pixels[:] = (((y - random.uniform(0, height)) / a) ** 2
                     + ((x - random.uniform(0, width)) / b) ** 2 < 1)
    elif kind < 0.9:
        h, w = ((32, 32), (16, 64), (96, 96), tuple(random.integers(1, 90, 2)))[random.integers(0, 4)]
        y, x = 8 * random.integers(0, height // 8 + 1), 8 * random.integers(0, width // 8 + 1)
        pixels[y:y + h, x:x + w] = 1
    elif kind < 0.96:
        pixels[:] = random.random((height, width)) < 0.2
    elif kind < 0.98:
        pixels[:] = 1
    return pixels


def jitter(random, pixels):
    """A detection of the object, more or less exact. Parts of 1/2, 3/4, ... of it give overlaps
    that equal thresholds."""
    how = random.random()
    if how < 0.2:
        return pixels
    if how < 0.6:
        return np.roll(pixels, (random.integers(-3, 4), random.integers(-6, 7)), (0, 1))
    out = pixels.copy()
    flat = np.flatnonzero(out.T.reshape(-1))
    cut = int(len(flat) * random.choice([0.05, 0.1, 0.25, 0.3, 0.5, 0.55]))
    columns = out.T.copy().reshape(-1)
    columns[flat[:cut]] = 0
    return columns.reshape(pixels.shape[1], pixels.shape[0]).T


def score(random, how):
    value = random.random()
    return float((value, round(value, 1), np.float16(value), np.float32(value))[how])


def make_objects(random, sizes, categories):
    truths, found, how = [], [], random.integers(0, 4)
    for image, (height, width) in enumerate(sizes):
        there = [] if random.random() < 0.15 else [draw(random, height, width)
                                                   for _ in range(random.integers(0, 8))]
        for pixels in there:
            category = int(random.choice(categories))
            area = float(random.choice(EDGES)) if random.random() < 0.2 else \
                float(pixels.sum()) * random.choice([1, 0.9])
            truths.append({"image": image, "category": category, "pixels": pixels, "area": area,
                           "crowd": int(random.random() < 0.15), "ignored": int(random.random() < 0.1)})
            for _ in range(random.choice([0, 1, 1, 2, 3])):
                found.append({"image": image, "pixels": jitter(random, pixels), "category":
                              category if random.random() < 0.92 else int(random.choice(categories))})
        for _ in range(random.integers(0, 4)):
            found.append({"image": image, "category": int(random.choice(categories)),
                          "pixels": draw(random, height, width)})
    if not found:
        found = [{"image": 0, "category": categories[0], "pixels": draw(random, *sizes[0])}]
    for one in truths + found:
        one["rle"] = masks.encode(np.asfortranarray(one["pixels"]))
    found = [found[i] for i in random.permutation(len(found))]
    for one in found:
        one["score"] = score(random, how)
    first = int(random.random() < 0.5)
    for one, number in zip(truths, random.permutation(len(truths))):
        one["id"] = int(number) + first
    return truths, found


def make_set(seed):
    random = np.random.default_rng(seed)
    images = sorted(int(i) for i in random.choice(1000, random.integers(1, 9), replace=False))
    sizes = [(int(h), int(w)) for h, w in random.integers(1, 160, (len(images), 2))]
    categories = sorted(int(i) for i in random.choice(90, random.integers(1, 5), replace=False))
    truths, found = make_objects(random, sizes, categories)
    options = {"any": int(random.random() < 0.15), "fixed": int(random.random() < 0.2),
               "ranks": WORLDS[seed % len(WORLDS)], "deal": seed // 5 % 5,
               "boxes": int(random.random() < 0.2)}
    return images, sizes, categories, truths, found, options


class Fixed(COCOeval):
    """pycocotools with the rules of kolo's fixed mode: the file's ignore is used, and no ground
    truth has the id 0."""

    def _prepare(self):
        super()._prepare()
        for truths in self._gts.values():
            for truth in truths:
                truth["ignore"] = int(truth["iscrowd"] or truth["ignored"])


def annotation(one, images):
    return {"image_id": images[one["image"]], "category_id": one["category"],
            "segmentation": dict(one["rle"])}


def by_pycocotools(images, sizes, categories, truths, found, options):
    with contextlib.redirect_stdout(io.StringIO()):
        coco, results = COCO(), []
        coco.dataset = {"images": [{"id": i, "height": h, "width": w}
                                   for i, (h, w) in zip(images, sizes)], "info": {},
                        "categories": [{"id": k} for k in categories],
                        "annotations": [dict(annotation(t, images), area=t["area"], iscrowd=t["crowd"],
                                             ignored=t["ignored"], id=t["id"] + options["fixed"])
                                        for t in truths]}
        coco.createIndex()
        for one in found:
            results.append(dict(annotation(one, images), score=one["score"]))
            if options["boxes"]:  # then the area is that of the box
                results[-1]["bbox"] = masks.toBbox(one["rle"]).tolist()
        loaded = coco.loadRes(results)
        for one, of_it in zip(found, loaded.dataset["annotations"]):
            one["area"] = float(of_it["area"])
        evaluation = (Fixed if options["fixed"] else COCOeval)(coco, loaded, "segm")
        evaluation.params.useCats = 1 - options["any"]
        start = time.monotonic()
        evaluation.evaluate()
        evaluation.accumulate()
        options["seconds"] = time.monotonic() - start
        evaluation.summarize()
    return sets.named(evaluation.eval, evaluation.stats)


def write_set(path, images, sizes, categories, truths, found, options):
    head = [len(images), len(truths), len(found), len(categories), options["fixed"], sets.numpy_rule(),
            options["any"], options["ranks"], options["deal"], options["boxes"]]
    with open(path, "wb") as file:
        def put(values, kind=np.int64):
            file.write(np.array(values, kind).tobytes())

        put(head + images + [h for h, _ in sizes] + [w for _, w in sizes] + categories)
        for objects, keys in ((truths, ("crowd", "id", "ignored")), (found, ("score",))):
            objects = sorted(objects, key=lambda one: one["image"])
            put([one["image"] for one in objects])
            put([one["category"] for one in objects])
            put([one["area"] for one in objects], float)
            for key in keys:
                put([one[key] for one in objects], float if key == "score" else np.int64)
            put([len(one["rle"]["counts"]) for one in objects])
            file.write(b"".join(one["rle"]["counts"] for one in objects))


def make_sets(folder, seeds):
    """Writes the sets to folder. Returns the expected result of each."""
    expected = {}
    for seed in seeds:
        made = make_set(seed)
        expected[str(seed)] = by_pycocotools(*made)
        write_set(f"{folder}/{seed}.set", *made)
    return expected


def read_set(path):
    """Reads a set that mask_rate wrote."""
    with open(path, "rb") as file:
        def take(count, kind=np.int64):
            return np.frombuffer(file.read(8 * count), kind).tolist()

        head = take(10)
        images, sizes = take(head[0]), list(zip(take(head[0]), take(head[0])))
        categories, lists = take(head[3]), []
        for count, keys in ((head[1], ("crowd", "id", "ignored")), (head[2], ("score",))):
            columns = {"image": take(count), "category": take(count), "area": take(count, float)}
            columns.update((key, take(count, float if key == "score" else np.int64)) for key in keys)
            lengths = take(count)
            objects = [dict(zip(columns, values)) for values in zip(*columns.values())]
            for one, length in zip(objects, lengths):
                one["rle"] = {"size": list(sizes[one["image"]]), "counts": file.read(length)}
            lists.append(objects)
    return images, sizes, categories, lists[0], lists[1], {"any": 0, "fixed": 0, "boxes": 0}


def time_masks(found, truths):
    """The total seconds in which pycocotools compares the masks of each image and category."""
    groups = {}
    for objects, side in ((found, 0), (truths, 1)):
        for one in objects:
            groups.setdefault((one["image"], one["category"]), ([], []))[side].append(one)
    start = time.monotonic()
    for ours, theirs in groups.values():
        if ours and theirs:
            masks.iou([one["rle"] for one in ours], [one["rle"] for one in theirs],
                      [one["crowd"] for one in theirs])
    return time.monotonic() - start


def compare_file(segm_eval, path):
    made = read_set(path)
    print(f"pycocotools: masks.iou of all images and categories {time_masks(made[4], made[3]):.2f} s, "
          "strings read on the way")
    expected = by_pycocotools(*made)
    print(f"pycocotools: evaluate and accumulate {made[5]['seconds']:.2f} s")
    sets.compare_one(segm_eval, path, expected)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("segm_eval")
    parser.add_argument("--seeds", type=int, default=length.seeds(300, 100))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", help="leave the sets there")
    parser.add_argument("--set", help="compare this file of mask_rate, and take the time")
    options = parser.parse_args()
    if options.set:
        compare_file(options.segm_eval, options.set)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        expected = make_sets(folder, range(options.first, options.first + options.seeds))
        failed = sets.compare(options.segm_eval, folder, expected)
    print(f"{len(expected) - failed} of {len(expected)} sets have pycocotools' bytes")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
