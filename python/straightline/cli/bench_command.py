# SPDX-License-Identifier: Apache-2.0
"""`straightline bench`: what a call costs here, beside peers."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from straightline.bench import command
from straightline.cli import OK, arguments, model_files, peers
from straightline.errors import UserError

HELP = "what a call costs here, with PyTorch, ONNX Runtime and OpenVINO"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        help="a model as a file (.onnx, .pt2, .mlir, .sl): timed beside ONNX Runtime or eager PyTorch",
    )
    parser.add_argument("--size", nargs="+", default=[], metavar="NAME=N", help="named sizes of such a model")
    parser.add_argument("--parameters", type=Path, help="a safetensors file with what a .mlir module declares")
    command.add_arguments(parser)


def run(parsed: argparse.Namespace) -> int:
    """Measures; returns the exit status."""
    return command.run(parsed) if parsed.file is None else _file(parsed)


def _file(parsed: argparse.Namespace) -> int:
    threads = (parsed.threads or [1])[0]
    opened = argparse.Namespace(model=parsed.file, parameters=parsed.parameters, size=parsed.size)
    function = model_files.open_model(opened, {"threads": threads})
    inputs = arguments.inputs_of(function)
    sizes = arguments.named_sizes(function, model_files.sizes_of(opened))
    generator = np.random.default_rng(0)
    arrays = [arguments.random_array(info, sizes, generator) for info in inputs]
    contenders: dict[str, Callable[[], Any]] = {"straightline": lambda: arguments.call(function, arrays)}
    if parsed.file.suffix == ".onnx":
        contenders |= _onnxruntime(parsed.file, inputs, arrays, threads)
    if parsed.file.suffix == ".pt2":
        contenders |= _eager(parsed.file, arrays, threads)
    own = arguments.results_of(contenders["straightline"]())
    for name, contender in contenders.items():
        if name != "straightline":
            _compare(name, arguments.results_of(contender()), own)
    taken = _taken(contenders, parsed.rounds or (3 if parsed.quick else 10), parsed.samples, parsed.sample_ms * 1e-3)
    rows = [
        {"contender": name, "least_us": min(times) * 1e6, "median_us": statistics.median(times) * 1e6}
        for name, times in taken.items()
    ]
    if parsed.json:
        parsed.json.write_text(
            json.dumps({"model": str(parsed.file), "threads": threads, "rows": rows}, indent=1) + "\n"
        )
    for row in rows:
        share = row["median_us"] / rows[0]["median_us"]
        print(
            f"{row['contender']:<14}median {row['median_us']:>12.2f} us   least {row['least_us']:>12.2f} us   {share:.2f}x"
        )
    return OK


def _compare(name: str, got: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Answers are compared before anything is timed: as many results, each as near as the least exact types that models have."""
    if len(got) != len(own):
        raise UserError(f"{name} gives {len(got)} results but straightline {len(own)}: nothing was timed")
    for place, theirs, ours in zip(own, got.values(), own.values(), strict=True):
        difference, scale = peers.difference(ours, theirs)
        if not difference <= 1e-2 * max(scale, 1e-6):
            raise UserError(
                f"{name} gives another answer: {place} differs by {difference:.3g} of {scale:.3g}; nothing was timed"
            )


def _taken(
    contenders: dict[str, Callable[[], Any]], rounds: int, samples: int, seconds: float
) -> dict[str, list[float]]:
    """Seconds of a call, by contender: each is visited in turn, a sample lasts at least so long."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            for _ in range(samples):
                begin, count = time.perf_counter(), 0
                while count == 0 or time.perf_counter() - begin < seconds:
                    call()
                    count += 1
                taken[name].append((time.perf_counter() - begin) / count)
    return taken


def _onnxruntime(
    path: Path, inputs: list[arguments.Input], arrays: list[Any], threads: int
) -> dict[str, Callable[[], Any]]:
    try:
        return {"onnxruntime": peers.onnxruntime_call(path, inputs, arrays, threads)}
    except ImportError:
        print("onnxruntime is not installed: pip install onnxruntime to have it beside")
        return {}


def _eager(path: Path, arrays: list[Any], threads: int) -> dict[str, Callable[[], Any]]:
    call = peers.eager_call(path, arrays)
    import torch

    torch.set_num_threads(threads)
    return {"eager": call}
