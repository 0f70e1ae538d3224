# SPDX-License-Identifier: Apache-2.0
"""The IR after each pass on the explorer's page: what the compiler had, under names that a value keeps, with its numbers."""

from __future__ import annotations

import html
import json
import random
import re
from pathlib import Path
from typing import Any

import headless
import pytest
import straightline as sl
import torch
from explorer_page import Model, facts_of
from straightline import _pass_steps, explorer
from straightline._pass_steps import Line
from straightline.testing.models.cases import ALL

_ROOT = Path(__file__).parents[2]
_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|%[\w$.-]+|#map\d*\b')
_MODELS = ("mlp 32", "digits cnn", "bert layer", "gru", "decoder, 1 token", "unet, bilinear", "detection")


@pytest.fixture(scope="module")
def function() -> Any:
    return sl.compile(Model().eval(), (torch.randn(1, 3, 6, 6),))


def _states(passes: dict[str, Any]) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Text and keys of each line, before any pass and after each, as the page makes them of its edits."""
    states = [[tuple(row) for row in passes["first"]]]
    for step in passes["steps"]:
        before, after, at = states[-1], [], 0
        for edit in step["edits"]:
            if isinstance(edit, list):
                after.append(tuple(edit) if len(edit) == 2 else (before[at][0], edit[0]))
                at += len(edit) == 1
            elif edit > 0:
                after += before[at : at + edit]
                at += edit
            else:
                at -= edit
        assert at == len(before) or not step["edits"], step["name"]
        states.append(after if step["edits"] else before)
    return [[(passes["texts"][text], tuple(passes["keys"][key])) for text, key in state] for state in states]


def _same_but_for_names(shown: list[str], printed: list[str]) -> dict[str, str]:
    """The names of the page by those that were printed: one of each for one of the others, in every line."""
    assert len(shown) == len(printed)
    names: dict[str, str] = {}
    for ours, theirs in zip(shown, printed, strict=True):
        assert _NAME.sub("%", ours) == _NAME.sub("%", theirs)
        for name, known in zip(_NAME.findall(ours), _NAME.findall(theirs), strict=True):
            if name[0] == '"':
                assert name == known
            else:
                assert names.setdefault(known, name) == name, (ours, theirs)
    assert len(set(names.values())) == len(names)
    return names


@pytest.mark.parametrize("name", _MODELS)
def test_the_page_has_what_each_pass_left(name: str) -> None:
    case = ALL[name]
    torch.manual_seed(seed := random.randrange(2**31))
    print("seed", seed)
    function = sl.compile(case[0]().eval(), case[1]())
    compilation = function._binding.compiled_with(profile=True, links=True, passes=True)
    recorded = json.loads(compilation.passes_json)
    facts = facts_of(explorer.page(function, passes=True))
    states = _states(facts["passes"])
    printed = [recorded["before"], *(one.get("after") for one in recorded["passes"])]
    known = {key for line in facts["op"] for key in line.get("keys", ())}
    last: list[str] = []
    for state, text in zip(states, printed, strict=True):
        if text is not None:
            last = text["text"].rstrip("\n").split("\n")
            for (_, keys), ops in zip(state, text["ops"], strict=False):
                assert set(keys) == {f"o{op}" for op in ops} & known
        _same_but_for_names([line for line, _ in state], last)
    # Both panes of the tab "code": the op level without what passes are told of the target, and names that functions share.
    links = json.loads(compilation.links_json)
    for state, text, begin in ((states[0], links["op_text"], 1), (states[-1], links["kernel_text"], 0)):
        lines = [_NAME.sub("%", line) for line in text.rstrip("\n").split("\n")]
        assert [_NAME.sub("%", line) for line, _ in state][begin:] == lines[begin:]
    steps = facts["passes"]["steps"]
    assert [step["name"] for step in steps] == [one["name"] for one in recorded["passes"]]
    for step, before, after in zip(steps, states, states[1:], strict=False):
        assert (step["added"] + step["removed"] > 0) == ([a for a, _ in before] != [b for b, _ in after])
        assert step["removed"] <= len(before) and step["added"] <= len(after)


def test_passes_that_change_nothing_and_summaries(function: Any) -> None:
    steps = facts_of(explorer.page(function, passes=True))["passes"]["steps"]
    assert [step["name"] for step in steps][:2] == ["verify-op-level", "canonicalize"]
    assert len(steps) > 20
    declared = (_ROOT / "passes" / "passes.td").read_text(encoding="utf-8")
    summaries = dict(re.findall(r'def \w+ : \w+Pass<"([\w-]+)"[^>]*> \{\s*let summary = "((?:[^"\\]|\\.)*)"', declared))
    for step in steps:
        assert step["summary"] and step["summary"] == summaries.get(step["name"], step["summary"])
        if step["name"].startswith("verify"):
            assert not step["edits"] and step["added"] == step["removed"] == 0
    assert {"fold-batch-norm", "lower-to-kernel", "plan-memory"} <= {step["name"] for step in steps if step["added"]}
    assert len({step["name"] for step in steps} & set(summaries)) > 15


def test_an_op_is_followed_from_pass_to_pass(function: Any) -> None:
    """Its key is in every text up to the kernel that does it; one that folds is gone after the pass that the page names."""
    facts = facts_of(explorer.page(function, passes=True))
    states, steps = _states(facts["passes"]), facts["passes"]["steps"]

    def key_of(op: str) -> str:
        return next(line["keys"][0] for line in facts["op"] if f"{op}</span> " in line["html"] and "keys" in line)

    linear = key_of("op.linear")
    for state in states:
        assert any(linear in keys for _, keys in state)
    launches = [text for text, keys in states[-1] if linear in keys and "kernel.launch" in text]
    assert any("linear" in text for text in launches)
    gone = {line["keys"][0] for line in facts["op"] if line.get("gone")}
    assert gone
    for key in gone:
        told = re.search("gone after the pass ([a-z-]+)", facts["about"][key])
        assert told is not None
        has = [any(key in keys for _, keys in state) for state in states]
        assert has[0] and not has[-1] and has == sorted(has, reverse=True)
        assert steps[has.index(False) - 1]["name"] == told[1]


def test_only_who_asks_gets_texts(function: Any, tmp_path: Path) -> None:
    assert facts_of(explorer.page(function))["passes"] is None
    plain = function._binding.compiled_with(links=True, emit_only=True)
    assert plain.passes_json == "" and plain.links_json != ""
    if hasattr(function._compilation, "link"):  # not one that was loaded
        assert function._compilation.passes_json == "" and function._compilation.links_json == ""
    alone = function._binding.compiled_with(passes=True, emit_only=True)
    assert alone.links_json == "" and json.loads(alone.passes_json)["passes"]
    assert alone.code == function._binding.compiled_with(emit_only=True).code
    function.save(tmp_path / "m.sl", ("host",))
    loaded = facts_of(explorer.page(sl.load(tmp_path / "m.sl"), passes=True))["passes"]
    assert loaded == facts_of(explorer.page(function, passes=True))["passes"]
    function.explorer(tmp_path / "out.html", passes=True)
    assert facts_of((tmp_path / "out.html").read_text())["passes"] == loaded


def _made(before: str, *after: str) -> tuple[list[Line], list[_pass_steps.Step]]:
    def text(lines: str) -> dict[str, Any]:
        """A line is "NUMBERS| text"."""
        pairs = [line.split("|") for line in lines.strip("\n").split("\n")]
        return {
            "text": "\n".join(line for _, line in pairs) + "\n",
            "ops": [[int(n) for n in numbers.split()] for numbers, _ in pairs],
        }

    passes = [{"name": f"p{i}", "summary": "", "changed": True, "after": text(lines)} for i, lines in enumerate(after)]
    return _pass_steps.steps_of({"before": text(before), "passes": passes})


def test_a_value_keeps_its_name() -> None:
    before = "|f(%arg0) {\n1|  %0 = a %arg0\n2|  %1 = b %0\n3|  %2 = c %1, %0\n|}\n"
    _, [step] = _made(before, "|f(%arg0) {\n2|  %0 = b %arg0\n3|  %1 = c %0, %arg0\n|}\n")
    assert step.edits == [
        1, -2, Line("  %1 = b %arg0", (2,)), -1, Line("  %2 = c %1, %arg0", (3,)), 1,
    ]  # fmt: skip
    assert (step.added, step.removed) == (2, 3)
    # One op more: nothing else is another line, though all later numbers are others.
    _, [step] = _made(before, "|f(%arg0) {\n1|  %0 = a %arg0\n7|  %1 = n %0\n2|  %2 = b %0\n3|  %3 = c %2, %0\n|}\n")
    assert step.edits == [2, Line("  %3 = n %0", (7,)), 3]
    # Texts hold no names, maps are numbered, too, and an op that moved is the same value.
    _, [step] = _made(
        '|#map = m\n1|  %0 = a "%1"\n2|  %1 = b #map\n3|  c %0, %1\n',
        '|#map = n\n|#map1 = m\n2|  %0 = b #map1\n1|  %1 = a "%1"\n3|  c %1, %0\n',
    )
    assert step.edits[0] == Line("#map0 = n", ()) and step.edits[1] == 1
    assert step.edits[-1] == 1 and (step.added, step.removed) == (2, 1)
    assert Line('  %0 = a "%1"', (1,)) in step.edits or Line("  %1 = b #map", (2,)) in step.edits


def test_other_attributes_are_one_line_and_other_places_none() -> None:
    head = "|f(%arg0) {\n"
    _, [step, second, third] = _made(
        f"{head}1|  %0 = a %arg0 {{}}\n2|  %1 = b %0\n",
        f"{head}1|  %0 = a %arg0 {{x}}\n2|  %1 = b %0\n",
        f"{head}1 2|  %0 = a %arg0 {{x}}\n2|  %1 = b %0\n",
        f"{head}2|  %0 = b %arg0\n",
    )
    assert step.edits == [1, Line("  %0 = a %arg0 {x}", (1,)), -1, 1] and step.added == step.removed == 1
    assert second.edits == [1, (1, 2), 1] and second.added == second.removed == 0
    assert third.edits == [1, -1, -1, Line("  %1 = b %arg0", (2,))] or third.edits == [
        1, -2, Line("  %1 = b %arg0", (2,)),
    ]  # fmt: skip
    assert (third.added, third.removed) == (1, 2)


def test_random_texts_are_made_again() -> None:
    """Whatever the lines: the edits of a step, on the lines before, are the lines after but for names."""
    random.seed(seed := random.randrange(2**31))
    print("seed", seed)

    def text() -> dict[str, Any]:
        lines, ops = [], []
        for i in range(random.randrange(14)):
            uses = [f"%{random.randrange(i)}" for _ in range(random.randrange(3)) if i]
            lines.append(f'  %{i} = {random.choice("abc")} {", ".join(uses)} "%0"')
            ops.append(sorted(random.sample(range(6), random.randrange(3))))
        return {"text": "\n".join(lines) + "\n", "ops": ops}

    for _ in range(300):
        texts = [text() for _ in range(5)]
        recorded = {
            "before": texts[0],
            "passes": [{"name": "p", "summary": "", "changed": True, "after": one} for one in texts[1:]],
        }
        at, steps = _pass_steps.steps_of(recorded)
        for step, one in zip(steps, texts[1:], strict=True):
            after: list[Line] = []
            begin = 0
            for edit in step.edits:
                if isinstance(edit, Line):
                    after.append(edit)
                elif isinstance(edit, tuple):
                    after.append(Line(at[begin].text, edit))
                    begin += 1
                elif edit > 0:
                    after += at[begin : begin + edit]
                    begin += edit
                else:
                    begin -= edit
            assert begin == len(at)
            _same_but_for_names([line.text for line in after], one["text"].split("\n")[: len(one["ops"])])
            assert [list(line.ops) for line in after] == one["ops"]
            at = after


def _rows(document: str, pane: str) -> list[tuple[set[str], str]]:
    """Classes and text of the rows of a pane."""
    found = re.findall(r'<div class="(row[^"]*)" id="(\w+)-\d+"[^>]*>(.*?)</div>', document)
    return [
        (set(classes.split()), html.unescape(re.sub("<[^>]*>", "", inner)))
        for classes, of, inner in found
        if of == pane
    ]


def test_in_a_browser(function: Any, tmp_path: Path) -> None:
    """An address chooses pass and op; keys, search and folding work; the rows are the lines that Python makes of the edits."""
    headless.needed()
    path = tmp_path / "out.html"
    function.explorer(path, passes=True)
    facts = facts_of(path.read_text())
    states, steps = _states(facts["passes"]), facts["passes"]["steps"]
    number = 1 + next(i for i, step in enumerate(steps) if step["name"] == "fuse-contractions")
    linear = next(line["keys"][0] for line in facts["op"] if "op.linear" in line["html"])

    def opened(fragment: str, *keys: str, search: str = "") -> str:
        """The document after these keys were pressed."""
        script = "".join(f"document.dispatchEvent(new KeyboardEvent('keydown', {{ key: {key!r} }}));" for key in keys)
        if search:
            script = f"search.value = {search!r}; find();" + script
        copy = tmp_path / "copy.html"
        copy.write_text(path.read_text().replace("</body>", f"<script>{script}</script></body>"))
        return headless.document(copy, fragment)

    document = opened(f"#pass{number}+{linear}")
    rows = _rows(document, "pass")
    assert [text for classes, text in rows if "del" not in classes] == [text for text, _ in states[number]]
    assert [text for classes, text in rows if "add" not in classes] == [text for text, _ in states[number - 1]]
    assert any("picked" in classes and "op.linear" in text for classes, text in rows)
    assert any("picked" in classes for classes, _ in _rows(document, "from"))
    assert "IR after fuse-contractions: " in document and '<main id="passes" class="shown">' in document
    assert len(re.findall('class="pass nothing"', document)) == sum(
        not step["added"] + step["removed"] for step in steps
    )
    assert document.count('class="pass nothing" data-step') == document.count("<small>changed nothing</small>")

    later = next(i for i in range(number, len(steps)) if steps[i]["added"] + steps[i]["removed"]) + 1
    for keys, expected in ((("j",), later), (("j", "k"), number), (("ArrowDown", "ArrowUp", "ArrowDown"), later)):
        document = opened(f"#pass{number}", *keys)
        assert re.findall(r'class="pass" data-step="(\d+)" aria-pressed="true"', document) == [str(expected)]
        assert [t for c, t in _rows(document, "pass") if "del" not in c] == [text for text, _ in states[expected]]
    document = opened(f"#pass{number}", "c")
    assert "lines as before</div>" in document
    kept = _rows(document, "pass")
    assert sum("add" in classes for classes, _ in kept) == steps[number - 1]["added"] and len(kept) < len(rows)
    # What a later pass wrote is found from an earlier one, and that pass is shown.
    document = opened(f"#pass{number}", search="kernel.launch")
    lowered = 1 + next(i for i, step in enumerate(steps) if step["name"] == "lower-to-kernel")
    assert f'data-step="{lowered}" aria-pressed="true"' in document
    assert [text for classes, text in _rows(document, "pass") if "found" in classes and "kernel.launch" in text]
    # The tab has a number, and is not there unless it was asked for.
    assert '<main id="passes" class="shown">' in opened("", "4")
    function.explorer(path, function)
    assert '<main id="diff" class="shown">' in opened("", "4") and 'class="pass' not in opened("")
