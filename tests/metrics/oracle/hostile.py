#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: hostile.py LIBKOLO [--seeds N] [--first SEED]
Compares all metrics but detection with scikit-learn, with TorchMetrics (whichever is installed; 77 if
neither is), and with their definitions, on random data chosen to be awkward: ties, one sample or
none that counts, classes of no sample, labels and predictions that are ignored, scores of 0 and 1,
of 1e38, 1e-45 and infinite ones, NaN, and samples that several ranks of 1 to 7 have, with other
content. Some of the states are saved and restored, or merged, before they are computed.

TorchMetrics computes in float32, and these are left to the other two, because it defines them
differently or leaves them open:
- AUROC and average precision of a label without positives or negatives: 0 or NaN with a warning.
- Matthews' coefficient of 0 / 0 for two classes: TorchMetrics has a limit there, kolo 0.
- The macro and micro averages of IoU if ignore_index is a class: TorchMetrics leaves that class out
  even if it was predicted. kolo counts the prediction.
- Top-k and argmax of equal scores: any of them.
- Bins of calibration: edges in float32.
- Scores outside 0 to 1: TorchMetrics applies sigmoid or softmax to them.
- Macro averages over several labels: TorchMetrics counts a label that no sample has and none is
  predicted to have as 0, kolo leaves it out.
