# SPDX-License-Identifier: Apache-2.0
"""The slice of tests that `make test` runs (tests/conftest.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_TESTS = Path(__file__).resolve().parents[1]
_SPEC = importlib.util.spec_from_file_location("slices_of_tests", _TESTS / "conftest.py")
assert _SPEC and _SPEC.loader
conftest = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(conftest)


class Item(NamedTuple):
    """What a slice asks of a test."""

    nodeid: str
    path: Path
    marked: bool = False

    def get_closest_marker(self, name: str) -> Any:
        return object() if self.marked and name == "whole" else None


def _cases(folder: str, count: int) -> list[Any]:
    path = _TESTS / folder / "some_test.py"
    return [Item(f"tests/{folder}/some_test.py::test_it[{i}]", path) for i in range(count)]


@pytest.mark.parametrize(("count", "wanted"), [(4, 1), (10, 1), (11, 2), (100, 10)])
def test_a_tenth_of_many_cases(count: int, wanted: int) -> None:
    assert len(conftest.kept(_cases("run", count), "a")) == wanted


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (5, 1), (6, 2), (40, 8)])
def test_a_fifth_of_a_files_other_tests(count: int, wanted: int) -> None:
    path = _TESTS / "run" / "some_test.py"
    assert len(conftest.kept([Item(f"tests/run/some_test.py::test_{i}", path) for i in range(count)], "a")) == wanted


def test_the_text_chooses() -> None:
    items = _cases("run", 60)
    assert conftest.kept(items, "a") == conftest.kept(items[::-1], "a") != conftest.kept(items, "b")
    assert set.union(*(conftest.kept(items, str(i)) for i in range(100))) == set(items)


def test_folders_whose_cases_are_rules_of_their_own_are_whole() -> None:
    assert len(conftest.kept(_cases("error", 60), "a")) == 60


def test_files_that_are_sliced_are_there() -> None:
    assert [name for name in (*conftest._SLICED_FILES, *conftest._LONG) if not (_TESTS / name).is_file()] == []


def test_what_takes_minutes_is_left_out() -> None:
    items = _cases("error", 3)
    long = Item("tests/error/some_test.py::test_long", items[0].path, marked=True)
    assert conftest.kept([*items, long], "a") == set(items)
