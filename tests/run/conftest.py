# SPDX-License-Identifier: Apache-2.0
"""Paths and seeds of the tests that compile from Python and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT / "tests" / "run"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


@pytest.fixture(autouse=True)
def seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    number = torch.seed() % 2**32
    torch.manual_seed(number)
    print(f"seed {number}")
    yield number
