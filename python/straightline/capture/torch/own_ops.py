# SPDX-License-Identifier: Apache-2.0
"""Calls of users' own kernels (`sl.c_kernel`) in torch's graphs; `capture/own_calls.py` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.own_calls import element_of, emit_call, refuse_named
from straightline.capture.torch.importer import Complex, Importer, torch_dtype
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
    )


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
