# SPDX-License-Identifier: Apache-2.0
"""The names of torch's C functions that registered ops use are in torch 2.10: one library serves it and each later one."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
_INCLUDE = Path(torch.__file__).parent / "include" / "torch" / "csrc"


def _of_2_10() -> set[str]:
    """Functions of the shim that torch's headers do not put behind a version later than 2.10."""
    stable = (_INCLUDE / "stable" / "c" / "shim.h").read_text()
    blocks = re.split(r"#if TORCH_FEATURE_VERSION >= TORCH_VERSION_(\d+_\d+)_\d+", stable)
    texts = [blocks[0]] + [text for version, text in zip(blocks[1::2], blocks[2::2], strict=True) if version == "2_10"]
    texts.append((_INCLUDE / "inductor" / "aoti_torch" / "c" / "shim.h").read_text())
    return {name for text in texts for name in re.findall(r"\b((?:aoti_torch|torch)_\w+)\s*\(", text)}


def test_all_are_in_it() -> None:
    text = (ROOT / "runtime" / "ffi" / "torch_functions.cpp").read_text()
    used = set(re.findall(r"SL_TORCH\((\w+)\)", text)) - {"name"}
    used |= {f"aoti_torch_dtype_{name}" for name in re.findall(r'\{"(\w+)", \d', text)}
    used |= set(re.findall(r'"(aoti_torch_\w+[a-z0-9])"', text))
    known = _of_2_10()
    assert len(known) > 100
    assert "torch_from_blob" not in known  # of 2.11
    assert len(used) > 30
    assert used <= known, used - known


def test_later_ones_may_be_missing() -> None:
    text = (ROOT / "runtime" / "ffi" / "torch_functions.cpp").read_text()
    optional = set(re.findall(r"SL_TORCH_OPTIONAL\((\w+)\)", text)) - {"name"}
    header = (ROOT / "runtime" / "ffi" / "torch_functions.h").read_text()
    for name in optional:
        assert re.search(rf"Null where[^;]*\n[^;]*{name}|Null where[^;]*{name}", header), name


def test_this_torch_has_what_counts_writes() -> None:
    """Functions of its C++, without which registered ops do not tell autograd what they wrote."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    text = (ROOT / "runtime" / "ffi" / "torch_functions.cpp").read_text()
    names = re.findall(r'library\.find\("(_Z\w+)"\)', text)
    assert len(names) == 2
    assert [name for name in names if not hasattr(library, name)] == []
