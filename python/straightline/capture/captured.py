# SPDX-License-Identifier: Apache-2.0
"""What capture returns: the built function, its parameters by name, and how calls map to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from straightline.capture.builder import Builder, Dim, TensorType

if TYPE_CHECKING:  # the package is of use without torch
    import torch
    from torch.utils._pytree import TreeSpec


@dataclass(frozen=True)
class InputSpec:
    """One leaf of the flattened `(args, kwargs)`.

    A tensor has `type` (and is argument number `argument` of the function) and the layout of the example, which every
    call must match; other leaves are constants that the program was specialised for (None, bool, int, float, str).
    """

    name: str
    type: TensorType | None = None
    argument: int = -1
    dtype: torch.dtype | None = None
    #: Strides of the example in elements, symbolic where a size they depend on is.
    strides: tuple[Dim, ...] = ()
    #: Sizes of the example itself.
    example_shape: tuple[int, ...] = ()
    example_strides: tuple[int, ...] = ()
    #: The place of the example's first element in its storage where the program reads the storage by such places (as_strided).
    storage_offset: int | None = None
    constant: Any = None
    #: Of an input that is a size of tensor inputs.
    extent: Dim | None = None

    @property
    def is_tensor(self) -> bool:
        """Whether this leaf is a tensor."""
        return self.type is not None

    @property
    def text(self) -> str:
        """In words: `x: float32[b, 64]`, or `flag=True`."""
        if self.extent is not None:
            return f"{self.name}={self.extent}"
        if self.type is None:
            return f"{self.name}={self.constant!r}"
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.name}: {dtype}[{', '.join(map(str, self.type.extents))}]"


@dataclass(frozen=True)
class OutputSpec:
    """One leaf of the user's result: number `result` of the function's untied results, or a constant when that is -1."""

    result: int = -1
    constant: Any = None
    #: A constant that depends on named extents (an output such as `x.shape[0]`).
    extent: Dim | None = None
    #: Real numbers whose last dimension holds both parts of complex ones.
    is_complex: bool = False


@dataclass(frozen=True)
class TiedResult:
    """A result that overwrites an input ("input:NAME") or a module buffer ("state:NAME")."""

    result: int
    tie: str


@dataclass(frozen=True)
class SymbolSpec:
    """A named extent with inclusive bounds."""

    name: str
    min: int
    max: int


@dataclass
class Captured:
    """A captured graph; `builder` holds the function named "forward"."""

    builder: Builder
    #: Parameters, buffers and lifted constants: the module's own tensors, never copies.
    parameters: dict[str, torch.Tensor]
    #: Everything that a state dict of the model may hold, read or not, and its buffers that are not persistent.
    tensors: dict[str, torch.Tensor]
    #: Names in `tensors` that the model's state dict has.
    persistent: list[str]
    #: Names in `parameters` of buffers that the function overwrites.
    states: list[str]
    #: Other names of the same storage (tied weights) -> the name used in `parameters`.
    aliases: dict[str, str]
    symbols: list[SymbolSpec]
    inputs: list[InputSpec]
    outputs: list[OutputSpec]
    tied: list[TiedResult]
    #: Tree of `(args, kwargs)`.
    in_spec: TreeSpec
    out_spec: TreeSpec
    #: Names of the positional parameters that the example gave, then of its keyword arguments, in order.
    argument_names: list[str] = field(default_factory=list)
    keyword_names: list[str] = field(default_factory=list)
