# SPDX-License-Identifier: Apache-2.0
"""`straightline completion`: a script by which a shell completes the command line."""

from __future__ import annotations

import argparse
import importlib

from straightline.cli import OK
from straightline.errors import UserError

HELP = "print a script that completes this command line in a shell"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="whose script")


def run(parsed: argparse.Namespace) -> int:
    """Prints the script; returns the exit status."""
    try:
        shtab = importlib.import_module("shtab")
    except ImportError as error:
        raise UserError(
            f"completion needs the package shtab ({error}): pip install 'straightline[completion]'"
        ) from error
    from straightline.__main__ import parser_of_all

    print(shtab.complete(parser_of_all(), parsed.shell))
    return OK
