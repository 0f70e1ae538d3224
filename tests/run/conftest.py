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


#: Tests (or cases: what stands in brackets contains the text) that ask something about the CPU's own kernels, threads or memory.
_OF_THE_CPU = {
    "models_test.py::test_model": "-2]",  # two threads
    "models_test.py::test_resnet_has_nothing_between_its_layers": "",
    "products_test.py::test_with_a_column_and_with_a_row": "",
    "products_test.py::test_a_linear_whose_weight_may_change": "",
    "products_test.py::test_bfloat16_that_others_read": "",
    "parameters_test.py::test_a_replaced_set_is_given_back": "",  # of numpy arrays, which a device copies
    "parameters_test.py::test_numpy_models_load_arrays": "",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what is about the CPU where a device is asked for."""
    if not os.environ.get("STRAIGHTLINE_TEST_DEVICE"):
        return
    for item in items:
        test = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if test in _OF_THE_CPU and _OF_THE_CPU[test] in item.name:
            item.add_marker(pytest.mark.skip(reason="about the CPU"))


@pytest.fixture(autouse=True)
def seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    number = torch.seed() % 2**32
    torch.manual_seed(number)
    print(f"seed {number}")
    yield number
