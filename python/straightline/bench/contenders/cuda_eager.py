# SPDX-License-Identifier: Apache-2.0
"""PyTorch as it is on a CUDA device, and the same captured as a CUDA graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from straightline.bench.contender import Call, Contender, Prepared, Task, cuda_call, fastest
from straightline.bench.contenders.eager import channels_last


class CudaEager(Contender):
    """`module(*inputs)` in inference mode."""

    name = "eager"
    rows = {"eager": "eager"}

    def prepare(self, task: Task) -> Prepared:
        """Chooses the memory format; nothing is compiled."""
        import torch

        with torch.inference_mode():
            candidates = {name: cuda_call(model, inputs) for name, model, inputs in formats(task)}
            return Prepared({"eager": fastest(candidates)}, 0.0, {"torch": torch.__version__})


class CudaGraphOfEager(Contender):
    """What eager launches, captured once: replayed over the inputs that it was captured with."""

    name = "eager_graph"
    rows = {"eager_graph": "CUDA graph of eager"}

    def prepare(self, task: Task) -> Prepared:
        """Captures in each memory format; the faster one counts."""
        import torch
        from torch.utils._pytree import tree_leaves

        candidates: dict[str, Call] = {}
        keep: list[Any] = []
        with torch.inference_mode():
            for name, model, inputs in formats(task):
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(3):
                        model(*inputs)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    results = tree_leaves(model(*inputs))
                candidates[name] = _replayed(graph, results)
                keep += [graph, model, inputs, results]
            return Prepared({"eager_graph": fastest(candidates)}, 0.0, {"torch": torch.__version__}, keep)


def _replayed(graph: Any, results: list[Any]) -> Call:
    def replay() -> list[Any]:
        graph.replay()
        return results

    bare = cuda_call(graph.replay, ())
    return Call(bare.loop, lambda: [result.clone() for result in replay()], singles=bare.singles)


def formats(task: Task) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The model and its inputs as they are, and where there are images with them channels last."""
    import torch

    yield "contiguous", task.model, task.inputs
    if any(x.dim() == 4 for x in task.inputs) and isinstance(task.model, torch.nn.Module):
        model = copy.deepcopy(task.model).to(memory_format=torch.channels_last)
        yield "channels last", model, tuple(channels_last(x) for x in task.inputs)
