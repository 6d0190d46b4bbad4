#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutations.py BIN [--seeds N] [--first SEED]: runs kolo-coco on files with bytes that were
changed, cut, doubled and moved. It must end in time with status 0, or with 1 and one line of error;
a sanitizer must find nothing."""
import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

WORDS = [b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"true", b'""', b"[]", b"{}", b"[" * 70, b"{\"a\":" * 70, b"\\u0000",
         b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"\0", b"9" * 1200, b"9223372036854775808", b"0.5e-400", b'"', b",", b":", b"]", b"}"]


def files(source):
    images = [{"id": i} for i in range(4)]
    categories = [{"id": k, "name": f"class {k}"} for k in (1, 5)]
    truths = [{"id": n, "image_id": source.randrange(4), "category_id": source.choice((1, 5)),
               "bbox": [source.random() * 50, 3, 40.25, 30], "area": 900.5, "iscrowd": n % 7 == 0} for n in range(12)]
    found = [{"image_id": source.randrange(4), "category_id": source.choice((1, 5)), "score": source.random(),
              "bbox": [source.random() * 50, 3, 40.125, 31], "segmentation": {"counts": "a}]\\\""}} for _ in range(30)]
    return (json.dumps({"images": images, "categories": categories, "annotations": truths}).encode(),
            json.dumps(found, indent=source.choice((None, 1))).encode())


def mutate(source, data):
    data = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(len(data) + 1)
        kind = source.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = source.randrange(256)
        elif kind == 1:
            data[at:at] = source.choice(WORDS)
        elif kind == 2:
            del data[at:at + source.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = data[at // 2:at]
        elif kind == 4:
            del data[at:]
        else:
            data[at:at + 1] = source.choice(WORDS)
        data = data or bytearray(b" ")
    return bytes(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    failed = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed in range(options.first, options.first + options.seeds):
            source = random.Random(seed)
            contents = list(files(source))
            which = source.randrange(2)
            packed = source.random() < 0.3
            if packed and source.random() < 0.5:
                contents[which] = mutate(source, gzip.compress(contents[which], mtime=0))
            else:
                contents[which] = mutate(source, contents[which])
                contents[which] = gzip.compress(contents[which], mtime=0) if packed else contents[which]
            for name, content in zip(("gt", "dt"), contents):
                with open(name, "wb") as file:
                    file.write(content)
            done = subprocess.run([f"{options.bin}/kolo-coco", "gt", "dt", "--json", "out", "--per-class"], timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            said = [line for line in done.stderr.splitlines() if not b"warn: KOLO_" in line]
            refused += done.returncode == 1
            good = done.returncode == 0 and not said or done.returncode == 1 and len(said) == 1 and not os.path.exists("out")
            if good and done.returncode == 0:
                with open("out", encoding="utf-8") as file:
                    json.load(file)
                os.remove("out")
            if not good:
                failed += 1
                print(f"seed {seed}: status {done.returncode}: {done.stderr[-2000:].decode(errors='replace')}")
    print(f"{options.seeds} mutated files, {refused} refused, {failed} failed")
    sys.exit(failed > 0 or refused < options.seeds // 3)


if __name__ == "__main__":
    main()
