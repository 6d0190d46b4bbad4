# SPDX-License-Identifier: Apache-2.0
"""The metrics of libkolo.so for Python, so that a test can choose any configuration and any way of
dealing samples to ranks. Ranks are threads."""
import ctypes
from ctypes import POINTER, c_bool, c_double, c_float, c_int, c_int8, c_int64, c_size_t, c_void_p

import numpy as np

KS = 16  # KOLO_TOP_K_MAX
MACRO, MICRO, WEIGHTED, NONE = range(4)
SCORES = ("precision", "recall", "f", "specificity", "iou", "dice")


def struct(**fields):
    """A struct of the API; all begin with their size, but parts of others do not."""
    kind = type("Struct", (ctypes.Structure,), {"_fields_": list(fields.items())})
    return kind


def sized(**fields):
    return struct(size=c_size_t, **fields)


COUNTS = struct(counted=c_int64, duplicates=c_int64, missing=c_int64)
IGNORING = {"ignores": c_bool, "ignore_index": c_int64}
CONFIGS = {
    "mean": sized(samples=c_int64, nonfinite=c_int, imputed=c_double, fast=c_bool),
    "accuracy": sized(samples=c_int64, classes=c_int64, k=c_int * KS, ties=c_int, **IGNORING),
    "confusion": sized(samples=c_int64, classes=c_int64, **IGNORING),
    "multilabel": sized(samples=c_int64, labels=c_int64, thresholds=POINTER(c_float), **IGNORING),
    "curve": sized(samples=c_int64, labels=c_int64, bins=c_int64, **IGNORING, micro=c_bool),
    "likelihood": sized(samples=c_int64, classes=c_int64, logits=c_bool, floor=c_double, **IGNORING),
    "calibration": sized(samples=c_int64, classes=c_int64, bins=c_int64, **IGNORING),
    "regression": sized(samples=c_int64, nonfinite=c_int, imputed=c_double),
}
RESULTS = {
    "mean": sized(mean=c_double, sum=c_double, samples=COUNTS, nans=c_int64, plus=c_int64, minus=c_int64),
    "accuracy": sized(ks=c_int, k=c_int * KS, correct=c_int64 * KS, accuracy=c_double * KS, samples=COUNTS,
                      nan_samples=c_int64, ignored=c_int64),
    "confusion": sized(elements=c_int64, ignored=c_int64, nan_elements=c_int64, accuracy=c_double, balanced=c_double,
                       kappa=c_double, matthews=c_double, samples=COUNTS),
    "multilabel": sized(elements=c_int64, ignored=c_int64, nan_elements=c_int64, accuracy=c_double, exact_match=c_double,
                        samples=COUNTS),
    "curve": sized(auroc=c_double, average_precision=c_double, samples=COUNTS),
    "likelihood": sized(log_loss=c_double, perplexity=c_double, elements=c_int64, ignored=c_int64, samples=COUNTS),
    "calibration": sized(expected=c_double, maximum=c_double, rms=c_double, ignored=c_int64, samples=COUNTS),
    "regression": sized(mean_error=c_double, mae=c_double, mse=c_double, rmse=c_double, r2=c_double, nonfinite=c_int64,
                        samples=COUNTS),
}
LABEL = struct(auroc=c_double, average_precision=c_double, positives=c_int64, negatives=c_int64)
SCORE = sized(score=c_int, average=c_int, beta=c_double, undefined=c_double, counts_absent=c_bool)
RANK_MAIN = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)


def flat(value):
    """The numbers of a struct, without its size, or of an array."""
    if isinstance(value, ctypes.Structure):
        return {name: flat(getattr(value, name)) for name, _ in value._fields_ if name != "size"}
    return list(value) if isinstance(value, ctypes.Array) else value


class Metric:
    """A metric to compute: its kind, its config, the function that updates it, and for each of that
    function's arrays the values of all samples."""

    def __init__(self, kind, update, arrays, elements=False, **config):
        self.kind, self.function, self.elements, self.config = kind, f"kolo_{kind}_update{update}", elements, config
        self.arrays = [np.ascontiguousarray(array) for array in arrays]


