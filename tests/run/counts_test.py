# SPDX-License-Identifier: Apache-2.0
"""What the benchmark's models cost in things that can be counted: launches, memory, data that is only moved, allocations.

The counts are exact, for x86-64-v3 and our own kernels, so that they are the same on every machine. Where a change makes one
smaller, put the new row here (a failing test prints it); where one grows, that is what the test is for.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections import Counter
from typing import Any, NamedTuple

import pytest
import torch
from lifetime_test import COUNTER, in_a_process
from policy import same_bits

import straightline as sl
from straightline import _compiler
from straightline.bench.case import Case, load_folder
from straightline.torch_model import Where, _capture_of_model

_FOLDER = pathlib.Path(__file__).parents[2] / "bench" / "cases"


class Counts(NamedTuple):
    """Of one call, on one thread and, where it differs, on two."""

    launches: int
    #: Bytes of the arena.
    arena: int
    #: Statements that only bring data into another order or place: reorders around convolutions, parts of a concatenation, ...
    moves: int = 0
    #: Statements that write the zeros around what a convolution reads.
    borders: int = 0
    #: The arena of two threads; None: the same.
    arena_of_two: int | None = None


COUNTS = {
    "single_add": Counts(1, 0),
    "reshape_add": Counts(1, 0),
    "reshape_mix": Counts(1, 0),
    "chain_1": Counts(1, 0),
    "chain_20": Counts(20, 512),
    "chain_100": Counts(100, 512),
    "mlp_64": Counts(3, 512),
    "mlp_256": Counts(8, 2048),
    "lstm_cell": Counts(2, 2048),
    "gru_20": Counts(41, 21248, moves=1),
    "encoder_256": Counts(7, 98304, arena_of_two=114688),
    "encoder_64": Counts(7, 14336, arena_of_two=15616),
    "decoder_layer": Counts(launches=12, arena=28672, moves=0, borders=0, arena_of_two=30976),
    "dlrm": Counts(16, 3524, moves=1, arena_of_two=5572),
    "audio_10ms": Counts(29, 54272, moves=2, borders=6),
    "resnet18_b1": Counts(49, 3416320, moves=1, borders=16, arena_of_two=3941632),
    "resnet18_b10": Counts(40, 40724480, moves=1, borders=16),
}


def _cases() -> dict[str, Case]:
    return {case.name: case for case in load_folder(_FOLDER).cases if case.group != "linears" and case.device == "cpu"}


CASES = _cases()


def _explained(name: str, threads: int) -> dict[str, Any]:
    """Planned and emitted, not compiled: counting needs no code."""
    model, inputs = CASES[name].make()
    module = _capture_of_model(model, inputs, {}, None, Where()).module
    options = {"cpu": "x86-64-v3", "threads": threads, "allow": ("native", "aten")}
    compilation = _compiler.compile(module, emit_only=True, **options)
    return json.loads(compilation.explain_json)


def _counted(name: str) -> Counts:
    one, two = _explained(name, 1), _explained(name, 2)
    rows = [row for row in one["statements"] if row["phase"] == "run"]
    assert [row["op"] for row in rows] == [row["op"] for row in two["statements"] if row["phase"] == "run"]
    kinds = Counter(row["kernel"].split("_")[0] for row in rows)
    other = two["arena_bytes"] if two["arena_bytes"] != one["arena_bytes"] else None
    return Counts(len(rows), one["arena_bytes"], kinds["copy"] + kinds["transpose"], kinds["zero"], other)


def test_every_case_is_counted() -> None:
    assert set(COUNTS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_counts(name: str) -> None:
    got = _counted(name)
    assert got == COUNTS.get(name), f'"{name}": {got},'


def test_nothing_is_moved_inside_a_transformer_layer() -> None:
    """Heads are split and joined by strides alone."""
    for name in ("encoder_256", "encoder_64"):
        assert COUNTS[name].moves == 0


@pytest.mark.parametrize("name", ["resnet18_b1", "resnet18_b10"])
def test_resnet_reorders_its_picture_and_nothing_else(name: str) -> None:
    """The picture that torch has is row-major, our convolutions read channels last; from the first layer on everything is."""
    rows = [row for row in _explained(name, 1)["statements"] if row["phase"] == "run"]
    moves = [i for i, row in enumerate(rows) if row["kernel"].startswith(("copy", "transpose"))]
    first = next(i for i, row in enumerate(rows) if row["op"].startswith("convolution"))
    assert len(moves) == 1 and moves[0] < first
    bands = sum(row["op"] == "rows of the band before" for row in rows)  # the first layer's, of one image
    assert sum(row["op"].startswith("convolution") for row in rows) == 20 + bands


# --- allocations: a function that writes into `out` makes none

_STEADY = """
import ctypes, pathlib, sys, torch
import straightline as sl
from straightline.bench.case import load_folder
count = ctypes.c_long.in_dll(ctypes.CDLL(None), "sl_allocations")
def allocations(call, calls):
    before = count.value
    for _ in [None] * calls:
        call()
    return count.value - before
cases = {case.name: case for case in load_folder(pathlib.Path(FOLDER)).cases}
for name in NAMES:
    model, inputs = cases[name].make()
    with torch.inference_mode():
        fn = sl.compile(model, inputs, threads=THREADS, allow=("native",))
        out = fn(*inputs)
        x, y = inputs[0], inputs[-1]
        # Spelled out: a call with *inputs makes a tuple and a dict, which are Python's.
        into = (lambda: fn(x, out=out)) if len(inputs) == 1 else (lambda: fn(x, y, out=out))
        allocations(into, 50)
        print(name, allocations(into, 300) - allocations(into, 100), allocations(lambda: fn(*inputs), 50))
"""

_STEADY_NAMES = (
    "single_add",
    "reshape_mix",
    "chain_20",
    "mlp_64",
    "lstm_cell",
    "gru_20",
    "encoder_64",
    "dlrm",
    "audio_10ms",
)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_into_out_allocates_nothing(threads: int, tmp_path: pathlib.Path) -> None:
    counter = tmp_path / "libcounter.so"
    (tmp_path / "counter.c").write_text(COUNTER)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", str(tmp_path / "counter.c"), "-o", str(counter)], check=True)
    script = f"FOLDER, NAMES, THREADS = {str(_FOLDER)!r}, {_STEADY_NAMES!r}, {threads}\n" + _STEADY
    lines = in_a_process(script, {"LD_PRELOAD": str(counter), "PYTHONMALLOC": "malloc"}).splitlines()
    assert [line.split()[0] for line in lines] == list(_STEADY_NAMES)
    for line in lines:
        name, into, fresh = line.split()
        assert int(into) == 0, lines
        assert int(fresh) >= 50, lines  # the counter does count


def test_the_arena_is_what_was_planned() -> None:
    """The number that is counted above is the one that a call takes, and it is the least that two live layers need."""
    model, inputs = CASES["mlp_256"].make()
    compiled = sl.compile(model, inputs, threads=1, allow=("native",))
    assert compiled.explain()["arena_bytes"] == 2 * 256 * 4
    assert same_bits(compiled(*inputs), compiled(*inputs))
    with torch.inference_mode():
        torch.testing.assert_close(compiled(*inputs), model(*inputs))
