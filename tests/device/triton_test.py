# SPDX-License-Identifier: Apache-2.0
"""Triton kernels on a device: graph, stream, interpreter, emitted Python, saved, in eager; against torch and Triton's launcher."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from torch import Tensor, nn

triton = pytest.importorskip("triton")

from tests.frameworks.triton import kernels  # noqa: E402

SEED = torch.seed() % 2**31


@pytest.fixture(autouse=True)
def _seeded() -> None:
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


@pytest.fixture
def ops() -> Iterator[Callable[..., Any]]:
    with kernels.registering() as register:
        yield register


class _Add(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(torch.ops.device_triton.add(x * 2, y, x.numel(), 2.5))


def _by_triton(x: Tensor, y: Tensor) -> Tensor:
    """The same launch by Triton's own launcher."""
    out = torch.empty_like(x)
    kernels.scaled_add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), 2.5, BLOCK=1024)
    return out


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_every_executor_gives_the_same_bits(ops: Any, launch: str, tmp_path: Path) -> None:
    ops(kernels.add_op, "device_triton::add")
    x, y = torch.randn(300, 1001, device="cuda"), torch.randn(300, 1001, device="cuda")
    wanted = torch.relu(_by_triton(x * 2, y))
    fn = sl.compile(_Add(), (x, y), launch=launch)
    assert fn.explain()["launch"] == launch
    for _ in range(3):
        z = torch.randn_like(x)
        assert torch.equal(fn(z, y), torch.relu(_by_triton(z * 2, y)))
    assert torch.equal(fn(x, y), wanted)
    with sl.fast_path(False):
        assert torch.equal(fn(x, y), wanted)
    assert torch.equal(sl.compile(_Add(), (x, y), launch=launch, emit="python")(x, y), wanted)
    fn.save(tmp_path / "m.sl")
    assert torch.equal(sl.load(tmp_path / "m.sl")(x, y), wanted)


def test_in_eager(ops: Any) -> None:
    ops(kernels.add_op, "device_triton::add")
    x, y = torch.randn(5000, device="cuda"), torch.randn(5000, device="cuda")
    assert torch.equal(torch.ops.device_triton.add(x, y, 5000, 2.5), _by_triton(x, y))


