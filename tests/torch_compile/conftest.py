# SPDX-License-Identifier: Apache-2.0
"""Dynamo begins anew in each test, and random numbers have a fresh seed, which is printed.

With STRAIGHTLINE_TEST_DEVICE=cuda tests make their models and inputs on that device.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

_FOLDER = str(Path(__file__).resolve().parent)
if _FOLDER not in sys.path:
    sys.path.insert(0, _FOLDER)

if os.environ.get("STRAIGHTLINE_TEST_DEVICE"):
    torch.set_default_device(os.environ["STRAIGHTLINE_TEST_DEVICE"])
    torch.backends.cudnn.allow_tf32 = False


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    seed = int(os.environ.get("STRAIGHTLINE_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"seed {seed}: STRAIGHTLINE_TEST_SEED={seed}")
    torch.manual_seed(seed)
    torch.compiler.reset()
    yield
    torch.compiler.reset()
