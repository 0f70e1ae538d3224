# SPDX-License-Identifier: Apache-2.0
"""Paths and seeds of the tests that compile from Python and run.

With STRAIGHTLINE_TEST_DEVICE=cuda they make their models and inputs on that device: what is no test of the CPU's own then
holds for it too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT / "tests" / "run"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

if os.environ.get("STRAIGHTLINE_TEST_DEVICE"):
    torch.set_default_device(os.environ["STRAIGHTLINE_TEST_DEVICE"])
    torch.backends.cudnn.allow_tf32 = False  # the policy is about float32


@pytest.fixture(autouse=True)
def seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    number = torch.seed() % 2**32
    torch.manual_seed(number)
    print(f"seed {number}")
    yield number
