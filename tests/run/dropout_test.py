# SPDX-License-Identifier: Apache-2.0
"""Dropout that a model in inference asks for draws eager's numbers for one seed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import straightline as sl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_SEQUENCES = nn.MultiheadAttention(8, 2).eval()


def _attended(x: Tensor) -> Tensor:
    own = _SEQUENCES
    return F.multi_head_attention_forward(
        x[:, None], x[:, None], x[:, None], 8, 2, own.in_proj_weight, own.in_proj_bias, None, None, False, 0.2,
        own.out_proj.weight, own.out_proj.bias, training=True, need_weights=False,
    )[0]  # fmt: skip


_CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.3, True) * 2,
    "of half the elements": lambda x: F.dropout(x, training=True),  # torch leaves the default out
    "in place": lambda x: F.dropout(x.exp(), 0.3, True, inplace=True) + 1,
    "of all": lambda x: F.dropout(x, 1.0, True) + 1,
    "channels": lambda x: F.dropout2d(x[None, None].expand(2, 3, *x.shape), 0.5, True).sum((0, 1)),
    "alpha": lambda x: F.alpha_dropout(x, 0.3, True),
    "channels by alpha": lambda x: F.feature_alpha_dropout(x, 0.3, True),
    "two": lambda x: F.dropout(F.dropout(x, 0.3, True), 0.3, True),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3, dropout_p=0.2),
    "layer of attention": _attended,
}


@pytest.mark.parametrize("case", _CASES)
def test_numbers_of_eager(case: str) -> None:
    model, x = _CASES[case], torch.randn(100, 8)
    fn = sl.compile(model, (x,))
    seed = torch.initial_seed() % 2**31
    with torch.no_grad():
        torch.manual_seed(seed)
        want = [model(x) for _ in range(2)]
        torch.manual_seed(seed)
        got = [fn(x) for _ in range(2)]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_an_exported_program_says_what_it_does() -> None:
    model, x = nn.Sequential(nn.Dropout(0.4)), torch.randn(50)
    exported = torch.export.export(model.train(), (x,))
    fn = sl.compile(exported)
    torch.manual_seed(5)
    want = exported.module()(x)
    torch.manual_seed(5)
    assert torch.equal(fn(x), want)


@pytest.mark.parametrize("read", ["the input", "the whole", "results"])
def test_what_torch_export_takes_for_a_copy(read: str) -> None:
    """In eval mode eager returns the tensor, and `contiguous` then copies it; the trace has neither."""

    def model(x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        whole = x if read == "the input" else x.sin()
        part = F.dropout(whole[:, 1:3], 0.5, False).contiguous()
        part += 1
        return part if read == "the input" else (whole, part) if read == "results" else whole[:, :2] + part

    with pytest.raises(
        sl.UnsupportedError, match=r"(?s)dropout_test.py:\d+.*behind dropout in eval mode of float32\[4, 2\]"
    ):
        sl.compile(model, (torch.randn(4, 4),))


def test_a_write_behind_dropout_that_nothing_else_reads() -> None:
    def model(x: Tensor) -> Tensor:
        part = F.dropout(x.sin()[:, 1:3], 0.5, False)
        part += 1
        part[0] = 3
        return part * 2

    x = torch.randn(4, 4)
    torch.testing.assert_close(sl.compile(model, (x,))(x), model(x))


def test_a_model_that_was_left_in_training_is_refused() -> None:
    class Forgotten(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x, 0.25, self.training)

    class Attention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.125 if self.training else 0.0)

    x = torch.randn(1, 1, 3, 8)
    with pytest.raises(sl.UserError, match=r"dropout of 0.25 runs in training mode at .*dropout_test.py:\d+.*eval"):
        sl.compile(Forgotten(), (x,))
    with pytest.raises(sl.UserError, match="attention dropout of 0.125 runs in training mode"):
        sl.compile(Attention(), (x,))
    inner = Forgotten()
    with pytest.raises(sl.UserError, match="dropout of 0.25"):
        sl.compile(lambda x: inner(x), (x,))
    sl.compile(Forgotten().eval(), (x,))
