#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares kolo-coco, alone and under kolorun, with pycocotools on the same files: the lines of
summarize(), the twelve numbers, precision, recall and scores (by their SHA-256) and the AP of each
class. If faster-coco-eval is installed, also with that: recall and scores have its bytes too, and
precision is the same up to rounding, because it does not add 2^-52 to the denominator.

    oracle.py BIN [--seeds N] [--first SEED]

Exits with 77 if pycocotools is not installed (script/bootstrap --oracles).
"""
import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../metrics/oracle"))
from coco import COCO, COCOeval, Fixed, make_set, np  # noqa: E402 (exits with 77 without pycocotools)
from pycocotools import mask as masks  # noqa: E402

try:
    import faster_coco_eval as faster
except ImportError:
    faster = None

POINT_KEYS = ("AP", "AP50", "AP75", "APm", "APl", "AR", "AR50", "AR75", "ARm", "ARl")
KEYS = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
WORLDS = (2, 3, 5)


def usable(seed):
    """A random set whose parameters kolo-coco's options can express."""
    made = make_set(seed)
    options = made[4]
    return made if len(options["caps"]) in (0, 3) and not (options["thresholds"] or options["areas"]) \
        else None


def write_files(folder, seed, images, categories, truths, found, options):
    random = np.random.default_rng(seed)
    truth_file = {
        "info": {"note": "a \\ and \"annotations\": [{", "nested": [[[]], {"images": []}]},
        "annotations": [dict(t, ignored=t["ignore"], id=t["id"] + options["fixed"],
                             segmentation=[[1.5, 2, 3e0, 4]]) for t in truths],
        "images": [{"id": i, "file_name": f"{i}.jpg", "id_": None} for i in images],
        "categories": [{"id": k, "name": f"class {k} \u00e9"} for k in reversed(categories)]}
    for one in found:
        if random.random() < 0.3:  # a member as Detectron2 writes, misleading here
            one["segmentation"] = {"size": [480, 640], "counts": "X}]\\\"[{,"}
    lines = seed % 2 == 0
    text = json.dumps(found, indent=1 if lines else None)
    paths = f"{folder}/{seed}.gt.json", f"{folder}/{seed}.dt.json"
    with open(paths[0], "w", encoding="utf-8") as file:
        json.dump(truth_file, file, ensure_ascii=seed % 3 == 0)
    with open(paths[1], "w", encoding="utf-8") as file:
        file.write(text)
    for path in paths:
        with open(path, "rb") as file, gzip.open(path + ".gz", "wb") as packed:
            packed.write(file.read())
    return paths


def polygons(random, height, width):
    """One to three polygons, some outside the image, some that cross themselves."""
    out = []
    for _ in range(random.choice([1, 1, 2, 3])):
        middle = random.uniform(0, (width, height))
        points = middle + random.normal(0, random.choice([4, 15, 40]), (random.integers(3, 9), 2))
        out.append([round(float(v), int(random.choice([0, 2, 12]))) for v in points.reshape(-1)])
    return out


def as_mask(shape, height, width):
    """The mask that annToRLE() makes."""
    if isinstance(shape, list):
        return masks.merge(masks.frPyObjects(shape, height, width))
    return masks.frPyObjects(shape, height, width) if isinstance(shape["counts"], list) else shape


def runs_of(mask):
    """The mask as COCO's uncompressed counts."""
    pixels = masks.decode(mask).reshape(-1, order="F")
    ends = np.flatnonzero(np.diff(pixels)) + 1
    edges = np.concatenate(([0], ends, [pixels.size]))
    return ([0] if pixels[0] else []) + [int(v) for v in np.diff(edges)]


def shape_of(random, shape, height, width, is_found):
    """The mask as polygons, runs or a string. In results pycocotools accepts only strings."""
    mask = as_mask(shape, height, width)
    how = 1 if is_found else random.random()
    if how < 0.5:
        return shape
    if how < 0.75:
        return {"size": [height, width], "counts": runs_of(mask)}
    return {"counts": mask["counts"].decode() if isinstance(mask["counts"], bytes) else mask["counts"], "size": [height, width]}


def make_masks(seed):
    random = np.random.default_rng([seed, 1])
    images = [{"id": 3 * i + int(seed % 2), "height": int(random.integers(40, 150)), "width": int(random.integers(40, 150))}
              for i in range(random.integers(1, 8))]
    categories, truths, found = [2, 5, 9], [], []
    by_box = random.random()
    for image in images:
        height, width = image["height"], image["width"]
        for _ in range(random.integers(0, 7)):
            shape = polygons(random, height, width)
            area = float(masks.area(as_mask(shape, height, width)))
            one = {"image_id": image["id"], "category_id": int(random.choice(categories))}
            truths.append(dict(one, segmentation=shape_of(random, shape, height, width, False), bbox=[1, 2, 3, 4], id=len(truths) + 1,
                               area=float(random.choice([area, 1024.0, 9216.0])), iscrowd=int(random.random() < 0.2)))
            for _ in range(random.choice([0, 1, 1, 2])):
                moved = [[v + float(random.normal(0, 1.5)) for v in part] for part in shape]
                found.append(dict(one, segmentation=shape_of(random, moved, height, width, True),
                                  score=round(float(random.random()), int(random.choice([1, 16])))))
    if not found:
        found = [{"image_id": images[0]["id"], "category_id": 2, "score": 0.5, "segmentation":
                  shape_of(random, polygons(random, images[0]["height"], images[0]["width"]), images[0]["height"],
                           images[0]["width"], True)}]
    for i, one in enumerate(found):  # boxes in all, in none, or first an empty one
        box = [float(v) for v in random.uniform(1, 110, 4)]
        if by_box < 0.3:
            one["bbox"] = box
        elif by_box < 0.5:
            one["bbox"] = box if i else []
    return images, categories, truths, found, "segm"


def points(random, spread):
    xy = random.uniform(0, 400, 2) + random.normal(0, spread, (17, 2))
    return np.column_stack((xy, random.integers(0, 3, 17)))


def make_points(seed):
    random = np.random.default_rng([seed, 2])
    images, truths, found = [{"id": int(i)} for i in random.permutation(9)], [], []
    by_box = random.random() < 0.3
    for image in images:
        for _ in range(random.integers(0, 6)):
            here = points(random, random.choice([5, 20, 60]))
            if random.random() < 0.2:
                here[:, 2] = 0
            one = {"image_id": image["id"], "category_id": 1}
            width, height = (float(v) for v in np.ptp(here[:, :2], axis=0))
            truths.append(dict(one, id=len(truths) + 1, iscrowd=int(random.random() < 0.1), area=width * height * 0.6,
                               bbox=[float(here[:, 0].min()), float(here[:, 1].min()), width, height],
                               keypoints=[float(v) for v in here.reshape(-1)], num_keypoints=int((here[:, 2] > 0).sum())))
            for _ in range(random.choice([0, 1, 1, 2, 30])):
                moved = here + np.column_stack((random.normal(0, 4, (17, 2)), np.zeros(17)))
                found.append(dict(one, keypoints=[float(v) for v in moved.reshape(-1)], score=round(float(random.random()), 2)))
                if by_box:
                    found[-1]["bbox"] = [1.0, 2.0, float(random.uniform(5, 200)), float(random.uniform(5, 200))]
    if not found:
        found = [{"image_id": images[0]["id"], "category_id": 1, "score": 0.5, "keypoints": [1.0] * 51}]
    return images, [1], truths, found, "keypoints"


def write_shapes(folder, seed, images, categories, truths, found, kind):
    paths = f"{folder}/{seed}.{kind}.gt.json", f"{folder}/{seed}.{kind}.dt.json"
    contents = ({"images": images, "annotations": truths, "categories": [{"id": k, "name": f"class {k} \u00e9"} for k in categories]},
                found)
    for path, content in zip(paths, contents):
        text = json.dumps(content, indent=seed % 2 or None)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with gzip.open(path + ".gz", "wb") as packed:
            packed.write(text.encode())
    return paths


def sets(folder, first, count):
    """Yields options and paths of sets of boxes, and half as many of masks and of keypoints."""
    for seed in range(first, first + count):
        made = usable(seed)
        if made:
            if seed % 3 == 1:
                made[4].update(borders=[100.5 * (seed % 7 + 1), 5000 + seed], overlaps=[0.3, 0.5, 0.75][seed % 2:])
            yield seed, made[4], write_files(folder, seed, *made)
        if seed % 2 == 0:
            for make in (make_masks, make_points):
                made = make(seed)
                options = {"fixed": 0, "any": 0, "caps": [], "type": made[4]}
                yield seed, options, write_shapes(folder, seed, *made)


def evaluate(evaluation, options):
    if options["any"]:
        evaluation.params.useCats = 0
    if options["caps"]:
        evaluation.params.maxDets = options["caps"]
    if "borders" in options:
        small, large = options["borders"]
        evaluation.params.areaRng = [[0, 1e10], [0, small], [small, large], [large, 1e10]]
        evaluation.params.iouThrs = np.array(options["overlaps"])
    evaluation.evaluate()
    evaluation.accumulate()


def by_faster(paths, options):
    """The evaluation of faster-coco-eval; None if it is not installed or has no such rules."""
    if not faster or options["fixed"]:
        return None
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an id 0
        truth = faster.COCO(paths[0])
        evaluation = faster.COCOeval_faster(truth, truth.loadRes(paths[1]), options.get("type", "bbox"),
                                            print_function=lambda *_: None)
        evaluate(evaluation, options)
    return evaluation


def by_pycocotools(paths, options):
    lines = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(paths[0])
        found = truth.loadRes(paths[1])
        evaluation = (Fixed if options["fixed"] else COCOeval)(truth, found, options.get("type", "bbox"))
        evaluate(evaluation, options)
        with contextlib.redirect_stdout(lines):
            evaluation.summarize()
    return evaluation, lines.getvalue()


def mean(values):
    values = values[values > -1]
    return float(np.mean(values)) if values.size else -1.0


