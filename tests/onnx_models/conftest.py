# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the tests of ONNX models: a fresh seed for each test, which a failure shows."""

from __future__ import annotations

import random

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Numpy's generator; its seed is printed."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)
