# SPDX-License-Identifier: Apache-2.0
"""`fn.explorer("out.html")`: one page that shows a program at every level, and what of each level became what of the next.

The links are the compiler's: ops get numbers before the passes, which travel in their locations (tools/links.h), and emitted text
is compiled with the hooks of the profiler, which say where a statement begins and ends. No text is compared; what a pass
changed is a difference of texts, whose lines have the same numbers.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from straightline import _call, _page_machine, _pass_steps
from straightline.errors import UserError
from straightline.explanation import arena_text, estimate_text

if TYPE_CHECKING:
    from straightline.profile import Profile

#: Bytes that the packed facts of programs behind the first may take; the rest are shown by `program=`.
_MOST_PROGRAM_BYTES = 1 << 20
_ARENA = 6  # sl_role
_HOOK = re.compile(r"^\s*sl::profile\(ctx, team, (\d+), ([01])\);$")
_SUBJECT = re.compile(r'^(?:extern "C"|static) [\w\s*]*?\b(\w+)\(')
#: What a line is that is of no op, no statement and no buffer.
_PARTS = {
    "x0": "the model's function: its arguments and results, and what is around them",
    "x1": "the program: the phases and the queues that its statements stand in",
    "x2": "the headers of the templates that kernels are made of, and what all of the program shares",
    "x3": "prepare: it runs once for each set of weights, and writes what the runs read",
    "x4": "run: what a call runs, with the caller's threads",
    "x5": "constant data, and the tables that describe the program to the runtime",
}


def page(
    function: Any,
    other: Any = None,
    *,
    passes: bool = False,
    profile: Profile | Sequence[Profile] | None = None,
    program: int | None = None,
    machine_code: bool | None = None,
) -> str:
    """The page of a function; the arguments are those of `CompiledFunction.explorer`.

    Raises:
        UserError: Jinja2 or Pygments is not installed, there is no such program, or a profile is not of what the page shows.
        UnsupportedError: There is no compiler.
    """
    try:
        import jinja2
        import markupsafe
        from pygments.formatters import HtmlFormatter
    except ImportError as error:
        raise UserError(
            f"the explorer needs Jinja2 and Pygments ({error}): pip install 'straightline[explorer]'"
        ) from error
    shown, scripts = _programs(function, passes, profile, program, machine_code)
    light, dark = HtmlFormatter(style="default"), HtmlFormatter(style="github-dark")
    style = (
        light.get_style_defs(".row") + "\n@media (prefers-color-scheme: dark) {\n" + dark.get_style_defs(".row") + "\n}"
    )
    style = "\n".join(line for line in style.splitlines() if "background" not in line or ".row ." in line)
    shown["hasDiff"] = other is not None
    template = jinja2.Template(
        (Path(__file__).parent / "templates" / "explorer.html").read_text(encoding="utf-8"), autoescape=True
    )
    text = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    return template.render(
        title=f"straightline: {function._binding.name}",
        style=markupsafe.Markup(style),
        data=markupsafe.Markup(text),
        scripts=scripts,
        several=len(shown["programs"]) > 1,
        has_passes=int(passes),
        has_diff=int(other is not None),
        diff=markupsafe.Markup(_diff(function, other, program) if other is not None else ""),
    )


def write(function: Any, path: str | os.PathLike[str], other: Any = None, **options: Any) -> None:
    """Writes the page.

    Raises:
        UserError: The file cannot be written, or as `page`.
    """
    text = page(function, other, **options)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {os.fspath(path)!r}: {error.strerror}") from error


def _programs(
    function: Any,
    passes: bool,
    profile: Profile | Sequence[Profile] | None,
    program: int | None,
    machine_code: bool | None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Facts of the program that the page shows first, and scripts by id: the other programs, and machine code."""
    programs = function._all
    if program is not None and (isinstance(program, bool) or program not in range(1, len(programs) + 1)):
        raise UserError(f"program is {program!r} but the function has programs 1 to {len(programs)} (`fn.examples`)")
    profiles = _profiles(profile, programs, program)
    room = _page_machine.Room(0 if machine_code is False else None if machine_code else _page_machine.MOST_BYTES)
    scripts: dict[str, str] = {}
    first: dict[str, Any] = {}
    size, there = 0, []
    for number, one in enumerate(programs, 1):
        if program not in (None, number) or size > _MOST_PROGRAM_BYTES:
            continue
        facts, code = _facts(one, passes, profiles.get(number), room)
        facts["program"] = number
        if code:
            scripts[f"machine-{number}"] = code
        if not first:
            first = facts
        else:
            scripts[f"program-{number}"] = text = _page_machine.packed(
                json.dumps(facts, separators=(",", ":")).encode()
            )
            size += len(text)
        there.append(number)
    first["programs"] = [
        {"words": one._binding.example, "here": number in there} for number, one in enumerate(programs, 1)
    ]
    return first, scripts


