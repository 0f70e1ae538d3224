# SPDX-License-Identifier: Apache-2.0
"""Factories, copies, views, storage, files: the same tests on the CPU and on the device."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.anyplatform

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


def numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factories(device: str, dtype: torch.dtype) -> None:
    for made, expected in (
        (torch.zeros(2, 3, dtype=dtype, device=device), torch.zeros(2, 3, dtype=dtype)),
        (torch.ones(4, dtype=dtype, device=device), torch.ones(4, dtype=dtype)),
        (torch.full((2,), 1, dtype=dtype, device=device), torch.full((2,), 1, dtype=dtype)),
        (torch.eye(3, 4, dtype=dtype, device=device), torch.eye(3, 4, dtype=dtype)),
        (torch.tensor([1, 0, 1], dtype=dtype, device=device), torch.tensor([1, 0, 1], dtype=dtype)),
        (torch.empty(0, dtype=dtype, device=device), torch.empty(0, dtype=dtype)),
    ):
        assert made.device.type == device
        assert made.dtype == dtype
        assert torch.equal(made.cpu(), expected)


@pytest.mark.parametrize("arguments", [(5,), (2, 9), (0, 10, 3), (10, 0, -3), (0.5, 4.2), (0.0, 1.0, 0.1)])
def test_arange(device: str, arguments: tuple[float, ...]) -> None:
    torch.testing.assert_close(torch.arange(*arguments, device=device).cpu(), torch.arange(*arguments))


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_linspace(device: str, steps: int) -> None:
    torch.testing.assert_close(torch.linspace(-1, 3, steps, device=device).cpu(), torch.linspace(-1, 3, steps))


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_between_types(device: str, dtype: torch.dtype, to: torch.dtype) -> None:
    x = numbers(dtype, 3, 5)
    there = x.to(device)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.to(to).cpu(), x.to(to))
    assert torch.equal(there.to("cpu", to), x.to(to))
    assert torch.equal(x.to(device, to).cpu(), x.to(to))


def test_copies_of_any_strides(device: str) -> None:
    x = torch.randn(4, 5, 6)
    there = x.to(device)
    for view in (
        lambda t: t.t() if t.dim() == 2 else t.transpose(0, 2),
        lambda t: t[1:, ::2, 3],
        lambda t: t.permute(1, 2, 0),
        lambda t: t[:, 1].expand(3, 4, 6),
        lambda t: t.as_strided((2, 3), (7, 2), 5),
        lambda t: t.unfold(1, 3, 1),
    ):
        assert torch.equal(view(there).cpu(), view(x))
        assert torch.equal(view(there).contiguous().cpu(), view(x).contiguous())
        assert view(there).contiguous().is_contiguous()
    for target in (lambda t: t[::2], lambda t: t.transpose(0, 1)[2], lambda t: t[..., 1]):
        a, b = x.clone(), there.clone()
        value = torch.randn(target(a).shape)
        target(a).copy_(value)
        target(b).copy_(value)
        assert torch.equal(a, b.cpu())
        target(a).copy_(-value)
        target(b).copy_((-value).to(device))
        assert torch.equal(a, b.cpu())


def test_views_alias(device: str) -> None:
    x = torch.zeros(4, 6, device=device)
    for view in (
        x.view(24),
        x.t(),
        x[1:3],
        x.reshape(2, 12),
        x.unsqueeze(0),
        x.flatten(),
        x.narrow(1, 2, 3),
        x.detach(),
    ):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x.view(24)[3:6].fill_(7)
    x.t()[5].fill_(2)
    expected = torch.zeros(4, 6)
    expected.view(24)[3:6] = 7
    expected.t()[5] = 2
    assert torch.equal(x.cpu(), expected)


def test_a_function_of_torch_gives_memory_of_its_own(device: str) -> None:
    x = torch.randn(3, 3, device=device)
    before = x.cpu()
    for made in (x.clone(), x.relu(), x.abs(), torch.cat([x]), x.to(device, copy=True)):
        made.zero_()
    assert torch.equal(x.cpu(), before)


def test_resize_and_set(device: str) -> None:
    x = torch.arange(6, device=device)
    x.resize_(2, 5)
    assert torch.equal(x.cpu().flatten()[:6], torch.arange(6))
    y = torch.empty(0, dtype=torch.int64, device=device).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert torch.equal(y.cpu(), torch.arange(1, 5).view(2, 2))
    with pytest.raises(RuntimeError):
        x.view(7)


def test_scalars(device: str) -> None:
    x = torch.tensor([1.5, -2.0], device=device)
    assert x[1].item() == -2
    assert x.tolist() == [1.5, -2]
    assert bool(x[0] > 1)
    assert float(x.sum()) == -0.5


def test_save_and_load(device: str) -> None:
    x = torch.randn(3, 4).to(device)
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1]}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].device.type == device
    assert torch.equal(loaded["x"].cpu(), x.cpu())
    loaded["x"][1].fill_(3)
    assert loaded["view"].tolist() == [3, 3, 3, 3], "one storage"
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"


def test_deepcopy_and_modules(device: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(device)
    other = copy.deepcopy(model)
    with torch.no_grad():
        model[0].weight.zero_()
    assert other[0].weight.abs().sum().item() > 0
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    other.load_state_dict(state)
    assert torch.equal(other[0].weight.cpu(), torch.zeros(4, 3))


def test_printing(device: str) -> None:
    text = repr(torch.tensor([[1.0, 2.5], [float("nan"), 3.0]], device=device))
    assert "2.5000" in text
    assert ("device='sl:0'" in text) == (device == "sl")


def test_masks(device: str) -> None:
    x = torch.randn(4, 5)
    there = x.to(device)
    assert torch.equal(there[there > 0].cpu(), x[x > 0])
    assert torch.equal(there.nonzero().cpu(), x.nonzero())
    assert torch.equal(there.masked_select(there[0] < 0).cpu(), x.masked_select(x[0] < 0))
    row = torch.tensor([True, False, True, False])
    assert torch.equal(there[row.to(device)].cpu(), x[row])
    there[there < 0] = 0
    assert torch.equal(there.cpu(), x.clamp(min=0))
    assert torch.equal(there, there.clone())
    assert not torch.equal(there, there + 1)


def test_pinned_memory_and_copies_that_do_not_wait(device: str) -> None:
    x = torch.randn(1000)
    pinned = x.pin_memory() if device == "sl" else x
    assert pinned.is_pinned() == (device == "sl")
    there = pinned.to(device, non_blocking=True)
    back = torch.empty(1000, pin_memory=device == "sl")
    back.copy_(there, non_blocking=True)
    if device == "sl":
        torch.sl.synchronize()
    assert torch.equal(back, x)
    back = torch.empty(1000).copy_(there, non_blocking=True)
    assert torch.equal(back, x), "memory that is not pinned is waited for"
    back = there.to("cpu", non_blocking=True)  # torch makes the copy in pinned memory
    if device == "sl":
        assert back.is_pinned()
        torch.sl.synchronize()
    assert torch.equal(back, x)


def test_views_in_place(device: str) -> None:
    seed = torch.seed()
    print("seed", seed)
    x = torch.randn(2, 1, 3)
    y = x.to(device)
    for step in (
        lambda one: one.squeeze_(1),
        lambda one: one.t_(),
        lambda one: one.unsqueeze_(0),
        lambda one: one.transpose_(0, 1),
        lambda one: one.as_strided_((2, 2), (1, 2), 1),
    ):
        assert step(y) is y
        step(x)
        assert (y.shape, y.stride(), y.storage_offset()) == (x.shape, x.stride(), x.storage_offset())
        assert torch.equal(y.cpu(), x)
    with pytest.raises(RuntimeError, match="out of bounds"):
        y.as_strided_((9,), (1,), 0)


COMPLEX = {
    "real": lambda a, b: a.real,
    "imag": lambda a, b: a.imag.clone(),
    "parts": lambda a, b: torch.view_as_complex(torch.view_as_real(a).clone()),
    "conj": lambda a, b: a.conj().resolve_conj(),
    "conj to host": lambda a, b: a.conj().cpu(),
    "conj of a conj": lambda a, b: a.conj().clone().conj().imag,
    "into a conj": lambda a, b: a.clone().conj().copy_(b).resolve_conj(),
    "arithmetic": lambda a, b: (a + b * (1 + 2j)) / (a * 2 - b),
    "abs and angle": lambda a, b: torch.polar(a.abs(), b.angle()),
    "product": lambda a, b: a @ b.mT,
    "fft": lambda a, b: torch.fft.ifft(torch.fft.fft(a)),
    "views": lambda a, b: torch.cat([a[1:, ::2], b.t()[:2, :2]]),
    "types": lambda a, b: a.to(torch.complex128).real.to(torch.complex64),
    "fill": lambda a, b: torch.stack([torch.full_like(a, 2 - 1j), torch.zeros_like(a), torch.ones_like(a).conj().fill_(1j)]),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(device: str, name: str) -> None:
    a, b = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(COMPLEX[name](a.to(device), b.to(device)).cpu(), COMPLEX[name](a, b))


def test_complex_numbers_print(device: str) -> None:
    assert "1.+2.j" in repr(torch.tensor([1 + 2j]).to(device))
    drawn = torch.randn(4000, dtype=torch.complex64, device=device)
    assert 0.8 < float(drawn.abs().square().mean()) < 1.2


def test_negated_views(device: str) -> None:
    x = torch.randn(3, 4)
    view = torch._neg_view(x.to(device))
    torch.testing.assert_close(view.cpu(), -x)
    torch.testing.assert_close((view + 1).cpu(), 1 - x)
    assert torch.equal(view.clone().cpu(), -x)


def test_storages_of_another_device_are_refused() -> None:
    x = torch.zeros(3, device="sl")
    with pytest.raises(RuntimeError, match="a tensor on sl:0 got a storage on cpu"):
        x.set_(torch.zeros(3).untyped_storage())


def test_copies_within_a_tensor_that_overlap(device: str) -> None:
    x = torch.arange(6.0, device=device)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.eye(3, device="sl").to_sparse(), "its result is no dense tensor"),
        (lambda: torch.eye(3).to_sparse().to("sl"), "sparse tensors are not supported there; nearest: dense tensors"),
        (lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="sl"), "sparse tensors are not"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_layouts_are_refused_in_words(call: Any, words: str) -> None:
    with pytest.raises(NotImplementedError, match=words):
        call()
