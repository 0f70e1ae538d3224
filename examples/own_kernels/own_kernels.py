# SPDX-License-Identifier: Apache-2.0
"""C functions as ops: in eager, in a compiled model, in its saved file, and alone.

python examples/own_kernels/own_kernels.py [FOLDER OF straightline/abi/own_kernel.h]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import straightline as sl
import torch

HERE = Path(__file__).resolve().parent
INCLUDE = sys.argv[1] if len(sys.argv) > 1 else str(Path(sl.__file__).parent / "include")


def library(folder: Path) -> Path:
    """Compiles kernels.c."""
    path = folder / "libkernels.so"
    subprocess.run(
        ["cc", "-O3", "-fPIC", "-shared", f"-I{INCLUDE}", str(HERE / "kernels.c"), "-o", str(path), "-lm"], check=True
    )
    return path


class Clipped(torch.nn.Module):
    """A linear layer whose results are clipped by a kernel of our own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Softly clips what the layer gives."""
        return torch.ops.example.soft_clip(self.fc(x), 0.5)


class Step(torch.nn.Module):
    """One step of an optimizer; every tensor is updated where it lies."""

    def forward(self, params: list[torch.Tensor], grads: list[torch.Tensor], velocities: list[torch.Tensor]) -> None:
        """Updates params and velocities."""
        torch.ops.example.sgd(params, grads, velocities, 0.1, 0.9)


def main() -> None:
    """Runs all of it."""
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = Path(name)
        path = library(folder)
        sl.c_kernel(path, "soft_clip", "example::soft_clip(Tensor x, float limit) -> Tensor")
        sl.c_kernel(
            path,
            "sgd",
            "example::sgd(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] velocities, float lr, float momentum) -> ()",
            status=True,
        )

        model, x = Clipped(), torch.randn(8, 64)
        fn = sl.compile(model, (x,))
        torch.testing.assert_close(fn(x), model(x))
        fn.save(folder / "clipped.sl", cpus=("host",))
        assert torch.equal(sl.load(folder / "clipped.sl")(x), fn(x))
        print("the model calls", ", ".join(kernel.name for backend in fn.kernels for kernel in backend))

        lists = [[torch.randn(n, n) for n in range(1, 9)] for _ in range(3)]
        step = sl.compile(Step(), tuple(lists))
        wanted = [[tensor.clone() for tensor in tensors] for tensors in lists]
        torch.ops.example.sgd(*wanted, 0.1, 0.9)
        step(*lists)
        assert all(torch.equal(a, b) for ours, eager in zip(lists, wanted) for a, b in zip(ours, eager))
        print("one op updated", len(lists[0]), "tensors in place")


if __name__ == "__main__":
    main()
