# SPDX-License-Identifier: Apache-2.0
"""Triton kernels in programs for a CUDA device: an op of its own, an op of `torch.library.triton_op`, and their saved file.

python examples/own_kernels/triton_kernels.py [FILE.sl]    compiles for sm_90, with or without a device; where one is, runs it
"""

# ruff: noqa: ANN001, ANN201  (parameters of Triton kernels have no types)
from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import straightline as sl
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def rms_norm(x_ptr, weight_ptr, columns, eps, out_ptr, BLOCK: tl.constexpr):
    """A row a block: x / sqrt(mean(x^2) + eps) * weight."""
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, 0) / columns + eps)
    weight = tl.load(weight_ptr + at, mask=at < columns)
    tl.store(out_ptr + row + at, x * scale * weight, mask=at < columns)


@triton.jit
def gate(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """SiLU of x, times y."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.sigmoid(x) * y, mask=at < n)


norm = sl.triton_kernel(
    rms_norm,
    "triton_example::rms_norm(Tensor x_ptr, Tensor weight_ptr, int columns, float eps) -> Tensor",
    grid=lambda meta: (meta["x_ptr"].shape[0],),
    constants=lambda meta: {"BLOCK": triton.next_power_of_2(meta["columns"])},
)


@triton_op("triton_example::gated", mutates_args={})
def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """An op of torch's that consists of launches."""
    out, n = torch.empty_like(x), x.numel()
    wrap_triton(gate)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=1024)
    return out


class Block(torch.nn.Module):
    """The norm and the gated product of a transformer's layer."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width))
        self.gate = torch.nn.Linear(width, width, bias=False)
        self.up = torch.nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Norm, two products, gate."""
        x = torch.ops.triton_example.rms_norm(x, self.weight, x.shape[1], 1e-6)
        return gated(self.gate(x), self.up(x))


def reference(block: Block, x: torch.Tensor) -> torch.Tensor:
    """The same by torch's own ops."""
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * block.weight
    return torch.nn.functional.silu(block.gate(x)) * block.up(x)


def main() -> None:
    """Compiles, saves and, where there is a device, runs."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    block, x = Block().to(device).eval(), torch.randn(64, 512, device=device)
    rows = torch.export.Dim("rows", min=1, max=4096)
    target = None if device == "cuda" else "cuda:sm_90"
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "block.sl"
        fn = sl.compile(block, (x,), target=target, dynamic_shapes=({0: rows},))
        for row in fn.explain()["statements"]:
            if "triton" in row["op"].lower():
                print(f"{row['op']}: {row['why']}")
        fn.save(path)
        print(f"saved {path.stat().st_size} bytes, which need no Triton")
        if device == "cpu":
            print("no device: compiled for sm_90")
            return
        torch.testing.assert_close(fn(x), reference(block, x), rtol=1e-3, atol=1e-3)
        assert torch.equal(sl.load(path)(x), fn(x))
        print("right on a device")


if __name__ == "__main__":
    main()
