# SPDX-License-Identifier: Apache-2.0
"""Reference pages of dialects and passes, which mlir-tblgen makes of their definitions (ODS)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def _llvm(root: Path) -> Path:
    """Where the pinned LLVM is installed."""
    return Path("/usr/lib") / f"llvm-{(root / 'cmake' / 'llvm_version.txt').read_text(encoding='utf-8').split('.')[0]}"


def _tablegen(root: Path, source: str, *flags: str) -> str:
    """What mlir-tblgen prints about one file."""
    llvm = _llvm(root)
    command = [str(llvm / "bin" / "mlir-tblgen"), *flags, f"-I{root}", f"-I{llvm / 'include'}", str(root / source)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _as_markdown(text: str) -> str:
    """Headings with stable anchors; summaries as they were written (mlir-tblgen begins them with a capital)."""
    text = re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL)
    text = text.replace("[TOC]\n", "")
    text = re.sub(r"^### `([\w.]+)` \(::[\w:]+\)$", r"### `\1`", text, flags=re.MULTILINE)
    text = re.sub(r"^### `-([\w-]+)`$", r"## `\1`", text, flags=re.MULTILINE)
    text = re.sub(r"^```$(\n(?:operation ::=|-))", r"```text\1", text, flags=re.MULTILINE)
    return re.sub(r"^#### (Operands|Results|Attributes|Options|Parameters):?$", r"**\1**", text, flags=re.MULTILINE)


def dialect_page(root: Path, dialect: str) -> str:
    """The page of a dialect: its ops, types and attributes."""
    whole = f"dialect/{dialect}/{dialect}_all.td"  # where the ops have several generated files
    source = whole if (root / whole).exists() else f"dialect/{dialect}/{dialect}_ops.td"
    text = _tablegen(root, source, "-gen-dialect-doc", f"-dialect={dialect}")
    return _as_markdown(text).replace(f"# '{dialect}' Dialect", f"# Dialect `{dialect}`", 1)


def passes_page(root: Path) -> str:
    """The page of all passes, in the order of their names; those of a target are defined in its folder."""
    intro = (
        "Each is a flag of `straightline-opt`; `--straightline-pipeline` runs all of them. "
        "[Passes](../design/passes.md) has them in the order of the pipeline.\n\n"
    )
    sources = [
        "passes/passes.td",
        "passes/sharing/passes.td",
        *(str(p.relative_to(root)) for p in sorted(root.glob("passes/targets/*/passes.td"))),
    ]
    return "# Passes\n\n" + intro + "\n".join(_as_markdown(_tablegen(root, s, "-gen-pass-doc")) for s in sources)
