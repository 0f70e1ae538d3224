# SPDX-License-Identifier: Apache-2.0
"""`straightline plugin`: tries a plug-in."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from straightline.cli import OK, USER_ERROR
from straightline.errors import UserError

HELP = "try the kernels of a plug-in: what they say, compute, read, write and leave behind"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="run each kernel of a library on generated problems, in a process of its own",
        description="Each kernel is asked about generated problems and run on those that it takes, between pages that "
        "nothing may touch. The exit status is 1 if a check fails.",
    )
    check.add_argument("library", metavar="LIB", help="a shared library with straightline_backend_v1")
    check.add_argument("--json", action="store_true", help="print the report as JSON")
    check.add_argument(
        "--seed", type=int, default=None, help="of the inputs, from 0 on; by default another one each time"
    )


def run(parsed: argparse.Namespace) -> int:
    """Prints the report; returns the exit status."""
    from straightline.plugin_check.report import check

    if parsed.seed is not None and parsed.seed < 0:
        raise UserError(f"--seed is {parsed.seed} but must be at least 0")
    if not Path(parsed.library).is_file():
        raise UserError(f"{parsed.library}: there is no such file")
    seed = random.randrange(1 << 31) if parsed.seed is None else parsed.seed
    report = check(str(Path(parsed.library).resolve()), seed)
    print(json.dumps(report.as_json(), indent=2) if parsed.json else report.text())
    return USER_ERROR if report.failed else OK
