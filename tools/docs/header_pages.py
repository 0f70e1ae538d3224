# SPDX-License-Identifier: Apache-2.0
"""Reference pages of C and C++ headers: what they declare, with the `///` comments in front of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPENERS = re.compile(r'(?:extern\s+"C"|inline\s+namespace\s+\w+|namespace\s+(?!detail)[\w:]+)\s*\{')
_HIDDEN = re.compile(r"namespace\s+detail\s*\{")
_NAMED = re.compile(r"(?:class|struct|enum(?:\s+class)?|union)\s+(\w+)")
_SECTION = re.compile(r"//\s+(\w[^\n]*?)\s+-{4,}")
_ACCESS = re.compile(r"(public|private|protected):")


@dataclass
class Declaration:
    """One declaration of a header.

    Attributes:
        comment: The text of its `///` lines, without the signs.
        text: The declaration as it stands, indented as in the file.
        section: The last heading comment (`// Modules ----`) above it.
    """

    comment: str
    text: str
    section: str

    @property
    def name(self) -> str:
        """What it declares."""
        head = re.sub(r"^template\s*<[^{;]*?>\s*", "", self.text)
        if head.startswith("typedef") and (tail := re.search(r"\}\s*(\w+)\s*;\s*(?://.*)?$", head)):
            return tail.group(1)
        if (callback := re.match(r"typedef[^;{]*?\(\*(\w+)\)", head)) is not None:
            return callback.group(1)
        if head.startswith("typedef"):
            return re.findall(r"\w+", head.split(";")[0])[-1]
        if (kind := _NAMED.match(head)) and "(" not in head.split("{")[0]:
            return kind.group(1)
        called = re.search(r"((?:operator\s*\S+?)|~?\w+)\s*\(", head)
        return called.group(1) if called else re.findall(r"\w+", head.split("=")[0].split(";")[0])[-1]


def _end_of(text: str, at: int, opener: str, closer: str) -> int:
    """Where the bracket that opens at `at` is closed, comments and literals left aside."""
    depth = 0
    while at < len(text):
        if text.startswith("//", at):
            at = text.find("\n", at)
        elif (quoted := re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'').match(text, at)) is not None:
            at = quoted.end() - 1
        elif text[at] == opener:
            depth += 1
        elif text[at] == closer:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise ValueError("a bracket is not closed")


def _end_of_declaration(text: str, at: int) -> int:
    """Behind the `;` or the body that ends the declaration at `at`, with a trailing `///<` comment."""
    start = at
    while at < len(text):
        sign = text[at]
        if text.startswith("//", at):
            at = text.find("\n", at)
        elif sign == "(":
            at = _end_of(text, at, "(", ")")
        elif sign == "{":
            head = text[start:at]
            at = _end_of(text, at, "{", "}")
            is_type = _NAMED.search(re.sub(r"template\s*<[^{;]*?>", "", head)) and ")" not in head
            is_function = not is_type and not head.startswith("typedef") and "=" not in head.rsplit(")", 1)[-1]
            if is_function and ")" in head and not re.match(r"\s*[,{]", text[at + 1 :]):
                at += 1
                break
        elif sign == ";":
            at += 1
            break
        at += 1
    trailing = re.compile(r"[ \t]*//[^\n]*").match(text, at)
    return trailing.end() if trailing else at


def declarations(text: str) -> Iterator[Declaration]:
    """Goes over what stands at the top of a header, or in the body of a class."""
    at, section, comment, is_public = 0, "", [], True
    while at < len(text):
        if text[at].isspace():
            gap = re.compile(r"\s+").match(text, at)
            assert gap is not None
            if gap.group().count("\n") > 1:
                comment = []
            at = gap.end()
        elif text[at] == "#":
            at = re.compile(r"(?:[^\n]*\\\n)*[^\n]*").match(text, at).end()  # type: ignore[union-attr]
        elif text.startswith("//", at):
            line = text[at : text.find("\n", at)]
            if line.startswith("///"):
                comment.append(line[3:].removeprefix(" "))
            elif (heading := _SECTION.match(line)) is not None:
                section = heading.group(1)
            at += len(line)
        elif (access := _ACCESS.match(text, at)) is not None:
            is_public, at = access.group(1) == "public", access.end()
        elif (opener := _OPENERS.match(text, at)) is not None:
            at, comment = opener.end(), []
        elif (hidden := _HIDDEN.match(text, at)) is not None:
            at, comment = _end_of(text, hidden.end() - 1, "{", "}") + 1, []
        elif text[at] in "};":
            at += 1
        else:
            end = _end_of_declaration(text, at)
            declared = text[at:end]
            if is_public and not declared.startswith(("friend", "using namespace")):
                yield Declaration("\n".join(comment), declared, section)
            at, comment = end, []


def _without_body(text: str) -> str:
    """A function's declaration without initialisers and body."""
    head = text.split("{")[0]
    if _NAMED.match(head) and ")" not in head:
        return text
    parenthesis = text.find("(", text.find("operator()") + len("operator()") if "operator()" in text else 0)
    brace = text.find("{")
    if parenthesis < 0 or (0 <= brace < parenthesis):
        return text
    close = _end_of(text, parenthesis, "(", ")")
    rest = text[close + 1 :]
    if (body := re.search(r"\s*(?:(?<!:):(?!:)[^;]*?)?\{", rest)) is not None:
        rest = rest[: body.start()] + ";"
    return text[: close + 1] + rest


