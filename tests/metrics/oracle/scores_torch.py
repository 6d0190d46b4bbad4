#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: scores_torch.py SCORES_PROGRAM
Compares classification and regression metrics with TorchMetrics on random data. Exits with 77 if it
is not installed (script/bootstrap --torch).

TorchMetrics divides and adds in float32, so values agree to TOLERANCE. Some definitions differ,
so these are left out or called differently:
- macro averages of AUROC and average precision: TorchMetrics counts a class without a positive
  as 0, kolo leaves it out. Here they are computed per class, and averaged over classes with a
  positive.
- macro averages over several labels: TorchMetrics counts labels that no sample has and none is
  predicted to have as 0, kolo leaves them out (unless counts_absent). Here each label occurs.
- Accuracy is macro by default in TorchMetrics; here it is micro. Balanced accuracy is its macro
  over labels that occur.
- top-k takes any of equal scores, and calibration finds bins by edges in float32: the
  probabilities here have no ties and are not at edges.
- R2 of equal targets: kolo does as scikit-learn (0 or 1), TorchMetrics fails or divides by 0.
  Not tested here.
- binned curves: TorchMetrics has thresholds, kolo has bins. Exact curves are compared here,
  binned ones in scores.py.
- MeanMetric(nan_strategy=NUMBER) also uses the number for the weights, so the number is 1 here.
- perplexity applies softmax to its input, so it gets logarithms of probabilities."""
import subprocess
import sys
import warnings

try:
    import numpy as np
    import torch
    import torchmetrics.functional as tf
    from torchmetrics import MeanMetric
    import torchmetrics.functional.classification as tc
    from torchmetrics.functional.text import perplexity
except ImportError as error:
    print(f"skipped: {error}; script/bootstrap --torch installs it")
    sys.exit(77)
warnings.simplefilter("ignore")
TOLERANCE = 3e-6  # for a few roundings to float32
LOOSE = {"r2": 2e-5, "log_loss": 2e-5, "perplexity": 2e-5, "kappa": 2e-5, "matthews": 2e-5,
         "mean_skipping": 2e-5, "mean_imputing": 2e-5, "mean_fast": 2e-5}  # differences of sums


def ours(program, p, labels, guess, target):
    head = np.array([len(labels), p.shape[1]], np.int64)
    data = b"".join(a.tobytes() for a in (head, p, labels, guess, target))
    run = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True)
    return {n: float(v) for n, v in (line.split() for line in run.stdout.decode().splitlines())}


def of_averages(result, prefix, kind, p, labels, **of):
    """The scores that have averages, computed by tc's functions for a kind of task."""
    call = lambda name, **more: getattr(tc, f"{kind}_{name}")(p, labels, **of, **more)
    for average in ("macro", "micro", "weighted", "none"):
        result[f"{prefix}precision_{average}"] = call("precision", average=average)
        result[f"{prefix}recall_{average}"] = call("recall", average=average)
        result[f"{prefix}f_{average}"] = call("fbeta_score", beta=2.0, average=average)
        result[f"{prefix}dice_{average}"] = call("f1_score", average=average)
        result[f"{prefix}specificity_{average}"] = call("specificity", average=average)
        result[f"{prefix}iou_{average}"] = call("jaccard_index", average=average)


def mean_of(values, policy):
    """The result of MeanMetric after several updates."""
    metric = MeanMetric(nan_strategy=policy).set_dtype(torch.float64)
    for part in values.clone().split(50):  # a copy, because MeanMetric writes to it
        metric.update(part)
    return metric.compute()


