# SPDX-License-Identifier: Apache-2.0
"""What Paddle traces, by source and by bytecode, and what is refused with the user's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
from paddle import nn
from paddle.nn import functional as F
from straightline import paddle_files
from straightline.capture.paddle import pir

from tests.frameworks.paddle.comparison import assert_close, fresh_seed, program_of, static_mode


@pytest.fixture(autouse=True)
def _seed() -> None:
    paddle.seed(fresh_seed())


def _line(function: Callable[..., Any], text: str) -> str:
    """`file.py:line` of the first line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    return f"capture_test.py:{first + next(i for i, line in enumerate(lines) if text in line)}"


def _refusal(kind: type[Exception], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as error:
        sl.compile(*args, **options)
    return str(error.value)


class _Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Any, scale: float = 2.0, *, extra: Any = None) -> Any:
        y = F.relu(self.first(x)) * scale
        if extra is not None:
            y = y + extra["add"]
        return {"y": self.second(y), "parts": (y, [scale, None])}


def _same(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            _same(got[key], want[key])
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want)
        for a, b in zip(got, want, strict=True):
            _same(a, b)
    elif isinstance(want, paddle.Tensor):
        assert_close(got, want)
    else:
        assert got == want


@pytest.mark.parametrize("full_graph", [None, True, False])
def test_arguments_and_results_have_their_structure(full_graph: bool | None) -> None:
    net = _Net()
    net.eval()
    x, extra = paddle.randn([2, 6]), {"add": paddle.randn([8])}
    want = [net(x), net(x, 3.0), net(x, extra=extra)]
    model = net if full_graph is None else paddle.jit.to_static(net, full_graph=full_graph)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((x,), {}), ((x, 3.0), {}), ((x,), {"extra": extra})]
    for (args, kwargs), one in zip(calls, want):
        compiled = sl.compile(model, args, kwargs)
        with paddle.no_grad():
            _same(compiled(*args, **kwargs), one)
    with pytest.raises(sl.GuardError, match="scale"):
        sl.compile(model, (x, 3.0))(x, 4.0)


