# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as ops of torch: `fn.register("mylib::forward")`. docs/design/ffi.md says how.

A kernel of torch's stable C shim has no place for data of its own, so each op has a function of its own in emitted text, which
jumps to the runtime with the address of what it runs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Sequence
from typing import Any

from straightline import _call, _ffi_signature, _torch_ops
from straightline._call_support import dtype_name
from straightline._ffi_signature import Program, Signature
from straightline.compiled_function import of_the_compiler
from straightline.errors import UnsupportedError, UserError

_TEXT = """// The kernel of {name}, emitted by straightline.
#include <straightline/abi/ffi.h>

extern "C" {{
void* sl_function;        // an sl_ffi_function
sl_torch_kernel sl_call;  // sl_ffi_torch_call

void sl_kernel(uint64_t* stack, uint64_t arguments, uint64_t results, void*) {{
  [[clang::musttail]] return sl_call(stack, arguments, results, sl_function);
}}
}}
"""
#: Functions of ops that were unregistered. They stay, without a model: a call may have read such an address just now.
_closed: list[Any] = []


class RegisteredOp(_torch_ops.NamedOp):
    """An op of torch over a compiled function, as `fn.register` gives it.

    The op lives until the process ends or `unregister` is called, also without this object.
    """

    def __init__(self, name: str, function: Any, signature: Signature) -> None:
        self._space, self._base = _ffi_signature.qualified(name)
        self.name, self._signature = name, signature
        self.schema = f"{self._space}::{signature.schema(self._base)}"  #: As torch has it.
        self._function = function_capsule(name, function, signature)
        self._isOpen = True
        self._earlier: list[Any] = []  #: what it ran before it was unregistered and opened again
        compiler = of_the_compiler("_compiler")
        self._library = opened(
            compiler.link_text(self._base, _TEXT.format(name=name), ["sl_kernel", "sl_function", "sl_call"])
        )
        self._point()
        address = ctypes.cast(self._library.sl_kernel, ctypes.c_void_p).value
        self._torch = _call.ffi_torch_register(self._space, signature.schema(self._base), signature.key, address)
        try:
            self._python = self._with_fake()
        except BaseException:
            _call.ffi_torch_unregister(self._torch)
            raise
        self._in_programs(function)

    def _point(self) -> None:
        """Tells the emitted kernel what it runs."""
        function, call, _ = _call.ffi_addresses(self._function)
        ctypes.c_void_p.in_dll(self._library, "sl_function").value = function
        ctypes.c_void_p.in_dll(self._library, "sl_call").value = call

    def _in_programs(self, compiled: Any) -> None:
        """Has graphs that call the op call the function, where they can."""
        from straightline import own_kernels, program_ops

        self._compiled = weakref.ref(compiled)
        if not program_ops.is_direct(self._signature):
            own_kernels.forget_program(self.name)
            return
        place = ctypes.addressof(ctypes.c_void_p.in_dll(self._library, "sl_function"))
        call = _call.ffi_addresses(self._function)[2]
        own_kernels.add_program(
            self.name,
            functools.cache(
                lambda: program_ops.kernel_of(
                    self.name, self.schema, self._signature, place, call, lambda: self._compiled()
                )
            ),
        )

    def _with_fake(self) -> tuple[Any, Any]:
        """Registers the fake kernel, and what refuses derivatives; they go with what this returns."""
        import torch

        overload = _torch_ops.overload_of(self.name)
        library = torch.library.Library(self._space, "FRAGMENT")
        torch.library.register_fake(self.name, self._fake_call, lib=library)
        return library, _torch_ops.refuse_derivatives_of_torch_func(overload, self.name, self.schema, library)

    def _fake_call(self, *args: Any, **kwargs: Any) -> Any:
        return fake_call(self.name, self._signature, args, kwargs)

    @property
    def op(self) -> Any:
        """`torch.ops.mylib.forward.default`."""
        import torch

        return getattr(getattr(torch.ops, self._space), self._base).default

    @property
    def calls_running(self) -> int:
        """How many calls are running now."""
        return _call.ffi_running(self._function)

    @property
    def is_open(self) -> bool:
        """Whether it was not unregistered."""
        return self._isOpen

    def calls(self) -> tuple[int, int]:
        """Those that run, and how many have come since it was closed."""
        functions = (*self._earlier, self._function)
        return sum(map(_call.ffi_running, functions)), sum(map(_call.ffi_refused, functions))

    def publish(self, function: Any) -> None:
        """Has later calls take a function's present parameters; calls that are running keep theirs."""
        if self._isOpen:
            _call.ffi_publish(self._function, self.name, _ffi_signature.programs_of(function))

    def unregister(self) -> None:
        """Ends the op: later calls fail and say so, those that are running finish. The name is free again.

        Twice is as good as once. Any thread, also while calls run.
        """
        with _torch_ops.lock:
            self._isOpen = False
            _call.ffi_publish(self._function, self.name, None)

    def _fits(self, signature: Signature) -> bool:
        return (
            self._signature.schema(self._base) == signature.schema(self._base) and self._signature.key == signature.key
        )

    def _again(self, function: Any, signature: Signature) -> None:
        """Opens an op that was unregistered, over another function of the same schema."""
        self._signature = signature
        _closed.append(self._function)
        self._earlier.append(self._function)
        self._function = function_capsule(self.name, function, signature)
        self._point()
        self._isOpen = True
        self._in_programs(function)

    def leave(self) -> None:
        """Takes the op out of torch, so that another schema may have its name."""
        from straightline import own_kernels

        own_kernels.forget_program(self.name)
        _closed.append(self._function)
        for library in self._python:
            _torch_ops.destroy(library)
        _call.ffi_torch_unregister(self._torch)
        _torch_ops.removed_from_torch(self.name)


