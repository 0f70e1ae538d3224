#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks rules that hold for the text of every tracked file: SPDX line, size, numbered TODOs, no absolute machine paths."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sources import listed

SPDX_SUFFIXES = (".h", ".hpp", ".cpp", ".c", ".py", ".td", ".sh")
MAX_LINES = 1500  # refused; above WARN_LINES a note
WARN_LINES = 800
MAX_BYTES = 500_000
SIZED_SUFFIXES = (*SPDX_SUFFIXES, ".cmake", ".mlir")
FORBIDDEN_STEMS = ("utils", "util", "misc", "uncategorized", "helpers")
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
CPP_SUFFIXES = (".h", ".hpp", ".cpp", ".c")
MAX_FUNCTION = 80  # lines, as in run.sh
OTHER_BLOCK = re.compile(
    r"(namespace|struct|class|enum|extern|union|if|for|while|switch|do|else|SL_UNROLL|SL_NO_UNROLL)\b"
)
CPP_COLUMNS = 100  # of comments: clang-format does not wrap them
FROZEN = "first_version"  # a copy of an old header, which is never edited
GOLDEN = "golden"  # folders of whole emitted files: their size is not ours to choose


def is_long_comment(line: str) -> bool:
    """Whether a line of C or C++ is a comment of more than CPP_COLUMNS columns; addresses cannot be wrapped."""
    return len(line) > CPP_COLUMNS and line.lstrip().startswith("//") and "://" not in line


def long_functions(lines: list[str]) -> list[tuple[int, int]]:
    """(number of the first line, lines) of functions of more than MAX_FUNCTION lines, in text that clang-format has formatted.

    lizard counts functions too, but loses most of a file whose templates it does not parse. A function begins with the last line
    of its closing brace's indentation.
    """
    found: list[tuple[int, int]] = []
    begins: dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.lstrip()
        indent = len(line) - len(text)
        if text == "}" and indent in begins:
            first = begins[indent]
            head = lines[first - 1].lstrip()
            if number - first >= MAX_FUNCTION and "(" in head and not OTHER_BLOCK.match(head):
                found.append((first, number - first + 1))
        elif text and not text.startswith(("}", ")", "#", "//", "template <")):
            begins[indent] = number
    return found


def problems_of(path: Path) -> tuple[list[str], list[str]]:
    """Returns (errors, notes) of one file."""
    errors: list[str] = []
    notes: list[str] = []
    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        errors.append(f"{path}: {len(data)} bytes, at most {MAX_BYTES}")
    if path.suffix not in SIZED_SUFFIXES or GOLDEN in path.parts:
        return errors, notes
    lines = data.decode("utf-8", errors="replace").splitlines()
    if path.suffix in SPDX_SUFFIXES and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        errors.append(f"{path}:1: no SPDX line")
    if len(lines) > MAX_LINES:
        errors.append(f"{path}: {len(lines)} lines, at most {MAX_LINES}")
    elif len(lines) > WARN_LINES:
        notes.append(f"note: {path}: {len(lines)} lines, better under {WARN_LINES}")
    if path.stem in FORBIDDEN_STEMS:
        errors.append(f"{path}: a name that says what is in it, please")
    if path.suffix in CPP_SUFFIXES:
        for number, count in long_functions(lines):
            errors.append(f"{path}:{number}: a function of {count} lines, at most {MAX_FUNCTION}")
    if path.parts[:2] != ("tools", "lint"):
        for number, line in enumerate(lines, 1):
            if TODO.search(line):
                errors.append(f"{path}:{number}: TODO without an issue number, as in TODO(#12)")
            if path.suffix in CPP_SUFFIXES and FROZEN not in path.parts and is_long_comment(line):
                errors.append(f"{path}:{number}: a comment of {len(line)} columns, at most {CPP_COLUMNS}")
            if re.search(r"\s$", line):
                errors.append(f"{path}:{number}: white space at the end of the line")
    return errors, notes


def main() -> int:
    """Checks every tracked or new file."""
    failed = False
    for path in listed():
        errors, notes = problems_of(path)
        for line in (*errors, *notes):
            print(line)
        failed = failed or bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
