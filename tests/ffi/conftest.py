# SPDX-License-Identifier: Apache-2.0
"""Seeds of the tests of programs as functions of other systems."""

from __future__ import annotations

import secrets

import pytest
import torch


@pytest.fixture(autouse=True)
def seed() -> int:
    """A fresh seed, printed."""
    value = secrets.randbits(31)
    print(f"seed {value}")
    torch.manual_seed(value)
    return value
