# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime with IO binding: inputs and results stand in place before the first call."""

from __future__ import annotations

import time
from typing import Any

from straightline.bench.contender import Call, Contender, Prepared, Task, Unavailable, python_loop
from straightline.bench.contenders.onnx_model import export_onnx


class OnnxRuntime(Contender):
    """All graph optimisations, one pool of so many threads."""

    name = "onnxruntime"
    rows = {"onnxruntime": "ONNX Runtime"}

    def prepare(self, task: Task) -> Prepared:
        """Exports, makes a session, binds."""
        try:
            import onnxruntime
        except ImportError as error:
            raise Unavailable(f"{error}: pip install onnxruntime") from error
        start = time.perf_counter()
        path = export_onnx(task)
        optimized = task.folder / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = task.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        inputs = [x.contiguous().numpy() for x in task.inputs]
        given = session.get_inputs()  # an input that the graph does not use is not among them
        arrays = _matched([spec.name for spec in given], inputs)
        binding = session.io_binding()
        for name, array in arrays.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        results = session.run(None, arrays)
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(result) for result in results]
        for spec, value in zip(session.get_outputs(), values, strict=True):
            binding.bind_ortvalue_output(spec.name, value)
        run = session.run_with_iobinding
        run(binding)
        seconds = time.perf_counter() - start

        def answer() -> list[Any]:
            run(binding)
            return [value.numpy() for value in values]

        options.optimized_model_filepath = str(optimized)
        call = Call(python_loop(run, [binding]), answer, launches=_nodes(path, options))
        versions = {"onnxruntime": onnxruntime.__version__}
        return Prepared({"onnxruntime": call}, seconds, versions, keep=[session, arrays, results])


def _matched(names: list[str], arrays: list[Any]) -> dict[str, Any]:
    if len(names) != len(arrays):
        raise AssertionError(f"the graph has inputs {names} but the case has {len(arrays)}")
    return dict(zip(names, arrays, strict=True))


def _nodes(path: Any, options: Any) -> int:
    """Nodes of the graph after its optimisations: each is a kernel call."""
    import onnx
    import onnxruntime

    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return len(onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node)