def theirs(p, labels, guess, target):
    classes, p, labels = p.shape[1], torch.tensor(p), torch.tensor(labels)
    guess, target = torch.tensor(guess), torch.tensor(target)
    some = torch.where(torch.arange(len(guess)) % 7 == 3, torch.nan, guess)
    of = {"num_classes": classes}
    there = torch.bincount(labels, minlength=classes) > 0
    recall = tc.multiclass_recall(p, labels, average="none", **of)
    but_last = {"ignore_index": classes - 1, **of}
    every = (labels[:, None] == torch.arange(classes)).int()
    several = ((labels[:, None] + torch.arange(classes)) % 3 == 0) | (labels[:, None] == torch.arange(classes))
    result = {
        "accuracy": tc.multiclass_accuracy(p, labels, average="micro", **of),
        "top1": tc.multiclass_accuracy(p, labels, average="micro", **of),
        "top2": tc.multiclass_accuracy(p, labels, average="micro", top_k=2, **of),
        "balanced": recall[there].mean(),
        "kappa": tc.multiclass_cohen_kappa(p, labels, **of),
        "matthews": tc.multiclass_matthews_corrcoef(p, labels, **of),
        "auroc": tc.multiclass_auroc(p, labels, average="none", **of)[there].mean(),
        "ap": tc.multiclass_average_precision(p, labels, average="none", **of)[there].mean(),
        "auroc_weighted": tc.multiclass_auroc(p, labels, average="weighted", **of),
        "ap_weighted": tc.multiclass_average_precision(p, labels, average="weighted", **of),
        "auroc_micro": tc.multilabel_auroc(p, every, average="micro", num_labels=classes),
        "ap_micro": tc.multilabel_average_precision(p, every, average="micro", num_labels=classes),
        "ece": tc.multiclass_calibration_error(p, labels, n_bins=15, norm="l1", **of),
        "mce": tc.multiclass_calibration_error(p, labels, n_bins=15, norm="max", **of),
        "rms_calibration": tc.multiclass_calibration_error(p, labels, n_bins=15, norm="l2", **of),
        "top1_but_last": tc.multiclass_accuracy(p, labels, average="micro", **but_last),
        "top2_but_last": tc.multiclass_accuracy(p, labels, average="micro", top_k=2, **but_last),
        "ece_but_last": tc.multiclass_calibration_error(p, labels, n_bins=15, norm="l1", **but_last),
        "mce_but_last": tc.multiclass_calibration_error(p, labels, n_bins=15, norm="max", **but_last),
        "rms_calibration_but_last": tc.multiclass_calibration_error(p, labels, n_bins=15, norm="l2", **but_last),
        "perplexity": perplexity(torch.log(p)[None], labels[None]),
        "log_loss": torch.log(perplexity(torch.log(p)[None], labels[None])),
        "mean_skipping": mean_of(some, "ignore"),
        "mean_imputing": mean_of(some, 1.0),
        "mean_fast": mean_of(some, "warn"),
        "mae": tf.mean_absolute_error(guess, target),
        "mse": tf.mean_squared_error(guess, target),
        "r2": tf.r2_score(guess, target),
        "multilabel_accuracy": tc.multilabel_accuracy(p, several, num_labels=classes, average="micro"),
        "exact_match": tc.multilabel_exact_match(p, several.int(), num_labels=classes),
    }
    of_averages(result, "", "multiclass", p, labels, **of)
    of_averages(result, "multilabel_", "multilabel", p, several.int(), num_labels=classes)
    for name in [name for name in result if name.endswith("_none")]:
        result |= {f"{name[:-4]}of_{c}": value for c, value in enumerate(result.pop(name))}
    return {name: float(value) for name, value in result.items()}


def make(seed):
    """Every other set has a class that is neither label nor prediction."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.integers(60, 400)), int(rng.integers(3, 7))
    used = classes - seed % 2
    labels = np.concatenate([np.arange(used), rng.integers(0, used, n - used)]).astype(np.int64)
    p = rng.random((n, classes))
    p[:, used:] *= 1e-3
    p[np.arange(n), labels] += rng.random(n) * 2
    p = (p / p.sum(1, keepdims=True)).astype(np.float32)
    target = rng.normal(size=n) * 10.0 ** rng.integers(-1, 3)
    return p, labels, target + rng.normal(size=n), target


def main(program):
    compared = 0
    for seed in range(40):
        data = make(seed)
        a, b = ours(program, *data), theirs(*data)
        assert a.keys() ^ b.keys() == {name for name in a if name.endswith("_binned")}, a.keys() ^ b.keys()
        for name in sorted(b):
            allowed = LOOSE.get(name, TOLERANCE) * max(1, abs(b[name]))
            assert abs(a[name] - b[name]) <= allowed, (seed, name, a[name], b[name])
            compared += 1
    print(f"{compared} values agree with TorchMetrics")


main(sys.argv[1])
