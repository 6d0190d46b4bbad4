#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: builds the evaluation of detections with one fault at a time, and checks that
the sets of coco.py or rules.py catch each fault.

    coco_faults.py [--seeds N] [--only WORD] SOURCE_TREE BUILD_TREE COMPILER...

Exits with 77 if pycocotools is not installed (script/bootstrap --oracles). """
import coco
import faults
import rules
import sets

# file of metrics/, text that it has once, text that the fault replaces it by
FAULTS = [
    ("coco_box.c", "return a < b ? a : b;", "return a < b ? b : a;"),
    ("coco_box.c", "is_crowd ? area : area", "is_crowd ? truth_area : area"),
    ("coco_box.c", "area + truth_area - both", "area + (truth_area - both)"),
    ("coco_box.c", "area + truth_area - both", "area + truth_area"),
    ("coco_box.c", "overlaps[d * truths + g] =", "overlaps[g * detections + d] ="),
    ("coco_box.c", "        box.w -= box.x;\n", ""),
    ("coco_images.c", "truths->ignored && truths->ignored[i]", "false"),
    ("coco_match.c", "truth->area < area->low ", "truth->area <= area->low "),
    ("coco_match.c", "truth->area > area->high", "truth->area >= area->high"),
    ("coco_match.c", "scratch->taken[g] && !truth[g].is_crowd", "scratch->taken[g]"),
    ("coco_match.c", "overlaps[g] < best", "overlaps[g] <= best"),
    ("coco_match.c", "!scratch->ignored[found] && scratch->ignored[g]", "false"),
    ("coco_match.c", "fmin(threshold, 1 - 1e-10)", "threshold"),
    ("coco_match.c", "} else if (!truth[g].is_unseen) {", "} else {"),
    ("coco_match.c", "scratch->taken[g] = 1;", "scratch->taken[g] = !truth[g].is_unseen;"),
    ("coco_match.c", "areas[d] > params->area[a].high", "areas[d] >= params->area[a].high"),
    ("coco_match.c", "verdict->is_ignored &= ~flag;", ""),
    ("coco_match.c", "memset(scratch->taken, 0, truths);",
     "if (bit == 0) memset(scratch->taken, 0, truths);"),
    ("coco_images.c", "(!is_coco || !is_compatible)", "(!is_coco || is_compatible)"),
    ("coco_images.c", "category < b->category;\n    return a->score > b->score",
     "category < b->category;\n    return a->score >= b->score"),
    ("coco_images.c", "params->cap[update->params->caps - 1]", "params->cap[0]"),
    ("coco_images.c", "is_found && update->params->any_category", "false"),
    ("coco_sort.c", "score == 0 ? 0 : score", "score"),
    ("coco_sort.c", "score > records[order[at - 1]].score", "score >= records[order[at - 1]].score"),
    ("coco_curve.c", " + params->slack", ""),
    ("coco_curve.c", "precision > lane->best ? precision : lane->best", "precision"),
    ("coco_curve.c", "if (lane->best > walk->arc->highest[m][flag])", "if (true)"),
    ("coco_curve.c", "(struct lane){.found = course->is_true[m][flag]", "(struct lane){.found = 0"),
    ("coco_curve.c", "course->is_true[m][flag] + course->misses[m][flag]", "course->is_true[m][flag]"),
    ("coco_curve.c", "(double)needed / (double)counted < recall",
     "(double)needed / (double)counted <= recall"),
    ("coco_curve.c", "record->position >= params->cap[m]", "record->position > params->cap[m]"),
    ("coco_curve.c", "walk->out_of_area[from][a] += is_out", ""),
    ("coco_curve.c", "walk->lane[m][__builtin_ctzll(left)].known--", ""),
    ("coco_curve.c", "if (m < from)", "if (false)"),
    ("coco_curve.c", "needed[lane->reached] <= lane->found)\n        scores",
     "needed[lane->reached] < lane->found)\n        scores"),
    ("coco_curve.c", "    lane->best = 0;\n", ""),
    ("coco_curve.c", "if (run->count > 0)", "if (false)"),
    ("coco_params.c", "values[i] = (double)i * step + first;",
     "values[i] = first + (last - first) * (double)i / (double)(count - 1);"),
    ("coco_params.c", "{0, 32 * 32}, {32 * 32, 96 * 96}", "{0, 32 * 32}, {32 * 32 + 1, 96 * 96}"),
    ("coco_params.c", "    {0, 1e10}, {32 * 32, 96 * 96}", "    {0, 1e10}, {0, 96 * 96}"),
    ("coco_params.c", "KOLO_DETECTION_VOC ? 0 : 0x1p-52", "KOLO_DETECTION_VOC ? 0x1p-52 : 0x1p-52"),
    ("coco_share.c", "share->place_of[j] = share->place[i];", "share->place_of[j] = (uint32_t)i;"),
    ("coco_share.c", "seats[i].id == seats[i - 1].id", "false"),
    ("coco_share.c", "record->score >= share->cutoff", "record->score > share->cutoff"),
    ("coco_share.c", "best[k] < lowest[k] ? best[k] : lowest[k];", "lowest[k];"),
    ("coco_share.c", "is_true && record->score < lowest[k]", "record->score < lowest[k] && is_true == (j % 2)"),
    ("coco_share.c", "lowest, lowest, classes, KOLO_FLOAT64", "lowest, lowest, 0, KOLO_FLOAT64"),
    ("coco_pieces.c", "size_t start = share->class_start[k];\n        for",
     "size_t start = share->class_start[k] + (k > 0);\n        for"),
    ("coco_pieces.c", "            start = end;\n", ""),
    ("coco_route.c", "desk[i].place = share->place_of[number];", ""),
    ("coco_route.c", "route->from_places[r] = from->at;", "route->from_places[r] = 0;"),
    ("coco_run.c", "(a->key < b->key) |", "(a->key > b->key) |"),
    ("coco_run.c", "(a->place < b->place)", "(a->place > b->place)"),
    ("coco_run.c", "j += is_other;", "j += 0;"),
    ("coco_run.c", "i += !is_other;", "i += 1;"),
    ("coco_run.c", "source->place_of ? source->place_of[number] :", "source->place_of ? (uint32_t)number :"),
    ("coco_run.c", "size_t node = (first + run->sources) / 2;", "size_t node = (first + run->sources) / 4;"),
    ("coco_join.c", "source.order = share->order + begin[r];", "source.order = share->order;"),
    ("coco_join.c", "*at += is_own || r == share->rank ?", "*at += is_own ?"),
    ("coco_route.c", "total * (round + 1) / ROUNDS - total * round / ROUNDS", "total / ROUNDS + 0 * round"),
    ("coco_route.c", "at += route->to_counts[r];", "at += 0;"),
    ("coco_join.c", "            words[i] = sums[i];\n", ""),
    ("coco_join.c", "            values[i] = highest[i];\n", "            values[i] = 0;\n"),
    ("coco_join.c", "            memset(sums, 0, sizeof sums);", "            ;"),
    ("coco_join.c", "            memset(highest, 0, sizeof highest);", "            ;"),
    ("coco_join.c", "size_t first = is_first ? 0 :", "size_t first ="),
    ("coco_join.c", "needed[middle] <= found", "needed[middle] < found"),
    ("coco_join.c", "highest = behind;", "highest = 0;"),
    ("coco_join.c", "arrays->precision[at] = arrays->scores[at] = -1;",
     "arrays->precision[at] = -1;"),
    ("coco_join.c", "recall[at] += (double)", "recall[at] = (double)"),
    ("coco_join.c", "span[head] = span[head - join->flags];", "span[head] = span[head % join->flags];"),
    ("coco_join.c", "memcmp(one->score, other->score, bytes) == 0", "true"),
    ("coco_mean.c", "i % turn->ranks != turn->rank", "i % turn->ranks != 0"),
    ("coco_join.c", "    *mine += join->counts[share->rank];\n", ""),
    ("coco_join.c", "TURNS / sum] +=", "TURNS / sum] ="),
    ("coco_mean.c", "half -= half % 8;", ""),
    ("coco_mean.c", "*value > -1 ? value : NULL", "value"),
    ("coco_mean.c", "            break;\n        entries->class = entries->first_class;\n", "            break;\n"),
    ("coco_oks.c", "truth[2] > 0", "truth[2] > 1"),
    ("coco_oks.c", "if (!is_seen)", "if (false)"),
    ("coco_oks.c", "at - high", "high - at"),
    ("coco_oks.c", "from + length * 2", "from + length"),
    ("coco_oks.c", "/ (area + 0x1p-52) / 2", "/ area / 2"),
    ("coco_oks.c", "double twice = sigma * 2;", "double twice = sigma;"),
    ("coco_oks.c", "found[1] - truth[1]", "found[0] - truth[0]"),
    ("coco_oks.c", "at < low ? at : low", "low"),
    ("coco_oks.c", "object->point_counts ?", "false ?"),
    ("coco_images.c", "|| is_blank", ""),
    ("coco_mean.c", "POINTS_CAP = 20", "POINTS_CAP = 30"),
    ("coco_lvis.c", "lvis->notes[category] |= ASKED;", ";"),
    ("coco_lvis.c", "lvis->notes[category] = 0;", ";"),
    ("coco_images.c", "if (by_score(&slips[i], last) <= 0)", "if (by_score(&slips[i], last) < 0)"),
    ("coco_images.c", "return (x->number > y->number) -", "return (x->number < y->number) -"),
    ("coco_images.c", "boxes, slip->number, is_found) > 0", "boxes, slip->number, is_found) >= 0"),
    ("coco_lvis.c", "truths->absent_counts[image], ASKED", "truths->absent_counts[image], PARTIAL"),
    ("coco_lvis.c", "lvis->notes[category] & PARTIAL", "false"),
    ("coco_lvis.c", "lvis->absent += truths->absent_counts[image];", ";"),
    ("coco_lvis.c", "lvis->notes[category] | bit : 0", "lvis->notes[category] | bit : lvis->notes[category]"),
    ("coco_match.c", "partial[d] ? UINT64_MAX", "false ? UINT64_MAX"),
    ("coco_mean.c", "params->group[class] != group", "false"),
    ("coco_params.c", "[kolo_coco_category(params, config->categories[k])]", "[k]"),
    ("voc_match.c", "overlaps[g] > overlaps[best]", "overlaps[g] >= overlaps[best]"),
    ("voc_match.c", "overlaps[g] >= threshold", "overlaps[g] > threshold"),
    ("voc_match.c", "} else if (!scratch->taken[g]) {", "} else {"),
    ("voc_match.c", "most(found->left, truth->left) + 1", "most(found->left, truth->left)"),
    ("voc_match.c", "has_size ? four[0] + four[2] : four[2]", "four[0] + four[2]"),
    ("voc_average.c", "precision[terms++] = 0;", ";"),
    ("voc_average.c", "precision[i] > highest ? precision[i] : highest", "precision[i]"),
    ("voc_average.c", "(double)(found + misses)", "(double)(found + misses + 1)"),
    ("voc_average.c", "record->position >= cap", "false"),
    ("voc_average.c", "arrays->voc_areas, arrays->ends,", "arrays->voc_areas, 0,"),
]


def make_sets(folder, seeds):
    """Writes the sets to folder. Returns what each result must begin with."""
    expected = {}
    for seed in range(seeds):
        made = coco.make_set(seed)
        expected[f"boxes-{seed}"] = sets.named(*coco.by_pycocotools(*made))
        coco.write_set(f"{folder}/boxes-{seed}.set", *made)
    for family, share in (("keypoints", 2), ("lvis", 2), ("voc", 2), ("proposals", 60)):
        for seed in range(seeds // share):
            name = f"{family}-{seed}"
            expected[name] = rules.make(family, seed, f"{folder}/{name}.set")
    return expected


def is_caught(program, folder, expected, file):
    """Which set catches the fault; None if none does. Some sets are tried at a time, those for the
    file first."""
    first = {"coco_oks.c": "keypoints", "coco_lvis.c": "lvis"}.get(file, "voc" if "voc" in file else "boxes")
    names = sorted(expected, key=lambda name: not name.startswith(first))
    parts = [names[:10], *(names[i:i + 40] for i in range(10, len(names), 40))]
    return sets.caught_by(program, folder, expected, parts, 120)


def prepare(tree, folder, seeds):
    """Returns functions that build coco_eval with one file of the library replaced, and that run it
    (faults.run)."""
    expected = make_sets(folder, seeds)
    program = f"{folder}/coco_eval"
    tree.compile("-c", f"{tree.source}/tests/metrics/oracle/coco_eval.c", "-o", f"{program}.o")

    def build(name, text):
        tree.compile(faults.write(f"{folder}/{name}", text), f"{program}.o", "-o", program, *tree.libraries())

    return build, lambda name: is_caught(program, folder, expected, name)


if __name__ == "__main__":
    faults.run(FAULTS, 120, prepare)
