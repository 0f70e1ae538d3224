# SPDX-License-Identifier: Apache-2.0
"""Programs with Triton kernels, compiled for a device that is not there: machine code, launch and text."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
import triton
import triton.language as tl
from straightline import _cubin
from torch import Tensor

from tests.frameworks.triton import kernels

TARGET = "cuda:sm_90"


@pytest.fixture
def ops() -> Iterator[Callable[..., Any]]:
    """Registers ops that go after the test."""
    with kernels.registering() as register:
        yield register


class _Add(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(torch.ops.own_triton.add(x, y, x.numel(), 2.5))


def _row(fn: Any) -> dict[str, Any]:
    rows = [row for row in json.loads(fn._compilation.explain_json)["statements"] if row.get("family") == "own"]
    assert len(rows) == 1
    return rows[0]


def _image(fn: Any, symbol: str) -> bytes:
    return next(bytes(image) for image in fn._compilation.images if symbol in _cubin.kernels_of(bytes(image)))


def test_a_kernel_is_a_launch_of_its_own(ops: Any) -> None:
    ops(kernels.add_op, "own_triton::add")
    x = torch.randn(5, 1000)
    fn = sl.compile(_Add(), (x, x), target=TARGET)
    row = _row(fn)
    assert (row["op"], row["blocks"], row["block_threads"]) == ("own_triton.add", 5, 128)
    assert "Triton 3." in row["why"] and "BLOCK=1024" in row["why"]
    image = _image(fn, "scaled_add")
    assert _cubin.architecture_of(image).rstrip("a") == "sm_90"
    # three addresses, n, alpha, two of scratch
    assert _cubin.parameters_of(image, "scaled_add") == (8, 8, 8, 4, 4, 8, 8)
    assert "def scaled_add(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):" in fn.code
    found = re.search(r"constexpr char own_add_base64\[\] =\n((?:    \".*\"\n)+)", fn.code)
    assert found is not None and base64.b64decode(re.sub(r"[\s\"]", "", found[1])) == image


def test_parameters_are_in_the_kernels_order(ops: Any) -> None:
    ops(kernels.add_op, "own_triton::add")
    x = torch.randn(5, 1001)
    code = sl.compile(_Add(), (x, x), target=TARGET).code
    table = re.search(r"sl_device_parameter parameters_\w+\[\] = \{\n(.*?)\n\};", code, re.S)
    assert table is not None
    steps = dict(re.findall(r"sl_expr_step (e\d+)\[\] = \{(.*)\};", code))
    rows = [(steps[name], int(alignment)) for name, alignment in re.findall(r"\{\{(e\d+), 1\}, (\d+)\}", table[1])]
    alpha = int.from_bytes(torch.tensor(2.5).numpy().tobytes(), "little")
    assert rows == [
        ("{'s', 0}", 16), ("{'s', 1}", 16), ("{'s', 2}", 16), ("{'c', 5005}", 1), (f"{{'c', {alpha}}}", 1), ("{'c', 0}", 1),
        ("{'c', 0}", 1),
    ]  # fmt: skip


def test_a_kernel_by_itself_says_what_it_is(ops: Any) -> None:
    ops(kernels.add_op, "own_triton::add")
    x = torch.randn(5, 1000)
    kernel = sl.compile(_Add(), (x, x), target=TARGET).kernels["own_add"]
    assert (kernel.backend, kernel.grid) == ("cuda", (5, 128))
    assert [argument.role for argument in kernel.arguments] == ["input", "input", "output"]
    assert (
        kernel.source.startswith("Triton 3.")
        and "tl.store(out_ptr + at, x + times(y, alpha), mask=at < n)" in kernel.source
    )
    assert "base64" not in kernel.source


def test_named_sizes_are_in_grid_and_parameters(ops: Any) -> None:
    ops(kernels.product_op, "own_triton::product")

    class Product(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.own_triton.product(a, b, a.shape[0], b.shape[1], a.shape[1])

    m, n = torch.export.Dim("m", min=1, max=4096), torch.export.Dim("n", min=1, max=512)
    a, b = torch.randn(100, 64).half(), torch.randn(64, 40).half()
    fn = sl.compile(Product(), (a, b), target=TARGET, dynamic_shapes=({0: m}, {1: n}))
    code = fn.code
    assert "BK=32, grid (m + 63) floordiv 64 x (n + 31) floordiv 32 x 1" in _row(fn)["why"]
    assert fn.kernels["own_product"].grid == (("(m + 63) floordiv 64", "(n + 31) floordiv 32", 1), 128)
    assert _row(fn)["more_blocks"] == ["(n + 31) floordiv 32", 1]
    assert "(m + 63) / 64" in code
    assert re.search(r"sl_own_code own_own_product\[\] = \{\n.*, 8, \d{4,}, \{e\d+, 5\}, \{e\d+, 1\}, 0\}", code), code
    # m and n are arguments of 32 bits, k is the constant 64
    assert _cubin.parameters_of(_image(fn, "product"), "product") == (8, 8, 4, 4, 4, 8, 8, 8)


def test_clusters(ops: Any) -> None:
    ops(kernels.add_op, "own_triton::add", num_ctas=2)
    x = torch.randn(5, 1000)
    fn = sl.compile(_Add(), (x, x), target=TARGET)
    row = _row(fn)
    assert (row["blocks"], row["block_threads"]) == (10, 128), "five clusters of two blocks"
    assert "clusters of 2 blocks" in row["why"]
    ops(kernels.product_op, "own_triton::product", num_ctas=4)

    class Product(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.own_triton.product(a, b, a.shape[0], 64, 64)

    a, b = torch.randn(100, 64).half(), torch.randn(64, 64).half()
    m = torch.export.Dim("m", min=1, max=4096)
    fn = sl.compile(Product(), (a, b), target=TARGET, dynamic_shapes=({0: m}, {}))
    assert ".blocks = (m + 63) / 64 * 4, .threads = 128" in fn.code


def test_a_cooperative_grid(ops: Any) -> None:
    ops(kernels.together_op, "own_triton::together")

    class Together(torch.nn.Module):
        def forward(self, x: Tensor, counts: Tensor) -> Tensor:
            return torch.ops.own_triton.together(x, counts, 1000) * 2

    x, counts = torch.ones(1000, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    fn = sl.compile(Together(), (x, counts), target=TARGET)
    assert "a cooperative grid" in _row(fn)["why"]
    assert re.search(r"sl_own_code own_own_together\[\] = \{\n.*, \{e\d+, 1\}, \{e\d+, 1\}, 1\}", fn.code), fn.code
    assert "0, 1, own_own_together" not in fn.code, "it does not come early"


def test_updates_and_absent_tensors(ops: Any) -> None:
    ops(kernels.increment_op, "own_triton::increment")

    class Model(torch.nn.Module):
        def __init__(self, is_given: bool) -> None:
            super().__init__()
            self.is_given = is_given

        def forward(self, x: Tensor, by: Tensor) -> Tensor:
            y = torch.relu(x)
            torch.ops.own_triton.increment(y, by if self.is_given else None, 100)
            return y * 2

    for is_given in (False, True):
        fn = sl.compile(Model(is_given), (torch.randn(100), torch.ones(1)), target=TARGET)
        assert "copy" not in json.dumps([row["op"] for row in json.loads(fn._compilation.explain_json)["statements"]])
        # an absent tensor is a constant of the kernel
        assert len(_cubin.parameters_of(_image(fn, "increment"), "increment")) == (5 if is_given else 4)


def test_a_part_of_a_buffer_is_copied_to_an_aligned_place(ops: Any) -> None:
    kernel = ops(kernels.increment_op, "own_triton::increment")

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.relu(x)[1:].clone()
            z = torch.cat([torch.relu(x)[:1], y])[1:]
            torch.ops.own_triton.increment(z, None, 99)
            return z * 2

    x = torch.randn(100)
    fn = sl.compile(Model(), (x,), target=TARGET)
    table = re.search(r"parameters_own_increment\[\] = \{\n.*?, 16\}", fn.code, re.S)
    assert table is not None
    kernel.unregister()
    ops(kernels.increment_op, "own_triton::increment", aligned=False)
    fn = sl.compile(Model(), (x,), target=TARGET)
    assert re.search(r"parameters_own_increment\[\] = \{\n.*?, 16\}", fn.code, re.S) is None


@triton.jit
def _filled(x_ptr, out_ptr, KIND: tl.constexpr, HOW: tl.constexpr, BLOCK: tl.constexpr):
    value = tl.load(x_ptr).to(KIND)
    if HOW == "twice":
        value = value + value
    tl.store(out_ptr + tl.arange(0, BLOCK), value)


def test_dtypes_and_texts_are_constants(ops: Any) -> None:
    def make(name: str) -> Any:
        schema = f"{name}(Tensor x_ptr, dtype KIND, str HOW, int BLOCK) -> Tensor"
        shapes = lambda x, kind, how, block: x.new_empty(block, dtype=kind)  # noqa: E731
        return sl.triton_kernel(_filled, schema, grid=1, fake=shapes)

    ops(make, "own_triton::filled")

    class Model(torch.nn.Module):
        def __init__(self, how: str) -> None:
            super().__init__()
            self.how = how

        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_triton.filled(x, torch.float16, self.how, 64)

    images = {_image(sl.compile(Model(how), (torch.ones(1),), target=TARGET), "_filled") for how in ("once", "twice")}
    assert len(images) == 2


def test_heuristics_are_constants(ops: Any) -> None:
    ops(kernels.softmax_op, "own_triton::softmax")

    class Softmax(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_triton.softmax(x, x.shape[1])

    row = _row(sl.compile(Softmax(), (torch.randn(7, 200),), target=TARGET))
    assert row["blocks"] == 7 and "BLOCK=256" in row["why"]


def test_small_kernels_start_early(ops: Any) -> None:
    """They wait for the kernel ahead by themselves; large ones do not, nor those for architectures that cannot."""
    ops(kernels.add_op, "own_triton::add")
    ops(
        kernels.product_op, "own_triton::product", constants={"BM": 128, "BN": 128, "BK": 64}, num_stages=3, num_warps=8
    )

    class Model(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            c = torch.ops.own_triton.product(a, b, 256, 256, 256)
            return torch.ops.own_triton.add(c, a, 65536, 1.0)

    a = torch.randn(256, 256).half()
    for target, waits in (
        (TARGET, {"own_add": "1", "own_product": "0"}),
        ("cuda:sm_80", {"own_add": "0", "own_product": "0"}),
    ):
        code = sl.compile(Model(), (a, torch.randn(256, 256).half()), target=target).code
        found = re.findall(r"sl_device_code code_(\w+)\[\] = \{\n.*, (\d), own_\w+\},", code)
        assert dict(found) == waits


@pytest.mark.parametrize("target", ["cuda:sm_75", "cuda:sm_80", "cuda:sm_120"])
def test_other_architectures(ops: Any, target: str) -> None:
    ops(kernels.add_op, "own_triton::add")
    x = torch.randn(64)
    fn = sl.compile(_Add(), (x, x), target=target)
    assert _cubin.architecture_of(_image(fn, "scaled_add")).rstrip("a") == target.removeprefix("cuda:")


def test_a_saved_model_has_the_machine_code(ops: Any, tmp_path: Path) -> None:
    ops(kernels.add_op, "own_triton::add")
    x = torch.randn(64)
    fn = sl.compile(_Add(), (x, x), target=TARGET)
    fn.save(tmp_path / "m.sl")
    assert _image(fn, "scaled_add") in (tmp_path / "m.sl").read_bytes() or (tmp_path / "m.sl").stat().st_size > 0
