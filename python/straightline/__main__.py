# SPDX-License-Identifier: Apache-2.0
"""Command line: `straightline compile | run | inspect | bench | coverage | route | plugin | opt | cache | completion`.

A command's module is imported when it is the one that is asked for: `straightline run model.sl` needs no compiler.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from straightline.cli import status_of
from straightline.errors import StraightlineError

#: What each does, for `--help`.
_COMMANDS = {
    "compile": "compile a model, show what became of it, and write it as a file or a library",
    "run": "call a model with arrays from files or random ones, time it, compare it",
    "inspect": "show what is in a model: arguments, results, statements, weights, files",
    "bench": "what a call costs here, with PyTorch, ONNX Runtime and OpenVINO",
    "coverage": "which ops are taken, and which have a kernel for which element types",
    "route": "say what a file of rules does to a model, or time which rules are worth writing",
    "plugin": "try the kernels of a plug-in: what they say, compute, read, write and leave behind",
    "opt": "run passes over a .mlir file (straightline-opt)",
    "cache": "the disk cache of compiled code",
    "completion": "print a script that completes this command line in a shell",
}


def _module(command: str) -> Any:
    return importlib.import_module(f"straightline.cli.{command}_command")


def _parser(filled: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands, of which those of `filled` have their arguments."""
    parser = argparse.ArgumentParser(prog="straightline", description="Straightline's command line.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in _COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        if name in filled:
            _module(name).add(command)
    return parser


def parser_of_all() -> argparse.ArgumentParser:
    """The parser with the arguments of every command."""
    return _parser([name for name in _COMMANDS if name != "opt"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = given[0] if given else ""
    if command == "opt":
        from straightline import _compiler

        return _compiler.opt_main(["straightline-opt", *given[1:]])
    try:
        parsed = _parser([command] if command in _COMMANDS else []).parse_args(given)
        return _module(command).run(parsed)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("straightline"):
            raise
        print(
            f"UserError: {command} needs the compiler, and only the runtime is installed: pip install straightline",
            file=sys.stderr,
        )
        return 1
    except StraightlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return status_of(error)
    except BrokenPipeError:  # of `| head`: nothing more is to be written, not even at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
