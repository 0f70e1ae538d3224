# SPDX-License-Identifier: Apache-2.0
"""Compares what torch.compile gives by the backend with eager: values, strides, shared memory, what calls overwrite."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: Where models and inputs are.
DEVICE = os.environ.get("STRAIGHTLINE_TEST_DEVICE", "cpu")


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def strides(x: torch.Tensor) -> list[int]:
    """Those that matter."""
    return [stride for size, stride in zip(x.shape, x.stride()) if size > 1 and x.numel()]


def sharing(given: list[torch.Tensor]) -> list[list[bool]]:
    """Which tensors share memory with which."""
    places = [x.untyped_storage().data_ptr() if x.numel() else id(x) for x in given]
    return [[a == b for a in places] for b in places]


def check(function: Callable[..., Any], *calls: tuple[Any, ...], grad: bool = False, **how: Any) -> Callable[..., Any]:
    """Calls a compiled copy and the function itself with the same arguments; returns the compiled one."""
    compiled = torch.compile(copy.deepcopy(function), backend="straightline", **how)
    with torch.set_grad_enabled(grad):
        for args in calls:
            theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
            want, got = function(*theirs), compiled(*ours)
            torch.testing.assert_close(got, want, equal_nan=True)
            torch.testing.assert_close(ours, theirs, equal_nan=True)
            assert [strides(x) for x in tensors(got)] == [strides(x) for x in tensors(want)]
            assert [x.dtype for x in tensors(got)] == [x.dtype for x in tensors(want)]
            assert sharing(tensors((got, ours))) == sharing(tensors((want, theirs)))
    return compiled