def expected_classes(evaluation, options):
    """The numbers that summarize() would make for each single category."""
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]
    if options.get("type") == "keypoints":
        for k in range(precision.shape[2]):
            p, r = precision[:, :, k, :, 0], recall[:, k, :, 0]
            yield dict(zip(POINT_KEYS, map(mean, (p[:, :, 0], p[0, :, 0], p[5, :, 0], p[:, :, 1], p[:, :, 2],
                                                  r[:, 0], r[0, 0:1], r[5, 0:1], r[:, 1], r[:, 2]))))
        return
    caps = options["caps"] or [1, 10, 100]
    half, most = (options["overlaps"].index(value) for value in (0.5, 0.75)) if "overlaps" in options else (0, 5)
    for k in range(precision.shape[2]):
        yield {"AP": mean(precision[:, :, k, 0, caps.index(100)]) if 100 in caps else -1.0,
               "AP50": mean(precision[half, :, k, 0, 2]), "AP75": mean(precision[most, :, k, 0, 2]),
               "APs": mean(precision[:, :, k, 1, 2]), "APm": mean(precision[:, :, k, 2, 2]),
               "APl": mean(precision[:, :, k, 3, 2]), "AR1": mean(recall[:, k, 0, 0]),
               "AR10": mean(recall[:, k, 0, 1]), "AR100": mean(recall[:, k, 0, 2]),
               "ARs": mean(recall[:, k, 1, 2]), "ARm": mean(recall[:, k, 2, 2]),
               "ARl": mean(recall[:, k, 3, 2])}


def starts(tool_folder, seed):
    """Runs kolo-coco alone and under kolorun."""
    alone = [f"{tool_folder}/kolo-coco"]
    return alone, [f"{tool_folder}/kolorun", "-np", str(WORLDS[seed % len(WORLDS)]), "--no-prefix", "--oversubscribe"] + alone


def differences(result, lines, output, evaluation, options):
    if output != lines:
        yield f"summary:\n{lines}kolo-coco:\n{output}"
    for name in ("precision", "recall", "scores"):
        array = evaluation.eval[name]
        if sha256(array) != result["sha256"][name]:
            yield f"{name}: another SHA-256"
        if name == "precision" and list(array.shape) != result["shape"]:
            yield f"shape {result['shape']} instead of {array.shape}"
    keys = POINT_KEYS if options.get("type") == "keypoints" else KEYS
    if [result["stats"].get(key) for key in keys] != list(evaluation.stats):
        yield f"stats: pycocotools {list(evaluation.stats)}, kolo-coco {result['stats']}"
    for got, expected in zip(result["per_class"], expected_classes(evaluation, options)):
        for key, value in expected.items():
            if got[key] != value:
                yield f"category {got['id']}: {key} {got[key]!r} instead of {value!r}"
        if not options["any"] and got["name"] != f"class {got['id']} \u00e9":
            yield f"category {got['id']}: name {got['name']!r}"
    if len(result["per_class"]) != evaluation.eval["precision"].shape[2]:
        yield f"{len(result['per_class'])} categories"


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array, "<f8").tobytes()).hexdigest()


def differences_from_faster(result, evaluation, other):
    for name in ("recall", "scores"):
        if sha256(other.eval[name]) != result["sha256"][name]:
            yield f"faster-coco-eval has another {name}"
    far = np.abs(evaluation.eval["precision"] - other.eval["precision"]).max()
    if far > 1e-12:
        yield f"faster-coco-eval has another precision, by {far}"


def run(folder, start, paths, options, more=()):
    target = f"{folder}/out.json"
    rule = "2.3" if tuple(int(v) for v in np.__version__.split(".")[:2]) >= (2, 3) else "1"
    command = start + [*paths, "--json", target, "--numpy", rule]
    command += ["--any-category"] if options["any"] else []
    command += ["--iou-type", options["type"]] if "type" in options else []
    command += ["--mode", "fixed"] if options["fixed"] else []
    command += ["--max-dets", ",".join(map(str, options["caps"]))] if options["caps"] else []
    if "borders" in options:
        command += ["--areas", ",".join(map(str, options["borders"])), "--iou-thresholds", ",".join(map(str, options["overlaps"]))]
    command += more
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=60)
    with open(target, encoding="utf-8") as file:
        result = json.load(file)
    os.remove(target)
    return result, done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed, options, paths in sets(folder, arguments.first, arguments.seeds):
            evaluation, lines = by_pycocotools(paths, options)
            other = by_faster(paths, options)
            for start, files in zip(starts(arguments.bin, seed), (paths, [p + ".gz" for p in paths])):
                compared += 1
                result, output = run(folder, start, files, options)
                wrong = list(differences(result, lines, output, evaluation, options))
                wrong += differences_from_faster(result, evaluation, other) if other else []
                failed += bool(wrong)
                for line in wrong:
                    print(f"seed {seed}, {options.get('type', 'bbox')}, {' '.join(start[1:3]) or 'alone'}: {line}")
    print(f"{compared - failed} of {compared} runs say what pycocotools says")
    sys.exit(failed > 0 or compared == 0)


if __name__ == "__main__":
    main()
