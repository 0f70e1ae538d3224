# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM-FFI as ops: `sl.tvm_ffi_library`. docs/design/ffi.md says how.

Each becomes an own kernel (own_kernels.py): emitted text that makes views of its tensors and calls the C symbol.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from straightline import _compiler, own_kernels, own_schemas
from straightline._ffi_signature import c_string
from straightline.errors import UnsupportedError, UserError
from straightline.own_kernels import OwnKernel, c_kernel
from straightline.own_schemas import Schema

_TEXT = """// {op}: calls a function of TVM-FFI, emitted by straightline.
// {source}
#include <straightline/abi/tvm_kernel.h>

{before}
SL_KERNEL_FUNCTION(int32_t, call_{name}, {parameters}) {{
{views}  const sl_tvm::Any arguments[] = {{{values}}};
{call}}}
"""
#: The symbol of a library, found at the first call.
_FIND_SYMBOL = """static sl_tvm::Call symbol(char* message) {
  static sl_tvm::Call known;
  sl_tvm::Call function = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  if (!function) {
    function = sl_tvm::open(PATH, "__tvm_ffi_NAME", message);
    __atomic_store_n(&known, function, __ATOMIC_RELEASE);
  }
  return function;
}
"""
_CALL_SYMBOL = """  const sl_tvm::Call function = symbol(message);
  return function ? sl_tvm::call(function, nullptr, arguments, {count}, {result}, message) : 1;
"""
#: A function of this process by its address.
_CALL_ADDRESS = """  const auto function = reinterpret_cast<sl_tvm::Call>({safe_call}UL);
  void* const self = reinterpret_cast<void*>({handle}UL);
  const int32_t status = sl_tvm::call(function, self, arguments, {count}, {result}, message);
  {end}
"""
_LIBRARY = """  const sl_tvm::Library* known = sl_tvm::library(message);
  if (!known) {
    return 1;
  }
"""
#: By the type's name: what the C function gets, and what TVM-FFI does.
_KINDS = {
    "int": ("int64_t in_{name}", "sl_tvm::of(in_{name})"),
    "SymInt": ("int64_t in_{name}", "sl_tvm::of(in_{name})"),
    "bool": ("int64_t in_{name}", "sl_tvm::ofBool(in_{name})"),
    "float": ("double in_{name}", "sl_tvm::of(in_{name})"),
    "str": ("const char* in_{name}", "sl_tvm::of(in_{name})"),
    "dtype": ("sl_dtype in_{name}", "sl_tvm::of(in_{name})"),
    "ScalarType": ("sl_dtype in_{name}", "sl_tvm::of(in_{name})"),
}
#: A tensor that is absent is described too, and never read.
_VIEW = "  const sl_tvm::View view_{name}(in_{name} ? in_{name} : &sl_tvm::nothing);\n"
_OBJECT = "  sl_tvm::Object object_{name}(*known, in_{name});\n"
_folder: list[tempfile.TemporaryDirectory[str]] = []
#: Functions that emitted text has the address of.
_kept: list[Any] = []


def tvm_ffi_library(
    library: Any, schemas: Mapping[str, str], *, fake: Mapping[str, Callable[..., Any]] = {}
) -> dict[str, OwnKernel]:
    """Registers functions of TVM-FFI as ops that compiled programs call directly, by their C symbols.

    A function gets views of the tensors of a call (row-major, on the host), which are its for the call alone; a
    `tvm_ffi.Function` gets tensor objects, which may be written in Python, and an error is told if it keeps one. What the schema
    marks as updated, `Tensor(a!) out`, it writes in place. With a result in the schema it returns a tensor, which is copied. An
    error of it is an OpError with kind, message and the line of the model.

    Args:
        library: A shared library, whose symbols are `__tvm_ffi_<name>`; a `tvm_ffi.Module`; or a `tvm_ffi.Function`.
        schemas: By the function's name, its op: {"rmsnorm": "mylib::rmsnorm(Tensor(a!) out, Tensor x, float eps) -> ()"}.
            Arguments are Tensor, Tensor(a!), Tensor?, int, float, bool, str and dtype.
        fake: By the function's name, as for `c_kernel`: shapes of its result.

    Returns:
        The kernels by the function's name; `torch.ops.mylib.rmsnorm` is an op.

    Raises:
        UserError: Library, symbol or schema are wrong; the message names them.
        UnsupportedError: A type or a number of results that cannot be passed.
    """
    if not schemas or not isinstance(schemas, Mapping):
        raise UserError(f"schemas is {schemas!r} but must have a schema for each function by its name")
    if unknown := sorted(set(fake) - set(schemas)):
        raise UserError(f"fake has {unknown[0]!r}, which is none of the functions {', '.join(schemas)}")
    made: dict[str, OwnKernel] = {}
    try:
        for name, schema in schemas.items():
            made[name] = _kernel(library, name, schema, fake.get(name))
    except BaseException:
        for kernel in made.values():
            kernel.unregister()
        raise
    return made


@dataclass(frozen=True)
class _Callee:
    """What emitted text calls."""

    #: Where it is from, for the text's reader, and so that texts of other functions differ.
    source: str
    before: str
    #: The text that calls it, but for what the schema says.
    call: str
    #: It gets objects of TVM-FFI instead of views on the stack.
    takes_objects: bool
    #: It is an address of this process.
    is_here: bool


