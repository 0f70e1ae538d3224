# SPDX-License-Identifier: Apache-2.0
"""Registered programs in programs: a graph that calls `torch.ops.mylib.forward` calls the program. docs/design/ffi.md says how.

Such an op becomes an own kernel (own_kernels.py): emitted text that calls the runtime with the function that the op runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from straightline import own_kernels
from straightline._ffi_signature import BOOL, FLOAT, INT, TENSOR, TENSORS, TEXT, Layout, Program, Signature, value_of
from straightline.compiled_function import of_the_compiler
from straightline.errors import UserError
from straightline.own_kernels import OwnKernel

_FUNCTION = """
SL_KERNEL_FUNCTION(int32_t, call_{base}, {parameters}) {{
  const sl_kernel_tensor* const inputs[] = {{{inputs}}};
  const sl_kernel_tensor* const results[] = {{{results}}};
  {call}(
      {function}, inputs, results, {stream}, message);
}}
"""
_TEXT = """// {name}: calls the program that is this op, emitted by straightline.
#include <straightline/abi/ffi.h>
"""
_FUNCTION_HERE = "__atomic_load_n(reinterpret_cast<sl_ffi_function**>({place}UL), __ATOMIC_ACQUIRE)"
_CALL_HERE = "return reinterpret_cast<decltype(&sl_ffi_program_call)>({call}UL)"
#: A size of each number, for which layouts are compared.
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def is_direct(signature: Signature) -> bool:
    """Whether a program can call such a function directly: its tensors are row-major, and no size depends on data.

    It also has a place for each result, and no more arguments than a C function may have.
    """
    own = signature.programs[0]
    is_whole = sorted(signature.results) == list(range(len(own.results)))
    has_effect = bool(own.results) or any(argument.updated for argument in signature.arguments)
    numbers = sum(argument.kind == FLOAT for argument in signature.arguments)
    addresses = sum(1 + (argument.kind == TENSORS) for argument in signature.arguments) - numbers + len(own.results) + 2
    fits = addresses <= own_kernels._MAX_INTEGERS and numbers <= own_kernels._MAX_NUMBERS
    return is_whole and has_effect and fits and all(_is_row_major(program) for program in signature.programs)


def _is_row_major(program: Program) -> bool:
    if any(extent.computed for extent in program.extents) or len(program.extents) > len(_PRIMES):
        return False
    sizes = dict(enumerate(_PRIMES))
    return all(_has_rows(layout, sizes) for layout in (*program.inputs, *program.results))


def _has_rows(layout: Layout, sizes: dict[int, int]) -> bool:
    expected = 1
    for steps, stride in zip(reversed(layout.sizes), reversed(layout.strides)):
        size = value_of(steps, sizes)
        if size != 1 and value_of(stride, sizes) != expected:
            return False
        expected *= max(size, 1)
    return True


def kernel_of(
    name: str, schema: str, signature: Signature, place: int, call: int, function: Callable[[], Any]
) -> OwnKernel:
    """The own kernel that an op is in programs.

    Args:
        name: The op, "mylib::forward".
        schema: Its schema, as torch has it.
        signature: What its function takes.
        place: The address of a variable with the address of the function, which may be exchanged.
        call: The address of sl_ffi_program_call.
        function: Gives the compiled function, which a saved program has in itself, or None when it is gone.
    """
    from straightline import tvm_library

    parameters, inputs = [], {}
    for argument in signature.arguments:
        if argument.kind in (TENSOR, TENSORS):
            parameters.append(f"const sl_kernel_tensor* in_{argument.name}")
            inputs |= {argument.index + i: f"in_{argument.name} + {i}" for i in range(argument.count)}
        if argument.kind == TENSOR:
            inputs[argument.index] = f"in_{argument.name}"
        elif argument.kind == TENSORS:
            parameters.append(f"int64_t in_{argument.name}_count")
        else:
            kind = "const char*" if argument.kind == TEXT else "int64_t" if argument.kind in (INT, BOOL) else "double"
            parameters.append(f"{kind} in_{argument.name}")
    results = [f"result_{i}" for i in range(len(signature.results))]
    on_device = signature.key != "CPU"
    parameters += [f"const sl_kernel_tensor* {result}" for result in results]
    parameters += ["void* stream"] if on_device else []
    base = name.rpartition("::")[2]
    parts = {
        "base": base,
        "parameters": ", ".join([*parameters, "char* message"]),
        "inputs": ", ".join(inputs[i] for i in range(len(inputs))) or "nullptr",
        "results": ", ".join(results) or "nullptr",
        "stream": "stream" if on_device else "nullptr",
    }
    here = {"function": _FUNCTION_HERE.format(place=place), "call": _CALL_HERE.format(call=call)}
    text = _TEXT.format(name=name) + _FUNCTION.format(**parts, **here)
    compiler = of_the_compiler("_compiler")
    path = tvm_library.file_of(base, compiler.link_text(base, text, [f"call_{base}", f"call_{base}_signature"]))
    kernel = own_kernels.made(
        path,
        f"call_{base}",
        schema,
        status=True,
        stream=on_device,
        device=on_device,
        outside=on_device,
        check=functools.partial(_check_constants, name, signature),
    )
    saved = _FUNCTION.format(**parts, function="&exported", call="return sl_exported_call")
    own_kernels.saved_with(kernel, functools.partial(_library, name, base, saved, function))
    return kernel


def _library(name: str, base: str, text: str, function: Callable[[], Any]) -> bytes:
    """What a saved program has of the program that it calls: a library with its code, weights and runtime.

    Raises:
        UserError: The compiled function is gone.
    """
    from straightline import library_writer

    present = function()
    if present is None:
        raise UserError(
            f"the compiled function of {name} is gone, which is saved with what calls it: keep it until then"
        )
    return library_writer.kernel_library(present, name, base, text)


def _check_constants(name: str, signature: Signature, values: Mapping[str, Any]) -> None:
    """Numbers and texts of a call are those that were compiled."""
    for argument in signature.arguments:
        if argument.kind in (TENSOR, TENSORS):
            count = len(values[argument.name]) if argument.kind == TENSORS else argument.count
            if count != argument.count:
                raise UserError(
                    f"{name}: argument '{argument.name}' has {count} tensors but the program was compiled for {argument.count}"
                )
        elif values[argument.name] != argument.value:
            raise UserError(
                f"{name}: argument '{argument.name}' is {values[argument.name]!r} but the program was compiled for "
                f"{argument.value!r}"
            )
