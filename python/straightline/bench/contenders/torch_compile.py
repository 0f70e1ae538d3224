# SPDX-License-Identifier: Apache-2.0
"""`torch.compile` with freezing and max-autotune; caches in this process's folder."""

from __future__ import annotations

import time
from typing import Any

from straightline.bench.contender import Call, Contender, Prepared, Task, fastest, python_call
from straightline.bench.contenders.eager import channels_last


def inductor_options() -> dict[str, Any]:
    """Inductor at its best for inference on a CPU, as its documents advise: weights frozen, C++ GEMMs tuned against oneDNN's."""
    return {
        "freezing": True,
        "max_autotune": True,
        "max_autotune_gemm_backends": "CPP,ATEN",
        "autotune_remote_cache": False,
        "fx_graph_remote_cache": False,
    }


class TorchCompile(Contender):
    """With Inductor's Python wrapper, and with its C++ one; the faster counts."""

    name = "compile"
    rows = {"compile": "torch.compile"}
    slow_to_compile = True

    def prepare(self, task: Task) -> Prepared:
        """Compiles both; the time is that of the one that is chosen."""
        import torch
        from torch._inductor import config

        torch.set_grad_enabled(False)
        candidates: dict[str, Call] = {}
        seconds: dict[str, float] = {}
        inputs = tuple(channels_last(x) for x in task.inputs)
        for name, extra in (("python wrapper", {}), ("cpp wrapper", {"cpp_wrapper": True})):
            torch._dynamo.reset()
            start = time.perf_counter()
            with config.patch({**inductor_options(), **extra}), torch.inference_mode():
                function = torch.compile(task.model)
                function(*inputs)
                seconds[name] = time.perf_counter() - start
                function(*inputs)
                candidates[name] = python_call(function, inputs)
        with torch.inference_mode():
            chosen = fastest(candidates)
        compile_s = next(s for name, s in seconds.items() if chosen.configuration.startswith(name))
        return Prepared({"compile": chosen}, compile_s, {"torch": torch.__version__})
