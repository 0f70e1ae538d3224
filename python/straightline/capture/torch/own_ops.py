# SPDX-License-Identifier: Apache-2.0
"""Ops that a user's own C function computes (`sl.c_kernel`): one `op.own_kernel`, a direct call of the function.

`dialect/own_argument.h` says how arguments are written, `docs/design/own_kernels.md` what becomes of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from straightline import own_kernels
from straightline.capture.builder import Attr, Dims, Extent, TensorType
from straightline.capture.extents import product_of, value_of
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.torch.importer import Complex, Importer, torch_dtype
from straightline.capture.torch.own_images import image_attributes
from straightline.errors import UserError
from straightline.own_images import machine_of
from straightline.own_kernels import OwnKernel


@dataclass
class _Encoder:
    """The arguments of one call: collects its tensors and named extents."""

    kernel: OwnKernel
    #: Number of the result that is the new value, by argument ("x", or "x.3" of a list).
    updated: dict[str, int]
    inputs: list[Tensor] = field(default_factory=list)
    sizes: list[Extent] = field(default_factory=list)

    def arguments(self, values: dict[str, Any], fresh: int) -> list[str]:
        """A text for each argument of the C function that is one of the schema or a result."""
        texts = []
        for parameter in self.kernel.parameters:
            value = values[parameter.name]
            if parameter.kind == "tensor":
                texts.append(self._tensors(parameter.name, value, parameter.is_list))
            else:
                texts.append(self._constant(parameter, value))
        return [*texts, *(f"@{len(self.updated) + i}" for i in range(fresh))]

    def tensor(self, name: str, value: Any) -> str:
        """The text of one tensor, or of an absent one."""
        return self._tensor(name, value)

    def _tensors(self, name: str, value: Any, is_list: bool) -> str:
        if not is_list:
            return self._tensor(name, value)
        items = [self._tensor(f"{name}.{i}", item) for i, item in enumerate(value)]
        if "none" in items:
            raise Reject(f"'{name}' has an absent tensor in a list", "Tensor?")
        return f"[{', '.join(items)}]"

    def _tensor(self, name: str, value: Any) -> str:
        if value is None:
            return "none"
        if isinstance(value, Complex):
            raise Reject(f"'{name}' has complex numbers", "two real tensors")
        if not isinstance(value, Tensor):
            raise Reject(f"'{name}' is {value!r}, not a tensor")
        if name in self.updated:
            return f"@{self.updated[name]}"
        for number, known in enumerate(self.inputs):
            if known is value:
                return f"%{number}"
        self.inputs.append(value)
        return f"%{len(self.inputs) - 1}"

    def _constant(self, parameter: Any, value: Any) -> str:
        if parameter.kind == "text":
            return f"s:{value}"
        if parameter.kind == "dtype":
            code, bits = own_kernels.dtype_of(value)
            return f"d:{code}:{bits}"
        if isinstance(value, Extent):
            self.sizes.append(value)
            return f"${len(self.sizes) - 1}"
        head, item = ("i:", self._integer) if parameter.kind == "integer" else ("f:", self._number)
        if not parameter.is_list:
            return head + item(parameter.name, value)
        if any(isinstance(one, Extent) for one in value):
            raise Reject(
                f"'{parameter.name}' has a named size in a list",
                f"SymInt, an argument for each size of '{parameter.name}'",
            )
        return f"{head}[{', '.join(item(parameter.name, one) for one in value)}]"

    def _integer(self, name: str, value: Any) -> str:
        if not isinstance(value, int):  # a bool is one
            raise Reject(f"'{name}' is {value!r}, not an integer")
        if not -(2**63) <= value < 2**63:
            raise UserError(f"'{name}' of {self.kernel.name} is {value}, which does not fit an int64_t")
        return str(int(value))

    def _number(self, name: str, value: Any) -> str:
        if not isinstance(value, (int, float)):
            raise Reject(f"'{name}' is {value!r}, not a number")
        number = float(value)
        return "nan" if math.isnan(number) else repr(number)


def call_own(
    ctx: Importer,
    kernel: OwnKernel,
    values: dict[str, Any],
    fakes: Sequence[Any],
    updated: Sequence[str],
    bases: Sequence[Any],
    effectful: bool,
) -> tuple[list[Tensor], list[Tensor]]:
    """Appends one `op.own_kernel`.

    Args:
        ctx: The import.
        kernel: What is called.
        values: The op's arguments by name, as the importer maps them.
        fakes: Fake tensors of its results.
        updated: The tensors that it updates: names of arguments, "x.3" for element 3 of a list.
        bases: Fake tensors of those.
        effectful: Whether it does more than give results.

    Returns:
        The results, and the new values of what is updated.

    Raises:
        Reject: An argument or a result is of a kind that cannot be passed.
        UserError: A scalar does not fit.
    """
    declared = {p.name for p in kernel.parameters if p.is_updated}
    if missing := declared - {name.partition(".")[0] for name in updated} - _absent(values):
        raise Reject(f"it updates its argument '{min(missing)}' in place, which the export has left so")
    if any(not isinstance(fake, torch.Tensor) or fake.is_complex() for fake in (*fakes, *bases)):
        raise Reject("a result that is no tensor of real numbers", "two real tensors")
    # What has no contents yet is no operand that is updated, but a result.
    changed = [name for name in updated if not _is_undefined(ctx, element_of(values, name))]
    filled = [name for name in updated if name not in changed]
    encoder = _Encoder(kernel, {name: number for number, name in enumerate((*changed, *filled))})
    launch: dict[str, Attr] = {}
    if kernel.machine is not None:
        arch = machine_of(ctx.target.target, kernel.name)
        launch = image_attributes(
            kernel.machine(_sized(ctx, values), [_result(ctx, fake) for fake in fakes], arch),
            encoder,
            values,
            len(updated),
        )
    arguments = launch.get("arguments") or encoder.arguments(values, len(fakes))
    ctx.data_sizes.refuse_unbounded(encoder.sizes)
    operands = [element_of(values, name) for name in changed]
    types = [element_of(values, name).type for name in (*changed, *filled)] + [ctx.parts_type(fake) for fake in fakes]
    attributes: dict[str, Attr] = {
        "name": kernel.name,
        "symbol": kernel.symbol,
        "arguments": arguments,
        "updates": len(operands),
        "workspace": kernel.workspace_bytes(_like(values)) if kernel.workspace else 0,
        "traits": kernel.traits,
        "effectful": effectful or kernel.effectful,
        **launch,
    }
    if kernel.source:
        blocks, threads = kernel.grid_of(_like(values, named=True))
        if isinstance(blocks, Extent):
            ctx.data_sizes.refuse_unbounded([blocks])
            encoder.sizes.append(blocks)
        attributes["blocks"] = f"${len(encoder.sizes) - 1}" if isinstance(blocks, Extent) else f"i:{blocks}"
        attributes |= {"source": kernel.source, "threads": threads}
    if encoder.sizes:
        attributes["sizes"] = Dims(tuple(encoder.sizes))
    made = ctx.emit("own_kernel", [*encoder.inputs, *operands], types, attributes)
    return made[len(updated) :], [made[encoder.updated[name]] for name in updated]


def _is_undefined(ctx: Importer, value: Tensor) -> bool:
    return any(value is known for known in ctx.undefined)


def _sized(ctx: Importer, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments for `OwnKernel.machine`: tensors as `Sized`, sizes that only a call knows with their bounds."""
    examples = _examples(ctx)

    def bounded(value: Any) -> Any:
        if isinstance(value, Sized):
            return Sized(tuple(bounded(extent) for extent in value.shape), value.dtype)
        if not isinstance(value, Extent):
            return value
        known = value.symbols <= set(examples)
        return BoundedExtent(value.text, *ctx.data_sizes.bounds(value), value_of(value, examples) if known else None)

    return {name: bounded(value) for name, value in _like(values, named=True).items()}


