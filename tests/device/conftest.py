# SPDX-License-Identifier: Apache-2.0
"""Skips what needs a device where there is none, and says why; no gradients, and a fresh seed each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).resolve().parents[2]
if str(_ROOT) not in sys.path:
    sys.path.insert(0, str(_ROOT))

#: Tests of this folder that need no device.
_ANYWHERE = ("layout_test.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder."""
    if torch.cuda.is_available():
        return
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name not in _ANYWHERE:
            item.add_marker(pytest.mark.skip(reason="there is no NVIDIA device"))


@pytest.fixture(autouse=True)
def seeded() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    number = torch.seed() % 2**32
    torch.manual_seed(number)
    print(f"seed {number}")
    with torch.no_grad():
        yield number