class Kolo:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.kolo_error_detail.restype = ctypes.c_char_p

    def call(self, name, *args):
        status = getattr(self.library, name)(*args)
        if status:
            raise ValueError(f"{name}: {self.library.kolo_error_detail().decode()}")

    def create(self, metric):
        config, handle = CONFIGS[metric.kind](size=ctypes.sizeof(CONFIGS[metric.kind])), c_void_p()
        for name, value in metric.config.items():
            if name == "k":
                value = (c_int * KS)(*value)
            elif name == "thresholds":
                value = value.ctypes.data_as(POINTER(c_float))
            setattr(config, name, value)
        self.call(f"kolo_{metric.kind}_create", ctypes.byref(config), ctypes.byref(handle))
        return handle

    def update(self, metric, handle, rows):
        """Adds these rows of the metric's arrays: numbers of rows are the sample indices, if the
        metric's config has samples."""
        parts = [np.ascontiguousarray(array[rows]) for array in metric.arrays]
        ids = np.ascontiguousarray(metric.indices[rows]) if "samples" in metric.config else None
        shape = [c_size_t(len(rows))] + ([c_size_t(parts[-1][0].size if len(rows) else 1)] if metric.elements else [])
        self.call(metric.function, handle, *[c_void_p(part.ctypes.data) for part in parts], *shape,
                  None if ids is None else c_void_p(ids.ctypes.data))

    def result(self, metric, handle):
        result = RESULTS[metric.kind](size=ctypes.sizeof(RESULTS[metric.kind]))
        self.call(f"kolo_{metric.kind}_result", handle, ctypes.byref(result))
        found = flat(result)
        if metric.kind == "confusion":
            found["matrix"] = self.matrix(handle, metric.config["classes"])
            found |= self.scores("kolo_confusion_score", handle, metric.config["classes"])
        if metric.kind == "multilabel":
            found |= self.scores("kolo_multilabel_score", handle, metric.config["labels"])
        if metric.kind == "curve":
            labels = (LABEL * metric.config["labels"])()
            self.call("kolo_curve_labels", handle, labels, c_size_t(len(labels)))
            found["labels"] = [flat(label) for label in labels]
            for name, average in (("macro", MACRO), ("weighted", WEIGHTED), ("micro", MICRO)):
                if average != MICRO or metric.config.get("micro") or metric.config.get("bins"):
                    one = LABEL()
                    self.call("kolo_curve_average", handle, average, ctypes.byref(one))
                    found[name] = flat(one)
        return found

    def matrix(self, handle, classes):
        counts = np.zeros(classes * classes, np.int64)
        self.call("kolo_confusion_counts", handle, c_void_p(counts.ctypes.data), c_size_t(counts.size))
        return counts.tolist()

    def scores(self, function, handle, classes):
        found = {}
        for s, score in enumerate(SCORES):
            for average, name in enumerate(("macro", "micro", "weighted", "none")):
                values = (c_double * classes)()
                config = SCORE(size=ctypes.sizeof(SCORE), score=s, average=average, beta=2.0)
                self.call(function, handle, ctypes.byref(config), values, c_size_t(classes))
                found[f"{score}_{name}"] = list(values) if name == "none" else values[0]
        return found

    def copy(self, metric, handle):
        """A metric with the saved state of another, which is destroyed."""
        size = c_size_t()
        self.call("kolo_metric_save", handle, None, c_size_t(0), ctypes.byref(size))
        state = ctypes.create_string_buffer(size.value)
        self.call("kolo_metric_save", handle, state, size, ctypes.byref(size))
        self.library.kolo_metric_destroy(handle)
        copied = self.create(metric)
        self.call("kolo_metric_restore", copied, state, size)
        return copied

    def updated(self, metric, updates, way):
        """A metric with these updates, each of which is a list of rows: made one after the other;
        or saved and restored after each; or made to a metric each, which are then merged."""
        handle = self.create(metric)
        for rows in updates:
            target = self.create(metric) if way == "merged" else handle
            self.update(metric, target, rows)
            if way == "saved":
                handle = self.copy(metric, handle)
            elif way == "merged":
                self.call("kolo_metric_merge", handle, target)
                self.library.kolo_metric_destroy(target)
        return handle

    def compute(self, metrics, deal, way="plain"):
        """The results of all metrics, computed together. deal: for each rank, the rows of each of
        its updates. All ranks must have the same results."""
        found, errors = [None] * len(deal), []

        def rank_main(comm, _):
            handles = []
            try:
                rank = self.library.kolo_rank(c_void_p(comm))
                for metric in metrics:
                    handles.append(self.updated(metric, deal[rank], way))
                self.call("kolo_metrics_compute", c_void_p(comm), (c_void_p * len(handles))(*handles),
                          c_size_t(len(handles)), None)
                found[rank] = [self.result(metric, handle) for metric, handle in zip(metrics, handles)]
            except Exception as error:  # in a callback of C it would be lost
                errors.append(error)
            for handle in handles:
                self.library.kolo_metric_destroy(handle)
            return -1 if errors else 0

        status = self.library.kolo_run_threads(len(deal), None, RANK_MAIN(rank_main), None)
        if status or errors:
            raise errors[0] if errors else ValueError(self.library.kolo_error_detail().decode())
        assert all(repr(one) == repr(found[0]) for one in found), "ranks have different results"
        return found[0]
