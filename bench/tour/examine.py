# SPDX-License-Identifier: Apache-2.0
"""One stop of the tour, in a process of its own: the model is made, compiled, compared with eager and timed.

Answers are judged by straightline.testing.policy against a float64 copy of the model. Where that copy does not run (some models
make float32 tensors whatever their parameters are), eager is the reference, and torch's error is how far eager's results move
when parameters and inputs move by an ulp.
"""

from __future__ import annotations

import collections
import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import straightline as sl
import torch
from straightline.testing import policy
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed, TorchRuntimeError
from torch.utils import _pytree as pytree

from bench.outcomes import described
from bench.tour import generation
from bench.tour.models import Stop
from bench.tour.signals import rescale, vary_constants

_DRAWS = 4  # of torch's error, for a model whose one sample of it is not enough
_LEAST_SIGNAL = 1e-3  # how far a result must move when inputs do, over its deviation
_PAIRS = (5, 200)  # calls of ours and eager's in turn
_SECONDS = 2.0  # of timing
_WORDS = 600  # of an error, in the record


class Inputs:
    """What a model is called with: positional or by name."""

    def __init__(self, given: Mapping[str, Any] | tuple[Any, ...]) -> None:
        self.args = given if isinstance(given, tuple) else ()
        self.kwargs = {} if isinstance(given, tuple) else dict(given)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Calls the function with copies of them, and with the same random numbers each time."""
        torch.manual_seed(0)
        return function(*policy.clone(self.args), **policy.clone(self.kwargs))

    def on(self, device: str) -> Inputs:
        """The same inputs on a device."""
        return self.mapped(lambda leaf: leaf.to(device) if isinstance(leaf, Tensor) else leaf)

    def mapped(self, function: Callable[[Any], Any]) -> Inputs:
        """The same inputs with each leaf replaced."""
        return Inputs(pytree.tree_map(function, self.args) or pytree.tree_map(function, self.kwargs))


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def _signal(model: nn.Module, inputs: Inputs, stop: Stop, device: str) -> float:
    """How far the results move for other inputs: the largest over all results, over that result's deviation."""
    first = _tensors(inputs(model))
    second = _tensors(Inputs(stop.inputs()).on(device)(model))
    moved = [0.0]
    for a, b in zip(first, second, strict=True):
        if a.shape != b.shape:
            moved.append(1.0)
        elif a.is_floating_point() and a.numel() > 1:
            moved.append(((a.double() - b.double()).std() / a.double().std().clamp_min(1e-30)).item())
    return max(moved)


def _off(a: Any, b: Any) -> float:
    return (a.double() - b.double()).abs().nan_to_num().max().item() if a.numel() else 0.0


def _compare(compiled: Callable[..., Any], model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """Raises AssertionError where the answer is wrong; else says what it was compared with, and both errors."""
    given = (inputs.args, inputs.kwargs)
    got, eager = inputs(compiled), inputs(model)
    kind = "float64"
    try:
        exact = inputs.mapped(policy.in_float64)
        reference = exact(copy.deepcopy(model).double())
        if [x.shape for x in _tensors(reference)] != [x.shape for x in _tensors(eager)]:
            raise TypeError("the float64 copy gives other shapes")
        errors = lambda: policy.torch_errors(model, given, draws=_DRAWS)[: len(pytree.tree_leaves(eager))]  # noqa: E731
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        kind, reference = "eager", eager
        errors = lambda: policy.moved_errors(model, given, draws=_DRAWS)[: len(pytree.tree_leaves(eager))]  # noqa: E731
    pairs = zip(_tensors(got), _tensors(eager), _tensors(reference), strict=True)
    floats = [(a, b, c) for a, b, c in pairs if b.is_floating_point() and a.shape == b.shape]
    scale = max([c.double().abs().nan_to_num().max().item() for _, _, c in floats if c.numel()] or [1.0]) or 1.0
    facts = {
        "reference": kind,
        "error": max([_off(a, c) for a, _, c in floats] or [0.0]) / scale,
        "eager_error": max([_off(b, c) for _, b, c in floats] or [0.0]) / scale,
    }
    policy.check_tree(got, eager, reference, errors=errors)
    return facts


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _times(compiled: Callable[..., Any], model: nn.Module, inputs: Inputs, device: str) -> dict[str, Any]:
    """Microseconds of a call until it is done, ours and eager's in turn, and the median of their ratios."""
    functions = (compiled, model)
    for function in functions * 2:
        function(*inputs.args, **inputs.kwargs)
    _wait(device)
    rows: list[tuple[float, float]] = []
    end = time.perf_counter() + _SECONDS
    while len(rows) < _PAIRS[0] or (len(rows) < _PAIRS[1] and time.perf_counter() < end):
        row = []
        for function in functions:
            begin = time.perf_counter()
            function(*inputs.args, **inputs.kwargs)
            _wait(device)
            row.append((time.perf_counter() - begin) * 1e6)
        rows.append((row[0], row[1]))
    ratios = sorted(ours / eager for ours, eager in rows)
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "us": statistics.median(ours for ours, _ in rows),
        "eager_us": statistics.median(eager for _, eager in rows),
        "ratio": statistics.median(ratios),
        "ratio_quartiles": [quartiles[0], quartiles[2]],
        "calls": len(rows),
    }


