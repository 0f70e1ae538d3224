# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM-FFI as ops: `sl.tvm_ffi_library`. docs/design/ffi.md says how.

Each becomes an own kernel (own_kernels.py): emitted text that makes views of its tensors and calls the C symbol.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from straightline import _compiler, own_kernels, own_schemas
from straightline._ffi_signature import c_string
from straightline.errors import UnsupportedError, UserError
from straightline.own_kernels import OwnKernel
from straightline.own_schemas import Schema

_TEXT = """// {op}: calls a function of TVM-FFI, emitted by straightline.
// {source}
#include <straightline/abi/tvm_kernel.h>

{before}
SL_KERNEL_FUNCTION(int32_t, call_{name}, {parameters}) {{
{site}{views}  const sl_tvm::Any arguments[] = {{{values}}};
{call}}}
"""
#: Calls a function so that an exception of it is no end of the process (own_kernel.h).
_GUARD = """extern "C" {
extern SL_KERNEL_EXTERN_VISIBLE void* call_NAME_guard;
void* call_NAME_guard;
}
"""
#: The function of a library, which is opened with this one (own_kernel.h).
_GIVEN_SYMBOL = """extern "C" {
extern SL_KERNEL_EXTERN_VISIBLE const char call_NAME_needs[];
const char call_NAME_needs[] = SYMBOL;
extern SL_KERNEL_EXTERN_VISIBLE void* call_NAME_given;
void* call_NAME_given;
}
"""
_CALLEE_SYMBOL = """  const auto function =
      reinterpret_cast<sl_tvm::Call>(__atomic_load_n(&call_{name}_given, __ATOMIC_ACQUIRE));
  void* const self = nullptr;
"""
#: A function of this process by its address.
_CALLEE_ADDRESS = """  const auto function = reinterpret_cast<sl_tvm::Call>({safe_call}UL);
  void* const self = reinterpret_cast<void*>({handle}UL);
"""
_CALL = """  const int32_t status = sl_tvm::call(
      site, &call_{name}_guard, function, self, arguments, {count}, {results}, sl_tvm::Returned::{returned}, message);
  return {end};
"""
_ON_HOST = "  const sl_tvm::Site site;\n"
_ON_DEVICE = """  sl_tvm::Site site;
  if (!sl_tvm::onDevice(stream, {workspace}, &site, message)) {{
    return 1;
  }}
"""
_PLANS = """  if (sl_tvm::isCaptured(site, "{what}", message)) {{
    return 1;
  }}
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
#: By the type of a list's elements: what the C function gets beside their count.
_LISTS = {
    "Tensor": "const sl_kernel_tensor* in_{name}, int64_t in_{name}_count",
    "int": "const int64_t* in_{name}, int64_t in_{name}_count",
    "SymInt": "const int64_t* in_{name}, int64_t in_{name}_count",
    "float": "const double* in_{name}, int64_t in_{name}_count",
}
#: A tensor that is absent is described too, and never read.
_VIEW = "  const sl_tvm::View view_{name}(site, in_{name} ? in_{name} : &sl_tvm::nothing);\n"
_OBJECT = "  sl_tvm::Object object_{name}(*known, site, in_{name});\n"
_COPY = """  const sl_tvm::HostCopy copy_{name}(site, in_{name} ? in_{name} : &sl_tvm::nothing, message);
  if (!copy_{name}.tensor()) {{
    return 1;
  }}
"""
_SCRATCH = """  const sl_tvm::HostScratch copy_{name}(site, in_{name}, message);
  if (!copy_{name}.tensor()) {{
    return 1;
  }}
"""
_VIEW_OF_COPY = "  const sl_tvm::View view_{name}(sl_tvm::Site(), copy_{name}.tensor());\n"
_OBJECT_OF_COPY = "  sl_tvm::Object object_{name}(*known, sl_tvm::Site(), {given}copy_{name}.tensor());\n"
_LIST = """  sl_tvm::List list_{name}(*known, {site}in_{name}, in_{name}_count, message);
  if (!list_{name}.isGood()) {{
    return 1;
  }}
"""
_NUMBERS = """  sl_tvm::List list_{name}(
      *known, static_cast<const int64_t*>(in_{name}->data), in_{name}->extents[0], message);
  if (!list_{name}.isGood()) {{
    return 1;
  }}
