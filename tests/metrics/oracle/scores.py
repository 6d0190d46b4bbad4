#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: scores.py SCORES_PROGRAM
Compares classification and regression metrics with scikit-learn on random data. Exits with 77 if it
is not installed."""
import subprocess
import sys
import warnings

try:
    import numpy as np
    import sklearn.metrics as sk
except ImportError as error:
    print(f"skipped: {error}; install scikit-learn")
    sys.exit(77)
warnings.simplefilter("ignore")


def ours(program, p, labels, guess, target):
    head = np.array([len(labels), p.shape[1]], np.int64)
    data = b"".join(a.tobytes() for a in (head, p, labels, guess, target))
    run = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True)
    return {n: float(v) for n, v in (line.split() for line in run.stdout.decode().splitlines())}


def of_probabilities(p, labels, suffix):
    """Top-k accuracy and calibration computed from their definitions; scikit-learn does not have
    them, or breaks ties differently."""
    own, n = p[np.arange(len(labels)), labels], len(labels)
    before = (p > own[:, None]).sum(1) + ((p == own[:, None]) & (np.arange(p.shape[1]) < labels[:, None])).sum(1)
    confidence, right = p.max(1).astype(float), p.argmax(1) == labels
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = np.array([abs(right[bins == b].mean() - confidence[bins == b].mean()) if (bins == b).any() else 0
                     for b in range(15)])
    share = np.bincount(bins, minlength=15) / n
    return {f"top1{suffix}": (before < 1).mean(), f"top2{suffix}": (before < 2).mean(),
            f"ece{suffix}": (share * gaps).sum(), f"mce{suffix}": gaps.max(),
            f"rms_calibration{suffix}": np.sqrt((share * gaps**2).sum())}


def of_each(prefix, truth, chosen, **of):
    """The scores of each class."""
    parts = {"precision": sk.precision_score(truth, chosen, average=None, **of),
             "recall": sk.recall_score(truth, chosen, average=None, **of),
             "f": sk.fbeta_score(truth, chosen, beta=2, average=None, **of),
             "dice": sk.f1_score(truth, chosen, average=None, **of),
             "iou": sk.jaccard_score(truth, chosen, average=None, **of)}
    return {f"{prefix}{name}_of_{c}": value for name, values in parts.items() for c, value in enumerate(values)}


def theirs(p, labels, guess, target):
    predicted, classes = p.argmax(1), p.shape[1]
    every = (labels[:, None] == np.arange(classes)).astype(int)
    matrix = sk.confusion_matrix(labels, predicted, labels=range(classes)).astype(float)
    tp, support, n = matrix.diagonal(), matrix.sum(1), matrix.sum()
    fp = matrix.sum(0) - tp
    tn = n - support - fp
    used = (support + fp) > 0
    special = tn / (tn + fp)
    result = {
        "accuracy": sk.accuracy_score(labels, predicted),
        "balanced": sk.balanced_accuracy_score(labels, predicted),
        "kappa": sk.cohen_kappa_score(labels, predicted),
        "matthews": sk.matthews_corrcoef(labels, predicted),
        "specificity_macro": special[used].mean(), "specificity_micro": tn.sum() / (tn + fp).sum(),
        "specificity_weighted": (special * support).sum() / n,
        "auroc": np.mean([sk.roc_auc_score(every[:, c], p[:, c]) for c in range(classes)]),
        "ap": np.mean([sk.average_precision_score(every[:, c], p[:, c]) for c in range(classes)]),
        "perplexity": np.exp(-np.log(p.astype(float)[np.arange(len(labels)), labels]).mean()),
        "log_loss": -np.log(p.astype(float)[np.arange(len(labels)), labels]).mean(),
        "mae": sk.mean_absolute_error(target, guess), "mse": sk.mean_squared_error(target, guess),
        "r2": sk.r2_score(target, guess),
    }
    some = np.where(np.arange(len(guess)) % 7 == 3, np.nan, guess)
    result |= {"mean_skipping": np.nanmean(some), "mean_imputing": np.where(np.isnan(some), 1.0, some).mean(),
               "mean_fast": np.nanmean(some)}
    counted = labels != classes - 1
    result |= of_probabilities(p, labels, "") | of_probabilities(p[counted], labels[counted], "_but_last")
    for average in ("macro", "micro", "weighted"):
        result[f"precision_{average}"] = sk.precision_score(labels, predicted, average=average)
        result[f"recall_{average}"] = sk.recall_score(labels, predicted, average=average)
        result[f"f_{average}"] = sk.fbeta_score(labels, predicted, beta=2, average=average)
        result[f"dice_{average}"] = sk.f1_score(labels, predicted, average=average)
        result[f"iou_{average}"] = sk.jaccard_score(labels, predicted, average=average)
    binned = np.minimum(np.floor(p.astype(float) * 16), 15)
    result["auroc_binned"] = np.mean([sk.roc_auc_score(every[:, c], binned[:, c]) for c in range(classes)])
    result["ap_binned"] = np.mean([sk.average_precision_score(every[:, c], binned[:, c]) for c in range(classes)])
    for average in ("micro", "weighted"):
        for suffix, scores in (("", p), ("_binned", binned)):
            result[f"auroc_{average}{suffix}"] = sk.roc_auc_score(every, scores, average=average)
            result[f"ap_{average}{suffix}"] = sk.average_precision_score(every, scores, average=average)
    result |= of_each("", labels, predicted, labels=range(classes)) | {f"specificity_of_{c}": special[c] for c in range(classes)}
    several = ((labels[:, None] + np.arange(classes)) % 3 == 0) | (every == 1)
    chosen = p > 0.5
    result |= of_each("multilabel_", several, chosen)
    result["multilabel_accuracy"] = 1 - sk.hamming_loss(several, chosen)
    result["exact_match"] = sk.accuracy_score(several, chosen)
    for average in ("micro", "weighted"):  # no macro: scikit-learn counts labels of no sample
        result[f"multilabel_precision_{average}"] = sk.precision_score(several, chosen, average=average)
        result[f"multilabel_recall_{average}"] = sk.recall_score(several, chosen, average=average)
        result[f"multilabel_f_{average}"] = sk.fbeta_score(several, chosen, beta=2, average=average)
        result[f"multilabel_dice_{average}"] = sk.f1_score(several, chosen, average=average)
        result[f"multilabel_iou_{average}"] = sk.jaccard_score(several, chosen, average=average)
    return result


def main(program):
    compared = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, classes = int(rng.integers(60, 400)), int(rng.integers(2, 6))
        labels = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
        p = rng.integers(1, 9, (n, classes)).astype(float)  # many ties
        p[np.arange(n), labels] += rng.integers(0, 6, n)
        p = (p / p.sum(1, keepdims=True)).astype(np.float32)
        target = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
        data = (p, labels.astype(np.int64), target + rng.normal(size=n), target)
        a, b = ours(program, *data), theirs(*data)
        assert a.keys() >= b.keys(), b.keys() - a.keys()  # scores_torch.py compares the others
        for name in sorted(b):
            assert abs(a[name] - b[name]) <= 1e-11 * max(1, abs(b[name])), (seed, name, a[name], b[name])
            compared += 1
    print(f"{compared} values agree with scikit-learn")


main(sys.argv[1])
