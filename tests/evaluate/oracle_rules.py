#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares kolo-coco, alone and under kolorun, with other implementations of rules and keypoints
other than COCO's, on the same files:

    lvis    --rules lvis of boxes and masks against the lvis package: the lines of print_results(), its
            thirteen numbers, precision and recall (by their SHA-256)
    voc     --rules voc of boxes and masks against the plain reference in ../metrics/oracle/rules.py
    sigmas  --sigmas, as a list and as a file, against pycocotools with kpt_oks_sigmas

    oracle_rules.py BIN [--seeds N] [--first SEED]

Exits with 77 if lvis or pycocotools is not installed (script/bootstrap --oracles). """
import argparse
import contextlib
import gzip
import hashlib
import io
import json
import sys
import tempfile

import oracle  # exits with 77 without pycocotools
import rules  # exits with 77 without lvis
from oracle import masks, np

FREQUENCIES = " rcf"


def write(folder, name, images, categories, truths, found):
    paths = f"{folder}/{name}.gt.json", f"{folder}/{name}.dt.json"
    for path, content in zip(paths, ({"images": images, "categories": categories, "annotations": truths}, found)):
        text = json.dumps(content)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with gzip.open(path + ".gz", "wb") as packed:
            packed.write(text.encode())
    return paths


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array, "<f8").tobytes()).hexdigest()


# ---- LVIS ----

def lvis_boxes(seed):
    ids, categories, truths, found, options = rules.lvis_set(seed)
    images = [{"id": i, "neg_category_ids": options["absent"][i], "not_exhaustive_category_ids": options["partial"][i]}
              for i in ids]
    categories = [{"id": k, "name": f"class {k} \u00e9", "frequency": FREQUENCIES[g]}
                  for k, g in zip(categories, options["groups"])]
    for truth in truths:
        del truth["iscrowd"]
    return images, categories, truths, found, options["image_cap"] if options["image_cap"] > 0 else 300


def lvis_masks(seed):
    random = np.random.default_rng([seed, 3])
    images, ids, truths, found, _ = oracle.make_masks(seed)
    for image in images:
        there = {t["category_id"] for t in truths if t["image_id"] == image["id"]}
        image["neg_category_ids"] = [k for k in ids if k not in there and random.random() < 0.5]
        image["not_exhaustive_category_ids"] = [k for k in ids if random.random() < 0.3]
    for truth in truths:
        del truth["iscrowd"]
    has_boxes = all(len(one.get("bbox", [])) == 4 for one in found)
    for one in found:
        if not has_boxes:
            one.pop("bbox", None)
    categories = [{"id": k, "name": f"class {k} \u00e9", "frequency": FREQUENCIES[1 + i % 2]} for i, k in enumerate(ids)]
    return images, categories, truths, found, int(random.choice([300, 2, 5]))


def by_lvis(paths, kind, cap):
    lines = io.StringIO()
    truth = rules.LVIS(paths[0])
    evaluation = rules.LVISEval(truth, rules.LVISResults(truth, paths[1], cap), kind)
    evaluation.run()
    evaluation.results = {key.replace("@300", f"@{cap}"): value for key, value in evaluation.results.items()}
    evaluation.params.max_dets = cap
    with contextlib.redirect_stdout(lines):
        evaluation.print_results()
    return evaluation, lines.getvalue()


def lvis(folder, seed):
    """Yields files, options for kolo-coco, and a function that yields how its output differs."""
    for kind, make in (("bbox", lvis_boxes), ("segm", lvis_masks)):
        *made, cap = make(seed)
        paths = write(folder, f"lvis-{kind}-{seed}", *made)
        evaluation, lines = by_lvis(paths, kind, cap)
        precision = evaluation.eval["precision"]

        def differences(result, output):
            if output != lines:
                yield f"summary:\n{lines}kolo-coco:\n{output}"
            for name in ("precision", "recall"):
                if sha(evaluation.eval[name][..., None]) != result["sha256"][name]:
                    yield f"{name}: another SHA-256"
            if result["stats"] != {key: float(value) for key, value in evaluation.results.items()}:
                yield f"stats: lvis {evaluation.results}, kolo-coco {result['stats']}"
            for k, one in enumerate(result["per_class"]):
                if one["AP"] != oracle.mean(precision[:, :, k, 0]) or one["APs"] != oracle.mean(precision[:, :, k, 1]):
                    yield f"category {one['id']}: {one}"
            if [one["frequency"] for one in result["per_class"]] != [c["frequency"] for c in made[1]]:
                yield "frequencies"

        more = ["--rules", "lvis"] + (["--max-dets", str(cap)] if cap != 300 else [])
        yield paths, {"caps": [], "any": 0, "fixed": 0, "type": kind}, more, differences


# ---- PASCAL VOC ----

def voc_boxes(seed):
    """Rounds coordinates to eighths of a pixel, so that left + width is exact."""
    images, categories, truths, found, options = rules.voc_set(seed)
    for one in truths + found:
        left, top, right, bottom = (round(8 * v) / 8 for v in one["bbox"])
        one["bbox"] = [left, top, max(right, left), max(bottom, top)]
    options.update(recalls=[], caps=[])
    return images, categories, truths, found, options


def as_sizes(one):
    left, top, right, bottom = one["bbox"]
    return dict(one, bbox=[left, top, right - left, bottom - top])


def voc_masks(seed):
    images, categories, truths, found, _ = oracle.make_masks(seed)
    sizes = {i["id"]: (i["height"], i["width"]) for i in images}
    for number, truth in enumerate(truths):
        truth["ignore"] = int(number % 5 == 0)
    runs = {id(one): oracle.as_mask(one["segmentation"], *sizes[one["image_id"]]) for one in truths + found}
    for one in truths + found:
        one["runs"] = runs[id(one)]
    options = rules.options_of(seed, rules="voc", continuous=1)
    return images, categories, truths, found, options


def mask_overlap(a, b):
    return float(masks.iou([a["runs"]], [b["runs"]], [0])[0, 0])


def voc(folder, seed):
    for kind, make in (("bbox", voc_boxes), ("segm", voc_masks)):
        images, categories, truths, found, options = make(seed)
        if kind == "segm":
            ids = [image["id"] for image in images]
        else:
            ids, images = images, [{"id": i} for i in images]
        expected = dict(rules.by_voc(ids, categories, truths, found, options, mask_overlap if kind == "segm" else None))
        files = [[{k: v for k, v in (one if kind == "segm" else as_sizes(one)).items() if k != "runs"} for one in some]
                 for some in (truths, found)]
        for truth in files[0]:  # either word
            if seed % 2:
                truth["difficult"] = truth.pop("ignore")
        paths = write(folder, f"voc-{kind}-{seed}", images, [{"id": k, "name": "x"} for k in categories], *files)
        drawn = sorted(categories)
        order = [categories.index(k) for k in drawn]

        def differences(result, output):
            for ours, theirs in (("AP11", "points"), ("APauc", "areas"), ("recall", "recall"), ("precision", "precision")):
                array = expected[theirs]
                array = array[:, :, order] if theirs == "precision" else array[:, order]
                if sha(array) != result["sha256"][ours]:
                    yield f"{ours}: another SHA-256"
            stats = dict(zip(("AP11", "APauc"), expected["stats"]))
            if result["stats"] != stats:
                yield f"stats: {stats}, kolo-coco {result['stats']}"
            if [f"{value:.3f}" for value in stats.values()] != [line.split()[-1] for line in output.splitlines()]:
                yield f"lines: {output}"
            for k, one in zip(order, result["per_class"]):
                if abs(one["AP11"] - np.mean(expected["points"][:, k])) > 1e-12:
                    yield f"category {one['id']}: {one}"

        more = ["--rules", "voc"] + (["--pixel-boxes"] if kind == "bbox" and not options["continuous"] else [])
        more += ["--iou-thresholds", ",".join(map(str, options["thresholds"]))] if options["thresholds"] else []
        yield paths, {"caps": [], "any": 0, "fixed": 0, "type": kind}, more, differences


# ---- keypoints ----

def sigmas(folder, seed):
    images, categories, truths, found, options = rules.keypoints_set(seed)
    if not options["sigmas"] or len(options["caps"]) > 1 or options["counts"]:
        return
    expected = dict(rules.by_keypoints(images, categories, truths, found, options))
    names = [f"point {i}" for i in range(len(options["sigmas"]))]
    truths = [dict(truth, id=truth["id"] + options["fixed"]) for truth in truths]
    found = [{k: v for k, v in one.items() if k != "bbox"} for one in found]
    paths = write(folder, f"sigmas-{seed}", [{"id": i} for i in images],
                  [{"id": k, "keypoints": names, "skeleton": [[1, 2]]} for k in categories], truths, found)
    given = ",".join(map(repr, options["sigmas"]))
    if seed % 2:
        with open(f"{folder}/{seed}.sigmas", "w", encoding="utf-8") as file:
            json.dump(options["sigmas"], file, indent=1)
        given = file.name

    def differences(result, output):
        for name in ("precision", "recall", "scores"):
            if sha(expected[name]) != result["sha256"][name]:
                yield f"{name}: another SHA-256"
        if list(result["stats"].values()) != list(expected["stats"][:10]):
            yield f"stats: {expected['stats']}, kolo-coco {result['stats']}"
        if output.count("Average") != 10:
            yield f"lines: {output}"

    yield paths, {"caps": options["caps"], "any": 0, "fixed": options["fixed"], "type": "keypoints"}, \
        ["--sigmas", given], differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for family in (lvis, voc, sigmas):
                for paths, options, more, differences in family(folder, seed):
                    files = (paths, [path + ".gz" for path in paths])
                    for start, some in zip(oracle.starts(arguments.bin, seed), files):
                        compared += 1
                        wrong = list(differences(*oracle.run(folder, start, some, options, more)))
                        failed += bool(wrong)
                        for line in wrong:
                            print(f"seed {seed}, {' '.join(more)} {options['type']}, {' '.join(start[1:3]) or 'alone'}: {line}")
    print(f"{compared - failed} of {compared} runs say what the references say")
    sys.exit(failed > 0 or compared == 0)


if __name__ == "__main__":
    main()
