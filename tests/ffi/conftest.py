# SPDX-License-Identifier: Apache-2.0
"""What the tests of programs as functions of other systems share: seeds, and calls from threads."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "own_kernels"))  # what its tests share is for these, too


@pytest.fixture(autouse=True)
def seed() -> int:
    """A fresh seed, printed."""
    value = secrets.randbits(31)
    print(f"seed {value}")
    torch.manual_seed(value)
    return value


@pytest.fixture
def wrong_of_threads() -> Callable[..., int]:
    """A function of a call, what it is to give and a number of times: how many calls of four threads at once give another result."""

    def count(call: Callable[[], torch.Tensor], expected: torch.Tensor, times: int) -> int:
        wrong: list[int] = []

        def run() -> None:
            wrong.extend(1 for _ in range(times) if not torch.equal(call(), expected))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(wrong)

    return count
