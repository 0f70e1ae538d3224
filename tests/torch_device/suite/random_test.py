# SPDX-License-Identifier: Apache-2.0
"""Random numbers: distributions on both devices, and the device's generators."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint

N = 100_000


@pytest.mark.anyplatform
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floats(device: str, dtype: torch.dtype) -> None:
    uniform = torch.empty(N, dtype=dtype, device=device).uniform_(-1, 3).cpu().double()
    assert uniform.min() >= -1
    assert uniform.max() <= 3
    assert abs(uniform.mean() - 1) < 0.05
    normal = torch.empty(N, dtype=dtype, device=device).normal_(2, 3).cpu().double()
    assert abs(normal.mean() - 2) < 0.1
    assert abs(normal.std() - 3) < 0.1
    exponential = torch.empty(N, dtype=dtype, device=device).exponential_(2).cpu().double()
    assert abs(exponential.mean() - 0.5) < 0.05
    assert 0.45 < torch.rand(N, dtype=dtype, device=device).cpu().double().mean() < 0.55
    assert -0.05 < torch.randn(N, dtype=dtype, device=device).cpu().double().mean() < 0.05


@pytest.mark.anyplatform
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_draws_the_same_numbers_again(device: str, reentrant: bool) -> None:
    """The gradient is that of the forward pass's own mask, which is computed again."""
    x = torch.ones(64, 64, device=device, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5), x, use_reentrant=reentrant)
    torch.rand(100, device=device)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


@pytest.mark.anyplatform
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_integers(device: str, dtype: torch.dtype) -> None:
    x = torch.randint(3, 10, (N,), dtype=dtype, device=device).cpu()
    assert sorted(set(x.tolist())) == [3, 4, 5, 6, 7, 8, 9]
    counts = torch.bincount(x.long())[3:].double()
    assert (counts / N - 1 / 7).abs().max() < 0.01
    assert torch.empty(N, dtype=torch.bool, device=device).random_().float().mean().item() == pytest.approx(
        0.5, abs=0.02
    )


@pytest.mark.anyplatform
def test_choices(device: str) -> None:
    assert torch.bernoulli(torch.full((N,), 0.2, device=device)).mean().item() == pytest.approx(0.2, abs=0.02)
    assert torch.empty(N, device=device).bernoulli_(0.7).mean().item() == pytest.approx(0.7, abs=0.02)
    assert sorted(torch.randperm(50, device=device).tolist()) == list(range(50))
    dropped = torch.nn.functional.dropout(torch.ones(N, device=device), 0.25).cpu()
    assert set(dropped.tolist()) <= {0.0, float(torch.tensor(1 / 0.75))}
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    x = torch.ones(N, device=device, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


@pytest.mark.device
def test_seeds_and_states() -> None:
    torch.manual_seed(5)
    first = [torch.randn(10, device="sl").cpu(), torch.rand(7, device="sl").cpu()]
    torch.sl.manual_seed_all(5)
    again = [torch.randn(10, device="sl").cpu(), torch.rand(7, device="sl").cpu()]
    assert all(map(torch.equal, first, again))
    state = torch.sl.get_rng_state()
    a = torch.randn(9, device="sl").cpu()
    assert not torch.equal(a, torch.randn(9, device="sl").cpu()), "the offset grows"
    torch.sl.set_rng_state(state)
    assert torch.equal(a, torch.randn(9, device="sl").cpu())
    assert torch.sl.initial_seed() == 5
    own = torch.Generator(device="sl").manual_seed(5)
    assert torch.equal(torch.randn(10, device="sl", generator=own).cpu(), first[0])
    torch.sl.manual_seed(6)
    assert not torch.equal(torch.randn(10, device="sl").cpu(), first[0])
    other = torch.randn(10, device="sl:1").cpu()
    torch.sl.manual_seed_all(6)
    assert torch.equal(torch.randn(10, device="sl").cpu(), torch.randn(10, device="sl:1").cpu())
    del other
    with torch.random.fork_rng(device_type="sl"):
        torch.randn(3, device="sl")


@pytest.mark.device
def test_bad_generators() -> None:
    with pytest.raises(RuntimeError, match="the state of a generator is a dense uint8 tensor of 16 elements"):
        torch.sl.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device="sl", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="the generator is of device sl:1 but the tensor is on sl:0"):
        torch.randn(3, device="sl:0", generator=torch.Generator(device="sl:1"))
    with pytest.raises(RuntimeError, match="random_ from 3 to 3"):
        torch.empty(2, device="sl").random_(3, 3)
