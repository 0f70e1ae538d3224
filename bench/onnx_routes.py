# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.onnx_routes`: does a model that `torch.onnx.export` wrote run as it does from torch?

    python -m bench.onnx_routes --only bert llama --rounds 9 --markdown table.md

Nets of many kinds (bench/onnx_nets.py) are compiled from torch, and from what both exporters of torch write of them (`dynamo`:
`dynamo=True`, which needs onnxscript; `script`: `dynamo=False`), with fixed and with named sizes, at two sizes. Results are
compared with eager's first. In each round both routes take the same calls in turn, with numpy arrays, on one thread: a row has
the least of all rounds, the median of the rounds' ratios, and the kernels that one route has and the other has not.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import straightline as sl
import torch
from straightline.bench import machine

from .onnx_nets import NETS, SIZES, Net

#: Microseconds that the calls of one side take in a round.
_ROUND_US = 3000
#: Of the largest value of a result: what float32 may differ by from eager.
_TOLERANCE = 1e-4
WAYS = {"dynamo": True, "script": False}


class Row(NamedTuple):
    """Microseconds of a call; `why` is what was refused or wrong, or which kernels differ."""

    case: str
    torch_us: float
    onnx_us: float
    ratio: float
    kernels: str
    why: str


def _flat(results: Any) -> list[np.ndarray]:
    found = results if isinstance(results, (tuple, list)) else [results]
    return [np.asarray(x) for x in found]


def _error(got: Any, wanted: list[np.ndarray]) -> float:
    worst = 0.0
    for one, right in zip(_flat(got), wanted, strict=True):
        if one.shape != right.shape or one.dtype != right.dtype:
            return float("inf")
        worst = max(worst, float(np.abs(one - right).max(initial=0) / max(np.abs(right).max(initial=0), 1e-6)))
    return worst


def _dims(net: Net) -> tuple[dict[int, Any], ...]:
    """Names with bounds within which torch's guards of windows hold."""
    return tuple({d: torch.export.Dim(n, **SIZES.get(n, {})) for d, n in one.items()} for one in net.named)


def _exported(net: Net, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], way: str, named: bool) -> bytes:
    """The model as ONNX."""
    buffer = io.BytesIO()
    dims = net.named if named else ()
    names = [f"x{i}" for i in range(len(inputs))]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if WAYS[way]:
            shapes = _dims(net) if named else None
            program = torch.onnx.export(
                model, inputs, dynamo=True, dynamic_shapes=shapes, verbose=False, input_names=names
            )
            assert program is not None
            return bytes(program.model_proto.SerializeToString())
        axes = {f"x{i}": one for i, one in enumerate(dims) if one}
        torch.onnx.export(model, inputs, buffer, dynamo=False, dynamic_axes=axes, input_names=names)
    return buffer.getvalue()


def _compiled_torch(net: Net, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], named: bool) -> Any:
    return sl.compile(model, inputs, dynamic_shapes=_dims(net) if named else None, threads=1)


def _compiled_onnx(data: bytes) -> Any:
    """The program, with the bounds that torch has for the same names."""
    model = onnx.load_from_string(data)
    names = {dim.dim_param for given in model.graph.input for dim in given.type.tensor_type.shape.dim}
    bounds = {name: (one["min"], one["max"]) for name, one in SIZES.items() if name in names}
    return sl.compile(data, sizes=bounds or None, threads=1)


def _kernels(fn: Any) -> Counter[str]:
    return Counter(row["kernel"] for row in fn.explain().statements if row["phase"] == "run")


def difference(one: Counter[str], other: Counter[str]) -> str:
    """Kernels that are in one route alone, torch's behind -, ONNX's behind +."""
    parts = [f"-{k}" for k in (one - other).elements()] + [f"+{k}" for k in (other - one).elements()]
    return " ".join(parts)


def _round(call: Any, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls * 1e6


def _measured(
    case: str, ours: Any, theirs: Any, args: tuple[np.ndarray, ...], wanted: list[np.ndarray], rounds: int
) -> Row:
    whys = [
        f"{route} is wrong by {error:.1e}"
        for route, fn in (("torch", ours), ("onnx", theirs))
        if (error := _error(fn(*args), wanted)) > _TOLERANCE
    ]
    number = max(1, int(_ROUND_US / max(_round(lambda: ours(*args), 3), 1.0)))
    times = [(_round(lambda: ours(*args), number), _round(lambda: theirs(*args), number)) for _ in range(rounds)]
    ratio = statistics.median(b / a for a, b in times)
    least = [min(t[i] for t in times) for i in (0, 1)]
    return Row(case, *least, ratio, difference(_kernels(ours), _kernels(theirs)), "; ".join(whys))


def measured(name: str, ways: list[str], kinds: list[str], rounds: int) -> Iterator[Row]:
    """Rows of a net."""
    net = NETS[name]
    torch.manual_seed(len(name))
    model = net.make().eval()
    for parameter in model.parameters():
        if not parameter.any():  # biases that begin as zeros, which exporters leave out
            parameter.normal_(std=0.1)
    sizes = [net.inputs(which) for which in (0, 1)]
    wanted = [_flat(model(*inputs)) for inputs in sizes]
    for kind in kinds:
        for which in (0, 1):
            named = kind == "named"
            example = sizes[1] if named else sizes[which]
            if which == 0 or not named:
                found: dict[str, Any] = {}
                for route in ("torch", *ways):
                    try:
                        found[route] = (
                            _compiled_torch(net, model, example, named)
                            if route == "torch"
                            else _compiled_onnx(_exported(net, model, example, route, named))
                        )
                    except Exception as failure:
                        found[route] = f"{type(failure).__name__}: {' '.join(str(failure).split())[:600]}"
            args = tuple(x.numpy() for x in sizes[which])
            for way in ways:
                case = f"{name}, {way}, {kind} {which}"
                failed = [f"{route}: {found[route]}" for route in ("torch", way) if isinstance(found[route], str)]
                if failed:
                    yield Row(case, 0, 0, float("nan"), "", "; ".join(failed))
                    continue
                try:
                    yield _measured(case, found["torch"], found[way], args, wanted[which], rounds)
                except sl.StraightlineError as failure:
                    yield Row(case, 0, 0, float("nan"), "", f"a call: {' '.join(str(failure).split())}")


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        "| net, exporter, sizes | from torch, us | from ONNX | ratio | kernels that differ |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {r.case} | {r.torch_us:.2f} | {r.onnx_us:.2f} | {r.ratio:.2f} | {r.why or r.kernels} |" for r in rows]
    ratios = [r.ratio for r in rows if r.ratio == r.ratio]
    if ratios:
        lines.append(
            f"| geometric mean of {len(ratios)}, largest | | | {statistics.geometric_mean(ratios):.2f} | {max(ratios):.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and prints a table; the exit status is 1 where an answer is wrong or a model is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(NETS), default=list(NETS))
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--kinds", nargs="*", choices=("fixed", "named"), default=["fixed", "named"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    print(machine.description(), machine.versions(), *machine.warnings_before(), sep="\n", flush=True)
    rows: list[Row] = []
    for name in options.only:
        for row in measured(name, options.ways, options.kinds, options.rounds):
            rows.append(row)
            print(table([row]).splitlines()[2], flush=True)
    print(table(rows))
    if options.markdown:
        options.markdown.write_text(table(rows))
    raise SystemExit(any(row.why for row in rows))


if __name__ == "__main__":
    main()
