# SPDX-License-Identifier: Apache-2.0
"""`straightline compile`: a model in, an artifact or a library out, and what became of it."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from straightline.cli import OK, model_files
from straightline.errors import UserError
from straightline.options import CompileOptions

HELP = "compile a model, show what became of it, and write it as a file or a library"
_EMITS = ("sl", "shared-lib", "static-lib", "c-source")


def _rule(text: str) -> dict[str, str] | str:
    """A rule "[WHERE:]OP=TARGET[,TARGET...]"; a text without `=` is the path of a file of rules."""
    left, is_rule, targets = text.partition("=")
    return {left: targets} if is_rule else text


def _slot(text: str) -> tuple[str, tuple[str, ...]]:
    """A slot "OP=TARGET,TARGET[,TARGET...]"."""
    op, _, targets = text.partition("=")
    return op, tuple(filter(None, targets.split(",")))


def add_options(command: argparse.ArgumentParser) -> None:
    """A flag for each of `CompileOptions`, which validates what is given; `--emit` has one of its own."""
    for option in fields(CompileOptions):
        about: dict[str, Any] = {"default": option.default, "help": option.metadata["help"]}
        flag = "--" + option.name.replace("_", "-")
        if option.name == "emit":
            flag, about["dest"] = "--emit-text", "emit_text"
        if "bool" in str(option.type):
            about["action"] = argparse.BooleanOptionalAction
        elif option.name == "threads":
            about["type"] = int
        elif option.name == "allow":
            about.update(nargs="+", metavar="BACKEND")
        elif option.name == "routes":
            about.update(nargs="+", type=_rule, metavar="RULE_OR_FILE")
        elif option.name == "slots":
            about.update(nargs="+", type=_slot, metavar="OP=TARGET,TARGET")
        command.add_argument(flag, **about)


def options_of(parsed: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, by name."""
    given = {}
    for option in fields(CompileOptions):
        value = getattr(parsed, "emit_text" if option.name == "emit" else option.name)
        if value != option.default:
            given[option.name] = dict(value) if option.name == "slots" else value
    return given


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    model_files.add_model(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the model there")
    parser.add_argument(
        "--emit", metavar="WHAT", default=None, help=f"what to write: {', '.join(_EMITS)} (default: sl)"
    )
    parser.add_argument("--name", help="of the symbol sl_model_NAME of a library (default: the output's stem)")
    parser.add_argument(
        "--cpus", nargs="+", metavar="CPU", help="there is code for each (default: x86-64-v3 x86-64-v4)"
    )
    parser.add_argument(
        "--devices",
        nargs="+",
        default=[],
        metavar="SM",
        help="of a program for CUDA: there is code for each (sm_80 sm_90)",
    )
    parser.add_argument("--prepared", action="store_true", help="write the prepared weights too")
    parser.add_argument(
        "--libraries", nargs="+", default=[], metavar="BACKEND", help="that the file may need (aten, onednn)"
    )
    parser.add_argument(
        "--show",
        choices=("explain", "code", "op", "kernel", "none"),
        help="what to print (default: explain without -o)",
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    add_options(parser)


def run(parsed: argparse.Namespace) -> int:
    """Compiles; returns the exit status."""
    options = options_of(parsed)
    emit = parsed.emit or "sl"
    if emit in ("cpp", "python", "c++"):  # as before there was --emit for what is written
        options["emit"], emit = emit, "sl"
    if emit not in _EMITS:
        raise UserError(f"--emit is {emit!r} but must be one of {', '.join(_EMITS)}")
    if parsed.emit and parsed.output is None and parsed.emit in _EMITS:
        raise UserError(f"--emit {emit} needs a place: -o FILE")
    begin = time.perf_counter()
    function = model_files.open_model(parsed, options)
    seconds = time.perf_counter() - begin
    written = None
    if parsed.output is not None:
        written = str(parsed.output)
        more: dict[str, Any] = {
            "prepared": parsed.prepared,
            "libraries": parsed.libraries,
            "devices": tuple(parsed.devices),
        }
        if parsed.cpus:
            more["cpus"] = tuple(parsed.cpus)
        if emit == "sl":
            function.save(parsed.output, **more)
        else:
            from straightline import library_writer

            library_writer.write(function, parsed.output, emit, parsed.name, **more)
    show = parsed.show or ("none" if parsed.output is not None or parsed.json else "explain")
    if parsed.json:
        facts = {"seconds": seconds, "output": written, "programs": [dict(one) for one in function.explain().programs]}
        print(json.dumps(facts, default=str))
    elif show == "explain":
        print(function.explain())
    elif show != "none":
        print(function.code if show == "code" else function.ir(show))
    elif written is not None:
        print(f"{written}: {_bytes(Path(written))}")
    return OK


def _bytes(path: Path) -> str:
    return f"{path.stat().st_size:,} bytes" if path.is_file() else "written"
