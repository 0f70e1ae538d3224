# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers on an NVIDIA device: answers against float64, then times beside eager (cuDNN) and its CUDA graph.

    python -m bench.cuda_recurrent --json result.json

Fails when an answer is wrong, or the same call gives other bits.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn

from bench import cuda_results
from bench.cuda_decode import times_of

#: features, hidden, batch, steps, type, options of nn.LSTM, nn.GRU or nn.RNN; of each cell
_CHECKED = [
    *((*sizes, torch.float32, {})
      for sizes in ((3, 1, 1, 4), (12, 24, 4, 20), (64, 64, 1, 50), (40, 131, 3, 33), (64, 256, 1, 100))),
    *((16, 97, 70, 9, dtype, {}) for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64)),
    *((30, 140, 33, 21, dtype, {"num_layers": 2, "bidirectional": True, "batch_first": True})
      for dtype in (torch.float32, torch.bfloat16, torch.float64)),
]  # fmt: skip
_CELLS = (nn.LSTM, nn.GRU, nn.RNN)
_TIMED = [
    (64, 128, 1, 20, torch.float32, {}), (64, 128, 1, 100, torch.float32, {}), (64, 64, 1, 100, torch.float32, {}),
    (64, 256, 1, 100, torch.float32, {}), (64, 256, 32, 100, torch.float32, {}), (64, 256, 1, 100, torch.float16, {}),
    (64, 128, 1, 20, torch.float32, {"bidirectional": True}), (64, 128, 1, 20, torch.float32, {"num_layers": 2}),
    (64, 512, 1, 20, torch.float32, {}),
]  # fmt: skip


class Layers(nn.Module):
    """x -> y and the last states; from zeros, or from a given start."""

    def __init__(self, cell: type[nn.RNNBase], features: int, hidden: int, **options: Any) -> None:
        super().__init__()
        self.layers = cell(features, hidden, **options)

    def forward(self, x: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        """All h, and the last h (and c)."""
        y, last = self.layers(x, start if len(start) > 1 else start[0] if start else None)
        return (y, *last) if isinstance(last, tuple) else (y, last)


def made(cell: type[nn.RNNBase], case: tuple[Any, ...]) -> tuple[nn.Module, Tensor]:
    """A model and its input."""
    features, hidden, batch, steps, dtype, options = case
    model = Layers(cell, features, hidden, **options).to(dtype).eval()
    return model, torch.randn((batch, steps, features) if options.get("batch_first") else (steps, batch, features)).to(
        dtype
    )


def check(cell: type[nn.RNNBase], case: tuple[Any, ...]) -> int:
    """Checks results from zeros and from a start, and that many calls give the same bits. Returns the launches of a call."""
    model, x = made(cell, case)
    features, hidden, batch, steps, dtype, options = case
    exact = Layers(cell, features, hidden, **options).double().eval()
    exact.load_state_dict(model.state_dict())
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    start = torch.randn(states, batch, hidden).to(dtype)
    starts = (start, start * 0.5) if cell is nn.LSTM else (start,)
    launches = 0
    for given in ((x,), (x, *starts)):
        compiled = sl.compile(model, given)
        launches = sum(row["phase"] == "run" for row in compiled.explain().statements)
        first = compiled(*given)
        eager, right = model(*given), exact(*(t.double() for t in given))
        for mine, torchs, best in zip(first, eager, right, strict=True):
            bound = 4 * (torchs.double() - best).abs().max().item() + {8: 1e-13, 4: 2e-6, 2: 2e-2}[dtype.itemsize]
            error = (mine.double() - best).abs().max().item()
            assert error <= bound, f"{cell.__name__} {case}: off by {error}, bound {bound}"
        for _ in range(40):
            again = compiled(*given)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), (
                f"{cell.__name__} {case}: other bits"
            )
    return launches


def measure(cell: type[nn.RNNBase], case: tuple[Any, ...]) -> dict[str, Any]:
    """Microseconds of ours, of eager, and of eager's graph."""
    model, x = made(cell, case)
    features, hidden, batch, steps, dtype, options = case
    compiled = sl.compile(model, (x,))
    kind = str(dtype).removeprefix("torch.")
    name = f"{cell.__name__.lower()}({features}, {hidden}), batch {batch}, {steps} steps, {kind}"
    launches = sum(row["phase"] == "run" for row in compiled.explain().statements)
    record: dict[str, Any] = {"case": name + (f", {options}" if options else ""), "launches": launches}
    record["straightline"] = times_of(lambda: compiled(x))
    record["eager"] = times_of(lambda: model(x))
    try:
        record["eager_graph"] = times_of(cuda_results.graph_of(lambda: model(x)))
    except Exception as error:  # it is a comparison: a peer that cannot is reported as such
        record["eager_graph"] = str(error)[:200]
    return record


@torch.no_grad()
def main() -> None:
    """Checks, measures, prints, writes JSON."""
    options = cuda_results.parser(__doc__).parse_args()
    seed = cuda_results.seeded()
    torch.set_default_device("cuda")
    torch.backends.cudnn.allow_tf32 = False  # as ours: exact float32
    print(f"seed {seed}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}", flush=True)
    failures: list[str] = []
    checked = list(itertools.product(_CELLS, _CHECKED))
    for cell, case in checked:
        cuda_results.attempted(failures, f"{cell.__name__} {case}", partial(check, cell, case))
    print(f"{len(checked) - len(failures)} of {len(checked)} right", flush=True)
    records = []
    for cell, case in itertools.product(_CELLS, _TIMED):
        record = measure(cell, case)
        records.append(record)
        sync = {who: round(times["sync_us"], 1) for who, times in record.items() if isinstance(times, dict)}
        print(record["case"], record["launches"], sync, flush=True)
    cuda_results.write(options, records, seed=seed, checked=len(checked), failures=failures)
    if failures:
        raise SystemExit(f"{len(failures)} of {len(checked)} failed")


if __name__ == "__main__":
    main()
