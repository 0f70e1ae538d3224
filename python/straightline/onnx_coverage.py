# SPDX-License-Identifier: Apache-2.0
"""ONNX's own suites through our backend: each case is passed, refused (with the reason), wrong, or failed.

`straightline coverage onnx` prints the table of node tests; `python -m straightline.onnx_coverage --help` has the other suites:

python -m straightline.onnx_coverage                           # all node tests, without torch; a table of counts
python -m straightline.onnx_coverage --kind pytorch-converted --json out.json
python -m straightline.onnx_coverage --only conv_ lstm
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

import straightline as sl
from straightline.onnx_backend import StraightlineBackend

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


class Outcome(NamedTuple):
    """What became of a case."""

    name: str
    outcome: str
    reason: str


@functools.cache
def cases(kind: str) -> dict[str, Any]:
    """The cases of a suite by name; onnx makes those of nodes when it is asked."""
    import warnings

    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind=kind)}


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    data = path.read_bytes()
    if info.type.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _sets(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    if case.model is not None:
        return case.model, case.data_sets
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    given = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in given]
    found = []
    for data in sorted(folder.glob("test_data_set_*")):
        found.append(
            (
                [_read(data / f"input_{i}.pb", info) for i, info in enumerate(inputs)],
                [_read(data / f"output_{i}.pb", info) for i, info in enumerate(model.graph.output)],
            )
        )
    return model, found


def compare(got: Any, want: Any, rtol: float, atol: float) -> None:
    """As onnx's own runner does: types and shapes equal, numbers close.

    Raises:
        AssertionError: They differ.
    """
    if isinstance(want, onnx.TensorProto):
        want = numpy_helper.to_array(want)
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{len(got)} elements, {len(want)} expected"
        for pair in zip(got, want):
            compare(*pair, rtol, atol)
        return
    if want is None:
        assert got is None
        return
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (
        f"{got.dtype}{got.shape}, {want.dtype}{want.shape} expected"
    )
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    rtol = max(rtol, 2.0**-6) if want.dtype.name == "bfloat16" else rtol  # two units in the last place
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(kind), want.astype(kind), rtol=rtol, atol=atol)


def examine(kind: str, name: str, device: str = "CPU") -> Outcome:
    """Runs a case."""
    case = cases(kind)[name]
    try:
        model, sets = _sets(case)
        prepared = StraightlineBackend.prepare(model, device) if kind == "node" else _unchecked(model, device)
        for inputs, outputs in sets:
            compare(list(prepared.run(list(inputs))), list(outputs), case.rtol, case.atol)
    except sl.UnsupportedError as error:
        return Outcome(name, "refused", str(error))
    except AssertionError as error:
        return Outcome(name, "wrong", str(error)[:500])
    except Exception as error:
        return Outcome(name, "failed", f"{type(error).__name__}: {error}"[:500])
    return Outcome(name, "passed", "")


def _unchecked(model: onnx.ModelProto, device: str) -> Any:
    """Old models that onnx's checker refuses, as onnx's runner takes them."""
    from straightline.onnx_backend import Prepared

    return Prepared(model, {}, device)


def run(kind: str, only: Sequence[str] = (), jobs: int | None = None, device: str = "CPU") -> list[Outcome]:
    """All cases of a suite, in processes of their own: one that ends its process is a failed one."""
    todo = [name for name in sorted(cases(kind)) if not only or any(name.startswith(f"test_{text}") for text in only)]
    found: list[Outcome] = []
    while todo:
        with ProcessPoolExecutor(
            jobs or len(os.sched_getaffinity(0)), mp_context=multiprocessing.get_context("forkserver")
        ) as pool:
            futures = [pool.submit(examine, kind, name, device) for name in todo]
            for place, future in enumerate(futures):
                try:
                    found.append(future.result())
                except BrokenProcessPool:
                    found.append(Outcome(todo[place], "failed", "its process ended"))
                    todo = todo[place + 1 :]
                    break
            else:
                todo = []
    return found


def markdown(found: Sequence[Outcome]) -> str:
    """Node tests by op: how many are passed, wrong or failed, and refused, with one reason."""
    ops: dict[str, list[Outcome]] = {}
    for outcome in found:
        case = cases("node")[outcome.name]
        ops.setdefault(_op_of(case.model), []).append(outcome)
    counts = Counter(outcome.outcome for outcome in found)
    said = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
    lines = [
        "# Ops of ONNX", "",
        f"Node tests of onnx {onnx.__version__} on a CPU, without torch: {said} of {len(found):,}. Cases of functions that",
        "onnx writes out (`_expanded`) are counted with their first op. Made by",
        "`straightline coverage onnx > docs/coverage/onnx.md`.", "",
        "| op | passed | refused | wrong or failed | a reason |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for op in sorted(ops, key=str.lower):
        of_op = Counter(outcome.outcome for outcome in ops[op])
        others = [outcome for outcome in ops[op] if outcome.outcome != "passed"]
        reason = _in_short(others[0].reason) if others else ""
        wrong = of_op["wrong"] + of_op["failed"]
        lines.append(f"| {op} | {of_op['passed']} | {of_op['refused'] or ''} | {wrong or ''} | {reason} |")
    return "\n".join(lines) + "\n"


def _op_of(model: onnx.ModelProto) -> str:
    node = model.graph.node[0]
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _in_short(reason: str) -> str:
    """The last line of a reason without the node's name."""
    line = reason.strip().splitlines()[-1].strip() if "unsupported op" in reason else reason.strip().splitlines()[0]
    line = line.partition(": ")[2] if " at '" in line else line
    return line[:160].replace("|", "\\|")


def main() -> int:
    """The command; the exit status is 1 where a case is wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="node")
    parser.add_argument("--only", nargs="*", default=[], help="names that begin with one of these")
    parser.add_argument("--jobs", type=int, help="processes (default: one a processor)")
    parser.add_argument("--device", choices=("CPU", "CUDA"), default="CPU")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="a table by ops, of node tests")
    options = parser.parse_args()
    begin = time.monotonic()
    found = run(options.kind, options.only, options.jobs, options.device)
    for outcome in found:
        if outcome.outcome in ("wrong", "failed"):
            print(f"{outcome.name} {outcome.outcome}: {outcome.reason.strip().splitlines()[0]}")
    counts = Counter(outcome.outcome for outcome in found)
    print(f"{dict(counts)} of {len(found)} in {time.monotonic() - begin:.0f} s")
    if options.markdown:
        options.markdown.write_text(markdown(found))
    if options.json:
        options.json.write_text(json.dumps([outcome._asdict() for outcome in found], indent=1) + "\n")
    return int(bool(counts["wrong"] or counts["failed"]))


if __name__ == "__main__":
    sys.exit(main())
