# SPDX-License-Identifier: Apache-2.0
"""Command line: `straightline compile model.mlir`, `bench`, `coverage` and `cache [info|clear]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from straightline import coverage
from straightline.bench import command as bench_command
from straightline.cache import cache_info, clear_cache
from straightline.errors import StraightlineError
from straightline.mlir_model import compile_mlir
from straightline.options import CompileOptions


def _cache(action: str) -> None:
    info = cache_info()
    if action == "clear":
        count = clear_cache()
        place = f" from {info.directory}" if info.directory else ""
        print(f"deleted {count} entries ({info.bytes_used / 2**20:.1f} MiB){place}")
        return
    if not info.bytes_max:
        print(info)
        return
    print(info.directory)
    print(f"{info.bytes_used / 2**20:.1f} MiB of at most {info.bytes_max / 2**20:.0f} MiB")


def _compile(parsed: argparse.Namespace) -> int:
    try:
        options = CompileOptions(**{option.name: getattr(parsed, option.name) for option in fields(CompileOptions)})
        compiled = compile_mlir(parsed.module, parsed.parameters, options=options)
    except StraightlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if parsed.show == "explain":
        print(compiled.explain())
    else:
        print(compiled.code if parsed.show == "code" else compiled.ir(parsed.show))
    return 0


def _coverage(parsed: argparse.Namespace) -> int:
    if parsed.what == "ops":
        print(coverage.markdown(parsed.target), end="")
        return 0
    try:
        from straightline.capture.torch import schemas  # torch is no dependency of the command line

        print(schemas.markdown(), end="")
    except ImportError as error:
        print(f"UserError: the ops of torch need torch: {error}", file=sys.stderr)
        return 1
    except StraightlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _route(text: str) -> tuple[str, str]:
    op, _, kernel = text.partition("=")
    return op, kernel


class _Routes(argparse.Action):
    """`--routes OP=KERNEL ...` as a dict."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, dict(values))


def _add_options(command: argparse.ArgumentParser) -> None:
    """A flag for each of `CompileOptions`, which validates what is given."""
    for option in fields(CompileOptions):
        about: dict[str, Any] = {"default": option.default, "help": option.metadata["help"]}
        if "bool" in str(option.type):
            about["action"] = argparse.BooleanOptionalAction
        elif option.name == "threads":
            about["type"] = int
        elif option.name == "allow":
            about.update(nargs="+", metavar="BACKEND")
        elif option.name == "routes":
            about.update(nargs="+", type=_route, action=_Routes, metavar="OP=KERNEL")
        command.add_argument("--" + option.name.replace("_", "-"), **about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="straightline", description="Straightline's command line.")
    commands = parser.add_subparsers(dest="command", required=True)
    cache = commands.add_parser("cache", help="the disk cache of compiled code")
    cache.add_argument(
        "action", nargs="?", choices=("info", "clear"), default="info", help="show it (the default) or empty it"
    )
    module = commands.add_parser("compile", help="compile op-level mlir and show what became of it")
    module.add_argument("module", type=Path, help="a .mlir file")
    module.add_argument("--parameters", type=Path, help="a safetensors file with what the module declares")
    module.add_argument("--show", choices=("explain", "code", "op", "kernel"), default="explain", help="what to print")
    _add_options(module)
    ops = commands.add_parser("coverage", help="which ops are taken, and which have a kernel for which element types")
    about = "our ops with their element types and targets (the default), or those of the torch that is installed"
    ops.add_argument("what", nargs="?", choices=("ops", "torch"), default="ops", help=about)
    ops.add_argument("--target", nargs="+", default=list(coverage.TARGETS), help="cpu, or cuda:sm_NN")
    bench = commands.add_parser("bench", help="what a call costs here, with PyTorch, ONNX Runtime and OpenVINO")
    bench_command.add_arguments(bench)
    parsed = parser.parse_args(arguments)
    if parsed.command == "bench":
        return bench_command.run(parsed)
    if parsed.command == "compile":
        return _compile(parsed)
    if parsed.command == "coverage":
        return _coverage(parsed)
    _cache(parsed.action)
    return 0


if __name__ == "__main__":
    sys.exit(main())
