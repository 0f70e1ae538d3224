# SPDX-License-Identifier: Apache-2.0
"""The numeric policy, and how a compiled model is compared with eager under it.

Against a float64 reference the largest error is at most four times that of torch in the same dtype, plus 8 ulp of the
output's scale (its largest finite magnitude); NaN and infinities stand in the same places. Integers and bools are equal.

The error of torch on one draw of inputs is a sample: by luck it may be next to nothing where the terms of a sum cancel, and
for float64, whose reference is torch in the same type, it is nothing always. An output that fails against the one sample is
therefore judged by the largest error of torch over inputs moved by an ulp (`torch_errors`).
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from straightline import _internal

_TORCH_ERRORS = 4.0
_ULPS = 8.0
#: How often inputs are moved to learn torch's error.
_DRAWS = 16


class ExactVariance(TorchDispatchMode):
    """Variance in two passes, for the reference of float64 models, which has no wider type.

    torch's update one value at a time is off by up to 16 ulp over 756 values, two passes by 1.2 (against 80-bit numpy).
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        kinds = {
            aten.var.correction: (False, False), aten.std.correction: (True, False),
            aten.var_mean.correction: (False, True), aten.std_mean.correction: (True, True),
        }  # fmt: skip
        if func not in kinds or args[0].numel() == 0:
            return func(*args, **(kwargs or {}))
        of_square_root, with_mean = kinds[func]
        return self._variance(of_square_root, with_mean, *args, **(kwargs or {}))

    @staticmethod
    def _variance(
        of_square_root: bool,
        with_mean: bool,
        x: Tensor,
        dim: Any = None,
        *,
        correction: Any = None,
        keepdim: bool = False,
    ) -> Any:
        dims = tuple(dim) if dim else tuple(range(x.dim()))
        count = 1
        for d in dims:
            count *= x.shape[d]
        mean = x.mean(dims, keepdim=True)
        divisor = max(0.0, count - (1 if correction is None else correction))
        difference = (x - mean).abs() if x.is_complex() else x - mean
        variance = difference.square().sum(dims, keepdim=keepdim) / divisor
        value = variance.sqrt() if of_square_root else variance
        return (value, mean if keepdim else x.mean(dims)) if with_mean else value


def check_close(
    got: Tensor, eager: Tensor, reference: Tensor, what: str = "output", error_of_torch: float = 0.0
) -> None:
    """Asserts that `got` is as right as `eager` is, up to the policy.

    `error_of_torch`: the largest seen beside that of `eager`.
    """
    assert isinstance(got, Tensor), f"{what} is a {type(got).__name__} but eager gives a tensor"
    assert got.dtype == eager.dtype, f"{what} has dtype {got.dtype} but eager gives {eager.dtype}"
    assert got.shape == eager.shape, f"{what} has shape {tuple(got.shape)} but eager gives {tuple(eager.shape)}"
    assert not got.requires_grad, f"{what} requires grad"
    if eager.is_complex():
        parts = (torch.view_as_real(x.resolve_conj()) for x in (got, eager, reference))
        return check_close(*parts, what, error_of_torch)
    if not eager.dtype.is_floating_point:
        assert torch.equal(got, eager), f"{what} has {got} but eager gives {eager}"
        return
    # Where torch itself is wrong in this dtype (gelu of infinity, remainders by subnormal numbers) the reference decides.
    for name, classify in (("NaN", torch.isnan), ("inf", torch.isposinf), ("-inf", torch.isneginf)):
        wrong = (classify(got) != classify(eager)) & (classify(got) != classify(reference))
        assert not wrong.any(), f"{what} has {name} in other places: {got[wrong]} but eager gives {eager[wrong]}"
    usable = got.isfinite() & eager.isfinite() & reference.isfinite()
    if not usable.any():
        return
    want = reference[usable].double()
    error = (got[usable].double() - want).abs().max().item()
    of_torch = max(error_of_torch, (eager[usable].double() - want).abs().max().item())
    scale = want.abs().max().item()
    limit = _TORCH_ERRORS * of_torch + _ULPS * torch.finfo(eager.dtype).eps * scale
    assert error <= limit, (
        f"{what} is off by {error:.3g}, torch by {of_torch:.3g}, the limit is {limit:.3g} (scale {scale:.3g})"
    )


