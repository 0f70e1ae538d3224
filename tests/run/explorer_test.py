# SPDX-License-Identifier: Apache-2.0
"""`fn.explorer`: one page whose lines are linked by the compiler's numbers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import headless
import pytest
import straightline as sl
import torch
from explorer_page import Model, facts_of
from straightline import explorer
from torch import Tensor, nn


@pytest.fixture(scope="module")
def function() -> Any:
    return sl.compile(Model().eval(), (torch.randn(1, 3, 6, 6),))


def _text(line: dict[str, Any]) -> str:
    return re.sub(r"<[^>]*>", "", line["html"])


def test_every_op_is_linked_or_explained(function: Any) -> None:
    facts = facts_of(explorer.page(function))
    ops = [line for line in facts["op"] if " = op." in _text(line) or _text(line).strip().startswith("op.")]
    assert len(ops) > 8
    for line in ops:
        [key] = line["keys"]
        assert facts["about"][key]
        if line.get("gone"):
            assert re.search("gone after the pass [a-z-]+", facts["about"][key])
    gone = [_text(line) for line in ops if line.get("gone")]
    assert all("op.linear" not in line and "op.convolution" not in line for line in gone)
    for pane in ("source", "op", "kernel", "code"):  # no line is without words
        for line in facts[pane]:
            assert not _text(line).strip() or line["keys"] and all(facts["about"][key] for key in line["keys"]), _text(
                line
            )
    declared = [line for line in facts["code"] if re.search(r"float\* const t_\d+ = ", _text(line))]
    assert declared
    for line in declared:
        [key] = line["keys"]
        assert (
            key.startswith("b") and facts["links"][key] and re.match("buffer .*: [0-9,]+ bytes at", facts["about"][key])
        )
    launched = [line for line in facts["kernel"] if "kernel.launch" in _text(line) or "kernel.call" in _text(line)]
    assert launched and all(any(key.startswith("s") for key in line["keys"]) for line in launched)


def test_a_value_is_followed_through_all_levels(function: Any) -> None:
    """The batch norm is folded into the convolution, the relu fused: the same statement, at every level."""
    facts = facts_of(explorer.page(function))

    def key_of(op: str) -> str:
        return next(line["keys"][0] for line in facts["op"] if f"{op} " in _text(line) and "keys" in line)

    def run_statements(op: str) -> set[str]:
        return {key for key in facts["links"].get(key_of(op), ()) if "kernel.launch" in kernel.get(key, "")}

    kernel = {
        key: _text(line) for line in facts["kernel"] for key in line.get("keys", ()) if "kernel.launch" in _text(line)
    }
    shared = run_statements("op.convolution") & run_statements("op.relu")
    assert any("convolution" in kernel[key] for key in shared)
    linear = run_statements("op.linear")
    assert any("linear" in kernel[key] for key in linear)
    for key in shared | linear:
        code = [_text(line) for line in facts["code"] if key in line.get("keys", ())]
        entry = re.search(r"@(\w+)", kernel[key])
        assert entry is not None and any(entry[1] in line for line in code)
        assert facts["about"][key].startswith("statement ")
    assert not any("sl::profile(" in _text(line) for line in facts["code"])
    assert facts["source"] and any("explorer_page.py" in _text(line) for line in facts["source"])
    assert facts["memory"]["items"] and facts["time"]["items"]
    for item in facts["memory"]["items"]:
        assert 0 <= item["x"] and item["x"] + item["w"] <= 1.0001 and 0 <= item["y"] and item["y"] + item["h"] <= 1.0001


def test_the_page_fetches_nothing_and_text_is_no_markup(function: Any, tmp_path: Path) -> None:
    function.explorer(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert not re.search(r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", page)

    class Evil(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module("</script><script>alert(1)</script>", nn.Linear(3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return next(iter(self.children()))(x)

    page = explorer.page(sl.compile(Evil().eval(), (torch.randn(1, 3),)))
    assert page.count("<script") == 2 and "alert(1)</script>" not in page


def test_diff_saved_models_and_sizes(function: Any, tmp_path: Path) -> None:
    other = sl.compile(Model().eval(), (torch.randn(2, 3, 6, 6),))
    page = explorer.page(function, other)
    assert facts_of(page)["hasDiff"] and "diff_" in page
    assert not facts_of(explorer.page(function))["hasDiff"]
    function.save(tmp_path / "m.sl", ("host",))
    assert facts_of(explorer.page(sl.load(tmp_path / "m.sl")))["op"] == facts_of(explorer.page(function))["op"]


def test_several_examples() -> None:
    several = sl.compile(nn.Linear(4, 4).eval(), [(torch.randn(1, 4),), (torch.randn(2, 4),)])
    assert "the first of 2 programs" in facts_of(explorer.page(several))["facts"]


def test_bad_input(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sl.UserError, match="cannot write"):
        function.explorer(tmp_path / "no" / "out.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(sl.UserError, match=r"straightline\[explorer\]"):
        function.explorer(tmp_path / "out.html")


def test_in_a_browser(function: Any, tmp_path: Path) -> None:
    """Chromium without a window: the page is ready, and an address picks what it names at every level."""
    headless.needed()
    path = tmp_path / "out.html"
    function.explorer(path, function)
    facts = facts_of(path.read_text())
    key = next(line["keys"][0] for line in facts["op"] if "op.linear" in _text(line))

    def shown(fragment: str) -> str:
        return headless.document(path, fragment)

    picked = re.findall(
        r'id="(\w+)-\d+"[^>]*class="[^"]*\bpicked\b|class="[^"]*\bpicked\b[^"]*"[^>]*id="(\w+)-\d+"', shown(f"#{key}")
    )
    assert {a or b for a, b in picked} >= {"source", "op", "kernel", "code"}
    assert "found" in shown("#pack_")
    assert "picked" not in re.sub(r"<style>.*?</style>|<script.*?</script>", "", shown(""), flags=re.DOTALL)


def test_driven_in_a_browser(function: Any, tmp_path: Path) -> None:
    """Hover, click, search, tabs, keys and the diff, as a user does them."""
    headless.needed()
    path = tmp_path / "out.html"
    function.explorer(path, sl.compile(Model().eval(), (torch.randn(2, 3, 6, 6),)))
    facts = facts_of(path.read_text())
    row = next(i for i, line in enumerate(facts["op"], 1) if "op.linear" in _text(line))
    panes = "[...new Set([...document.querySelectorAll('.row.{}')].map((row) => row.id.split('-')[0]))].sort().join()"
    with headless.Page(path) as page:
        page.mouse(f"#op-{row}")
        assert page.value(panes.format("hover")) == "code,kernel,op,source"
        assert page.value(panes.format("picked")) == ""
        page.mouse(f"#op-{row}", click=True)
        assert page.value(panes.format("picked")) == "code,kernel,op,source"
        words, key = page.value("about.textContent"), facts["op"][row - 1]["keys"][0]
        assert "op.linear" in words and "why: " in words and page.value("location.hash") == f"#{key}"
        page.keys("Escape")
        assert page.value(panes.format("picked")) == "" and page.value("location.hash") == ""
        page.keys("/", *"max(")
        assert page.value("document.activeElement.id") == "search"
        page.keys("Escape", "/", *"linear", "Enter")
        found = page.value("document.querySelectorAll('.found').length")
        assert found > 1 and page.value("at") == 1
        page.keys("Escape", "2")
        assert page.value("shown") == "memory"
        page.mouse("#memory rect.bar", click=True)
        assert page.value("shown") == "code" and "statement" in page.value("about.textContent")
        page.keys("4")
        assert (
            page.value("shown") == "diff"
            and page.value("document.querySelectorAll('#diff .diff_chg, #diff .diff_add').length") > 0
        )


def test_machine_code(function: Any, tmp_path: Path) -> None:
    kernel = next(row["kernel"] for row in function.explain().statements if row["op"].startswith("linear"))
    text = function.machine_code(kernel)
    lines = text.splitlines()
    starts = {int(line.split(":")[0], 16) for line in lines}
    assert len(lines) > 20 and "ret" in lines[-1] and ".byte" not in text
    jumps = re.findall(r"\tj\w+\t0x([0-9a-f]+)$", text, re.MULTILINE)
    assert jumps and {int(at, 16) for at in jumps} <= starts  # targets are instructions
    function.save(tmp_path / "m.sl", ("host",))
    assert sl.load(tmp_path / "m.sl").machine_code(kernel) == text
    assert "call" in function.machine_code("sl_program_run") or "jmp" in function.machine_code("sl_program_run")
    with pytest.raises(sl.UserError, match=f"there is no function nothing; the program calls .*{kernel}"):
        function.machine_code("nothing")
