# SPDX-License-Identifier: Apache-2.0
"""Paths and seeds of the tests of saved models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT, _ROOT / "tests" / "run", _ROOT / "tests" / "aot", _ROOT / "tests" / "artifacts"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


@pytest.fixture(autouse=True)
def seed() -> int:
    """A fresh seed, which a failing test prints."""
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    print(f"seed {seed}")
    return seed