def _examples(ctx: Importer) -> dict[str, int]:
    """The values of named sizes in the example, where a tensor of this call has a size that is that name."""
    found: dict[str, int] = {}
    tensors = [ctx.environment.get(node) for node in ctx.node.all_input_nodes] if ctx.node is not None else []
    for node, tensor in zip(ctx.node.all_input_nodes if ctx.node is not None else (), tensors):
        fake = node.meta.get("val")
        if not isinstance(tensor, Tensor) or not isinstance(fake, torch.Tensor) or fake.dim() != tensor.rank:
            continue
        for extent, size in zip(tensor.extents, fake.shape):
            hint = size.node.hint if isinstance(size, torch.SymInt) else size
            if isinstance(extent, Extent) and extent.text.isidentifier() and isinstance(hint, int):
                found[extent.text] = hint
    return found


def _result(ctx: Importer, fake: Any) -> Sized:
    type = ctx.parts_type(fake)
    return Sized(tuple(type.extents), fake.dtype)


@dataclass(frozen=True, eq=False)
class BoundedExtent(Extent):
    """A size that only a call knows, with what is known of its value; as an `Extent` it is equal to the one without."""

    low: int
    high: int
    #: Its value in the example; None: it is not known.
    example: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def _absent(values: dict[str, Any]) -> set[str]:
    return {name for name, value in values.items() if value is None or value == []}


def element_of(values: dict[str, Any], name: str) -> Tensor:
    """What is updated: the argument "x", or element 3 of a list, "x.3"."""
    argument, _, place = name.partition(".")
    value: Tensor = values[argument][int(place)] if place else values[argument]
    return value


@dataclass(frozen=True)
class Sized:
    """A tensor of named sizes, as `grid` sees it: sizes are ints or expressions over names."""

    shape: tuple[Any, ...]
    dtype: torch.dtype

    def numel(self) -> Any:
        """How many elements it has."""
        return product_of(self.shape)

    def dim(self) -> int:
        """How many dims it has."""
        return len(self.shape)


def _like(values: dict[str, Any], named: bool = False) -> dict[str, Any]:
    """The arguments with tensors that have no memory, for `workspace` and `grid`."""

    def like(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [like(item) for item in value]
        if named and isinstance(value, Tensor):
            return Sized(tuple(value.extents), torch_dtype(value.dtype))
        if not named and (isinstance(value, Extent) or (isinstance(value, Tensor) and not value.type.is_static)):
            raise Reject("its workspace is a function of arguments with a named size", "workspace=, a number of bytes")
        if isinstance(value, Tensor):
            return torch.empty(_shape(value.type), dtype=torch_dtype(value.dtype), device="meta")
        return value

    return {name: like(value) for name, value in values.items()}


def _shape(type: TensorType) -> tuple[int, ...]:
    return tuple(int(str(extent)) for extent in type.extents)
