# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a Triton kernel as an op, in words."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
import triton
import triton.language as tl
from torch import Tensor

from tests.frameworks.triton import kernels
from tests.frameworks.triton.programs_test import TARGET

ADD = "refused_triton::add(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> Tensor"


@pytest.fixture
def made() -> Iterator[list[Any]]:
    registered: list[Any] = []
    yield registered
    for kernel in registered:
        kernel.unregister()


def _register(fn: Any = kernels.scaled_add, schema: str = ADD, **options: Any) -> Any:
    return sl.triton_kernel(fn, schema, **{"grid": (4,), "constants": {"BLOCK": 128}, **options})


class _Add(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.ops.refused_triton.add(x, y, x.numel(), 2.5)


def _compile(target: str = TARGET, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    x = torch.ones(512).to(dtype)
    return sl.compile(_Add(), (x, x), target=target, **options)


def test_a_constant_that_is_not_declared() -> None:
    with pytest.raises(
        sl.UserError, match=r"the parameter BLOCK of the kernel .*kernels.py:\d+ \(scaled_add\) is a tl.constexpr"
    ):
        _register(constants={})
    with pytest.raises(sl.UserError, match="constants of refused_triton::add has 'BLOK', which is no parameter"):
        _register(constants={"BLOK": 128})
    with pytest.raises(sl.UserError, match="'n' of refused_triton::add is an argument of the schema and a constant"):
        _register(constants={"BLOCK": 128, "n": 4})


@pytest.mark.parametrize("grid", [0, (0,), (1, 0), (1, 1, 65536), (1, 1, 1, 1), (), "many", (2.0,)])
def test_a_grid_without_blocks(grid: Any) -> None:
    with pytest.raises(sl.UserError, match="grid of refused_triton::add is .*, expected 1 to 3 numbers of blocks"):
        _register(grid=grid)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": lambda meta: (meta["m"],)}, "grid of refused_triton::add raised KeyError: 'm'"),
        ({"constants": lambda meta: {"BLOCK": meta["m"]}}, "constants of refused_triton::add raised KeyError: 'm'"),
        ({"constants": lambda meta: 128}, "constants of refused_triton::add is 128, expected a dict"),
    ],
)
def test_functions_of_the_user_that_are_wrong(made: list[Any], options: dict[str, Any], said: str) -> None:
    made.append(_register(**options))
    with pytest.raises(sl.UserError, match=said):
        _compile()


