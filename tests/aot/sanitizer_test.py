# SPDX-License-Identifier: Apache-2.0
"""Emitted text and runtime under AddressSanitizer + UBSan and under ThreadSanitizer.

Each model's text is compiled ahead of time with the runtime's sources, run by driver.cpp from two calling threads at once, and
compared with torch in float64. Under AddressSanitizer the arena is poisoned: as a whole between calls (SL_POISON_ARENA), and
each slot with NaN before its first use in a call (pipeline option poison), so that a wrong live range shows as a wrong
result. Under ThreadSanitizer no slot is, for the barriers around the fills would stand for missing ones. The last tests
plant a fault of each kind and expect the report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from subprocess import CompletedProcess

import pytest
import torch
from ahead_of_time import Builder, Example, Program, Sanitizer
from torch.export import Dim

from straightline.testing.models.bert_layer import EncoderLayer
from straightline.testing.models.cond import Cond
from straightline.testing.models.counter import Counter, RowCache
from straightline.demo_models import DigitsCnn, ResNet18
from straightline.testing.models.lstm import LstmTagger
from straightline.testing.models.small import Mlp, ReshapeAdd, SingleAdd

_ROUNDS = 20
_RESNET_ROUNDS = 2  # each takes seconds


def _rounds(name: str) -> int:
    return _RESNET_ROUNDS if name.startswith("resnet") else _ROUNDS


def _resnet18(*flags: str) -> Example:
    return Example(ResNet18(), [(torch.randn(1, 3, 224, 224),)], flags=flags)


def _example(name: str) -> Example:
    """A model with fresh random weights and inputs."""
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    print(f"{name}: seed {seed}")
    builders: dict[str, Callable[[], Example]] = {
        "single_add": lambda: Example(SingleAdd(), [(torch.randn(2, 3), torch.randn(2, 3))]),
        "reshape_add": lambda: Example(ReshapeAdd(), [(torch.randn(8, 16, 8, 8), torch.randn(1024))]),
        "mlp_1": lambda: Example(Mlp(), [(torch.randn(1, 64),)]),
        "mlp_32": lambda: Example(Mlp((64, 256, 256, 10)), [(torch.randn(32, 64),)]),
        "mlp_dim": lambda: Example(
            Mlp(), [(torch.randn(n, 64),) for n in (5, 1, 64, 17)], {"x": {0: Dim("b", min=1, max=64)}}
        ),
        "digits_cnn": lambda: Example(DigitsCnn(), [(torch.rand(4, 1, 8, 8),)]),
        "counter": lambda: Example(Counter(), [(torch.randn(4),) for _ in range(4)]),
        "row_cache": lambda: Example(RowCache(), [(torch.randn(4),) for _ in range(3)]),
        "cond": lambda: Example(Cond(), [(torch.rand(4),), (-torch.rand(4),)]),
        # UBSan's checks of ResNet-18 at -O1 take clang more than four minutes, at -O0 half a minute.
        "resnet18_plain": lambda: _resnet18("-O0"),
        "resnet18": _resnet18,
        "lstm": lambda: Example(LstmTagger(), [(torch.randn(2, 50, 8),)]),
        "encoder": lambda: Example(EncoderLayer(64, 4, 128), [(torch.randn(2, 12, 64),)]),
    }
    example = builders[name]()
    example.model.eval()
    return example


_MODELS = [
    "resnet18_plain", "encoder", "digits_cnn", "lstm", "mlp_32", "mlp_1", "mlp_dim", "single_add", "reshape_add", "counter",
    "row_cache", "cond",
]  # fmt: skip
# A program for one thread has the same kernels and no barriers: a few say enough.
_ADDRESS = [(name, 2) for name in _MODELS] + [(name, 1) for name in ("mlp_32", "row_cache", "cond")]
_THREAD = [(name, 2) for name in ("resnet18", "encoder", "digits_cnn", "lstm", "mlp_32", "mlp_dim", "counter")]


def _programs(
    request: pytest.FixtureRequest, builder: Builder, function: str, poison: bool
) -> dict[tuple[str, int], Future[Program]]:
    """Starts compiling what the selected tests of `function` need, so that processors do not wait for each other."""
    chosen = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and getattr(item, "originalname", "") == function
    ]
    return {
        (params["name"], params["threads"]): builder.start(
            f"{params['name']}-{params['threads']}", _example(params["name"]), threads=params["threads"], poison=poison
        )
        for params in chosen
    }


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """AddressSanitizer and UBSan."""
    builder = Builder(Sanitizer("address", "address,undefined"), tmp_path_factory.mktemp("address"))
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def address_programs(request: pytest.FixtureRequest, address: Builder) -> dict[tuple[str, int], Future[Program]]:
    """Programs of the address test by (model, threads)."""
    return _programs(request, address, "test_address_and_undefined", poison=True)


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """ThreadSanitizer. It sees accesses of at most 16 bytes, so the text is compiled for vectors of that size."""
    builder = Builder(Sanitizer("thread", "thread", march="x86-64-v2"), tmp_path_factory.mktemp("thread"))
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def thread_programs(request: pytest.FixtureRequest, thread: Builder) -> dict[tuple[str, int], Future[Program]]:
    """Programs of the thread test by (model, threads)."""
    return _programs(request, thread, "test_threads", poison=False)


@pytest.mark.parametrize(("name", "threads"), _ADDRESS)
def test_address_and_undefined(
    name: str, threads: int, address: Builder, address_programs: dict[tuple[str, int], Future[Program]]
) -> None:
    """No byte outside, none of a dead slot, no undefined behaviour."""
    done = address.sanitizer.run(address_programs[name, threads].result(), _rounds(name))
    assert done.returncode == 0, done.stderr[-8000:]


@pytest.mark.parametrize(("name", "threads"), _THREAD)
def test_threads(
    name: str, threads: int, thread: Builder, thread_programs: dict[tuple[str, int], Future[Program]]
) -> None:
    """A team of two, called from two threads: every shared byte is ordered."""
    done = thread.sanitizer.run(thread_programs[name, threads].result(), _rounds(name))
    assert done.returncode == 0, done.stderr[-8000:]


def _faulty(
    builder: Builder, name: str, pattern: str, replacement: str, poison: bool, runs: int = 1
) -> CompletedProcess[str]:
    """Runs the MLP's text with a planted mistake, up to so many times until the sanitizer reports it; the last run."""

    def plant(code: str) -> str:
        text, count = re.subn(pattern, replacement, code, flags=re.M)
        assert count > 0, f"nothing matches {pattern} in\n{code}"
        return text

    program = builder.start(name, _example("mlp_32"), threads=2, poison=poison, fault=plant).result()
    for _ in range(runs):
        done = builder.sanitizer.run(program, _ROUNDS)
        if done.returncode == 99:
            break
    return done


