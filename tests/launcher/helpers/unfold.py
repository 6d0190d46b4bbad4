# SPDX-License-Identifier: Apache-2.0
# Prints what kolorun would have shown on standard error with --no-fold: a line of each rank instead of
# "[0, 2-7] the same ...", by the rules in launcher/fold.h.
import re
import sys

shown = {}  # rank: its lines that were shown as they are
above = []  # the line of each rank's line above, None for others


def same(ranks, lines, of, text):
    if of is None:
        block = [line for _, line in above[-lines:]]
        assert len({rank for rank, _ in above[-lines:]}) == 1 and len(block) == lines
    else:
        have = shown[of]
        begin = text[:-3] if text.endswith("...") else None
        fits = [
            i
            for i in range(len(have) - lines + 1)
            if have[i] == text or (begin is not None and have[i].startswith(begin))
        ]
        block = have[fits[-1] : fits[-1] + lines]
    for rank in ranks:
        for line in block:
            print(f"[{rank}] {line}")


for line in open(sys.argv[1], errors="surrogateescape"):
    line = line.rstrip("\n")
    folded = re.fullmatch(r"\[([0-9]+(?:[-,] ?[0-9]+)+)\] the same(?: (\d+) lines)?(?: as rank (\d+): (.*))?", line)
    whole = re.fullmatch(r"\[(\d+)\] (.*)", line)
    if folded:
        spans = [[int(end) for end in span.split("-")] for span in folded[1].split(", ")]
        of = int(folded[3]) if folded[3] else None
        same([r for span in spans for r in range(span[0], span[-1] + 1)], int(folded[2] or 1), of, folded[4])
        above.append((None, None))
        continue
    print(line)
    above.append((int(whole[1]), whole[2]) if whole else (None, None))
    if whole:
        shown.setdefault(int(whole[1]), []).append(whole[2])
