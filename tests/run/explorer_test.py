# SPDX-License-Identifier: Apache-2.0
"""`fn.explorer`: one page whose lines are linked by the compiler's numbers."""

from __future__ import annotations

import base64
import html
import json
import re
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import headless
import pytest
import straightline as sl
import torch
from explorer_page import Model, facts_of
from straightline import _page_machine, explorer
from torch import Tensor, nn


@pytest.fixture(scope="module")
def function() -> Any:
    return sl.compile(Model().eval(), (torch.randn(1, 3, 6, 6),))


def _text(line: dict[str, Any]) -> str:
    return re.sub(r"<[^>]*>", "", line["html"])


def _check_that_every_line_has_words(facts: dict[str, Any]) -> None:
    for pane in ("source", "op", "kernel", "code"):
        for line in facts[pane]:
            words = [facts["about"][key] for key in line.get("keys", ())]
            assert not _text(line).strip() or words and all(words), _text(line)


def test_kernels_that_share_a_launch_have_words() -> None:
    """The functions of a launch of several kernels belong to the statement that launches them all."""
    compiled = sl.compile(Model().eval(), (torch.randn(1, 3, 6, 6),), target="cuda:sm_90")
    assert "kernel.parts = [" in compiled.ir("kernel")
    _check_that_every_line_has_words(facts_of(explorer.page(compiled)))


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
    _check_that_every_line_has_words(facts)
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
    assert page.count("<script") == 3 and "alert(1)</script>" not in page


def test_diff_saved_models_and_sizes(function: Any, tmp_path: Path) -> None:
    other = sl.compile(Model().eval(), (torch.randn(2, 3, 6, 6),))
    page = explorer.page(function, other)
    assert facts_of(page)["hasDiff"] and "diff_" in page
    assert not facts_of(explorer.page(function))["hasDiff"]
    function.save(tmp_path / "m.sl", ("host",))
    assert facts_of(explorer.page(sl.load(tmp_path / "m.sl")))["op"] == facts_of(explorer.page(function))["op"]


def _unpacked(page: str, name: str) -> str:
    """What a script of the page holds, packed."""
    found = re.search(f'<script id="{name}" type="text/plain">(.*?)</script>', page)
    assert found is not None, name
    return zlib.decompress(base64.b64decode(found[1] + "=" * (-len(found[1]) % 4))).decode()


def _two_programs() -> Any:
    return sl.compile(nn.Linear(4, 4).eval(), [(torch.randn(1, 4),), (torch.randn(2, 4, dtype=torch.float32),)])


def test_several_programs() -> None:
    """The page has the facts of all programs, those behind the first packed, and says which are left out."""
    several = _two_programs()
    page = explorer.page(several)
    first, second = facts_of(page), json.loads(_unpacked(page, "program-2"))
    assert (first["program"], second["program"]) == (1, 2)
    assert [row["words"] for row in first["programs"]] == list(several.examples)
    assert all(row["here"] for row in first["programs"])
    codes = ["\n".join(_text(line) for line in facts["code"]) for facts in (first, second)]
    assert codes[0] != codes[1] and all(code.strip() for code in codes)
    alone = explorer.page(several, program=2)
    assert (
        facts_of(alone)["code"] == second["code"]
        and "program-" not in alone.split("<script id=", 1)[1].split("<script>")[0]
    )
    assert [row["here"] for row in facts_of(alone)["programs"]] == [False, True]
    with pytest.raises(sl.UserError, match="program is 3 but the function has programs 1 to 2"):
        explorer.page(several, program=3)


