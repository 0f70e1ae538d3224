# SPDX-License-Identifier: Apache-2.0
"""Paths, seeds and a cache of their own for the tests of bad input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT / "tests" / "error"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


@pytest.fixture(scope="session")
def _folder_of_the_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def own_cache(_folder_of_the_cache: Path) -> Iterator[Path]:
    """A disk cache for these files alone, so that nothing here depends on what the user compiled before.

    By module: other folders' tests run between these files in one process, and shall find the cache that all processes share.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRAIGHTLINE_CACHE_DIR", str(_folder_of_the_cache))
        yield _folder_of_the_cache


@pytest.fixture(autouse=True)
def fresh_seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    import torch

    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    print(f"seed {seed}")
    yield seed
