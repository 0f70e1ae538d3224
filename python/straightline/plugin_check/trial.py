# SPDX-License-Identifier: Apache-2.0
"""One problem as a kernel gets it: its description, its memory, its plan and its runs."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from ctypes import byref, c_double, c_void_p
from dataclasses import dataclass
from typing import Any, Protocol

import numpy

from straightline.plugin_check import abi
from straightline.plugin_check.guarded import Buffer
from straightline.plugin_check.problems import Problem

Array = numpy.ndarray


class Broken(Exception):
    """What a kernel does wrong."""


class Memory(Protocol):
    """Elements of an operand, where a kernel finds them (`address`) and as the host sees them."""

    address: int
    elements: Array

    def tensor(self, shape: Sequence[int], strides: Sequence[int]) -> Array:
        """Strides in elements."""

    def slack_is_intact(self) -> bool:
        """Whether nothing was written beside the elements."""


def row_major(shape: Sequence[int]) -> list[int]:
    """Strides in elements."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def channels_last(shape: Sequence[int]) -> list[int]:
    """Strides of dense memory in which dim 1 is innermost."""
    order = [0, *range(2, len(shape)), 1]
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim], step = step, step * shape[dim]
    return strides


def gapped(shape: Sequence[int]) -> list[int]:
    """Strides of memory with the dims in another order and gaps between its rows."""
    strides, step = [0] * len(shape), 2
    for dim in range(len(shape)):
        strides[dim], step = step, step * shape[dim] + 1
    return strides


_LAYOUTS = {"row-major": row_major, "channels last": channels_last, "strided": gapped}


def layouts_of(kernel: abi.Kernel, problem: Problem) -> list[str]:
    """Layouts that all operands of a problem can have by the kernel's facts."""
    if problem.contraction:
        return ["row-major"]
    bits = ~0
    for facts in [kernel.operands[i] for i in range(kernel.operand_count)]:
        bits &= facts.layouts or abi.ROW_MAJOR
    bits = abi.ROW_MAJOR if kernel.operand_count == 0 else bits
    images = all(value.ndim > 2 for value in [*(one.data for one in problem.inputs), *problem.outputs])
    found = []
    if bits & (abi.ROW_MAJOR | abi.STRIDED | abi.UNIT_STRIDE):
        found.append("row-major")
    if bits & (abi.CHANNELS_LAST | abi.STRIDED) and images:
        found.append("channels last")
    if bits & abi.STRIDED:
        found.append("strided")
    return found


@dataclass
class _Place:
    """Where a tensor of the problem is."""

    value: Array
    dtype: str
    shape: list[int]
    strides: list[int]
    constant: bool = False
    index: bool = False

    @property
    def span(self) -> int:
        if math.prod(self.shape) == 0:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))


def dtype_for(kernel: abi.Kernel) -> str | None:
    """What the kernel computes with, if numpy has it."""
    types = kernel.operands[0].types if kernel.operand_count else 0
    return next((name for name in ("float32", "float64", "float16") if types == 0 or types & abi.TYPES[name]), None)