def test_programs_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots make a program for each combination; what does not fit is named and not compiled."""
    monkeypatch.setattr(explorer, "_MOST_PROGRAM_BYTES", 10)
    several = sl.compile(nn.Linear(4, 4).eval(), [(torch.randn(n, 4),) for n in (1, 2, 3)])
    page = explorer.page(several)
    assert [row["here"] for row in facts_of(page)["programs"]] == [True, True, False]
    assert "program-3" not in page and "machine-3" not in page


def test_machine_code_in_the_page(function: Any) -> None:
    """Every kernel's text is what `machine_code` says; every statement has one, or words."""
    page = explorer.page(function)
    machine = facts_of(page)["machine"]
    texts = _unpacked(page, "machine-1").split("\0")[:-1]
    assert len(texts) == len(machine["names"]) and not machine["left"]
    for name, text, lines in zip(machine["names"], texts, machine["lines"], strict=True):
        assert text == function.machine_code(name) and text.count("\n") == lines
    called = {row["kernel"] for row in function.explain().statements if row["kernel"]}
    assert called - set(machine["other"].values()) <= set(machine["names"])
    assert {"sl_program_run", "sl_program_prepare"} <= set(machine["names"])
    heads = [line for line in facts_of(page)["code"] + facts_of(page)["kernel"] if "asm" in line]
    assert len(heads) >= 2 * len(machine["names"]) - 2
    assert all(machine["names"][line["asm"]] in _text(line) for line in heads)


