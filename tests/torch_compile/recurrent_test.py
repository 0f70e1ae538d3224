# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, at which Dynamo breaks the graph for other backends: one graph, live weights, and torch's flag as it was."""

from __future__ import annotations

from typing import Any

import pytest
import straightline as sl
import torch
from against_eager import DEVICE, check
from torch import Tensor, nn, randn

pytestmark = pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "allow_rnn"), reason="this torch does not trace recurrent layers at all"
)


class Tagger(nn.Module):
    """A recurrent layer and a linear one behind it; gives the last states, too."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(8, 12, **options)
        width = options.get("proj_size", 12) * (2 if options.get("bidirectional") else 1)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        y, last = self.layer(x) if state is None else self.layer(x, state)
        return self.head(y), last


KINDS: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "two layers, both ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "projected": (nn.LSTM, {"proj_size": 5}),
    "gru": (nn.GRU, {"batch_first": True}),
    "no biases": (nn.GRU, {"bias": False, "bidirectional": True}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize("name", KINDS)
def test_one_graph_as_eager(name: str) -> None:
    kind, options = KINDS[name]
    model = Tagger(kind, **options).eval().to(DEVICE)
    check(model, (randn(5, 3, 8),), (randn(9, 2, 8),), fullgraph=True)


def test_states_go_round() -> None:
    model = Tagger(nn.LSTM).eval().to(DEVICE)
    x = randn(4, 2, 8, device=DEVICE)
    with torch.no_grad():
        _, state = model(x)
        function = torch.compile(model, backend="straightline", fullgraph=True)
        torch.testing.assert_close(function(x, state), model(x, state))


def test_weights_are_live() -> None:
    model = Tagger(nn.GRU).eval().to(DEVICE)
    function, x = sl.jit(model), randn(4, 2, 8, device=DEVICE)
    with torch.no_grad():
        for change in (
            lambda: None,
            lambda: model.layer.weight_hh_l0.mul_(0.5),
            lambda: model.load_state_dict({name: t * 1.5 for name, t in model.state_dict().items()}),
            lambda: setattr(model.layer, "weight_ih_l0", nn.Parameter(randn(36, 8, device=DEVICE))),
        ):
            change()
            for _ in range(3):
                torch.testing.assert_close(function(x), model(x))


def test_other_backends_see_no_difference() -> None:
    """Also where this backend has compiled before, behind `torch._dynamo.reset`, and where its compilation failed."""
    assert not torch._dynamo.config.allow_rnn

    def other(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        return graph.forward

    for attempt in range(2):
        torch._dynamo.reset()
        x = randn(4, 2, 8, device=DEVICE)
        with torch.no_grad():
            torch.compile(Tagger(nn.LSTM).eval().to(DEVICE), backend="straightline", fullgraph=True)(x)
            assert not torch._dynamo.config.allow_rnn
            with pytest.raises(Exception, match="no-such-option|frezee"):
                torch.compile(Tagger(nn.LSTM).eval(), backend="straightline", options={"frezee": True})(randn(4, 2, 8))
            assert not torch._dynamo.config.allow_rnn, attempt
            torch._dynamo.reset()
            with pytest.raises(torch._dynamo.exc.Unsupported, match="LSTM"):
                torch.compile(lambda m, x: m(x), backend=other, fullgraph=True)(nn.LSTM(8, 12).eval().to(DEVICE), x)


def test_a_flag_that_the_user_set_stays() -> None:
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        torch.compile(Tagger(nn.LSTM).eval(), backend="straightline")(randn(4, 2, 8))
        assert torch._dynamo.config.allow_rnn


def test_callbacks_of_others_are_dropped_by_a_reset() -> None:
    seen: list[object] = []
    torch._dynamo.callback_handler.register_start_callback(seen.append)
    with torch.no_grad():
        torch.compile(lambda x: x + 1, backend="straightline")(randn(3))
        count = len(seen)
        assert count > 0
        torch._dynamo.reset()
        torch.compile(lambda x: x + 2, backend="straightline")(randn(3))
    assert len(seen) == count


def test_packed_sequences_go_the_ordinary_way() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(8, 12, batch_first=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]

    lengths = torch.tensor([7, 3, 5], device="cpu")  # where eager wants them
    model, x = Packed().eval().to(DEVICE), randn(3, 7, 8, device=DEVICE)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="straightline")(x, lengths), model(x, lengths))