def test_functions_of_to_static() -> None:
    @paddle.jit.to_static(full_graph=True)
    def by_source(x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x - 1

    @paddle.jit.to_static(full_graph=False)
    def by_bytecode(x: Any) -> Any:
        return [x + 1, x]

    for x in (paddle.ones([3]), -paddle.ones([3])):
        assert_close(sl.compile(by_source, (x,))(x), by_source(x))
        for a, b in zip(sl.compile(by_bytecode, (x,))(x), by_bytecode(x), strict=True):
            assert_close(a, b)
    assert_close(sl.compile(lambda x: x * 3, (x,))(x), x * 3)


def test_functions_by_bytecode_have_the_sizes_and_arguments_of_their_examples() -> None:
    scaled = lambda x, y: x * 2  # noqa: E731
    for width in (3, 5, 7):  # Paddle leaves a size open that differs between two traces
        x = paddle.randn([4, width])
        compiled = sl.compile(scaled, (x, x))  # one object in two places is two arguments
        assert_close(compiled(x, paddle.ones([4, width])), x * 2)
        assert compiled.explain().facts["named_sizes"] == []
    both = sl.compile(lambda x, y: x * 2 + y, (x, x))
    assert_close(both(x, paddle.ones([4, 7])), x * 2 + 1)


def test_input_spec_of_to_static() -> None:
    layer = paddle.jit.to_static(
        nn.Linear(4, 2), input_spec=[paddle.static.InputSpec([None, 4], "float32", "x")], full_graph=True
    )
    layer.eval()
    for compiled in (sl.compile(layer), sl.compile(layer, (paddle.ones([3, 4]),))):
        assert [row["name"] for row in compiled.explain().facts["named_sizes"]] == ["input_0"]
        x = paddle.randn([5, 4])
        with paddle.no_grad():
            assert_close(compiled(x), layer(x))
    assert "has the sizes [3, 5] but input_spec" in _refusal(sl.UserError, layer, (paddle.ones([3, 5]),))


def test_static_programs_with_parameters() -> None:
    with static_mode():
        program, start = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(program, start):
            x = paddle.static.data("x", [-1, 6], "float32")
            hidden = paddle.static.nn.fc(x, 5, activation="relu")
            y = F.softmax(paddle.static.nn.fc(hidden, 3))
        assert "is not in Paddle's global scope: run the startup program first" in _refusal(
            sl.UserError, program, fetches=[y]
        )
        executor = paddle.static.Executor()
        executor.run(start)
        compiled = sl.compile(program, fetches=[y, hidden], dynamic_shapes={"x": {0: "batch"}})
        given = np.random.default_rng(fresh_seed()).standard_normal((4, 6)).astype("float32")
        want = executor.run(program, feed={"x": given}, fetch_list=[y, hidden])
        for a, b in zip(compiled(x=given), want, strict=True):
            assert_close(a, b)
    assert "has no value named 'zz'" in _refusal(sl.UserError, program, fetches=["zz"])
    assert "has no input 'q'" in _refusal(sl.UserError, program, {"q": given}, fetches=[y])
    assert "is float64[4, 6] but" in _refusal(sl.UserError, program, (given.astype("float64"),), fetches=[y])
    assert "fetches has a int" in _refusal(sl.UserError, program, fetches=[3])


def test_names_of_sizes() -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y

    def added(x: Any, y: Any) -> Any:
        return x + y

    x, y = paddle.randn([3, 4]), paddle.randn([4, 5])
    names = {"x": {0: "rows", 1: "inner"}, "y": {0: "inner"}}
    compiled = sl.compile(added, (x, x), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    z = paddle.randn([7, 4])
    assert_close(compiled(z, z), z + z)
    with pytest.raises(sl.GuardError):
        compiled(z, x)
    words = _refusal(sl.UnsupportedError, added, (x, x), dynamic_shapes={"x": {0: "a"}, "y": {0: "b"}})
    assert f"add at <root> ({_line(added, 'return')}): sizes a and b, which may differ" in words
    assert "one name for both in dynamic_shapes=" in words
    compiled = sl.compile(product, (x, y), dynamic_shapes=names)
    longer = paddle.randn([2, 301]), paddle.randn([301, 5])
    assert_close(compiled(*longer), product(*longer))
    assert "names 'q' but the inputs are 'x', 'y'" in _refusal(
        sl.UserError, added, (x, x), dynamic_shapes={"q": {0: "a"}}
    )
    assert "names size 5 of 'x', which has rank 2" in _refusal(
        sl.UserError, added, (x, x), dynamic_shapes={"x": {5: "a"}}
    )
    assert "but a name is needed" in _refusal(sl.UserError, added, (x, x), dynamic_shapes={"x": {0: "a b"}})
    assert "which holds no size" in _refusal(
        sl.UserError, added, (x, x), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}}, sizes={"n": (9, 3)}
    )
    assert "has no names" in _refusal(sl.UserError, added, (x, x), sizes={"n": (1, 3)})
    bounded = sl.compile(added, (x, x), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}}, sizes={"n": (1, 8)})
    for size, bound in ((9, "larger max"), (0, "smaller min")):
        with pytest.raises(sl.GuardError) as caught:
            bounded(paddle.ones([size, 4]), paddle.ones([size, 4]))
        assert str(caught.value) == (
            f"input 'x': dim 0 is {size} but this program was compiled for n in [1, 8]; "
            f"pass sizes= with a {bound} to sl.compile"
        )
    with pytest.raises(sl.GuardError) as caught:
        bounded(paddle.ones([3, 5]), paddle.ones([3, 4]))
    assert str(caught.value) == (
        "input 'x': dim 1 is 5 but this program was compiled for 4; pass an example of this size to sl.compile, "
        "name the dim in dynamic_shapes=, or make it -1 in its InputSpec"
    )


