# SPDX-License-Identifier: Apache-2.0
"""`straightline run`: a model called once, timed, or compared."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from straightline.cli import DIFFERENT, OK, arguments, model_files, peers
from straightline.errors import UserError

HELP = "call a model with arrays from files or random ones, time it, compare it"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    model_files.add_model(parser)
    parser.add_argument("--input", nargs="+", default=[], metavar="[NAME=]FILE.npy", help="inputs, by name or in order")
    parser.add_argument("--random", action="store_true", help="random numbers for the inputs that are not given")
    parser.add_argument("--seed", type=int, help="of random numbers (default: a fresh one, which is printed)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write each result there as a .npy file")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="call it so often and print times")
    parser.add_argument("--threads", type=int, help="threads of a call")
    parser.add_argument("--compare", choices=("onnxruntime", "eager"), help="compare the results with those of another")
    parser.add_argument(
        "--reference", type=Path, metavar="FILE", help="the .onnx or .pt2 file to compare with, if not the model"
    )
    parser.add_argument(
        "--rtol", type=float, default=1e-3, help="how far results may differ, of their largest (default: 1e-3)"
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")


def run(parsed: argparse.Namespace) -> int:
    """Runs; returns the exit status."""
    if parsed.repeat < 1:
        raise UserError(f"--repeat is {parsed.repeat} but must be at least 1")
    options = {"threads": parsed.threads} if parsed.threads is not None else {}
    function = model_files.open_model(parsed, options)
    inputs = arguments.inputs_of(function)
    given = arguments.read_arrays(parsed.input, inputs)
    missing = [info.text for i, info in enumerate(inputs) if i not in given]
    if missing and not parsed.random:
        raise UserError(f"no array is given for {', '.join(missing)}: --input NAME=FILE.npy, or --random")
    seed = parsed.seed if parsed.seed is not None else int(np.random.SeedSequence().entropy % 2**32)
    generator = np.random.default_rng(seed)
    chosen = model_files.sizes_of(parsed)
    sizes = arguments.named_sizes(function, chosen) if missing else {}
    arrays = [
        given[i] if i in given else arguments.random_array(info, sizes, generator) for i, info in enumerate(inputs)
    ]
    seconds = []
    for _ in range(parsed.repeat):
        begin = time.perf_counter()
        result = arguments.call(function, arrays)
        seconds.append(time.perf_counter() - begin)
    results = arguments.results_of(result)
    facts: dict[str, Any] = {
        "model": str(parsed.model),
        "seed": seed if missing else None,
        "inputs": {info.name: _facts(arguments.as_numpy(array)) for info, array in zip(inputs, arrays, strict=True)},
        "results": {name: _facts(array) for name, array in results.items()},
        "first_ms": seconds[0] * 1e3,
        "median_us": float(np.median(seconds[1:] or seconds)) * 1e6,
        "least_us": min(seconds) * 1e6,
    }
    if parsed.output is not None:
        _write(parsed.output, results)
    status = OK
    if parsed.compare:
        facts["compared"] = _compared(parsed, inputs, arrays, list(results.values()))
        status = OK if all(row["right"] for row in facts["compared"]) else DIFFERENT
    print(json.dumps(facts) if parsed.json else _text(facts, parsed))
    return status


def _facts(array: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size and array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
        facts.update(least=float(numbers.min()), largest=float(numbers.max()), mean=float(numbers.mean()))
    return facts


def _text(facts: Mapping[str, Any], parsed: argparse.Namespace) -> str:
    lines = []
    for head in ("inputs", "results"):
        for name, row in facts[head].items():
            shown = f"{name}: {row['dtype']}[{', '.join(map(str, row['shape']))}]"
            if "mean" in row:
                shown += f" from {row['least']:.6g} to {row['largest']:.6g}, mean {row['mean']:.6g}"
            lines.append(shown)
    if facts["seed"] is not None:
        lines.append(f"seed {facts['seed']}")
    if parsed.repeat > 1:
        lines.append(
            f"first {facts['first_ms']:.3f} ms, then median {facts['median_us']:.2f} us, least {facts['least_us']:.2f} us"
        )
    for row in facts.get("compared", ()):
        word = "right" if row["right"] else "DIFFERENT"
        lines.append(
            f"{row['name']} against {parsed.compare}: {word}, largest difference {row['difference']:.3g} of {row['scale']:.3g}"
        )
    return "\n".join(lines)


def _write(folder: Path, results: Mapping[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(results.values()):
            np.save(folder / f"result{i}.npy", array.astype(str) if array.dtype.kind == "O" else array)
    except OSError as error:
        raise UserError(f"cannot write in {str(folder)!r}: {error.strerror}") from error


def _compared(
    parsed: argparse.Namespace, inputs: Sequence[arguments.Input], arrays: Sequence[Any], results: Sequence[Any]
) -> list[dict[str, Any]]:
    reference: Path = parsed.reference or parsed.model
    if parsed.compare == "onnxruntime":
        expected = _onnxruntime(reference, inputs, arrays)
    else:
        expected = _eager(reference, arrays)
    if len(expected) != len(results):
        raise UserError(f"{reference} gives {len(expected)} results but the model {len(results)}")
    rows = []
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        difference, scale = peers.difference(got, want)
        right = got.shape == want.shape and difference <= parsed.rtol * max(scale, 1e-6)
        rows.append({"name": f"result{i}", "right": right, "difference": difference, "scale": scale})
    return rows


def _onnxruntime(path: Path, inputs: Sequence[arguments.Input], arrays: Sequence[Any]) -> list[Any]:
    if path.suffix != ".onnx":
        raise UserError(f"--compare onnxruntime needs an .onnx file but {path} is none: give --reference FILE.onnx")
    try:
        call = peers.onnxruntime_call(path, inputs, arrays)
    except ImportError as error:
        raise UserError(f"--compare onnxruntime needs it ({error}): pip install onnxruntime") from error
    return [arguments.as_numpy(result) for result in call()]


def _eager(path: Path, arrays: Sequence[Any]) -> list[Any]:
    if path.suffix != ".pt2":
        raise UserError(f"--compare eager needs a .pt2 file but {path} is none: give --reference FILE.pt2")
    call = peers.eager_call(path, arrays)
    import torch

    leaves = torch.utils._pytree.tree_leaves(call())
    return [arguments.as_numpy(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