def _profiles(
    profile: Profile | Sequence[Profile] | None, programs: Sequence[Any], program: int | None
) -> dict[int, Profile]:
    """Profiles by the number of their program."""
    from straightline.profile import Profile

    found: dict[int, Profile] = {}
    given = [profile] if isinstance(profile, Profile) else list(profile or ())
    for one in given:
        if not isinstance(one, Profile):
            raise UserError(
                f"profile is {type(one).__name__} but must be what fn.profile(...) returns, or several of these"
            )
        if one.program > len(programs) or program not in (None, one.program):
            shown = f"program {program}" if program is not None else f"programs 1 to {len(programs)}"
            raise UserError(f"the profile is of program {one.program} of {one.name!r} but the page shows {shown}")
        if one.program in found:
            raise UserError(f"two profiles are of program {one.program}")
        found[one.program] = one
    return found


def _diff(function: Any, other: Any, program: int | None) -> str:
    """Kernel levels of both, or of this program of both, beside each other."""
    import difflib

    texts = [f.ir("kernel") if program is None else _of(f, program).ir("kernel") for f in (function, other)]
    shorten = [[line[:160] for line in text.splitlines()] for text in texts]
    return difflib.HtmlDiff(wrapcolumn=90).make_table(*shorten, "this", "other", context=True, numlines=3)


def _of(function: Any, program: int) -> Any:
    """A program of a function by its number, without the others."""
    if program not in range(1, len(function._all) + 1):
        raise UserError(f"program is {program} but the other function has programs 1 to {len(function._all)}")
    return function._all[program - 1]._compilation


