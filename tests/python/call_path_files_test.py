# SPDX-License-Identifier: Apache-2.0
"""The files of the call path: the list in call_path.h is the folder, and each file uses functions of files before it in that list only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "python/call_path"
_PAGE = _FOLDER.parents[1] / "docs/design/call_path.md"
#: Whatever one file defines for the others is called so; the rest is static.
_NAME = r"sl[A-Z]\w*"


def _code(text: str) -> str:
    """C source without comments and strings."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", text, flags=re.DOTALL)


def _listed(text: str) -> list[str]:
    """The files of a list of `name.c   what it is` in comments or in Markdown."""
    return re.findall(r"^(?://   |\| `)([\w/]+\.c)(?:  +|` \| )\S", text, flags=re.MULTILINE)


def _defined(code: str) -> set[str]:
    """Functions and variables with external linkage, which a source file defines at the left margin."""
    return set(
        re.findall(rf"^(?!static\b|extern\b|typedef\b)[A-Za-z_][\w ]*[ *]+({_NAME})\s*[(;=\[]", code, re.MULTILINE)
    )


def _violations(order: list[str], code: dict[str, str]) -> list[str]:
    """Uses of what a file further down in `order` defines; none means that no files use each other in a circle."""
    owner = {name: file for file in order for name in _defined(code[file])}
    found = []
    for file in order:
        for name in sorted(set(re.findall(rf"\b{_NAME}\b", code[file]))):
            if name in owner and order.index(owner[name]) > order.index(file):
                found.append(f"{file} uses {name} of {owner[name]}, which stands after it")
    return found


def _sources() -> dict[str, str]:
    return {str(path.relative_to(_FOLDER)): _code(path.read_text()) for path in _FOLDER.rglob("*.c")}


def test_the_lists_are_the_folder() -> None:
    listed = _listed((_FOLDER / "call_path.h").read_text())
    assert len(listed) == len(set(listed))
    assert set(listed) == set(_sources())
    assert _listed(_PAGE.read_text()) == listed
    built = re.findall(r"^  call_path/([\w/]+\.c)\)?$", (_FOLDER.parent / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert sorted(built) == sorted(listed)


def test_arrows_run_one_way() -> None:
    order = _listed((_FOLDER / "call_path.h").read_text())
    assert _violations(order, _sources()) == []


def test_headers_run_one_way() -> None:
    headers = ["call_path.h", "emitted/emitted.h", "callable.h"]  # each includes those before it only
    assert sorted(headers) == sorted(str(path.relative_to(_FOLDER)) for path in _FOLDER.rglob("*.h"))
    for at, header in enumerate(headers):
        included = re.findall(r'#include "([\w/]+\.h)"', (_FOLDER / header).read_text())
        assert not set(included) & set(headers[at:]), header


@pytest.mark.parametrize("header", ["call_path.h", "callable.h"])
def test_a_header_declares_a_file_under_its_name(header: str) -> None:
    sources = _sources()
    for section in re.split(r"^// ---- ", (_FOLDER / header).read_text(), flags=re.MULTILINE)[1:]:
        file = re.match(r"[\w/]+\.c", section)
        assert file, section.splitlines()[0]
        code = _code(section.split("\n", 1)[1])
        in_place = r"static inline[^;{]*\b(" + _NAME + r")\("
        declared = set(re.findall(rf"^[A-Za-z_][\w ]*[ *]+({_NAME})[(;]", code, re.MULTILINE))
        declared -= set(re.findall(in_place, code))
        assert declared <= _defined(sources[file[0]]), file[0]


def test_an_arrow_back_is_found() -> None:
    code = {
        "a.c": "int slOne(void) { return slTwo(); }\n",
        "b.c": 'PyObject* slWord;\nint slTwo(void) {\n  return other("slOne"); // slOne\n}\n',
    }
    code = {file: _code(text) for file, text in code.items()}
    assert _defined(code["b.c"]) == {"slWord", "slTwo"}
    assert _violations(["a.c", "b.c"], code) == ["a.c uses slTwo of b.c, which stands after it"]
    assert _violations(["b.c", "a.c"], code) == []
