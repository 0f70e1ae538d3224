# SPDX-License-Identifier: Apache-2.0
"""Calls of users' own kernels (`sl.c_kernel`) in torch's graphs; `capture/own_calls.py` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from straightline.capture.builder import Attr, Extent, TensorType
from straightline.capture.extents import value_of
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.own_calls import Encoder, Sized, element_of, emit_call, refuse_named, sized
from straightline.capture.torch.importer import Complex, Importer, torch_dtype
from straightline.capture.torch.own_images import image_attributes
from straightline.own_images import machine_of
from straightline.own_kernels import OwnKernel


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
    if kernel.check is not None:
        kernel.check(values)
    declared = {p.name for p in kernel.parameters if p.is_updated}
    if missing := declared - {name.partition(".")[0] for name in updated} - _absent(values):
        raise Reject(f"it updates its argument '{min(missing)}' in place, which the export has left so")
    if any(not isinstance(fake, torch.Tensor) or fake.is_complex() for fake in (*fakes, *bases)):
        raise Reject("a result that is no tensor of real numbers", "two real tensors")
    # An `empty` that it fills is no old value but one more result, behind those of the schema.
    filled = [name for name in updated if id(element_of(values, name)) in ctx.undefined]
    for name, value in values.items():
        if any(isinstance(x, Complex) for x in (value if isinstance(value, (list, tuple)) else [value])):
            raise Reject(f"'{name}' has complex numbers", "two real tensors")
    return emit_call(
        ctx,
        kernel,
        values,
        [ctx.parts_type(fake) for fake in fakes],
        updated,
        effectful,
        filled=filled,
        dtype=torch_dtype,
        workspace=lambda given: kernel.workspace_bytes(_like(given)),
        check_sizes=ctx.data_sizes.refuse_unbounded,
        launch=(lambda encoder: _launch_of(ctx, kernel, values, fakes, encoder)) if kernel.machine else None,
    )


def _launch_of(
    ctx: Importer, kernel: OwnKernel, values: dict[str, Any], fakes: Sequence[Any], encoder: Encoder
) -> dict[str, Attr]:
    """What `op.own_kernel` says of a launch of machine code."""
    assert kernel.machine is not None
    arch = machine_of(ctx.target.target, kernel.name)
    code = kernel.machine(_bounded(ctx, values), [_result(ctx, fake) for fake in fakes], arch)
    return image_attributes(code, encoder, values, encoder.first)


def _bounded(ctx: Importer, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments for `OwnKernel.machine`: tensors as `Sized`, sizes that only a call knows with their bounds."""
    examples = _examples(ctx)

    def bounded(value: Any) -> Any:
        if isinstance(value, Sized):
            return replace(value, shape=tuple(bounded(extent) for extent in value.shape))
        if not isinstance(value, Extent):
            return value
        known = value.symbols <= set(examples)
        return BoundedExtent(value.text, *ctx.data_sizes.bounds(value), value_of(value, examples) if known else None)

    return {name: bounded(value) for name, value in sized(values, torch_dtype).items()}


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
    return Sized(tuple(type.extents), fake.dtype, fake.element_size())


@dataclass(frozen=True, eq=False, repr=False)  # its text is that of the `Extent`
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


def _like(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with tensors that have no memory, for `workspace`."""
    refuse_named(values)

    def like(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [like(item) for item in value]
        if isinstance(value, Tensor):
            return torch.empty(_shape(value.type), dtype=torch_dtype(value.dtype), device="meta")
        return value

    return {name: like(value) for name, value in values.items()}


def _shape(type: TensorType) -> tuple[int, ...]:
    return tuple(int(str(extent)) for extent in type.extents)


__all__ = ["call_own", "element_of"]
