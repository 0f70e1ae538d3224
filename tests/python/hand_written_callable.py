# SPDX-License-Identifier: Apache-2.0
"""Hand-written programs made into callables, for the tests of the call path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from hand_written import Buffer, Program, elementwise
from straightline import _call, _signature


class Maker:
    """Compiles hand-written programs into callables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def program(self, program: Program) -> Any:
        return _call.program_from_library(program.compile(self.folder))

    def __call__(
        self,
        program: Program,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        result: Any = None,
        parameters: tuple[Any, ...] = (),
        **options: Any,
    ) -> Any:
        capsule = self.program(program)
        weights = _call.weights(capsule, parameters)
        inputs = _signature.input_structure(function, args, kwargs)
        output = _signature.result_structure(torch.empty(0) if result is None else result)
        return _call.Callable(capsule, weights, inputs, output, options)


def add_program(shape: tuple[int, ...] = (2, 3), strides: tuple[int, ...] | None = None) -> Program:
    return Program(
        [
            Buffer("INPUT", "x", shape, strides=strides),
            Buffer("INPUT", "y", shape),
            Buffer("OUTPUT", "z", shape),
        ],
        [(2, 2)],
        elementwise("a[i] + b[i]", str(int(np.prod(shape)))),
    )


def add(x: Any, y: Any) -> Any:
    return x + y


def view_program() -> Program:
    return Program(
        [
            Buffer("INPUT", "x", (2, 3)),
            Buffer("PARAMETER", "w", (4,)),
            Buffer("STATE", "count", (1,), "int64"),
            Buffer("VIEW", "v", (3,), base=0, offset_bytes=12),
            Buffer("VIEW", "t", (2,), strides=(2,), base=1, offset_bytes=4),
            Buffer("OUTPUT", "z", (2, 3)),
            Buffer("VIEW", "flat", (6,), base=5),
        ],
        [(3, 0), (0, 0), (4, 1), (2, 2), (5, 5), (6, 5)],
        elementwise("a[i] * 2", "6", 1)
        + "int64_t* n = static_cast<int64_t*>(const_cast<void*>(io->parameters[1])); ++*n;",
        writes=[2],
    )
