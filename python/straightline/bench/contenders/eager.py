# SPDX-License-Identifier: Apache-2.0
"""PyTorch as it is: `module(*inputs)` in inference mode; images also channels last."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from straightline.bench.contender import Contender, Prepared, Task, fastest, python_call


class Eager(Contender):
    """`module(*inputs)`."""

    name = "eager"
    rows = {"eager": "eager"}

    def prepare(self, task: Task) -> Prepared:
        """Chooses the memory format; nothing is compiled."""
        import torch

        candidates = {"contiguous": python_call(task.model, task.inputs)}
        if any(x.dim() == 4 for x in task.inputs):
            model = copy.deepcopy(task.model).to(memory_format=torch.channels_last)
            inputs = tuple(channels_last(x) for x in task.inputs)
            candidates["channels last"] = python_call(model, inputs)
        with torch.inference_mode():
            chosen = fastest(candidates)
            launches = dispatched_kernels(task.model, task.inputs)
        return Prepared({"eager": replace(chosen, launches=launches)}, 0.0, {"torch": torch.__version__})


def channels_last(x: Any) -> Any:
    """Returns an image in that format, and any other tensor unchanged."""
    import torch

    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def dispatched_kernels(model: Any, inputs: tuple[Any, ...]) -> int:
    """Returns the number of ops, views apart, that a call sends through the dispatcher."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            returns = func._schema.returns
            is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
            self.count += not is_view
            return func(*args, **(kwargs or {}))

    with Counter() as counter:
        model(*inputs)
    return counter.count
