# SPDX-License-Identifier: Apache-2.0
"""Programs of one op: what the C++ part asks for when its table does not have a call (native/eager.cpp)."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from straightline import _call
from straightline.errors import InternalError, StraightlineError
from straightline.torch_device import decompositions

FUNCTION, MUTATES, REFUSED, ON_HOST = range(4)

#: Ops that torch would decompose into several of its own before they come to the device, and that are one program here.
_WHOLE = (
    "aten::native_layer_norm",
    "aten::native_group_norm",
    "aten::embedding",
    "aten::logsumexp",
    "aten::repeat",
    *decompositions.FUSED,
    *decompositions.ALIASES[:2],
)


#: Ops whose results depend on data only where an index is a mask, which the C++ part makes numbers of.
_MASKED = ("aten::index", "aten::_unsafe_index", "aten::index_put", "aten::_index_put_impl")


def direct_ops() -> list[str]:
    """Ops that get the device's kernel by name: those that torch would do by their `out` form, and a few more."""
    import torch

    found = []
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutogradNonFunctional"):
        if name.startswith("aten::") and not any(argument.is_out for argument in _schema(name).arguments):
            found.append(name)
    known = set(torch._C._dispatch_get_all_op_names())
    own = set(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))
    return [name for name in (*found, *(one for one in _WHOLE if one in known)) if name not in own]


def _overload(name: str) -> Any:
    """The op of "aten::add.Tensor"."""
    import torch

    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def _schema(name: str) -> Any:
    return _overload(name)._schema


def _signature(schema: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]


def function_of(op: Any) -> Any | None:
    """The op that computes what `op` writes into its arguments: add.Tensor of add_.Tensor and of add.out; None: there is none."""
    import torch

    namespace, _, base = op._schema.name.partition("::")
    packets = [base]
    if base.endswith("_") and not base.endswith("__"):
        packets = [base[:-1]]
    for packet in packets:
        found = getattr(getattr(torch.ops, namespace), packet, None)
        for overload in found.overloads() if found is not None else ():
            candidate = getattr(found, overload)
            if not candidate._schema.is_mutable and _signature(candidate._schema) == _signature(op._schema):
                return candidate
    return None


class Builder:
    """Answers the C++ part, on a thread of its own: torch captures nothing within an op."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="straightline-torch-device")
        self._worker: int | None = None
        self._numbers = itertools.count(1)
        #: (op, route) of each program, by its number.
        self.routes: dict[int, tuple[str, str]] = {}

    def _on_own_thread(self, work: Callable[[], Any]) -> Any:
        if threading.get_ident() == self._worker:
            return work()

        def noted() -> Any:
            self._worker = threading.get_ident()
            return work()

        return self._pool.submit(noted).result()

    def plan(self, name: str) -> tuple[int, str, list[int]]:
        """How an op runs: its kind, with the function's name or why it cannot, and the numbers of arguments that it writes."""
        op = _overload(name)
        why = _why_not(op)
        if why:
            return (ON_HOST, "", []) if _host_is_allowed() else (REFUSED, why, [])
        if not op._schema.is_mutable:
            return FUNCTION, "", []
        function = function_of(op)
        written = [
            i for i, one in enumerate(op._schema.arguments) if one.alias_info is not None and one.alias_info.is_write
        ]
        if function is None or len(function._schema.returns) != len(written) or _why_not(function):
            if _host_is_allowed():
                return ON_HOST, "", []
            return (
                REFUSED,
                _why_not(function) if function else "there is no function of torch that computes what it writes",
                [],
            )
        return MUTATES, function.name(), written

    def build(
        self, name: str, arguments: list[Any], tensors: list[Any], dynamic: bool
    ) -> tuple[Any, ...] | dict[str, str] | str | None:
        """A program for a call: its addresses and what the C++ part needs to know, or why there is none; None: on the host.

        A dict is an `error` that torch raises for such a call on any device, by the name of its class, with its `text`.

        Args:
            name: Of the op.
            arguments: Its arguments; tensors among them are those of `tensors`, in that order.
            tensors: As the program will get them.
            dynamic: Sizes from 2 on are named, equal ones by the same name.
        """
        answer = self._on_own_thread(lambda: self._built(name, arguments, tensors, dynamic))
        return None if isinstance(answer, str) and not dynamic and _host_is_allowed() else answer

    def _built(
        self, name: str, arguments: list[Any], tensors: list[Any], dynamic: bool
    ) -> tuple[Any, ...] | dict[str, str] | str:
        import torch

        import straightline

        examples = tuple(tensor.detach() for tensor in tensors)
        named = _named_sizes(examples) if dynamic else None
        index = examples[0].device.index if examples else torch.get_device_module(self._device).current_device()
        if not examples:
            return "it has no tensor on the device"
        op = _overload(name)
        refusal = ""
        for way in _ways(name, op, arguments):
            model, returns, complexes = _one_op(op, way, arguments, len(tensors))
            try:
                with torch.get_device_module(self._device).device(index), torch.no_grad(), _quiet():
                    function = straightline.compile(model, examples, dynamic_shapes=named)
                break
            except StraightlineError as error:
                refusal = refusal or (f"internal error: {error}" if isinstance(error, InternalError) else str(error))
            except Exception as error:  # torch's capture refuses an op in many ways
                refusal = refusal or f"{type(error).__name__}: {error}"
        else:
            return _error_of_torch(op, arguments) or refusal
        program, weights = _call.handles(function)
        number = next(self._numbers)
        self.routes[number] = (name, _route(function))
        return program, weights, list(range(len(tensors))), returns, number, function, complexes


