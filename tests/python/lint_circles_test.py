# SPDX-License-Identifier: Apache-2.0
"""The check for circles of files (tools/lint/circles.py) on small made-up trees, and on the repository."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[2] / "tools/lint/circles.py"
sys.path.insert(0, str(_FILE.parent))  # circles.py imports what lies beside it, as a script does
_SPEC = importlib.util.spec_from_file_location("circles", _FILE)
assert _SPEC and _SPEC.loader
lint = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(lint)


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, [["a", "b", "c"]]),
        ({"x": {"a"}, "a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
        ({"a": {"a"}}, [["a"]]),
    ],
)
def test_circles_of_a_graph(graph: dict[str, set[str]], found: list[list[str]]) -> None:
    assert sorted(lint.circles(graph)) == found


def test_includes_by_file_and_in_passes_by_unit() -> None:
    assert lint.includes(
        {"runtime/a.h": '#include "runtime/b.h"', "runtime/b.h": "", "runtime/b.cpp": '#include "runtime/a.h"'}
    ) == {
        "runtime/a.h": {"runtime/b.h"},
        "runtime/b.cpp": {"runtime/a.h"},
    }
    passes = {"passes/a.h": '#include "passes/b.h"', "passes/b.h": "", "passes/b.cpp": '#include "passes/a.h"'}
    assert lint.circles(lint.includes(passes)) == [["passes/a", "passes/b"]]
    installed = {
        "codegen/kernels/a.h": '#include "straightline/abi/t.h"',
        "runtime/abi/t.h": '#include "straightline/kernels/a.h"',
    }
    assert lint.circles(lint.includes(installed)) == [["codegen/kernels/a.h", "runtime/abi/t.h"]]


def test_imports_when_a_module_is_loaded() -> None:
    modules = {
        "straightline": "from straightline.a import f",
        "straightline.a": "from straightline import _compiler, b\nif TYPE_CHECKING:\n    from straightline import c",
        "straightline.b": "try:\n    from straightline.c import g\nexcept ImportError:\n    pass",
        "straightline.c": "def g():\n    from straightline.b import f",
    }
    graph = lint.imports(modules)
    assert graph["straightline.a"] == {"straightline.b"} and graph["straightline.b"] == {"straightline.c"}
    assert lint.circles(graph) == []
    modules["straightline.c"] = "import straightline.a"
    assert lint.circles(lint.imports(modules)) == [["straightline.a", "straightline.b", "straightline.c"]]


def test_the_repository_has_none() -> None:
    done = subprocess.run([sys.executable, _FILE], cwd=_FILE.parents[2], capture_output=True, text=True)
    assert done.stdout == "" and done.returncode == 0
