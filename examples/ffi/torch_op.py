# SPDX-License-Identifier: Apache-2.0
"""A compiled model as an op of torch: in eager code, in torch.compile, and from a library in a process without Straightline."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import straightline as sl
import torch

_ELSEWHERE = """
import sys, torch
torch.ops.load_library(sys.argv[1])
x = torch.ones(2, 16)
print(torch.ops.mylib.scores(x).sum().item())
assert "straightline" not in sys.modules
"""

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
rows = torch.export.Dim("rows", min=1, max=1024)
fn = sl.compile(model, (torch.randn(2, 16),), dynamic_shapes={"input": {0: rows}})

registered = fn.register("mylib::forward")
print(registered.schema)
x = torch.randn(5, 16)
torch.testing.assert_close(torch.ops.mylib.forward(x), model(x))


@torch.compile(fullgraph=True)
def step(x: torch.Tensor) -> torch.Tensor:
    """One graph, in which the op is a node."""
    return torch.ops.mylib.forward(x * 2).softmax(-1)


torch.testing.assert_close(step(x), model(x * 2).softmax(-1))

with tempfile.TemporaryDirectory() as folder:
    library = Path(folder) / "scores.so"
    sl.compile(model, (torch.randn(2, 16),)).export_library(library, torch_op="mylib::scores")
    # torch would import the package by its entry point; a process elsewhere does not have it.
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", _ELSEWHERE, library]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
    with torch.no_grad():
        assert abs(float(done.stdout) - model(torch.ones(2, 16)).sum().item()) < 1e-4
    print("the same from a library:", done.stdout.strip())
