#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no files depend on each other in a circle: C and C++ by #include, Python by imports.

A node of the graph of includes is a header with its source (the files of one name in a folder), so that a source may not
include what includes its own header. Imports inside functions count as well: they hide a circle, they do not break it. Those for
type checkers do not. `python/call_path` has one header for all files; tests/python/call_path_files_test.py checks its uses. Exit
status 1 and one line per circle.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from sources import listed

#: The installed prefixes of folders.
PREFIXES = {"straightline/abi/": "runtime/abi/", "straightline/kernels/": "codegen/kernels/"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
PACKAGE = "python/"

#: node -> nodes that it depends on
Graph = Mapping[str, set[str]]


def circles(graph: Graph) -> list[list[str]]:
    """Returns the sets of nodes that reach each other (Tarjan's strongly connected components), each sorted."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1 or node in graph.get(node, ()):
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def _unit(path: str) -> str:
    return str(PurePosixPath(path).with_suffix(""))


def includes(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Returns the graph of includes of files (path -> text)."""
    graph: dict[str, set[str]] = {}
    for path, text in sources.items():
        for name in INCLUDE.findall(text):
            for prefix, folder in PREFIXES.items():
                name = folder + name.removeprefix(prefix) if name.startswith(prefix) else name
            places = (name, f"include/{name}", str(PurePosixPath(path).parent / name))
            place = next((place for place in places if place in sources), None)
            if place and (place == path or _unit(place) != _unit(path)):
                graph.setdefault(_unit(path), set()).add(_unit(place))
    return graph


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields all statements, also those of functions and classes; none for type checkers."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            continue
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(statement, field, []))


def imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Returns the graph of imports of modules (name -> text). A package imported for one of its modules is no dependency."""
    graph: dict[str, set[str]] = {}
    for module, text in sources.items():
        for statement in _statements(ast.parse(text).body):
            names: list[str] = []
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                inner = [f"{statement.module}.{alias.name}" for alias in statement.names]
                # Of the package itself only extension modules (`_compiler`, `_call`) are imported so.
                names = [name if name in sources else statement.module for name in inner]
                names = [name for name in names if name != PACKAGE_NAME]
            graph.setdefault(module, set()).update(name for name in names if name in sources and name != module)
    return graph


#: The package whose modules are checked.
PACKAGE_NAME = "straightline"


def _module(path: str) -> str:
    return path.removeprefix(PACKAGE).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def main() -> int:
    """Checks every tracked and new source file."""
    text = {
        str(path): path.read_text(encoding="utf-8", errors="replace")
        for path in listed("*.h", "*.hpp", "*.c", "*.cpp", "*.py")
    }
    code = {path: source for path, source in text.items() if not path.endswith(".py")}
    modules = {
        _module(path): source
        for path, source in text.items()
        if path.startswith(f"{PACKAGE}{PACKAGE_NAME}/") and path.endswith(".py")
    }
    found = circles(includes(code)) + circles(imports(modules))
    for circle in found:
        print("these files depend on each other in a circle: " + ", ".join(circle))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
