# SPDX-License-Identifier: Apache-2.0
"""torch's device over the plug-in that STRAIGHTLINE_TEST_DEVICE names, and what its tests do with it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import pytest
import straightline.torch_device  # noqa: F401
import torch


@pytest.fixture(params=["cpu", "sl"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sim() -> Iterator[Any]:
    """What sim_device.h has."""
    library = ctypes.CDLL(os.environ["STRAIGHTLINE_TEST_DEVICE"])
    library.sim_device_set_delay.argtypes = [ctypes.c_int64, ctypes.c_uint64]
    library.sim_device_set_limit.argtypes = [ctypes.c_int32, ctypes.c_uint64]
    library.sim_device_live_bytes.restype = ctypes.c_uint64
    yield library
    library.sim_device_hold(0)
    library.sim_device_set_delay(0, 1)
    for i in (0, 1):
        library.sim_device_set_limit(i, 1 << 32)
    torch.sl.synchronize()
