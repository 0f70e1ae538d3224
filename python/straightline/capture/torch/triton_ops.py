# SPDX-License-Identifier: Apache-2.0
"""Ops of `torch.library.triton_op`: their body is recorded, and each launch in it is a call of an op of its own.

Torch keeps such an op as one node of an exported graph. Its body is Python: ops of torch, and launches by `wrap_triton`. While
it is recorded over fake tensors, what torch would make of a launch is replaced by a call of an op that
`triton_kernels.launch_op` registers, with the same arguments, so that views, writes and sizes are those of any other op.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from straightline import _triton, own_images, triton_kernels
from straightline.capture.torch.memory_views import ends
from straightline.errors import UnsupportedError

_lock = threading.RLock()


def body_of(op: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """The function that an op of `torch.library.triton_op` consists of; None: it is no such op.

    One with a kernel for other devices (`register_kernel`) is such an op in programs that run launches alone.
    """
    from torch._library import custom_ops, triton

    name = op._schema.name
    if name not in triton.triton_ops_to_kernels or name not in custom_ops.OPDEFS:
        return None
    definition = custom_ops.OPDEFS[name]
    is_kernel_elsewhere = set(definition._backend_fns) - {None} and not own_images.is_for_cuda()
    if definition._abstract_fn is None or is_kernel_elsewhere:
        return None
    return functools.partial(_run, definition._abstract_fn)


def _run(body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _launches_are_ops():
        return body(*args, **kwargs)


@contextmanager
def _launches_are_ops() -> Iterator[None]:
    """A block in which launches that this thread traces are calls of ops; one thread at a time. Others trace as ever."""
    from torch._higher_order_ops import triton_kernel_wrap

    hopifier = triton_kernel_wrap.tracing_triton_hopifier_singleton
    of_torch, mine = type(hopifier).call_HOP, threading.get_ident()

    def call(*given: Any) -> Any:
        return _launch(*given) if threading.get_ident() == mine else of_torch(hopifier, *given)

    with _lock:
        before = hopifier.__dict__.get("call_HOP")  # of an op in this op's body
        hopifier.call_HOP = call  # shadows the method
        try:
            yield
        finally:
            if before is None:
                del hopifier.call_HOP
            else:
                hopifier.call_HOP = before


def _launch(variable: Any, grids: list[Any], arguments: Mapping[str, Any], tx: None) -> None:
    """A launch as torch has prepared it: a grid for each configuration, arguments by name."""
    jit, wrappers = _triton.unwrapped(variable.kernel)
    _check_grids(variable.kernel, jit, len(grids))
    given = {
        p.name: arguments[p.name] if p.name in arguments else p.default for p in jit.params if _is_given(p, arguments)
    }
    _refuse_descriptors(jit, given)
    written = written_by(variable.kernel, given)
    of_grids = triton_kernels.Grids.of([(*grid, 1, 1)[:3] for grid in grids])
    launch = triton_kernels.launch_op(variable.kernel, wrappers, given, written, of_grids)
    tensors = {name: memory_of(value) for name, value in given.items() if isinstance(value, torch.Tensor)}
    launch.op(*(tensors.get(name, given[name]) for name in launch.names), *of_grids.sizes)


def _refuse_descriptors(jit: Any, arguments: Mapping[str, Any]) -> None:
    """Tensor descriptors are made on the host, of addresses that a program does not have there."""
    for name, value in arguments.items():
        if type(value).__name__ == "TensorDescriptor":
            raise UnsupportedError(
                f"{_triton.place_of(jit)} gets '{name}', a tensor descriptor; nearest supported form: pointers and strides"
            )


def _check_grids(kernel: Any, jit: Any, count: int) -> None:
    """Torch prunes an autotuner's configurations before it lists grids: each of those that it hands over has one.

    Raises:
        UnsupportedError: This torch does not.
    """
    configs = getattr(kernel, "configs", (None,))
    is_pruned = not getattr(kernel, "early_config_prune", None) and not getattr(kernel, "perf_model", None)
    if not is_pruned or len(configs) != count:
        raise UnsupportedError(
            f"torch {torch.__version__} lists {count} grids for {len(configs)} configurations of {_triton.place_of(jit)}, which "
            "prune_configs_by leaves others of; nearest supported form: @triton.autotune without prune_configs_by"
        )


def _is_given(parameter: Any, arguments: Mapping[str, Any]) -> bool:
    return parameter.name in arguments or parameter.has_default


def written_by(kernel: Any, arguments: Mapping[str, Any]) -> frozenset[str]:
    """The tensors that a kernel writes, by torch's own analysis of its IR; where that fails, all of them.

    Raises:
        UnsupportedError: it writes none.
    """
    from torch._higher_order_ops import triton_kernel_wrap as wrap

    tensors = {name for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    with _triton.some_target():
        if hasattr(wrap, "identify_accessed_tensors"):
            writes = wrap.identify_accessed_tensors(kernel, dict(arguments), {}).read_writes.writes
            found = {each.name for each in writes}
        else:
            found = set(wrap.identify_mutated_tensors(kernel, dict(arguments), {}))
    if not found & tensors:
        jit, _ = _triton.unwrapped(kernel)
        raise UnsupportedError(
            f"{_triton.place_of(jit)} writes to none of its tensors; nearest supported form: a kernel that stores a result"
        )
    return frozenset(found & tensors)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """What a kernel may read behind the address that it is given, beginning at a tensor's first element, in row-major order.

    In a program a tensor is in row-major order, whatever strides torch says, which a kernel may be given as numbers. Behind a
    view with gaps, or with a stride of 0, that is the rest of the memory of its base: a kernel may add to the address what
    its strides do not say, as FlagGems' gather does.
    """
    if tensor.is_contiguous():
        return tensor
    repeats = any(isinstance(stride, int) and stride == 0 for stride in tensor.stride())
    if not repeats:
        order = sorted(range(tensor.dim()), key=lambda dim: -_number(tensor.stride(dim)))
        dense = tensor.permute(order)
        if dense.is_contiguous():
            return dense
    storage = tensor.untyped_storage()
    end = ends.get()().get(storage._cdata, storage.nbytes() // tensor.element_size())
    return tensor.as_strided((end - tensor.storage_offset(),), (1,))


def _number(stride: Any) -> int:
    """A stride, of a named size the example's."""
    return int(stride.node.hint) if isinstance(stride, torch.SymInt) else int(stride)