def _error_of_torch(op: Any, arguments: list[Any]) -> dict[str, str] | None:
    """What torch raises for a call on any device: found without data."""
    import torch

    def without_data(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        if isinstance(value, torch.device):
            return torch.device("meta")
        return [without_data(one) for one in value] if isinstance(value, list) else value

    try:
        values = [without_data(value) for value in arguments]
        with torch.no_grad(), _quiet():
            _called(op, _own_or_by_numbers(op, arguments), values)
    except NotImplementedError:
        return None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        text = str(error).replace("torch.Tensor.", "")
        kinds = (IndexError, ValueError, TypeError)
        kind = next((one.__name__ for one in kinds if isinstance(error, one)), "RuntimeError")
        return None if "meta" in text.lower() else {"error": kind, "text": text}
    except Exception:  # a mistake of torch's own: it says nothing about the call
        return None
    return None


def _why_not(op: Any) -> str:
    """Why no program can do an op; "": one may."""
    import torch

    schema = op._schema
    if torch.Tag.dynamic_output_shape in op.tags and schema.name not in _MASKED:
        return "the size of its result depends on data"
    if schema.name.startswith(("aten::_to_sparse", "aten::to_mkldnn")):
        return "its result is no dense tensor, and those of the device are dense"
    if torch.Tag.data_dependent_output in op.tags or any("Tensor" not in str(one.type) for one in schema.returns):
        return "its result is not a tensor"
    if torch.Tag.nondeterministic_seeded in op.tags:
        return "it draws random numbers in a way that the device has not"
    return ""


def _host_is_allowed() -> bool:
    """Whether rules give ops of the device to the host (`* = auto, cpu`)."""
    from straightline import routing

    allows = getattr(routing, "gives_to_host", None)
    return bool(allows is not None and allows({}))


def _named_sizes(tensors: Sequence[Any]) -> tuple[dict[int, Any], ...]:
    import torch

    names: dict[int, Any] = {}
    spec = []
    for tensor in tensors:
        dims = {}
        for dim, size in enumerate(tensor.shape):
            if size > 1:
                dims[dim] = names.setdefault(size, torch.export.Dim(f"s{len(names)}"))
        spec.append(dims)
    return tuple(spec)


@contextlib.contextmanager
def _quiet() -> Any:
    """Without warnings of the capture: an eager op has not asked for one."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _ways(name: str, op: Any, arguments: list[Any]) -> Iterator[Callable[..., Any]]:
    """The op itself, then what computes the same by other ops."""
    import torch

    kinds = [str(one.type) for one in op._schema.arguments]
    if any(kind == "number" and isinstance(one, torch.Tensor) for kind, one in zip(kinds, arguments, strict=True)):
        yield decompositions.BY_TENSOR[name]
        return
    other = decompositions.of(name, op)
    if name not in decompositions.ALIASES:
        yield _own_or_by_numbers(op, arguments)
    if other is not None:
        yield other


def _own_or_by_numbers(op: Any, arguments: list[Any]) -> Callable[..., Any]:
    """The op; where torch has wrapped a number of the caller's as a tensor, the overload of its name that takes numbers."""
    kinds = [str(one.type) for one in op._schema.arguments]
    has_number = any(
        kind == "Tensor" and isinstance(one, (bool, int, float, complex))
        for kind, one in zip(kinds, arguments, strict=True)
    )
    return op.overloadpacket if has_number else op


def _called(op: Any, way: Callable[..., Any], values: list[Any]) -> Any:
    arguments = op._schema.arguments
    positional = [value for value, one in zip(values, arguments, strict=True) if not one.kwarg_only]
    return way(*positional, **{one.name: value for value, one in zip(values, arguments, strict=True) if one.kwarg_only})


def _one_op(op: Any, way: Callable[..., Any], arguments: list[Any], count: int) -> tuple[Any, list[Any], list[int]]:
    """A module that computes the op in a way, and, once it was called, what is known of its results.

    For each return of the op: which of the results it is; and the numbers of results that are complex.
    """
    import torch

    returns: list[Any] = []
    complexes: list[int] = []

    def called(given: Sequence[Any]) -> tuple[Any, ...]:
        rest = iter(given)

        def filled(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return next(rest)
            return [filled(one) for one in value] if isinstance(value, list) else value

        result = _called(op, way, [filled(value) for value in arguments])
        flat: list[Any] = []
        returns.clear()
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, (list, tuple)):
                returns.append([*range(len(flat), len(flat) + len(one))])
                flat.extend(one)
            elif one is None:
                returns.append(-1)
            else:
                returns.append(len(flat))
                flat.append(one)
        complexes[:] = [i for i, one in enumerate(flat) if one.is_complex()]
        return tuple(flat)

    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"called": called}
    exec(f"def forward(self, {names}):\n    return called(({names},))\n", scope)
    module = type(op._schema.name.partition("::")[2], (torch.nn.Module,), {"forward": scope["forward"]})
    return module().eval(), returns, complexes


def _route(function: Any) -> str:
    """Kernels of a program, for people."""
    rows = function.explain().facts.get("statements", []) if hasattr(function.explain(), "facts") else []
    found = dict.fromkeys(str(row.get("kernel", "")) for row in rows if row.get("kernel") not in (None, "", "copy"))
    return ", ".join(found) or "no kernel"


def counts(native: Any) -> list[dict[str, Any]]:
    """Calls so far by op and route, those with the most calls first."""
    builder = _builder
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for number, calls in native.program_calls():
        op, route = builder.routes[number] if builder else ("", "")
        row = rows.setdefault((op, route), {"op": op, "route": route, "calls": 0, "programs": 0})
        row["calls"] += calls
        row["programs"] += 1
    for op, calls in native.host_calls():
        rows[op, "cpu"] = {"op": op, "route": "cpu", "calls": calls, "programs": 0}
    return sorted(rows.values(), key=lambda row: -row["calls"])


_builder: Builder | None = None


def new_builder(device: str) -> Builder:
    """The builder of this process."""
    global _builder
    _builder = Builder(device)
    return _builder
