# SPDX-License-Identifier: Apache-2.0
"""Layers of Paddle against Paddle: small nets, ResNet-18, recurrent ones, BERT, control flow, the model zoo, dynamic batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
from paddle import nn
from paddle.vision import models as zoo

from tests.frameworks.paddle.comparison import assert_close, fresh_seed
from bench.paddle_models import Bert, Branches, Recurrent


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    return [value]


def _check(layer: Any, args: tuple[Any, ...], scale: float = 1.0, calls: Any = None, **options: Any) -> Any:
    """Compiles and compares; every result has what Paddle's has, in the same structure."""
    layer.eval()
    compiled = sl.compile(layer, args, **options)
    for given in calls or [args]:
        with paddle.no_grad():
            want = layer(*given)
            got = compiled(*given)
        assert type(got) is type(want)
        for a, b in zip(_leaves(got), _leaves(want), strict=True):
            assert type(a) is paddle.Tensor
            assert a.stop_gradient
            assert_close(a, b, type(layer).__name__, scale)
    return compiled


def _kernels(compiled: Any) -> list[str]:
    """Kernels of a run, in order."""
    return [row["kernel"] for row in compiled.explain().facts["statements"] if row["phase"] == "run"]


def _images(*shape: int) -> tuple[Any]:
    return (paddle.randn(list(shape)),)


@pytest.fixture(autouse=True)
def _seed() -> None:
    paddle.seed(fresh_seed())


def test_single_add_and_reshape_add() -> None:
    def single(x: Any, y: Any) -> Any:
        return x + y

    def reshaped(x: Any, y: Any) -> Any:
        return paddle.reshape(x, [4, 4]) + y

    for function, shapes in ((single, ([4, 4], [4, 4])), (reshaped, ([2, 8], [4, 4]))):
        x, y = (paddle.randn(shape) for shape in shapes)
        compiled = sl.compile(function, (x, y))
        assert_close(compiled(x, y), function(x, y))
        assert len(_kernels(compiled)) == 1


def test_lenet() -> None:
    _check(zoo.LeNet(), _images(2, 1, 28, 28))


@pytest.mark.parametrize("batch", [1, 10])
def test_resnet18(batch: int) -> None:
    _check(zoo.resnet18(), _images(batch, 3, 64, 64), 10)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "bidirect"])
def test_recurrent(kind: str, direction: str) -> None:
    words = paddle.randint(0, 100, [3, 7])
    _check(Recurrent(kind, direction=direction), (words,), 4)


def test_recurrent_with_given_states() -> None:
    class Given(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(5, 6, time_major=True)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            return self.layer(x, (h, c))

    _check(Given(), (paddle.randn([4, 2, 5]), paddle.randn([1, 2, 6]), paddle.randn([1, 2, 6])), 4)


def test_bert() -> None:
    words = paddle.randint(0, 200, [2, 16])
    mask = paddle.to_tensor((np.arange(16) < np.array([[16], [9]])).astype("float32"))
    _check(Bert(), (words, mask), 10)


def test_branch_and_loop() -> None:
    x = paddle.ones([3, 8])
    _check(Branches(), (x,), 100, calls=[(x,), (-x,), (paddle.randn([3, 8]),)])


def test_dynamic_batch() -> None:
    calls = [_images(batch, 1, 28, 28) for batch in (1, 7, 64)]
    compiled = _check(zoo.LeNet(), calls[0], 2, calls, dynamic_shapes={"inputs": {0: "batch"}})
    assert [row["name"] for row in compiled.explain().facts["named_sizes"]] == ["batch"]


def test_dynamic_batch_of_bert() -> None:
    spec = (paddle.static.InputSpec([-1, 12], "int64", "words"), paddle.static.InputSpec([-1, 12], "float32", "mask"))
    layer = Bert()
    layer.eval()
    compiled = sl.compile(layer, spec, dynamic_shapes={"words": {0: "b"}, "mask": {0: "b"}}, sizes={"b": (1, 64)})
    assert compiled.explain().facts["named_sizes"][0]["max"] == 64
    for batch in (1, 7, 64):
        words, mask = paddle.randint(0, 200, [batch, 12]), paddle.ones([batch, 12])
        with paddle.no_grad():
            for a, b in zip(compiled(words, mask), layer(words, mask), strict=True):
                assert_close(a, b, scale=10)


@pytest.mark.parametrize(
    ("name", "size"),
    [("mobilenet_v2", 64), ("vgg11", 32), ("squeezenet1_1", 64), ("shufflenet_v2_x0_5", 64), ("densenet121", 32),
     ("googlenet", 224)],
)  # fmt: skip
def test_model_zoo(name: str, size: int) -> None:
    layer = getattr(zoo, name)(pretrained=False)
    _check(layer, _images(1, 3, size, size), 50)


def test_kernels_are_those_of_the_same_nets_of_torch() -> None:
    import torch

    layers = [torch.nn.Conv2d(1, 6, 3, 1, 1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
              torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120),
              torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)]  # fmt: skip
    theirs = sl.compile(torch.nn.Sequential(*layers).eval(), (torch.randn(1, 1, 28, 28),))
    lenet = zoo.LeNet()
    lenet.eval()
    assert _kernels(sl.compile(lenet, _images(1, 1, 28, 28))) == _kernels(theirs)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (torch.nn.Linear(64, 64) for _ in range(4))
            self.a, self.b = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)
            self.first, self.second = torch.nn.LayerNorm(64), torch.nn.LayerNorm(64)

        def forward(self, x: Any) -> Any:
            def heads(t: Any) -> Any:
                return t.reshape(2, 16, 4, 16).transpose(1, 2)

            seen = torch.nn.functional.scaled_dot_product_attention(
                heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
            )
            x = self.first(x + self.o(seen.transpose(1, 2).reshape(2, 16, 64)))
            return self.second(x + self.b(torch.nn.functional.gelu(self.a(x))))

    theirs = sl.compile(Layer().eval(), (torch.randn(2, 16, 64),))
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, activation="gelu")
    layer.eval()
    assert _kernels(sl.compile(layer, (paddle.randn([2, 16, 64]),))) == _kernels(theirs)
