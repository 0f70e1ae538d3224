# SPDX-License-Identifier: Apache-2.0
"""Kernels of users in programs of Paddle: custom ops (`PD_BUILD_OP`) under a registered name."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paddle
import pytest
import straightline as sl
from paddle import _C_ops, nn
from paddle.static import InputSpec, MetaTensor
from paddle.static.python_op import register_op

from tests.frameworks.paddle.comparison import assert_close, fresh_seed
from tests.own_kernels.libraries import build

_HERE = Path(__file__).resolve().parent
_SCHEMAS = {
    "scaled": "paddle::own_scaled(Tensor x, float a, int n, bool negate, int[] v, str text) -> Tensor",
    "joined": "paddle::own_joined(Tensor x, Tensor? bias, Tensor[] more) -> (Tensor, Tensor)",
    "added": "paddle::own_added(Tensor(a!) x, float by) -> ()",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our kernels; Paddle has its own of the same ops from then on."""
    folder = tmp_path_factory.mktemp("own")
    root = Path(paddle.__file__).parent
    command = ["g++", "-std=c++17", "-O0", "-w", "-fPIC", "-shared", _HERE / "own_ops.cc", "-o", folder / "libown_ops.so",
               f"-I{root}/include", f"-I{root}/include/third_party", f"-I{sysconfig.get_paths()['include']}",
               f"-L{root}/base", "-l:libpaddle.so"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    paddle.utils.cpp_extension.load_op_meta_info_and_register_op(str(folder / "libown_ops.so"))
    return build(_HERE / "own_kernels.c", folder / "libown_kernels.so")


@pytest.fixture
def registered(library: Path) -> Iterator[None]:
    """All kernels, registered."""
    made = [sl.c_kernel(library, name, schema) for name, schema in _SCHEMAS.items()]
    yield
    for kernel in made:
        kernel.unregister()


class _Net(nn.Layer):
    def __init__(self, has_bias: bool = False) -> None:
        super().__init__()
        self.has_bias = has_bias

    def forward(self, x: Any) -> Any:
        y = _C_ops._run_custom_op("own_scaled", x, 2.5, 3, True, [1, 2], "hi")[0]
        a, b = _C_ops._run_custom_op("own_joined", y, x if self.has_bias else None, [x, y])
        z = x + 1
        _C_ops._run_custom_op("own_added", z, 1.5)
        return a + z, b


def _numbers(*shape: int) -> Any:
    paddle.seed(fresh_seed())
    return paddle.randn(list(shape))


@pytest.mark.parametrize("has_bias", [False, True])
def test_custom_ops_are_the_kernels_of_their_names(registered: None, has_bias: bool) -> None:
    net, x = _Net(has_bias), _numbers(3, 5)
    net.eval()
    fn = sl.compile(net, (x,))
    for got, want in zip(fn(x), net(x), strict=True):
        assert_close(got, want)
    assert fn.code.count("sl_own_call(ctx, ") == 3


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_named_sizes(registered: None, rows: int) -> None:
    net, x = _Net(), _numbers(rows, 5)
    net.eval()
    fn = sl.compile(net, (_numbers(4, 5),), dynamic_shapes={"x": {0: "batch"}})
    for got, want in zip(fn(x), net(x), strict=True):
        assert_close(got, want)


class _Scaled(nn.Layer):
    def forward(self, x: Any) -> Any:
        return _C_ops._run_custom_op("own_scaled", x, 2.5, 3, False, [1, 2], "no")[0] + 1


def test_a_file_and_a_saved_program(registered: None, tmp_path: Path) -> None:
    net, x = _Scaled(), _numbers(2, 3)
    net.eval()
    paddle.jit.save(paddle.jit.to_static(net, full_graph=True, input_spec=[InputSpec([2, 3], "float32")]),
                    str(tmp_path / "m"))  # fmt: skip
    fn = sl.compile(str(tmp_path / "m.json"))
    assert_close(fn(x), net(x))
    fn.save(tmp_path / "m.sl")
    assert_close(sl.load(tmp_path / "m.sl")(x.numpy()), net(x).numpy())


def test_ops_without_a_kernel_are_listed_with_their_registrations(library: Path) -> None:
    net = _Net()
    net.eval()
    with pytest.raises(sl.UnsupportedError) as error:
        sl.compile(net, (_numbers(2, 3),))
    text = str(error.value)
    assert 'sl.c_kernel("LIBRARY.so", "own_scaled", "paddle::own_scaled(Tensor x0, ' in text
    assert 'sl.c_kernel("LIBRARY.so", "own_added", "paddle::own_added(Tensor x0, float by) -> Tensor")' in text
    assert "own_kernels_test.py:" in text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("paddle::own_scaled(Tensor x, float a, int n, bool negate, int[] v) -> Tensor", "the attribute 'text'"),
        ("paddle::own_scaled(Tensor x, float a, int n, bool negate, int[] v, str text, int more) -> Tensor",
         "without the attribute 'more'"),
        ("paddle::own_scaled(Tensor x, Tensor y, float a, int n, bool negate, int[] v, str text) -> Tensor", "1 tensors for"),
        ("paddle::own_scaled(Tensor x, int a, int n, bool negate, int[] v, str text) -> Tensor", "'a' is 2.5, not an integer"),
        ("paddle::own_scaled(Tensor(a!) x, float a, int n, bool negate, int[] v, str text) -> Tensor", "1 results for"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit_the_op(library: Path, tmp_path: Path, schema: str, said: str) -> None:
    source = tmp_path / "any.c"
    source.write_text("void own(void) {}\n")  # a library that says nothing of its types
    kernel = sl.c_kernel(build(source, tmp_path / "libany.so"), "own", schema)
    try:
        net = _Scaled()
        net.eval()
        with pytest.raises(sl.UnsupportedError, match=said):
            sl.compile(net, (_numbers(2, 3),))
    finally:
        kernel.unregister()


@register_op(
    name="own_python",
    infer_meta=lambda x, a: MetaTensor(shape=x.shape, dtype=x.dtype),
    input_names=["x"],
    output_names=["y"],
)
def _of_python(x: Any, a: float) -> Any:
    return x * a


def test_an_op_of_python_is_refused() -> None:
    class Net(nn.Layer):
        def forward(self, x: Any) -> Any:
            return _of_python(x, 2.5)

    net = Net()
    net.eval()
    with pytest.raises(sl.UnsupportedError, match="own_python.*, an op that Python computes"):
        sl.compile(net, (_numbers(2, 3),))


def test_a_function_of_tvm_ffi_takes_tensors_of_paddle() -> None:
    """`fn.tvm_ffi()`: fresh results are Paddle's, and a destination may be one."""
    pytest.importorskip("tvm_ffi")

    class Net(nn.Layer):
        def forward(self, x: Any) -> Any:
            return paddle.tanh(x) * 2

    x = paddle.arange(8).astype("float32")
    function = sl.compile(Net(), (x,)).tvm_ffi()
    y, out = function(x), paddle.empty([8], "float32")
    assert isinstance(y, paddle.Tensor)
    function(x, out)
    for result in (y, out):
        assert_close(result, Net()(x))
