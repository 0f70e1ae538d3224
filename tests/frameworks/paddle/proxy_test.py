# SPDX-License-Identifier: Apache-2.0
"""A process whose module `torch` is Paddle's proxy, each order of imports, with PyTorch and without."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = """
import sys
class _None:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("no module named torch", name="torch")
sys.meta_path.insert(0, _None())
"""
_PROXY = """
import paddle
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "_None"]
paddle.compat.enable_torch_proxy()
"""
_OURS = """
import straightline as sl, numpy as np
from straightline import onnx_calls, torch_model
TEXT = '''func.func @forward(%x: tensor<4xf32> {op.name = "x"}) -> tensor<4xf32> {
  %0 = "op.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}'''
"""
_COMPILED = "first = sl.compile_mlir(TEXT)\n"
_TORCH = "import torch as real\n"
_OF_TORCH = "of_torch = sl.compile(real.nn.ReLU(), (real.ones(4),))\n"
#: What every process does in the end.
_USES = """
array, tensor = np.ones(4, "float32"), paddle.ones([4])
fn = sl.compile_mlir(TEXT)
assert type(fn(array)) is np.ndarray and type(fn(tensor)) is paddle.Tensor
layer = sl.compile(paddle.nn.ReLU(), (tensor,))
assert type(layer(tensor)) is paddle.Tensor and type(layer(array)) is np.ndarray
class Model:
    def __call__(self, x):
        return x
try:
    sl.compile(Model(), (array,))
except sl.UserError as error:
    print(error)
"""

_ORDERS = {
    "proxy, ours": _PROXY + _OURS,
    "ours, proxy": _OURS + _COMPILED + _PROXY + "assert type(first(paddle.ones([4]))) is paddle.Tensor\n",
    "torch, proxy, ours": _TORCH + _PROXY + _OURS,
    "torch, ours, proxy": _TORCH + _OURS + _OF_TORCH + _PROXY + "assert type(of_torch(real.ones(4))) is real.Tensor\n",
    "without torch: proxy, ours": _WITHOUT + _PROXY + _OURS,
    "without torch: ours, proxy": _WITHOUT + _OURS + _COMPILED + _PROXY,
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
def test_orders(order: str) -> None:
    code = "import sys\n" + _ORDERS[order] + _USES
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.splitlines()[-1] == (
        "compile captures models by torch, but this process's 'torch' is not PyTorch: its Tensor is paddle.Tensor"
    )


def test_importing_ours_imports_neither() -> None:
    code = "import sys, straightline as sl\nfrom straightline import paddle, paddle_calls\nprint({'paddle', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