def test_machine_code_that_does_not_fit(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    none = facts_of(explorer.page(function, machine_code=False))["machine"]
    assert not none["names"] and none["left"] and "machine-1" not in explorer.page(function, machine_code=False)
    monkeypatch.setattr(_page_machine, "MOST_BYTES", 2000)
    page = explorer.page(function)
    some = facts_of(page)["machine"]
    assert some["names"] and some["left"] and {*some["names"], *some["left"]} == set(none["left"])
    texts = _unpacked(page, "machine-1").split("\0")[:-1]
    assert [function.machine_code(name) for name in some["names"]] == texts
    assert not facts_of(explorer.page(function, machine_code=True))["machine"]["left"]


def test_times_of_a_profile(function: Any) -> None:
    profile = function.profile(torch.randn(1, 3, 6, 6), runs=5)
    facts = facts_of(explorer.page(function, profile=profile))
    *bars, call = facts["time"]["items"]
    assert [bar["keys"] for bar in bars] == [[f"s{row.statement}"] for row in profile.rows]
    assert sum(bar["w"] for bar in facts["time"]["items"]) == pytest.approx(1)
    for row, bar in zip(profile.rows, bars, strict=True):
        assert f"{row.median_us:.2f} us" in bar["text"] and row.kernel in bar["text"]
        assert f"time: median {row.median_us:.2f} us" in facts["about"][f"s{row.statement}"]
    assert "beside its statements" in call["title"] and "median of 5" in facts["facts"]
    assert "profile=" in facts_of(explorer.page(function))["time"]["label"]


def test_profiles_of_other_programs(function: Any) -> None:
    several = _two_programs()
    second = several.profile(torch.randn(2, 4), runs=3)
    assert second.program == 2
    page = explorer.page(several, profile=[second])
    assert (
        "median of 3" in json.loads(_unpacked(page, "program-2"))["facts"]
        and "median of" not in facts_of(page)["facts"]
    )
    first = several.profile(torch.randn(1, 4), runs=3)
    explorer.page(several, profile=(first, second))
    for given, options, words in (
        (second, {"program": 1}, "the profile is of program 2 of .* but the page shows program 1"),
        ([second, second], {}, "two profiles are of program 2"),
        ("times", {}, "profile is str but must be what fn.profile"),
    ):
        with pytest.raises(sl.UserError, match=words):
            explorer.page(several, profile=given, **options)  # type: ignore[arg-type]
    with pytest.raises(sl.UserError, match="the profile is not of this program: its statement"):
        explorer.page(function, profile=first)


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


class _Long(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(120):
            x = torch.relu(x * (i + 2) - 1)
        return torch.flip(x, (0,))


def test_a_long_page_in_a_browser(tmp_path: Path) -> None:
    """Rows beyond the first screens get their text later, or when somebody scrolls or searches."""
    headless.needed()
    path = tmp_path / "out.html"
    sl.compile(_Long(), (torch.randn(4, 4),)).explorer(path)
    facts = facts_of(path.read_text())
    rows = [html.unescape(_text(line)) for line in facts["op"]]
    last = len(rows) - next(i for i, row in enumerate(reversed(rows)) if "op.flip" in row)
    assert last > 300
    texts = "[...document.querySelectorAll('#p-op .row')].map((row) => row.textContent)"
    with headless.Page(path) as page:
        assert page.value(f"fill(), {texts}") == [*rows[:150], *[""] * (len(rows) - 150)]
        assert page.value(f"fill(), complete(), {texts}") == rows
        page.value("fill(), document.getElementById('p-op').scrollTop = 5000")
        end = time.monotonic() + 60
        while page.value("waiting.length") != 0:
            assert time.monotonic() < end, "rows stay empty"
        assert page.value(texts) == rows
        assert (
            page.value("fill(), search.value = 'op.flip', find(), found.map((row) => row.id)").count(f"op-{last}") == 1
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


def test_machine_code_in_a_browser(function: Any, tmp_path: Path) -> None:
    """It is folded until asked for: from the kernel's line by click, from what is picked by key, from an address."""
    headless.needed()
    path = tmp_path / "out.html"
    function.explorer(path)
    facts = facts_of(path.read_text())
    names = facts["machine"]["names"]
    launch, key = next(
        (i, key)
        for i, line in enumerate(facts["kernel"], 1)
        for key in line.get("keys", ())
        if "kernel.launch" in _text(line) and names[facts["machine"]["of"].get(key, 0)].startswith("gemm")
    )
    name = names[facts["machine"]["of"][key]]
    shown = "document.getElementById('p-machine').textContent.replaceAll('\\n', '')"
    with headless.Page(path) as page:
        assert page.value("document.getElementById('machine').hidden") is True
        page.keys("m")
        assert page.value("document.getElementById('machine').hidden") is True  # nothing is picked
        page.mouse(f"#kernel-{launch}", click=True)
        assert f"machine code of {name}: " in page.value("about.textContent")
        page.keys("m")
        page.until("!document.getElementById('machine').hidden")
        assert page.value(shown) == function.machine_code(name).replace("\n", "")
        assert page.value("location.hash").endswith(f"+asm{names.index(name)}")
        page.mouse("#p-machine .row[data-to]", click=True)
        assert page.value("document.querySelector('#p-machine .there').dataset.at") == page.value(
            "document.querySelector('#p-machine .row[data-to]').dataset.to"
        )
        page.keys("m")
        assert page.value("document.getElementById('machine').hidden") is True
        page.mouse("#p-code button.asm", click=True)
        page.until("!document.getElementById('machine').hidden")
        assert page.value("kernel") == page.value("Number(document.querySelector('#p-code button.asm').dataset.kernel)")
        page.keys("Escape")
        assert page.value("document.getElementById('machine').hidden") is True and page.value("location.hash") == ""
    document = headless.document(path, f"#{key}+asm{names.index(name)}")
    assert 'id="machine-1"' in document and "picked" in document


def test_programs_and_times_in_a_browser(tmp_path: Path) -> None:
    headless.needed()
    several, path = _two_programs(), tmp_path / "out.html"
    several.explorer(path, profile=several.profile(torch.randn(2, 4), runs=3), passes=True)
    second = json.loads(_unpacked(path.read_text(), "program-2"))
    with headless.Page(path) as page:
        assert page.value("chooser.selectedOptions[0].textContent").startswith("program 1 of 2: ")
        page.keys("p")
        page.until("data.program === 2")
        assert page.value("document.getElementById('facts').textContent") == second["facts"]
        code = html.unescape("\n".join(_text(line) for line in second["code"]))
        assert (
            page.value("[...document.querySelectorAll('#p-code .row')].map((row) => row.textContent).join('\\n')")
            == code
        )
        page.keys("3")
        assert " us  " in page.value("document.getElementById('time').textContent")
        page.mouse("#time rect.bar", click=True)
        assert "time: median" in page.value("about.textContent") and page.value("location.hash").startswith(
            "#program2+s"
        )
        page.keys("m")
        page.until("kernel >= 0")
        page.keys("4")
        assert page.value("document.querySelectorAll('.pass').length") == 1 + len(second["passes"]["steps"])
        page.keys("p")
        page.until("data.program === 1")
        assert page.value("kernel") == -1 and page.value("location.hash") in ("", "#pass0")
    assert second["facts"] in html.unescape(headless.document(path, "#program2"))