class Trial:
    """A problem in a layout, for one kernel of the host.

    Args:
        where: "start" or "end": at which end buffers touch a page without access; "": they are no pages of the host.
        named: Dim 0 is left to the call.
    """

    def __init__(
        self,
        kernel: abi.Kernel,
        problem: Problem,
        dtype: str,
        layout: str = "row-major",
        where: str = "end",
        named: bool = False,
    ) -> None:
        self.kernel, self.problem, self.layout, self.where, self.named = kernel, problem, layout, where, named
        facts, out_facts = kernel.input_facts(), kernel.output_facts()
        self._inputs = []
        for operand in problem.inputs:
            fact = facts[min(operand.role, len(facts) - 1)] if facts else abi.Facts()
            planned = bool(fact.flags & abi.PLANNED) or (problem.contraction and operand.constant)
            place = self._place(operand.data, "int64" if operand.index else dtype, fact, 1 if operand.constant else 0)
            place.constant, place.index = planned, operand.index
            self._inputs.append(place)
        self._outputs = []
        for i, value in enumerate(problem.outputs):
            fact = out_facts[i] if i < len(out_facts) else abi.Facts()
            self._outputs.append(self._place(value, "int64" if i in problem.indices else dtype, fact, 0))
        self._told = self._told_to_plan()
        self._workspace_bytes = 0

    def __str__(self) -> str:
        how = ", ".join(
            text
            for text in (
                self.layout,
                "a size that the call brings" if self.named else "",
                f"buffers at the {self.where} of their pages" if self.where else "",
            )
            if text
        )
        return f"{self.problem} ({self._outputs[0].dtype}, {how})"

    def _place(self, value: Array, dtype: str, facts: abi.Facts, weight: int) -> _Place:
        shape = list(value.shape)
        if self.problem.contraction:
            image = self.problem.op == "convolution" and value.ndim == 4 and not weight
            return _Place(value, dtype, shape, (channels_last if image else row_major)(shape))
        if facts.flags & abi.ROWS and shape:
            shape = [math.prod(shape[:-1]), shape[-1]]
            return _Place(value.reshape(shape), dtype, shape, row_major(shape))
        return _Place(value, dtype, shape, _LAYOUTS[self.layout](shape))

    # --- questions

    def asked(self) -> abi.Described:
        """The problem as `accepts` gets it: the op's own shapes, row-major."""
        operands = []
        for operand, place in zip(self.problem.inputs, self._inputs, strict=True):
            shape = list(operand.data.shape)
            image = self.problem.op == "convolution" and not operand.constant
            strides = channels_last(shape) if image else row_major(shape)
            operands.append((place.dtype, self._extents(shape), strides, operand.constant))
        for value, place in zip(self.problem.outputs, self._outputs, strict=True):
            shape = list(value.shape)
            strides = channels_last(shape) if self.problem.op == "convolution" else row_major(shape)
            operands.append((place.dtype, self._extents(shape), strides, False))
        told = {name: value for name, value in self.problem.attributes.items() if name != "activation"}
        return self._described(operands, told)

    def _described(
        self, operands: Sequence[tuple[str, Sequence[int], Sequence[int], bool]], told: dict[str, Any]
    ) -> abi.Described:
        return abi.Described(self.problem.op, operands, len(self._inputs), told, len(operands) if self.named else 0)

    def _extents(self, shape: Sequence[int]) -> list[int]:
        return [abi.DYNAMIC, *shape[1:]] if self.named else list(shape)

    def answer(self, library: ctypes.CDLL) -> tuple[int, str, float]:
        """What the kernel says: 1, 0 or -1, its reason and its cost."""
        asked = self.asked()
        reason, cost = ctypes.create_string_buffer(512), c_double()
        taken = library.sl_kernel_ask(byref(self.kernel), byref(asked.view), byref(cost), reason, len(reason))
        text = reason.value.decode(errors="replace")
        if taken == -2:
            raise Broken(text)
        if taken == 1 and self.kernel.workspace:
            self._workspace_bytes = int(self.kernel.workspace(byref(asked.view)))
        return int(taken), text, float(cost.value)

    def _told_to_plan(self) -> dict[str, Any]:
        listed = self.kernel.told_names()
        told = self.problem.attributes
        if listed is None:
            return dict(told)
        return {
            name: value
            for name, value in told.items()
            if name == "activation" or any(name == one or name.rpartition("_")[0] == one for one in listed)
        }

    # --- runs

    def planned(self) -> abi.Described:
        """The problem as plan gets it."""
        operands = [
            (place.dtype, self._extents(place.shape), place.strides, place.constant)
            for place in itertools.chain(self._inputs, self._outputs)
        ]
        told = dict(self._told)
        if self.kernel.rule and self.kernel.rule[0].tells_workspace:
            told["workspace_bytes"] = self._workspace_bytes
        return self._described(operands, told)

    def inputs(self) -> list[Memory]:
        """The operands in memory of their own."""
        return [self._filled(place) for place in self._inputs]

    def outputs(self) -> list[Memory]:
        """Memory for the results."""
        return [self._memory(place.dtype, place.span) for place in self._outputs]

    def _memory(self, dtype: str, count: int) -> Memory:
        return Buffer(dtype, count, self.where)

    def _filled(self, place: _Place) -> Memory:
        buffer = self._memory(place.dtype, place.span)
        buffer.tensor(place.shape, place.strides)[...] = place.value
        return buffer

    def plan(self, inputs: Sequence[Memory]) -> Handle:
        """Raises `Broken` where it fails."""
        if not self.kernel.plan_symbol:
            return Handle(self.kernel, None, None)
        described, context, handle = self.planned(), abi.context(), c_void_p()
        constants = (c_void_p * max(len(inputs), 1))()
        for i, (place, buffer) in enumerate(zip(self._inputs, inputs, strict=True)):
            constants[i] = buffer.address if place.constant else None
        status = self.kernel.plan(byref(context), byref(described.view), constants, byref(handle))
        if status or context.status:
            said = context.text.decode(errors="replace")
            raise Broken(
                f"plan fails with status {status or context.status} ({said or 'no text'}) for what accepts takes"
            )
        if not handle.value and self.kernel.properties & abi.EXCLUSIVE_HANDLE:
            raise Broken("plan makes no handle, though SL_KERNEL_EXCLUSIVE_HANDLE says that a run writes into it")
        return Handle(self.kernel, handle.value, described)

    def sizes(self) -> list[int]:
        """What a call brings: the size of dim 0 of each operand, where it is left to the call."""
        return [place.shape[0] for place in itertools.chain(self._inputs, self._outputs)] if self.named else []

    def run(self, handle: Handle, inputs: Sequence[Memory], outputs: Sequence[Memory]) -> None:
        """Raises `Broken` where it fails."""
        places = (c_void_p * (len(inputs) + 1))(*[buffer.address for buffer in inputs])
        if self.named:
            sizes = (ctypes.c_int64 * (len(inputs) + len(outputs)))(*self.sizes())
            places[len(inputs)] = ctypes.addressof(sizes)
        results = (c_void_p * max(len(outputs), 1))(*[buffer.address for buffer in outputs])
        workspace = Buffer("uint8", self._workspace_bytes, self.where) if self._workspace_bytes else None
        context = abi.context()
        address = workspace.address if workspace else None
        status = self.kernel.run(byref(context), abi.Team(None, 0, 1), handle.value, places, results, address)
        if status or context.status:
            said = context.text.decode(errors="replace")
            raise Broken(f"run fails with status {status or context.status} ({said or 'no text'})")
        if workspace and not workspace.slack_is_intact():
            raise Broken("run writes beside its workspace")

    def compare(self, outputs: Sequence[Memory]) -> None:
        """Raises `Broken` with the first element that is too far from float64."""
        for i, (place, buffer) in enumerate(zip(self._outputs, outputs, strict=True)):
            got = buffer.tensor(place.shape, place.strides)
            want = place.value
            wide = got.astype(float)
            bound = _bound(place.dtype, self.problem.terms, want)
            wrong = ~(numpy.abs(wide - want) <= bound)
            if wrong.any():
                at = tuple(int(one) for one in numpy.argwhere(wrong)[0])
                raise Broken(
                    f"result {i} at {at} is {got[at]}, expected {want[at]:.9g} within {bound:.2g}; {int(wrong.sum())} of "
                    f"{wrong.size} elements are wrong"
                )


class Handle:
    """What plan made."""

    def __init__(self, kernel: abi.Kernel, value: int | None, described: abi.Described | None) -> None:
        self._kernel, self.value, self._described = kernel, value, described

    def destroy(self) -> None:
        """Once; nothing where there is no plan."""
        if self._kernel.plan_symbol and self.value:
            self._kernel.destroy(self.value)
            self.value = None


def _bound(dtype: str, terms: int, want: Array) -> float:
    """How far an element may be off: a few roundings of the largest magnitude, and more for sums."""
    if dtype == "int64":
        return 0.0
    finite = numpy.abs(want[numpy.isfinite(want)])
    scale = max(float(finite.max()) if finite.size else 0.0, 1e-6)
    return 32 * float(numpy.finfo(dtype).eps) * scale * math.sqrt(max(terms, 1))
