# SPDX-License-Identifier: Apache-2.0
"""Reductions of few rows on a CUDA device against eager and against the time that memory takes: which kernels, and do they pay?

    python -m bench.cuda_reductions --json result.json

`stream_us` is a call's share of a CUDA graph of 20 calls on inputs that together are more than L2 holds (or 32 of them), so
neither the host nor a cache helps; `bound_us` is the bytes read and written over 4.8 TB/s. Fails when an answer is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench import cuda_results

_BYTES_PER_US = 4.8e6
_CALLS = 20
_CASES: list[tuple[str, Callable[[Tensor], Tensor], tuple[int, ...], torch.dtype]] = [
    ("sum", lambda x: x.sum(-1), (1, 1_000_000), torch.float32),
    ("sum", lambda x: x.sum(-1), (1, 1_048_583), torch.float32),  # a prime: a cluster
    ("sum", lambda x: x.sum(-1), (1, 65_536), torch.float32),
    ("sum", lambda x: x.sum(-1), (1, 262_144), torch.float32),
    ("sum in two by hand", lambda x: x.view(128, -1).sum(-1).sum(), (1, 262_144), torch.float32),
    ("sum", lambda x: x.sum(), (4096, 4096), torch.float32),
    ("sum", lambda x: x.sum(), (16384, 16384), torch.float32),
    ("sum of squares", lambda x: (x * x).sum(), (4096, 4096), torch.bfloat16),
    ("max", lambda x: x.amax(-1), (4, 151_936), torch.float32),
    ("argmax", lambda x: x.argmax(-1), (1, 151_936), torch.float32),
    ("argmax", lambda x: x.argmax(-1), (4, 151_936), torch.bfloat16),
    ("argmax", lambda x: x.argmax(-1), (1, 1_000_000), torch.float32),
    ("softmax", lambda x: x.softmax(-1), (4, 151_936), torch.float32),
    ("softmax", lambda x: x.softmax(-1), (1, 32_768), torch.float32),
    ("softmax", lambda x: x.softmax(-1), (32, 32_768), torch.float32),
    ("softmax", lambda x: x.softmax(-1), (256, 65_536), torch.float32),
    ("softmax", lambda x: x.softmax(-1), (1, 1_000_000), torch.float32),
    ("log_softmax", lambda x: x.log_softmax(-1), (4, 151_936), torch.bfloat16),
    ("logsumexp", lambda x: x.logsumexp(-1), (1, 1_000_000), torch.float32),
    ("layer_norm", lambda x: F.layer_norm(x, x.shape[1:]), (2, 1 << 20), torch.float32),
    ("layer_norm", lambda x: F.layer_norm(x, x.shape[1:]), (8, 131_072), torch.float32),
    ("sum over dim 0", lambda x: x.sum(0), (100_000, 64), torch.float32),
    ("mean over dim 0", lambda x: x.mean(0), (100_000, 4), torch.float32),
    ("argmax over dim 0", lambda x: x.argmax(0), (100_000, 64), torch.float32),
    ("softmax over dim 0", lambda x: x.softmax(0), (100_000, 8), torch.float32),
    ("var of channels", lambda x: x.var((0, 2, 3)), (32, 64, 56, 56), torch.float32),
]


class _Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@torch.no_grad()
def measure(
    name: str, function: Callable[[Tensor], Tensor], shape: tuple[int, ...], dtype: torch.dtype
) -> list[dict[str, Any]]:
    """Records of ours and of eager; raises when an answer is wrong."""
    x = torch.randn(shape, device="cuda").to(dtype)
    compiled = sl.compile(_Of(function), (x,))
    got, eager, again = compiled(x), function(x), compiled(x)
    assert torch.equal(got, again), f"{name} {shape}: differs from call to call"
    if got.is_floating_point():
        exact = function(x.double())
        mine, its = ((y.double() - exact).abs().max() for y in (got, eager))
        assert mine <= 4 * its + 1e-6 * exact.abs().max(), (
            f"{name} {shape}: off by {float(mine)}, eager by {float(its)}"
        )
    else:
        assert torch.equal(got, eager), f"{name} {shape}: {got} but eager {eager}"
    size = x.numel() * x.element_size()
    others = min(31, (128 << 20) // size)
    inputs = [x, *(torch.randn(shape, device="cuda").to(dtype) for _ in range(others))]
    label = f"{name} {'x'.join(map(str, shape))} {str(dtype)[6:]}"
    common = {"case": label, "bound_us": (size + got.numel() * got.element_size()) / _BYTES_PER_US}
    kernels = [row["kernel"] for row in compiled.explain().statements if row["phase"] == "run"]
    return [
        {
            **common,
            "contender": "straightline",
            "stream_us": cuda_results.graph_us(compiled, inputs, _CALLS),
            "kernels": kernels,
        },
        {**common, "contender": "eager", "stream_us": cuda_results.graph_us(function, inputs, _CALLS)},
    ]


def main() -> None:
    """Checks, measures, writes JSON."""
    options = cuda_results.parser(__doc__).parse_args()
    seed = cuda_results.seeded()
    records, failures = [], []
    for case in _CASES:
        found = cuda_results.attempted(failures, f"{case[0]} {case[2]}", partial(measure, *case))
        if found is None:
            continue
        records += found
        ours, eager = found
        times = f"{ours['stream_us']:8.1f}   eager {eager['stream_us']:8.1f}   bound {ours['bound_us']:7.2f}"
        print(f"{ours['case']:38} {times}   {len(ours['kernels'])} kernels", flush=True)
    cuda_results.write(options, records, seed=seed)
    if failures:
        raise SystemExit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
