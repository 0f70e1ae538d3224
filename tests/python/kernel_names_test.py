# SPDX-License-Identifier: Apache-2.0
"""Passes and Python ask for facts of kernels (runtime/abi/kernel.h): neither knows one by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def _kernel_names() -> set[str]:
    """Of the descriptions, as their sources write them."""
    names: set[str] = set()
    for path in (_ROOT / "runtime" / "backends").rglob("*.cpp"):
        if not path.name.endswith("_test.cpp"):
            names |= set(re.findall(r'(?:\.name = |kernelOf\()"(\w+\.\w+)"', path.read_text(encoding="utf-8")))
    return names


def _cpp_literals(path: Path) -> Iterator[str]:
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    yield from re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)


def _python_literals(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
            yield node.value


def test_the_names_are_found() -> None:
    assert _kernel_names() >= {
        "native.gemm",
        "native.winograd",
        "cuda.gemv",
        "cublaslt.linear",
        "cudnn.attention",
        "onednn.inner_product",
    }


def test_no_pass_and_no_python_file_knows_a_kernel_by_its_name() -> None:
    names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(_kernel_names())))
    cpp = [path for end in ("*.cpp", "*.h") for path in (_ROOT / "passes").rglob(end)]
    literals = [(path, text) for path in cpp if not path.name.endswith("_test.cpp") for text in _cpp_literals(path)]
    python = (_ROOT / "python" / "straightline").rglob("*.py")
    literals += [(path, text) for path in python for text in _python_literals(path)]
    found = [f"{path.relative_to(_ROOT)}: {text!r}" for path, text in literals if names.search(text)]
    assert found == []