@pytest.mark.parametrize(("alpha", "fits"), [(1e300, False), (-1e39, False), (float("inf"), True), (3e38, True)])
def test_a_float_that_does_not_fit(made: list[Any], alpha: float, fits: bool) -> None:
    class Add(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.refused_triton.add(x, x, 512, alpha)

    made.append(_register())
    if fits:
        sl.compile(Add(), (torch.ones(512),), target=TARGET)
        return
    with pytest.raises(sl.UserError, match=r"'alpha' of refused_triton::add is .*, which does not fit the 4 bytes"):
        sl.compile(Add(), (torch.ones(512),), target=TARGET)


def test_an_int_that_does_not_fit(made: list[Any]) -> None:
    @triton.jit
    def annotated(x_ptr, y_ptr, out_ptr, n: tl.int32, alpha, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr) + n)

    class Add(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.refused_triton.add(x, x, 2**40, 1.0)

    made.append(_register(annotated))
    with pytest.raises(
        sl.UserError, match="'n' of refused_triton::add is 1099511627776, which does not fit the 4 bytes"
    ):
        sl.compile(Add(), (torch.ones(512),), target=TARGET)


def test_more_warps_than_a_block_has(made: list[Any]) -> None:
    made.append(_register(num_warps=64, constants={"BLOCK": 4096}))
    with pytest.raises(
        sl.UserError, match=r"blocks of 2048 threads, num_warps=64, .*nearest supported form: num_warps=32"
    ):
        _compile()


def test_a_grid_that_becomes_nothing(made: list[Any]) -> None:
    made.append(_register(grid=lambda meta: (meta["n"] // 1024,)))
    with pytest.raises(sl.UserError, match=r"grid of refused_triton::add is \(0,\)"):
        _compile()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("add(Tensor x, Tensor y_ptr, SymInt n, float alpha) -> Tensor", "has the argument 'x', which is no parameter"),
        (
            "add(Tensor x_ptr, Tensor y_ptr, SymInt n) -> Tensor",
            "has 1 results but .* has 2 parameters .*: out_ptr, alpha",
        ),
        (
            "add(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> (Tensor, Tensor)",
            "has 2 results but .* has 1 parameters",
        ),
        ("add(Tensor x_ptr, Tensor y_ptr, SymInt n, str alpha) -> Tensor", "gives 'alpha', a str or dtype"),
    ],
)
def test_a_schema_that_does_not_fit(schema: str, said: str) -> None:
    with pytest.raises(sl.UserError, match=said):
        _register(schema=f"refused_triton::{schema}")


def test_types_that_are_not_given(made: list[Any]) -> None:
    with pytest.raises(sl.UnsupportedError, match="has the argument 'x_ptr', a list"):
        _register(schema="refused_triton::add(Tensor[] x_ptr) -> Tensor")
    with pytest.raises(sl.UnsupportedError, match="no tensor argument"):
        _register(schema="refused_triton::add(int n) -> Tensor")
    with pytest.raises(sl.UserError, match="fn is 5, expected a function that is decorated with @triton.jit"):
        _register(5)
    made.append(_register())
    with pytest.raises(
        sl.UnsupportedError, match="refused_triton::add is a CUDA kernel but the program runs on the host"
    ):
        _compile(target="cpu")
    with pytest.raises(sl.UserError, match="registered already"):
        _register()


def test_more_shared_memory_than_there_is(made: list[Any]) -> None:
    class Product(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.refused_triton.product(a, b, 512, 512, 512)

    options = {"constants": {"BM": 128, "BN": 128, "BK": 128}, "num_stages": 3, "num_warps": 8}
    made.append(kernels.product_op("refused_triton::product", **options))
    a = torch.ones(512, 512).half()
    sl.compile(Product(), (a, a), target=TARGET)
    with pytest.raises(
        sl.UserError,
        match=r"refused_triton::product, the kernel .* takes \d+ bytes of shared memory a block but sm_86 has 101376; .*num_stages",
    ):
        sl.compile(Product(), (a, a), target="cuda:sm_86")


def test_what_triton_says_is_the_users_error(made: list[Any]) -> None:
    @triton.jit
    def wrong(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), undeclared)  # noqa: F821

    made.append(_register(wrong))
    with pytest.raises(
        sl.UserError,
        match=r"(?s)Triton 3\.\S+ cannot compile refused_triton::add.*refused_test.py:\d+ \(wrong\).*undeclared",
    ):
        _compile()
    made.pop().unregister()
    made.append(_register(constants={"BLOCK": 100}))  # no power of 2
    with pytest.raises(sl.UserError, match=r"(?s)cannot compile refused_triton::add.*power of 2"):
        _compile()


def _module(path: Path, text: str) -> Any:
    path.write_text(text, encoding="ascii")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


_EDITED = """
import triton
import triton.language as tl

@triton.jit
def callee(x):
    return x * {factor}

@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, callee(tl.load(x_ptr + at, mask=at < n)), mask=at < n)
"""


def test_an_edited_source_is_compiled_anew(made: list[Any], tmp_path: Path) -> None:
    """Also where only a callee was edited."""
    images = []
    for number, factor in enumerate((2.0, 3.0, 2.0)):
        module = _module(tmp_path / f"edited_{number}.py", _EDITED.format(factor=factor))
        made.append(_register(module.scaled_add))
        fn = _compile()
        images.append({bytes(image) for image in fn._compilation.images})
        made.pop().unregister()
    assert images[0] != images[1]
    assert images[0] == images[2]


def test_a_source_that_is_replaced_is_compiled_anew(made: list[Any]) -> None:
    """As an editor of a notebook does, of the function that is registered."""

    @triton.jit
    def replaced(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)

    made.append(_register(replaced))
    before, source = bytes(_compile()._compilation.images[0]), replaced.src
    replaced._unsafe_update_src(source.replace("2.0", "3.0"))
    assert bytes(_compile()._compilation.images[0]) != before
    replaced._unsafe_update_src(source)
    assert bytes(_compile()._compilation.images[0]) == before


def test_clusters_that_a_device_lacks(made: list[Any]) -> None:
    made.append(_register(num_ctas=16))
    with pytest.raises(sl.UnsupportedError, match=r"\(scaled_add\) runs in clusters of num_ctas=16; .*num_ctas=8"):
        _compile()
    made.pop().unregister()
    made.append(_register(num_ctas=2))
    with pytest.raises(sl.UserError, match=r"(?s)cannot compile refused_triton::add.* for sm_86.*num_ctas"):
        _compile(target="cuda:sm_86")
    made.pop().unregister()
    made.append(_register(num_ctas=2, grid=(2**30,)))
    with pytest.raises(sl.UserError, match=r"grid of refused_triton::add, in blocks, is \(2147483648, 1, 1\)"):
        _compile()


def test_a_launch_by_itself() -> None:
    class Bare(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            out = torch.empty_like(x)
            kernels.scaled_add[(4,)](x, y, out, 512, 2.0, BLOCK=128)
            return out

    x = torch.ones(512)
    with pytest.raises(
        sl.UnsupportedError,
        match=r"a launch of a Triton kernel by itself at refused_test.py:\d+: .*torch.library.triton_op",
    ):
        sl.compile(Bare(), (x, x), target=TARGET)


def test_hooks_and_descriptors_are_refused(made: list[Any]) -> None:
    @triton.jit
    def hooked(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), 0.0)

    hooked.add_pre_run_hook(lambda *args, **kwargs: None)
    with pytest.raises(sl.UnsupportedError, match=r"refused_test.py:\d+ \(hooked\) has a hook before each launch"):
        _register(hooked)

    @triton.jit
    def described(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
        x = tl.make_tensor_descriptor(x_ptr, shape=[n, 64], strides=[64, 1], block_shape=[16, 64])
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.sum(x.load([0, 0])))

    made.append(_register(described))
    with pytest.raises(
        sl.UnsupportedError, match=r"refused_test.py:\d+ \(described\) needs \d+ bytes of scratch memory"
    ):
        _compile()


def test_launch_hooks_of_triton_are_refused(made: list[Any]) -> None:
    made.append(_register())

    def hook(metadata: Any) -> None:
        """Nothing."""

    triton.knobs.runtime.launch_enter_hook.add(hook)
    try:
        with pytest.raises(sl.UnsupportedError, match="launch_enter_hook is set, which a program does not call"):
            _compile()
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(hook)
    _compile()


def test_autotuners_that_do_more(made: list[Any]) -> None:
    tuned = triton.autotune([triton.Config({"BLOCK": 128})], key=["n"], reset_to_zero=["out_ptr"])(kernels.scaled_add)
    made.append(_register(tuned, constants={}))
    with pytest.raises(
        sl.UnsupportedError, match=r"@triton.autotune of .*\(scaled_add\) has reset_to_zero=\['out_ptr'\]"
    ):
        _compile()
    made.pop().unregister()
    tuned = triton.autotune([triton.Config({"BLOCK": 128}, pre_hook=lambda args: None)], key=["n"])(kernels.scaled_add)
    made.append(_register(tuned, constants={}))
    with pytest.raises(sl.UnsupportedError, match=r"\(scaled_add\) has hooks"):
        _compile()


def test_a_tensor_of_complex_numbers_is_refused(made: list[Any]) -> None:
    made.append(_register())
    with pytest.raises(sl.UnsupportedError, match="complex"):
        _compile(dtype=torch.complex64)
