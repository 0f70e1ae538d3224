# SPDX-License-Identifier: Apache-2.0
"""The README's example runs, its links lead somewhere, and its tables name what exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_TEXT = (_ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)
    assert len(blocks) == 3, "an example, the one-liners and mlir, which this test runs one after the other"
    names: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    for part in ("sl_program_run", "op.linear", "kernel.launch", "native", "0.weight"):
        assert part in printed


def test_the_options_are_those_of_compile() -> None:
    import straightline as sl

    section = _TEXT[_TEXT.index("Options of") : _TEXT.index("Errors are")]
    named = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    parameters = inspect.signature(sl.compile).parameters.values()
    public = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and not p.name.startswith("_")]
    assert named == [p.name for p in public]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_links_lead_to_files(page: str) -> None:
    text = (_ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#: ]+\.md)\)", text):
        assert (_ROOT / target).is_file(), f"{page} links to {target}"


def test_every_sentence_of_the_contract_has_a_test() -> None:
    """A test names the sentences of ARCHITECTURE.md that it holds to in a comment "Contract: E1, E15."."""
    sentences = set(
        re.findall(r"^- \*\*(E\d+)\*\*", (_ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    tests = [
        path
        for folder, pattern in (("runtime", "**/*_test.cpp"), ("tests", "**/*_test.*"), ("tests", "**/*.mlir"))
        for path in (_ROOT / folder).glob(pattern)
    ]
    named: set[str] = set()
    for path in tests:
        for tags in re.findall(
            r"^\s*(?://|#) Contract: (E\d+(?:, E\d+)*)\.", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            named |= set(tags.split(", "))
    assert len(sentences) >= 19 and named == sentences


def _options_table() -> tuple[set[str], set[str]]:
    """Arguments and variables that the table of docs/options.md lists, each once."""
    text = (_ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|[^|]*\|[^|]*\|$", text[: text.index("## Parameters")], re.MULTILINE)[2:]
    arguments = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    variables = [name for row in rows for name in re.findall(r"`(STRAIGHTLINE_\w+(?:<op>)?)`", row[1])]
    assert len(set(arguments)) == len(arguments) and len(set(variables)) == len(variables)
    return set(arguments), set(variables)


def test_the_table_lists_the_options_of_compile() -> None:
    import straightline as sl

    parameters = inspect.signature(sl.compile).parameters.values()
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")}
    assert _options_table()[0] == keywords


def test_the_table_lists_the_variables_that_the_code_reads() -> None:
    """Found as whole string literals in the sources; one that ends in "_" is the beginning of a family."""
    found: set[str] = set()
    for folder in ("python", "tools", "codegen", "passes", "runtime"):
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cpp", ".c", ".h") and not path.stem.endswith("_test"):
                found |= set(re.findall(r"[\"'](STRAIGHTLINE_[A-Z_]+)[\"']", path.read_text(encoding="utf-8")))
    assert {name + "<op>" if name.endswith("_") else name for name in found} == _options_table()[1]


def test_no_page_names_another_variable() -> None:
    known = {name.removesuffix("<op>") for name in _options_table()[1]}
    for page in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/options.md"):
        for name in re.findall(r"STRAIGHTLINE_\w+", (_ROOT / page).read_text(encoding="utf-8")):
            assert any(name == k or (k.endswith("_") and name.startswith(k)) for k in known), f"{page} names {name}"
