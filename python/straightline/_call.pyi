# SPDX-License-Identifier: Apache-2.0
"""The call path (C extension, stable ABI)."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, TypedDict

# Capsules named "sl_program" and "sl_weights".
ProgramCapsule = Any
WeightsCapsule = Any

class Options(TypedDict, total=False):
    #: Kind of the results when no argument is a tensor: "torch" (default) or "numpy".
    kind: str
    #: Estimated time of one run. The GIL is released when it is at least the threshold.
    estimated_us: float
    gil_threshold_us: float

class Callable:
    """A program with its weights, bound to a signature, called like the compiled function.

    It owns a reference to the program and to the weights. Calls may come from any thread.
    """

    def __new__(
        cls,
        program: ProgramCapsule,
        weights: WeightsCapsule,
        input_spec: tuple[tuple[Any, ...], ...],
        output_spec: tuple[Any, ...],
        options: Options,
    ) -> Callable: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def callable_type(name: str, base: type) -> type[Callable]:
    """Makes a type like `Callable` that has the methods of `base`, a class with `__slots__ = ()`.

    Instances have a `__dict__`. A Python subclass of `Callable` works too, but before Python 3.12 its
    calls are slower (no vector calls).
    """

def program_from_library(path: str | PathLike[str]) -> ProgramCapsule:
    """Loads a compiled unit that exports `sl_program`."""

def symbol(name: str) -> int:
    """Address of an extern "C" function of the runtime or of a backend, 0 when there is none."""

def weights(program: ProgramCapsule, parameters: Sequence[Any]) -> WeightsCapsule:
    """Borrows the storage of parameters, in the order of the description, and prepares them."""