def bytes_of(x: Tensor) -> Tensor:
    """A copy, for a tensor of one element may be contiguous and have any stride."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x.detach()).reshape(-1).view(torch.uint8)


def same_bits(a: Any, b: Any) -> bool:
    """Equal trees; tensors bit for bit, so that NaN equals NaN and 0 differs from -0."""
    leaves, spec = pytree.tree_flatten(a)
    others, other = pytree.tree_flatten(b)

    def same(x: Any, y: Any) -> bool:
        if not isinstance(x, Tensor):
            return type(x) is type(y) and x == y
        if x.dtype != y.dtype or x.shape != y.shape:
            return False
        return x.numel() == 0 or torch.equal(bytes_of(x), bytes_of(y))

    return spec == other and all(same(x, y) for x, y in zip(leaves, others, strict=True))


def check_tree(got: Any, eager: Any, reference: Any, errors: Callable[[], list[float]] | None = None) -> None:
    """`check_close` for each tensor of a result; everything else is equal.

    `errors`: torch's error per leaf over more inputs (`torch_errors`), asked when a leaf fails without.
    """
    got_leaves, got_spec = pytree.tree_flatten(got)
    leaves, spec = pytree.tree_flatten(eager)
    assert got_spec == spec, f"the result is {got_spec} but eager gives {spec}"
    failures = _failures(got_leaves, leaves, pytree.tree_leaves(reference), [0.0] * len(leaves))
    if failures and errors:
        failures = _failures(got_leaves, leaves, pytree.tree_leaves(reference), errors())
    assert not failures, "\n".join(failures)


def _failures(got: list[Any], eager: list[Any], reference: list[Any], errors: list[float]) -> list[str]:
    failures: list[str] = []
    for i, (a, b, c, error) in enumerate(zip(got, eager, reference, errors, strict=True)):
        try:
            if isinstance(b, Tensor):
                check_close(a, b.detach(), c.detach(), f"output {i}", error)
            else:
                assert type(a) is type(b) and a == b, f"output {i} is {a!r} but eager gives {b!r}"
        except AssertionError as failure:
            failures.append(str(failure)[:500])
    return failures


def clone(tree: Any) -> Any:
    """The same values with the same strides in storage of their own."""

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.numel() == 0:
            return leaf
        storage = leaf.detach().untyped_storage().clone()
        return torch.empty(0, dtype=leaf.dtype, device=leaf.device).set_(
            storage, leaf.storage_offset(), leaf.shape, leaf.stride()
        )

    return pytree.tree_map(one, tree)


def in_float64(tree: Any) -> Any:
    """Float tensors as float64, complex ones as complex128."""

    def wide(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return leaf.double() if leaf.is_floating_point() else leaf.to(torch.complex128) if leaf.is_complex() else leaf

    return pytree.tree_map(wide, clone(tree))


def _moved(tree: Any) -> Any:
    """Copies with every floating-point number moved by up to an ulp."""

    def move(x: Tensor) -> None:
        if x.is_complex():
            x = torch.view_as_real(x)
        if x.is_floating_point():
            eps = torch.finfo(x.dtype).eps
            x.copy_(x.double() * (1 + eps * (2 * torch.rand(x.shape, dtype=torch.float64, device=x.device) - 1)))

    if isinstance(tree, nn.Module):
        moved = copy.deepcopy(tree)
        for x in (*moved.parameters(), *moved.buffers()):
            move(x.data)
        return moved
    moved = clone(tree)
    for leaf in pytree.tree_leaves(moved):
        if isinstance(leaf, Tensor):
            move(leaf)
    return moved


def _run(function: Any, inputs: Any) -> list[Any]:
    """Leaves of `(result, inputs)`, of copies."""
    function, inputs = (copy.deepcopy(function) if isinstance(function, nn.Module) else function), clone(inputs)
    return pytree.tree_leaves((function(*inputs[0], **inputs[1]), inputs))


def _off(a: Any, b: Any) -> float:
    """The largest difference of two leaves, without elements that jump."""
    if isinstance(a, Tensor) and a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    if not isinstance(a, Tensor) or not a.is_floating_point() or a.shape != b.shape or not a.numel():
        return 0.0
    want, error = b.double(), (a.double() - b.double()).abs()
    usable = error.isfinite()
    scale = want[usable].abs().max().item() if usable.any() else 0.0
    smooth = usable & (error <= torch.finfo(a.dtype).eps ** 0.5 * scale)
    return error[smooth].max().item() if smooth.any() else 0.0


@torch.no_grad()
def torch_errors(
    eager: Callable[..., Any], given: Any, exact: Callable[..., Any] | None = None, draws: int = _DRAWS
) -> list[float]:
    """Torch's largest error per leaf of `(result, given)` over inputs and parameters moved by an ulp.

    `given`: the call's `(args, kwargs)`; `eager` is in the state before the call. The reference is float64: `exact` where it is
    another function than `eager`. A float64 model
    has none that is more exact: there it is how far the result moves with the inputs, which is what a backward stable
    way of computing it may be off. Elements that jump (`floor` at an integer) say nothing of rounding and are left out.
    """
    if _is_float64(given):
        return moved_errors(eager, given, draws)
    largest: list[float] = []
    for _ in range(draws):
        function, inputs = _moved(eager) if isinstance(eager, nn.Module) else eager, _moved(given)
        others = _run(exact or reference_of(function), in_float64(inputs))
        errors = [_off(a, b) for a, b in zip(_run(function, inputs), others, strict=True)]
        largest = [max(pair) for pair in zip(largest or errors, errors, strict=True)]
    return largest


@torch.no_grad()
def moved_errors(eager: Callable[..., Any], given: Any, draws: int = _DRAWS) -> list[float]:
    """Returns how far each leaf of `(result, given)` moves if inputs and parameters move by an ulp, for lack of a reference."""
    unmoved = _run(eager, given)
    largest: list[float] = []
    for _ in range(draws):
        function = _moved(eager) if isinstance(eager, nn.Module) else eager
        errors = [_off(a, b) for a, b in zip(_run(function, _moved(given)), unmoved, strict=True)]
        largest = [max(pair) for pair in zip(largest or errors, errors, strict=True)]
    return largest


def _is_float64(given: Any) -> bool:
    wide = (torch.float64, torch.complex128)
    return any(isinstance(leaf, Tensor) and leaf.dtype in wide for leaf in pytree.tree_leaves(given))


def reference_of(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model with parameters and buffers in float64, complex ones in complex128; a function is taken as it is."""
    return copy.deepcopy(model)._apply(in_float64) if isinstance(model, nn.Module) else model


