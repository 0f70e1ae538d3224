# SPDX-License-Identifier: Apache-2.0
"""Paths and seeds of the Python tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT / "tests" / "python"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
# The package with its extension modules comes from the build tree (`make test` says where); the sources alone serve the
# tests that need no extension.
sys.path.append(str(_ROOT / "python"))


@pytest.fixture(autouse=True)
def fresh_seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    import torch

    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    print(f"seed {seed}")
    yield seed
