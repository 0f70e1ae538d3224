# SPDX-License-Identifier: Apache-2.0
"""What the libraries show to others: the C ABI and nothing else, so that a process may hold another LLVM or torch's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import straightline

PACKAGE = Path(straightline.__file__).parent


def _symbols(library: Path, kind: str) -> set[str]:
    listed = subprocess.run(["nm", "--dynamic", kind, str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line.strip()}


@pytest.mark.parametrize("name", sorted(path.name for path in PACKAGE.glob("*.so")))
def test_only_the_c_abi_is_exported(name: str) -> None:
    shown = _symbols(PACKAGE / name, "--defined-only")
    assert shown and all(symbol.startswith(("sl_", "PyInit_", "straightline_backend_v")) for symbol in shown), sorted(
        shown
    )[:20]


def test_llvm_is_within_the_compiler() -> None:
    """Linked statically: the library needs none of it from elsewhere, and the Python module over it reaches it by C functions."""
    wanted = _symbols(PACKAGE / "libstraightline_compiler.so", "--undefined-only")
    [module] = PACKAGE.glob("_compiler.*.so")
    wanted |= _symbols(module, "--undefined-only")
    assert not [symbol for symbol in wanted if any(part in symbol for part in ("llvm", "mlir", "clang"))]
    assert "sl_module_parse" in wanted
