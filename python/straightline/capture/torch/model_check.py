# SPDX-License-Identifier: Apache-2.0
"""Checks of a model and its tensors before export, so that errors name what the user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from straightline import _devices
from straightline.errors import UnsupportedError, UserError

_BATCH_STATISTICS = (
    torch.nn.modules.batchnorm._BatchNorm,  # noqa: SLF001  (the only common base)
    torch.nn.modules.instancenorm._InstanceNorm,  # noqa: SLF001
)
_DROPOUT = (torch.nn.modules.dropout._DropoutNd, torch.nn.RReLU)  # noqa: SLF001


def _differs_in_training(module: torch.nn.Module) -> bool:
    """Whether this module, by itself, computes something else in training than in inference."""
    if isinstance(module, _BATCH_STATISTICS):
        return module.track_running_stats
    if isinstance(module, _DROPOUT):
        return getattr(module, "p", 1) > 0
    if isinstance(module, (torch.nn.RNNBase, torch.nn.MultiheadAttention)):
        return module.dropout > 0
    return False


def check_module(module: torch.nn.Module) -> None:
    """Raises `UserError` that names the modules left in training mode, of those for which it matters."""
    wrong = [
        f"{path or '<root>'} ({type(child).__name__})"
        for path, child in module.named_modules()
        if child.training and _differs_in_training(child)
    ]
    if wrong:
        raise UserError(
            f"model is in training mode, which matters to {', '.join(wrong)}: call model.eval() before compiling"
        )


def _check_class(tensor: torch.Tensor, what: str) -> None:
    """Raises for a tensor subclass; asks nothing of it, since `__torch_function__` may be the user's."""
    if isinstance(tensor, FakeTensor):
        raise UserError(f"{what} is a fake tensor, expected one with data")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise UnsupportedError(f"{what} is a tensor subclass {type(tensor).__name__}, expected torch.Tensor")


def check_tensor(tensor: torch.Tensor, what: str) -> None:
    """Raises for a tensor that no program can take: `what` says which it is ("input x")."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise UserError(f"the model cannot be captured: {what} is a tensor inside a transform of torch.func")
    _check_class(tensor, what)
    if tensor.is_nested:
        raise UnsupportedError(f"{what} is a nested tensor, expected a padded one")
    if tensor.device.type == "meta":
        raise UserError(f"{what} is on device meta, expected a tensor with data")
    if tensor._is_zerotensor():
        raise UserError(f"{what} is a zero tensor of autograd's, which has no storage, expected clone() of it")
    if tensor.layout != torch.strided:
        raise UnsupportedError(f"{what} has layout {tensor.layout}, expected torch.strided")
    if tensor.is_quantized:
        raise UnsupportedError(f"{what} is quantised ({tensor.dtype}), expected a plain dtype")
    if not _devices.is_supported(tensor):
        raise UnsupportedError(f"{what} is on device {tensor.device}, expected cpu or cuda")
    if tensor.is_conj() or tensor.is_neg():
        raise UnsupportedError(f"{what} is a conj or neg view, expected resolve_conj() and resolve_neg()")


def check_dynamic_shapes(named: Mapping[str, Any], shapes: Any) -> None:
    """Raises `UserError` when `dynamic_shapes` does not fit the example inputs at their top level.

    Args:
        named: example inputs by argument name.
        shapes: as in `torch.export.export`, which checks the rest (nested inputs, bounds, equal sizes).
    """
    if shapes is None:
        return
    if not isinstance(shapes, (Mapping, tuple, list)):
        raise UserError(
            f"dynamic_shapes is a {type(shapes).__name__}, expected a tuple with one entry per argument "
            f"or a dict by argument name ({', '.join(named)})"
        )
    for name, shape in (shapes if isinstance(shapes, Mapping) else dict(zip(named, shapes))).items():
        tensor = named.get(name)
        if not isinstance(tensor, torch.Tensor) or not isinstance(shape, Mapping):
            continue
        for dim in shape:
            if not isinstance(dim, int) or not 0 <= dim < tensor.dim():
                raise UserError(f"dynamic_shapes names dim {dim!r} of input '{name}', which has rank {tensor.dim()}")