"""
#: Of each tensor that the environment's allocator gives of a workspace (runtime/abi/tvm_kernel.h).
_ALIGNMENT = 64
_folder: list[tempfile.TemporaryDirectory[str]] = []
_numbers_of_files = itertools.count()  # also of several threads
#: Functions that emitted text has the address of.
_kept: list[Any] = []


def tvm_ffi_library(
    library: Any,
    schemas: Mapping[str, str],
    *,
    device: str = "cpu",
    workspace: Mapping[str, int | Callable[..., int]] = {},
    plans: Mapping[str, Sequence[str] | Mapping[str, str]] = {},
    numbers: Mapping[str, int | Sequence[str]] = {},
    fake: Mapping[str, Callable[..., Any]] = {},
) -> dict[str, OwnKernel]:
    """Registers functions of TVM-FFI as ops that compiled programs call directly, by their C symbols.

    A function gets views of the tensors of a call (row-major), which are its for the call alone; a `tvm_ffi.Function`, which may
    be written in Python, gets tensor objects, as lists do; an error is told if one is kept. What the schema marks as updated,
    `Tensor(a!) out`, it writes in place. With results in the schema it returns a tensor, or an array of them, which are copied.
    An error of it is an OpError with kind, message and the line of the model.

    With `device="cuda"` a function launches on the environment's current stream, which is that of the call, and what it launches
    becomes a part of the call's graph: it must do nothing else on the host that a later launch depends on.

    Args:
        library: A shared library, whose symbols are `__tvm_ffi_<name>`; a `tvm_ffi.Module`; or a `tvm_ffi.Function`.
        schemas: By the function's name, its op: {"rmsnorm": "mylib::rmsnorm(Tensor(a!) out, Tensor x, float eps) -> ()"}.
            Arguments are Tensor, Tensor(a!), Tensor?, Tensor[], Tensor(a!)[], int, float, bool, str, dtype, int[] and float[].
        device: "cpu", or "cuda" for functions that take tensors of a CUDA device.
        workspace: On a device, by the function's name: the bytes that it may ask the environment for in a call, or a function of
            the arguments that gives them. Results have room beside it.
        plans: On a device, by the function's name: it plans on the host before each launch, so it is called in each run, ahead
            of the graph of what follows. It gets copies on the host of the tensors that are named. Of {"indptr": "copy",
            "locked": "scratch"} the second is an int of the schema, in whose place it gets that many bytes on the host.
        numbers: By the function's name: how many ints it returns as an array, which are the schema's result, a Tensor of
            int64; or the names of tensors that it gets as arrays of ints. On a device these tensors are on the host, and
            both functions are called in each run.
        fake: By the function's name, as for `c_kernel`: shapes of its results.

    Returns:
        The kernels by the function's name; `torch.ops.mylib.rmsnorm` is an op.

    Raises:
        UserError: Library, symbol or schema are wrong; the message names them.
        UnsupportedError: A type that cannot be passed.
    """
    if not schemas or not isinstance(schemas, Mapping):
        raise UserError(f"schemas is {schemas!r} but must have a schema for each function by its name")
    if device not in ("cpu", "cuda"):
        raise UserError(f'device is {device!r} but must be "cpu" or "cuda"')
    for option, given in (("fake", fake), ("workspace", workspace), ("plans", plans), ("numbers", numbers)):
        if unknown := sorted(set(given) - set(schemas)):
            raise UserError(f"{option} has {unknown[0]!r}, which is none of the functions {', '.join(schemas)}")
        if given and device == "cpu" and option in ("workspace", "plans"):
            raise UserError(f'{option} is for functions of a device: give device="cuda"')
    made: dict[str, OwnKernel] = {}
    try:
        for name, schema in schemas.items():
            wanted = _Wanted.of(
                device == "cuda", workspace.get(name, 0), plans.get(name), numbers.get(name, ()), fake.get(name)
            )
            made[name] = _kernel(library, name, schema, wanted)
    except BaseException:
        for kernel in made.values():
            kernel.unregister()
        raise
    return made


@dataclass(frozen=True)
class _Wanted:
    """What was said of one function beside its schema."""

    on_device: bool
    workspace: int | Callable[..., int]
    #: Whether it plans on the host; tensors that it reads there, and ints in whose place it gets memory there.
    plans: bool
    copies: tuple[str, ...]
    scratch: tuple[str, ...]
    #: How many numbers it returns (0: none, but tensors), and the tensors that it gets as numbers.
    count: int
    numbers: tuple[str, ...]
    fake: Callable[..., Any] | None

    @classmethod
    def of(
        cls, on_device: bool, workspace: Any, plans: Any, numbers: Any, fake: Callable[..., Any] | None
    ) -> _Wanted:  # fmt: skip
        roles = plans if isinstance(plans, Mapping) else dict.fromkeys(plans or (), "copy")
        if wrong := next((name for name, role in roles.items() if role not in ("copy", "scratch")), None):
            raise UserError(f'plans has {wrong!r}: {roles[wrong]!r}, expected "copy" or "scratch"')
        copies, scratch = (tuple(n for n, role in roles.items() if role == each) for each in ("copy", "scratch"))
        is_count = isinstance(numbers, int) and not isinstance(numbers, bool)
        if is_count and numbers < 1 or not is_count and (isinstance(numbers, str) or not isinstance(numbers, Sequence)):
            raise UserError(f"numbers has {numbers!r}, expected how many it returns, from 1 on, or names of arguments")
        return cls(
            on_device, workspace, plans is not None, copies, scratch, numbers if is_count else 0,
            () if is_count else tuple(numbers), fake,
        )  # fmt: skip

    @property
    def outside(self) -> str:
        """Why it is called in each run and is no part of a graph; "": it is one."""
        if not self.on_device or not (self.plans or self.count or self.numbers):
            return ""
        planning = "it plans on the host before each launch"
        return planning if self.plans or self.count else "it gets the numbers of a plan that is made before each launch"


@dataclass(frozen=True)
class _Callee:
    """What emitted text calls."""

    #: Where it is from, for the text's reader, and so that texts of other functions differ.
    source: str
    before: str
    #: The text that finds the function.
    find: str
    #: It gets objects of TVM-FFI instead of views on the stack.
    takes_objects: bool
    #: The symbol of a library's function (own_kernels.py); "": it is an address of this process.
    symbol: str


def _kernel(library: Any, name: str, schema: str, wanted: _Wanted) -> OwnKernel:
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z_]\w*", name) is None:
        raise UserError(f"the function's name is {name!r} but must be an identifier of C")
    parsed = own_schemas.parse(schema)
    _check_types(parsed)
    _check_plans(parsed, wanted)
    _check_numbers(parsed, wanted)
    callee = _callee(library, name)
    scratch = _workspace(parsed, wanted)
    text = _text(parsed, name, callee, wanted, has_workspace=callable(scratch) or bool(scratch))
    exports = [
        f"call_{name}{end}" for end in ("", "_signature", "_guard", *(("_needs", "_given") if callee.symbol else ()))
    ]
    path = file_of(name, _compiler.link_text(name, text, exports))
    kernel = own_kernels.registered(
        path,
        f"call_{name}",
        schema,
        fake=functools.partial(_numbers, wanted.count) if wanted.count else wanted.fake,
        workspace=scratch,
        status=True,
        stream=wanted.on_device,
        device=wanted.on_device,
        outside=bool(wanted.outside),
        effectful=bool(wanted.count and wanted.on_device),  # not ahead of a run, nor one for two of a run
        numbers=wanted.numbers,
        gives_numbers=bool(wanted.count),
        needs=callee.symbol,
    )
    if callee.symbol:
        own_kernels.saved_with(kernel)
    else:
        own_kernels.not_saved(
            kernel,
            f"{parsed.name} is a function of this process, which no file has; nearest supported form: tvm_ffi_library of the "
            "library that has it, by its path",
        )
    return kernel


def _check_types(parsed: Schema) -> None:
    for parameter in parsed.parameters:
        fits = parameter.base in _LISTS if parameter.is_list else parameter.kind == "tensor" or parameter.base in _KINDS
        if not fits or (parameter.is_list and parameter.is_optional):
            shown = parameter.base + ("?" if parameter.is_optional else "") + ("[]" if parameter.is_list else "")
            raise UnsupportedError(
                f"{parsed.name} has the argument '{parameter.name}' of type {shown}, which no function of TVM-FFI is given; "
                "supported are Tensor, Tensor(a!), Tensor?, Tensor[], Tensor(a!)[], int, float, bool, str, dtype, int[], float[]"
            )


def _check_plans(parsed: Schema, wanted: _Wanted) -> None:
    """What a planning function reads on the host are tensors of its schema that it does not update."""
    parameters = {parameter.name: parameter for parameter in parsed.parameters}
    for name in wanted.copies:
        parameter = parameters.get(name)
        if parameter is None or parameter.kind != "tensor" or parameter.is_list:
            raise UserError(f"plans has {name!r}, which is no tensor among the arguments of {parsed.name}")
        if parameter.is_updated:
            raise UserError(
                f"plans has {name!r}, which {parsed.name} updates, and which would be a copy on the host: leave it on the device"
            )
    for name in wanted.scratch:
        parameter = parameters.get(name)
        if parameter is None or parameter.base != "int" or parameter.is_list:
            raise UserError(
                f'plans has {name!r}: "scratch", which is no int among the arguments of {parsed.name}: the bytes on the host '
                "that it gets are an int of the schema"
            )


def _check_numbers(parsed: Schema, wanted: _Wanted) -> None:
    """Numbers are the only result, or tensors that it reads."""
    if wanted.count and parsed.results != 1:
        raise UserError(
            f"numbers says that {parsed.name} returns {wanted.count} numbers, but its schema has {parsed.results} results: they "
            "are one, -> Tensor"
        )
    if wanted.count and wanted.fake is not None:
        raise UserError(
            f"fake has {parsed.name}, whose result is the {wanted.count} numbers of numbers=: leave one out"
        )
    parameters = {parameter.name: parameter for parameter in parsed.parameters}
    for name in wanted.numbers:
        parameter = parameters.get(name)
        if parameter is None or parameter.kind != "tensor" or parameter.is_list or parameter.is_optional:
            raise UserError(f"numbers has {name!r}, which is no Tensor among the arguments of {parsed.name}")
        if parameter.is_updated or name in wanted.copies:
            why = "updates" if parameter.is_updated else "has in plans="
            raise UserError(
                f"numbers has {name!r}, which {parsed.name} {why}: numbers are read alone, and are on the host"
            )


def _numbers(count: int, *_: Any, **__: Any) -> Any:
    """The result of a function that returns numbers."""
    import torch

    return torch.empty(count, dtype=torch.int64, device="cpu")


def _workspace(parsed: Schema, wanted: _Wanted) -> int | Callable[..., int]:
    """What the environment's allocator gives in a call on a device: also the results, before they are copied."""
    given, fake = wanted.workspace, wanted.fake
    if not wanted.on_device or not parsed.results or wanted.count:
        return given

    def bytes_of(*args: Any) -> int:
        import torch

        own = given(*args) if callable(given) else given
        if fake is None:
            first = next((each for each in args if isinstance(each, torch.Tensor)), None)
            made = [first] * parsed.results if first is not None else []
        else:
            shaped = fake(*args)
            made = list(shaped) if isinstance(shaped, (list, tuple)) else [shaped]
        return int(own + sum(each.numel() * each.element_size() + _ALIGNMENT for each in made if each is not None))

    return bytes_of


