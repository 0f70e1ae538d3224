# SPDX-License-Identifier: Apache-2.0
"""Calls of the backend `aten` that need Python: the check of schemas, and ops that torch's C functions cannot take.

The backend gets three C functions (runtime/backends/aten/aten.h); each takes the GIL when it is called, from any thread.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from straightline import _call
from straightline.errors import InternalError

_MAX_RANK = 8
_DYNAMIC = -(2**63)


class _Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Operand(ctypes.Structure):
    """sl_operand of runtime/abi/kernel.h."""

    _fields_ = [
        ("dtype", _Dtype), ("rank", ctypes.c_int32), ("extents", ctypes.c_int64 * _MAX_RANK),
        ("strides", ctypes.c_int64 * _MAX_RANK), ("constant", ctypes.c_int32),
    ]  # fmt: skip


class _Problem(ctypes.Structure):
    """sl_problem of runtime/abi/kernel.h."""

    _fields_ = [
        ("size", ctypes.c_uint64), ("op", ctypes.c_char_p), ("operands", ctypes.POINTER(_Operand)),
        ("inputs", ctypes.c_int32), ("outputs", ctypes.c_int32), ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_int32), ("threads", ctypes.c_int32), ("vector_bytes", ctypes.c_int32),
        ("l1_bytes", ctypes.c_int64), ("l2_bytes", ctypes.c_int64), ("text", ctypes.c_char_p), ("sizes", ctypes.c_int32),
        ("variant", ctypes.c_int32), ("dot_bf16", ctypes.c_int32), ("device", ctypes.c_char_p),
        ("fma_bytes", ctypes.c_int32),
    ]  # fmt: skip


_Pointers = ctypes.POINTER(ctypes.c_void_p)
_Numbers = ctypes.POINTER(ctypes.c_int64)
_PlanFn = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Problem), _Numbers, ctypes.c_void_p, ctypes.c_int64)
_RunFn = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, _Pointers, _Pointers, _Numbers, ctypes.c_void_p, ctypes.c_int64
)
_ForgetFn = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class _Functions(ctypes.Structure):
    """sl_aten_python of runtime/backends/aten/aten.h."""

    _fields_ = [
        ("size", ctypes.c_uint64), ("plan", _PlanFn), ("run", _RunFn), ("forget", _ForgetFn), ("give", ctypes.c_void_p)
    ]  # fmt: skip


# The text of a call ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TensorAt:
    """`%N` or `@N`: a tensor over input or output `number`."""

    output: bool
    number: int
    dtype: str


@dataclass(frozen=True)
class _Size:
    """`$N`: a number known per call."""

    number: int


_TOKEN = re.compile(
    r"""\s*(?:[A-Za-z_]\w*=)?\??(?:
        (?P<tensor>[%@])(?P<index>\d+)(?::(?P<dtype>\w+))? | \$(?P<size>\d+) | "(?P<text>(?:[^"\\]|\\.)*)"
        | (?P<kind>dtype|layout|device|format)\.(?P<name>\w+) | (?P<word>true|false|none)
        | complex\[(?P<real>NUMBER),\ (?P<imaginary>NUMBER)\] | (?P<number>NUMBER) | (?P<open>\[))""".replace(
        "NUMBER", r"[-+]?(?:inf|nan|\d[\d.]*(?:e[-+]?\d+)?)"
    ),
    re.VERBOSE,
)


def parse_values(line: str) -> list[Any]:
    """Values of one line of the text that runtime/backends/aten/call_text.h describes."""
    values, end = _values(line, 0, "")
    if end != len(line):
        raise InternalError(f"the text of a call ends at {end}: {line!r}")
    return values


def _values(line: str, at: int, closing: str) -> tuple[list[Any], int]:
    values: list[Any] = []
    while at < len(line) and line[at] != closing:
        found = _TOKEN.match(line, at)
        if found is None:
            raise InternalError(f"the text of a call cannot be read at {at}: {line!r}")
        at = found.end()
        if found["open"]:
            value, at = _values(line, at, "]")
            at += 1
        else:
            value = _scalar(found)
        values.append(value)
        at += len(line[at:]) - len(line[at:].lstrip(", "))
    return values, at


def _scalar(found: re.Match[str]) -> Any:
    import torch

    if found["tensor"]:
        return _TensorAt(found["tensor"] == "@", int(found["index"]), found["dtype"] or "")
    if found["size"]:
        return _Size(int(found["size"]))
    if found["text"] is not None:
        return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], found["text"])
    if found["kind"]:
        return torch.device(found["name"]) if found["kind"] == "device" else getattr(torch, found["name"])
    if found["word"]:
        return {"true": True, "false": False, "none": None}[found["word"]]
    if found["real"]:
        return complex(float(found["real"]), float(found["imaginary"]))
    number = found["number"]
    return int(number) if re.fullmatch(r"[-+]?\d+", number) else float(number)


# Planned calls --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """An operand; a size that is known per call is a `_Size`."""

    #: DLPack's code and bits.
    type: tuple[int, int]
    dtype: Any
    extents: tuple[int | _Size, ...]
    strides: tuple[int | _Size, ...]


class _PlannedCall:
    """One op with its arguments over buffers of a program; any thread may run it."""

    def __init__(self, problem: _Problem, lines: list[str]) -> None:
        import torch

        name, overload = lines[0], lines[1] or "default"
        namespace, _, base = name.partition("::")
        self._op = getattr(getattr(getattr(torch.ops, namespace), base), overload)
        self._arguments = parse_values(lines[5])
        self._results = parse_values(lines[6])
        numbers = itertools.count()
        operands = [problem.operands[i] for i in range(problem.inputs + problem.outputs)]
        layouts = [_layout(operand, numbers) for operand in operands]
        self._inputs, self._outputs = layouts[: problem.inputs], layouts[problem.inputs :]
        self._first_size = next(numbers)
        self._device = (problem.device or b"cpu").decode()
        names = [argument.name for argument in self._op._schema.arguments]
        self._keywords = [
            name if argument.kwarg_only else None for name, argument in zip(names, self._op._schema.arguments)
        ]

    def plain(self) -> _call.OpCall | None:
        """The same call for C alone, where it is plain.

        That is: memory of the host, fixed sizes, no empty tensors, each argument a tensor or a constant, each result one tensor
        or none. Everything else is called by `run`.
        """
        import torch

        layouts = [*self._inputs, *self._outputs]
        fixed = all(isinstance(n, int) for layout in layouts for n in (*layout.extents, *layout.strides))
        if self._device != "cpu" or not fixed or any(0 in layout.extents for layout in layouts):
            return None
        if not all(_is_plain(argument) for argument in self._arguments) or not all(
            result is None or (isinstance(result, _TensorAt) and not result.dtype) for result in self._results
        ):
            return None
        named = [keyword is not None for keyword in self._keywords]
        if named != sorted(named):
            return None

        lists: list[tuple[int, ...]] = []

        def place(value: Any) -> int:
            if isinstance(value, list) and any(isinstance(item, _TensorAt) for item in value):
                lists.append(tuple(map(place, value)))
                return -1 - len(lists)
            return value.number + (len(self._inputs) if value.output else 0) if isinstance(value, _TensorAt) else -1

        places = tuple(map(place, self._arguments))

        function, first = _entry(self._op, self._arguments)
        return _call.op_call(
            function,
            first + tuple(argument if at == -1 else None for at, argument in zip(places, self._arguments)),
            tuple(keyword for keyword in self._keywords if keyword is not None),
            torch.is_inference_mode_enabled,
            torch._C._AutoDispatchBelowAutograd,
            _keep,
            _copy,
            (-1,) * len(first) + places,
            tuple(-1 if result is None else result.number for result in self._results),
            tuple((*x.type, x.extents, _as_torch_has_them(x.extents, x.strides)) for x in layouts),
            len(self._inputs),
            tuple(lists),
            _has_autograd(self._op),
        )

    def run(self, number: int, inputs: Any, outputs: Any, sizes: Any) -> None:
        """Calls the op on device `number` and copies its results into the outputs."""
        import torch

        device = self._device if self._device == "cpu" else f"{self._device}:{number}"

        def tensor(place: _TensorAt) -> Any:
            pointers, layouts = (outputs, self._outputs) if place.output else (inputs, self._inputs)
            real = _tensor_at(pointers[place.number], layouts[place.number], sizes, device)
            return torch.view_as_complex(real) if place.dtype else real

        def value(given: Any) -> Any:
            if isinstance(given, _TensorAt):
                return tensor(given)
            if isinstance(given, _Size):
                return sizes[self._first_size + given.number]
            return [value(item) for item in given] if isinstance(given, list) else given

        values = [value(argument) for argument in self._arguments]
        positional = [v for v, keyword in zip(values, self._keywords) if keyword is None]
        named = {keyword: v for v, keyword in zip(values, self._keywords) if keyword is not None}
        returned = self._op(*positional, **named)
        results = returned if len(self._results) > 1 else [returned]
        for place, result in zip(self._results, results):
            _take(place, result, tensor)


def _take(place: Any, result: Any, tensor: Callable[[_TensorAt], Any]) -> None:
    """Copies a result, or the results of a list, to where it belongs."""
    if isinstance(place, list):
        if len(place) != len(result):
            raise RuntimeError(f"gave a list of {len(result)} where its fake kernel said {len(place)}")
        for inner, item in zip(place, result):
            _take(inner, item, tensor)
    elif place is not None:
        _copy(result, tensor(place))


def _copy(result: Any, to: Any) -> None:
    if result.shape != to.shape or result.dtype != to.dtype:
        raise RuntimeError(
            f"gave {result.dtype}{list(result.shape)} where its fake kernel said {to.dtype}{list(to.shape)}"
        )
    to.copy_(result)


def _entry(op: Any, arguments: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that calls an op in the least time, and what it takes before the op's arguments.

    That is torch's dispatcher, which asks no tensor for `__torch_function__`: those of a program are plain. It converts nothing:
    an op of torch's, or one that is given a number for a tensor, is called without the frame of OpOverload.__call__ alone.
    """
    import torch

    plain = (getattr(op, "_op", op), ())
    boxed = getattr(torch._C, "_dispatch_call_boxed", None)
    if op.namespace == "aten" or any(isinstance(argument, bool | int | float | complex) for argument in arguments):
        return plain
    try:
        handle = torch._C._dispatch_find_schema_or_throw(op._schema.name, op._schema.overload_name)
    except RuntimeError:  # one of TorchScript's own, of which the dispatcher knows nothing
        return plain
    return plain if boxed is None else (boxed, (handle,))