def _class_synopsis(declared: Declaration) -> str:
    """The public part of a class, bodies left out."""
    brace = declared.text.index("{")
    close = _end_of(declared.text, brace, "{", "}")
    head, body = declared.text[:brace].rstrip(), declared.text[brace + 1 : close]
    if re.match(r"class\b", re.sub(r"^template\s*<[^{;]*?>\s*", "", head)):
        body = re.sub(r"^(?:(?!public:).)*?public:", "", body, count=1, flags=re.DOTALL) if "public:" in body else ""
    lines = [head + " {", " public:"] if head.startswith("class") else [head + " {"]
    for member in declarations(body):
        text = _without_body(member.text)
        lines += [f"  /// {line}".rstrip() for line in member.comment.splitlines()]
        lines += ["  " + line for line in _dedented(text, 2).splitlines()]
    return "\n".join([*lines, "};"])


def _dedented(text: str, columns: int) -> str:
    """Continuation lines moved to the left."""
    first, *others = text.split("\n")
    return "\n".join([first, *(o.removeprefix(" " * columns) for o in others)])


def header_page(title: str, intro: str, language: str, headers: list[tuple[str, Path]]) -> str:
    """Writes the page of some headers.

    Args:
        title: The page's heading.
        intro: What stands below it.
        language: `c` or `cpp`, for the colours.
        headers: How each is included, and its file.

    Returns:
        Markdown.
    """
    parts = [f"# {title}\n\n{intro}\n"]
    for include, path in headers:
        text = path.read_text(encoding="utf-8")
        about = re.match(r"// SPDX[^\n]*\n((?://[^\n]*\n)*)", text)
        summary = re.sub(r"^// ?", "", about.group(1), flags=re.MULTILINE) if about else ""
        parts.append(f'## `"{include}"`\n\n{summary}')
        for declared in declarations(text):
            if declared.text.startswith(("static_assert", "constexpr char")):
                continue
            is_class = re.match(r"(?:template\s*<[^{;]*?>\s*)?(?:class|struct)\s+\w+[^;(]*\{", declared.text)
            code = _class_synopsis(declared) if is_class and language == "cpp" else _without_body(declared.text)
            if re.fullmatch(r"(?:class|struct) \w+;", code):
                continue  # said in full elsewhere
            comment = declared.comment + "\n\n" if declared.comment else ""
            parts.append(f"### `{declared.name}`\n\n{comment}```{language}\n{code}\n```\n")
    return "\n".join(parts)
