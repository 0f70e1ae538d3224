# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs (mkdocs.yml): pages that are made while the site is built, and links that lead out of `docs`.

The references of C and C++ are made from headers, those of dialects and passes from ODS; pages at the top of the repository are
copied. None of these is a file under `docs`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[2]
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from header_pages import header_page  # noqa: E402
from tablegen_pages import dialect_page, passes_page  # noqa: E402

_TOP = ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")
_CPP = ("tensor.hpp", "module.hpp", "straightline.hpp")
_C = ("straightline.h", "model.h", "ffi.h", "artifact.h", "code.h", "entry.h", "queue.h", "kernel.h", "device_calls.h")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages of docs/design that the navigation does not list come behind those that it lists, by name."""
    listed = str(config.nav)
    for section in config.nav or []:
        if isinstance(section, dict) and "Design" in section:
            pages = sorted(path.name for path in (_ROOT / "docs" / "design").glob("*.md"))
            section["Design"] += [f"design/{name}" for name in pages if f"design/{name}" not in listed]
    return config


def _top_page(name: str) -> str:
    """A page at the top of the repository, with links as the site needs them."""
    text = (_ROOT / f"{name}.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((" + "|".join(_TOP) + r")\.md", lambda m: f"]({m.group(1).lower()}.md", text)


def _c_headers() -> list[tuple[str, Path]]:
    found = [(f"straightline/abi/{name}", _ROOT / "runtime" / "abi" / name) for name in _C]
    return [*found, ("straightline/compiler_abi.h", _ROOT / "tools" / "compiler_abi.h")]


def _cpp_headers() -> list[tuple[str, Path]]:
    found = [(f"straightline/{name}", _ROOT / "include" / "straightline" / name) for name in _CPP]
    return [*found, ("straightline_model.hpp", _ROOT / "include" / "straightline_model.hpp")]


_OPS_PAGE = """# Ops, element types and targets

`straightline coverage` prints this table. It asks the compiler about a small example of each op. *yes* means that
code is emitted for a CPU and for an NVIDIA device, *cpu* or *cuda* for that one alone, *no* that there is no kernel:
a captured model leaves the op to PyTorch then. A cell is empty where the op is not defined for the type. 16-bit
floats are computed in float32; `i1` is bool and `ui8` uint8.

TABLE
## ATen ops that become these

All others, and forms of these that have no kernel, run in PyTorch ([`aten`](../design/capture.md#ops-of-pytorch-aten)).

IMPORTED
"""


def _ops_page() -> str:
    """The table of ops by element type, for which the compiler is asked, and the ATen ops that are imported."""
    from straightline import coverage
    from straightline.capture.torch import importer, torch_export  # noqa: F401 (its families register converters)

    imported = ", ".join(f"`{name}`" for name in sorted(importer.CONVERTERS))
    return _OPS_PAGE.replace("TABLE", coverage.markdown()).replace("IMPORTED", imported)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made."""
    made = {f"{name.lower()}.md": _top_page(name) for name in _TOP}
    made["reference/cpp.md"] = header_page(
        "C++",
        "Headers without dependencies beside the C++20 standard library. [The guide](../guides/cpp.md) has a whole program.",
        "cpp",
        _cpp_headers(),
    )
    made["reference/c.md"] = header_page(
        "C",
        "The ABI of the runtime and of the compiler. No function throws; what can fail returns a status and writes a message.",
        "c",
        _c_headers(),
    )
    made["reference/op_dialect.md"] = dialect_page(_ROOT, "op")
    made["reference/kernel_dialect.md"] = dialect_page(_ROOT, "kernel")
    made["reference/ops.md"] = _ops_page()
    made["reference/passes.md"] = passes_page(_ROOT)
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links to pages at the top of the repository lead to their copies; of links to its other files the words are left."""
    folder = (_ROOT / "docs" / page.file.src_uri).parent

    def leave(match: re.Match[str]) -> str:
        text, target = match.groups()
        file = Path(os.path.normpath(folder / target.partition("#")[0]))
        if file.is_relative_to(_ROOT / "docs") or not file.exists():
            return match.group()
        if file.parent == _ROOT and file.stem in _TOP:
            return f"[{text}]({target.removeprefix('../').replace(file.name, file.name.lower())})"
        return text

    return re.sub(r"\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)", leave, markdown)
