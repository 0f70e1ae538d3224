# SPDX-License-Identifier: Apache-2.0
"""Eager ops as programs: results, sharing, ops that write, what is refused. `python tests/torch_device/op_db.py` runs all of op_db's."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import straightline.torch_device as torch_device
import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(Path(__file__).parents[1]))
from op_db import OPS, outcomes  # noqa: E402

pytestmark = pytest.mark.device


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("name", ["where", "cumsum", "flip"])
def test_samples_of_op_db(name: str, dtype: torch.dtype) -> None:
    found = list(outcomes(next(info for info in op_db if info.name == name), dtype))
    counts = Counter(kind for kind, _ in found)
    assert counts["failed"] == 0, [why for kind, why in found if kind == "failed"]
    assert counts["passed"] > 0


def test_the_list_of_ops_is_op_dbs() -> None:
    known = {f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name for info in op_db}
    assert set(OPS) <= known
    assert len(set(OPS)) == len(OPS) >= 120


def test_shapes_share_a_program() -> None:
    def chain(rows: int, columns: int) -> torch.Tensor:
        x = torch.randn(rows, columns)
        there = x.to("sl")
        y = ((there + there) * 2).relu().sum(1)
        torch.testing.assert_close(y.cpu(), ((x + x) * 2).relu().sum(1))
        return y

    chain(5, 7)
    before = torch_device.programs_built()
    for rows, columns in ((6, 9), (100, 3), (2, 1000), (33, 34)):
        chain(rows, columns)
    assert torch_device.programs_built() == before


def test_numbers_that_change_share_a_program() -> None:
    x = torch.randn(9)
    there = x.to("sl")
    for step in range(12):
        before = torch_device.programs_built()
        rate = 0.1 / (step + 1)
        torch.testing.assert_close((there * rate).cpu(), x * rate)
        torch.testing.assert_close(
            there.addcdiv(there, there.abs() + 1, value=-rate).cpu(), x.addcdiv(x, x.abs() + 1, value=-rate)
        )
        if step > 4:
            assert torch_device.programs_built() == before
    assert (there.to(torch.int64) * 2.5).dtype == torch.float32
    assert (there.double() * 0.3).dtype == torch.float64


def test_ops_that_write() -> None:
    x = torch.randn(4, 6)
    for write in (
        lambda t: t.add_(2),
        lambda t: t.t().mul_(t.t()),
        lambda t: t[1:, ::2].neg_(),
        lambda t: torch.add(t, 1, out=t),
        lambda t: t.clamp_(min=0),
        lambda t: t.index_add_(0, torch.tensor([0, 2], device=t.device), torch.ones(2, 6, device=t.device)),
        lambda t: t.scatter_(0, torch.zeros(1, 6, dtype=torch.int64, device=t.device), 3.0),
        lambda t: t.copy_(torch.arange(6, device=t.device)),
        lambda t: t.zero_(),
    ):
        here, there = x.clone(), x.to("sl")
        assert write(there) is not None
        write(here)
        torch.testing.assert_close(there.cpu(), here)
    out = torch.empty(0, device="sl")
    assert torch.mul(x.to("sl"), 3, out=out) is out
    torch.testing.assert_close(out.cpu(), x * 3)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(3, dtype=torch.int64, device="sl").add_(0.5)
    with pytest.raises(RuntimeError, match=r"doesn't match the broadcast shape"):
        torch.ones(3, device="sl").add_(torch.ones(2, 3, device="sl"))


def test_empty_tensors_and_tensors_of_one_element() -> None:
    for shape in ((0,), (3, 0), (1,), (), (1, 1)):
        x = torch.ones(shape)
        there = x.to("sl")
        assert torch.equal((there + there).cpu(), x + x)
        assert torch.equal(there.sum().cpu(), x.sum())


def test_versions_of_autograd() -> None:
    x = torch.ones(3, device="sl", requires_grad=True)
    y = x * x
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_is_refused() -> None:
    x = torch.randn(4, device="sl")
    with pytest.raises(
        NotImplementedError, match=r"aten::_unique2 cannot run on sl: the size of its result depends on data"
    ):
        x.unique()
    with pytest.raises(NotImplementedError, match=r"cannot run on sl"):
        torch.linalg.svd(torch.randn(3, 3, device="sl"))
    assert (x + 1).shape == (4,)


def test_what_is_registered() -> None:
    ops = torch_device.registered_ops()
    assert {"aten::add.Tensor", "aten::mm", "aten::empty_strided", "aten::_copy_from"} <= set(ops)
    assert len(ops) > 250
    torch.ones(2, device="sl") + torch.ones(2, device="sl")
    rows = [row for row in torch.sl.op_counts() if row["op"] == "aten::add.Tensor"]
    assert all(row["calls"] > 0 and row["programs"] > 0 for row in rows)
    assert any("pointwise_add" in row["route"] for row in rows)


def test_numbers_where_torch_has_tensors(device: str) -> None:
    """Torch wraps the number of `x % 3` as a tensor for the op's other overload."""
    x = torch.randint(-9, 9, (4, 5))
    for call in (
        lambda t: t % 3,
        lambda t: 7 % (t.abs() + 1),
        lambda t: t & 3,
        lambda t: t << 3,
        lambda t: t >> 2,
        lambda t: t.float() % 2.5,
    ):
        torch.testing.assert_close(call(x.to(device)).cpu(), call(x))


def test_indices_on_the_host(device: str) -> None:
    x = torch.randn(3, 4)
    there = x.to(device)
    for index in (torch.tensor([0, 2]), torch.tensor([True, False, True])):
        assert torch.equal(there[index].cpu(), x[index])
        a, b = x.clone(), there.clone()
        a[index], b[index] = 1.0, 1.0
        assert torch.equal(b.cpu(), a)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda t: t.int().mean(), RuntimeError, "could not infer output dtype"),
        (lambda t: -(t > 0), RuntimeError, "on a bool tensor is not supported"),
        (lambda t: t @ t[:2], RuntimeError, "cannot be multiplied|same reduction dim"),
        (lambda t: t.sum(5), IndexError, "Dimension out of range"),
        (lambda t: torch.cat([t, t[:, :2]]), RuntimeError, "[Ss]izes of tensors must match"),
    ],
)
def test_what_torch_refuses_everywhere(device: str, call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        call(torch.randn(3, 4).to(device))
    assert type(caught.value) is kind and "captured" not in str(caught.value)


def test_forward_derivatives(device: str) -> None:
    x, w = torch.randn(4, 5).to(device), torch.randn(5, 3).to(device)
    derivative = torch.func.jvp(lambda a: (a @ w).tanh(), (x,), (torch.ones_like(x),))[1]
    expected = torch.func.jvp(lambda a: (a @ w.cpu()).tanh(), (x.cpu(),), (torch.ones(4, 5),))[1]
    torch.testing.assert_close(derivative.cpu(), expected)
    hessian = torch.func.hessian(lambda a: (a @ w).exp().sum())(x[0])
    torch.testing.assert_close(hessian.cpu(), torch.func.hessian(lambda a: (a @ w.cpu()).exp().sum())(x[0].cpu()))