- Weighted IoU if no sample has a label: TorchMetrics NaN, kolo 0, as both for the other scores.
- Exact matches of samples with an ignored label: TorchMetrics counts none of them as right."""
import argparse
import math
import os
import sys
import warnings
from fractions import Fraction

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; script/bootstrap --oracles or --torch installs it")
    sys.exit(77)
import length
from kolo_metrics import Kolo, Metric

try:
    import sklearn.metrics as sk
except ImportError:
    sk = None
try:
    import torch
    import torchmetrics.functional.classification as tc
    from torchmetrics.functional.text import perplexity
except ImportError:
    torch = None
if not sk and not torch:
    print("skipped: neither scikit-learn nor TorchMetrics; script/bootstrap --oracles or --torch installs them")
    sys.exit(77)
warnings.simplefilter("ignore")
np.seterr(all="ignore")
EXACT, FLOAT32 = 1e-12, 2e-5
BINS = 8
WAYS = ("plain", "saved", "merged")
AVERAGES = ("macro", "micro", "weighted", "none")


def scores_of(rng, shape):
    """Probabilities, not normalised."""
    how = rng.integers(6)
    values = rng.random(shape)
    if how == 1:
        values = rng.integers(0, 4, shape) / 4  # ties, 0 at the edges of bins
    elif how == 2:
        values = rng.integers(0, 2, shape).astype(float)
    elif how == 3:
        values = np.full(shape, rng.choice([0.0, 0.5, 1.0]))
    elif how == 4:
        values = np.where(rng.random(shape) < 0.3, np.float32(1e-45), values)
    return values.astype(np.float32)


def any_floats(rng, shape):
    """Scores of any size, also infinite; no NaN."""
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-30, 30, shape)
    odd = rng.choice(np.array([0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, np.inf, -np.inf]), shape)
    return np.where(rng.random(shape) < 0.4, odd, values).astype(np.float32)


def deal_rows(rng, rows):
    """For each rank the rows of each update."""
    ranks = int(rng.integers(1, 8))
    owner = rng.integers(0, ranks, rows) if rng.random() < 0.8 else np.zeros(rows, int)
    order = rng.permutation(rows)
    return [np.split(mine, np.sort(rng.integers(0, len(mine) + 1, 2)))
            for mine in (order[owner[order] == rank] for rank in range(ranks))]


def kept_rows(deal, indices):
    """The rows that count: of each index the first on the lowest rank."""
    kept = {}
    for rows in deal:
        for row in np.concatenate(rows):
            kept.setdefault(int(indices[row]), int(row))
    return np.array(sorted(kept.values()), int)


class Case:
    """Random samples, how they are dealt, and which count."""

    def __init__(self, rng):
        self.samples = int(rng.choice([1, 2, 3, 10, 60]))
        self.rows = self.samples + int(rng.integers(0, 6))  # those beyond are duplicates
        self.has_ids = rng.random() < 0.5
        self.indices = np.arange(self.rows)
        self.indices[self.samples:] = rng.integers(0, self.samples, self.rows - self.samples)
        self.deal = deal_rows(rng, self.rows)
        self.kept = kept_rows(self.deal, self.indices) if self.has_ids else np.arange(self.rows)
        self.metrics, self.expected = [], []

    def add(self, metric, *expected):
        """Each of `expected` is a pair of a dictionary of values and a tolerance."""
        if self.has_ids:
            metric.config["samples"], metric.indices = self.samples, self.indices
        self.metrics.append(metric)
        self.expected.append(expected)


def argument(ignore):
    return {} if ignore is None else {"ignores": True, "ignore_index": ignore}


# ---- one class per sample ----


def top_k(p, labels, ties):
    own, classes = p[np.arange(len(labels)), labels][:, None], np.arange(p.shape[1])
    tie = [classes < labels[:, None], classes > labels[:, None], np.zeros(p.shape, bool), classes != labels[:, None]][ties]
    return ((p > own) | ((p == own) & tie)).sum(1)


def add_with_nans(case, rng, labels, classes):
    """Accuracy of scores of which some are NaN: it ranks before every number, and ties with NaN."""
    scores, ties = any_floats(rng, (case.rows, classes)), int(rng.integers(4))
    scores[rng.random(scores.shape) < 0.2] = np.nan
    ranks = np.unique(np.nan_to_num(scores, posinf=np.inf, neginf=-np.inf), return_inverse=True)[1].reshape(scores.shape)
    ranks = np.where(np.isnan(scores), ranks.max() + 1, ranks)
    before = top_k(ranks[case.kept], labels[case.kept], ties)
    case.add(Metric("accuracy", "", [scores, labels], classes=classes, k=[classes, 1] + [0] * 14, ties=ties),
             ({"correct.0": len(case.kept), "correct.1": int((before < 1).sum()),
               "nan_samples": int(np.isnan(scores[case.kept]).any(1).sum())}, 0))


def mean_of(values):
    values = [value for value in values if not math.isnan(value)]
    return sum(values) / len(values) if values else math.nan


def areas(truth, scores, weights):
    """The areas of scikit-learn for each column, where they are defined, and their averages."""
    scores = np.unique(scores, return_inverse=True)[1].reshape(scores.shape)  # scikit-learn refuses infinite ones
    both = [0 < truth[:, c].sum() < len(truth) for c in range(truth.shape[1])]
    auroc = [sk.roc_auc_score(truth[:, c], scores[:, c]) if both[c] else math.nan for c in range(truth.shape[1])]
    ap = [sk.average_precision_score(truth[:, c], scores[:, c]) if truth[:, c].any() else math.nan
          for c in range(truth.shape[1])]
    found = {"auroc": mean_of(auroc), "average_precision": mean_of(ap)}
    for c, (a, b) in enumerate(zip(auroc, ap)):
        found |= {f"labels.{c}.auroc": a, f"labels.{c}.average_precision": b}
    for name, values in (("auroc", auroc), ("average_precision", ap)):
        has = [c for c in range(len(values)) if not math.isnan(values[c])]
        total = sum(weights[c] for c in has)
        found[f"weighted.{name}"] = sum(values[c] * weights[c] for c in has) / total if total else math.nan
    if 0 < truth.sum() < truth.size:
        found["micro.auroc"] = sk.roc_auc_score(truth.ravel(), scores.ravel())
        found["micro.average_precision"] = sk.average_precision_score(truth.ravel(), scores.ravel())
    return found


def classes_by_sklearn(labels, predicted, classes):
    every = {"labels": range(classes), "average": None, "zero_division": 0}
    found = {"accuracy": sk.accuracy_score(labels, predicted), "balanced": sk.balanced_accuracy_score(labels, predicted),
             "kappa": sk.cohen_kappa_score(labels, predicted), "matthews": sk.matthews_corrcoef(labels, predicted)}
    functions = {"precision": sk.precision_score, "recall": sk.recall_score, "dice": sk.f1_score, "iou": sk.jaccard_score,
                 "f": lambda *a, **of: sk.fbeta_score(*a, beta=2, **of)}
    for name, function in functions.items():
        found |= {f"{name}_{average}": function(labels, predicted, average=average, zero_division=0)
                  for average in ("macro", "micro", "weighted")}
        found |= {f"{name}_none.{c}": value for c, value in enumerate(function(labels, predicted, **every))}
    return found


def averages_by_torch(kind, predicted, labels, **of):
    call = lambda name, **more: getattr(tc, f"{kind}_{name}")(predicted, labels, **of, **more)
    found = {}
    for name, function, more in (("precision", "precision", {}), ("recall", "recall", {}), ("dice", "f1_score", {}),
                                 ("specificity", "specificity", {}), ("iou", "jaccard_index", {}),
                                 ("f", "fbeta_score", {"beta": 2.0})):
        for average in AVERAGES:
            value = call(function, average=average, **more)
            found |= ({f"{name}_none.{c}": float(v) for c, v in enumerate(value)} if average == "none"
                      else {f"{name}_{average}": float(value)})
    return found


def classes_by_torch(labels, predicted, classes, ignore):
    of = {"num_classes": classes, "ignore_index": ignore}
    labels, predicted = torch.tensor(labels), torch.tensor(predicted)
    found = averages_by_torch("multiclass", predicted, labels, **of)
    matrix = tc.multiclass_confusion_matrix(predicted, labels, **of)
    found |= {f"matrix.{i}": int(value) for i, value in enumerate(matrix.ravel())}
    found["accuracy"] = float(tc.multiclass_accuracy(predicted, labels, average="micro", **of))
    found["kappa"] = float(tc.multiclass_cohen_kappa(predicted, labels, **of))
    if classes > 2:
        found["matthews"] = float(tc.multiclass_matthews_corrcoef(predicted, labels, **of))
    if ignore is not None and 0 <= ignore < classes:
        del found["iou_macro"], found["iou_micro"]
    return found


def calibration(confidence, right, bins):
    which = np.minimum((confidence.astype(float) * bins).astype(int), bins - 1)
    gaps = [(abs(right[which == b].mean() - confidence[which == b].astype(float).mean()), (which == b).mean())
            for b in range(bins) if (which == b).any()]
    if not gaps:
        return {"expected": math.nan}
    return {"expected": sum(g * s for g, s in gaps), "maximum": max(g for g, _ in gaps),
            "rms": math.sqrt(sum(g * g * s for g, s in gaps))}


def add_curves(case, function, scores, truths, ignore, truth, kept, labels):
    """Exact curves of scores and binned ones. truth: of those that count."""
    weights = truth.sum(0) if len(truth) else np.zeros(labels)
    for bins in (0, BINS):
        metric = Metric("curve", function, [scores, truths], labels=labels, bins=bins, micro=True, **argument(ignore))
        shown = np.minimum(np.floor(np.clip(scores[kept].astype(float), 0, 1) * bins), bins - 1) if bins else scores[kept]
        case.add(metric, *[(areas(truth, shown, weights), EXACT)] if sk and len(truth) else [])


def multiclass(rng):
    case, classes = Case(rng), int(rng.integers(1, 7))
    used = rng.choice(classes, rng.integers(1, classes + 1), replace=False)
    ignore = [None, -100, 255, int(rng.integers(classes))][rng.integers(4)]
    p, labels = scores_of(rng, (case.rows, classes)), rng.choice(used, case.rows)
    add_with_nans(case, rng, labels, classes)
    if ignore is not None:
        labels = np.where(rng.random(case.rows) < rng.choice([0.2, 1.0], p=[0.9, 0.1]), ignore, labels)
    kept, ties = case.kept[labels[case.kept] != ignore] if ignore is not None else case.kept, int(rng.integers(4))
    q, y, predicted = p[kept], labels[kept], p.argmax(1)
    ks = sorted({1, classes, int(rng.integers(1, classes + 1))})
    before = top_k(q, y, ties)
    case.add(Metric("accuracy", "", [p, labels], classes=classes, k=ks + [0] * (16 - len(ks)), ties=ties, **argument(ignore)),
             ({f"correct.{i}": int((before < k).sum()) for i, k in enumerate(ks)} | {"ignored": len(case.kept) - len(kept)},
              EXACT))
    expected = []
    if sk and len(y):
        expected.append((classes_by_sklearn(y, predicted[kept], classes), EXACT))
    if torch and len(y) and classes > 1:
        expected.append((classes_by_torch(labels[case.kept], predicted[case.kept], classes, ignore), FLOAT32))
    case.add(Metric("confusion", "_scores", [p, labels], classes=classes, **argument(ignore)), *expected)
    add_curves(case, "_classes", p, labels, ignore, y[:, None] == np.arange(classes), kept, classes)
    wild = any_floats(rng, p.shape)
    case.add(Metric("curve", "_classes", [wild, labels], labels=classes, micro=True, **argument(ignore)),
             *[(areas(y[:, None] == np.arange(classes), wild[kept], np.bincount(y, minlength=classes)), EXACT)]
             if sk and len(y) else [])
    add_likelihood(case, rng, q, y, p, labels, ignore, kept)
    right = predicted[kept] == y
    edge = calibration(q.max(1) if classes > 1 else q[:, 0], right if classes > 1 else y == 1, BINS)
    case.add(Metric("calibration", "", [p, labels], classes=classes, bins=BINS, **argument(ignore)), (edge, EXACT))
    return case


def add_likelihood(case, rng, q, y, p, labels, ignore, kept):
    classes, own = p.shape[1], np.maximum(q[np.arange(len(y)), y].astype(float), 2.0 ** -52)
    loss = -np.log(own).mean() if len(y) else math.nan
    case.add(Metric("likelihood", "", [p, labels], elements=True, classes=classes, **argument(ignore)),
             ({"log_loss": loss, "perplexity": math.exp(loss)}, EXACT))
    logits = (rng.normal(size=p.shape) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
    z = logits[kept].astype(float)
    down = z - z.max(1, keepdims=True)
    logs = down[np.arange(len(y)), y] - np.log(np.exp(down).sum(1))
    loss = -logs.mean() if len(y) else math.nan
    expected = [({"log_loss": loss, "perplexity": math.exp(loss)}, 1e-11)]
    if torch and len(y) and logs.min() > -30:
        ignored = {} if ignore is None else {"ignore_index": ignore}
        chosen = torch.tensor(logits[case.kept])[None], torch.tensor(labels[case.kept])[None]
        expected.append(({"perplexity": float(perplexity(*chosen, **ignored))}, 1e-4))
    case.add(Metric("likelihood", "", [logits, labels], elements=True, classes=classes, logits=True, **argument(ignore)),
             *expected)


# ---- several labels per sample ----


def labels_by_definition(truth, chosen, counts):
    wrong = counts & (truth != chosen)
    return {"elements": int(counts.sum()), "accuracy": 1 - wrong.sum() / counts.sum() if counts.any() else math.nan,
            "exact_match": float((~wrong.any(1)).mean()) if len(truth) else math.nan}


def labels_by_sklearn(truth, chosen, counts):
    """Each label by itself, since different samples count for each."""
    functions = {"precision": sk.precision_score, "recall": sk.recall_score, "dice": sk.f1_score, "iou": sk.jaccard_score,
                 "f": lambda *a, **of: sk.fbeta_score(*a, beta=2, **of)}
    found = {}
    for name, function in functions.items():
        for l in range(truth.shape[1]):
            if counts[:, l].any():
                found[f"{name}_none.{l}"] = function(truth[counts[:, l], l], chosen[counts[:, l], l], zero_division=0)
        if counts.any():
            found[f"{name}_micro"] = function(truth[counts], chosen[counts], zero_division=0)
    return found


def multilabel(rng):
    case, labels = Case(rng), int(rng.integers(1, 6))
    p, truths = scores_of(rng, (case.rows, labels)), rng.integers(0, 2, (case.rows, labels)).astype(np.int8)
    truths[rng.random(truths.shape) < rng.choice([0.0, 0.2, 0.95])] = -1
    ignore = [None, None, -1, 0, 1][rng.integers(5)]
    truths[:, rng.random(labels) < 0.2] = rng.choice([-1, 0, 1])
    limits = rng.choice(np.array([0.0, 0.25, 0.5, 1.0], np.float32), labels)
    truth = truths[case.kept]
    counts, chosen = (truth != -1) & (truth != ignore), p[case.kept] > limits
    expected = [(labels_by_definition(truth == 1, chosen, counts), EXACT)]
    if sk:
        expected.append((labels_by_sklearn(truth == 1, chosen, counts), EXACT))
    if torch and len(truth) and labels > 1 and ignore in (None, -1):
        of = {"num_labels": labels, "ignore_index": -1}
        guess, true = torch.tensor(chosen).int(), torch.tensor(truth.astype(np.int64))
        there = averages_by_torch("multilabel", guess, true, **of)
        is_full = ((truth == 1) | (counts & chosen)).any(0).all()
        if not (truth == 1).any():
            del there["iou_weighted"]
        expected.append(({name: value for name, value in there.items() if is_full or not name.endswith("_macro")}, FLOAT32))
        if counts.all():
            expected.append(({"exact_match": float(tc.multilabel_exact_match(guess, true, **of))}, FLOAT32))
    case.add(Metric("multilabel", "", [p, truths], labels=labels, thresholds=limits, **argument(ignore)), *expected)
    for l in range(labels if sk else 0):  # one label a time: other samples count for each
        kept = case.kept[counts[:, l]]
        truth = truths[kept, l][:, None] == 1
        add_curves(case, "", p[:, [l]], truths[:, [l]], ignore, truth, kept, 1)
    return case


# ---- segmentation ----


def segmentation(rng):
    """Several elements per sample, some of them ignored."""
    case, classes, elements = Case(rng), int(rng.integers(1, 7)), int(rng.choice([1, 2, 50]))
    ignore = [None, 255, int(rng.integers(classes))][rng.integers(3)]
    shape = (case.rows, elements)
    labels, predictions = rng.integers(0, classes, shape), rng.integers(0, classes, shape)
    if ignore is not None:
        labels = np.where(rng.random(shape) < 0.3, ignore, labels)
        predictions = np.where(labels == ignore, -7, predictions)  # they are not read
    y, guess = labels[case.kept].ravel(), predictions[case.kept].ravel()
    counts = y != ignore if ignore is not None else np.ones(len(y), bool)
    matrix = np.zeros((classes, classes), int)
    np.add.at(matrix, (y[counts], guess[counts]), 1)
    expected = {f"matrix.{i}": int(count) for i, count in enumerate(matrix.ravel())}
    case.add(Metric("confusion", "", [predictions, labels], elements=True, classes=classes, **argument(ignore)),
             (expected | {"elements": int(counts.sum()), "ignored": int((~counts).sum())}, 0),
             *[(classes_by_sklearn(y[counts], guess[counts], classes), EXACT)] if sk and counts.any() else [])
    p = rng.random((*shape, classes)).astype(np.float32)
    own = np.take_along_axis(p[case.kept].reshape(-1, classes)[counts].astype(float), y[counts][:, None], 1)
    case.add(Metric("likelihood", "", [p, labels], elements=True, classes=classes, **argument(ignore)),
             ({"log_loss": -np.log(np.maximum(own, 2.0 ** -52)).mean() if counts.any() else math.nan}, EXACT))
    return case


# ---- numbers ----


def ratio(number):
    return Fraction(float(number))


def to_float(number):
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def regression(rng):
    case = Case(rng)
    scale = 10.0 ** rng.choice([-150, -3, 0, 3, 140])
    offset = rng.choice([0.0, 0.0, 1e9]) * scale
    target = (rng.integers(-3, 4, case.rows) if rng.random() < 0.3 else rng.normal(size=case.rows)) * scale + offset
    guess = target.copy() if rng.random() < 0.2 else target + rng.normal(size=case.rows) * scale
    policy = int(rng.choice([1, 2, 3]))
    if rng.random() < 0.3:
        guess[rng.random(case.rows) < 0.2] = rng.choice([np.nan, np.inf, -np.inf, 1e300])
    if rng.random() < 0.1:
        target[:] = target[0]
    fits = np.isfinite(guess) & (np.abs(guess) <= 2.0 ** 500)
    kept = case.kept[fits[case.kept]]
    expected = {"nonfinite": len(case.kept) - len(kept)}
    if policy == 2 and len(kept) < len(case.kept):
        expected |= {name: math.nan for name in ("mean_error", "mae", "mse", "rmse", "r2")}
    elif len(kept):
        y, g, n = [ratio(t) for t in target[kept]], [ratio(t) for t in guess[kept]], len(kept)
        left = sum((a - b) ** 2 for a, b in zip(g, y))
        spread = sum((a - sum(y) / n) ** 2 for a in y)
        expected |= {"mean_error": to_float(sum(g) - sum(y)) / n, "mae": to_float(sum(abs(a - b) for a, b in zip(g, y))) / n,
                     "mse": to_float(left / n), "r2": math.nan if n < 2 else float(not left) if not spread
                     else to_float(1 - left / spread)}
    case.add(Metric("regression", "_float64", [guess, target], nonfinite=policy), (expected, 1e-15))
    values = np.where(np.isfinite(guess), guess, np.nan)
    finite = values[case.kept][np.isfinite(values[case.kept])]
    total = math.fsum(finite)
    case.add(Metric("mean", "_float64", [values], nonfinite=1),
             ({"sum": total, "mean": total / len(finite) if len(finite) else math.nan}, 0.0))
    return case


# ---- comparison ----


def value_at(result, name):
    for part in name.split("."):
        result = result[int(part) if part.isdigit() else part]
    return result


def differences(case, results):
    for metric, result, all_expected in zip(case.metrics, results, case.expected):
        counts = result["samples"]
        want = {"counted": len(case.kept), "duplicates": case.rows - len(case.kept), "missing": 0}
        ignored = result.get("ignored", 0) if metric.kind in ("accuracy", "calibration") else 0
        is_skipping = metric.config.get("nonfinite") in (1, 3)
        uncounted = result.get("nonfinite", result.get("nans", 0)) if is_skipping else 0
        want["counted"] -= ignored + uncounted
        if metric.kind not in ("curve",) and counts != want:
            yield f"{metric.kind}: samples {counts}, expected {want}"
        for expected, tolerance in all_expected:
            for name, value in expected.items():
                got = value_at(result, name)
                same = math.isnan(got) if math.isnan(value) else abs(got - value) <= tolerance * max(1, abs(value))
                if not same:
                    yield f"{metric.kind} {name}: {got!r}, expected {value!r}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--seeds", type=int, default=length.seeds(30, 15))
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    os.environ["KOLO_LOG"] = "error"  # not of values that are left out
    kolo, wrong, values = Kolo(options.library), 0, 0
    for seed in range(options.first, options.first + options.seeds):
        for make in (multiclass, multilabel, segmentation, regression):
            case = make(np.random.default_rng(seed))
            results = kolo.compute(case.metrics, case.deal, WAYS[seed % len(WAYS)])
            values += sum(len(values) for expected in case.expected for values, _ in expected)
            for text in differences(case, results):
                wrong += 1
                print(f"seed {seed}, {make.__name__}: {text}")
    with_whom = " and ".join(["the definitions"] + ["scikit-learn"] * bool(sk) + ["TorchMetrics"] * bool(torch))
    print(f"{values - wrong} of {values} values agree with {with_whom}")
    sys.exit(wrong > 0)


main()
