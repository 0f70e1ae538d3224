# SPDX-License-Identifier: Apache-2.0
"""Emitted text and runtime under AddressSanitizer + UBSan and under ThreadSanitizer.

Each model's text is compiled ahead of time with the runtime's sources, run by driver.cpp from two calling threads at once, and
compared with torch in float64. Under AddressSanitizer the arena is poisoned: as a whole between calls (SL_POISON_ARENA), and
each slot with NaN before its first use in a call (pipeline option poison), so that a wrong live range shows as a wrong
result. Under ThreadSanitizer it is not, for the barriers around the fills would stand for missing ones. The last tests plant a fault of each kind
and expect the report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import torch
from ahead_of_time import Builder, Example, Program, Sanitizer
from torch.export import Dim

from models.bert_layer import EncoderLayer
from models.cond import Cond
from models.counter import Counter, RowCache
from models.digits_cnn import DigitsCnn
from models.lstm import LstmTagger
from models.resnet18 import ResNet18
from models.small import Mlp, ReshapeAdd, SingleAdd

_ROUNDS = 20


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
        "lstm": lambda: Example(LstmTagger(), [(torch.randn(2, 50, 8),)]),
        "encoder": lambda: Example(EncoderLayer(64, 4, 128), [(torch.randn(2, 12, 64),)]),
        "resnet18": lambda: Example(ResNet18(classes=10), [(torch.rand(1, 3, 64, 64),)]),
    }
    example = builders[name]()
    example.model.eval()
    return example


_MODELS = [
    "resnet18", "encoder", "digits_cnn", "lstm", "mlp_32", "mlp_1", "mlp_dim", "single_add", "reshape_add", "counter",
    "row_cache", "cond",
]  # fmt: skip
_ADDRESS = [(name, 2) for name in _MODELS] + [(name, 1) for name in ("mlp_32", "digits_cnn", "lstm")]
_THREAD = ["encoder", "digits_cnn", "lstm", "mlp_32", "mlp_dim", "counter"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """AddressSanitizer and UBSan."""
    builder = Builder(Sanitizer("address", "address,undefined"), tmp_path_factory.mktemp("address"))
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """ThreadSanitizer."""
    builder = Builder(Sanitizer("thread", "thread"), tmp_path_factory.mktemp("thread"))
    yield builder
    builder.close()


@pytest.mark.parametrize(("name", "threads"), _ADDRESS)
def test_address_and_undefined(name: str, threads: int, address: Builder) -> None:
    """No byte outside, none of a dead slot, no undefined behaviour."""
    program = address.start(f"{name}-{threads}", _example(name), threads=threads, poison=True).result()
    done = address.sanitizer.run(program.executable, program.data, 3 if name == "resnet18" else _ROUNDS)
    assert done.returncode == 0, done.stderr[-8000:]


@pytest.mark.parametrize("name", _THREAD)
def test_threads(name: str, thread: Builder) -> None:
    """A team of two, called from two threads: every shared byte is ordered."""
    program = thread.start(name, _example(name), threads=2, poison=False).result()
    done = thread.sanitizer.run(program.executable, program.data, _ROUNDS)
    assert done.returncode == 0, done.stderr[-8000:]