@dataclass
class _Pieces:
    """What the text has for the arguments of a function."""

    parameters: list[str] = field(default_factory=list)
    #: Statements that make views, objects and lists.
    views: str = ""
    values: list[str] = field(default_factory=list)
    #: Addresses of what is given back when the function has returned.
    objects: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)

    def add_list(self, name: str, text: str) -> None:
        self.views += text
        self.values.append(f"list_{name}.any()")
        self.lists.append(f"&list_{name}")

    def add_object(self, name: str, text: str) -> None:
        self.views += text
        self.values.append(f"object_{name}.any()")
        self.objects.append(f"&object_{name}")


def _pieces(parsed: Schema, callee: _Callee, wanted: _Wanted) -> _Pieces:
    made = _Pieces()
    for argument in parsed.parameters:
        name = argument.name
        if argument.is_list:
            site = "site, " if argument.kind == "tensor" else ""
            made.parameters.append(_LISTS[argument.base].format(name=name))
            made.add_list(name, _LIST.format(name=name, site=site))
            continue
        declared, value = _KINDS.get(argument.base, ("const sl_kernel_tensor* in_{name}", ""))
        made.parameters.append(declared.format(name=name))
        if name in wanted.numbers:
            made.add_list(name, _NUMBERS.format(name=name))
        elif name in wanted.copies or name in wanted.scratch:
            made.views += (_SCRATCH if name in wanted.scratch else _COPY).format(name=name)
            absent = f"!in_{name} ? nullptr : " if name in wanted.copies else ""
            if callee.takes_objects:
                made.add_object(name, _OBJECT_OF_COPY.format(name=name, given=absent))
            else:
                made.views += _VIEW_OF_COPY.format(name=name)
                made.values.append(f"{absent.replace('nullptr', 'sl_tvm::none()')}sl_tvm::of(view_{name})")
        elif value:
            made.values.append(value.format(name=name))
        elif callee.takes_objects:
            made.add_object(name, _OBJECT.format(name=name))
        else:
            made.views += _VIEW.format(name=name)
            made.values.append(f"in_{name} ? sl_tvm::of(view_{name}) : sl_tvm::none()")
    return made


