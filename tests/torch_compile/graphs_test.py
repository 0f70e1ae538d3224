# SPDX-License-Identifier: Apache-2.0
"""torch.compile(.., backend="straightline"): functions and modules against eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import straightline as sl
import torch
import torch.nn.functional as F
from against_eager import DEVICE, check
from torch import nn, randn

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "add": (lambda x, y: x + y, lambda: (randn(2, 3), randn(2, 3))),
    "integers": (lambda x: x // 3 + x % 2, lambda: (torch.arange(-9, 9),)),
    "no inputs": (lambda: torch.arange(5) * 2, lambda: ()),
    "results of several kinds": (lambda x: (x + 1, None, {"a": x.shape[0], "b": [x * 2, 3]}), lambda: (randn(4, 3),)),
    "one result twice": (lambda x: (lambda y: (y, y))(x + 1), lambda: (randn(4),)),
    "numbers as a tensor": (lambda x: x + torch.tensor([1.0, 2, 3]), lambda: (randn(3),)),
    "numbers as a tensor, written": (lambda x: torch.tensor([1.0, 2, 3]).add_(x), lambda: (randn(3),)),
    "an empty slice": (lambda x: x[:0], lambda: (randn(4),)),
    "a mask": (lambda x: torch.where(x > 0, x, 0.0), lambda: (randn(8),)),
    "complex inside": (lambda x: torch.view_as_real(torch.fft.rfft(x)), lambda: (randn(8),)),
    "lists in a result": (lambda x: torch.histogramdd(x, [3, 2]), lambda: (randn(5, 2),)),
    "vmap": (lambda x: torch.vmap(lambda a: a.sin().sum())(x), lambda: (randn(4, 8),)),
    "numpy": (lambda x: x.numpy() + 1, lambda: (randn(4),)),
    "dropout of 0": (lambda x: F.dropout(x, 0.0, True), lambda: (randn(4),)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: tuple(randn(2, 4, 8, 16) for _ in range(3)),
    ),
    "checkpoint": (
        lambda x: torch.utils.checkpoint.checkpoint(lambda y: y.sin() * 2, x, use_reentrant=False),
        lambda: (randn(4),),
    ),
    "a branch": (lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), lambda: (randn(4),)),
    "a loop": (
        lambda x: torch._higher_order_ops.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)),
        lambda: (randn(4),),
    ),
    "detach": (lambda x: x.detach() + x.data, lambda: (randn(4),)),
    "no_grad inside": (lambda x: torch.no_grad()(lambda y: y * 2)(x), lambda: (randn(4),)),
}  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS)
def test_a_function(case: str) -> None:
    function, inputs = FUNCTIONS[case]
    check(function, inputs(), inputs(), fullgraph=True)


ALIASES: dict[str, Callable[..., Any]] = {
    "views of one result": lambda x: (lambda y: (y, y.view(-1), y.t(), y[1:]))(x.sin()),
    "a view of a result": lambda x: x.sin()[1:, ::2],
    "permuted": lambda x: x.sin().t(),
    "expanded": lambda x: x.sin().expand(3, 4, 6),
    "rows": lambda x: x.sin().unbind(0),
    "views of an input": lambda x: (x.t(), x[1:], x.view(-1), x.chunk(2)),
    "a view of an overwritten input": lambda x: (x.add_(1)[0], x.sum()),
    "an input of zeros": lambda x: x.zero_(),
    "an overwritten view": lambda x: (x[0].mul_(2), x.sum()),
    "an input": lambda x: (x, x + 1),
    "changed in place behind a view": lambda x: (lambda y: (y.view(-1), y.add_(1)))(x.sin()),
    "copies of views": lambda x: (
        torch.expand_copy(x, (2, 4, 6)),
        torch.permute_copy(x, (1, 0)),
        torch.slice_copy(x, 0, 0, 2),
    ),
    "dropout that draws nothing": lambda x: (F.dropout(x.t(), 0.5, False), F.dropout(x.sin(), 0.5, False)),
    "unsqueeze_": lambda x: x.clone().unsqueeze_(0) + 1,
    "channels last": lambda x: x.sin().view(1, 2, 2, 6).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", ALIASES)
def test_memory_is_shared_as_in_eager(case: str, dynamic: bool) -> None:
    check(ALIASES[case], (randn(4, 6),), (randn(4, 6).add_(1),), dynamic=dynamic, fullgraph=True)


def test_a_view_behind_a_graph_break() -> None:
    """The second graph overwrites what the first returned a view of: inputs that share memory, which eager has to do."""

    def model(x: torch.Tensor) -> Any:
        y = x.sin()
        z = y.view(-1)
        torch._dynamo.graph_break()
        y.add_(1)
        return z + 1, y

    with pytest.warns(sl.CaptureWarning, match="runs in eager: .* shares memory"):
        check(model, (randn(4, 3),))


def test_inputs_that_overlap() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.mul_(2).sum() + y

    check(model, ((whole := randn(8))[:4], whole[4:]))
    base, mine = randn(8), randn(8)
    mine.copy_(base)
    compiled = torch.compile(model, backend="straightline")
    with torch.no_grad(), pytest.warns(sl.CaptureWarning, match="shares memory"):
        torch.testing.assert_close(compiled(mine[:4], mine[1:5]), model(base[:4], base[1:5]))
    torch.testing.assert_close(mine, base)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 5), nn.BatchNorm1d(5)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(x.sum(0))
        return self.norm(self.fc(x)), self.count * 2


class CastsItsLayers(nn.Module):
    """As routers of mixtures of experts do: `to` of the type that the layer has already."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.fc = self.fc.to(torch.float32)
        return self.fc(x.to(torch.float32))


