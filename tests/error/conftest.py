# SPDX-License-Identifier: Apache-2.0
"""Paths, seeds and a cache of their own for the tests of bad input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT / "tests" / "error"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk cache for this session only, so that nothing here depends on what the user compiled before."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("STRAIGHTLINE_CACHE_DIR")
    os.environ["STRAIGHTLINE_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["STRAIGHTLINE_CACHE_DIR"]
    else:
        os.environ["STRAIGHTLINE_CACHE_DIR"] = before


@pytest.fixture(autouse=True)
def fresh_seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    import torch

    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    print(f"seed {seed}")
    yield seed