def _has_autograd(op: Any) -> bool:
    """Whether autograd has a kernel of the op, or of ops that it is made of: then it costs time, and records nothing here."""
    import torch

    keys = ("Autograd", "AutogradCPU", "ADInplaceOrView", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys)


def _is_plain(argument: Any) -> bool:
    """Whether an argument is a tensor of real numbers, a list of such tensors, or holds none."""
    if isinstance(argument, list):
        if argument and all(isinstance(item, _TensorAt) for item in argument):
            return all(_is_plain(item) for item in argument)
        return not any(isinstance(item, _TensorAt | _Size | list) for item in argument)
    return not isinstance(argument, _Size) and not (isinstance(argument, _TensorAt) and bool(argument.dtype))


def _layout(operand: _Operand, numbers: itertools.count[int]) -> _Layout:
    import torch

    from straightline._call_support import dtype_name

    def known(values: Any) -> tuple[int | _Size, ...]:
        return tuple(_Size(next(numbers)) if values[i] == _DYNAMIC else values[i] for i in range(operand.rank))

    dtype = getattr(torch, dtype_name(operand.dtype.code, operand.dtype.bits))
    kind = (operand.dtype.code, operand.dtype.bits)
    return _Layout(kind, dtype, known(operand.extents), known(operand.strides))