def _facts(one: Any, passes: bool, profile: Profile | None, room: _page_machine.Room) -> tuple[dict[str, Any], str]:
    """What the page knows of a program, and its machine code, packed."""
    binding = one._binding
    compilation = binding.compiled_with(profile=True, links=True, passes=passes)
    links = json.loads(compilation.links_json)
    explained = json.loads(compilation.explain_json)
    buffers, statements = _call.describe(compilation.program, {})
    source, source_keys = _source(links["ops"])
    lines_of = _uses(buffers, statements)
    declared = {row["name"]: [f"b{row['number']}"] for row in links["buffers"] if row["name"]}
    ops_of = {row["number"]: row["ops"] for row in links["statements"]}
    machine, code = room.machine_of(one, statements)
    known = {row["id"] for row in links["ops"] if row["name"].startswith("op.")}
    reached = {op for row in links["lines"] for op in row["ops"]}
    kernels = {row["name"]: row for row in links["kernels"]}
    relation: dict[str, list[str]] = {f"b{number}": [f"s{i}" for i in used] for number, used in lines_of.items()}
    for number, ops in ops_of.items():
        for op in ops:
            if op in known:
                relation.setdefault(f"s{number}", []).append(f"o{op}")
                relation.setdefault(f"o{op}", []).append(f"s{number}")
    op_lines = _lines(
        links["op_text"], "mlir", {row["line"]: [f"o{row['id']}"] for row in links["ops"] if row["id"] in known}
    )
    for row in links["ops"]:
        if row["id"] in known and row["id"] not in reached and 0 < row["line"] <= len(op_lines):
            op_lines[row["line"] - 1]["gone"] = 1
    _explained(op_lines, "x0")
    kernel_keys: dict[int, list[str]] = {}
    for row in links["statements"]:
        kernel_keys.setdefault(row["line"], []).append(f"s{row['number']}")
    callers: dict[str, list[str]] = {}
    for i, statement in enumerate(statements):
        callers.setdefault(statement["entry"], []).append(f"s{i}")
    for name, row in kernels.items():
        for part in row["parts"]:  # one launch of several kernels
            callers.setdefault(part, []).extend(callers.get(name, []))
    for row in links["lines"]:
        if row["line"] not in kernel_keys:
            kernel_keys[row["line"]] = [f"o{op}" for op in row["ops"] if op in known]
    kernel_keys = {line: keys for line, keys in kernel_keys.items() if keys}
    for row in links["buffers"]:
        kernel_keys.setdefault(row["line"], [f"b{row['number']}"])
    count = links["kernel_text"].rstrip("\n").count("\n") + 1
    for name, row in kernels.items():
        kernel_keys.setdefault(row["line"], []).extend(callers.get(name, []))
        for line in range(row["line"] + 1, row["end"] or count):
            kernel_keys.setdefault(line, callers.get(name, []))
    kernel_lines = _lines(links["kernel_text"], "mlir", kernel_keys)
    _explained(kernel_lines, "x1")
    number_of = {name: i for i, name in enumerate([*machine["names"], *machine["left"]])}
    for name, row in kernels.items():
        if name in number_of:
            kernel_lines[row["line"] - 1]["asm"] = number_of[name]
    times = _times(profile, statements)
    facts = {
        "source": source,
        "op": op_lines,
        "kernel": kernel_lines,
        "code": _code_lines(*_code(compilation.code), callers, declared, number_of),
        "links": relation,
        "about": {
            **_about(links["ops"], ops_of, statements, explained["statements"], known, reached, source_keys, times),
            **{f"b{number}": _about_buffer(buffers[number], len(used)) for number, used in lines_of.items()},
            **_PARTS,
        },
        "memory": _memory(buffers, statements),
        "time": _time(statements, explained["statements"]) if profile is None else _timed(profile, times),
        "machine": machine,
        "passes": _passes(compilation.passes_json, known) if passes else None,
        "facts": (
            f"{explained['target']}, {explained['threads']} thread(s){estimate_text(explained)}, {arena_text(explained)}"
            + (f"; {profile.call_us:,.4g} us a call, median of {profile.runs}" if profile is not None else "")
        ),
    }
    return facts, code


