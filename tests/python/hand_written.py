# SPDX-License-Identifier: Apache-2.0
"""Programs written by hand, as C++ text with the tables that an emitted unit would have, compiled with g++."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

DTYPES = {
    "float32": "{2, 32, 1}",
    "float64": "{2, 64, 1}",
    "int64": "{0, 64, 1}",
    "int32": "{0, 32, 1}",
    "bool": "{6, 8, 1}",
    "bfloat16": "{4, 16, 1}",
}
Extent = int | str  # a number, the name of an extent, or "a*b"


def contiguous(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Row-major strides; symbolic sizes may stand in front only."""
    strides: list[Extent] = []
    step: int = 1
    for size in reversed(shape):
        strides.insert(0, step)
        if isinstance(size, int):
            step *= size
    return tuple(strides)


@dataclass
class Buffer:
    """One row of the buffer table."""

    role: str
    name: str
    shape: Sequence[Extent] = ()
    dtype: str = "float32"
    strides: Sequence[Extent] | None = None
    base: int = -1
    offset_bytes: int = 0
    index: int = -1


@dataclass
class Program:
    """Text of one unit."""

    buffers: list[Buffer]
    results: list[tuple[int, int]]  # (buffer, root)
    run: str  # C++ statements; io, ctx and team are in scope
    prepare: str = ""
    extents: list[tuple[str, int, int]] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)  # buffers that run updates
    prepared_bytes: int = 0
    handles: int = 0
    threads: int = 1

    def text(self) -> str:
        """The C++ text."""
        steps: list[str] = []
        names = [e[0] for e in self.extents]

        def expression(value: Extent) -> str:
            start = len(steps)
            for part in str(value).split("*"):
                op = "c" if part.lstrip("-").isdigit() else "s"
                steps.append(f"{{'{op}', {part if op == 'c' else names.index(part)}}}")
            for _ in str(value).split("*")[1:]:
                steps.append("{'*', 0}")
            return f"{{steps + {start}, {len(steps) - start}}}"

        counts: dict[str, int] = {}
        tables, rows = [], []
        for i, b in enumerate(self.buffers):
            role = "PARAMETER" if b.role == "STATE" else b.role
            if b.role in ("INPUT", "OUTPUT", "PARAMETER", "STATE"):
                b.index = counts.get(role, 0)
                counts[role] = b.index + 1
            strides = b.strides if b.strides is not None else contiguous(b.shape)
            tables.append(f"static const sl_expr shape{i}[] = {{{', '.join(map(expression, b.shape)) or '{}'}}};")
            tables.append(f"static const sl_expr strides{i}[] = {{{', '.join(map(expression, strides)) or '{}'}}};")
            numbers = [s for s in b.shape if isinstance(s, int)]
            size = 8
            for n in numbers:
                size *= n
            owned = "*".join([str(0 if b.role == "VIEW" else size), *[s for s in b.shape if isinstance(s, str)]])
            rows.append(
                f'  {{sizeof(sl_buffer), "{b.name}", "{b.name}", SL_ROLE_{b.role}, 0, {b.index}, {b.base}, '
                f"{DTYPES[b.dtype]}, {len(b.shape)}, shape{i}, strides{i}, {expression(b.offset_bytes)}, "
                f"{expression(owned)}}},"
            )
        zero = expression(0)
        prepared = expression(self.prepared_bytes)
        writes = ", ".join(map(str, self.writes)) or "-1"
        statement = (
            f'{{sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "kernel", "op", "model.py:1", written, 0, '
            f"{len(self.writes)}, nullptr, 0}}"
        )
        extents = (
            ", ".join(f'{{sizeof(sl_extent), "{n}", {low}, {high}, {{nullptr, 0}}}}' for n, low, high in self.extents)
            or "{}"
        )
        results = ", ".join(f"{{sizeof(sl_result), {b}, {r}}}" for b, r in self.results) or "{}"
        newline = "\n"
        return f"""// SPDX-License-Identifier: Apache-2.0
#include "straightline/abi/entry.h"
static const sl_expr_step steps[] = {{{", ".join(steps)}}};
{newline.join(tables)}
static const sl_buffer buffers[] = {{
{newline.join(rows)}
}};
static const int32_t written[] = {{{writes}}};
static const sl_statement statements[] = {{{statement}}};
static const sl_extent extents[] = {{{extents}}};
static const sl_result results[] = {{{results}}};
static const char* const spaces[] = {{"host"}};
static const char* const queues[] = {{"cpu"}};
static const sl_expr none[] = {{{zero}}};
static const sl_expr prepared[] = {{{prepared}}};
static void (*const destroy[])(void*) = {{nullptr}};
static int32_t run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {{
  (void)ctx; (void)team; (void)io;
  {self.run}
  return ctx->status;
}}
[[maybe_unused]] static int32_t prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {{
  (void)ctx; (void)team; (void)io;
  {self.prepare}
  return ctx->status;
}}
extern "C" {{ extern const sl_program_desc sl_program; }}
const sl_program_desc sl_program = {{
  sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "cpu", {"prepare" if self.prepare else "nullptr"}, run,
  buffers, {len(self.buffers)}, statements, 1, extents, {len(self.extents)}, results, {len(self.results)},
  spaces, 1, queues, 1, none, none, prepared, destroy,
  {counts.get("PARAMETER", 0)}, 0, {counts.get("INPUT", 0)}, {counts.get("OUTPUT", 0)}, {self.threads}}};
"""

    def compile(self, folder: Path) -> Path:
        """Compiles the text once per content; gives the library's path."""
        text = self.text()
        stem = "program_" + hashlib.sha256(text.encode()).hexdigest()[:16]
        library = folder / f"{stem}.so"
        if not library.exists():
            root = folder / "include" / "straightline"
            root.mkdir(parents=True, exist_ok=True)
            if not (root / "abi").exists():
                (root / "abi").symlink_to(REPOSITORY / "runtime" / "abi")
            source = folder / f"{stem}.cpp"
            source.write_text(text)
            command = [
                "g++",
                "-std=c++20",
                "-O1",
                "-Wall",
                "-shared",
                "-fPIC",
                f"-I{root.parent}",
                str(source),
            ]
            subprocess.run([*command, "-o", str(library)], check=True)
        return library


def elementwise(expression: str, count: str, inputs: int = 2) -> str:
    """A loop `o[i] = expression` over float buffers a, b, ..."""
    names = "abcdef"[:inputs]
    pointers = " ".join(f"const float* {n} = static_cast<const float*>(io->inputs[{i}]);" for i, n in enumerate(names))
    return (
        f"{pointers} float* o = static_cast<float*>(io->outputs[0]); "
        f"for (int64_t i = 0; i < {count}; ++i) o[i] = {expression};"
    )
