#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares pycocotools.mask with the library on random masks and polygons, some of them degenerate:
runs, strings, areas, boxes, merged masks and overlaps must be the same bytes.

    masks.py LIBKOLO [--seeds N] [--first SEED] [--one-will-do]

Exits with 77 if pycocotools is not installed (script/bootstrap --oracles). """
import argparse
import ctypes
import sys

import length

try:
    import numpy as np
    from pycocotools import mask as oracle
except ImportError as missing:
    print(f"skipped: {missing}; script/bootstrap --oracles installs it", file=sys.stderr)
    sys.exit(77)


class Mask(ctypes.Structure):
    _fields_ = [("height", ctypes.c_uint32), ("width", ctypes.c_uint32), ("count", ctypes.c_size_t),
                ("runs", ctypes.POINTER(ctypes.c_uint32)), ("room", ctypes.c_size_t)]


class Kolo:
    """The library's functions with pycocotools' arguments and results."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.kolo_error_detail.restype = ctypes.c_char_p
        self.made = []

    def call(self, name, *args):
        status = getattr(self.library, name)(*args)
        if status:
            raise ValueError(f"{name}: {self.library.kolo_error_detail().decode()}")

    def new(self):
        self.made.append(Mask())
        return self.made[-1]

    def free(self):
        for mask in self.made:
            self.library.kolo_mask_free(ctypes.byref(mask))
        self.made = []

    def from_string(self, rle):
        mask, text = self.new(), rle["counts"]
        self.call("kolo_mask_from_string", text, ctypes.c_size_t(len(text)), *rle["size"],
                  ctypes.byref(mask))
        return mask

    def from_runs(self, runs, height, width):
        mask, runs = self.new(), np.ascontiguousarray(runs, np.uint32)
        self.call("kolo_mask_from_runs", runs.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_size_t(len(runs)), height, width, ctypes.byref(mask))
        return mask

    def from_polygon(self, xy, height, width):
        mask = self.new()
        self.call("kolo_mask_from_polygon", (ctypes.c_double * len(xy))(*xy),
                  ctypes.c_size_t(len(xy) // 2), height, width, ctypes.byref(mask))
        return mask

    def from_box(self, box, height, width):
        mask = self.new()
        self.call("kolo_mask_from_box", (ctypes.c_double * 4)(*box), height, width,
                  ctypes.byref(mask))
        return mask

    def from_pixels(self, pixels, by_rows):
        mask, (height, width) = self.new(), pixels.shape
        data = np.ascontiguousarray(pixels if by_rows else pixels.T).tobytes()
        self.call("kolo_mask_from_pixels", data, ctypes.c_bool(by_rows), height, width,
                  ctypes.byref(mask))
        return mask

    def runs(self, mask):
        return np.ctypeslib.as_array(mask.runs, (mask.count,)) if mask.count else np.zeros(0, np.uint32)

    def to_string(self, mask):
        length = ctypes.c_size_t()
        self.call("kolo_mask_to_string", ctypes.byref(mask), None, ctypes.c_size_t(0),
                  ctypes.byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        self.call("kolo_mask_to_string", ctypes.byref(mask), text, ctypes.c_size_t(len(text)), None)
        return text.value

    def to_pixels(self, mask, by_rows):
        pixels = np.zeros(mask.height * mask.width, np.uint8)
        self.call("kolo_mask_to_pixels", ctypes.byref(mask), ctypes.c_bool(by_rows),
                  pixels.ctypes.data_as(ctypes.c_void_p))
        return (pixels.reshape(mask.height, mask.width) if by_rows
                else pixels.reshape(mask.width, mask.height).T)

    def area(self, mask):
        area = ctypes.c_uint32()
        self.call("kolo_mask_area", ctypes.byref(mask), ctypes.byref(area))
        return area.value

    def box(self, mask):
        box = (ctypes.c_double * 4)()
        self.call("kolo_mask_box", ctypes.byref(mask), box)
        return list(box)

    def merge(self, masks, intersect):
        mask = self.new()
        self.call("kolo_mask_merge", (Mask * len(masks))(*masks), ctypes.c_size_t(len(masks)),
                  ctypes.c_bool(intersect), ctypes.byref(mask))
        return mask

    def overlaps(self, found, truths, crowds):
        made = np.zeros((len(found), len(truths)))
        self.call("kolo_mask_overlaps", (Mask * len(found))(*found), ctypes.c_size_t(len(found)),
                  (Mask * len(truths))(*truths), ctypes.c_size_t(len(truths)),
                  (ctypes.c_uint8 * len(crowds))(*crowds), made.ctypes.data_as(ctypes.c_void_p))
        return made


def runs_of(rle):
    """The runs of a compressed string, as COCO describes it. A number has digits of 5 bits, the
    lowest first, each with a bit that says whether more follow; the last digit has the sign. From
    the fourth run on, the number is the difference from the run before the last."""
    digits = np.frombuffer(rle["counts"], np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(digits & 32 == 0)
    starts = np.concatenate(([0], ends[:-1] + 1))[:len(ends)]
    lengths = ends - starts + 1
    shifts = 5 * (np.arange(len(digits)) - np.repeat(starts, lengths))
    runs = np.add.reduceat((digits & 31) << shifts, starts) if len(starts) else np.zeros(0, np.int64)
    runs -= np.where(digits[ends] & 16, np.int64(1) << 5 * lengths, 0)
    for first in (1, 2):
        runs[first::2] = np.cumsum(runs[first::2])
    return runs


def coordinate(random, how, size):
    kinds = (lambda: random.uniform(0, size), lambda: float(random.integers(0, size + 1)),
             lambda: random.uniform(-2 * size, 3 * size), lambda: float(random.integers(-3, size + 4)) / 5,
             lambda: round(random.uniform(-1, size + 1), 2), lambda: random.normal(size / 2, size / 6),
             lambda: float(random.choice([0, 0.5, size - 0.5, size, size - 1, -0.1, -0.5, 1e6, -1e6])))
    return kinds[how]()


def polygon(random, height, width):
    points = int(random.choice([1, 2, 3, 3, 4, 5, 8, 13, 40]))
    how = random.integers(0, 7)
    xy = [coordinate(random, how, width if i % 2 == 0 else height) for i in range(2 * points)]
    if random.random() < 0.2:  # repeated corners, edges that go there and back
        at = 2 * random.integers(0, points)
        xy = xy[:at + 2] + xy[at:at + 2] + xy[max(at - 2, 0):]
    if random.random() < 0.15:
        xy[1::2] = [xy[1]] * (len(xy) // 2)  # flat
    if random.random() < 0.15:
        xy[0::2] = [xy[0]] * (len(xy) // 2)
    return xy


def blob(random, height, width):
    pixels = np.zeros((height, width), np.uint8)
    kind = random.integers(0, 7)
    if kind == 0:
        pixels[:] = random.random((height, width)) < random.choice([0.01, 0.3, 0.5, 0.9])
    elif kind == 1:
        pixels[:] = 1
    elif kind == 2:
        pixels[random.integers(0, height), random.integers(0, width)] = 1
    elif kind == 3:
        y, x = np.mgrid[:height, :width]
        pixels[:] = ((y - random.uniform(0, height)) ** 2 + (x - random.uniform(0, width)) ** 2
                     < random.uniform(0, height + width) ** 2 / 9)
    elif kind == 4:
        y0, y1 = sorted(random.integers(0, height + 1, 2))
        x0, x1 = sorted(random.integers(0, width + 1, 2))
        pixels[y0:y1, x0:x1] = 1
    elif kind == 5:  # runs that continue from one column into the next
        pixels.T.reshape(-1)[:] = 0
        flat = np.zeros(height * width, np.uint8)
        for _ in range(random.integers(1, 6)):
            a, b = sorted(random.integers(0, height * width + 1, 2))
            flat[a:min(b, a + 3 * height)] = 1
        pixels = np.asfortranarray(flat.reshape(width, height).T)
    return pixels


def odd(random, runs):
    """The same pixels, with empty runs added."""
    out = runs.tolist()
    for _ in range(random.integers(1, 4)):
        at = int(random.integers(0, len(out) + 1))
        if at == len(out):
            out += [0]
        elif out[at] > 1 and random.random() < 0.5:
            cut = int(random.integers(1, out[at]))
            out[at:at + 1] = [cut, 0, out[at] - cut]
        else:
            out[at:at] = [0, 0]
    return out


class Wrong(Exception):
    pass


def same(what, expected, got):
    equal = np.array_equal(expected, got) if isinstance(expected, np.ndarray) else expected == got
    if not equal:
        raise Wrong(f"{what}: pycocotools {str(expected)[:300]}, kolo {str(got)[:300]}")


def check_mask(kolo, rle, mask, what):
    """Compares a mask of kolo with pycocotools' mask of the same pixels."""
    runs = runs_of(rle)
    same(f"{what}: runs", runs, kolo.runs(mask))
    same(f"{what}: string", rle["counts"], kolo.to_string(mask))
    same(f"{what}: area", int(oracle.area(rle)), kolo.area(mask))
    box = oracle.toBbox(rle).tolist() if oracle.area(rle) else [0.0] * 4
    same(f"{what}: box", box, kolo.box(mask))
    again = kolo.from_string(rle)
    same(f"{what}: runs of its string", runs, kolo.runs(again))
    again = kolo.from_runs(runs, *rle["size"])
    same(f"{what}: string of its runs", rle["counts"], kolo.to_string(again))
    taken = oracle.frPyObjects({"counts": runs, "size": rle["size"]}, *rle["size"])
    same(f"{what}: pycocotools' string of its runs", taken["counts"], kolo.to_string(again))


def draw(kolo, random, height, width):
    """Makes a mask with both libraries in one of several ways."""
    kind = random.integers(0, 5)
    if kind == 0:
        xy = polygon(random, height, width)
        rle = oracle.frPyObjects([xy + xy[:2] * (3 - len(xy) // 2)], height, width)[0]
        return rle, kolo.from_polygon(xy + xy[:2] * (3 - len(xy) // 2), height, width), f"polygon {xy}"
    if kind == 1:
        box = [coordinate(random, random.integers(0, 7), n) for n in (width, height, width, height)]
        rle = oracle.frPyObjects(np.array([box]), height, width)[0]
        return rle, kolo.from_box(box, height, width), f"box {box}"
    pixels = blob(random, height, width)
    rle = oracle.encode(np.asfortranarray(pixels))
    if kind == 4:  # pycocotools takes some of these to be shorter than they are
        runs = odd(random, runs_of(rle))
        mask = kolo.from_runs(runs, height, width)
        of_runs = oracle.frPyObjects({"counts": runs, "size": [height, width]}, height, width)
        check_mask(kolo, of_runs, mask, f"odd runs {runs}")
        return rle, mask, f"odd runs {runs}"
    mask = kolo.from_pixels(pixels, kind == 2)
    if kind == 2:
        same("pixels", pixels, kolo.to_pixels(mask, bool(random.integers(0, 2))))
    return rle, mask, "pixels"


def one_size(random):
    if random.random() < 0.02:
        return int(random.integers(2000, 9000)), int(random.integers(2000, 9000))
    most = int(random.choice([1, 2, 8, 40, 200]))
    return int(random.integers(1, most + 1)), int(random.integers(1, most + 1))


def check_seed(kolo, seed):
    random = np.random.default_rng(seed)
    height, width = one_size(random)
    drawn = [draw(kolo, random, height, width) for _ in range(random.integers(1, 12))]
    other = max(height, 3), max(width - 1, 1)
    if random.random() < 0.3:
        drawn.append(draw(kolo, random, *other))
    for rle, mask, what in drawn:
        if not what.startswith("odd"):
            check_mask(kolo, rle, mask, f"{height} x {width}, {what}")
    of_one_size = [d for d in drawn if d[0]["size"] == [height, width]]
    for intersect in (False, True):
        some = [of_one_size[i] for i in random.permutation(len(of_one_size))[:random.integers(1, 5)]]
        rle = oracle.merge([d[0] for d in some], intersect=intersect)
        merged = kolo.merge([d[1] for d in some], intersect)
        check_mask(kolo, rle, merged, f"merged {[d[2] for d in some]}, intersect {intersect}")
    cut = int(random.integers(0, len(drawn))) + 1
    found, truths = drawn[:cut], drawn[-cut:]
    crowds = [int(c) for c in random.random(len(truths)) < 0.3]
    expected = oracle.iou([d[0] for d in found], [d[0] for d in truths], crowds)
    got = kolo.overlaps([d[1] for d in found], [d[1] for d in truths], crowds)
    if np.ascontiguousarray(expected, float).tobytes() != got.tobytes():
        d, g = np.argwhere(expected != got)[0]
        raise Wrong(f"overlap of {found[d][2]} and {truths[g][2]}: pycocotools {expected[d, g]!r}, "
                    f"kolo {got[d, g]!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("libkolo")
    parser.add_argument("--seeds", type=int, default=length.seeds(300, 100))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--one-will-do", action="store_true", help="end at the first that differs")
    options = parser.parse_args()
    kolo, failed = Kolo(options.libkolo), 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            check_seed(kolo, seed)
        except (Wrong, ValueError) as error:
            failed += 1
            print(f"seed {seed}: {error}")
            if options.one_will_do:
                sys.exit(1)
        kolo.free()
    print(f"{options.seeds - failed} of {options.seeds} sets of masks have pycocotools' bytes")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
