# SPDX-License-Identifier: Apache-2.0
"""Machine code of a program's kernels for the explorer's page: compressed, and bounded unless all of it is asked for."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from straightline.compiled_function import of_the_compiler
from straightline.errors import UserError

#: Bytes of a page that machine code may take, of all of its programs, unless all of it is asked for.
MOST_BYTES = 512 << 10
#: Functions that are no kernels: key of their lines in the page, symbol.
_PHASES = {"x4": "sl_program_run", "x3": "sl_program_prepare"}


def packed(text: bytes) -> str:
    """Text that a page carries, which its script unpacks: zlib's format in base64 without padding."""
    return base64.b64encode(zlib.compress(text, 9)).decode().rstrip("=")


class Room:
    """Bytes of a page that are left for machine code; `most` None: any number."""

    def __init__(self, most: int | None) -> None:
        self._left = most

    def machine_of(self, one: Any, statements: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], str]:
        """What the page knows of the machine code of a program, and its texts, packed ("" where there are none).

        The facts: `names` with the number of `lines` of each text, in order; `of`: the number of a kernel by the key of what
        calls it, statements of a run first; `left`: what did not fit, with its lines; `other`: kernels that have no code here.
        """
        names: list[str] = []
        lines: list[int] = []
        left: dict[str, int] = {}
        compressor, written = zlib.compressobj(9), b""
        for name, text in _texts(one, statements):
            trial = compressor.copy()
            piece = trial.compress((text + "\0").encode()) + trial.flush(zlib.Z_SYNC_FLUSH)
            if self._left is not None and len(piece) * 4 // 3 > self._left:
                left[name] = text.count("\n")
                continue
            compressor, written = trial, written + piece
            if self._left is not None:
                self._left -= len(piece) * 4 // 3
            names.append(name)
            lines.append(text.count("\n"))
        known = {*names, *left}
        in_order = sorted(enumerate(statements), key=lambda pair: pair[1]["phase"] != 1)
        calls = {f"s{i}": row["entry"] for i, row in in_order if row["entry"]}
        calls |= {key: symbol for key, symbol in _PHASES.items() if symbol in known}
        number = {name: i for i, name in enumerate([*names, *left])}
        facts = {
            "names": names, "lines": lines, "left": left,
            "of": {key: number[name] for key, name in calls.items() if name in number},
            "other": {key: name for key, name in calls.items() if name not in number},
        }  # fmt: skip
        text = base64.b64encode(written + compressor.flush()).decode().rstrip("=") if names else ""
        return facts, text


def _texts(one: Any, statements: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Functions of the program that have code here, each once, in the order in which a call reaches them."""
    compiler = of_the_compiler("_compiler")
    code = one._compilation
    linked = code.linked if hasattr(code, "linked") else code.link()[0]
    in_order = sorted(statements, key=lambda row: row["phase"] != 1)
    for name in dict.fromkeys([row["entry"] for row in in_order if row["entry"]] + list(_PHASES.values())):
        try:
            yield name, compiler.disassemble(linked, name)
        except UserError:  # a library's function, or a device's: the page says so
            continue
