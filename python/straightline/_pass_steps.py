# SPDX-License-Identifier: Apache-2.0
"""What each pass of a compilation did to the IR, as edits of lines: for the explorer's page.

The compiler gives the text after each pass and, of each line, the numbers of the ops that it came from (tools/pass_texts.h).
Printed names of values count up, so that one op more renames all that follow: here a value keeps the name that it had
first, so that a line differs only where a pass changed it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

#: Texts, which hold no names, and what is numbered anew in each text: values and affine maps.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%(?:\d+|[A-Za-z$._-][\w$.-]*)|#map\d*\b')
_DEFINED = re.compile(r"^\s*(%[^=]*?) = ")
_OP = re.compile(r"^\s*(?:%[^=]*? = )?\"?([\w.]+)")


@dataclass(frozen=True)
class Line:
    """A line, with the names that values have on the page.

    Attributes:
        text: As it is shown.
        ops: Numbers of the ops of the op level that it came from, in order.
    """

    text: str
    ops: tuple[int, ...]


@dataclass
class Step:
    """A pass that ran.

    Attributes:
        name: Its argument, such as "fold-pad".
        summary: One line, as passes.td has it.
        added: So many lines are new or another than before.
        removed: So many lines are gone or another than before.
        edits: From the lines before to those after, in order: a number n > 0: n lines stay; n < 0: -n lines go; a `Line`: it
            comes; a tuple of numbers: one line stays, and has these ops.
    """

    name: str
    summary: str
    added: int = 0
    removed: int = 0
    edits: list[int | Line | tuple[int, ...]] = field(default_factory=list)


def steps_of(recorded: Mapping[str, Any]) -> tuple[list[Line], list[Step]]:
    """The lines before any pass, and what each did to them. `recorded`: what the compiler recorded (tools/pass_texts.h)."""
    names, known = _Names(), dict[str, str]()
    before = [Line(names.renamed(text, known, fresh=True), ops) for text, ops in _numbered(recorded["before"])]
    first, steps = before, []
    for one in recorded["passes"]:
        step = Step(one["name"], one["summary"])
        if one["changed"]:
            before = _step(step, before, _numbered(one["after"]), names)
        steps.append(step)
    return first, steps


def _numbered(text: Mapping[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
    lines = [(line, tuple(ops)) for line, ops in zip(text["text"].split("\n"), text["ops"], strict=False)]
    while lines and not lines[-1][0]:
        lines.pop()
    return lines


class _Names:
    """Names that values have on the page: each is one value's, in whatever pass."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._next: dict[str, int] = defaultdict(int)

    def fresh(self, printed: str) -> str:
        """A name that none has had: the printed one, if so, else one with the next number."""
        name, stem = printed, printed.rstrip("0123456789")
        while name in self._given:
            name = f"{stem}{self._next[stem]}"
            self._next[stem] += 1
        self._given.add(name)
        digits = name[len(stem) :]
        if digits:
            self._next[stem] = max(self._next[stem], int(digits) + 1)
        return name

    def renamed(self, text: str, known: dict[str, str], *, fresh: bool) -> str:
        """The line with known names; `fresh`: values that have none get one, which `known` receives."""

        def name(match: re.Match[str]) -> str:
            printed = match.group()
            if printed[0] == '"':
                return printed
            if printed not in known and fresh:
                known[printed] = self.fresh(printed)
            return known.get(printed, printed)

        return _TOKEN.sub(name, text)


def _blank(text: str) -> str:
    """The line without names of values."""
    return _TOKEN.sub(lambda match: match.group() if match.group()[0] == '"' else match.group()[0], text)


def _names_in(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if token[0] != '"']


