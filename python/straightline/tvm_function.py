# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as functions of TVM-FFI: `fn.tvm_ffi()`. docs/design/ffi.md says how."""

from __future__ import annotations

import itertools
from typing import Any

from straightline import _call, _ffi_signature
from straightline.errors import UnsupportedError
from straightline.torch_op import function_capsule

_numbers = itertools.count()


class _Door:
    """What a function tells of new parameters, and its one function of TVM-FFI."""

    def __init__(self, name: str, capsule: Any, made: Any) -> None:
        self._name, self._capsule, self.made = name, capsule, made

    def publish(self, function: Any) -> None:
        programs = _ffi_signature.programs_of(function)
        _call.ffi_publish(self._capsule, self._name, programs)
        self.settle(programs)

    def settle(self, programs: tuple[Any, ...]) -> None:
        """As in `fn(x)`, other threads of Python run during a call that takes long enough: a tenth of a short call's time."""
        self.made.release_gil = any(program._releases_gil for program in programs)


def tvm_function(function: Any) -> Any:
    """What `CompiledFunction.tvm_ffi` does."""
    try:
        import tvm_ffi
    except ModuleNotFoundError as error:
        raise UnsupportedError("this needs TVM-FFI: pip install apache-tvm-ffi") from error
    for door in function._doors:
        if isinstance(door, _Door):
            return door.made
    name = function._binding.name
    signature = _ffi_signature.of_function(function)
    capsule = function_capsule(name, function, signature)
    # A name that others cannot have: the C functions of libtvm_ffi hand a function to Python by its name alone.
    passing = f"straightline.{name}.{next(_numbers)}"
    _call.ffi_tvm_global(capsule, passing)
    made = tvm_ffi.get_global_func(passing)
    tvm_ffi.registry.remove_global_func(passing)
    door = _Door(name, capsule, made)
    door.settle(_ffi_signature.programs_of(function))
    function._doors = (*function._doors, door)
    return made
