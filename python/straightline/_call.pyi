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
    #: The set that the next call takes.
    _weights: WeightsCapsule

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def callable_type(name: str, base: type) -> type[Callable]:
    """Makes a type like `Callable` that has the methods of `base`, a class with `__slots__ = ()`.

    Instances have a `__dict__`. A Python subclass of `Callable` works too, but before Python 3.12 its
    calls are slower (no vector calls).
    """

def program_from_library(path: str | PathLike[str]) -> ProgramCapsule:
    """Loads a compiled unit that exports `sl_program`."""

def weights(program: ProgramCapsule, parameters: Sequence[Any], live: bool = False) -> WeightsCapsule:
    """Borrows the storage of parameters, in the order of the description, and prepares them.

    A live set is compared with its tensors at the beginning of each call and made anew when one has other storage.
    """

def parameters(weights: WeightsCapsule) -> list[Any]:
    """The tensors of a set: those that were given when it is live, else owners of the same storage."""

def group(first: Callable, others: tuple[Callable, ...]) -> None:
    """Calls of `first` whose arguments do not fit its program go to the first of `others` that they fit."""

def publish(callables: tuple[Callable, ...], weights: tuple[WeightsCapsule, ...]) -> None:
    """Gives each callable a new set, all at once. A call keeps the set that it began with."""