def cnn() -> nn.Module:
    layers = (
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    return nn.Sequential(*layers)


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Any, ...]]]] = {
    "convolutions": (cnn, lambda n: (randn(n, 3, 8, 8),)),
    "channels last": (cnn, lambda n: (randn(n, 3, 8, 8).to(memory_format=torch.channels_last),)),
    "a layer of a transformer": (
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), lambda n: (randn(n, 5, 32),),
    ),
    "recurrent": (lambda: nn.GRUCell(4, 8), lambda n: (randn(n, 4), randn(n, 8))),
    "buffers": (Counter, lambda n: (randn(n, 4),)),
    "layers cast to their own type": (CastsItsLayers, lambda n: (randn(n, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("case", MODULES)
def test_a_module(case: str, freeze: bool) -> None:
    """Sizes differ in the second call, so that the third program has named ones."""
    make, inputs = MODULES[case]
    module = make().eval()
    options = {"freeze": True} if freeze else None
    compiled = check(module, *(inputs(n) for n in (2, 4, 7, 5)), options=options)
    own = sl.programs(compiled)
    assert [program.specialized for program in own] == [""] * len(own)
    assert len(own) == 2 or DEVICE != "cpu"  # Dynamo leaves more of a layer to cuDNN and to fused ops there


def test_in_training() -> None:
    """Batch statistics are computed and running ones updated."""
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).train()
    mine = torch.compile(module_copy(module), backend="straightline")
    with torch.no_grad():
        for _ in range(3):
            x = randn(6, 4)
            torch.testing.assert_close(mine(x), module(x))
    torch.testing.assert_close(mine.state_dict(), {f"_orig_mod.{k}": v for k, v in module.state_dict().items()})


def module_copy(module: nn.Module) -> nn.Module:
    import copy

    return copy.deepcopy(module)


def test_autocast() -> None:
    def inside(x: torch.Tensor, w: torch.Tensor) -> Any:
        with torch.autocast(DEVICE, torch.bfloat16):
            y = F.linear(x, w)
        return y, F.linear(x, w)

    check(inside, (randn(4, 3), randn(5, 3)), fullgraph=True)

    def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w) + torch.special.i0e(x).sum()  # the last is torch's to run

    compiled = torch.compile(plain, backend="straightline")
    x, w = randn(4, 3), randn(5, 3)
    with torch.no_grad():
        for _ in range(2):
            for enabled in (True, False):
                with torch.autocast(DEVICE, torch.bfloat16, enabled):
                    torch.testing.assert_close(compiled(x, w), plain(x, w), rtol=1e-2, atol=1e-2)
                    assert compiled(x, w).dtype == plain(x, w).dtype
    assert not torch.is_autocast_enabled(DEVICE)
    assert len(sl.programs(plain)) == 2


def test_graph_breaks() -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    def model(x: torch.Tensor) -> torch.Tensor:
        y = helper(x.sin())
        return y.cos() if y.sum() > 0 else y.exp()

    compiled = check(model, (randn(4),), (torch.full((4,), 0.5),), (torch.full((4,), -2.0),))
    reasons = [program.ends for program in sl.programs(compiled) if program.is_break]
    assert any("graph_break" in reason for reason in reasons) and any("jump" in reason for reason in reasons), reasons


def test_the_default_device_and_dtype_are_torchs() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3)

    compiled = torch.compile(model, backend="straightline")
    with torch.no_grad():
        assert compiled(randn(3)).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert compiled(torch.zeros(3, dtype=torch.float32)).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


