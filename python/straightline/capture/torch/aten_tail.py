# SPDX-License-Identifier: Apache-2.0
"""The long tail: an op without a converter becomes one `op.aten`, which calls it by name while running.

The text of its arguments is read by the backend `aten` (runtime/backends/aten/call_text.h says how it is written) and, for
what torch's C functions cannot take, by `straightline._aten_calls`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from straightline import own_kernels
from straightline.capture.builder import Attr, Dims, Extent, TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.torch.importer import Complex, Importer
from straightline.capture.torch.own_ops import call_own, element_of
from straightline.capture.torch.symbolic_sizes import DEPENDS_ON_DATA

#: Dispatch keys under which a kernel of an op runs on the CPU.
_CPU_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")

#: Element types of quantised tensors, which hold scales besides; fake tensors say float32 of what an op makes of them.
_QUANTISED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)

#: torch's number of int64 (c10::ScalarType), which is how schemas give a default dtype (`randint`).
_INT64 = 4

#: Ops whose results depend on strides and storage, which are our own choice.
_READS_STORAGE = frozenset(f"aten::{name}" for name in ("set", "resize", "resize_as"))

#: Ops with an argument that says whether some of their results are wanted (by number). torch's own svdvals and eigvalsh
#: want no vectors, but over fake tensors they ask for them.
_WANTED = {"aten::_linalg_svd": ("compute_uv", (0, 2)), "aten::_linalg_eigh": ("compute_v", (1,))}


def reads_storage(op: torch._ops.OpOverload) -> bool:
    """Whether results of the op depend on strides and storage of its arguments."""
    return op.name().partition(".")[0].removesuffix("_") in _READS_STORAGE


@dataclass
class _Encoder:
    """The text of one call: collects its tensors as operands and its named extents."""

    operands: list[Tensor] = field(default_factory=list)
    sizes: list[Extent] = field(default_factory=list)
    #: Why the dispatcher's C function cannot make the call; set by the first argument that it cannot take.
    python: str = ""
    #: Argument name -> number of the result that it is updated in.
    updated: dict[str, int] = field(default_factory=dict)

    def argument(self, declared: Any, value: Any) -> str:
        """`name=value` for one argument of the schema."""
        if declared.name in self.updated:
            return f"{declared.name}=@{self.updated[declared.name]}{_suffix(value)}"
        if isinstance(value, (list, tuple)) and declared.alias_info is not None and declared.alias_info.is_write:
            names = [f"{declared.name}.{i}" for i in range(len(value))]
            items = (
                f"@{self.updated[n]}{_suffix(item)}" if item is not None else "none" for n, item in zip(names, value)
            )
            return f"{declared.name}=[{', '.join(items)}]"
        return f"{declared.name}={self._value(declared.real_type, value)}"

    def operand(self, tensor: Tensor) -> int:
        """The number of an operand; equal values share one operand."""
        for number, known in enumerate(self.operands):
            if known is tensor:
                return number
        self.operands.append(tensor)
        return len(self.operands) - 1

    def _value(self, type: Any, value: Any) -> str:
        kind = type.kind()
        if kind == "OptionalType":
            return "none" if value is None else "?" + self._value(type.getElementType(), value)
        if kind == "ListType":
            items = value if isinstance(value, (list, tuple)) else [value]
            return "[" + ", ".join(self._value(type.getElementType(), item) for item in items) + "]"
        if kind == "TensorType" and isinstance(value, Tensor):
            return f"%{self.operand(value)}{_suffix(value)}"
        if kind == "TensorType" and isinstance(value, (bool, int, float, complex)):
            self.python = "it has a number for a tensor"
            return _number(value)
        if kind in ("IntType", "SymIntType") and isinstance(value, Extent):
            self.sizes.append(value)
            return f"${len(self.sizes) - 1}"
        if kind in ("IntType", "SymIntType") and isinstance(value, int):
            return str(int(value))
        if kind == "FloatType" and isinstance(value, (bool, int, float)):
            return repr(float(value))
        if kind == "BoolType" and isinstance(value, (bool, int)):
            return _number(bool(value))
        if kind == "NumberType" and isinstance(value, (bool, int, float, complex)):
            self.python = "it has an argument of type Scalar"
            return _number(value)
        return self._name(kind, value)

    def _name(self, kind: str, value: Any) -> str:
        if kind == "StringType" and isinstance(value, str):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        if value in _QUANTISED:
            raise Reject(f"{value} is a quantised dtype", "torch.ops.quantized_decomposed, whose results are integers")
        if kind == "ScalarTypeType" and value == _INT64:
            value = torch.int64
        if isinstance(value, torch.dtype):
            return f"dtype.{str(value).removeprefix('torch.')}"
        if isinstance(value, torch.layout):
            return f"layout.{str(value).removeprefix('torch.')}"
        if isinstance(value, torch.memory_format):
            return f"format.{str(value).removeprefix('torch.')}"
        if kind == "DeviceObjType" and torch.device(value).type in ("cpu", "cuda"):
            return f"device.{torch.device(value).type}"
        raise Reject(f"an argument of type {kind.removesuffix('Type')} is {value!r}")


def _number(value: bool | int | float | complex) -> str:
    if isinstance(value, complex):
        return f"complex[{value.real!r}, {value.imag!r}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _suffix(value: Any) -> str:
    return f":{str(value.complex_dtype).removeprefix('torch.')}" if isinstance(value, Complex) else ""


def has_python_kernel(op: torch._ops.OpOverload) -> bool:
    """Whether Python code runs on the CPU when the op is called: then exceptions of it are worth more than a C call."""
    import torch._library.custom_ops as custom_ops

    name = op._schema.name
    if name in custom_ops.OPDEFS:
        return True
    overload = f".{op._schema.overload_name}" if op._schema.overload_name else ""
    key = f"{name.replace('::', '/')}{overload}"
    return op.namespace not in ("aten", "prims") and any(f"{key}/{k}" in torch.library._impls for k in _CPU_KEYS)


class _Results:
    """The results of one call: their types, the text that says where each goes, and what the graph sees."""

    def __init__(self, ctx: Importer) -> None:
        self._ctx = ctx
        self.types: list[TensorType] = []
        #: Whether a result is a negation that torch has still to do (`x.conj().imag`).
        self.is_negated = False
        self._kinds: list[torch.dtype | None] = []

    def place(self, fake: Any) -> tuple[str, Any]:
        """The text for one result and a structure of numbers (of its tensors) like it."""
        if fake is None:
            return "none", None
        if isinstance(fake, (list, tuple)):
            placed = [self.place(item) for item in fake]
            return "[" + ", ".join(text for text, _ in placed) + "]", [number for _, number in placed]
        if not isinstance(fake, torch.Tensor):
            if isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise Reject(f"its result is a number that {DEPENDS_ON_DATA}")
            raise Reject(f"its result is {fake!r}, not a tensor")
        number = len(self.types)
        self.is_negated |= fake.is_neg()
        self.types.append(self._ctx.parts_type(fake))
        self._kinds.append(fake.dtype if fake.is_complex() else None)
        return f"@{number}" + (f":{str(fake.dtype).removeprefix('torch.')}" if fake.is_complex() else ""), number

    def filled(self, numbers: Any, values: Sequence[Tensor]) -> Any:
        """The values in the structure that `place` gave."""
        if numbers is None:
            return None
        if isinstance(numbers, list):
            return [self.filled(number, values) for number in numbers]
        value, kind = values[numbers], self._kinds[numbers]
        return value if kind is None else Complex(value.value, value.type, kind)


def call_op(
    ctx: Importer,
    op: torch._ops.OpOverload,
    values: dict[str, Any],
    fake: Any,
    reason: str,
    updated: Sequence[str] = (),
    bases: Sequence[Any] = (),
    effectful: bool = False,
) -> tuple[Any, list[Any]]:
    """Appends one `op.aten`.

    Args:
        ctx: the import.
        op: what is called.
        values: its arguments by name, as the importer maps them.
        fake: fake tensors of its results, as the op returns them (a tensor, or several).
        reason: why it is not native, for `explain`.
        updated: names of tensor arguments that the op overwrites; element 3 of a list `x` is "x.3".
        bases: the fake tensors of those.
        effectful: whether it does more than give results (also assumed of an op that gives none).

    Returns:
        The results in the structure of `fake`, and the new values of the updated arguments.

    Raises:
        Reject: an argument or a result is of a kind that cannot be passed.
    """
    schema = op._schema
    own = own_kernels.find(schema.name)
    if own is not None:
        fakes = list(fake) if own.results > 1 else [fake] if own.results else []
        made, renewed = call_own(ctx, own, values, fakes, updated, bases, effectful)
        return (made if own.results > 1 else made[0] if made else None), renewed
    if reads_storage(op):
        raise Reject("its result depends on how memory is laid out")
    overwritten = {name.partition(".")[0] for name in updated}
    for declared in schema.arguments:
        written = declared.alias_info is not None and declared.alias_info.is_write
        if written and declared.name not in overwritten and values[declared.name] not in (None, [], ()):
            raise Reject(f"it updates its argument '{declared.name}' in place, which the export has left so")
    fakes = list(fake) if len(schema.returns) > 1 else [fake] if schema.returns else []
    results = _Results(ctx)
    placed = [results.place(item) for item in fakes]
    renewed = [results.place(base)[1] for base in bases]
    effectful = effectful or not results.types or torch.Tag.nondeterministic_seeded in op.tags
    encoder = _Encoder(updated=dict(zip(updated, renewed)))
    arguments = ", ".join(encoder.argument(declared, values[declared.name]) for declared in schema.arguments)
    # Behind what the op reads: the lowering drops the last ones.
    changes = [(number, encoder.operand(element_of(values, name))) for name, number in encoder.updated.items()]
    ctx.data_sizes.refuse_unbounded(encoder.sizes)
    if not encoder.python and has_python_kernel(op):
        encoder.python = "its kernel is Python code"
    if not encoder.python and results.is_negated:
        encoder.python = "it gives a negation that is still to be done"
    attributes: dict[str, Attr] = {
        "name": f"{schema.name}.{schema.overload_name or 'default'}",
        "schema": str(schema),
        "torch": torch.__version__.partition("+")[0],
        "door": "python" if encoder.python else "dispatcher",
        "arguments": arguments,
        "outcome": ", ".join(text for text, _ in placed),
        "effectful": effectful,
        "why": f"aten: {reason}" + (f"; through Python, for {encoder.python}" if encoder.python else ""),
    }
    if encoder.sizes:
        attributes["sizes"] = Dims(tuple(encoder.sizes))
    if changes:
        attributes["updates"] = [number for pair in changes for number in pair]
    made = ctx.emit("aten", encoder.operands, results.types, attributes)
    shaped = [results.filled(numbers, made) for _, numbers in placed]
    returned = shaped if len(schema.returns) > 1 else shaped[0] if shaped else None
    return returned, [results.filled(number, made) for number in renewed]


def convert_tail(ctx: Importer, node: torch.fx.Node, reason: str) -> Any:
    """Converts a call of an op without a native form; raises `Reject` where it has no other."""
    values = ctx.arguments(node).values
    results = _read_results(node)
    argument, wanted = _WANTED.get(node.target._schema.name, ("", ()))
    if argument and isinstance(results, list) and all(results[number] is None for number in wanted):
        values = {**values, argument: False}
    return call_op(ctx, node.target, values, results, reason, effectful=node.is_impure())[0]


def _read_results(node: torch.fx.Node) -> Any:
    """The fake results of a node, None for those of several that nobody reads (fake kernels are wrong about some)."""
    fake = node.meta.get("val")
    if len(node.target._schema.returns) < 2 or any(user.target is not operator.getitem for user in node.users):
        return fake
    read = {user.args[1] for user in node.users}
    return [item if place in read else None for place, item in enumerate(fake)]


def convert_effect(ctx: Importer, node: torch.fx.Node) -> Any:
    """`with_effects(token, op, *arguments)`: an op with a side effect, such as a check that raises."""
    _, op, *positional = node.args
    if not isinstance(op, torch._ops.OpOverload):
        raise Reject(f"{op} has a side effect", "a model without side effects")
    values = ctx.call_arguments(op, positional, node.kwargs).values
    fakes = node.meta["val"][1:]
    count = len(op._schema.returns)
    fake = fakes if count > 1 else fakes[0] if count else None
    returned, _ = call_op(ctx, op, values, fake, "it has a side effect", effectful=True)
    return [0, *(returned if count > 1 else [returned])]  # 0 for the token, which nothing reads


def convert_updating(ctx: Importer, node: torch.fx.Node) -> Any:
    """`updating(op, names, *arguments)`: an op that overwrites the arguments of these names; their new values are results."""
    op, names, *positional = node.args
    values = ctx.call_arguments(op, positional, node.kwargs).values
    count = len(op._schema.returns)
    fakes, bases = node.meta["val"][:count], node.meta["val"][count:]
    fake = list(fakes) if count > 1 else fakes[0] if count else None
    returned, renewed = call_op(ctx, op, values, fake, "a custom op", list(names), bases)
    head = list(returned) if count > 1 else [returned] if count else []
    return [*head, *renewed]


def convert_functionalised(ctx: Importer, node: torch.fx.Node) -> Any:
    """`auto_functionalized_v2(op, **arguments, _all_bases=[...])`: a custom op that updates arguments in place."""
    op = node.args[0]
    given = {key: ctx.argument(value) for key, value in node.kwargs.items()}
    bases = given.pop("_all_bases")
    values: dict[str, Any] = {}
    updated: list[str] = []
    order: list[int] = []

    def updating(name: str, field: str) -> Any:
        base = given[f"_{field}_base_index"]
        if base is None:
            return None
        if any(f"_{field}_{part}" in given for part in ("size", "stride", "storage_offset", "slice_dim")):
            raise Reject(f"it updates '{name}', a view of another tensor, in place", "a tensor of its own, x.clone()")
        updated.append(name)
        order.append(base)
        return bases[base]

    for declared in op._schema.arguments:
        name = declared.name
        if given.get(f"_{name}_length") is not None:
            values[name] = [updating(f"{name}.{i}", f"{name}_{i}") for i in range(given[f"_{name}_length"])]
        elif f"_{name}_base_index" in given:
            values[name] = updating(name, name)
        else:
            values[name] = given.get(name, declared.default_value)
    if len(set(order)) != len(order):
        raise Reject("it updates one tensor through two arguments", "separate tensors")
    fake = node.meta["val"]
    count = max(1, len(op._schema.returns))
    fakes = fake[:count] if len(op._schema.returns) > 1 else fake[0]
    base_fakes = [fake[count + base] for base in order]
    returned, renewed = call_op(
        ctx, op, values, fakes if op._schema.returns else None, "a custom op", updated, base_fakes
    )
    head = list(returned) if len(op._schema.returns) > 1 else [returned]
    tail = list(bases)
    for base, value in zip(order, renewed):
        tail[base] = value
    return [*head, *tail]