def _kernel(library: Any, name: str, schema: str, fake: Callable[..., Any] | None) -> OwnKernel:
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z_]\w*", name) is None:
        raise UserError(f"the function's name is {name!r} but must be an identifier of C")
    parsed = own_schemas.parse(schema)
    if parsed.results > 1:
        raise UnsupportedError(
            f"{parsed.name} has {parsed.results} results, which TVM-FFI gives as an array; nearest supported form: "
            "destinations, Tensor(a!) out"
        )
    _check_types(parsed)
    callee = _callee(library, name)
    text = _text(parsed, name, callee)
    path = _file(name, _compiler.link_text(name, text, [f"call_{name}", f"call_{name}_signature"]))
    kernel = c_kernel(path, f"call_{name}", schema, fake=fake, status=True)
    if callee.is_here:
        _not_saved(kernel, parsed.name)
    return kernel


def _check_types(parsed: Schema) -> None:
    for parameter in parsed.parameters:
        if parameter.is_list:
            raise UnsupportedError(
                f"{parsed.name} has the argument '{parameter.name}' of type {parameter.base}[], which no function of TVM-FFI "
                "is given here; supported are Tensor, Tensor(a!), Tensor?, int, float, bool, str and dtype"
            )


def _text(parsed: Schema, name: str, callee: _Callee) -> str:
    parameters, views, values, objects = [], "", [], []
    for argument in parsed.parameters:
        declared, value = _KINDS.get(argument.base, ("const sl_kernel_tensor* in_{name}", ""))
        parameters.append(declared.format(name=argument.name))
        if value:
            values.append(value.format(name=argument.name))
        elif callee.takes_objects:
            views += _OBJECT.format(name=argument.name)
            values.append(f"object_{argument.name}.any()")
            objects.append(f"&object_{argument.name}")
        else:
            views += _VIEW.format(name=argument.name)
            values.append(f"in_{argument.name} ? sl_tvm::of(view_{argument.name}) : sl_tvm::none()")
    end = "return status;"
    if objects:
        views = _LIBRARY + views + f"  sl_tvm::Object* const objects[] = {{{', '.join(objects)}}};\n"
        end = f"return sl_tvm::giveBack(objects, {len(objects)}, status, message);"
    result = ["const sl_kernel_tensor* result"] if parsed.results else []
    return _TEXT.format(
        op=parsed.name,
        source=callee.source,
        before=callee.before,
        name=name,
        parameters=", ".join([*parameters, *result, "char* message"]),
        views=views,
        values=", ".join(values) or "sl_tvm::none()",
        call=callee.call.format(count=len(values), result="result" if result else "nullptr", end=end),
    )


def _callee(library: Any, name: str) -> _Callee:
    if isinstance(library, (str, os.PathLike)):
        path = os.path.realpath(os.fspath(library))
        _check_symbol(path, name)
        places = {"PATH": c_string(path), "NAME": name}
        before = re.sub("PATH|NAME", lambda place: places[place[0]], _FIND_SYMBOL)
        return _Callee(f"{path}, {_digest(path)}", before, _CALL_SYMBOL, takes_objects=False, is_here=False)
    function, isOfModule = _function_of(library, name)
    _kept.append(function)
    handle = function.__chandle__()
    # TVMFFIFunctionCell stands behind the header of the object; its first member is the safe call.
    safe_call = ctypes.c_void_p.from_address(handle + 24).value
    call = _CALL_ADDRESS.format(safe_call=safe_call, handle=handle, count="{count}", result="{result}", end="{end}")
    return _Callee("a function of this process", "", call, takes_objects=not isOfModule, is_here=True)


def _check_symbol(path: str, name: str) -> None:
    """Opens the library, for as long as the process.

    Raises:
        UserError: It cannot be opened, or has no such symbol.
    """
    try:
        import tvm_ffi  # noqa: F401  (the library needs libtvm_ffi)
    except ModuleNotFoundError as error:
        raise UnsupportedError("this needs TVM-FFI: pip install apache-tvm-ffi") from error
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise UserError(f"the library {path} cannot be opened: {error}") from error
    if not hasattr(opened, f"__tvm_ffi_{name}"):
        raise UserError(f"the library {path} has no symbol __tvm_ffi_{name}: export the function {name!r} of TVM-FFI")


def _digest(path: str) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"the library {path} cannot be read: {error.strerror}") from error
    return own_kernels._digest(data)


def _function_of(library: Any, name: str) -> tuple[Any, bool]:
    """The function, and whether it is one of a module."""
    try:
        import tvm_ffi
    except ModuleNotFoundError as error:
        raise UnsupportedError("this needs TVM-FFI: pip install apache-tvm-ffi") from error
    if isinstance(library, tvm_ffi.Function):
        return library, False
    if not isinstance(library, tvm_ffi.Module):
        raise UserError(
            f"the library is a {type(library).__name__} but must be a path, a tvm_ffi.Module or a tvm_ffi.Function"
        )
    function = library.get_function(name, query_imports=True)
    if function is None:
        raise UserError(f"the module has no function {name!r}")
    return function, True


def _file(name: str, shared: bytes) -> Path:
    """A file for a library that the process opens and saves from."""
    if not _folder:
        _folder.append(tempfile.TemporaryDirectory(prefix="straightline-tvm-"))
        atexit.register(_folder[0].cleanup)
    path = Path(_folder[0].name) / f"{name}-{len(os.listdir(_folder[0].name))}.so"
    path.write_bytes(shared)
    return path


def _not_saved(kernel: OwnKernel, name: str) -> None:
    """A program that calls an address of this process cannot be written."""

    def refuse() -> bytes:
        raise UnsupportedError(
            f"{name} is a function of this process, which no file has; nearest supported form: tvm_ffi_library of the library "
            "that has it, by its path"
        )

    own_kernels._saved[kernel.symbol] = own_kernels.SavedFunction(own_kernels._saved[kernel.symbol].facts, refuse)