def test_flash_attention_of_programs_for_a_device() -> None:
    """Paddle writes this op where it traces on a GPU alone, so the program is made by hand."""
    q, k, mask = pir.Type("f32", (2, 5, 2, 8)), pir.Type("f32", (2, 7, 2, 8)), pir.Type("f32", (2, 1, 5, 7))
    ops = [
        pir.Op("pd_op.data", [], {"name": name}, [i], [type])
        for i, (name, type) in enumerate(zip("qkm", (q, k, mask)), 1)
    ]
    for causal in (False, True):
        operands = [1, 1, 1, 0, 0] if causal else [1, 2, 2, 0, 3]
        attributes = {"dropout": 0.1, "causal": causal, "is_test": True, "rng_name": ""}
        last = pir.Op("pd_op.flash_attn", operands, attributes, [4, 5, 6, 7], [q, None, None, None])
        program = pir.Program(pir.Block(ops=[*ops, last]), [4])
        compiled = paddle_files._compiled(program, (), {}, {}, sl.CompileOptions(), None, 0.0)
        x, y, m = (paddle.randn(list(type.shape)) for type in (q, k, mask))
        with paddle.no_grad():
            keys, added = (x, None) if causal else (y, m)
            want = F.scaled_dot_product_attention(x, keys, keys, added, is_causal=causal)
        assert_close(compiled(x, y, m), want)


def test_named_sizes_that_could_be_too_small() -> None:
    def last(x: Any) -> Any:
        return x[-3:] * 2

    def middle(x: Any) -> Any:
        return x[2:-1]

    x = paddle.randn([6, 4])
    names = {"x": {0: "n"}}
    for function, words in (
        (last, "the begin of a slice of n + -3, which may be -2"),
        (middle, "the length of a slice"),
    ):
        assert words in _refusal(sl.UnsupportedError, function, (x,), dynamic_shapes=names)
        compiled = sl.compile(function, (x,), dynamic_shapes=names, sizes={"n": (3, 64)})
        for rows in (3, 4, 9):
            y = paddle.randn([rows, 4])
            assert_close(compiled(y), function(y))
    layer = nn.Sequential(nn.Conv2D(2, 3, 5), nn.ReLU(), nn.MaxPool2D(2))
    image, names = paddle.randn([1, 2, 12, 12]), {"input": {2: "h"}}
    assert "a convolution with a result of h + -4, which may be -3; nearest supported form: 1 or more" in _refusal(
        sl.UnsupportedError, layer, (image,), dynamic_shapes=names
    )
    compiled = sl.compile(layer, (image,), dynamic_shapes=names, sizes={"h": (8, 32)})
    for height in (8, 13, 32):
        image = paddle.randn([1, 2, height, 12])
        assert_close(compiled(image), layer(image))


def test_text_does_not_depend_on_what_was_compiled_before() -> None:
    layer = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    layer.eval()
    first, second = (sl.compile(layer, (paddle.ones([3, 4]),)) for _ in range(2))
    assert first.code == second.code and "Sequential.Linear" in first.code and "Sequential_1.Linear_1" in first.code
    assert first.ir("op", locations=True) == second.ir("op", locations=True)


# Refusals -------------------------------------------------------------------------------------------------------------


class _Unsupported(nn.Layer):
    def forward(self, x: Any) -> Any:
        a = paddle.standard_gamma(x)
        b = paddle.multinomial(paddle.abs(x))
        if x.sum() > 0:
            c = paddle.bernoulli(x)
        else:
            c = x
        return a, b, c, paddle.poisson(x)[0]


def test_every_unsupported_op_is_named_with_its_line() -> None:
    words = _refusal(sl.UnsupportedError, _Unsupported(), (paddle.ones([3, 3]),))
    assert "4 unsupported ops" in words
    for op in ("standard_gamma", "multinomial", "bernoulli", "poisson"):
        row = f"{op} at <root> ({_line(_Unsupported, f'paddle.{op}')}): there is no op {op} here"
        assert f"{row}; nearest supported form: numbers drawn before the call, as an argument" in words


def test_images_without_elements() -> None:
    """Windows of pads alone sum nothing; without channels Paddle gives results without channels, which no model means."""

    def convolved(x: Any, w: Any) -> Any:
        return nn.functional.conv2d(x, w, padding=1) + 1

    for size in ([2, 3, 0, 5], [2, 3, 4, 0], [0, 3, 4, 5]):
        x, w = paddle.randn(size), paddle.randn([4, 3, 2, 2])
        assert_close(sl.compile(convolved, (x, w))(x, w), convolved(x, w))
    x, w = paddle.randn([2, 0, 4, 5]), paddle.randn([4, 0, 2, 2])
    assert "images of no channels" in _refusal(sl.UnsupportedError, convolved, (x, w))