def _text(parsed: Schema, name: str, callee: _Callee, wanted: _Wanted, *, has_workspace: bool) -> str:
    made = _pieces(parsed, callee, wanted)
    views, end = made.views, "status"
    for kind, names in (("Object", made.objects), ("List", made.lists)):
        if names:
            views += f"  sl_tvm::{kind}* const {kind.lower()}s[] = {{{', '.join(names)}}};\n"
            end = f"sl_tvm::giveBack({kind.lower()}s, {len(names)}, {end}, message)"
    if made.objects or made.lists:
        views = _LIBRARY + views
    results = [f"result_{i}" for i in range(parsed.results)]
    if results:
        views += f"  const sl_kernel_tensor* const results[] = {{{', '.join(results)}}};\n"
    parameters = made.parameters + [f"const sl_kernel_tensor* {result}" for result in results]
    parameters += ["void* workspace", "int64_t workspace_bytes"] if has_workspace else []
    parameters += ["void* stream"] if wanted.on_device else []
    site = _ON_DEVICE.format(workspace="workspace, workspace_bytes" if has_workspace else "nullptr, 0")
    if wanted.outside:
        site += _PLANS.format(what=wanted.outside)
    return _TEXT.format(
        op=parsed.name,
        source=callee.source,
        before=_GUARD.replace("NAME", name) + callee.before,
        name=name,
        parameters=", ".join([*parameters, "char* message"]),
        site=site if wanted.on_device else _ON_HOST,
        views=views,
        values=", ".join(made.values) or "sl_tvm::none()",
        call=callee.find
        + _CALL.format(
            name=name,
            count=len(made.values),
            results=f"results, {len(results)}" if results else "nullptr, 0",
            returned="numbers" if wanted.count else "tensors",
            end=end,
        ),
    )


