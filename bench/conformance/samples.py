# SPDX-License-Identifier: Apache-2.0
"""The samples that torch tests its ops and layers with (`op_db` and `module_db`), as functions of their tensors; and made ones.

A sample is a call of an op: its tensors become the inputs of a model, everything else is a constant of it.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bench.conformance import made

#: Begins the name of an entry that is a layer.
MODULE = "module."

#: Ops whose indices among equal elements are not specified, and where `dim` stands among their arguments.
_ANY_OF_EQUALS = {"sort": 1, "argsort": 1, "topk": 2}


def _of_any_equals(name: str, result: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """The result with the elements that such indices mean in place of the indices."""
    place = _ANY_OF_EQUALS.get(name)
    if place is None or kwargs.get("stable") or x.dim() == 0:
        return result
    dim = kwargs.get("dim", args[place - 1] if len(args) >= place else -1)
    if isinstance(result, Tensor):
        return x.take_along_dim(result, dim)
    values, indices = result
    return values, x.take_along_dim(indices, dim)


@contextmanager
def _imports_of_torchs_tests() -> Iterator[None]:
    """Without warnings; they also forbid the whole process to set flags of torch.backends, which is undone here."""
    was_frozen = torch.backends.flags_frozen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = not was_frozen


@functools.cache
def entries() -> dict[str, Any]:
    """The entries of `op_db` by their full names ("linalg.svd", "nn.functional.pad.reflect")."""
    with _imports_of_torchs_tests():
        from torch.testing._internal import common_methods_invocations as db
    db.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # who calls an op here seeds it himself
    return {op.formatted_name: op for op in db.op_db}


def names(dtype: torch.dtype) -> list[str]:
    """The entries that take the dtype on the CPU."""
    return [name for name, op in entries().items() if dtype in op.dtypes]


@functools.cache
def modules() -> dict[str, Any]:
    """The layers that torch tests (`module_db`), by their names behind "module."."""
    with _imports_of_torchs_tests():
        from torch.testing._internal import common_modules
    return {MODULE + info.formatted_name: info for info in common_modules.module_db}


class Sample:
    """One call of an op or of a layer.

    Attributes:
        function: the op as a function of `inputs`.
        layer: the module that is called, of an entry that is a layer.
        inputs: the tensors of the call.
        is_uninitialised: its result is memory that nobody has written; what is in it is not compared.
        words: the shapes of the inputs and the other arguments, short.
    """

    def __init__(self, op: Any, given: Any) -> None:
        leaves, spec = pytree.tree_flatten(((given.input, *given.args), given.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.inputs: list[Tensor] = [leaves[place].detach() for place in places]

        def calling(op: Callable[..., Any], name: str) -> Callable[..., Any]:
            def function(*tensors: Tensor) -> Any:
                filled = list(leaves)
                for place, tensor in zip(places, tensors):
                    filled[place] = tensor
                args, kwargs = pytree.tree_unflatten(filled, spec)
                return _of_any_equals(name, op(*args, **kwargs), *args, **kwargs)

            return function

        self._calling, self._name = calling, op.name
        self.layer: torch.nn.Module | None = getattr(op, "op", None) if isinstance(op, _Named) else None
        if not isinstance(self.layer, torch.nn.Module):
            self.layer = None
        self.is_uninitialised = op.name.removeprefix("new_").startswith("empty")
        self.function: Callable[..., Any] = calling(op, op.name)
        shown = [f"{list(leaf.shape)}" if isinstance(leaf, Tensor) else repr(leaf) for leaf in leaves]
        self.words = ", ".join(shown)[:120]

    def wrapped(self, wrap: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
        """`function` with the layer wrapped, as who has a layer does; of an op all of it."""
        return self._calling(wrap(self.layer), self._name) if self.layer is not None else wrap(self.function)


class _Given(NamedTuple):
    """A call as `op_db` has it."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Named(NamedTuple):
    """An op under a name, as an entry of `op_db`."""

    op: Callable[..., Any]
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)


def samples(name: str, dtype: torch.dtype, count: int, seed: int, device: str = "cpu") -> list[Sample]:
    """Up to `count` samples of an entry, spread over all that torch has of it.

    Args:
        name: of the entry.
        dtype: of its first argument.
        count: how many at most; 0 is all.
        seed: of the tensors' values.
        device: where the tensors are.
    """
    torch.manual_seed(seed)
    if name.startswith(made.PREFIX):
        calls = made.calls(name, dtype, count, seed)
        return [Sample(_Named(op, name), _Given(args[0], args[1:], kwargs)) for op, args, kwargs in calls]
    if name.startswith(MODULE):
        return _of_module(modules()[name], dtype, count, device)
    op = entries()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(op.sample_inputs(device, dtype, requires_grad=False))
    return [Sample(op, found[place]) for place in spread(len(found), count)]


def _of_module(info: Any, dtype: torch.dtype, count: int, device: str) -> list[Sample]:
    """A layer in inference, made and called as torch's tests do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(info.module_inputs_func(info, device=device, dtype=dtype, requires_grad=False, training=False))
    samples = []
    for place in spread(len(found), count):
        made, call = found[place].constructor_input, found[place].forward_input
        factory = {"device": device, "dtype": dtype} if _takes_dtype(info.module_cls) else {}
        layer = info.module_cls(*made.args, **{**factory, **made.kwargs}).eval()
        given = inspect.signature(layer.forward).bind(*call.args, **call.kwargs)
        samples.append(Sample(_Named(layer, info.formatted_name), _Given(given.args[0], given.args[1:], given.kwargs)))
    return samples


def _takes_dtype(layer: type) -> bool:
    return "dtype" in inspect.signature(layer.__init__).parameters or issubclass(layer, torch.nn.RNNBase)


def spread(length: int, count: int) -> Sequence[int]:
    """`count` places of `length`, the first and the last among them; all if `count` is 0 or more than there are."""
    if count == 0 or count >= length:
        return range(length)
    if count == 1:
        return [length // 2]
    return [place * (length - 1) // (count - 1) for place in range(count)]
