# SPDX-License-Identifier: Apache-2.0
"""Dropout: which calls draw random numbers, and a model in training mode, which draws them because `eval()` was forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from straightline.capture.torch.importer import location_of, training_error
from straightline.capture.torch.views import Op, named_arguments

DROPOUTS = frozenset(
    f"aten::{kind}dropout{ending}" for kind in ("", "feature_", "alpha_", "feature_alpha_") for ending in ("", "_")
)
_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def draws(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call drops out elements by random numbers: it is taken apart, as eager does it on the device."""
    if op is _ATTENTION:
        return bool(named_arguments(op, args, kwargs)["dropout_p"] > 0)
    if not isinstance(op, torch._ops.OpOverload) or op._schema.name not in DROPOUTS:
        return False
    given = named_arguments(op, args, kwargs)
    return bool(given["train"]) and given["p"] > 0


def is_in_eval_mode(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call is a dropout that hands its argument on."""
    return op._schema.name in DROPOUTS and named_arguments(op, args, kwargs)["train"] is False


def refuse_in_training(module: torch.nn.Module, nodes: Iterable[Node]) -> None:
    """Raises `UserError` for the first dropout that draws numbers where a module of the user's is in training mode.

    A function, or a model in eval mode, that asks for numbers (`F.dropout(x, 0.5, True)`) gets them.
    """
    is_wrapper = type(module) is torch.nn.Module  # of a function
    if not any(child.training for child in module.modules() if not (is_wrapper and child is module)):
        return
    for node in nodes:
        if node.op == "call_function" and draws(node.target, node.args, node.kwargs):
            what = "attention dropout" if node.target is _ATTENTION else "dropout"
            given = named_arguments(node.target, node.args, node.kwargs)
            raise training_error(f"{what} of {given.get('p', given.get('dropout_p'))}", location_of(node))