def _uses(buffers: Sequence[Mapping[str, Any]], statements: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
    """The statements that read or write each buffer, itself or by a view of it."""
    found: dict[int, list[int]] = {number: [] for number in range(len(buffers))}
    for i, statement in enumerate(statements):
        reached = set()
        for number in statement["operands"]:
            while number >= 0:
                reached.add(number)
                number = buffers[number]["base"]
        for number in sorted(reached):
            found[number].append(i)
    return found


def _about_buffer(buffer: Mapping[str, Any], count: int) -> str:
    """Words for a buffer."""
    place = f" at {buffer['offset']:,} of its arena" if buffer["role"] == _ARENA else ""
    words = f"buffer {buffer['name']} {list(buffer['shape'])}".replace("buffer  ", "buffer ")
    return f"{words}: {buffer['bytes']:,} bytes{place}, which {count} statement{'s use' if count != 1 else ' uses'}"


def _explained(lines: Sequence[dict[str, Any]], part: str) -> None:
    """Gives lines without a link the words of the part that they are of."""
    for line in lines:
        if line["html"].strip():
            line.setdefault("keys", [part])


def _source(ops: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The places in the model that ops came from, in order, each once."""
    places: dict[str, list[str]] = {}
    for row in ops:
        if row["name"].startswith("op.") and row["source"]:
            places.setdefault(row["source"], []).append(f"o{row['id']}")
    return [{"html": html.escape(place), "keys": keys} for place, keys in places.items()], {
        int(key[1:]): place for place, keys in places.items() for key in keys
    }


def _passes(recorded: str, known: set[int]) -> dict[str, Any]:
    """Each pass as edits of lines, whose texts and keys are numbered: most lines stay as they are from pass to pass."""
    first, steps = _pass_steps.steps_of(json.loads(recorded))
    texts: dict[str, int] = {}
    keys: dict[tuple[int, ...], int] = {(): 0}

    def key(ops: Sequence[int]) -> int:
        return keys.setdefault(tuple(op for op in ops if op in known), len(keys))

    def row(line: _pass_steps.Line) -> list[int]:
        return [texts.setdefault(line.text, len(texts)), key(line.ops)]

    def edit(one: Any) -> Any:
        if isinstance(one, int):
            return one
        return row(one) if isinstance(one, _pass_steps.Line) else [key(one)]

    rows = [row(line) for line in first]
    made = [
        {
            "name": step.name, "summary": step.summary, "added": step.added, "removed": step.removed,
            "edits": [edit(one) for one in step.edits],
        }
        for step in steps
    ]  # fmt: skip
    return {"texts": list(texts), "keys": [[f"o{op}" for op in ops] for ops in keys], "first": rows, "steps": made}


def _lines(text: str, language: str, keys: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    lines = _highlighted(text, language)
    return [{"html": line, **({"keys": list(keys[i])} if i in keys else {})} for i, line in enumerate(lines, 1)]


def _highlighted(text: str, language: str) -> list[str]:
    """HTML of each line."""
    if language != "cpp":  # Pygments knows no MLIR
        return [_mlir(line) for line in text.rstrip("\n").split("\n")]
    from pygments import lex
    from pygments.lexers import CppLexer
    from pygments.token import STANDARD_TYPES

    lines = [""]
    for kind, part in lex(text, CppLexer(stripnl=False)):
        name = STANDARD_TYPES.get(kind, "")
        plain = not name or name[0] in "wpon" and name not in ("nf", "nc")  # blanks, punctuation, operators, names
        for i, piece in enumerate(part.split("\n")):
            if i > 0:
                lines.append("")
            if piece:
                shown = html.escape(piece, quote=False)
                lines[-1] += shown if plain else f'<span class="{name}">{shown}</span>'
    while lines and not lines[-1]:
        lines.pop()
    return lines


#: Attributes that the words below the panes have.
_TOLD = re.compile(r', why = "[^"]*"|kernel\.choice = "[^"]*", ')
_MLIR = re.compile(r"(%[\w#]+)|(\b(?:op|kernel|func|arith)\.\w+)|(\"[^\"]*\")|(@\w+)")


def _mlir(line: str) -> str:
    """An MLIR line with values, ops, texts and symbols in the classes that Pygments would give them."""
    line = _TOLD.sub("", line)
    found, at = [], 0
    for match in _MLIR.finditer(line):
        found.append(html.escape(line[at : match.start()], quote=False))
        kind = ("nv", "k", "s", "nf")[next(i for i in range(4) if match.group(i + 1))]
        found.append(f'<span class="{kind}">{html.escape(match.group(), quote=False)}</span>')
        at = match.end()
    return "".join(found) + html.escape(line[at:], quote=False)


def _code(text: str) -> tuple[list[str], list[set[int]]]:
    """The text without hooks, and of each line the statements that it belongs to; a comment before one belongs to it."""
    lines: list[str] = []
    spans: list[set[int]] = []
    open_: list[int] = []
    text, mark, tables = text.partition("// Tables: ")
    if mark:
        count = tables.count("\n")
        text += f"{mark}{tables.partition(chr(10))[0]} ({count:,} lines of constant data, which fn.code has)"
    for line in text.rstrip("\n").split("\n"):
        hook = _HOOK.match(line)
        if hook is None:
            lines.append(line)
            spans.append(set(open_[-1:]))
        elif hook[2] == "1":
            open_.append(int(hook[1]))
        elif int(hook[1]) in open_:
            open_.remove(int(hook[1]))
            continue
        if hook is not None:
            before = len(lines) - 1
            while before >= 0 and lines[before].lstrip().startswith("//") and not spans[before]:
                spans[before] = {int(hook[1])}
                before -= 1
    return lines, spans


#: What is declared in a line: `float* const t_1 =`, `constexpr int64_t t_1_at =`.
_DECLARED = re.compile(r"^\s+(?:const |constexpr )?[\w:]+\*?(?: const)? (\w+?)(?:_at)? = ")


def _code_lines(
    lines: Sequence[str],
    spans: Sequence[set[int]],
    callers: Mapping[str, Sequence[str]],
    declared: Mapping[str, Sequence[str]],
    number_of: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Lines with the statements, the kernel's callers or the buffer that they are of; the others with their part."""
    made: list[dict[str, Any]] = []
    subject: Sequence[str] = ()
    part = "x2"
    for line, marked, span in zip(lines, _highlighted("\n".join(lines), "cpp"), spans, strict=True):
        begins = _SUBJECT.match(line)
        if begins is not None:  # a kernel is one symbol of the program, which its statements call
            subject = callers.get(begins[1].removeprefix("thunk_"), ())
            part = {"sl_program_prepare": "x3", "sl_program_run": "x4"}.get(begins[1], "x2")
        if line.startswith("// Tables: "):
            part = "x5"
        declares = _DECLARED.match(line)
        keys = [f"s{number}" for number in sorted(span)] or list(subject)
        if not keys and declares is not None:
            keys = list(declared.get(declares[1], ()))
        if not keys and line.strip():
            keys = [part]
        if line == "}":
            subject, part = (), "x2"
        made.append({"html": marked, **({"keys": keys} if keys else {})})
        if begins is not None and begins[1] in number_of:
            made[-1]["asm"] = number_of[begins[1]]
    return made


def _about(
    ops: Sequence[Mapping[str, Any]],
    ops_of: Mapping[int, Sequence[int]],
    statements: Sequence[Mapping[str, Any]],
    explained: Sequence[Mapping[str, Any]],
    known: set[int],
    reached: set[int],
    places: Mapping[int, str],
    times: Mapping[int, str],
) -> dict[str, str]:
    """Words for each op and statement."""
    about: dict[str, str] = {}
    for row in ops:
        if row["id"] not in known:
            continue
        words = f"{row['name']}" + (f" at {places[row['id']]}" if row["id"] in places else "")
        if row["id"] not in reached:
            words += f": folded or unused, gone after the pass {row['lost'] or 'that emits it'}"
        about[f"o{row['id']}"] = words
    rest = list(explained)
    for i, statement in enumerate(statements):
        words = f"statement {i}: {statement['op'] or 'control'}"
        if (
            rest
            and statement["entry"]
            and str(rest[0].get("kernel", "")).split(".")[-1] == statement["entry"].split(".")[-1]
        ):
            row = rest.pop(0)
            words += f" -> {row['backend']} {row['kernel']}, {row['bytes']:,} bytes" + (
                f"\nwhy: {row['why']}" if row["why"] else ""
            )
        if i in times:
            words += f"\ntime: {times[i]}"
        if statement["source"]:
            words += f"\nfrom {statement['source']}"
        about[f"s{i}"] = words
    return about


def _memory(buffers: Sequence[Mapping[str, Any]], statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What of the arena is used by what, from its first statement to its last."""
    uses: dict[int, list[int]] = {}
    for i, statement in enumerate(statements):
        for number in statement["operands"]:
            while buffers[number]["base"] >= 0:
                number = buffers[number]["base"]
            if buffers[number]["role"] == _ARENA and statement["phase"] == 1:
                uses.setdefault(number, []).append(i)
    total = max((buffers[n]["offset"] + buffers[n]["bytes"] for n in uses), default=0)
    first = min((i for places in uses.values() for i in places), default=0)
    count = max(1, max((i for places in uses.values() for i in places), default=0) + 1 - first)
    items = []
    for number, places in uses.items():
        buffer, begin, end = buffers[number], min(places) - first, max(places) - first + 1
        items.append(
            {
                "x": begin / count, "w": (end - begin) / count,
                "y": buffer["offset"] / max(total, 1), "h": buffer["bytes"] / max(total, 1),
                "keys": [f"s{i}" for i in sorted(set(places))],
                "title": f"{buffer['name']} {list(buffer['shape'])}: {buffer['bytes']:,} bytes at {buffer['offset']:,}",
            }
        )  # fmt: skip
    return {"items": items, "label": f"statements to the right, offsets in an arena of {total:,} bytes downwards"}


def _time(statements: Sequence[Mapping[str, Any]], explained: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What each statement of a run moves, by the bytes of its operands: a bar each, one below the other."""
    rows, rest = [], list(explained)
    for i, statement in enumerate(statements):
        if (
            rest
            and statement["entry"]
            and str(rest[0].get("kernel", "")).split(".")[-1] == statement["entry"].split(".")[-1]
        ):
            row = rest.pop(0)
            if statement["phase"] == 1:
                rows.append((i, statement, int(row["bytes"] or 0)))
    total = sum(count for _, _, count in rows) or 1
    items, at = [], 0.0
    for place, (i, statement, count) in enumerate(rows):
        items.append(
            {
                "x": at, "w": count / total, "y": place / max(1, len(rows)), "h": 1 / max(1, len(rows)), "keys": [f"s{i}"],
                "title": f"{statement['op']} {statement['entry']}: {count:,} bytes",
            }
        )  # fmt: skip
        at += count / total
    return {
        "items": items,
        "rows": len(rows),
        "label": f"statements of a run in order; a bar is as wide as the bytes it moves ({total:,} in all); "
        "times: fn.explorer(path, profile=fn.profile(...))",
    }


def _times(profile: Profile | None, statements: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """What each statement took, in words.

    Raises:
        UserError: The profile is of another program.
    """
    words: dict[int, str] = {}
    for row in profile.rows if profile is not None else ():
        here = statements[row.statement]["entry"] if row.statement < len(statements) else "not there"
        if profile is None or here != row.kernel:
            raise UserError(
                f"the profile is not of this program: its statement {row.statement} is {row.kernel or row.op or 'no kernel'!r}, "
                f"and the page's is {here or 'no kernel'!r}"
            )
        share = f" ({100 * row.median_us / profile.call_us:.1f} % of a call)" if profile.call_us else ""
        words[row.statement] = f"median {row.median_us:.2f} us{share}, least {row.least_us:.2f} us" + (
            f", {row.gb_per_second:.1f} GB/s" + (f", {row.gflop_per_second:.1f} GFLOP/s" if row.flops else "")
        )
    return words


def _timed(profile: Profile, times: Mapping[int, str]) -> dict[str, Any]:
    """The medians of a profile, a bar each, and at the end what a call takes beside its statements."""
    rows = [
        (row.median_us, f"s{row.statement}", row.kernel or row.op or "statement", times[row.statement])
        for row in profile.rows
    ]
    beside = "arguments, guard, results" if profile.overhead_us >= 0 else "its kernels overlap"
    rows.append((profile.overhead_us, "", "call", f"{profile.overhead_us:.2f} us beside its statements: {beside}"))
    total = sum(max(0.0, us) for us, *_ in rows) or 1.0
    items, at = [], 0.0
    for place, (us, key, name, words) in enumerate(rows):
        items.append(
            {
                "x": at, "w": max(0.0, us) / total, "y": place / len(rows), "h": 1 / len(rows),
                "keys": [key] if key else [], "title": f"{name}: {words}", "text": f"{us:.2f} us  {name}",
            }
        )  # fmt: skip
        at += max(0.0, us) / total
    return {
        "items": items,
        "rows": len(rows),
        "label": f"statements of a call in order; a bar is as wide as its median of {profile.runs} runs ({total:,.4g} us in all)",
    }
