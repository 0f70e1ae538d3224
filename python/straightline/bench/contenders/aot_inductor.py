# SPDX-License-Identifier: Apache-2.0
"""AOTInductor: a package compiled ahead of time, called through the loader's Python callable and through `boxed_run`."""

from __future__ import annotations

import time

from straightline.bench.contender import (
    Call,
    Contender,
    Prepared,
    Task,
    Unsupported,
    python_call,
    python_loop,
)
from straightline.bench.contenders import inductor


class AotInductor(Contender):
    """With freezing, max-autotune and C++ GEMMs."""

    name = "aoti"
    rows = {"aoti": "AOTInductor", "aoti_boxed": "AOTInductor boxed_run"}
    slow_to_compile = True

    def prepare(self, task: Task) -> Prepared:
        """Exports, compiles, packages, loads."""
        import torch

        torch.set_grad_enabled(False)
        start = time.perf_counter()
        try:
            program = torch.export.export(task.model, task.inputs)
        except Exception as error:
            raise Unsupported(f"torch.export does not take the model: {str(error).splitlines()[0]}") from error
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(task.folder / "model.pt2"), inductor_configs=inductor.options()
        )
        function = torch._inductor.aoti_load_package(path)
        function(*task.inputs)
        seconds = time.perf_counter() - start
        launches = inductor.launches_of_package(path)
        boxed = function.loader.boxed_run  # empties the list that it is given
        calls = {
            "aoti": python_call(function, task.inputs, launches=launches),
            "aoti_boxed": Call(
                python_loop(boxed, task.inputs, as_list=True), lambda: boxed(list(task.inputs)), launches=launches
            ),
        }
        return Prepared(calls, seconds, {"torch": torch.__version__})
