# SPDX-License-Identifier: Apache-2.0
"""`straightline coverage`: which ops are taken."""

from __future__ import annotations

import argparse

from straightline import coverage
from straightline.cli import OK
from straightline.errors import UserError

HELP = "which ops are taken, and which have a kernel for which element types"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    about = "our ops with their element types and targets (the default), or those of the torch, onnx or jax that is installed"
    parser.add_argument("what", nargs="?", choices=("ops", "torch", "onnx", "jax"), default="ops", help=about)
    parser.add_argument("--target", nargs="+", default=list(coverage.TARGETS), help="cpu, or cuda:sm_NN")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help="cases of onnx whose names contain one of these"
    )


def run(parsed: argparse.Namespace) -> int:
    """Prints the table; returns the exit status."""
    if parsed.what == "ops":
        print(coverage.markdown(parsed.target), end="")
        return OK
    try:
        if parsed.what == "torch":
            from straightline.capture.torch import schemas

            print(schemas.markdown(), end="")
        elif parsed.what == "jax":
            from straightline import jax_coverage

            print(jax_coverage.page(), end="")
        else:
            from straightline import onnx_coverage

            print(onnx_coverage.markdown(onnx_coverage.run("node", parsed.only)), end="")
    except ImportError as error:
        raise UserError(f"the ops of {parsed.what} need {parsed.what}: {error}") from error
    return OK
