# SPDX-License-Identifier: Apache-2.0
"""`python xnnpack_models.py LIBRARY`: models by XNNPACK and by our kernels, within the numeric policy of float64."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import straightline as sl
import torch
from policy import check, launches
from torch import Tensor, nn
from torch.nn import functional

_ROUTES = {"linear": "xnnpack", "convolution": "xnnpack"}


class Block(nn.Module):
    """A residual block."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)])
        self.short = nn.Conv2d(inside, outside, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + self.short(x))


class ResNet(nn.Module):
    """ResNet-18 with fewer channels, and a depthwise and a grouped convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        sizes = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 96, 2), (96, 96, 1))
        self.blocks = nn.Sequential(*(Block(*size) for size in sizes))
        self.tail = nn.Sequential(nn.Conv2d(96, 96, 3, 1, 1, groups=96), nn.ReLU(), nn.Conv2d(96, 48, 1, groups=4))
        self.head = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(self.tail(self.blocks(self.stem(x))), 1), 1))


def _mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 33, bias=False), nn.GELU(), nn.Linear(33, 7)
    ).eval()


def _made(model: nn.Module) -> nn.Module:
    """With statistics that are not those of a fresh model."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return model.eval()


def _by(compiled: Any, op: str) -> set[str]:
    """Backends that compute the op, without what is left of its fusion behind a library."""
    rows = [row for row in launches(compiled) if not str(row["why"]).startswith("what the epilogue")]
    return {str(row["backend"]) for row in rows if op in str(row["op"]).split(", ")}


def _at_once(compiled: Any, shape: tuple[int, ...], threads: int = 8, calls: int = 5) -> None:
    inputs = [torch.randn(shape) for _ in range(threads)]
    alone = [compiled(x).clone() for x in inputs]
    wrong: list[int] = []
    begin = threading.Barrier(threads)

    def work(i: int) -> None:
        begin.wait()
        for _ in range(calls):
            if not torch.equal(compiled(inputs[i]), alone[i]):
                wrong.append(i)

    every = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    assert not wrong, wrong


@torch.no_grad()
def main(library: str) -> None:
    """Fails where something is not as it should be."""
    sl.load_backend(library)
    for name, model, shape in (("MLP", _mlp(), (5, 48)), ("ResNet", _made(ResNet()), (2, 3, 64, 64))):
        for threads in (1, 2):
            x = torch.randn(shape)
            compiled = check(model, (x,), calls=[(torch.randn(shape),)], threads=threads, routes=_ROUTES)
            assert _by(compiled, "linear") == {"xnnpack"}, launches(compiled)
            assert name == "MLP" or _by(compiled, "convolution") == {"xnnpack"}, launches(compiled)
        assert any("relu" in str(row["op"]) and row["backend"] == "xnnpack" for row in launches(compiled))
        native = sl.compile(model, (x,), allow=["native"])
        torch.testing.assert_close(compiled(x), native(x), rtol=1e-4, atol=1e-4)
        _at_once(compiled, shape)
        _at_once(sl.compile(model, (x,), routes=_ROUTES, emit="python"), shape)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.sl"
            compiled.save(path, libraries=["xnnpack"])
            assert torch.equal(sl.load(path)(x), compiled(x))
        print(f"{name}: {sum(row['backend'] == 'xnnpack' for row in launches(compiled))} statements by XNNPACK")  # noqa: T201
    pools = [
        (lambda x: functional.max_pool2d(x, 3, 2, 1), "max_pool2d"),
        (lambda x: functional.avg_pool2d(x, 2), "avg_pool2d"),
        (lambda x: functional.adaptive_avg_pool2d(x, 1), "adaptive_avg_pool2d"),
    ]
    for function, op in pools:
        assert _by(check(function, (torch.randn(2, 8, 12, 12),), routes={op: "xnnpack"}), op) == {"xnnpack"}
    rows = [(lambda x: x.softmax(-1), "softmax"), (torch.sigmoid, "sigmoid"), (functional.hardswish, "hardswish")]
    rows += [(functional.leaky_relu, "leaky_relu"), (functional.elu, "elu"), (torch.relu, "relu")]
    for function, op in rows:
        assert _by(check(function, (torch.randn(7, 33),), routes={op: "xnnpack"}), op) == {"xnnpack"}, op


if __name__ == "__main__":
    main(sys.argv[1])