def register(function: Any, name: str) -> RegisteredOp:
    """What `CompiledFunction.register` does."""
    import torch

    space, base = _ffi_signature.qualified(name)
    signature = _ffi_signature.of_function(function)
    with _torch_ops.lock:
        known = _torch_ops.known(name)
        if isinstance(known, RegisteredOp) and known.is_open:
            raise UserError(
                f"{name} is registered with {known.schema}: call unregister() of what register gave, or take another name"
            )
        if isinstance(known, RegisteredOp) and known._fits(signature):
            known._again(function, signature)
            made = known
        else:
            _torch_ops.give_up(name)
            if hasattr(getattr(torch.ops, space), base):
                raise UserError(f"torch has an op {name} already: take another name")
            made = RegisteredOp(name, function, signature)
            _torch_ops.add(made)
    function._doors = (*(door for door in function._doors if door is not made), made)
    return made


def function_capsule(name: str, function: Any, signature: Signature) -> Any:
    """A function of other systems in the runtime."""
    own = signature.programs[0]
    rows = tuple(argument.row() for argument in signature.arguments)
    programs = _ffi_signature.programs_of(function)
    return _call.ffi_function(name, rows, len(own.inputs), signature.results, len(own.results), programs)


def opened(shared: bytes) -> ctypes.CDLL:
    """A shared object that lies in memory, opened for as long as the process.

    Its file stays open: the loader knows libraries by their path, and would take another one of the same number for it.
    """
    file = os.memfd_create("straightline_kernel")
    with os.fdopen(os.dup(file), "wb") as stream:
        stream.write(shared)
    return ctypes.CDLL(f"/proc/{os.getpid()}/fd/{file}")


# ---- fake kernels


def fake_call(name: str, signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Empty results of the sizes that a call with these tensors would have; sizes may be symbols."""
    import torch

    tensors = _flattened(signature, args, kwargs)
    said = []
    for program in signature.programs:
        sizes = _bound(program, tensors)
        if not isinstance(sizes, str):
            break
        said.append(sizes)
    else:
        raise UserError(f"{name}: {'; '.join(dict.fromkeys(said))}")
    results = [program.results[number] for number in signature.results]
    made = [
        torch.empty_strided(
            [_ffi_signature.value_of(steps, sizes) for steps in result.sizes],
            [_ffi_signature.value_of(steps, sizes) for steps in result.strides],
            dtype=getattr(torch, dtype_name(result.code, result.bits)),
            device=tensors[0].device if tensors else signature.target.partition(":")[0],
        )
        for result in results
    ]
    return None if not made else made[0] if len(made) == 1 else tuple(made)


def _flattened(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors of a call by the numbers of the program's inputs."""
    tensors: dict[int, Any] = {}
    for i, argument in enumerate(signature.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name, argument.value)
        if argument.kind == _ffi_signature.TENSOR:
            tensors[argument.index] = value
        elif argument.kind == _ffi_signature.TENSORS:
            if len(value) != argument.count:
                raise UserError(
                    f"argument '{argument.name}' has {len(value)} tensors but the program was compiled for {argument.count}"
                )
            tensors.update(enumerate(value, argument.index))
        elif value != argument.value:
            raise UserError(
                f"argument '{argument.name}' is {value!r} but the program was compiled for {argument.value!r}"
            )
    return [tensors[i] for i in range(len(tensors))]


def _bound(program: Program, tensors: Sequence[Any]) -> dict[int, Any] | str:
    """The named sizes of a call by number, or why the program does not take it."""
    import torch

    sizes: dict[int, Any] = {}
    pending: list[tuple[int, int, Any, Any]] = []
    for i, (layout, tensor) in enumerate(zip(program.inputs, tensors, strict=True)):
        dtype = getattr(torch, dtype_name(layout.code, layout.bits))
        if tensor.dtype != dtype or tensor.dim() != len(layout.sizes):
            return (
                f"input {i} is {tensor.dtype} of rank {tensor.dim()} but the program was compiled for {dtype} of rank "
                f"{len(layout.sizes)}"
            )
        for dim, steps in enumerate(layout.sizes):
            if len(steps) == 1 and steps[0][0] == "s" and steps[0][1] not in sizes:
                sizes[steps[0][1]] = tensor.size(dim)
            else:
                pending.append((i, dim, steps, tensor.size(dim)))
    for number, extent in enumerate(program.extents):
        if extent.computed:
            sizes[number] = _new_size(extent)
        elif number not in sizes:
            raise UnsupportedError(
                f"the size {extent.name} is no size of an input but part of an expression, which a fake kernel cannot solve; "
                "nearest supported form: an input that has it as a size"
            )
        elif not (extent.min <= sizes[number] and sizes[number] <= extent.max):
            return f"{extent.name} is {sizes[number]} but the program was compiled for {extent.min} to {extent.max}"
    for i, dim, steps, size in pending:
        if not size == _ffi_signature.value_of(steps, sizes):
            return f"size {dim} of input {i} is {size} but the program was compiled for {_ffi_signature.value_of(steps, sizes)}"
    return sizes


def _new_size(extent: _ffi_signature.Extent) -> Any:
    """A size that depends on data."""
    import torch

    return torch.library.get_ctx().new_dynamic_size(min=extent.min, max=extent.max)
