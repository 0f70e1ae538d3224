# SPDX-License-Identifier: Apache-2.0
"""`straightline route`: what a file of rules does to a model, and which rules are worth writing."""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

from straightline import routing
from straightline.cli import DIFFERENT, OK, arguments, model_files
from straightline.errors import RouteWarning, UserError

HELP = "say what a file of rules does to a model, or time which rules are worth writing"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser("check", help="say what each rule of a file does to a model")
    check.add_argument("rules", type=Path, help="the file of rules")
    suggest = actions.add_parser("suggest", help="time the kernels of each op, and write rules for those that win")
    for action in (check, suggest):
        model_files.add_model(action)
        action.add_argument("--threads", type=int, help="team size to plan for")
        action.add_argument("--target", help="cpu, cuda, or the device of a plug-in")
    check.add_argument("--json", action="store_true", help="print what each rule does as JSON")
    suggest.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the rules there (default: print them)"
    )
    suggest.add_argument("--rounds", type=int, default=5, help="turns of each program (default: 5)")
    suggest.add_argument("--runs", type=int, default=20, help="calls in each turn (default: 20)")


def run(parsed: argparse.Namespace) -> int:
    """Checks or suggests; returns the exit status."""
    options = {name: getattr(parsed, name) for name in ("threads", "target") if getattr(parsed, name) is not None}
    return _check(parsed, options) if parsed.action == "check" else _suggest(parsed, options)


def _check(parsed: argparse.Namespace, options: dict[str, Any]) -> int:
    with warnings.catch_warnings():  # said below
        warnings.simplefilter("ignore", RouteWarning)
        function = model_files.open_model(parsed, {**options, "routes": parsed.rules})
    if not function.routes().rules:
        raise UserError(f"{parsed.model} is compiled already: rules are for what is compiled")
    rows = function.routes().rules
    if parsed.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            none = f"names no op{routing.meant(row['op'], row['nearest'])}"
            print(f"{row['rule']}: " + (f"decides about {row['decides']} of {row['ops']} ops" if row["ops"] else none))
            for statement in row["statements"]:
                print(
                    f"    {statement['op']} at {statement['source']}: {statement['kernel']} of {statement['backend']}"
                )
    return OK if all(row["ops"] for row in rows) else DIFFERENT


def _suggest(parsed: argparse.Namespace, options: dict[str, Any]) -> int:
    import numpy as np

    from straightline.route_suggestions import suggest

    def compiled(rules: list[Any]) -> Any:
        return model_files.open_model(parsed, {**options, **({"routes": rules} if rules else {})})

    first = compiled([])
    sizes = arguments.named_sizes(first, model_files.sizes_of(parsed))
    generator = np.random.default_rng(0)
    arrays = [arguments.random_array(info, sizes, generator) for info in arguments.inputs_of(first)]
    text = suggest(compiled, lambda function: arguments.bound(function, arrays), rounds=parsed.rounds, runs=parsed.runs)
    if parsed.output is None:
        print(text, end="")
        return OK
    try:
        parsed.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {str(parsed.output)!r}: {error.strerror}") from error
    count = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    print(f"{parsed.output}: {count} rule{'' if count == 1 else 's'}")
    return OK
