# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of `sl.compile`: the class and the words; nothing of it is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
from refused import REFUSED, Hostile
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


_SPARSE: dict[str, Any] = {
    "coo": lambda: torch.eye(4).to_sparse(),
    "csr": lambda: torch.eye(4).to_sparse_csr(),
    "csc": lambda: torch.eye(4).to_sparse_csc(),
    "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "hybrid": lambda: torch.ones(4, 4, 2).to_sparse(1),
}


@pytest.mark.parametrize("layout", _SPARSE)
def test_sparse_tensors_are_refused_in_words(layout: str) -> None:
    """Wherever one may stand: as an example, with named sizes, among several, in an exported program, as an argument and as `out`."""
    sparse = _SPARSE[layout]()
    size = torch.export.Dim("b", min=2, max=9)
    words = f"layout {sparse.layout}"
    refuses(sl.UnsupportedError, f"'x' has {words}", lambda x: x * 2, (sparse,))
    refuses(sl.UnsupportedError, f"'x' has {words}", lambda x: x * 2, (sparse,), dynamic_shapes=({0: size},))
    refuses(sl.UnsupportedError, f"'x' has {words}", lambda x: x * 2, [(torch.eye(4),), (sparse,)])
    refuses(sl.UnsupportedError, words, torch.export.export(nn.Identity(), (sparse,)), ())
    compiled = sl.compile(lambda x: x * 2, (torch.eye(4),), dynamic_shapes=({0: size},))
    for call in (lambda: compiled(sparse), lambda: compiled(torch.eye(4), out=sparse)):
        with pytest.raises(sl.UserError, match=f"has the sparse {words}: give a dense tensor"):
            call()


def test_nested_input_is_named_by_its_place() -> None:
    refuses(sl.UserError, r"'d\['a'\]\[1\]' is on device meta", lambda d: d["a"][0], ({"a": [X, X.to("meta")]},))


def test_parameters_are_looked_at_too() -> None:
    model = nn.Linear(3, 3)
    model.register_buffer("table", torch.eye(3).to_sparse())
    model.forward = lambda x: x @ model.table  # type: ignore[method-assign]
    refuses(sl.UnsupportedError, "table has layout torch.sparse_coo", model, (X,))


@pytest.mark.parametrize("dtype", [torch.bits16, torch.float4_e2m1fn_x2], ids=str)
def test_dtype_that_no_program_has(dtype: torch.dtype) -> None:
    refuses(sl.UnsupportedError, str(dtype), lambda x: x.view(-1), (torch.empty(3, dtype=dtype),))


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


def test_nested_inputs_are_named_as_the_caller_names_them() -> None:
    """By one name, whoever refuses: the checks of an example, capture, the guard of a call, the call path."""
    words = r"input 'd\['a'\]\[1\]' is a conj or neg view"
    refuses(sl.UnsupportedError, words, lambda d: d["a"][0], ({"a": [X, (X + 1j).conj()]},))
    refuses(
        sl.UnsupportedError, r"input 'd\['a'\]\[1\]': rank 9", lambda d: d["a"][0], ({"a": [X, torch.zeros([1] * 9)]},)
    )
    bits = torch.empty(3, dtype=torch.bits16)
    refuses(sl.UnsupportedError, r"input 'a\[1\]': dtype torch.bits16", lambda *a: a[0], (X, bits))
    fn = sl.compile(lambda d, k: d["a"][0] + d["a"][1] + k, ({"a": [X, X]},), {"k": X})
    for value, words in (
        (X.double(), r"input 'd\['a'\]\[1\]': dtype is float64"),
        (X[:1], r"input 'd\['a'\]\[1\]': dim 0 is 1"),
        (X.to(torch.float8_e4m3fn), r"input 'd\['a'\]\[1\]': dtype is float8_e4m3fn but"),
        (5, r"'d\['a'\]\[1\]' must be a tensor"),
    ):
        with pytest.raises(sl.GuardError, match=f"^{words}"):
            fn({"a": [X, value]}, k=X)
    with pytest.raises(sl.GuardError, match="^input 'k': dtype is int64"):
        fn({"a": [X, X]}, k=X.long())


def test_buffers_that_no_program_takes() -> None:
    refuses(sl.UserError, "parameter table is a zero tensor", _Buffer(torch._efficientzerotensor((2, 3))), (X,))
    refuses(sl.UnsupportedError, "parameter table is quantised", _Buffer(REFUSED["quantised"].make()), (X,))
    refuses(sl.UnsupportedError, "parameter table is a nested tensor", _Buffer(REFUSED["nested"].make()), (X,))
    refuses(sl.UnsupportedError, "parameter table is a tensor subclass Hostile", _Buffer(X.as_subclass(Hostile)), (X,))


def test_quantised_values_in_a_model() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()

    line = model.__code__.co_firstlineno + 1
    words = rf"1 unsupported op:\n.*aten.quantize_per_tensor.*compile_input_test.py:{line}\).*torch.quint8 is a quantised dtype"
    refuses(sl.UnsupportedError, words, model, (X,))


def test_a_generator_in_a_model() -> None:
    generator = torch.Generator()
    words = r"the model draws random numbers from a torch.Generator at <root> \(compile_input_test.py:\d+\)"
    refuses(sl.UnsupportedError, words, lambda x: x + torch.rand(3, generator=generator), (X,))


