# SPDX-License-Identifier: Apache-2.0
"""OpenVINO: one latency-bound request in float32, tensors set before the first call."""

from __future__ import annotations

import time
from typing import Any

from straightline.bench.contender import (
    Call,
    Contender,
    Prepared,
    Task,
    Unavailable,
    Unsupported,
    python_loop,
)
from straightline.bench.contenders.onnx_model import export_onnx

_NO_KERNEL = ("Parameter", "Result", "Constant", "Input", "Output", "Const")


class OpenVino(Contender):
    """The CPU plug-in with the latency hint, one stream."""

    name = "openvino"
    rows = {"openvino": "OpenVINO"}

    def prepare(self, task: Task) -> Prepared:
        """Converts from ONNX, compiles, sets the inputs."""
        try:
            import openvino
        except ImportError as error:
            raise Unavailable(f"{error}: pip install openvino") from error
        start = time.perf_counter()
        core = openvino.Core()
        try:
            converted = openvino.convert_model(str(export_onnx(task)))
            # Where the CPU has bfloat16 it would compute in that otherwise.
            settings = {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "f32",
                "INFERENCE_NUM_THREADS": task.threads,
                "NUM_STREAMS": 1,
            }
            compiled = core.compile_model(converted, "CPU", settings)
        except (RuntimeError, TypeError) as error:
            raise Unsupported(f"it does not take the model: {str(error).strip().splitlines()[-1]}") from error
        request = compiled.create_infer_request()
        arrays = [x.contiguous().numpy() for x in task.inputs]
        for index, array in enumerate(arrays):
            request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
        # What InferRequest.infer calls once it has looked at its arguments: the inputs stand already.
        infer = super(openvino.InferRequest, request).infer
        shared = ({}, True, False)  # no new inputs, results not copied, no strings
        results = [request.get_output_tensor(i) for i in range(len(compiled.outputs))]
        infer(*shared)
        seconds = time.perf_counter() - start

        def answer() -> list[Any]:
            infer(*shared)
            return [result.data.copy() for result in results]

        nodes = [op for op in compiled.get_runtime_model().get_ops() if _layer(op) not in _NO_KERNEL]
        call = Call(python_loop(infer, shared), answer, launches=len(nodes))
        return Prepared({"openvino": call}, seconds, {"openvino": openvino.__version__}, keep=[compiled, arrays])


def _layer(op: Any) -> str:
    info = op.get_rt_info()
    return str(info["layerType"].astype(str)) if "layerType" in info else op.get_type_name()
