# SPDX-License-Identifier: Apache-2.0
"""Models in eager mode and compiled, inference and training, against the CPU."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import straightline
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from small_models import Decoder, ResNet18  # noqa: E402

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    number = random.randrange(2**32)
    print("seed", number)
    torch.manual_seed(number)
    yield


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.cpu() - b.cpu()).abs().max() / b.cpu().abs().max())


def test_resnet18_equals_the_cpu(sim: Any) -> None:
    """Eager and compiled, on two streams, with events, late workers: within float32's rounding; the same bits whatever the delays."""
    model = ResNet18(width=16, classes=10).eval()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = model(x)
        there, y = copy.deepcopy(model).to("sl"), x.to("sl")
        eager = there(y)
        assert relative(eager, expected) < 1e-5
        compiled = straightline.compile(there, (y,))
        first = compiled(y).cpu()
        assert relative(first, expected) < 1e-5
        streams = [torch.Stream("sl"), torch.Stream("sl")]
        number = random.randrange(2**32)
        print("seed of delays", number)
        for trial in range(50):
            sim.sim_device_set_delay(100, number + trial)
            begin = torch.sl.current_stream().record_event()
            results = []
            for stream in streams:
                stream.wait_event(begin)
                with torch.sl.stream(stream):
                    results.append(compiled(y))
                    results[-1].record_stream(torch.sl.default_stream())
                torch.sl.current_stream().wait_event(stream.record_event())
            assert all(torch.equal(result.cpu(), first) for result in results)


@pytest.mark.whole
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers(kind: str, bias: bool) -> None:
    """Torch makes a cell of a device's layers one op, whose gradient is another."""
    layer = getattr(torch.nn, kind)(5, 6, num_layers=2, bidirectional=True, bias=bias)
    x = torch.randn(4, 3, 5)
    found = []
    for device in ("cpu", "sl"):
        there, given = copy.deepcopy(layer).to(device), x.clone().to(device).requires_grad_()
        y, last = there(given)
        cell = last[1] if kind == "LSTM" else last
        first = torch.autograd.grad(cell.square().sum(), given, retain_graph=True)[0]  # of cy alone
        (y.square().mean() + cell.sum()).backward()
        found.append([y, cell, first, given.grad, *(one.grad for one in there.parameters())])
    for expected, result in zip(*found, strict=True):
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "options"),
    [("sum", {}), ("sum", {"weighted": True}), ("mean", {"padding_idx": 2}), ("max", {"include_last_offset": True})],
)
def test_embedding_bags(mode: str, options: dict[str, Any]) -> None:
    """Bags of several sizes, empty ones among them, and their gradients."""
    options = dict(options)
    weighted = options.pop("weighted", False)
    bag = torch.nn.EmbeddingBag(12, 4, mode=mode, **options)
    x, offsets = torch.randint(0, 12, (9,)), torch.tensor([0, 2, 2, 5, 9])
    x[3] = 2
    found = []
    for device in ("cpu", "sl"):
        there = copy.deepcopy(bag).to(device)
        weights = torch.linspace(-1, 2, 9).to(device).requires_grad_() if weighted else None
        y = there(x.to(device), offsets.to(device), per_sample_weights=weights)
        y.sin().sum().backward()
        found.append([y, there.weight.grad, *([weights.grad] if weights is not None else [])])
    for expected, result in zip(*found, strict=True):
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)


def test_live_bytes_go_back(sim: Any) -> None:
    def work() -> None:
        x = torch.randn(100, 100, device="sl")
        for _ in range(3):
            x = (x @ x).relu()

    work()  # programs keep what their frames need
    torch.sl.synchronize()
    torch.sl.empty_cache()
    allocated, live = torch.sl.memory_allocated(), sim.sim_device_live_bytes(0)
    work()
    torch.sl.synchronize()
    torch.sl.empty_cache()
    assert torch.sl.memory_allocated() == allocated
    assert sim.sim_device_live_bytes(0) == live


def greedy(model: torch.nn.Module, tokens: torch.Tensor, count: int) -> list[int]:
    with torch.no_grad():
        for _ in range(count):
            tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    return tokens[0].tolist()


def test_greedy_tokens_of_a_decoder_equal_the_cpus() -> None:
    model = Decoder().eval()
    tokens = torch.randint(0, 96, (1, 5))
    expected = greedy(model, tokens, 8)
    assert greedy(copy.deepcopy(model).to("sl"), tokens.to("sl"), 8) == expected


