#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""positions.py BIN: where kolo-coco says that a file is wrong. In each text a marker stands before
the byte that must be named; the line and the column follow from it. The same text is tried as one
line, with other line ends, behind a long line, across the border of two of the pieces in which
files are read, as ground truth and as results, compressed, and on 3 ranks."""
import gzip
import os
import re
import subprocess
import sys
import tempfile

MARK = b"@@"
PIECE = 1 << 20
GOOD = b'{"image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}'
TRUTH = b'{"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0%s}'
LISTS = b'{"images": [{"id": 1}], "categories": [{"id": 3}],%s"annotations": ['

# Members of a detection or an annotation: what is wrong, and the words that say so.
MEMBERS = [
    (b'"x": "ab@@\x01c"', "invalid character inside string"),
    (b'"x": "@@\tc"', "invalid character inside string"),
    (b'"x": "ab@@\nc"', "invalid character inside string"),
    (b'"x": "ab\\@@qc"', "occurs before a character"),
    (b'"x": "a\\@@NaN"', "occurs before a character"),
    (b'"x": "ab\\u12@@g4"', "non-hex"),
    (b'"x@@\x02": 1', "invalid character inside string"),
    (b'"x": "\xc3\xa9@@\x80"', "invalid bytes in UTF8"),
    (b'"x": "\xc3\xa9@@\xff"', "invalid bytes in UTF8"),
    (b'"x": "\xc3\xa9@@\xc3("', "invalid bytes in UTF8"),
    (b'"x": "\xe2\x82\xac@@\xe2\x82"', "invalid bytes in UTF8"),
    (b'"x": "@@\xf0\x9f\x98 "', "invalid bytes in UTF8"),
    (b'"x": @@!', "invalid char in json text"),
    (b'"x": @@\'a\'', "invalid char in json text"),
    (b'"x": tru@@!', "invalid string in json text"),
    (b'"x": [1, @@NaN]', "NaN: numbers must be finite"),
    (b'"x": @@Infinity', "Infinity: numbers must be finite"),
    (b'"x": @@-Infinity', "Infinity: numbers must be finite"),
    (b'"x": -@@a', "a digit is required after the minus"),
    (b'"x": 1.@@,', "a digit is required after the decimal"),
    (b'"x": 1e@@]', "a digit is required after the exponent"),
    (b'"x": @@/* a */ 1', "comment"),
    (b'"x" @@1.25', "parse error"),
    (b'"x" @@"a \\" b\\\\"', "parse error"),
    (b'"x": [1 @@false]', "parse error"),
    (b'"x": [1.5e-3@@-1.5E-3]', "parse error"),
    (b'"x": 1.5 @@true', "parse error"),
    (b'"x": 1@@]', "parse error"),
    (b'"x": "a" @@7', "parse error"),
    (b'"x": "a"@@"bcd"', "parse error"),
    (b'"x": "a"  @@"b, c"', "parse error"),
    (b'"x": {} @@""', "parse error"),
    (b'@@17: 1', "parse error"),
    (b'"x": [1, @@}', "parse error"),
    (b'"image_id": @@"a \\" \\\\\\" b\\\\"', "is a string"),
    (b'"image_id": @@""', "is a string"),
    (b'"image_id": @@null', "is null"),
    (b'"image_id": @@-12.5e-3', "is -12.5e-3; it must be an integer"),
    (b'"image_id": @@[1]', "is an array"),
    (b'"image_id": @@{"a": 1}', "is an object"),
    (b'"bbox": [1, 2, @@[3], 4]', "an array in a bbox"),
    (b'"bbox": [1, 2, 3@@]', "a bbox of 3 numbers"),
    (b'"bbox": [1, 2, @@-3.5, 4]', "the width of a bbox is -3.5"),
    (b'"bbox": [1, 2, 3, 4, @@51]', "more than 4 numbers"),
    (b'"bbox": [1, @@1e999, 3, 4]', "1e999 is too large"),
    (b'"x": "' + 3 * PIECE * b"a" + b'@@\x01"', "invalid character inside string"),
]
# Whole files of results.
FILES = [
    (b'  @@"a"', "a list of results is expected"),
    (b"[" + GOOD + b" @@", "the file ends here"),
    (b"[" + GOOD[:-1] + b', "x": ' + 63 * b"[" + b"@@[[", "arrays and objects more than"),
    (b"[" + GOOD + b",\r\n" + GOOD[:30] + b"@@", "the file ends here"),
    (b"[" + GOOD + b", @@]", "a detection is expected"),
    (b"[" + GOOD + b"] @@x", "something follows"),
    (b"@@\xef\xbb\xbf[" + GOOD + b"]", "a byte order mark"),
    (b'{"annotations": [' + GOOD + b'], @@"annotations": []}', '"annotations" is there twice'),
    (b'{"info": "a@@\x01", "annotations": []}', "invalid character inside string"),
    (b'{"annotations": [' + GOOD + b"], @@1}", "parse error"),
]
failures = 0


def wrong(text):
    global failures
    failures += 1
    print("FAIL:", text)


def place(content):
    at = content.index(MARK)
    line = content.count(b"\n", 0, at) + 1
    return at, f"line {line}, column {at - content.rfind(b'%c' % 10, 0, at)} (byte {at}): "


def check(run, name, content, words):
    """Runs kolo-coco on a file with this content, which must be refused at the mark. Its name says
    whether it is ground truth (bad.gt...) and whether it is compressed."""
    at, where = place(content)
    plain = content[:at] + content[at + len(MARK):]
    packed = name.endswith(".gz")
    with open(name, "wb") as file:
        file.write(gzip.compress(plain, 1) if packed else plain)
    files = [name, "dt.json"] if name.startswith("bad.gt") else ["gt.json", name]
    done = subprocess.run(run + files, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.startswith("kolo-coco: ")]
    start = f"kolo-coco: {name}: {where}"
    if done.returncode == 0 or not lines or len(set(lines)) > 1 or not lines[0].startswith(start) or not re.search(words, lines[0]):
        wrong(f"{run[0][-8:]} {content[max(at - 60, 0):at + 40]!r}: expected '{where}{words}', got {lines}")


def with_member(member, blanks):
    """A list of results whose second detection has the member."""
    return b"[" + GOOD + b"," + blanks + GOOD[:-1] + b", " + member + b"}, " + GOOD + b"]"


def main():
    tool = [f"{os.path.abspath(sys.argv[1])}/kolo-coco"]
    ranks = [f"{os.path.abspath(sys.argv[1])}/kolorun", "-np", "3", "--oversubscribe", "--no-prefix"] + tool
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("gt.json", "wb") as file:
            file.write(LISTS % b" " + TRUTH % b"" + b"]}")
        with open("dt.json", "wb") as file:
            file.write(b"[" + GOOD + b"]")
        for member, words in MEMBERS:
            short, at = with_member(member, b" "), with_member(member, b"").index(MARK)
            check(tool, "bad.json", short, words)
            check(tool, "bad.json", with_member(member, b"\r\n \r\n\t"), words)
            check(tool, "bad.json", with_member(member, b" " * (3 * PIECE)), words)
            check(tool, "bad.json", with_member(member, b"\n" * (PIECE - at)), words)  # a piece begins at the mark
            check(tool, "bad.json.gz", short, words)
            check(tool, "bad.gt.json", LISTS % b"\r\n" + TRUTH % (b", " + member) + b"]}", words.replace("detection", "annotation"))
        for content, words in FILES:
            check(tool, "bad.json", content, words)
        for content, words in FILES + [(with_member(*member), words) for *member, words in
                                       [(MEMBERS[i][0], b"\n" * 9000, MEMBERS[i][1]) for i in (0, 7, 22, 27)]]:
            check(ranks, "bad.json", content, words)
    print(f"{failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
