# SPDX-License-Identifier: Apache-2.0
"""Models as files: what the commands take, and how each kind becomes a function."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from straightline.errors import UserError

SUFFIXES = (".sl", ".onnx", ".pt2", ".stablehlo", ".mlir", ".py")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declares the model and what opening one may need."""
    about = "a .py file is executed and sets model and args"
    parser.add_argument(
        "model", type=Path, help=f"a file: {', '.join(SUFFIXES)}, or the folder of a saved model; {about}"
    )
    parser.add_argument("--parameters", type=Path, help="a safetensors file with what a .mlir module declares")
    parser.add_argument(
        "--size",
        nargs="+",
        default=[],
        metavar="NAME=N",
        help="named sizes: of a model (.onnx, .stablehlo), and of random inputs",
    )


def sizes_of(parsed: argparse.Namespace) -> dict[str, int]:
    """`--size` as a dict.

    Raises:
        UserError: One is not NAME=N.
    """
    sizes = {}
    for text in parsed.size:
        name, _, size = text.partition("=")
        if not size.isdigit():
            raise UserError(f"--size is {text!r} but must be NAME=N")
        sizes[name] = int(size)
    return sizes


def open_model(parsed: argparse.Namespace, options: dict[str, Any] | None = None, *, verify: bool = False) -> Any:
    """The function of a file: a saved one as it is, others compiled with these options.

    `verify`: compare the digests of all files of a saved one.

    Raises:
        UserError: There is no such file, or it is of no kind that is known.
    """
    path: Path = parsed.model
    given = dict(options or {})
    if path.suffix == ".sl" or path.is_dir():
        from straightline.artifact import load

        return load(path, threads=given.get("threads"), verify=verify)
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: a model is a file with one of the suffixes {', '.join(SUFFIXES)}")
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.suffix == ".onnx":
        from straightline.onnx_model import compile_onnx

        return compile_onnx(str(path), sizes=sizes_of(parsed) or None, **given)
    if path.suffix == ".stablehlo":
        from straightline.jax_model import compile_jax

        return compile_jax(path, sizes=sizes_of(parsed) or None, **given)
    if path.suffix == ".mlir":
        from straightline.mlir_model import compile_mlir

        return compile_mlir(path, parsed.parameters, **given)
    if path.suffix == ".py":
        return _compile_script(path, given)
    return _compile_exported(path, given)


def script_of(path: Path) -> dict[str, Any]:
    """What a Python file, which is executed, says of a model: `model`, `args`, and `kwargs` and `dynamic_shapes` if it has them.

    Raises:
        UserError: It sets no `model` or no `args`, or fails.
    """
    import runpy

    try:
        names = runpy.run_path(str(path))
    except Exception as error:  # whatever a user's file raises
        raise UserError(f"{path} fails: {type(error).__name__}: {error}") from error
    missing = [name for name in ("model", "args") if name not in names]
    if missing:
        raise UserError(f"{path} sets no {' and no '.join(missing)}: a .py file is executed and sets model and args")
    return {name: names[name] for name in ("model", "args", "kwargs", "dynamic_shapes") if name in names}


def _compile_script(path: Path, options: dict[str, Any]) -> Any:
    from straightline import torch_model

    return torch_model.compile(**script_of(path), **options)


def load_exported(path: Path) -> Any:
    """The ExportedProgram of a .pt2 file.

    Raises:
        UserError: torch is not there, or cannot read it.
    """
    try:
        import torch
    except ImportError as error:
        raise UserError(f"{path} needs torch ({error}): pip install 'straightline[torch]'") from error
    try:
        return torch.export.load(path)
    except Exception as error:  # torch has no class for this
        raise UserError(
            f"{path} is no exported program that this torch reads: {type(error).__name__}: {error}"
        ) from error


def _compile_exported(path: Path, options: dict[str, Any]) -> Any:
    from straightline import torch_model

    return torch_model.compile(load_exported(path), **options)