def test_vmap_that_export_cannot_trace() -> None:
    """Torch's own refusal, with its words."""
    refuses(
        sl.UserError, "the model cannot be captured with these inputs: RuntimeError: We found a fake tensor",
        lambda x: torch.vmap(lambda row: row * 2, out_dims=1)(x), (X,),
    )  # fmt: skip


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
        first = torch.linalg.matrix_exp(x[:, :2])[0, 0]  # line of matrix_exp
        return first + torch.linalg.svdvals(x)[0]  # line of svd

    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(model, (X,), allow=("native",))
    lines = Path(__file__).read_text().splitlines()
    for op, mark in (("aten.linalg_matrix_exp", "# line of matrix_exp"), ("aten._linalg_svd", "# line of svd")):
        number = next(i for i, line in enumerate(lines, 1) if line.endswith(mark))
        message = next(line for line in str(caught.value).splitlines() if op in line)
        assert f"compile_input_test.py:{number}" in message and "float32[2, " in message


def test_no_chatter(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(sl.UserError):
        sl.compile(lambda x: x + torch.ones(4), (X,))
    with pytest.raises(sl.UnsupportedError, match="control flow on the data"):  # torch would print the graph so far
        sl.compile(lambda x: x if x.sum() > 0 else -x, (X,))
    assert capfd.readouterr().err == ""


class _Buffer(nn.Module):
    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("table", value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table.to(x.dtype).sum()


def test_ranks_beyond_what_buffers_have() -> None:
    deep = torch.zeros([1] * 9)
    words = "rank 9 is not supported"
    refuses(sl.UnsupportedError, f"input 'x': {words}", lambda x: x + 1, (deep,))
    refuses(sl.UnsupportedError, f"parameter table: {words}", _Buffer(deep).eval(), (X,))
    refuses(
        sl.UnsupportedError,
        rf"aten\.(view|reshape).*float32\[2, 3\].*compile_input_test.*{words}; nearest supported form: at most 8 dims",
        lambda x: (x.reshape(2, *[1] * 7, 3) * 2).sum(),
        (X,),
    )
    complex_words = "complex numbers of rank 8 are not supported; nearest supported form: at most 7 dims"
    refuses(sl.UnsupportedError, complex_words, lambda x: torch.fft.fft(x).abs(), (torch.zeros([2] * 8),))
    eight = torch.randn([2, 1] * 4)
    assert torch.equal(
        sl.compile(lambda x: x.permute(7, 6, 5, 4, 3, 2, 1, 0) + 1, (eight,))(eight),
        eight.permute(*range(7, -1, -1)) + 1,
    )


def test_a_buffer_of_a_dtype_that_no_program_has() -> None:
    refuses(
        sl.UnsupportedError, "parameter table: dtype torch.bits16", _Buffer(torch.empty(3, dtype=torch.bits16)), (X,)
    )


def test_results_that_are_not_dense() -> None:
    refuses(
        sl.UnsupportedError, "compile_input_test.*layout torch.sparse_coo", lambda x: x.to_sparse().to_dense(), (X,)
    )


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min"])
def test_an_extreme_of_nothing(name: str) -> None:
    """As in eager: there is no largest element of nothing. A named size over which one is taken is never 0."""
    refuses(sl.UserError, "no result|non-zero size|identity", lambda x: getattr(x, name)(), (X[:0],))
    rows = ({0: torch.export.Dim("rows", min=0, max=8)},)
    for model in (lambda x: getattr(x, name)(), lambda x: getattr(x, name)(0)):
        fn = sl.compile(model, (X,), dynamic_shapes=rows)
        torch.testing.assert_close(fn(X[:1]), model(X[:1]))
        with pytest.raises(sl.GuardError, match=r"dim 0 is 0 but .* rows in \[1, 8\]"):
            fn(X[:0])
    fn = sl.compile(lambda x: getattr(x, name)(1), (X,), dynamic_shapes=rows)
    assert str(fn(X[:0])) == str(getattr(X[:0], name)(1))
    fn = sl.compile(lambda x: x.argmax(0), (X,), dynamic_shapes=rows)
    with pytest.raises(sl.GuardError, match=r"rows in \[1, 8\]"):
        fn(X[:0])


def test_a_pool_over_nothing() -> None:
    refuses(sl.UserError, "adaptive_avg_pool2d.*empty", nn.AdaptiveAvgPool2d(2), (torch.zeros(1, 3, 0, 4),))


def test_models_that_are_no_python() -> None:
    for model in (torch.jit.script(nn.Linear(3, 3)), torch.jit.trace(nn.Linear(3, 3), X)):
        refuses(sl.UserError, "torch.jit, whose code is no Python", model.eval(), (X,))
    refuses(sl.UserError, "model is a compiled function", sl.compile(add, (X, X)), (X, X))
    refuses(
        sl.UnsupportedError, "a derivative by torch.func", lambda x: torch.func.grad(lambda y: (y * y).sum())(x), (X,)
    )


def test_a_compiled_function_is_not_copied() -> None:
    import copy
    import pickle

    fn = sl.compile(add, (X, X))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"cannot be copied or pickled: .*with_parameters") as caught:
            attempt(fn)
        assert isinstance(caught.value, sl.UserError)
    holder = nn.Module()
    holder.fn = fn
    with pytest.raises(sl.UserError, match="copied"):
        copy.deepcopy(holder)


@pytest.mark.parametrize("level", ["kernels", 3, None])
def test_levels(level: Any) -> None:
    with pytest.raises(sl.UserError, match=f"no IR level {level!r}: 'op' or 'kernel'"):
        sl.compile(add, (X, X)).ir(level)


def test_a_result_that_is_elsewhere() -> None:
    """A program gives none that is not on its own device; what is elsewhere in between does not matter."""
    words = r"output \w+ is on meta but the program runs on cpu, as its inputs and parameters say: a program's results are where"
    refuses(sl.UnsupportedError, words, lambda x: (x * 2, torch.ones(3, device="meta")), (X,))
    refuses(sl.UnsupportedError, words, lambda: torch.ones(3, device="meta"), ())