def test_reports_a_row_too_many(address: Builder) -> None:
    """The last layer writes 33 rows of 32."""
    done = _faulty(address, "row", r"GemmShape\{\.m = 32, \.n = 10,", "GemmShape{.m = 33, .n = 10,", poison=True)
    assert done.returncode == 99, done
    assert "heap-buffer-overflow" in done.stderr


def test_reports_two_live_slots_in_one_place(address: Builder) -> None:
    """Every slot lies at the arena's start: the result shows it."""
    done = _faulty(
        address, "place", r"^  constexpr int64_t (t\w*)_at = \d+;", r"  constexpr int64_t \1_at = 0;", poison=True
    )
    assert done.returncode == 1, done
    assert "driver: result 0" in done.stderr


def test_reports_a_dead_slot_that_is_read(address: Builder) -> None:
    """The first layer is left out: what the second reads is NaN, not what an earlier call left there."""
    done = _faulty(address, "dead", r"^  (gemm_32x256x64_bias_relu\(ctx, team, x)", r"  if (!io) \1", poison=True)
    assert done.returncode == 1, done
    assert "driver: result 0, element 0: nan" in done.stderr


def test_reports_a_missing_barrier(thread: Builder) -> None:
    """Without its barriers the second layer reads rows that another thread still writes.

    Where one thread is far ahead the sanitizer has forgotten its accesses when the other one's come: once in many runs on a busy
    machine it reports nothing, and the results are wrong.
    """
    done = _faulty(thread, "barrier", r"^ *sl_barrier\(team\);\n", "", poison=False, runs=5)
    assert done.returncode == 99, done
    assert "data race" in done.stderr
