#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kolo-coco against pycocotools, from the same files: the lines of summarize(), the twelve numbers,
precision, recall and scores (by their SHA-256) and the AP of each class, alone and under kolorun.

    oracle.py BIN [--seeds N] [--first SEED]

Exits with 77 where pycocotools is not installed (script/bootstrap --oracles).
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../metrics/oracle"))
from coco import COCO, COCOeval, Fixed, make_set, np  # noqa: E402 (exits with 77 without pycocotools)

KEYS = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
WORLDS = (2, 3, 5)


def usable(seed):
    """A set whose parameters the command line has."""
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
        if random.random() < 0.3:  # what Detectron2 writes beside, with what could mislead
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


def by_pycocotools(paths, options):
    lines = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(paths[0])
        evaluation = (Fixed if options["fixed"] else COCOeval)(truth, truth.loadRes(paths[1]), "bbox")
        if options["any"]:
            evaluation.params.useCats = 0
        if options["caps"]:
            evaluation.params.maxDets = options["caps"]
        evaluation.evaluate()
        evaluation.accumulate()
        with contextlib.redirect_stdout(lines):
            evaluation.summarize()
    return evaluation, lines.getvalue()


def mean(values):
    values = values[values > -1]
    return float(np.mean(values)) if values.size else -1.0


def expected_classes(evaluation, options):
    """As summarize() makes its numbers, of one category at a time."""
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]
    caps = options["caps"] or [1, 10, 100]
    for k in range(precision.shape[2]):
        yield {"AP": mean(precision[:, :, k, 0, caps.index(100)]) if 100 in caps else -1.0,
               "AP50": mean(precision[0, :, k, 0, 2]), "AP75": mean(precision[5, :, k, 0, 2]),
               "APs": mean(precision[:, :, k, 1, 2]), "APm": mean(precision[:, :, k, 2, 2]),
               "APl": mean(precision[:, :, k, 3, 2]), "AR1": mean(recall[:, k, 0, 0]),
               "AR10": mean(recall[:, k, 0, 1]), "AR100": mean(recall[:, k, 0, 2]),
               "ARs": mean(recall[:, k, 1, 2]), "ARm": mean(recall[:, k, 2, 2]),
               "ARl": mean(recall[:, k, 3, 2])}


def differences(result, lines, output, evaluation, options):
    if output != lines:
        yield f"summary:\n{lines}kolo-coco:\n{output}"
    for name in ("precision", "recall", "scores"):
        array = np.ascontiguousarray(evaluation.eval[name], "<f8")
        if hashlib.sha256(array.tobytes()).hexdigest() != result["sha256"][name]:
            yield f"{name}: another SHA-256"
        if name == "precision" and list(array.shape) != result["shape"]:
            yield f"shape {result['shape']} instead of {array.shape}"
    if [result["stats"][key] for key in KEYS] != list(evaluation.stats):
        yield f"stats: pycocotools {list(evaluation.stats)}, kolo-coco {result['stats']}"
    for got, expected in zip(result["per_class"], expected_classes(evaluation, options)):
        for key, value in expected.items():
            if got[key] != value:
                yield f"category {got['id']}: {key} {got[key]!r} instead of {value!r}"
        if not options["any"] and got["name"] != f"class {got['id']} \u00e9":
            yield f"category {got['id']}: name {got['name']!r}"
    if len(result["per_class"]) != evaluation.eval["precision"].shape[2]:
        yield f"{len(result['per_class'])} categories"


def run(folder, start, paths, options):
    target = f"{folder}/out.json"
    rule = "2.3" if tuple(int(v) for v in np.__version__.split(".")[:2]) >= (2, 3) else "1"
    command = start + [*paths, "--json", target, "--numpy", rule]
    command += ["--any-category"] if options["any"] else []
    command += ["--mode", "fixed"] if options["fixed"] else []
    command += ["--max-dets", ",".join(map(str, options["caps"]))] if options["caps"] else []
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
    alone = [f"{arguments.bin}/kolo-coco"]
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            made = usable(seed)
            if not made:
                continue
            options = made[4]
            paths = write_files(folder, seed, *made)
            evaluation, lines = by_pycocotools(paths, options)
            ranks = [f"{arguments.bin}/kolorun", "-np", str(WORLDS[seed % len(WORLDS)]),
                     "--no-prefix", "--oversubscribe"]
            for start, files in ((alone, paths), (ranks + alone, [p + ".gz" for p in paths])):
                compared += 1
                result, output = run(folder, start, files, options)
                wrong = list(differences(result, lines, output, evaluation, options))
                failed += bool(wrong)
                for line in wrong:
                    print(f"seed {seed}, {' '.join(start[1:3]) or 'alone'}: {line}")
    print(f"{compared - failed} of {compared} runs say what pycocotools says")
    sys.exit(failed > 0 or compared == 0)


if __name__ == "__main__":
    main()
