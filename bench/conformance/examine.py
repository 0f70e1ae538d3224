# SPDX-License-Identifier: Apache-2.0
"""One sample: it is called, compiled, called again, and compared."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import straightline as sl
import torch
from straightline.testing import policy
from torch import Tensor
from torch.utils import _pytree as pytree

from bench.conformance.reached import reached
from bench.conformance.samples import Sample, samples
from bench.outcomes import described

#: Outcomes, the best first, and whether the command fails on one.
#: native: right, by kernels of ours alone; torch: right, some of it by ops of torch's; random: right, the numbers are eager's for
#: one seed; refused: an UnsupportedError or a UserError; not captured: right, but Dynamo gave the backend no graph; not for
#: eager: eager refuses it too, or gives no tensor.
OUTCOMES = {
    "native": False, "torch": False, "random": False, "refused": False, "not captured": False, "not for eager": False,
    "out of time": True, "wrong": True, "bare error": True, "internal": True, "ended": True,
}  # fmt: skip
#: How a sample is compiled: by sl.compile, torch.compile(.., backend="straightline"), sl.jit.
WAYS = ("export", "compile", "jit")
_WIDEST = (torch.float64, torch.complex128)
_DRAWS = 4  # of torch's error, where one sample of it is not enough
_WORDS = 400  # of an error, in the record


def examine(
    name: str, dtype: torch.dtype, count: int, seed: int, device: str = "cpu", way: str = "export"
) -> list[dict[str, Any]]:
    """The records of an entry's samples, compiled in one of `WAYS`."""
    records = []
    for place, sample in enumerate(samples(name, dtype, count, seed, device)):
        facts = {"op": name, "dtype": str(dtype).removeprefix("torch."), "sample": place, "arguments": sample.words}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, reason = _outcome(sample, seed, way)
            facts["reached"] = reached(functools.partial(_seeded, sample.function, sample.inputs, seed))
        records.append(facts | {"outcome": outcome, "reason": reason[:_WORDS]})
    return records


def _seeded(function: Callable[..., Any], inputs: list[Tensor], seed: int) -> Any:
    torch.manual_seed(seed)
    return function(*policy.clone(inputs))


def _called(sample: Sample, seed: int, way: str) -> tuple[Any, list[Any]]:
    """The answer, and the programs that gave it."""
    if way == "export":
        compiled = sl.compile(sample.function, tuple(policy.clone(sample.inputs)))
        return _seeded(compiled, sample.inputs, seed), [compiled]
    torch.compiler.reset()
    made = []

    def wrap(function: Any) -> Any:
        made.append(sl.jit(function) if way == "jit" else torch.compile(function, backend="straightline"))
        return made[-1]

    function = sample.wrapped(wrap)
    try:
        got = _seeded(function, sample.inputs, seed)
        again = _seeded(function, sample.inputs, seed)  # `jit` enters its programs from the second call on
    except torch._dynamo.exc.BackendCompilerFailed as failure:
        raise failure.inner_exception from failure
    if not policy.same_bits(got, again):
        raise AssertionError("a second call gives another answer")
    return got, sl.programs(made[0])


@torch.no_grad()
def _outcome(sample: Sample, seed: int, way: str) -> tuple[str, str]:
    try:
        eager = _seeded(sample.function, sample.inputs, seed)
        again = _seeded(sample.function, sample.inputs, seed + 1)
    except Exception as error:
        return "not for eager", f"{type(error).__name__}: {error}"
    if not any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(eager)):
        return "not for eager", "its result is no tensor"
    dense = all(leaf.layout == torch.strided for leaf in pytree.tree_leaves(eager) if isinstance(leaf, Tensor))
    is_random = dense and not policy.same_bits(eager, again)
    try:
        got, programs = _called(sample, seed, way)
    except AssertionError as error:
        return "wrong", str(error)
    except sl.InternalError as error:
        return "internal", str(error)
    except (sl.UnsupportedError, sl.UserError) as error:
        return "refused", str(error)
    except Exception as error:
        return "bare error", described(error, _WORDS - 80)
    if sample.is_uninitialised:
        got, eager = pytree.tree_map(torch.zeros_like, (got, eager))
    try:
        _compare(got, eager, sample)
    except AssertionError as error:
        return "wrong", str(error)
    if is_random:
        return "random", ""
    if not programs:
        return "not captured", "Dynamo gives the backend no graph"
    of_torch = [row["op"] for program in programs for row in policy.launches(program) if row["backend"] == "aten"]
    return ("torch", ", ".join(dict.fromkeys(of_torch))) if of_torch else ("native", "")


def _in_float64(sample: Sample) -> Any:
    """The result in float64: of float inputs in float64, and of integers, which become the default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return sample.function(*policy.in_float64(sample.inputs))
    finally:
        torch.set_default_dtype(before)


def _compare(got: Any, eager: Any, sample: Sample) -> None:
    """Raises AssertionError where the answer is wrong by the policy (`straightline.testing.policy`)."""
    given = (tuple(sample.inputs), {})
    devices = [[leaf.device for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)] for tree in (got, eager)]
    assert devices[0] == devices[1], f"the results are on {devices[0]} but eager's on {devices[1]}"
    try:
        reference = eager if sample.is_uninitialised else _in_float64(sample)
        shapes = [
            [leaf.shape for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)] for tree in (reference, eager)
        ]
        if shapes[0] != shapes[1]:
            raise TypeError("other shapes in float64")
        errors = lambda: _of_results(policy.torch_errors(sample.function, given, draws=_DRAWS), eager)  # noqa: E731
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
        reference = eager
        errors = lambda: _of_results(policy.moved_errors(sample.function, given, draws=_DRAWS), eager)  # noqa: E731
    try:
        policy.check_tree(got, eager, reference, errors=errors)
    except AssertionError:
        if not any(leaf.dtype in _WIDEST for leaf in pytree.tree_leaves(eager) if isinstance(leaf, Tensor)):
            raise
        # No wider type says how far eager is off: the tolerances of torch's own tests.
        torch.testing.assert_close(got, eager, equal_nan=True)


def _of_results(errors: list[float], eager: Any) -> list[float]:
    return errors[: len(pytree.tree_leaves(eager))]