def _as_torch_has_them(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides, those of dims of size 1 as torch's own tensors have them: its kernels choose by these, too."""
    found, span = list(strides), 1  # of the dims behind
    for dim in reversed(range(len(found))):
        if shape[dim] == 1:
            found[dim] = span
        span = max(span, found[dim] * shape[dim])
    return tuple(found)


class _DeviceMemory:
    """Bytes of a device as torch takes them."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 3}


def _tensor_at(address: int | None, layout: _Layout, sizes: Any, device: str) -> Any:
    """A tensor over memory of the program; it must not outlive the call."""
    import torch

    shape = [sizes[n.number] if isinstance(n, _Size) else n for n in layout.extents]
    strides = [sizes[n.number] if isinstance(n, _Size) else n for n in layout.strides]
    strides = _as_torch_has_them(shape, strides)
    if 0 in shape or address is None:
        return torch.empty(shape, dtype=layout.dtype, device=device)
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    if device != "cpu":
        held = torch.as_tensor(_DeviceMemory(address, count * layout.dtype.itemsize), device=device)
        return held.view(layout.dtype).as_strided(shape, strides)
    memory = (ctypes.c_uint8 * (count * layout.dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=layout.dtype, count=count).as_strided(shape, strides)


def _check_schema(lines: list[str]) -> None:
    """Raises when the op is not what was captured."""
    import torch

    name, overload, captured = lines[0], lines[1], lines[4]
    try:
        schema = str(torch._C._get_schema(name, overload))
    except RuntimeError:
        dotted = f"{name}.{overload}" if overload else name
        raise RuntimeError(
            f"torch {torch.__version__} has no op {dotted} in this process: import what registers it"
        ) from None
    if schema != captured:
        raise RuntimeError(
            f"its schema was '{captured}' when the program was captured with torch {lines[2]}, "
            f"but here it is '{schema}': capture the program again"
        )


# The functions that the backend calls ---------------------------------------------------------------------------------

#: By number: `id()` of a call that C runs, a negative one of a call that runs here.
_plans: dict[int, _PlannedCall | _call.OpCall] = {}
_numbers = itertools.count(1)
_errors = threading.local()
_installed: _Functions | None = None


def take_error() -> BaseException | None:
    """Returns what Python code of an op raised last on this thread, and forgets it."""
    error = getattr(_errors, "last", None)
    _errors.last = None
    return error


def _guarded(work: Callable[[], None], message: int, message_bytes: int) -> int:
    """Runs `work`. Keeps an exception for `take_error`, and writes its text."""
    try:
        work()
    except BaseException as error:
        text = _keep(error)[: message_bytes - 1]
        ctypes.memmove(message, text + b"\0", len(text) + 1)
        return 1
    return 0


def _keep(error: BaseException) -> bytes:
    """Keeps an exception for `take_error`; returns its text."""
    _errors.last = error
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return words.encode("utf-8", "replace")


@_PlanFn
def _plan(problem: Any, identity: Any, message: int, message_bytes: int) -> int:
    def work() -> None:
        lines = problem[0].text.decode().split("\n")
        _check_schema(lines)
        if lines[3] == "python":
            call = _PlannedCall(problem[0], lines)
            plain = call.plain()
            identity[0] = -next(_numbers) if plain is None else id(plain)
            _plans[identity[0]] = call if plain is None else plain

    return _guarded(work, message, message_bytes)


@_RunFn
def _run(identity: int, device: int, inputs: Any, outputs: Any, sizes: Any, message: int, message_bytes: int) -> int:
    call = _plans[identity]
    assert isinstance(call, _PlannedCall)
    return _guarded(lambda: call.run(device, inputs, outputs, sizes), message, message_bytes)


def _forget(identity: int) -> None:
    _plans.pop(identity, None)


def install() -> None:
    """Registers these functions with the backend, if it is there. Repeating this is harmless."""
    global _installed
    address = _call.symbol("sl_aten_set_python")
    if _installed is not None or address == 0:
        return
    here = ctypes.cast(_run, ctypes.c_void_p).value
    run, forget, give = _call.op_call_functions(here, _forget)
    _installed = _Functions(ctypes.sizeof(_Functions), _plan, _RunFn(run), _ForgetFn(forget), give)
    setter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Functions))(address)
    setter(ctypes.pointer(_installed))
    atexit.register(setter, ctypes.POINTER(_Functions)())
