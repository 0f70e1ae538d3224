# SPDX-License-Identifier: Apache-2.0
"""What bad input gets on an NVIDIA device: each refusal in words, and a call behind it that is right.

What needs no device is in tests/error/cuda_driver_test.py, two devices are in two_devices_test.py; forks, captures, faults and
foreign contexts in launch_test.py. Fails when nothing is refused, or not in these words.
"""

from __future__ import annotations

import pytest
import straightline as sl
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.device.support import asked, judge, made, refused


def test_no_memory_for_the_arena() -> None:
    """An intermediate that is larger than the device."""

    def model(a: Tensor, b: Tensor) -> Tensor:
        return torch.softmax(torch.softmax(a @ b, -1) @ b.T, -1)

    a, b = torch.randn(300_000, 8, device="cuda"), torch.randn(8, 300_000, device="cuda")
    compiled = sl.compile(model, (a, b), routes={"matmul": "cuda"})
    free = torch.cuda.mem_get_info()[0]
    refused(
        MemoryError,
        lambda: compiled(a, b),
        "out of memory: the program needs an arena of",
        "bytes in 'cuda' of device 0",
    )
    assert torch.cuda.mem_get_info()[0] >= free - (64 << 20), "memory was kept"  # the driver has loaded the kernels
    module, x, fine = made(3)
    judge(module, x, fine(x), "behind it")


def test_no_memory_for_a_result() -> None:
    """A result that is larger than the device: torch's allocator has its say."""
    x = torch.randn(300_000, 1, device="cuda")
    compiled = sl.compile(lambda x: x * x.T, (x,))
    refused(MemoryError, lambda: compiled(x), "output", "could not be allocated", "GiB")


def test_another_architecture() -> None:
    """Machine code of a device that this one is not."""
    x = torch.randn(64, device="cuda")
    compiled = sl.compile(lambda x: torch.sin(x) + 2, (x,), target="cuda:sm_80")
    refused(sl.UnsupportedError, lambda: compiled(x), "compiled for cuda:sm_80", "device 0 is sm_")


def test_mixed_devices() -> None:
    """Tensors of the host and of the device in one call, or in one model."""
    module, x, compiled = made(2)
    refused(sl.UserError, lambda: compiled(x.cpu()), "it is on cpu", "compiled for cuda:0")
    both = sl.compile(lambda a, b: torch.softmax(a + b, -1), (x, x))
    refused(sl.UserError, lambda: both(x, x.cpu()), "'b'", "it is on cpu", "compiled for cuda:0")
    refused(sl.UserError, lambda: both(x, x.cpu().numpy()), "one kind")
    refused(sl.UserError, lambda: sl.compile(lambda a, b: (a * 2, b * 3), (x, x.cpu())), "is on cuda", "is not")
    refused(
        sl.UserError, lambda: sl.compile(module, (x,), target="cpu"), "target is 'cpu' but an example input is on cuda"
    )
    refused(
        sl.UserError,
        lambda: compiled.load_parameters({k: v.cpu() for k, v in module.state_dict().items()}),
        "cpu",
        "cuda:0",
    )


def test_results_of_the_host() -> None:
    """A model on the device whose result is to be on the host."""
    x = torch.randn(8, 8, device="cuda")
    refused(sl.UnsupportedError, lambda: sl.compile(lambda x: (x * 2).cpu(), (x,)), "is on cpu", "runs on cuda:0")
    constant = sl.compile(lambda x: (x * 2, torch.tensor([4.0, 9.0]).sqrt()), (x,))
    (_, first), (_, second) = constant(x), constant(x)
    assert first.device.type == "cpu" and torch.equal(first.zero_() + 2, torch.tensor([2.0, 2.0]))
    assert torch.equal(second, torch.tensor([2.0, 3.0]))
    back = sl.compile(lambda x: (x * 2).cpu().cuda() + 1, (x,))
    assert torch.equal(back(x), x * 2 + 1)


def test_results_say_where_a_model_without_tensors_runs() -> None:
    """Nothing but numbers comes in; a module's own tensors say it too."""
    torch.testing.assert_close(
        sl.compile(lambda: torch.hann_window(5, device="cuda"), ())(), torch.hann_window(5, device="cuda")
    )
    made = sl.compile(lambda n: torch.full((3,), 0.5, device="cuda") * n, (3,))(3)
    assert made.equal(torch.full((3,), 1.5, device="cuda"))
    module = torch.nn.Linear(4, 4).cuda()
    module.forward = lambda n: module.weight * n
    assert sl.compile(module, (2,))(2).equal(module.weight * 2)
    refused(
        sl.UnsupportedError, lambda: sl.compile(lambda: torch.ones(3, device="cuda"), (), target="cpu"), "is on cuda:0"
    )


@pytest.mark.parametrize("op", ["layer", "batch"])
def test_statistics_of_halves_are_float32(op: str) -> None:
    """On a device; on the host they are halves."""
    weight = torch.rand(6, device="cuda", dtype=torch.bfloat16)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if op == "layer":
            return torch.native_layer_norm(x, [6], weight, weight, 1e-5)
        return torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)

    x = torch.randn(32, 6, device="cuda", dtype=torch.bfloat16)
    torch.testing.assert_close(sl.compile(model, (x,))(x), model(x))


def test_freed_while_enqueued() -> None:
    """An input that goes while the call which reads it has not begun: its memory is not another tensor's before that."""
    module, x, compiled = made(3)
    kept = x.clone()
    compiled(torch.full_like(kept, 1.0))  # what is loaded late waits for the device
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    got = compiled(x)
    del x
    again = torch.full_like(kept, float("nan"))  # takes the memory that was freed, behind the call
    assert not torch.cuda.current_stream().query(), "the device was done already: nothing is shown"
    judge(module, kept, got, "an input that was freed")
    assert again.isnan().all()


def test_alternating_sizes() -> None:
    """Three sizes in turn: one graph whose nodes are updated, the arena of the largest, answers as of eager."""
    batch = torch.export.Dim("batch", min=1, max=4096)

    def model(x: Tensor, w: Tensor) -> Tensor:
        y = F.gelu(torch.softmax(x @ w, -1) * 3)
        return torch.softmax(y @ w, -1).sum(0) + y.cumsum(0)[-1]

    w = torch.randn(256, 256, device="cuda")
    compiled = sl.compile(model, (torch.randn(7, 256, device="cuda"), w), dynamic_shapes=({0: batch}, None))
    assert compiled.explain()["launch"] == "graph", compiled.explain()["launch_reason"]
    inputs = [torch.randn(size, 256, device="cuda") for size in (4000, 3, 517)]
    wanted = [model(x.double(), w.double()) for x in inputs]

    def rounds() -> None:
        for _ in range(50):
            for x, want in zip(inputs, wanted, strict=True):
                assert torch.allclose(compiled(x, w).double(), want, rtol=1e-3, atol=1e-3)

    rounds()
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    counts = asked(rounds)
    print(f"    150 calls: {counts}, memory {free - torch.cuda.mem_get_info()[0]:+d} bytes")
    assert counts.get("instantiations", 0) == 0 and "allocations" not in counts and "synchronizations" not in counts, (
        counts
    )
    assert free - torch.cuda.mem_get_info()[0] <= 4 << 20