def _callee(library: Any, name: str) -> _Callee:
    if isinstance(library, (str, os.PathLike)):
        path = os.path.realpath(os.fspath(library))
        _tvm_ffi()  # the library needs libtvm_ffi
        symbol = own_kernels.opened(path, f"__tvm_ffi_{name}")
        places = {"NAME": name, "SYMBOL": c_string(symbol)}
        before = re.sub("NAME|SYMBOL", lambda place: places[place[0]], _GIVEN_SYMBOL)
        source = f"__tvm_ffi_{name} of {os.path.basename(path)}"
        return _Callee(source, before, _CALLEE_SYMBOL.format(name=name), takes_objects=False, symbol=symbol)
    function, of_module = _function_of(library, name)
    _kept.append(function)
    handle = function.__chandle__()
    # TVMFFIFunctionCell stands behind the header of the object; its first member is the safe call.
    safe_call = ctypes.c_void_p.from_address(handle + 24).value
    find = _CALLEE_ADDRESS.format(safe_call=safe_call, handle=handle)
    return _Callee("a function of this process", "", find, takes_objects=not of_module, symbol="")


def _tvm_ffi() -> Any:
    """The package.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import tvm_ffi
    except ModuleNotFoundError as error:
        raise UnsupportedError("this needs TVM-FFI: pip install apache-tvm-ffi") from error
    return tvm_ffi


def _function_of(library: Any, name: str) -> tuple[Any, bool]:
    """The function, and whether it is one of a module."""
    tvm_ffi = _tvm_ffi()
    if isinstance(library, tvm_ffi.Function):
        return library, False
    if not isinstance(library, tvm_ffi.Module):
        raise UserError(
            f"the library is a {type(library).__name__} but must be a path, a tvm_ffi.Module or a tvm_ffi.Function"
        )
    try:
        return library.get_function(name, query_imports=True), True
    except AttributeError as error:
        raise UserError(f"the module has no function {name!r}") from error


def file_of(name: str, shared: bytes) -> Path:
    """A file for a library that the process opens and saves from."""
    if not _folder:
        _folder.append(tempfile.TemporaryDirectory(prefix="straightline-tvm-"))
        atexit.register(_folder[0].cleanup)
    path = Path(_folder[0].name) / f"{name}-{next(_numbers_of_files)}.so"
    path.write_bytes(shared)
    return path
