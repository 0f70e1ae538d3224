# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.forests`: what does a row, or a batch, cost in a forest beside ONNX Runtime?

    python -m bench.forests --rounds 15 --markdown table.md

Forests are fitted by scikit-learn and written by skl2onnx; both sides are given numpy arrays and give such, on one thread.
In each round both take the same calls in turn, with one of 16 inputs each: a row of the table has the least of all rounds,
and the median of the rounds' ratios. Answers are compared first. `named` is a program for every batch, `fixed` one for this
batch.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import straightline as sl
from straightline.bench import machine

BATCHES = (1, 16, 1000)
FEATURES, ROWS = 30, 5000
#: Calls of a round take about so many rows.
_ROWS_OF_A_ROUND = 2000


class Row(NamedTuple):
    """Microseconds of a call, and medians of the rounds' ratios to ONNX Runtime's."""

    case: str
    batch: int
    peer: float
    named: float
    fixed: float
    named_ratio: float
    fixed_ratio: float


def estimators() -> dict[str, Any]:
    """By name; not fitted."""
    from sklearn import ensemble

    boosted = {
        f"boosted, 100 x depth {d}": ensemble.GradientBoostingRegressor(n_estimators=100, max_depth=d)
        for d in (3, 4, 5, 6)
    }
    return boosted | {
        "forest, 100 x depth 12": ensemble.RandomForestRegressor(100, max_depth=12),
        "forest, 3 classes": ensemble.RandomForestClassifier(100, max_depth=12),
        "boosted, 3 classes": ensemble.GradientBoostingClassifier(n_estimators=100, max_depth=3),
    }


def _data(seed: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import datasets

    if classes:
        x, y = datasets.make_classification(ROWS, FEATURES, n_informative=15, n_classes=classes, random_state=seed)
    else:
        x, y = datasets.make_regression(ROWS, FEATURES, n_informative=15, noise=10, random_state=seed)
    return x.astype(np.float32), y


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _round(call: Callable[[Any], Any], inputs: list[np.ndarray], calls: int) -> float:
    begin = time.perf_counter()
    for i in range(calls):
        call(inputs[i % len(inputs)])
    return (time.perf_counter() - begin) / calls * 1e6


def measured(name: str, estimator: Any, rounds: int, seed: int) -> list[Row]:
    """A row for each batch."""
    import skl2onnx

    classes = 3 if "classes" in name else 0
    x, y = _data(seed, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(x, y)
        model = skl2onnx.to_onnx(estimator, x[:1], options={id(estimator): {"zipmap": False}} if classes else None)
    session, named = _session(model), sl.compile(model, threads=1)
    rows, rng = [], np.random.default_rng(seed)
    for batch in BATCHES:
        inputs = [np.ascontiguousarray(x[rng.integers(0, ROWS, batch)]) for _ in range(16)]
        fixed = sl.compile(model, (inputs[0],), threads=1)
        ways = (lambda z: session.run(None, {"X": z}), named, fixed)
        wanted = ways[0](inputs[0])[-1]
        for way in ways[1:]:
            found = way(inputs[0])
            np.testing.assert_allclose(found[-1] if classes else found, wanted, rtol=1e-4, atol=1e-3)
        calls = max(3, _ROWS_OF_A_ROUND // batch)
        times = [[_round(way, inputs, calls) for way in ways] for _ in range(rounds)]
        least = [min(t[i] for t in times) for i in range(3)]
        ratios = [statistics.median(t[i] / t[0] for t in times) for i in (1, 2)]
        rows.append(Row(name, batch, *least, *ratios))
    return rows


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        "| forest | batch | ONNX Runtime, us | named | fixed | ratio, named | fixed |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.case} | {r.batch} | {r.peer:.1f} | {r.named:.2f} | {r.fixed:.2f} | {r.named_ratio:.2f} | {r.fixed_ratio:.2f} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path, help="where to write the table, too")
    options = parser.parse_args()
    print(machine.description(), machine.versions(), *machine.warnings_before(), sep="\n", flush=True)
    rows = []
    for name, estimator in estimators().items():
        rows += measured(name, estimator, options.rounds, options.seed)
        print(table(rows[-len(BATCHES) :]), flush=True)
    if options.markdown:
        options.markdown.write_text(table(rows))


if __name__ == "__main__":
    main()
