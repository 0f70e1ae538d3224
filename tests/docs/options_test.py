# SPDX-License-Identifier: Apache-2.0
"""The table of docs/reference/options.md lists what `compile` takes and what the code reads from the environment."""

from __future__ import annotations

import inspect
import re

from pages import ROOT, name_of, pages


def _options_table() -> tuple[set[str], set[str]]:
    """Arguments and variables that the table of docs/reference/options.md lists, each once."""
    text = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|[^|]*\|[^|]*\|$", text[: text.index("\n## ")], re.MULTILINE)[2:]
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
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cpp", ".c", ".h") and not path.stem.endswith("_test"):
                found |= set(re.findall(r"[\"'](STRAIGHTLINE_[A-Z_]+)[\"']", path.read_text(encoding="utf-8")))
    assert {name + "<op>" if name.endswith("_") else name for name in found} == _options_table()[1]


def test_no_page_names_another_variable() -> None:
    known = {name.removesuffix("<op>") for name in _options_table()[1]}
    for page in pages():
        for name in re.findall(r"STRAIGHTLINE_\w+", page.read_text(encoding="utf-8")):
            right = any(name == k or (k.endswith("_") and name.startswith(k)) for k in known)
            assert right or name.startswith("STRAIGHTLINE_TEST_"), f"{name_of(page)} names {name}"