@pytest.mark.parametrize(
    ("tile", "clusters"),
    [((64, 32, 32, 3), None), ((128, 128, 64, 4), None), ((128, 64, 32, 3), 2), ((128, 128, 64, 2), 4)],
)
def test_products_with_shared_memory_and_named_sizes(
    ops: Any, tile: tuple[int, int, int, int], clusters: int | None
) -> None:
    if clusters and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("the device has no clusters")
    bm, bn, bk, stages = tile
    constants = {"BM": bm, "BN": bn, "BK": bk}
    ops(kernels.product_op, "device_triton::product", constants=constants, num_stages=stages, num_ctas=clusters)

    class Product(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.device_triton.product(a, b, a.shape[0], b.shape[1], a.shape[1])

    m, n = torch.export.Dim("m", min=1, max=4096), torch.export.Dim("n", min=1, max=512)
    a, b = torch.randn(100, 256, device="cuda").half(), torch.randn(256, 40, device="cuda").half()
    fn = sl.compile(Product(), (a, b), dynamic_shapes=({0: m}, {1: n}))
    for rows, columns in ((1, 1), (100, 40), (777, 300), (4096, 512)):
        a, b = torch.randn(rows, 256, device="cuda").half(), torch.randn(256, columns, device="cuda").half()
        torch.testing.assert_close(fn(a, b).double(), a.double() @ b.double(), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_blocks_that_wait_for_each_other(ops: Any, launch: str) -> None:
    ops(kernels.together_op, "device_triton::together")

    class Together(nn.Module):
        def forward(self, x: Tensor, counts: Tensor) -> Tensor:
            return torch.ops.device_triton.together(x, counts, x.numel()) * 2

    def counts() -> Tensor:
        return torch.zeros(2, dtype=torch.int32, device="cuda")

    x = torch.randint(0, 9, (100 * 128,), dtype=torch.int32, device="cuda")
    fn = sl.compile(Together(), (x, counts()), launch=launch)
    for _ in range(5):
        x = torch.randint_like(x, 9)
        assert torch.equal(fn(x, counts()), (x.sum() * 2).int().expand_as(x))
    many = torch.ones(128 << 16, dtype=torch.int32, device="cuda")  # 65,536 blocks, for which no device has room
    with pytest.raises(sl.StraightlineError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        sl.compile(Together(), (many, counts()), launch=launch)(many, counts())
    assert torch.equal(fn(x, counts()), (x.sum() * 2).int().expand_as(x))


def test_updates_and_rows(ops: Any) -> None:
    ops(kernels.increment_op, "device_triton::increment")
    ops(kernels.softmax_op, "device_triton::softmax")

    class Model(nn.Module):
        def forward(self, x: Tensor, by: Tensor) -> Tensor:
            torch.ops.device_triton.increment(x, by, x.numel())
            return torch.ops.device_triton.softmax(x, x.shape[1])

    x, by = torch.randn(33, 200, device="cuda"), torch.tensor([3.0], device="cuda")
    wanted = x + 3
    fn = sl.compile(Model(), (x.clone(), by))
    torch.testing.assert_close(fn(x, by), torch.softmax(wanted, 1))
    assert torch.equal(x, wanted)


def test_addresses_that_are_not_aligned(ops: Any) -> None:
    kernel = ops(kernels.add_op, "device_triton::add")
    x, y = torch.randn(1001, device="cuda"), torch.randn(1000, device="cuda")
    part = x[1:]
    fn = sl.compile(_Direct(), (y, y))
    with pytest.raises(
        sl.StraightlineError, match="parameter 0 of scaled_add begins at an address that is no multiple of 16"
    ):
        fn(part, y)
    assert torch.equal(fn(y, y), _by_triton(y, y))
    kernel.unregister()
    ops(kernels.add_op, "device_triton::add", aligned=False)
    assert torch.equal(sl.compile(_Direct(), (part, y))(part, y), _by_triton(part, y))


class _Direct(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.ops.device_triton.add(x, y, x.numel(), 2.5)


def test_triton_ops() -> None:
    from tests.frameworks.triton import triton_ops_test as library

    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            z = torch.relu(x)
            library.increment_(z)
            return library.add(z, y, 2.0), *library.twice_and_scaled(y, 0.5)

    x, y = torch.randn(30, 100, device="cuda"), torch.randn(30, 100, device="cuda")
    fn = sl.compile(Model(), (x, y))
    for got, wanted in zip(fn(x, y), Model()(x, y)):
        torch.testing.assert_close(got, wanted)


def test_an_autotuner_is_measured_and_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from straightline import _triton_tuning

    monkeypatch.setattr(_triton_tuning, "_path", lambda: str(tmp_path / "tuning.json"))
    configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 1), (1024, 4), (4096, 8))]
    tuned = triton.autotune(configs, key=["n"])(kernels.scaled_add)
    schema = "device_triton::tuned(Tensor x_ptr, Tensor y_ptr, SymInt n, float alpha) -> Tensor"
    kernel = sl.triton_kernel(tuned, schema, grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),))
    try:

        class Model(nn.Module):
            def forward(self, x: Tensor, y: Tensor) -> Tensor:
                return torch.ops.device_triton.tuned(x, y, x.numel(), 2.5)

        x, y = torch.randn(1 << 22, device="cuda"), torch.randn(1 << 22, device="cuda")
        fn = sl.compile(Model(), (x, y))
        why = fn.explain()["statements"][0]["why"]
        print(why)
        assert "measured: BLOCK: " in why and len(re.findall(r"\d us", why)) == 3
        assert torch.equal(fn(x, y), _by_triton(x, y))
        monkeypatch.setattr(_triton_tuning, "_known", {})
        monkeypatch.setattr(_triton_tuning, "_times", lambda *_: pytest.fail("measured again"))
        assert (
            sl.compile(Model(), (x, y)).explain()["statements"][0]["blocks"] == fn.explain()["statements"][0]["blocks"]
        )
    finally:
        kernel.unregister()


def test_a_cubin(tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "own_kernels"))
    import cubins

    major, minor = torch.cuda.get_device_capability()
    kernel = sl.cuda_kernel(
        cubins.cubin(arch=f"sm_{major}{minor}"), "scale", "device_triton::scale(Tensor x, float a, int n) -> Tensor",
        grid=lambda x, a, n: ((n + 127) // 128, 128),
    )  # fmt: skip
    try:

        class Model(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.device_triton.scale(x, 2.5, 3000)

        x = torch.randn(3000, device="cuda")
        fn = sl.compile(Model(), (x,))
        assert torch.equal(fn(x), x * 2.5)
        assert torch.equal(torch.ops.device_triton.scale(x, 2.5, 3000), x * 2.5)
        fn.save(tmp_path / "m.sl")
        assert torch.equal(sl.load(tmp_path / "m.sl")(x), x * 2.5)
    finally:
        kernel.unregister()


def test_the_example(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "own_kernels" / "triton_kernels.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "right on a device", done.stderr