def losses(model: torch.nn.Module, device: str, tokens: torch.Tensor, lowered: bool) -> list[float]:
    model, tokens = copy.deepcopy(model).to(device), tokens.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for _ in range(10):
        with torch.autocast(device, torch.bfloat16) if lowered else nullcontext():
            y = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(y.flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(("lowered", "bound"), [(False, 1e-5), (True, 2e-2)])
def test_ten_steps_of_adamw(lowered: bool, bound: float) -> None:
    model, tokens = Decoder(), torch.randint(0, 96, (2, 9))
    expected, got = losses(model, "cpu", tokens, lowered), losses(model, "sl", tokens, lowered)
    assert got == pytest.approx(expected, rel=bound)
    assert got[-1] < got[0]


@pytest.mark.whole
def test_resnet_trains() -> None:
    """Gradients are as near to those in float64 as the CPU's in float32, whose sums have another order."""
    model = ResNet18(width=4, classes=3)
    x, y = torch.randn(4, 3, 32, 32), torch.tensor([0, 2, 1, 1])
    grads = []
    for device, dtype in (("cpu", torch.float64), ("cpu", torch.float32), ("sl", torch.float32)):
        there = copy.deepcopy(model).to(device, dtype)
        torch.nn.functional.cross_entropy(there(x.to(device, dtype)), y.to(device)).backward()
        grads.append({name: value.grad.cpu().double() for name, value in there.named_parameters()})
    exact, cpu, sl = grads
    for name, value in exact.items():
        bound = 10 * max(relative(cpu[name], value), 1e-5)
        assert relative(sl[name], value) <= bound, name


def test_gradient_scaler() -> None:
    model = torch.nn.Linear(4, 3).to("sl")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("sl", init_scale=8.0, growth_interval=1)
    before = model.weight.detach().cpu()
    x = torch.randn(5, 4, device="sl")
    scaler.scale(model(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    expected = before - 0.1 * x.sum(0).cpu()
    torch.testing.assert_close(model.weight.detach().cpu(), expected)
    assert scaler.get_scale() == 16
    optimizer.zero_grad()
    scaler.scale(model(x).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(model.weight.detach().cpu(), expected)
    assert scaler.get_scale() == 8


def test_the_log_of_routes_names_every_op() -> None:
    model = Decoder().eval().to("sl")
    with torch.no_grad():
        model(torch.randint(0, 96, (1, 6)).to("sl"))
    rows = torch.sl.op_counts()
    assert {"aten::mm", "aten::embedding"} <= {row["op"] for row in rows}
    assert all(row["route"] and row["calls"] > 0 for row in rows if row["op"] == "aten::mm")
    assert not any(row["route"] == "cpu" for row in rows)


@pytest.mark.whole
@pytest.mark.parametrize("norm_first", [False, True])
@torch.no_grad()
def test_what_encoder_layers_call_in_inference(norm_first: bool) -> None:
    """One op for a layer, and one for attention alone, with masks of either kind."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first, activation="gelu").eval()
    x = torch.randn(3, 7, 32)
    causal = nn.Transformer.generate_square_subsequent_mask(7) == float("-inf")
    padding = torch.arange(7)[None] >= torch.tensor([[7], [5], [2]])
    there = copy.deepcopy(layer).to("sl")
    for how in ({}, {"src_mask": causal}, {"src_key_padding_mask": padding}):
        on_device = {name: mask.to("sl") for name, mask in how.items()}
        kept = ~padding if "src_key_padding_mask" in how else torch.ones(3, 7, dtype=torch.bool)
        got = there(x.to("sl"), **on_device).cpu()
        torch.testing.assert_close(got[kept], layer(x, **how)[kept], rtol=1e-4, atol=1e-5)
    attention = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    there = copy.deepcopy(attention).to("sl")
    for weights in (True, False):
        wanted, wanted_weights = attention(x, x, x, key_padding_mask=padding, need_weights=weights)
        got, got_weights = there(
            x.to("sl"), x.to("sl"), x.to("sl"), key_padding_mask=padding.to("sl"), need_weights=weights
        )
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)
        if weights:
            torch.testing.assert_close(got_weights.cpu(), wanted_weights, rtol=1e-4, atol=1e-5)


def test_torch_compile_and_targets_by_torch_s_name() -> None:
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).eval(), torch.randn(3, 4)
    with torch.no_grad():
        expected = model(x)
        there, y = copy.deepcopy(model).to("sl"), x.to("sl")
        compiled = torch.compile(there, backend="straightline")(y)
        assert compiled.device.type == "sl" and relative(compiled, expected) < 1e-5
        assert relative(straightline.compile(there, (y,), target="sl")(y), expected) < 1e-5
        assert relative(straightline.compile(model, (x,), target="sl")(x), expected) < 1e-5
        with pytest.raises(straightline.UserError, match="target is 'sl:0' but .* give target='sim', leave it out"):
            straightline.compile(there, (y,), target="sl:0")
        torch.compiler.reset()
        with pytest.raises(
            Exception, match=r"'inductor' has no code generator for the device 'sl'; nearest: torch\.compile"
        ):
            torch.compile(there, backend="inductor")(y)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("Adam", {"amsgrad": True, "weight_decay": 0.01}),
        ("AdamW", {"maximize": True}),
        ("Adagrad", {"lr_decay": 0.1}),
    ],
)
def test_fused_optimizers(name: str, options: dict[str, Any]) -> None:
    """Steps with GradScaler, an infinite gradient among them, and a rate that changes: as on the CPU, no new programs."""
    first = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    x, found = torch.randn(4, 6), []
    for device in ("cpu", "sl"):
        model = copy.deepcopy(first).to(device)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05, fused=True, **options)
        rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        scaler = torch.amp.GradScaler(device, init_scale=256.0, growth_interval=2)
        programs = []
        for step in range(8):
            optimizer.zero_grad()
            scaler.scale((model(x.to(device)) ** 2).mean()).backward()
            if step == 3:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            rates.step()
            programs.append(sum(row["programs"] for row in torch.sl.op_counts()))
        assert device == "cpu" or programs[-1] == programs[5]
        found.append([*(one.detach().cpu() for one in model.parameters()), torch.tensor(scaler.get_scale())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)
