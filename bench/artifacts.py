# SPDX-License-Identifier: Apache-2.0
"""Measures saved models: sizes, times of saving, loading and calling, memory of processes.

python -m bench.artifacts --json out.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from straightline.testing.models.mobilenet import MobileNet
from torch import nn

from bench.cases.models import EncoderLayer
from bench.cases.resnet import resnet18

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(sl.__file__).parent


def _median(work: Callable[[], Any], count: int) -> float:
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _private_kb(pid: int) -> tuple[int, int]:
    """Private and proportional kilobytes of a process."""
    private = shared = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Private_Clean", "Private_Dirty"):
            private += int(rest.split()[0])
        if name == "Pss":
            shared = int(rest.split()[0])
    return private, shared


class _Lstm(nn.Module):
    """Two layers of 512: 17 MB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(512, 512, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes [steps, batch, 512], returns all h."""
        return self.layers(x)[0]


#: Models of which opening without prepared weights is measured alone, and their input.
_OPENED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet": (MobileNet, (1, 3, 224, 224)),
    "encoder_768_2_layers": (lambda: nn.Sequential(*(EncoderLayer(768, 12, 3072) for _ in range(2))), (1, 32, 768)),
    "lstm_512_2_layers": (_Lstm, (20, 1, 512)),
}


def _runs(runner: Path, file: Path) -> dict[str, float]:
    """Medians of 9 fresh processes, and opening with the first result as so many calls."""
    runs = [
        json.loads(subprocess.run([runner, file], capture_output=True, text=True, check=True).stdout) for _ in range(9)
    ]
    facts = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    facts["opened_in_calls"] = statistics.median((run["load_us"] + run["first_us"]) / run["median_us"] for run in runs)
    return facts


def measure_opening(name: str, folder: Path, runner: Path) -> dict[str, float]:
    """Opening and calls of a model that needs no library."""
    make, shape = _OPENED[name]
    path = folder / f"{name}.sl"
    with torch.no_grad():
        function = sl.compile(make().eval(), (torch.randn(shape),), threads=1, cpu="x86-64-v4", allow=("native",))
        function.save(path)
    return _runs(runner, path)


def measure(name: str, model: nn.Module, x: torch.Tensor, folder: Path, runner: Path) -> dict[str, Any]:
    """All figures of one model."""
    with torch.no_grad():
        model = model.eval()
        # for the same level as the file's, so that kernels are the same
        function = sl.compile(model, (x,), threads=1, cpu="x86-64-v4")
        function(x)
        jit = [0.0] * 2000
        end = time.perf_counter() + 1.5
        count = 0
        out = function(x)
        while count < len(jit) and time.perf_counter() < end:
            begin = time.perf_counter()
            function(x, out=out)
            jit[count] = time.perf_counter() - begin
            count += 1
        call = statistics.median(jit[:count]) * 1e6
    path, prepared = folder / f"{name}.sl", folder / f"{name}_prepared.sl"
    function.save(path)
    save = _median(lambda: function.save(path), 3)
    function.save(prepared, prepared=True)
    weights = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    facts: dict[str, Any] = {
        "weights": weights,
        "file_beside_weights": path.stat().st_size - weights,
        "save_s": save,
        "python_call_us": call,
        "python_least_us": min(jit[:count]) * 1e6,
    }
    facts["file"], facts["prepared"] = _runs(runner, path), _runs(runner, prepared)
    processes = [
        subprocess.Popen([runner, prepared, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(8)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    sizes = [_private_kb(process.pid) for process in processes]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    facts["private_kb_of_8_processes"] = [private for private, _ in sizes]
    facts["input_kb"] = x.numel() * x.element_size() // 1024  # which each of them has as well
    return facts


def _python_start(path: Path) -> float:
    """Import, load and first result over `import numpy`, in milliseconds; the median of 7 processes."""
    script = (
        "import time, sys, numpy as np\nx = np.zeros((1, 64), 'float32')\na = time.perf_counter()\n"
        f"import straightline as sl\nsl.load({str(path)!r})(x)\nprint((time.perf_counter() - a) * 1e3)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    return statistics.median(
        float(
            subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
            ).stdout
        )
        for _ in range(7)
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [
                "gcc", "-std=c11", "-O1",
                ROOT / "bench/artifact_calls.c", f"-I{PACKAGE.parents[1]}/include", f"-L{PACKAGE}", "-lstraightline_runtime",
                f"-Wl,-rpath,{PACKAGE}", "-o", folder / "run",
            ],
            check=True,
        )  # fmt: skip
        mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        facts = {
            "mlp": measure("mlp", mlp, torch.randn(1, 64), folder, folder / "run"),
            "resnet18": measure("resnet18", resnet18(), torch.randn(1, 3, 224, 224), folder, folder / "run"),
            "opened": {name: measure_opening(name, folder, folder / "run") for name in _OPENED},
            "python_start_ms": _python_start(folder / "mlp.sl"),
        }
    print(json.dumps(facts, indent=1))
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
