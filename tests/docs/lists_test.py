# SPDX-License-Identifier: Apache-2.0
"""Lists of the documents against the code: ops, kernel families, and the tunables of each."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_KERNELS = _ROOT / "codegen" / "kernels"
_OPS = _ROOT / "docs" / "design" / "op_dialect.md"
_FAMILIES = _ROOT / "docs" / "reference" / "families.md"


def _ops_of_the_dialect() -> set[str]:
    text = "\n".join(path.read_text() for path in (_ROOT / "dialect" / "op").glob("*.td"))
    return set(re.findall(r'^def Op_\w+Op\b\s*:\s*\w+<\s*"(\w+)"', text, re.MULTILINE))


def _declared(body: str) -> list[str]:
    """The names of a struct's fields, in order."""
    body = re.sub(r"//[^\n]*", "", body)
    while re.search(r"\{[^{}]*\}", body):
        body = re.sub(r"\{[^{}]*\}", "", body)
    names = []
    for statement in body.split(";"):
        declaration = re.match(r"\s*[\w:]+(?:<[^>]*>)?\s+(\w.*)", statement, re.DOTALL)
        if declaration and "(" not in statement:
            names += [re.match(r"\s*(\w+)", part).group(1) for part in declaration.group(1).split(",")]
    return names


def _tunables_of_the_code() -> dict[str, list[str]]:
    """By family: the fields of its `Tune`. A family is what has one."""
    found = {}
    for path in sorted(_KERNELS.glob("*.h")):
        for name, body in re.findall(r"^struct (\w+)Tune \{(.*?)^\};", path.read_text(), re.MULTILINE | re.DOTALL):
            family = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            found[family] = [field for field in _declared(body) if field != "unused"]
    return found


def _tunables_of_the_page() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", _FAMILIES.read_text(), re.MULTILINE)
    return {family: re.findall(r"`(\w+)`", cell) for family, cell in rows}


def _section_of_ops() -> str:
    text = _OPS.read_text()
    begin = text.index("## Ops")
    return text[begin : text.index("\n## ", begin)]


def test_every_op_is_named() -> None:
    ops = _ops_of_the_dialect()
    assert len(ops) > 100
    missing = sorted(ops - set(re.findall(r"\w+", _section_of_ops())))
    assert not missing, f"{_OPS.name} does not name {missing}"


def test_no_op_is_named_that_is_not_there() -> None:
    named = set(re.findall(r"`op\.(\w+)", _section_of_ops()))
    assert len(named) > 5 and named - _ops_of_the_dialect() == set()


def test_families_and_their_tunables() -> None:
    code, page = _tunables_of_the_code(), _tunables_of_the_page()
    assert len(code) > 20
    assert list(page) == sorted(page), "the table is in the order of names"
    assert page == code, f"{_FAMILIES.relative_to(_ROOT)} and codegen/kernels/*.h differ"


def test_the_device_forms() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (yes|no) \|[^|]*\|$", _FAMILIES.read_text(), re.MULTILINE)
    schedule = "\n".join(path.read_text() for path in (_ROOT / "passes").rglob("*.cpp") if "cuda" in str(path))
    wrong = [family for family, form in rows if (form == "yes") != (f'"{family}"' in schedule)]
    assert rows and not wrong, f"the column of device forms is wrong for {wrong}"


def test_fields_are_read() -> None:
    body = "  int mr = 6, nr = 16;  // a, b\n  sl::Combine combine[4] = {sl::Combine::sum};\n  std::array<int, 2> pad{};\n  bool f() const { return mr; }\n"
    assert _declared(body) == ["mr", "nr", "combine", "pad"]