def _torch_ops(programs: Sequence[Any]) -> dict[str, Any]:
    """How many kernels the programs call, and how often which op of torch's."""
    rows = [row for program in programs for row in policy.launches(program)]
    of_torch = collections.Counter(row["op"] for row in rows if row["backend"] == "aten")
    return {"kernels": len(rows), "of_torch": dict(of_torch)}


def _exported(model: nn.Module, given: Inputs) -> tuple[Any, list[Any]]:
    compiled = sl.compile(model, given.args, given.kwargs or None)
    return compiled, [compiled]


def _by_dynamo(model: nn.Module, given: Inputs) -> tuple[Any, list[Any]]:
    """The model by torch.compile, which a call makes compile, and the programs of its graphs."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="straightline", options={"freeze": True})
    given(compiled)
    return compiled, sl.programs(model)


#: How a model reaches the compiler.
WAYS = {"export": _exported, "torch.compile": _by_dynamo}


def _failed(error: BaseException) -> tuple[str, str]:
    """The outcome that an exception of compiling is, and its words."""
    if isinstance(error, BackendCompilerFailed):
        error = error.inner_exception
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, sl.UnsupportedError | sl.UserError) and not isinstance(error, sl.InternalError):
        return "refused", words[:_WORDS]
    if isinstance(error, TorchRuntimeError):  # Dynamo could not run the model's own code
        return "refused", words[:_WORDS]
    return "internal", described(error, _WORDS)


@torch.no_grad()
def examine_generation(stop: Stop, device: str, seed: int) -> dict[str, Any]:
    """The record of a stop that writes text (bench/tour/generation.py)."""
    record: dict[str, Any] = {"model": stop.name, "package": stop.package, "device": device, "seed": seed}
    torch.manual_seed(seed)
    prompts = [torch.randint(5, 1000, (1, generation.PROMPT)) for _ in range(2)]
    try:
        model = generation.model_of(stop, seed, prompts[0]).to(device)
        prompts = [prompt.to(device) for prompt in prompts]
    except Exception as error:
        return record | {"outcome": "no model", "reason": f"{type(error).__name__}: {error}"[:_WORDS]}
    step = generation.static_step(copy.deepcopy(model))
    outcome, reason = "right", ""
    if isinstance(step, str):
        record |= {"by_export": "no static cache", "why_no_cache": step}
    else:
        try:
            found, decode = generation.by_export(step, prompts)
            token, position = prompts[0][:, :1], torch.tensor([generation.PROMPT], device=device)
            record |= found | _torch_ops([decode]) | _times(decode, step, Inputs((token, position)), device)
        except Exception as error:
            outcome, reason = _not_generated(error)
            record["by_export"] = outcome
    try:
        record |= generation.by_generate(model, prompts, not isinstance(step, str))
    except Exception as error:
        outcome, reason = _not_generated(error)
        record["generate"] = outcome
    slow = [
        way for way, key in (("a token by export", "ratio"), ("generate", "generate_ratio")) if record.get(key, 0) > 1
    ]
    if outcome == "right" and slow:
        outcome, reason = "slower", " and ".join(slow)
    return record | {"outcome": outcome, "reason": reason}


def _not_generated(error: Exception) -> tuple[str, str]:
    return ("wrong", str(error)[:_WORDS]) if isinstance(error, generation.Differs) else _failed(error)


@torch.no_grad()
def examine(stop: Stop, device: str = "cpu", seed: int = 0, way: str = "export") -> dict[str, Any]:
    """The record of a stop, compiled by one of `WAYS`, or "generate".

    `outcome` is right, slower, wrong, refused, internal, or (ours to mend) no model.
    """
    if way == "generate":
        return examine_generation(stop, device, seed)
    record: dict[str, Any] = {"model": stop.name, "package": stop.package, "device": device, "seed": seed}
    torch.manual_seed(seed)
    if device == "cuda":
        torch.backends.cudnn.allow_tf32 = False  # the policy is about float32
    try:
        model = stop.make()
        vary_constants(model, torch.Generator().manual_seed(seed))
        given = Inputs(stop.inputs())
        rescale(model, given)
        model, given = model.to(device), given.on(device)
        record["signal"] = _signal(model, given, stop, device)
        if record["signal"] < _LEAST_SIGNAL:
            raise ValueError("results hardly depend on the inputs")
        record["parameters"] = sum(p.numel() for p in model.parameters())
    except Exception as error:
        return record | {"outcome": "no model", "reason": f"{type(error).__name__}: {error}"[:_WORDS]}
    begin = time.perf_counter()
    try:
        compiled, programs = WAYS[way](model, given)
        record["compile_s"] = time.perf_counter() - begin
        record |= {"graphs": len(programs)} | _torch_ops(programs)
        if way == "export":
            phases = compiled.explain()["compile_seconds"]
            record |= {"phases_s": phases, "compile_own_s": record["compile_s"] - phases["capture"]}
        given(compiled)
    except Exception as error:
        outcome, reason = _failed(error)
        return record | {"outcome": outcome, "reason": reason, "compile_s": time.perf_counter() - begin}
    try:
        record |= _compare(compiled, model, given)
    except AssertionError as error:
        return record | {"outcome": "wrong", "reason": str(error)[:_WORDS]}
    record |= _times(compiled, model, given, device)
    return record | {"outcome": "slower" if record["ratio"] > 1 else "right", "reason": ""}
