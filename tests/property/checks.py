# SPDX-License-Identifier: Apache-2.0
"""Random graphs through Straightline, against eager: what the test and the script (run_graphs.py) share.

A batch of graphs is one model, for capture and passes cost more by themselves than what one more graph brings along. It runs
three ways (C++, Python, interpreter), which must give the same bits, and those are compared with eager under the policy.

Every batch takes the whole way of `sl.compile`: torch's export, all passes, emission, clang at the level that users get.
What differs is how kernels reach clang. In one batch out of ten each kernel is a unit of its own through the disk cache, as
users have it. In the others all kernels of the batch are one unit, and nothing is kept on disk: clang then parses and
instantiates once what they share, which is most of its work, and compiles each kernel with the same flags.
"""

from __future__ import annotations

import random
from typing import Any

import straightline as sl
from straightline import _internal
import torch
from graphs import FLOATS, Graph, Maker, Value
from policy import check_close, same_bits, torch_errors
from torch import Tensor, nn

#: Graphs of a batch.
BATCH = 20
#: One batch in so many is compiled a kernel at a time.
_ALONE_EVERY = 10


def graph_of(seed: int) -> Graph:
    """The graph of a seed."""
    return Maker(random.Random(seed).randint).make()


class Batch(nn.Module):
    """Graphs side by side, each over inputs of its own, of which a model may have some, or all, as parameters and buffers."""

    def __init__(self, graphs: list[Graph], inputs: list[list[Tensor]]) -> None:
        super().__init__()
        self._functions = [graph.function() for graph in graphs]
        self._names: list[list[str]] = []
        #: What a call gets.
        self.given: tuple[Tensor, ...] = ()
        for number, (graph, tensors) in enumerate(zip(graphs, inputs, strict=True)):
            numbers = random.Random(graph.seed)
            kept = numbers.choice((0.0, 0.0, 0.5, 1.0))
            self._names.append(
                [self._keep(tensor, f"p{number}_{i}", numbers.random() < kept) for i, tensor in enumerate(tensors)]
            )

    def _keep(self, tensor: Tensor, name: str, kept: bool) -> str:
        if not kept:
            self.given += (tensor,)
            return ""
        if tensor.is_floating_point():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
        else:
            self.register_buffer(name, tensor)
        return name

    def forward(self, *given: Tensor) -> list[Any]:
        left = iter(given)
        return [
            function(*(getattr(self, name) if name else next(left) for name in names))
            for function, names in zip(self._functions, self._names, strict=True)
        ]


def wide_enough(
    graph: Graph, output: Value, eager: dict[str, Tensor], reference: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Eager's output and the reference with one element more, which carries what the way there allows.

    The policy measures by the output's scale and torch's error in it. A short way through large numbers to a small result
    (a - b) has the scale of the large ones, and by chance torch may be exact in the only element there is: the extra
    element has the largest scale and the largest error of torch on the way.
    """
    way = [value for value in graph.cut(output).values if value.dtype in FLOATS]
    scale = max((reference[v.name].abs().max().item() for v in way if v.count), default=0.0)
    error = max(((eager[v.name].double() - reference[v.name]).abs().max().item() for v in way if v.count), default=0.0)
    # The policy's 8 ulp of the output's scale are those of the coarsest type on the way: a float64 or float32 result may have come
    # through bfloat16. (Results are compared as float64, whose ulp is none; four times the error is allowed.)
    coarsest = max(torch.finfo(eager[v.name].dtype).eps for v in way)
    error = max(error, 8 * coarsest * scale / 4)
    return (
        torch.cat([eager[output.name].double().reshape(-1), torch.tensor([scale + error], dtype=torch.float64)]),
        torch.cat([reference[output.name].reshape(-1), torch.tensor([scale], dtype=torch.float64)]),
    )


def check_graph(graph: Graph, results: Any, inputs: list[Tensor]) -> None:
    """Compares the outputs of one graph with eager."""
    names = [value.name for value in graph.values]
    eager = dict(zip(names, graph.function(results=names)(*inputs), strict=True))
    doubles = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    reference = dict(zip(names, graph.function(double=True, results=names)(*doubles), strict=True))
    for value, got in zip(graph.outputs, results, strict=True):
        want = eager[value.name]
        assert (got.dtype, got.shape) == (want.dtype, want.shape), f"{value.name}: {got.dtype}{tuple(got.shape)}"
        if value.dtype not in FLOATS or value.pure:
            assert torch.equal(got, want), f"{value.name} is {got} but eager gives {want}"
            continue
        wide, true = wide_enough(graph, value, eager, reference)
        given = torch.cat([got.double().reshape(-1), true[-1:]])
        try:
            check_close(given, wide, true, value.name)
        except AssertionError:
            # Torch may have been lucky in the one draw: a sum that cancels, and what is made from it.
            function, exact = graph.function(results=[value.name]), graph.function(double=True, results=[value.name])
            check_close(given, wide, true, value.name, torch_errors(function, (tuple(inputs), {}), exact)[0])


def run_three_forms(graphs: list[Graph], alone: bool = True) -> tuple[list[Any], list[list[Tensor]]]:
    """Results of a batch, which are the same in C++, Python and the interpreter; `alone`: each kernel is a unit of its own."""
    inputs = [graph.tensors() for graph in graphs]
    batch = Batch(graphs, inputs)
    options: dict[str, Any] = {} if alone else {"cache": False, "internal": {"kernels_per_unit": 1_000_000}}
    compiled = _internal.compile(batch, batch.given, threads=1, emit="python", **options)
    with torch.no_grad():
        python = compiled(*batch.given)
        with sl.fast_path(False):
            interpreted = compiled(*batch.given)
        del compiled._python  # without it the straight line of the same program runs
        straight = compiled(*batch.given)
    assert same_bits(python, straight), "python and C++ differ"
    assert same_bits(interpreted, straight), "the interpreter and C++ differ"
    return straight, inputs


def failure_of(graph: Graph) -> str | None:
    """What is wrong with a graph by itself, None when nothing is."""
    try:
        results, inputs = run_three_forms([graph])
        check_graph(graph, results[0], inputs[0])
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return None


def smallest(graph: Graph) -> str:
    """The first value that fails by itself with all that it needs, as text."""
    for value in graph.values[len(graph.inputs) :]:
        cut = graph.cut(value)
        if failure := failure_of(cut):
            shapes = [(v.name, v.dtype, v.shape) for v in graph.inputs]
            return f"{failure[:1500]}\n{cut.text()}inputs {shapes} of seed {graph.seed}"
    return f"{failure_of(graph)}\n{graph.text()}as a whole, of seed {graph.seed}"


def wrong(batch: list[Graph], number: int) -> str:
    """What is wrong with a batch, cut down to the smallest value that shows it; empty when nothing is.

    `number`: of the batch in its run, which decides how it is compiled.
    """
    alone = number % _ALONE_EVERY == 0
    try:
        results, inputs = run_three_forms(batch, alone)
    except Exception as error:  # noqa: BLE001
        said = f"{type(error).__name__}: {str(error)[:500]}"
        small = [smallest(graph) for graph in batch if failure_of(graph)]
        return "\n".join([said, *(small or [f"only together, alone={alone}:", *(graph.text() for graph in batch)])])
    failures = []
    for graph, got, given in zip(batch, results, inputs, strict=True):
        try:
            check_graph(graph, got, given)
        except AssertionError as error:
            failures.append(f"{str(error)[:500]}\n{smallest(graph)}")
    return "\n\n".join(failures)
