# SPDX-License-Identifier: Apache-2.0
"""What a Triton kernel costs in a program: 20 of them against 20 of our own of the same size, on a CUDA device.

    python -m bench.triton_kernels [--json FILE]

Each program is a chain of 20 kernels over 16,384 float32: a multiple of one tensor is added to another by Triton kernels
(`sl.triton_kernel`), and by CUDA text of the user's (`sl.cuda_kernel`); the compiler's own kernels, which would be one of such
additions, are 20 running sums of 128 rows. Microseconds a call, least of 7 series: `enqueue` until the call returns (the device
is waited for before each), `sync` until the device is done. `triton` is 20 launches by Triton's own launcher.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
import triton
import triton.language as tl
from torch import Tensor, nn

_COUNT, _SIZE = 20, 16384
_TEXT = """
__global__ void scaled_add(const float* x, const float* y, int64_t n, double alpha, float* out) {
  const int64_t i = (int64_t(blockIdx.x) * 128 + threadIdx.x) * 4;
  if (i + 3 < n) {
    const float4 a = *(const float4*)(x + i), b = *(const float4*)(y + i);
    const float f = float(alpha);
    *(float4*)(out + i) = make_float4(a.x + f * b.x, a.y + f * b.y, a.z + f * b.z, a.w + f * b.w);
  }
}
"""


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Writes x + alpha y."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + alpha * y, mask=at < n)


class _Chain(nn.Module):
    def __init__(self, step: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self._step = step

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for _ in range(_COUNT):
            x = self._step(x, y)
        return x


def _register() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    sl.triton_kernel(
        scaled_add, "bench_triton::add(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> Tensor",
        grid=lambda meta: (triton.cdiv(meta["n"], 512),), constants={"BLOCK": 512}, num_warps=4,
    )  # fmt: skip
    sl.cuda_kernel(
        _TEXT, "scaled_add", "bench_triton::add_text(Tensor x, Tensor y, int n, float alpha) -> Tensor",
        grid=lambda x, y, n, alpha: ((n + 511) // 512, 128),
    )  # fmt: skip
    ops = torch.ops.bench_triton
    return {
        "triton kernels": lambda x, y: ops.add(x, y, _SIZE, 0.5),
        "cuda kernels": lambda x, y: ops.add_text(x, y, _SIZE, 0.5),
    }


def _ours(x: Tensor, y: Tensor) -> Tensor:
    """A kernel of rows that is not fused with its like."""
    return torch.cumsum(x.view(128, 128), 1).view(-1)


def _us(function: Callable[[], Any], waits: bool, repeats: int = 200) -> float:
    best = float("inf")
    for _ in range(7):
        took = 0.0
        for _ in range(repeats):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            function()
            if waits:
                torch.cuda.synchronize()
            took += time.perf_counter() - begin
        best = min(best, took / repeats)
    torch.cuda.synchronize()
    return best * 1e6


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    x, y = torch.randn(_SIZE, device="cuda"), torch.randn(_SIZE, device="cuda")
    steps = _register()
    wanted = _Chain(lambda x, y: x + 0.5 * y)(x, y)
    records: list[dict[str, Any]] = []

    def record(name: str, launch: str, call: Callable[[], Any]) -> None:
        for _ in range(50):
            call()
        row = {"case": name, "launch": launch, "enqueue_us": _us(call, False), "sync_us": _us(call, True)}
        records.append(row)
        print(f"{name:16}{launch:8}{row['enqueue_us']:8.2f} us enqueue{row['sync_us']:8.2f} us sync", flush=True)

    for launch in ("graph", "stream"):
        for name, step in {**steps, "compiler's": _ours}.items():
            fn = sl.compile(_Chain(step), (x, y), launch=launch)
            launches = [row for row in fn.explain()["statements"] if row.get("blocks")]
            assert len(launches) == _COUNT, (name, len(launches))
            if step is not _ours:
                torch.testing.assert_close(fn(x, y), wanted)
            record(name, launch, lambda fn=fn: fn(x, y))
    out = torch.empty_like(x)

    def by_triton() -> None:
        for _ in range(_COUNT):
            scaled_add[(triton.cdiv(_SIZE, 512),)](x, y, out, _SIZE, 0.5, BLOCK=512)

    record("triton", "", by_triton)
    for launch in ("graph", "stream"):
        by_name = {row["case"]: row for row in records if row["launch"] == launch}
        for kind in ("enqueue_us", "sync_us"):
            for other in ("cuda kernels", "compiler's"):
                share = by_name["triton kernels"][kind] / by_name[other][kind]
                print(f"{launch} {kind}: triton kernels take {share:.3f} of {other} (bar 1.1)")
    if options.json:
        record_of = {"device": torch.cuda.get_device_name(), "triton": triton.__version__, "records": records}
        options.json.write_text(json.dumps(record_of, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
