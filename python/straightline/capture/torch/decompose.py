# SPDX-License-Identifier: Apache-2.0
"""Which ATen ops are imported whole, and what one call of any other consists of.

One call is decomposed at a time, by torch's own functions over fake tensors: a `Recorder` stands at the end of torch's
dispatcher, below autograd, where composite ops arrive whole too. It lets ops through that are imported, takes apart the others,
and notes what came through. A graph is never traced again for the sake of one op in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._library.triton import triton_ops_to_kernels
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from straightline.capture.torch.complex_decompositions import COMPLEX, is_of_complex, parts_of_complex
from straightline.capture.torch.decompositions import OWN, parts_of_list_write, updates_statistics
from straightline.capture.torch.dropouts import draws
from straightline.capture.torch.importer import CONVERTERS, TAKES_COMPLEX
from straightline.capture.torch.recurrent_layers import sized_recurrent_layers

Op = torch._ops.OpOverload

#: Ops without a converter that torch would take apart and does better itself (`op.aten`).
_WHOLE = frozenset(("aten.item.default",))

#: Composite ops need not say that they may give what they take (dropout in eval mode does). These give new memory.
_FRESH = frozenset(
    """linear matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d batch_norm layer_norm group_norm
    instance_norm max_pool1d max_pool2d max_pool3d adaptive_avg_pool2d scaled_dot_product_attention silu""".split()
)


@dataclass
class Call:
    """A call of an op on fake tensors, with its results."""

    op: Op
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    #: The result before a later op changed its shape in place.
    seen: Any


def is_composite(op: Op) -> bool:
    """Whether the op is defined by calls of others."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    is_known = torch._C._dispatch_has_kernel(op.name())  # not so TorchScript's own, such as prim::device
    return composite in op.py_kernels or (
        is_known and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    )


def is_whole(op: Op) -> bool:
    """Whether a call of the op is imported as it is: by its converter, or through torch where nothing takes it apart."""
    return not is_of_triton(op) and _is_whole(op)


@functools.cache
def _is_whole(op: Op) -> bool:
    name = str(op)
    return name in CONVERTERS or name in _WHOLE or parts_of(op) is None


def is_whole_call(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """As `is_whole`, of a call with these arguments.

    What has a converter is taken apart on complex tensors, and where it updates statistics or draws random numbers.
    """
    if not is_of_complex(op, args, kwargs):
        return is_whole(op) and not updates_statistics(op, args, kwargs) and not draws(op, args, kwargs)
    has_parts = op in COMPLEX or op in OWN or op in _table() or is_composite(op)
    return str(op) in TAKES_COMPLEX or not has_parts


def says_views(op: Op) -> bool:
    """Whether the schema says which argument a result is a view of."""
    return any(result.alias_info is not None and not result.alias_info.is_write for result in op._schema.returns)


@functools.cache
def may_hide_views(op: Op) -> bool:
    """Whether a result may be (a view of) an argument in a way that the schema does not say, or says of a copy too."""
    if op._schema.is_mutable or not is_composite(op):
        return False
    return op.namespace != "aten" or op._schema.name.partition("::")[2] not in _FRESH


def shares_memory(result: Any, arguments: Any) -> bool:
    """Whether a result is (a view of) one of the arguments."""
    taken = set(_storages(arguments))
    return any(storage in taken for storage in _storages(result))


def _storages(tree: Any) -> Iterator[int]:
    return (tensor.untyped_storage()._cdata for tensor in _tensors(tree) if tensor.layout == torch.strided)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))


@functools.cache
def _table() -> Mapping[Op, Callable[..., Any]]:
    return core_aten_decompositions()


def parts_of(op: Op) -> Callable[..., Any] | None:
    """The function that decomposes a call of the op; None if there is none."""
    if op in OWN:
        return OWN[op]
    table = _table()
    if op in table:
        return table[op]
    return op.decompose if is_composite(op) else parts_of_list_write(op) or _body_of_triton(op)


def is_of_triton(op: Op) -> bool:
    """Whether the op is one of `torch.library.triton_op`, which consists of launches."""
    return _body_of_triton(op) is not None


def _body_of_triton(op: Op) -> Callable[..., Any] | None:
    """Of an op of `torch.library.triton_op`; nothing of Triton is imported where there is none."""
    if not triton_ops_to_kernels or op.namespace == "aten":
        return None
    from straightline.capture.torch.triton_ops import body_of

    return body_of(op)


class Recorder(TorchDispatchMode):
    """Notes the calls that come through, and takes apart those that are not imported."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, op: Op, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not is_whole_call(op, args, kwargs):
            result = self._taken_apart(op, args, kwargs)
            if result is not NotImplemented:
                return result
        if torch.Tag.inplace_view in op.tags:
            self._keep(args[0])
        result = op(*args, **kwargs)
        if may_hide_views(op) and shares_memory(result, (args, kwargs)):
            return self._taken_apart(op, args, kwargs)
        if op._schema.is_mutable or any(True for _ in _tensors(result)) or not op._schema.returns:
            self.calls.append(Call(op, tuple(args), dict(kwargs), result, result))
        return result

    def _keep(self, tensor: torch.Tensor) -> None:
        """Keeps a copy of a tensor's shape before an op changes it in place, for the ops that made it or wrote to it."""
        before = tensor.detach()
        for call in self.calls:
            call.seen = pytree.tree_map(lambda x: before if x is tensor else x, call.seen)

    def _taken_apart(self, op: Op, args: Any, kwargs: Any) -> Any:
        if is_of_complex(op, args, kwargs):
            return self._complex_taken_apart(op, args, kwargs)
        parts = op.decompose if draws(op, args, kwargs) else parts_of(op)
        if parts is None:
            return NotImplemented
        with self:
            return parts(*args, **kwargs)

    def _complex_taken_apart(self, op: Op, args: Any, kwargs: Any) -> Any:
        """As for real tensors; what no function takes is left to torch, whole."""
        before = len(self.calls)
        with self:
            result = parts_of_complex(op, args, kwargs)
            if result is NotImplemented and op not in COMPLEX:
                parts = op.decompose if is_composite(op) else parts_of(op)
                try:
                    result = NotImplemented if parts is None else parts(*args, **kwargs)
                except (RuntimeError, NotImplementedError):  # torch takes no complex numbers apart by this function
                    result = NotImplemented
        if result is NotImplemented:
            del self.calls[before:]
        return result


@contextmanager
def below_autograd(mode: FakeTensorMode) -> Iterator[None]:
    """A block in which ops work on fake tensors, and arrive at modes of torch's dispatcher as they were called."""
    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), sized_recurrent_layers(), mode:
        yield


def run_fake(mode: FakeTensorMode, op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results of one call of an op on fake tensors."""
    with below_autograd(mode):
        return op(*args, **kwargs)


def recorded(
    mode: FakeTensorMode,
    op: Op,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> tuple[list[Call], Any]:
    """The calls into which one call is decomposed, and its result.

    Args:
        mode: that of the fake tensors.
        op: what is called, on fake tensors and numbers.
        args: its arguments.
        kwargs: its keyword arguments.
        around: a context such as autocast, which adds ops of its own.
    """
    recorder = Recorder()
    with below_autograd(mode), recorder, around():
        result = op(*args, **kwargs)
    return recorder.calls, result