def test_nothing_is_written_to_stderr() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(lambda x, n: x[:n] * n, (randn(4), 4), (randn(6), 6), (randn(9), 9))


def test_a_graph_that_ends_within_autocast() -> None:
    """What is refused in a region of autocast leaves it as it was."""

    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            torch._dynamo.graph_break()
            return x.as_strided((2,), (2,)) + 1

    with torch.no_grad(), pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="UnsupportedError: "):
        torch.compile(model, backend="straightline")(randn(8)[::2])
    assert not torch.is_autocast_enabled(DEVICE)


def test_inference_mode() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return x * 2 + 1

    check(model, (randn(4),))
    compiled = torch.compile(model, backend="straightline")
    with torch.inference_mode():
        x = randn(4)
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "both"])
def test_layers_that_torch_has_as_one_op(mask: str, norm_first: bool) -> None:
    """The fast path of nn.TransformerEncoderLayer and nn.MultiheadAttention: its ops, none of them torch's."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=norm_first).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(randn(parameter.shape) * 0.1)
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1) if mask in ("causal", "both") else None
    padding = torch.zeros(2, 5, dtype=torch.bool) if mask in ("padding", "both") else None
    if padding is not None:
        padding[1, 3:] = True

    def model(x: torch.Tensor) -> torch.Tensor:
        return layer(x, src_mask=causal, src_key_padding_mask=padding)

    for function in (
        model,
        lambda x: layer.self_attn(x, x, x, attn_mask=causal, key_padding_mask=padding)[0],
        lambda x: layer.self_attn(x, x, x, attn_mask=causal, key_padding_mask=padding, need_weights=False)[0],
        lambda x: layer.self_attn(x, x * 2, x + 1, average_attn_weights=False),
    ):
        torch.compiler.reset()
        compiled = torch.compile(function, backend="straightline")
        with torch.no_grad():
            x = randn(2, 5, 32)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)
        (program,) = sl.programs(compiled)
        assert {row["backend"] for row in program.explain().statements} & {"aten"} == set()


@pytest.mark.parametrize(
    "compiled", [lambda f: torch.compile(f, backend="straightline"), sl.jit], ids=["backend", "jit"]
)
def test_what_is_written_has_a_newer_version(compiled: Callable[..., Any]) -> None:
    """So that autograd refuses a backward that needs what was there before."""
    module = Counter().eval().to(DEVICE)
    fast, inner = compiled(module), compiled(lambda x: x[0].add_(1) * 2)
    kept, x = torch.ones(4, 3, device=DEVICE), torch.zeros(3, 4, device=DEVICE)
    product = torch.ones(4, 3, device=DEVICE, requires_grad=True) * kept
    with torch.no_grad():
        for _ in range(2):
            before = module.count._version, x._version, kept._version
            fast(x)
            inner(kept)
            assert module.count._version > before[0] and x._version == before[1] and kept._version > before[2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def _double(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2) + 1


def test_what_a_registered_op_writes_has_a_newer_version() -> None:
    x = torch.ones(4, device=DEVICE)
    op = sl.compile(_double, (x.clone(),)).register("graphs_test::double").op
    before = x._version
    product = torch.ones(4, device=DEVICE, requires_grad=True) * x
    with torch.no_grad():
        op(x)
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():  # tensors that are made here have no version
        made = torch.ones(4, device=DEVICE)
        op(made)
    op(made)
    with pytest.raises(RuntimeError, match="dim 0 is 5"):
        op(torch.ones(5, device=DEVICE))


def test_a_buffer_that_a_program_writes_has_a_newer_version() -> None:
    module = Counter().eval().to(DEVICE)
    x = torch.zeros(3, 4, device=DEVICE)
    function = sl.compile(module, (x,))
    with torch.inference_mode():  # tensors that are made here have no version
        function(torch.zeros(3, 4, device=DEVICE))
    before = module.count._version
    function(x)
    assert module.count._version > before


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_a_step_of_an_optimizer_over_lists(optimizer: Any) -> None:
    """`foreach=True` is the default on devices. Both get the same gradients: Adam's step is as long for one that is nothing but rounding."""
    models = [torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)).to(DEVICE) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optimizer(model.parameters(), lr=0.1, foreach=True) for model in models]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, backend="straightline")]
    for _ in range(3):
        for pair in zip(*(model.parameters() for model in models)):
            pair[0].grad = randn(*pair[0].shape, device=DEVICE)
            pair[1].grad = pair[0].grad.clone()
        for step in steps:
            step()
    for ours, theirs in zip(models[1].parameters(), models[0].parameters()):
        torch.testing.assert_close(ours, theirs)
