# SPDX-License-Identifier: Apache-2.0
"""Figures and plots of the pages are those of bench/results."""

from __future__ import annotations

import re
import sys

from pages import ROOT

sys.path.insert(0, str(ROOT / "tools" / "docs"))
import plots  # noqa: E402

_ROW = re.compile(
    r"^\| [^|]*\(`(\w+)`\) \| (2 CPU cores|H200) \| ([\d.,]+) us \| ([\d.,]+) us, [^|]* \| ([\d.,]+) us \|$", re.M
)


def test_the_table_of_the_readme_has_the_newest_results() -> None:
    """As docs/performance/results.md has them, which `bench.summarize --docs` makes."""
    results = (ROOT / "docs" / "performance" / "results.md").read_text(encoding="utf-8")
    rows = _ROW.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(rows) >= 6
    for case, machine, ours, peer, eager in rows:
        section = results.split(f"## {'intel_xeon' if machine == '2 CPU cores' else 'h200'}\n")[1].split("\n## ")[0]
        threads = 2 if machine == "2 CPU cores" else 1
        found = re.search(rf"^\| `{case}` \| {threads} \|(.*)\|$", section, re.MULTILINE)
        assert found is not None, f"results.md has no {case} on {machine}"
        cells = [cell.strip() for cell in found.group(1).split("|")]
        for figure in (ours, peer, eager):
            assert figure in cells, f"README.md says {figure} us for {case} on {machine}: {cells}"


def test_the_plots_are_those_of_the_results() -> None:
    for path, text in plots.plots().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: run tools/docs/plots.py"