def test_gradients_sparse_tensors_and_sizes_that_are_not_known() -> None:
    def gradient(x: Any) -> Any:
        x.stop_gradient = False
        return paddle.grad((x * x).sum(), x)[0]

    def reshaped(x: Any) -> Any:
        return x.reshape([6, 2])

    words = _refusal(sl.UnsupportedError, gradient, (paddle.ones([3]),))
    assert "there is no op sum_grad here; nearest supported form: a program that computes no gradient" in words
    sparse = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 2])
    words = _refusal(sl.UnsupportedError, nn.ReLU(), (sparse,))
    assert "an input is a sparse tensor; nearest supported form: a dense one, x.to_dense()" in words
    words = _refusal(sl.UnsupportedError, reshaped, (paddle.static.InputSpec([-1, 4], "float32", "x"),))
    assert "a reshape of [x_0, 4] to [6, 2]; nearest supported form: sizes whose product is the same" in words


class _Twice(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, more: float = 3.0) -> Any:
        y = x * 2 + paddle.matmul(x, weight)
        ctx.save_for_backward(y)
        return y, x + more

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class _OwnDerivative(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        a, b = _Twice.apply(self.linear(x), self.linear.weight, 5.0)
        if x.sum() > 0:
            a = _Twice.apply(a, self.linear.weight)[0]
        return a + b


def test_layers_with_a_derivative_of_their_own_are_their_forward() -> None:
    layer, x = _OwnDerivative(), paddle.rand([4, 4]) + 0.1
    layer.eval()
    compiled = sl.compile(layer, (x,))
    with paddle.no_grad():
        for given in (x, -x):
            assert_close(compiled(given), layer(given), scale=4)


def _of_float8(x: Any) -> Any:
    return x.astype("float32") * 2


class _Float8Buffer(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("narrow", paddle.randn([3, 3]).astype("float8_e4m3fn"))

    def forward(self, x: Any) -> Any:
        return paddle.matmul(x, self.narrow.astype("float32"))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits(dtype: str) -> None:
    x = paddle.ones([3, 3])
    words = _refusal(sl.UnsupportedError, _of_float8, (x.astype(dtype),))
    assert f"an input has elements of {dtype}; nearest supported form: float (16 bits or more)" in words

    def narrowed(x: Any) -> Any:
        return x.astype(dtype).astype("float32")

    words = _refusal(sl.UnsupportedError, narrowed, (x,))
    assert (
        f"cast at <root> ({_line(narrowed, 'astype')}): elements of {dtype}; nearest supported form: floats of 16"
        in words
    )
    words = _refusal(sl.UnsupportedError, _Float8Buffer(), (x,))
    assert (
        "the parameter 'narrow' has elements of float8_e4m3fn; nearest supported form: float (16 bits or more)" in words
    )


def test_complex_results_of_an_op_that_is_not_there() -> None:
    words = _refusal(sl.UnsupportedError, lambda x: paddle.linalg.eig(x)[0], (paddle.ones([3, 3]),))
    assert "there is no op eig here, which gives complex numbers" in words


def test_training_mode() -> None:
    layer = nn.Sequential(nn.BatchNorm1D(4), nn.Dropout(0.3), nn.Linear(4, 2))
    words = _refusal(sl.UserError, layer, (paddle.ones([2, 4]),))
    assert "model is in training mode, which matters to 0 (BatchNorm1D), 1 (Dropout): call model.eval()" in words

    def dropped(x: Any) -> Any:
        return F.dropout(x, 0.5)

    words = _refusal(sl.UnsupportedError, dropped, (paddle.ones([2, 4]),))
    assert f"({_line(dropped, 'F.dropout')}): dropout of 0.5: the program is in training mode" in words
    statistics = [([4, 3], "float32"), ([3], "float32"), ([3], "float32")]
    program, fetches = program_of(lambda x, m, v: F.batch_norm(x, m, v, training=True), statistics)
    assert "batch norm with statistics of the batch: the program is in training mode" in _refusal(
        sl.UnsupportedError, program, fetches=fetches
    )


_LOG: list[int] = []


def _prints(x: Any) -> Any:
    y = x + 1
    print("side effect")
    return y * 2


def _appends(x: Any) -> Any:
    _LOG.append(1)
    return x * 2


def _branches(x: Any) -> Any:
    if x.sum() > 0:
        return x + 1
    return x - 1


def _reads(x: Any) -> Any:
    y = (x + 1).numpy()
    return paddle.to_tensor(y) * 2


def _first_of_all(x: Any) -> Any:
    print("side effect")
    return x * 2


@pytest.mark.parametrize(
    ("function", "text", "words"),
    [(_prints, "print(", "the function is 2 graphs of Paddle"), (_branches, "if ", "the function is 2 graphs of Paddle"),
     (_appends, "append(", "the function writes to a list"), (_reads, "numpy()", "the function is 2 graphs of Paddle"),
     (_first_of_all, "print(", "the function is one graph of Paddle and code that runs beside it: ")],
)  # fmt: skip
def test_effects_and_breaks_by_bytecode(function: Any, text: str, words: str) -> None:
    said = _refusal(sl.UnsupportedError, paddle.jit.to_static(function, full_graph=False), (paddle.ones([3]),))
    assert words in said
    first = inspect.getsourcelines(function)[1]
    assert f"capture_test.py:{first}" in said or any(f"capture_test.py:{first + i}" in said for i in range(1, 4))


class _OwnParameter(nn.Layer):
    """Its forward reads a parameter and a buffer itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.weight = nn.Linear(4, 4), self.create_parameter([4, 4])
        self.register_buffer("offset", paddle.randn([4]))

    def forward(self, x: Any, y: Any) -> Any:
        return paddle.matmul(self.linear(x) + self.offset, self.weight), y * self.weight.sum(), self.weight


@pytest.mark.parametrize("freeze", [True, False])
def test_parameters_that_a_layer_reads_itself_by_bytecode(freeze: bool) -> None:
    layer, given = _OwnParameter(), (paddle.randn([3, 4]), paddle.randn([2]))
    layer.eval()
    compiled = sl.compile(paddle.jit.to_static(layer, full_graph=False), given, freeze=freeze)
    assert sorted(compiled.parameters()) == ["linear.bias", "linear.weight", "offset", "weight"]
    with paddle.no_grad():
        for _ in range(2):
            for got, want in zip(compiled(*given), layer(*given), strict=True):
                assert_close(got, want, scale=4)
            layer.weight.set_value(layer.weight * 3)
            if freeze:
                compiled.load_parameters(layer.state_dict())
    outside = paddle.ones([4])
    words = _refusal(sl.UnsupportedError, lambda x: x + outside, (paddle.ones([4]),))
    assert "reads a tensor that is neither an argument nor a parameter of its layer" in words
    words = _refusal(sl.UserError, lambda x: x + 1, (paddle.static.InputSpec([4], "float32", "x"),))
    assert "an example is of type InputSpec, but a lambda" in words


def test_places_by_bytecode() -> None:
    def unsupported(x: Any) -> Any:
        y = x + 1
        return paddle.multinomial(y)

    words = _refusal(sl.UnsupportedError, paddle.jit.to_static(unsupported, full_graph=False), (paddle.ones([3]),))
    assert f"multinomial at <root> ({_line(unsupported, 'multinomial')})" in words


def test_writes_that_a_trace_leaves_out() -> None:
    class Adds(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", paddle.zeros([1]))

        def forward(self, x: Any) -> Any:
            self.n.add_(paddle.ones([1]))
            return x + self.n

    words = _refusal(sl.UnsupportedError, Adds(), (paddle.ones([3]),))
    assert "writes in place by add_, which Paddle's trace leaves out" in words

    def written(x: Any) -> Any:
        x[0] = 1.0
        return x * 2

    assert "a write to an argument" in _refusal(sl.UnsupportedError, written, (paddle.ones([3]),))


def test_a_write_between_a_product_and_its_bias() -> None:
    """The product keeps what it read before the write, though product and sum could be one op."""

    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = self.create_parameter([4, 3]), self.create_parameter([3])

        def forward(self, x: Any) -> Any:
            x = x * 2
            product = paddle.matmul(x, self.weight)
            x[0] = 100.0
            return product + self.bias, x

    net, x = Net(), paddle.randn([2, 4])
    with paddle.no_grad():
        for a, b in zip(sl.compile(net, (x,))(x), net(x), strict=True):
            assert_close(a, b)


def test_results_that_inference_does_not_compute() -> None:
    program, _ = program_of(lambda x: F.layer_norm(x, [3]), [([4, 3], "float32")])
    (op,) = [op for op in program.global_block().ops if op.name() == "pd_op.layer_norm"]
    fetches = [op.results()[1]]
    words = _refusal(sl.UnsupportedError, program, fetches=fetches)
    assert "layer_norm at <root>" in words and "reading its result 1, which inference does not compute" in words


def test_bad_arguments() -> None:
    def one(x: Any) -> Any:
        return x + 1

    class Renamed(nn.Layer):
        def forward(this, x: Any) -> Any:  # noqa: N805
            return x

    x = paddle.ones([3])
    assert "missing a required argument: 'x'" in _refusal(sl.UserError, one, (), {"y": x})
    assert "values is of ONNX models" in _refusal(sl.UserError, one, (x,), values={"x": 1})
    assert "fetches is of paddle.static.Program" in _refusal(sl.UserError, one, (x,), fetches=[x])
    assert "several examples are given" in _refusal(sl.UserError, one, [(x,), (x,)])
    assert "first parameter of" in _refusal(sl.UserError, Renamed(), (x,))
    assert "torch finds no device" in _refusal(sl.UserError, one, (x,), target="cuda")
    assert "freeze" in _refusal(sl.UserError, one, (x,), frieze=False)
    hooked = nn.Linear(3, 3)
    hooked.register_forward_post_hook(lambda layer, given, result: result * 2)
    assert "has forward hooks" in _refusal(sl.UnsupportedError, hooked, (x,))

    def fails(x: Any) -> Any:
        return paddle.reshape(x, [7, 7])

    assert "Paddle cannot trace the model" in _refusal(sl.UserError, fails, (x,))


def test_the_compiled_function_checks_its_arguments() -> None:
    compiled = sl.compile(_branches, (paddle.ones([3]),))
    for given in (paddle.ones([4]), paddle.ones([3], "float64"), paddle.ones([3, 1]), 3.0):
        with pytest.raises(sl.GuardError):
            compiled(given)


def test_another_version_of_paddle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paddle, "__version__", "3.2.1")
    assert "paddlepaddle 3.2.1 is installed but programs of 3.3 or newer are read" in _refusal(
        sl.UserError, _branches, (paddle.ones([3]),)
    )


@pytest.mark.parametrize(
    ("kind", "function", "shapes", "words"),
    [
        (sl.UserError, lambda x: paddle.transpose(x, [1, 0]), [[2, 3, 4]], "transpose by [1, 0] of a tensor of rank 3"),
        (sl.UserError, lambda x: F.max_pool2d(x, 0, 1), [[1, 2, 4, 4]], "pool2d by windows of [0, 0]: at least 1"),
        (sl.UnsupportedError, lambda x: F.avg_pool2d(x, 2, 2, -1), [[1, 2, 9, 9]], "paddings of 0 or more"),
        (
            sl.UserError,
            lambda x, w: F.conv2d(x, w),
            [[1, 4, 5, 5], [2, 3, 3, 3]],
            "x has 4 channels but the weight is of 3",
        ),
        (sl.UnsupportedError, lambda x, y: x @ y, [[4, 2, 3], [5, 1, 3, 2]], "batches of sizes [4] and [5, 1]"),
        (
            sl.UnsupportedError,
            lambda x: F.nll_loss(x, paddle.zeros([5, 3], "int64")),
            [[5, 3]],
            "labels of sizes [5, 3]",
        ),
        (sl.UnsupportedError, lambda x: paddle.heaviside(x, x.astype("int64")), [[3]], "heaviside of f32 and i64"),
        (sl.UnsupportedError, lambda x: paddle.equal_all(x, x.astype("int64")), [[3]], "equal_all of f32 and i64"),
        (
            sl.UserError,
            lambda x, o, w: paddle.vision.ops.deform_conv2d(x, o, w),
            [[1, 4, 5, 5], [1, 18, 5, 5], [2, 4, 3, 3]],
            "[18, 3, 3] are needed",
        ),
        (sl.UnsupportedError, lambda x: F.log_loss(x, x), [[3, 2]], "log_loss of sizes [3, 2] and [3, 2]"),
        (sl.UnsupportedError, lambda x: F.max_pool2d(x, 2, 2, 2, True)[1], [[1, 2, 8, 8]], "smaller paddings"),
    ],
)
def test_what_paddle_traces_but_no_kernel_computes(
    kind: type[Exception], function: Callable[..., Any], shapes: list[list[int]], words: str
) -> None:
    program, fetches = program_of(function, [(shape, "float32") for shape in shapes])
    assert words in _refusal(kind, program, fetches=fetches)


def test_numbers_that_are_none_and_places_in_the_border() -> None:
    def function(x: Any, i: Any) -> Any:
        same = [paddle.sign(x), F.hardshrink(x), F.softshrink(x), F.thresholded_relu(x), F.max_pool2d(i, 2, 2, 2)]
        return [*same, paddle.zeros([2], "uint8") // -1]

    x, i = paddle.to_tensor([float("nan"), -2.0, 0.25, 3.0]), paddle.randn([1, 2, 4, 4])
    program, fetches = program_of(function, [([4], "float32"), ([1, 2, 4, 4], "float32")])
    for got, want in zip(sl.compile(program, fetches=fetches)(x, i), function(x, i), strict=True):
        assert_close(got, want)


class _Rounds(nn.Layer):
    """Has variables that a loop's rounds write first: one is read behind the loop, one nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 6)

    def forward(self, x: Any, h: Any) -> Any:
        i = paddle.zeros([1], "int64")
        while i < 3:
            y, h = self.cell(x, h)
            unread = y * 2
            best = paddle.argmax(y, -1) + (unread.shape[0] - unread.shape[0])
            i = i + 1
        return best, h


def test_variables_of_rounds() -> None:
    layer, x, h = _Rounds(), paddle.randn([2, 4]), paddle.randn([2, 6])
    layer.eval()
    with paddle.no_grad():
        _same(sl.compile(layer, (x, h))(x, h), layer(x, h))
    # What is read behind the loop needs a first value, of a size that the program says.
    names = {"x": {0: "b"}, "h": {0: "b"}}
    assert "a carried tensor" in _refusal(sl.UnsupportedError, layer, (x, h), dynamic_shapes=names)


def _ordered(x: Any) -> Any:
    return (
        paddle.sort(x, 0), paddle.argsort(x, 0, True), *paddle.topk(x, 2, 0), *paddle.kthvalue(x, 2, 0),
        *paddle.topk(x, 1, 0, largest=False),
    )  # fmt: skip


def test_rows_of_a_named_size_are_sorted() -> None:
    rng = np.random.default_rng(fresh_seed())
    x = paddle.to_tensor(rng.standard_normal((5, 3)).astype("float32"))
    names = {"x": {0: "rows"}}
    fn = sl.compile(_ordered, (x,), dynamic_shapes=names, sizes={"rows": (2, 1000)})
    for rows in (2, 3, 64):
        x = paddle.to_tensor(rng.standard_normal((rows, 3)).astype("float32"))
        for i, (got, want) in enumerate(zip(fn(x), _ordered(x), strict=True)):
            assert_close(got, want, f"{rows} rows, result {i}")
    words = _refusal(sl.UnsupportedError, _ordered, (x,), dynamic_shapes=names)
    assert "the 2 largest, along a dim of rows, which may be 1; nearest supported form: 2 or more" in words
