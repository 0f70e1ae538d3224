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


@pytest.mark.parametrize("layer", ["codegen", "dialect/op", "passes", "runtime", "tools"])
def test_a_header_and_its_source_are_one_node(layer: str) -> None:
    sources = {
        f"{layer}/a.h": f'#include "{layer}/b.h"',
        f"{layer}/b.h": "",
        f"{layer}/b.cpp": f'#include "{layer}/b.h"\n#include "{layer}/c.h"',
        f"{layer}/c.h": "",
    }
    graph = lint.includes(sources)
    assert graph == {f"{layer}/a": {f"{layer}/b"}, f"{layer}/b": {f"{layer}/c"}} and lint.circles(graph) == []
    sources[f"{layer}/c.cpp"] = f'#include "{layer}/a.h"'
    assert lint.circles(lint.includes(sources)) == [[f"{layer}/a", f"{layer}/b", f"{layer}/c"]]


def test_a_header_that_includes_itself_is_a_circle() -> None:
    assert lint.circles(lint.includes({"tools/a.h": '#include "tools/a.h"'})) == [["tools/a"]]


def test_includes_by_installed_prefixes_and_beside_the_file() -> None:
    installed = {
        "codegen/kernels/a.h": '#include "straightline/abi/t.h"',
        "runtime/abi/t.h": '#include "straightline/kernels/a.h"',
    }
    assert lint.circles(lint.includes(installed)) == [["codegen/kernels/a", "runtime/abi/t"]]
    assert lint.includes({"runtime/a.cpp": '#include "b.h"', "runtime/b.h": ""}) == {"runtime/a": {"runtime/b"}}


def test_imports() -> None:
    modules = {
        "straightline": "from straightline.a import f",
        "straightline.a": "from straightline import _compiler, b\nif TYPE_CHECKING:\n    from straightline import c",
        "straightline.b": "try:\n    from straightline.c import g\nexcept ImportError:\n    pass",
        "straightline.c": "def g():\n    from straightline.d import f",
        "straightline.d": "",
    }
    graph = lint.imports(modules)
    assert graph["straightline.a"] == {"straightline.b"} and graph["straightline.b"] == {"straightline.c"}
    assert graph["straightline.c"] == {"straightline.d"} and lint.circles(graph) == []
    modules["straightline.c"] = "import straightline.a"
    assert lint.circles(lint.imports(modules)) == [["straightline.a", "straightline.b", "straightline.c"]]


@pytest.mark.parametrize(
    "text",
    [
        "def g():\n    from straightline.a import f",
        "async def g():\n    if True:\n        import straightline.a",
        "class C:\n    def g(self):\n        def h():\n            from straightline import a",
        "def g(x):\n    match x:\n        case 1:\n            from straightline import a",
        "def g():\n    try:\n        pass\n    except OSError:\n        from straightline import a",
    ],
)
def test_an_import_inside_a_function_is_part_of_a_circle(text: str) -> None:
    graph = lint.imports({"straightline.a": "from straightline.b import g", "straightline.b": text})
    assert lint.circles(graph) == [["straightline.a", "straightline.b"]]


def test_the_repository_has_none() -> None:
    done = subprocess.run([sys.executable, _FILE], cwd=_FILE.parents[2], capture_output=True, text=True)
    assert done.stdout == "" and done.returncode == 0
