#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""output.py BIN: tests the picture of --plot, whose curves are computed again here from the JSON of
a small set; and the progress line, which is shown only on a terminal, is never wider than it, and
is removed at the end."""
import fcntl
import json
import os
import pty
import random
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
failures = 0


def wrong(text):
    global failures
    failures += 1
    print("FAIL:", text)


def write_set(categories, source):
    """A small random set. Two of the categories have no ground truth."""
    truths = [{"id": n + 1, "image_id": n % 5, "category_id": 10 + n % (categories - 2), "area": 900, "iscrowd": 0,
               "bbox": [source.random() * 50, 3, 40, 30]} for n in range(60)]
    found = [dict(image_id=t["image_id"], category_id=t["category_id"], score=source.random(),
                  bbox=[t["bbox"][0] + source.gauss(0, 9), 3, 40, 30]) for t in truths]
    with open("gt.json", "w", encoding="utf-8") as file:
        json.dump({"images": [{"id": i} for i in range(5)], "annotations": truths,
                   "categories": [{"id": 10 + k, "name": f"c{k} <&> \u00e9" * 9} for k in range(categories)]}, file)
    with open("dt.json", "w", encoding="utf-8") as file:
        json.dump(found, file)


def texts(root):
    return [text.text for text in root.iter(SVG + "text")]


def check_plot(tool, categories):
    write_set(categories, random.Random(categories))
    subprocess.run([tool, "gt.json", "dt.json", "--json", "o.json", "--plot", "pr.svg"], check=True, stdout=subprocess.DEVNULL)
    with open("o.json", encoding="utf-8") as file:
        result = json.load(file)
    root = ElementTree.parse("pr.svg").getroot()
    curves = [[tuple(map(float, p.split(","))) for p in line.get("points").split()] for line in root.iter(SVG + "polyline")]
    drawn = categories - 2
    if len(curves) != 10 + drawn or any(len(curve) != 101 for curve in curves):
        wrong(f"{categories} categories: {len(curves)} curves")
    for curve in curves:  # precision falls, recall grows
        if any(a[1] > b[1] + 1e-9 or a[0] >= b[0] for a, b in zip(curve, curve[1:])):
            wrong(f"{categories} categories: a curve that goes up")
    words = texts(root)
    stats = result["stats"]
    for text in (f"IoU 0.50: AP {stats['AP50']:.3f}", f"IoU 0.75: AP {stats['AP75']:.3f}"):
        if text not in words:
            wrong(f"{categories} categories: no '{text}' in {words}")
    if not any(word.endswith(f": AP {stats['AP']:.3f}") and "dt.json" in word for word in words):
        wrong(f"{categories} categories: title of {words}")
    ranked = sorted((c["AP"], c["id"]) for c in result["per_class"] if c["AP"] >= 0)
    named = ranked if drawn <= 10 else ranked[:5] + ranked[-5:]
    for value, _ in named:
        if sum(word.endswith(f"AP {value:.3f}") for word in words) < 1:
            wrong(f"{categories} categories: AP {value:.3f} is not named in {words}")


def check_letters(tool):
    """With bytes that are not UTF-8, which yajl accepts, and escapes that are not letters, the JSON
    and the picture are valid."""
    names = {b"a": "a", b"\xc3\xa9": "\u00e9", b"\xc0\x80": "??", b"\xed\xa0\x80": "???", b"\xf5\x80\x80\x80": "????",
             b"\\udce9": "???", b"\\u0000b": "?b", b"\\ufffe": "\ufffe", b"\\ud83d\\ude00": "\U0001f600"}
    truth = b'{"images": [{"id": 1}], "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "area": 9, "iscrowd": 0, ' \
            b'"bbox": [1, 2, 3, 4]}], "categories": [{"id": 3, "name": "%s"}]}'
    with open("one.json", "w", encoding="utf-8") as file:
        json.dump([{"image_id": 1, "category_id": 3, "score": 0.5, "bbox": [1, 2, 3, 4]}], file)
    for name, read in names.items():
        with open(b"\xff.json", "wb") as file:
            file.write(truth % name)
        done = subprocess.run([tool, b"\xff.json", "one.json", "--json", "n.json", "--plot", "n.svg", "--per-class"], check=False,
                              stdout=subprocess.PIPE)
        try:
            with open("n.json", encoding="utf-8") as file:
                result = json.load(file)
            ElementTree.parse("n.svg")
            said = (result["per_class"][0]["name"], result["ground_truth"], done.stdout.decode().endswith("\n"))
        except (OSError, ValueError, ElementTree.ParseError) as error:
            said = error
        if done.returncode != 0 or said != (read, "?.json", True):
            wrong(f"the name {name}: status {done.returncode}, {said}")


def check_refusals(tool):
    before = open("gt.json", "rb").read()
    for arguments, words in (
            (["--json", "gt.json"], "that is gt.json, which is an input"),
            (["--plot", "./dt.json"], "that is dt.json, which is an input"),
            (["--plot", "missing/pr.svg"], "--plot missing/pr.svg: No such file or directory"),
            (["--plot", "."], "--plot .: Is a directory"),
            (["--json", "x", "--plot", "x"], "--json and --plot both name x"),
            (["--json", "./x", "--plot", "x"], "--json and --plot both name x; give each its own file")):
        done = subprocess.run([tool, "gt.json", "dt.json", *arguments], text=True, capture_output=True, check=False)
        if done.returncode == 0 or words not in done.stderr or done.stdout or os.path.exists("x"):
            wrong(f"{arguments}: {done}")
    with open("/dev/full", "wb") as full:  # without the lines, no file is written either
        done = subprocess.run([tool, "gt.json", "dt.json", "--json", "j.json", "--plot", "p.svg"], stdout=full, text=True,
                              stderr=subprocess.PIPE, check=False)
    if done.returncode != 1 or "cannot write to standard output" not in done.stderr or os.path.exists("j.json") or \
            os.path.exists("p.svg"):
        wrong(f"/dev/full: {done}")
    reader, writer = os.pipe()  # the same with `| true`
    os.close(reader)
    done = subprocess.run([tool, "gt.json", "dt.json", "--json", "j.json"], stdout=writer, text=True, stderr=subprocess.PIPE,
                          check=False)
    os.close(writer)
    if done.returncode != 1 or "cannot write to standard output: Broken pipe" not in done.stderr:
        wrong(f"a closed pipe: {done}")
    if open("gt.json", "rb").read() != before:
        wrong("the ground truth was overwritten")
    if [name for name in os.listdir(".") if ".tmp-" in name]:
        wrong(f"left: {os.listdir('.')}")


def check_names(tool):
    """Names are printed without control characters of terminals, of 7 or 8 bits."""
    with open("names.json", "w", encoding="utf-8") as file:
        json.dump({"images": [], "annotations": [], "categories": [{"id": 1, "name": "a\u001bb\u009bc\u007fd\u00a0\u00e9"}]}, file)
    with open("none.json", "w", encoding="utf-8") as file:
        file.write("[]")
    done = subprocess.run([tool, "names.json", "none.json", "--per-class"], capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout.decode().endswith("  a?b?c?d\u00a0\u00e9\n"):
        wrong(f"names: {done}")


def check_words(tool):
    """Many words that belong to no known member do not count as a long string."""
    with open("words.json", "w", encoding="utf-8") as file:
        file.write('{"images": [], "annotations": [], "categories": [{"id": 1}], "x": [' + "null,false," * (6 << 20) + "1]}")
    done = subprocess.run([tool, "words.json", "none.json"], capture_output=True, check=False)
    os.unlink("words.json")
    if done.returncode != 0:
        wrong(f"words: {done}")


def check_progress(tool, columns):
    """Writes detections slowly through a pipe until the progress line is shown, and then ends
    them."""
    os.mkfifo("slow")
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([tool, "gt.json", "slow"], stdout=subprocess.PIPE, stderr=terminal,
                             env=dict(os.environ, TERM="vt100"))
    os.close(terminal)
    said, deadline = b"", time.monotonic() + 60
    with open("slow", "wb", buffering=0) as file:
        file.write(b"[")
        while said.count(b"\r") < 3 and time.monotonic() < deadline:
            file.write(b" " * (1 << 18))
            while select.select([master], [], [], 0)[0]:
                said += os.read(master, 4096)
        file.write(b"]")
    lines = child.stdout.read()
    status = child.wait(60)
    try:
        while True:
            said += os.read(master, 4096)
    except OSError:  # the terminal is gone
        pass
    os.close(master)
    os.unlink("slow")
    shown = said.replace(b"\x1b[K", b"").split(b"\r")
    if status != 0 or lines.count(b"\n") != 12 or b"\x1b" in lines:
        wrong(f"{columns} columns: status {status}: {lines}")
    if len(shown) < 4 or b"\n" in said or max(map(len, shown)) >= columns or not said.endswith(b"\r\x1b[K"):
        wrong(f"{columns} columns: {said[-500:]}")
    if not shown[1].startswith(b"slow ") or b"MB" not in shown[1]:
        wrong(f"{columns} columns: {shown[1]}")


def main():
    tool = os.path.abspath(f"{sys.argv[1]}/kolo-coco")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_plot(tool, 4)
        check_plot(tool, 12)
        check_plot(tool, 33)
        check_refusals(tool)
        check_letters(tool)
        check_names(tool)
        check_words(tool)
        check_progress(tool, 80)
        check_progress(tool, 30)
        done = subprocess.run([tool, "gt.json", "dt.json"], capture_output=True, check=True)
        if done.stderr:
            wrong(f"no terminal: {done.stderr}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