def check(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    calls: Sequence[Sequence[Any]] = (),
    **options: Any,
) -> Any:
    """Compiles `model` for `args`, calls it with them, and with each of `calls`, as often; returns the compiled function.

    Every call is compared with eager under the policy: results, and tensor arguments that the model overwrites. Modules
    that update buffers are compared over the sequence of calls, for all three carry their own buffers along.
    """
    kwargs = dict(kwargs or {})
    eager = copy.deepcopy(model) if isinstance(model, nn.Module) else model
    reference = reference_of(model)
    compiled = _internal.compile(model, tuple(clone(args)), clone(kwargs) or None, **options)
    for call in (args, *calls):
        check_call(compiled, eager, reference, call, kwargs)
    return compiled


@torch.no_grad()
def check_call(
    compiled: Callable[..., Any],
    eager: Callable[..., Any],
    reference: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """One call, compared."""
    given = (tuple(args), dict(kwargs or {}))
    before = copy.deepcopy(eager) if isinstance(eager, nn.Module) else eager
    results = []
    for function, convert, mode in (
        (compiled, clone, contextlib.nullcontext()),
        (eager, clone, contextlib.nullcontext()),
        (reference, in_float64, ExactVariance() if _is_float64(given) else contextlib.nullcontext()),
    ):
        inputs = convert(given)
        with mode:
            results.append((function(*inputs[0], **inputs[1]), inputs))
    check_tree(*results, errors=lambda: torch_errors(before, given))


def launches(compiled: Any, phase: str = "run") -> list[dict[str, Any]]:
    """The statements of one phase that call a kernel."""
    return [row for row in compiled.explain().statements if row["phase"] == phase and row["kernel"]]
