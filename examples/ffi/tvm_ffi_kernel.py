# SPDX-License-Identifier: Apache-2.0
"""A kernel of TVM-FFI in a compiled model: an op in eager code, a direct call of its C symbol in the program."""

import subprocess
import tempfile
from pathlib import Path

import straightline as sl
import torch
import tvm_ffi

SOURCE = Path(__file__).resolve().parent / "rmsnorm.c"

with tempfile.TemporaryDirectory() as folder:
    library = Path(folder) / "librmsnorm.so"
    where = Path(tvm_ffi.__file__).parent / "lib"
    subprocess.run(
        ["cc", "-O3", "-shared", "-fPIC", SOURCE, "-o", library, f"-L{where}", "-ltvm_ffi", "-lm"], check=True
    )
    sl.tvm_ffi_library(library, {"rmsnorm": "example::rmsnorm(Tensor(a!) out, Tensor x, Tensor w, float eps) -> ()"})


class Block(torch.nn.Module):
    """Normalised rows, then a product."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(64))
        self.linear = torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape [rows, 64]."""
        normed = torch.empty_like(x)
        torch.ops.example.rmsnorm(normed, x, self.weight, 1e-6)
        return self.linear(normed)


block = Block().eval().requires_grad_(False)
x = torch.randn(4, 64)
fn = sl.compile(block, (x,))
expected = block.linear(torch.nn.functional.rms_norm(x, (64,), block.weight, 1e-6))
torch.testing.assert_close(fn(x), expected, rtol=1e-4, atol=1e-5)
print(fn.explain())
