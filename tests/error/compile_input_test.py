# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of `sl.compile`: the class and the words; nothing of it is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
from refused import REFUSED
from torch import nn

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def refuses(kind: type[Exception], words: str, *args: Any, **kwargs: Any) -> None:
    """Compiling raises, without chatter, and then compiling something right works."""
    with pytest.raises(kind, match=words) as caught:
        sl.compile(*args, **kwargs)
    assert isinstance(caught.value, sl.StraightlineError)
    torch.testing.assert_close(sl.compile(add, (X, X))(X, X), 2 * X)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_tensors(name: str) -> None:
    case = REFUSED[name]
    refuses(case.compile_class, f"'y'.*{case.compile_words}", add, (X, case.make()))


def test_nested_input_is_named_by_its_place() -> None:
    refuses(sl.UserError, r"'d\['a'\]\[1\]' is on device meta", lambda d: d["a"][0], ({"a": [X, X.to("meta")]},))


def test_parameters_are_looked_at_too() -> None:
    model = nn.Linear(3, 3)
    model.register_buffer("table", torch.eye(3).to_sparse())
    model.forward = lambda x: x @ model.table  # type: ignore[method-assign]
    refuses(sl.UnsupportedError, "table has layout torch.sparse_coo", model, (X,))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float8_e4m3fn], ids=str)
def test_dtype_that_no_program_has(dtype: torch.dtype) -> None:
    refuses(sl.UnsupportedError, str(dtype), lambda x: x.clone(), (torch.zeros(3).to(dtype),))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8], ids=str)
def test_contraction_of_a_dtype_without_a_kernel(dtype: torch.dtype) -> None:
    x = torch.ones(3, 3).to(dtype)
    words = f"compile_input_test.*matmul of u?i{x.itemsize * 8}, native kernels have floats.*`allow` leaves out"
    refuses(sl.UnsupportedError, words, lambda x: x @ x, (x,), allow=("native", "onednn"))
    assert torch.equal(sl.compile(lambda x: x @ x, (x,))(x), x @ x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_floats_of_16_bits_are_no_error(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Softmax(-1)).eval().to(dtype)
    x = torch.randn(4, 8).to(dtype)
    with torch.no_grad():
        torch.testing.assert_close(sl.compile(model, (x,))(x), model(x), rtol=0.02, atol=0.02)


def test_numpy_examples() -> None:
    def double(x: Any) -> Any:
        return x + x

    refuses(sl.UserError, "foreign byte order", double, (np.ones(3, ">f4"),))
    refuses(sl.UserError, "dtype <U1", double, (np.array(["a"]),))
    refuses(sl.UserError, "negative or unaligned strides", double, (np.ones(3)[::-1],))
    refuses(sl.UnsupportedError, "complex64", double, (np.ones(3, np.complex64),))
    refuses(sl.UserError, r"float32: give numpy\.asarray", double, (np.float32(1),))
    refuses(sl.UserError, "is a MaskedArray, a subclass", double, (np.ma.masked_array(np.ones(3)),))


def test_number_of_example_inputs() -> None:
    refuses(sl.UserError, r"takes \(x.*y.*\) but .* \(1 positional\): missing .* 'y'", add, (X,))
    refuses(sl.UserError, "3 positional.*too many", add, (X, X, X))
    refuses(sl.UserError, r"\(2 positional, q\): .*unexpected keyword argument 'q'", add, (X, X), {"q": X})


def test_args_and_kwargs() -> None:
    refuses(sl.UserError, "args is a Tensor; .* tuple", add, X)
    refuses(sl.UserError, "args is a dict", add, {"x": X})
    refuses(sl.UserError, "kwargs is a list", add, (X, X), [1])
    refuses(sl.UserError, "kwargs has the key 1", add, (X, X), {1: X})


def test_options() -> None:
    for threads in (0, -1, 1.5, "2", True, 2**40):
        refuses(sl.UserError, f"threads is {threads!r} but", add, (X, X), threads=threads)
    refuses(sl.UserError, "cpu is 3 but", add, (X, X), cpu=3)
    refuses(sl.UserError, "unknown target cpu 'abacus'", add, (X, X), cpu="abacus")
    refuses(sl.UserError, "freeze is 'no' but", add, (X, X), freeze="no")
    refuses(sl.UserError, "cache is 1 but", add, (X, X), cache=1)


def test_dynamic_shapes() -> None:
    batch, other = torch.export.Dim("b", min=10, max=20), torch.export.Dim("c")
    cases: list[tuple[Any, str]] = [
        ("b", r"dynamic_shapes is a str.*\(x, y\)"),
        (3, "dynamic_shapes is a int"),
        (({0: other},), "dynamic_shapes.*has 1 elements"),
        (({0: other}, {5: other}), "dim 5 of input 'y', which has rank 2"),
        (({-1: other}, None), "dim -1 of input 'x', which has rank 2"),
        ({"q": {0: other}}, "'q'"),
        (({0: "b"}, {0: "b"}), "got 'b'"),
        (({0: batch}, {0: batch}), r"2 not in range \[10, 20\]"),
    ]
    for shapes, words in cases:
        refuses(sl.UserError, words, add, (X, X), dynamic_shapes=shapes)


def test_models() -> None:
    refuses(sl.UserError, "model is a str: sl.compile_mlir", "model", (X,))
    refuses(sl.UserError, "got NoneType", None, (X,))
    refuses(sl.UserError, "ReLU is a class.*instance", nn.ReLU, (X,))
    refuses(sl.UserError, "KeyError: 'mine'", lambda x: {}["mine"], (X,))
    refuses(sl.UserError, "size 3|length 3|3", lambda x: x + torch.ones(4), (X,))
    refuses(sl.UserError, "meta", nn.Linear(3, 3, device="meta"), (X,))


def test_callables_of_other_kinds() -> None:
    class Doubling:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    torch.testing.assert_close(sl.compile(Doubling(), (X,))(X), X + X)


def test_training_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    refuses(sl.UserError, r"1 \(BatchNorm1d\), 2 \(Dropout\): call model\.eval\(\)", model, (X,))
    sl.compile(model.eval(), (X,))
    plain = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.LayerNorm(3)).train()
    with torch.no_grad():
        torch.testing.assert_close(sl.compile(plain, (X,))(X), plain(X))
    assert plain.training


def test_all_unsupported_ops_are_listed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        first = torch.sort(x).values  # line of sort
        return first + torch.fft.fft(x).abs()  # line of fft

    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(model, (X,), allow=("native",))
    lines = Path(__file__).read_text().splitlines()
    for op, mark in (("aten.sort", "# line of sort"), ("aten._fft_r2c", "# line of fft")):
        number = next(i for i, line in enumerate(lines, 1) if line.endswith(mark))
        message = next(line for line in str(caught.value).splitlines() if op in line)
        assert f"compile_input_test.py:{number}" in message and "float32[2, 3]" in message


def test_no_chatter(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(sl.UserError):
        sl.compile(lambda x: x + torch.ones(4), (X,))
    assert capfd.readouterr().err == ""
