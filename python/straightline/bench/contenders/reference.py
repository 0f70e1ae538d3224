# SPDX-License-Identifier: Apache-2.0
"""The right answers: eager's results and those in float64, and how much work a call is."""

from __future__ import annotations

import copy
from typing import Any

from straightline.bench.contender import Call, Contender, Prepared, Task


class Reference(Contender):
    """Not measured: its process tells the parent what to compare with."""

    name = "reference"
    rows = {"expected": "eager", "exact": "float64"}
    kind = "reference"

    def prepare(self, task: Task) -> Prepared:
        """Runs nothing yet; the two rows are only ever asked for their answers."""
        import torch
        from torch.utils._pytree import tree_leaves

        def expected() -> list[Any]:
            return tree_leaves(task.model(*task.inputs))

        def exact() -> list[Any]:
            model = copy.deepcopy(task.model)
            model = model.double() if isinstance(model, torch.nn.Module) else model
            inputs = [x.double() if x.is_floating_point() else x for x in task.inputs]
            return tree_leaves(model(*inputs))

        # Only the limits of a CPU are known. The counter knows no attention whose queries share heads on a device.
        flops = _flops(task) if task.case.device == "cpu" else 0
        facts = {"flops": str(flops), "bytes": str(_bytes(task))}
        unused = _never_timed
        return Prepared({"expected": Call(unused, expected), "exact": Call(unused, exact)}, 0.0, facts)


def _never_timed(calls: int) -> float:
    raise AssertionError(f"the reference is not timed ({calls} calls)")


def _flops(task: Task) -> int:
    """Floating-point operations of products and convolutions, done the direct way."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    # Without oneDNN's recurrent nets and the fused encoder layer all is products again, which the counter knows.
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            copy.deepcopy(task.model)(*task.inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    return int(counter.get_total_flops())


def _bytes(task: Task) -> int:
    """Bytes that a call has to touch: parameters, inputs, results."""
    import torch
    from torch.utils._pytree import tree_leaves

    parameters = task.case.bytes_read
    if parameters is None:
        tensors = list(task.model.state_dict().values()) if isinstance(task.model, torch.nn.Module) else []
        parameters = sum(t.numel() * t.element_size() for t in tensors)
    with torch.no_grad():
        results = [t for t in tree_leaves(copy.deepcopy(task.model)(*task.inputs)) if isinstance(t, torch.Tensor)]
    return parameters + sum(t.numel() * t.element_size() for t in (*task.inputs, *results))
