# SPDX-License-Identifier: Apache-2.0
"""A compiled model as a function of TVM-FFI: in this process, and as a library for tvm_ffi.load_module and for C."""

import tempfile
from pathlib import Path

import numpy as np
import straightline as sl
import torch
import tvm_ffi

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
x = torch.randn(2, 16)
fn = sl.compile(model, (x,))

forward = fn.tvm_ffi()
torch.testing.assert_close(forward(x), fn(x))  # torch's tensors in, torch's out
y = torch.empty(2, 4)
forward(x, y)  # or into a tensor of the caller's
assert torch.equal(y, fn(x))
assert np.array_equal(np.from_dlpack(forward(x.numpy())), y.numpy())

with tempfile.TemporaryDirectory() as folder:
    library = Path(folder) / "forward.so"
    fn.export_library(library, symbol="forward")
    module = tvm_ffi.load_module(str(library))
    assert torch.equal(module.forward(x), y)
    print("the library has", library.stat().st_size, "bytes")