def _step(
    step: Step, before: Sequence[Line], after: Sequence[tuple[str, tuple[int, ...]]], names: _Names
) -> list[Line]:
    """The lines after a pass; the step receives what became of those before."""
    blank_before = [_blank(line.text) for line in before]
    blank_after = [_blank(text) for text, _ in after]
    aligned = _aligned(
        list(zip(blank_before, (line.ops for line in before), strict=True)),
        list(zip(blank_after, (ops for _, ops in after), strict=True)),
    )
    likely = _likely(before, blank_before, after, blank_after, aligned)
    known: dict[str, str] = {}
    taken: set[str] = set()
    lines = []
    for j, (text, ops) in enumerate(after):
        i = aligned.get(j, likely.get(j))
        if i is not None:
            own, old = _names_in(text), _names_in(before[i].text)
            if blank_before[i] != blank_after[j]:  # only what the line defines is the same
                own, old = _defined(text), _defined(before[i].text)
            for printed, name in zip(own, old, strict=False):
                if printed not in known and name not in taken:
                    known[printed] = name
                    taken.add(name)
        lines.append(Line(names.renamed(text, known, fresh=True), ops))
    _record(step, before, lines, aligned)
    return lines


def _record(step: Step, before: Sequence[Line], after: Sequence[Line], aligned: Mapping[int, int]) -> None:
    edits, at = step.edits, 0

    def number(count: int) -> None:
        if edits and isinstance(edits[-1], int) and (edits[-1] > 0) == (count > 0):
            edits[-1] += count
        else:
            edits.append(count)

    for j, line in enumerate(after):
        i = aligned.get(j)
        if i is not None:
            if i > at:
                number(at - i)
                step.removed += i - at
            at = i
            if line.text == before[i].text:
                number(1) if line.ops == before[i].ops else edits.append(line.ops)
                at = i + 1
                continue
            number(-1)
            step.removed += 1
            at = i + 1
        edits.append(line)
        step.added += 1
    if at < len(before):
        number(at - len(before))
        step.removed += len(before) - at


def _defined(text: str) -> list[str]:
    found = _DEFINED.match(text)
    return _names_in(found[1]) if found is not None else []


_Key = tuple[str, tuple[int, ...]]


def _aligned(before: Sequence[_Key], after: Sequence[_Key]) -> dict[int, int]:
    """Which line before each line after is, in order: of one text and the same ops, and between those of one text."""
    pairs: dict[int, int] = {}
    for tag, i, i_end, j, j_end in SequenceMatcher(None, before, after).get_opcodes():
        if tag == "equal":
            pairs.update(zip(range(j, j_end), range(i, i_end), strict=True))
        elif tag == "replace":
            inner = SequenceMatcher(None, [text for text, _ in before[i:i_end]], [text for text, _ in after[j:j_end]])
            for match in inner.get_matching_blocks():
                pairs.update(
                    zip(
                        range(j + match.b, j + match.b + match.size),
                        range(i + match.a, i + match.a + match.size),
                        strict=True,
                    )
                )
    return pairs


def _likely(
    before: Sequence[Line],
    blank_before: Sequence[str],
    after: Sequence[tuple[str, tuple[int, ...]]],
    blank_after: Sequence[str],
    aligned: Mapping[int, int],
) -> dict[int, int]:
    """Of the other lines: which line before one is that was moved, or whose op got other operands or attributes."""
    used, pairs = set(aligned.values()), {}
    for same_text in (True, False):

        def keyed(
            indices: Iterable[int], texts: Sequence[str], ops: Any, same: bool = same_text
        ) -> dict[Any, list[int]]:
            found: dict[Any, list[int]] = defaultdict(list)
            for i in indices:
                head = _OP.match(texts[i])
                if ops(i) and head is not None:
                    found[(texts[i] if same else head[1], ops(i))].append(i)
            return found

        free = keyed((i for i in range(len(before)) if i not in used), blank_before, lambda i: before[i].ops)
        left = (j for j in range(len(after)) if j not in aligned and j not in pairs)
        for key, places in keyed(left, blank_after, lambda j: after[j][1]).items():
            for j, i in zip(places, free.get(key, ()), strict=False):
                pairs[j] = i
                used.add(i)
    return pairs
