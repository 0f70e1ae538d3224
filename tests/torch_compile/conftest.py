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


#: Tests without a meaning on a device, by a part of their ids, and why.
_NOT_ON_A_DEVICE = {
    "test_a_function[lists in a result]": "torch has histogramdd on a CPU alone",
    "test_a_function[numpy]": "numpy's arrays are on the host",
    "test_a_function[a loop]": "the loop's counter is a result on the host",
    "test_a_function[no inputs]": "Dynamo of torch 2.11 does not see a default device, with any backend",
    "test_a_module[layers cast to their own type": "Dynamo of torch 2.11 cannot follow `to` under a default device, with any backend",
    "test_a_function[numbers as a tensor": "Dynamo of torch 2.11 does not see a default device, with any backend",
    "test_random_numbers_are_eagers": "as above",
    "test_sizes[new": "as above",
    "test_model[gpt2": "as above",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips them."""
    for item in items if os.environ.get("STRAIGHTLINE_TEST_DEVICE") else []:
        reasons = [reason for part, reason in _NOT_ON_A_DEVICE.items() if part in item.name]
        if reasons and item.path.parent == Path(_FOLDER):
            item.add_marker(pytest.mark.skip(reason=reasons[0]))


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    seed = int(os.environ.get("STRAIGHTLINE_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"seed {seed}: STRAIGHTLINE_TEST_SEED={seed}")
    torch.manual_seed(seed)
    torch.compiler.reset()
    yield
    torch.compiler.reset()
