# SPDX-License-Identifier: Apache-2.0
"""`straightline inspect`: what a model is, as a tree, as JSON, or as a page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from straightline.cli import OK, arguments, model_files
from straightline.errors import UserError
from straightline.explanation import arena_text, estimate_text

HELP = "show what is in a model: arguments, results, statements, weights, files"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    model_files.add_model(parser)
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.add_argument("--statements", type=int, default=20, metavar="N", help="show so many statements (default: 20)")
    parser.add_argument("--verify", action="store_true", help="compare the digest of every file of a saved model")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with all levels side by side instead")
    parser.add_argument("--passes", action="store_true", help="with --html: the IR after each pass too")
    parser.add_argument("--show", choices=("code", "op", "kernel", "explain"), help="print a text instead")
    parser.add_argument(
        "--machine-code",
        metavar="KERNEL",
        help="print the instructions of a kernel instead; with --html: all or none of the kernels have them in the page",
    )
    parser.add_argument("--program", type=int, metavar="N", help="with --html: this program alone, from 1 on")
    parser.add_argument(
        "--profile", type=int, metavar="RUNS", help="with --html: the times of so many calls with random numbers"
    )


def run(parsed: argparse.Namespace) -> int:
    """Shows it; returns the exit status."""
    saved = parsed.model.suffix == ".sl" or parsed.model.is_dir()
    if parsed.verify and not saved:
        raise UserError(
            f"--verify compares the digests of a saved model (.sl) but {parsed.model} is none: it has no digests"
        )
    for name in ("passes", "program", "profile"):
        if getattr(parsed, name) not in (None, False) and parsed.html is None:
            raise UserError(f"--{name} is about the page: give --html FILE")
    if parsed.html is not None and parsed.machine_code not in (None, "all", "none"):
        raise UserError(f"--machine-code is {parsed.machine_code!r} but must be all or none with --html")
    function = model_files.open_model(parsed, verify=parsed.verify)
    if parsed.html is not None:
        function.explorer(
            parsed.html,
            passes=parsed.passes,
            profile=_profiled(function, parsed) if parsed.profile is not None else None,
            program=parsed.program,
            machine_code={"all": True, "none": False, None: None}[parsed.machine_code],
        )
        print(f"{parsed.html}: {parsed.html.stat().st_size:,} bytes")
        return OK
    if parsed.machine_code is not None:
        print(function.machine_code(parsed.machine_code), end="")
        return OK
    if parsed.show is not None:
        texts = {"code": lambda: function.code, "explain": lambda: str(function.explain())}
        print(texts.get(parsed.show, lambda: function.ir(parsed.show))())
        return OK
    facts = facts_of(function, parsed.model if saved else None)
    if parsed.json:
        print(json.dumps(facts, default=str))
        return OK
    from rich.console import Console

    Console(highlight=False).print(_tree(facts, str(parsed.model), parsed.statements))
    return OK


def _profiled(function: Any, parsed: argparse.Namespace) -> Any:
    """Times of calls with random numbers of the program that the page shows first."""
    import numpy as np

    number = parsed.program if parsed.program in range(1, len(function._all) + 1) else 1
    one = function._all[number - 1]
    inputs = arguments.inputs_of(one)
    sizes = arguments.named_sizes(one, model_files.sizes_of(parsed))
    generator = np.random.default_rng(0)
    arrays = [arguments.random_array(info, sizes, generator) for info in inputs]
    positional, named = arguments.bound(one, arrays)
    return function.profile(*positional, runs=parsed.profile, **named)


def facts_of(function: Any, path: Path | None) -> dict[str, Any]:
    """What is shown, as data. `path`: of a saved model."""
    facts: dict[str, Any] = {"name": function._binding.name, "programs": []}
    for one in (function, *function._others):
        explained = json.loads(one._compilation.explain_json)
        facts["programs"].append(
            {
                "example": one._binding.example,
                "target": explained["target"],
                "inputs": explained["inputs"],
                "results": explained["results"],
                "named_sizes": explained["named_sizes"],
                **{key: explained[key] for key in ("arena_bytes", "prepared_bytes", "parameter_bytes", "threads")},
                "estimated_us": explained.get("estimated_us", 0.0),
                "statements": explained["statements"],
            }
        )
    facts["parameters"] = {
        name: {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
        for name, tensor in function.parameters().items()
    }
    if path is not None:
        from straightline.artifact import manifest_of

        manifest = manifest_of(path)
        facts["saved"] = {
            "format": manifest["format"],
            "abi": manifest["abi"],
            "by": manifest["straightline"],
            "files": {name: row["bytes"] for name, row in manifest["files"].items()},
            "cpus": [[variant["cpu"] for variant in program["variants"]] for program in manifest["programs"]],
            "targets": [[variant["target"] for variant in program["variants"]] for program in manifest["programs"]],
        }
    return facts


def _tree(facts: Mapping[str, Any], title: str, most: int) -> Any:
    from rich.markup import escape
    from rich.tree import Tree

    tree = Tree(f"[bold]{escape(title)}[/bold]: {escape(facts['name'])}")
    for i, program in enumerate(facts["programs"], 1):
        head = f"program {i}" if len(facts["programs"]) > 1 else "program"
        node = tree.add(
            escape(f"{head} for {program['target']}, {program['threads']} thread(s){estimate_text(program)}")
        )
        for kind, label in (("inputs", "takes"), ("results", "gives")):
            branch = node.add(label)
            for row in program[kind]:
                branch.add(escape(arguments.Input(row["name"] or "-", row["type"], tuple(row["shape"])).text))
        if program["named_sizes"]:
            branch = node.add("named sizes")
            for row in program["named_sizes"]:
                branch.add(
                    escape(
                        f"{row['name']}: "
                        + ("depends on data" if row["depends_on_data"] else f"{row['min']} to {row['max']}")
                    )
                )
        node.add(
            f"memory: {arena_text(program)}, prepared weights {program['prepared_bytes']:,}, "
            f"parameters {program['parameter_bytes']:,}"
        )
        branch = node.add(f"{len(program['statements'])} statements")
        for row in program["statements"][:most]:
            branch.add(escape(f"{row['phase']}: {row['op']} -> {row['backend']} {row['kernel']}  [{row['source']}]"))
        if len(program["statements"]) > most:
            branch.add(f"... {len(program['statements']) - most} more (--statements N)")
    branch = tree.add(f"{len(facts['parameters'])} parameters")
    for name, row in list(facts["parameters"].items())[:most]:
        branch.add(escape(f"{name}: {row['dtype']}{row['shape']}"))
    if len(facts["parameters"]) > most:
        branch.add(f"... {len(facts['parameters']) - most} more")
    if "saved" in facts:
        saved = facts["saved"]
        branch = tree.add(escape(f"files (format {saved['format']}, abi {saved['abi']}, saved by {saved['by']})"))
        pairs = zip(saved["targets"][0], saved["cpus"][0], strict=True)
        names = [cpu if target == "cpu" else f"{target} beside {cpu}" for target, cpu in pairs]
        branch.add(escape(f"code for {', '.join(names)}"))
        for name, count in saved["files"].items():
            branch.add(escape(f"{name}: {count:,} bytes"))
    return tree
