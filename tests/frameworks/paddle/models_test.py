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

from tests.frameworks.paddle.helpers import assert_close, fresh_seed
from tests.frameworks.paddle.models import Bert, Branches, Recurrent


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
        rows = compiled.explain().statements if hasattr(compiled.explain(), "statements") else None
        assert rows is None or len(rows) == 1


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
    compiled = _check(zoo.LeNet(), calls[0], 2, calls, dynamic_shapes={"x" if False else "inputs": {0: "batch"}})
    assert [row["name"] for row in compiled.explain().facts["named_sizes"]] == ["batch"]


def test_dynamic_batch_and_length_of_bert() -> None:
    spec = (paddle.static.InputSpec([-1, -1], "int64", "words"), paddle.static.InputSpec([-1, -1], "float32", "mask"))
    shapes = {"words": {0: "b", 1: "s"}, "mask": {0: "b", 1: "s"}}
    layer = Bert()
    layer.eval()
    compiled = sl.compile(layer, spec, dynamic_shapes=shapes, sizes={"s": (2, 64)})
    for batch, length in ((1, 16), (7, 5), (64, 8)):
        words, mask = paddle.randint(0, 200, [batch, length]), paddle.ones([batch, length])
        with paddle.no_grad():
            for a, b in zip(compiled(words, mask), layer(words, mask), strict=True):
                assert_close(a, b, scale=10)


@pytest.mark.parametrize(
    ("name", "size"),
    [("mobilenet_v2", 64), ("vgg11", 32), ("squeezenet1_1", 64), ("shufflenet_v2_x0_5", 64), ("densenet121", 32),
     ("googlenet", 64)],
)  # fmt: skip
def test_model_zoo(name: str, size: int) -> None:
    layer = getattr(zoo, name)(pretrained=False)
    _check(layer, _images(1, 3, size, size), 50)
