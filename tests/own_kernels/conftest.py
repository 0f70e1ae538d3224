# SPDX-License-Identifier: Apache-2.0
"""Libraries of own kernels and their registrations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl

sys.path.insert(0, str(Path(__file__).resolve().parent))

from libraries import HERE, build  # noqa: E402


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of kernels.c."""
    return build(HERE / "kernels.c", tmp_path_factory.mktemp("own") / "libkernels.so")


@pytest.fixture
def register(library: Path) -> Iterator[Callable[..., Any]]:
    """`c_kernel` of a function of kernels.c, which is unregistered when the test ends."""
    made: list[Any] = []

    def one(name: str, schema: str, of: Path = library, **options: Any) -> Any:
        made.append(sl.c_kernel(of, name, f"own_test::{schema}", **options))
        return made[-1]

    yield one
    for kernel in made:
        kernel.unregister()
