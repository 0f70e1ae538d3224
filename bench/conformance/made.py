# SPDX-License-Identifier: Apache-2.0
"""Samples that are made from an op's schema, for ops that torch's own samples do not reach.

Arguments of a few shapes and values are tried until eager takes them. An entry is called "aten.add.Tensor".
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from straightline.capture.torch.schemas import base_ops, overload
from torch import Tensor
from torch.utils import _pytree as pytree

PREFIX = "aten."
#: Shapes of the tensors of a call: all the same, or one of their own for each.
_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4),), ((4, 4),), ((5,),), ((2, 3, 4),), ((2, 4, 5, 6),), ((1, 2, 4, 5, 6),), ((3, 4), (4, 5)),
    ((3, 4), (3, 4), (4,)), ((2, 4, 5, 6), (3, 4, 2, 2)), ((2, 4, 7), (3, 4, 2)),
    ((4, 4), (4, 2)), ((3, 5), (3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((3, 3),), ((),),
)  # fmt: skip
_INTS = (1, 0, 2)
_NUMBERS = (0.5, 2, 1)
#: Why an op is not asked: beginnings and ends of its name.
_WORDS = {
    "a part of automatic differentiation": "_backward backward _backward_data _fw_primal _make_dual requires_grad retain _jvp",
    "its kernel trusts its arguments, which only the ops around it know": """_batch_norm_no_update _cummax_helper _cummin_helper
        _compute_linear_combination _embedding_bag _transform_bias _weight_norm _weight_int _convert_weight _dyn_quant
        _native_multi _transformer _flash _efficient _nnpack _slow_conv2d _cufft _copy_from _amp _fused _unpack _sobol
        _triton slice_inverse
        _log_softmax_backward""",
    "serves torch's own tests and checks": """_test_ _foobar _assert _functional_ _print _debug _make_dep _lazy record
        _overrideable""",
    "is about something else than values": """is_ _is_ _has _version output_nr set resize _resize _pin_memory from_file sym_
        _shape_as""",
    "works on names of dims": "rename align refine",
    "is of a library": "_cudnn cudnn fbgemm _saturate choose_qparams",
    "is of vmap": "_add_batch_dim _remove_batch_dim",
}
_NOT_ASKED = {word: why for why, words in _WORDS.items() for word in words.split()}


def not_asked(name: str) -> str:
    """Why an op is not asked by its schema; "" if it is."""
    return next((why for word, why in _NOT_ASKED.items() if name.startswith(word) or name.endswith(word)), "")


@functools.cache
def entries(seen: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Overloads of the ops that are not refused and not among `seen` (names without overload)."""
    found = []
    for op in base_ops():
        if op.kind != "refused" and op.name not in seen and not not_asked(op.name):
            found += [PREFIX + name for name in op.overloads if not name.partition(".")[0].endswith("_")][:2]
    return tuple(found)


def _values(argument: Any, tensors: Iterator[Tensor], small: int, number: float) -> Any:
    """What is given for an argument, by its type."""
    return _of_type(argument.type, argument, tensors, small, number)


def _of_type(type: Any, argument: Any, tensors: Iterator[Tensor], small: int, number: float) -> Any:
    kind = type.kind()
    if argument.has_default_value() and kind != "TensorType":
        return argument.default_value
    if kind == "OptionalType":
        return None
    if kind == "ListType":
        inner = type.getElementType()
        if inner.kind() == "OptionalType":
            return [torch.tensor([0, 1, 1])]
        return [
            _of_type(inner, argument, tensors, small, number) for _ in range(2 if inner.kind() == "TensorType" else 1)
        ]
    if kind == "TensorType":
        is_index = argument.name in ("index", "indices", "offsets", "target")
        tensor = next(tensors)
        return (
            (tensor.abs() * 2).long() % 3
            if is_index
            else tensor > 0
            if argument.name in ("mask", "condition")
            else tensor
        )
    plain = {"IntType": small, "SymIntType": small, "FloatType": number, "BoolType": False, "NumberType": number}
    if kind in plain:
        return plain[kind]
    raise NotImplementedError(kind)


def _tensors(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype, generator: torch.Generator) -> Iterator[Tensor]:
    for place in itertools.count():
        shape = shapes[place] if place < len(shapes) else shapes[-1]
        tensor = torch.randn(shape, generator=generator)
        yield tensor.to(dtype) if dtype.is_floating_point or dtype.is_complex else (tensor * 4).to(dtype)


def calls(name: str, dtype: torch.dtype, count: int, seed: int) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Up to `count` calls of an overload that eager takes and whose results have elements: the op, its arguments."""
    op = overload(name.removeprefix(PREFIX))
    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    if op is None:
        return found
    for shapes, small, number in itertools.product(_SHAPES, _INTS, _NUMBERS):
        tensors = _tensors(shapes, dtype, torch.Generator().manual_seed(seed))
        try:
            given = {a.name: _values(a, tensors, small, number) for a in op._schema.arguments}
            args = tuple(given[a.name] for a in op._schema.arguments if not a.kwarg_only)
            kwargs = {a.name: given[a.name] for a in op._schema.arguments if a.kwarg_only}
            with torch.no_grad():
                result = op(*pytree.tree_map(_copied, args), **pytree.tree_map(_copied, kwargs))
        except Exception:  # eager takes no such call: another is tried
            continue
        leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        has_input = any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves((args, kwargs)))
        if has_input and any(leaf.numel() for leaf in leaves) and all(leaf.layout == torch.strided for leaf in leaves):
            found.append((op, args, kwargs))
        if len(found) == count:
            break
    return found


def _copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf
