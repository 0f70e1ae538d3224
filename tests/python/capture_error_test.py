# SPDX-License-Identifier: Apache-2.0
"""What capture refuses: each case raises the right class, and its text names what was wrong."""

from __future__ import annotations

import random
import re
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from straightline.testing.models import lstm, small
from straightline import demo_models
from straightline.capture import capture
from straightline.capture.graph_builder import FLOAT_OPERANDS
from straightline.errors import CaptureWarning, UnsupportedError, UserError
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch._subclasses.fake_tensor import FakeTensorMode


class Subclass(torch.Tensor):
    pass


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_training_mode_names_the_modules() -> None:
    model = demo_models.DigitsCnn()
    with pytest.raises(UserError, match=r"norm1 \(BatchNorm2d\), norm2 .*dropout \(Dropout\).*eval"):
        capture(model, (torch.randn(2, 1, 8, 8),))
    capture(small.Mlp(), (torch.randn(1, 64),))  # training mode changes nothing here


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_of_recurrent_layers_in_training_mode(cell: type[nn.RNNBase]) -> None:
    model = cell(4, 4, 2, dropout=0.3)
    with pytest.raises(UserError, match=cell.__name__):
        capture(model, (torch.randn(3, 1, 4),))


INPUTS: dict[str, tuple[Callable[[], torch.Tensor], type[Exception], str]] = {
    "fake": (lambda: FakeTensorMode().from_tensor(torch.ones(2)), UserError, "fake"),
    "meta": (lambda: torch.ones(2, device="meta"), UserError, "meta"),
    "subclass": (lambda: torch.ones(2).as_subclass(Subclass), UnsupportedError, "Subclass"),
    "sparse": (lambda: torch.eye(2).to_sparse(), UnsupportedError, "sparse_coo"),
    "conj": (lambda: torch.ones(2, dtype=torch.complex64).conj(), UnsupportedError, "conj"),
    "quantised": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), UnsupportedError, "qint8",
    ),
    "neg": (lambda: torch.randn(2, dtype=torch.complex64).conj().imag, UnsupportedError, "neg"),
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_input_tensors(name: str) -> None:
    make, kind, text = INPUTS[name]
    with pytest.raises(kind, match=text):
        capture(add_one, (make(),))


def test_all_unsupported_ops_are_listed() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.ModuleList([nn.Identity(), small.Mlp((4, 4))])

        def forward(self, x: torch.Tensor) -> Any:
            a = x.index_put((x[0] > 0,), x[:2])  # line of the first
            b = torch.linalg.matrix_exp(x)
            c = torch.linalg.svdvals(self.inner[1](x))
            return a + b + c + x[x > 0].sum()

    with pytest.raises(UnsupportedError) as caught:
        capture(Many(), (torch.randn(4, 4),), allows_aten=False)
    text = str(caught.value)
    for part in (
        "aten.index_put",
        "aten.linalg_matrix_exp",
        "aten._linalg_svd",
        "float32[4, 4]",
        "capture_error_test.py:",
    ):
        assert part in text, text
    assert "nearest supported form: one value, or where with a mask" in text
    source = open(__file__).read().splitlines()
    line = next(i for i, row in enumerate(source, 1) if "# line of the first" in row)
    assert f"capture_error_test.py:{line}" in text


def test_ops_behind_an_unsupported_one_are_counted() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = torch.repeat_interleave(x, x.long())
        return (y + 1).exp().sum() + x.scatter(0, y.long(), y).sum()

    with pytest.raises(UnsupportedError) as caught:
        capture(model, (torch.randn(4),))
    lines = str(caught.value).splitlines()
    assert lines[0] == "1 unsupported op:" and "aten.repeat_interleave.self_Tensor" in lines[1], lines
    assert len(lines) == 3 and re.fullmatch(r"  and \d more that work on what it would give", lines[2]), lines
    capture(lambda x: (x + 1).exp(), (torch.randn(4),))


def test_an_op_that_is_refused_by_itself_is_listed_behind_another() -> None:
    with pytest.raises(UnsupportedError, match=r"2 unsupported ops:\n.*aten\.repeat_interleave.*\n.*aten\.histc"):
        capture(
            lambda x: torch.histc(torch.repeat_interleave(x, x.long()).sum() * x, 5),
            (torch.randn(4),),
            allows_aten=False,
        )


@pytest.mark.parametrize(
    "model",
    [lambda x: x[: int(x.sum())], lambda x: torch.zeros(int(x[0])), lambda x: torch.repeat_interleave(x, x.long()) + 1],
    ids=["a slice", "a size", "repetitions"],
)  # fmt: skip
def test_no_advice_about_branches_where_there_is_none(model: Any) -> None:
    with pytest.raises(UnsupportedError, match="nearest supported form") as caught:
        capture(model, (torch.randn(3),))
    assert "cond" not in str(caught.value).rpartition("nearest supported form")[2]


def _forks(x: torch.Tensor, fork: Any = torch.random.fork_rng) -> torch.Tensor:
    with fork(devices=[]):
        return x + torch.rand(3)


def _rewinds(x: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    x = x + torch.rand(3)
    torch.set_rng_state(state)
    return x


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (lambda x: _forks(x, torch.random.fork_rng), "torch.random.fork_rng"),
        (_forks, "torch.random.fork_rng"),
        (_rewinds, "torch.set_rng_state"),
        (lambda x: torch.default_generator.manual_seed(1) and x, "torch.default_generator.manual_seed"),
        (lambda x: torch.random.default_generator.manual_seed(1) and x, "torch.default_generator.manual_seed"),
        (lambda x: torch.default_generator.set_state(torch.get_rng_state()) and x, "torch.default_generator.set_state"),
    ],
    ids=["fork", "fork by another name", "set_rng_state", "generator", "generator of torch.random", "set_state"],
)
def test_a_model_that_sets_the_state_of_random_numbers(model: Any, name: str) -> None:
    """Also where the seed stays what it was: then each call of eager draws the same numbers, and each of a program others."""
    torch.manual_seed(1)
    generator, state = torch.default_generator, torch.get_rng_state()
    with pytest.raises(
        UnsupportedError, match=rf"the model calls {name} at capture_error_test.py:\d+, which would act once"
    ):
        capture(model, (torch.zeros(3),))
    assert torch.default_generator is generator and type(torch) is type(torch.nn)
    assert torch.equal(torch.get_rng_state(), state)


def test_asking_for_the_state_of_random_numbers_is_allowed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        assert torch.equal(torch.default_generator.get_state(), torch.get_rng_state())
        return x + torch.default_generator.initial_seed() % 2

    capture(model, (torch.zeros(3),))


def test_another_thread_may_seed_while_a_model_is_captured() -> None:
    def seed() -> None:
        torch.manual_seed(torch.initial_seed())
        torch.default_generator.set_state(torch.default_generator.get_state())
        done.append(True)

    def model(x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=seed)
        thread.start()
        thread.join()
        return x + 1

    done: list[bool] = []
    capture(model, (torch.zeros(3),))
    assert done


@pytest.mark.parametrize(
    ("draw", "name"),
    [(random.random, "random"), (lambda: float(np.random.rand()), "numpy.random")],
    ids=["python", "numpy"],
)
def test_numbers_drawn_in_python_are_warned_of(draw: Callable[[], float], name: str) -> None:
    with pytest.warns(CaptureWarning, match=rf"numbers of {name} were drawn .* are constants of the program") as caught:
        capture(lambda x: x + draw(), (torch.zeros(3),))
    assert [warning.filename for warning in caught] == [__file__]


class _Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.seen, self.cache = 0, [], None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        self.cache = x.shape[0]
        return x * self.calls


def test_attributes_that_a_model_changes_are_warned_of() -> None:
    model = nn.Sequential(_Counts())
    words = r"changed attributes .*: 0.calls \(0 -> 1\), 0.seen \(a list of 0 -> a list of 1\); they are constants"
    with pytest.warns(CaptureWarning, match=words):
        capture(model, (torch.zeros(3),))
    assert model[0].calls == 0 and model[0].seen == []


def test_no_warning_without_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capture(nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 3)).eval(), (torch.zeros(2, 3),))


@pytest.mark.parametrize("how", ["by its name", "by another name", "a generator's", "in a fork"])
def test_a_model_that_seeds(how: str) -> None:
    """It would seed once, while it is traced, and never in a call."""
    own = torch.manual_seed

    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]) if how == "in a fork" else nullcontext():
            seeds = {"by another name": own, "a generator's": torch.default_generator.manual_seed}
            seeds.get(how, torch.manual_seed)(3)
            return x + torch.rand(3)

    with pytest.raises(
        UnsupportedError, match=r"the model calls torch.*seed.*nearest supported form: seed before each"
    ):
        capture(model, (torch.zeros(3),))
    assert torch.manual_seed is own
    torch.manual_seed(1)


def test_a_tensor_that_is_no_buffer_is_overwritten() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = torch.zeros(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.n.add_(x)

    with pytest.raises(
        UnsupportedError, match=r"n, a tensor that is no parameter or buffer, is overwritten.*register_buffer"
    ):
        capture(Model(), (torch.zeros(3),))


@pytest.mark.parametrize(
    "model,text",
    [
        (lambda x: x.exp().expand(2, 3).index_put_((torch.tensor([0, 1]),), torch.stack((x, x + 1))), "several values for elements that share"),
        (lambda x: x.exp().expand(2, 3).index_put_((torch.tensor([0, 1]),), x[0], accumulate=True), "several values for elements that share"),
        (lambda x: x.exp().as_strided((2, 2), (1, 1)).mul_(2), "a view by as_strided whose elements share"),
        (lambda x: (y := x.exp(), y.resize_(6), y.add_(1))[0], "own shape or storage"),
    ],
    ids=["several values", "sums", "as_strided", "resized"],
)  # fmt: skip
def test_writes_that_are_no_values(model: Any, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        capture(model, (torch.randn(3),))


@pytest.mark.parametrize(
    "write",
    [
        lambda v, x: v.add_(1), lambda v, x: v[1:3].mul_(2), lambda v, x: v[:, 1].relu_(), lambda v, x: v.diagonal()[:1].expand(2).neg_(),
        lambda v, x: v.fill_(x[0]), lambda v, x: v.copy_(x), lambda v, x: v.__setitem__(slice(None), 9.0),
        lambda v, x: v.index_copy_(0, torch.tensor([1]), x[None]), lambda v, x: v.index_add_(0, torch.tensor([1]), x[None]),
        lambda v, x: v.scatter_(0, torch.zeros(1, 3, dtype=torch.int64), x[None]), lambda v, x: v.masked_scatter_(v > 0, v.clone()),
        lambda v, x: v.put_(torch.tensor([0]), x[:1]), lambda v, x: v.bernoulli_(0.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of", [lambda x: x * 2, lambda x: x], ids=["own", "input"])
def test_a_write_to_elements_that_share_memory(write: Any, of: Any) -> None:
    """Eager refuses it, and so does capture."""
    model = lambda x: (write(of(x).expand(4, 3), x), x + 1)[1]  # noqa: E731
    with pytest.raises(RuntimeError, match="single memory location"):
        model(torch.rand(3))
    with pytest.raises(UserError, match=r"share memory \(expand\), which eager refuses too|single memory location"):
        capture(model, (torch.rand(3),))


def test_python_control_flow_on_data() -> None:
    with pytest.raises(UnsupportedError, match=r"torch\.cond"):
        capture(lambda x: x + 1 if x.sum() > 0 else x - 1, (torch.randn(3),))


def test_failing_model() -> None:
    with pytest.raises(UserError, match="length 4"):
        capture(lambda a, b: a + b, (torch.randn(3), torch.randn(4)))


def test_wrong_number_of_inputs() -> None:
    with pytest.raises(UserError, match="argument"):
        capture(small.SingleAdd(), (torch.randn(3),))


def test_not_a_model() -> None:
    with pytest.raises(UserError, match="int"):
        capture(3, (torch.randn(3),))


def test_gru_function_with_dropout_in_training_mode() -> None:
    weights = [torch.randn(9, 3) for _ in range(4)]
    with pytest.raises(UserError, match="GRU dropout of 0.5"):
        capture(
            lambda x, h: torch.gru(x, h, weights, False, 2, 0.5, True, False, False),
            (torch.randn(4, 2, 3), torch.randn(2, 2, 3)),
        )


class Packed(nn.Module):
    """A recurrent layer over the packed form of x [steps, n, 4]."""

    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell = cell(4, 5)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return pad_packed_sequence(self.cell(pack_padded_sequence(x, lengths))[0])[0]


class AlreadyPacked(Packed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(PackedSequence(x, torch.tensor([3, 2, 2])))[0].data


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences(cell: type[nn.RNNBase]) -> None:
    for model, inputs in (
        (Packed(cell), (torch.randn(4, 3, 4), torch.tensor([4, 3, 2]))),
        (AlreadyPacked(cell), (torch.randn(7, 4),)),
    ):
        with pytest.raises(
            UnsupportedError,
            match="^packed sequences: .*; nearest supported form: nn.LSTM, nn.GRU and nn.RNN over a padded tensor$",
        ):
            capture(model.eval(), inputs)


@pytest.mark.parametrize(
    ("function", "gates", "what"), [(torch.gru, 3, "gru"), (torch.rnn_tanh, 1, "rnn"), (torch.rnn_relu, 1, "rnn")]
)
def test_one_row_and_many_states(function: Callable[..., Any], gates: int, what: str) -> None:
    """Eager broadcasts; without the framework's own it is refused."""
    weights = [torch.randn(gates * 3, 3) for _ in range(2)]
    with pytest.raises(UnsupportedError, match=f"{what} over x .*equal batches"):
        capture(
            lambda x, h: function(x, h, weights, False, 1, 0.0, False, False, False),
            (torch.randn(4, 1, 3), torch.randn(1, 2, 3)),
            allows_aten=False,
        )


def test_dynamic_size_that_the_model_fixes() -> None:
    batch = torch.export.Dim("b", min=1, max=64)
    with pytest.raises(UserError, match="b"):
        capture(lambda x: x.reshape(3, 4), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))


def test_sizes_that_only_some_calls_have() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] % 2 == 0)
        return x + 1

    x = torch.randn(6, 3)
    captured = capture(function, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert str(captured.inputs[0].type.extents[0]) == "s0 * 2"
    capture(function, (x,), dynamic_shapes=({0: 2 * torch.export.Dim("half", max=8)},))
    capture(lambda x: x + 1, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))


def test_overlapping_state() -> None:
    class Overlap(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("all", torch.zeros(4))
            self.register_buffer("head", self.all[:2])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.head.add_(1)
            return x + self.all

    with pytest.raises(UnsupportedError, match="head and all|all and head"):
        capture(Overlap(), (torch.randn(4),))


def test_capture_leaves_the_model_alone() -> None:
    model = lstm.LstmTagger().eval()
    x = torch.randn(1, 3, 8)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    capture(model, (x,))
    model(x)
    for name, tensor in model.state_dict().items():
        assert type(tensor) is torch.Tensor and torch.equal(tensor, before[name])
    assert all(type(w) is nn.Parameter for w in model.lstm._flat_weights)


#: Calls that eager refuses for their element types or numbers and fake tensors let pass, with an integer input [3, 4].
_REFUSED_BY_EAGER: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "var": (lambda x: x.var(), "aten.var"),
    "std": (lambda x: x.std(0), "aten.std"),
    "gelu": (lambda x: F.gelu(x), "aten.gelu"),
    "silu": (lambda x: F.silu(x), "aten.silu"),
    "softplus": (lambda x: F.softplus(x), "aten.softplus"),
    "mish": (lambda x: F.mish(x), "aten.softplus"),
    "hardsigmoid": (lambda x: F.hardsigmoid(x), "aten.hardsigmoid"),
    "hardswish": (lambda x: F.hardswish(x), "aten.hardswish"),
    "batch_norm": (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), "aten.batch_norm"),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x[None, :2], (1, 2)), "aten.adaptive_avg_pool2d"),
    "full": (lambda x: x[:2, 0] + torch.full((2,), 1e30, dtype=torch.int64), "aten.full"),
    "full of inf": (lambda x: x[:2, 0] + torch.full((2,), float("inf"), dtype=torch.int64), "aten.full"),
    "full of 8 bits": (lambda x: x[:2, 0] + torch.full((2,), 300, dtype=torch.int8), "aten.full"),
    "scatter": (lambda x: x.scatter(1, torch.zeros(3, 1, dtype=torch.int64), 1e30), "aten.scatter"),
    "pad": (lambda x: F.pad(x, (1, 1), value=-1e30), "aten.constant_pad_nd"),
    "fill_": (lambda x: x.clone().fill_(1e30), "aten.fill"),
    "index_fill": (lambda x: x.index_fill(0, torch.tensor([0]), 1e30), "aten.index_fill"),
}


@pytest.mark.parametrize("name", _REFUSED_BY_EAGER)
def test_what_eager_refuses_is_the_users_error(name: str) -> None:
    model, op = _REFUSED_BY_EAGER[name]
    x = torch.arange(12).reshape(3, 4)
    with pytest.raises((RuntimeError, NotImplementedError)):
        model(x)
    line = model.__code__.co_firstlineno
    words = rf"{re.escape(op)}.* at <root> \(capture_error_test.py:{line}\): .*\(eager refuses it, too\)"
    with pytest.raises(UserError, match=words):
        capture(model, (x,))


#: The same with factors of two element types, of which numpy's float64 is often one.
_TWO_TYPES: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], Any], str]] = {
    "linear": (lambda x, w: F.linear(x, w), "aten.linear"),
    "bias": (lambda x, w: F.linear(x, w.to(x.dtype), w[0]), "aten.linear"),
    "matmul": (lambda x, w: x @ w, "aten.matmul"),
    "vector": (lambda x, w: x @ w[0], "aten.matmul"),
    "addmm": (lambda x, w: torch.addmm(x, x, w), "aten.addmm"),
    "conv1d": (lambda x, w: F.conv1d(x[None], w[:, :, None]), "aten.conv1d"),
    "gru_cell": (lambda x, w: torch.gru_cell(x, x, w.repeat(3, 1), w.repeat(3, 1)), "aten.linear"),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w[0]), "aten.group_norm"),
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w[0]), "aten.layer_norm"),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", _TWO_TYPES)
def test_factors_of_two_element_types_are_the_users_error(name: str, dtype: torch.dtype) -> None:
    model, op = _TWO_TYPES[name]
    x, w = torch.randn(4, 4), torch.randn(4, 4, dtype=dtype)
    with pytest.raises(RuntimeError):
        model(x, w)
    line = model.__code__.co_firstlineno
    words = rf"{re.escape(op)}.* at <root> \(capture_error_test.py:{line}\): .*\(eager refuses it, too\)"
    with pytest.raises(UserError, match=words):
        capture(model, (x, w))


@pytest.mark.parametrize(
    "derivative",
    [torch.func.grad(lambda x: x.sin().sum()), torch.func.jacrev(torch.sin), torch.func.jacfwd(torch.sin)],
    ids=["grad", "jacrev", "jacfwd"],
)
def test_derivatives_of_torch_func(derivative: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(UnsupportedError, match=r"^a derivative by torch.func.*; nearest supported form: torch.compile"):
        capture(lambda x: derivative(x) * 2, (torch.randn(3),))


def test_an_integer_attention_is_the_users_error() -> None:
    x = torch.ones(1, 1, 3, 4, dtype=torch.int64)
    with pytest.raises(UserError, match="cannot be captured"):
        capture(lambda x: F.scaled_dot_product_attention(x, x, x), (x,))


def test_numbers_that_eager_takes() -> None:
    """Where eager wraps or gives infinity it refuses nothing."""
    x = torch.arange(3, dtype=torch.int8)
    capture(
        lambda x: (x + 300, torch.full((2,), -1, dtype=torch.uint8), torch.full((1,), 1e30, dtype=torch.float16)), (x,)
    )


def test_what_is_no_number_is_true_as_a_bool() -> None:
    capture(lambda x: torch.full((2,), float("nan"), dtype=torch.bool) & (x > 0), (torch.ones(2),))


def test_the_table_of_ops_of_floats_is_that_of_the_dialect() -> None:
    folder = Path(__file__).parents[2] / "dialect" / "op"
    named = set()
    for path in folder.glob("*.td"):
        for part in re.split(r"^(?=def |class )", path.read_text(), flags=re.MULTILINE):
            found = re.match(r'def \w+ : (\w+)<"(\w+)"', part)
            of_floats = found and (
                found[1] in ("Op_FloatUnary", "Op_UnaryWith", "Op_RowMap", "Op_RecurrentLayersOp")
                or re.search(r"ins (Variadic<)?Op_FloatTensor", part)
            )
            # Of bytes by a pass alone.
            of_floats = of_floats or (found and found[2] == "convolution")
            if of_floats and not found[2].endswith("_sequence"):  # made by a pass
                named.add(found[2])
    missing = named ^ set(FLOAT_OPERANDS)
    assert not missing


_CONTROL = "python control flow on the data of a tensor"
_NUMBER = "a number or size that depends on data"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: x if x.sum() > 0 else -x, _CONTROL),
        (lambda x: x + int(x.sum()), _NUMBER),
        (lambda x: x + float(x.sum()), _NUMBER),
        (lambda x: torch.zeros(int(x.sum())), _NUMBER),
        (lambda x: x + len([*range(int(x.sum()))]), _NUMBER),
    ],
    ids=["if", "int", "float", "size", "range"],
)
def test_python_that_needs_the_data_is_told_in_one_line(model: Callable[..., Any], words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        capture(model, (torch.randn(3),))
    text = str(caught.value)
    assert text.startswith(f"{words} at capture_error_test.py:{model.__code__.co_firstlineno}: "), text
    assert "nearest supported form" in text and "\n" not in text and "TORCH_LOGS" not in text and "zuf0" not in text
    assert caught.value.__suppress_context__


def test_checks_of_distributions_are_told() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(x, x.exp(), validate_args=True).log_prob(x)

    line = model.__code__.co_firstlineno + 1
    words = rf"^torch.distributions checks .* at capture_error_test.py:{line}: .*supported form: validate_args=False$"
    with pytest.raises(UnsupportedError, match=words):
        capture(model, (torch.randn(3),))
    capture(lambda x: torch.distributions.Normal(x, x.exp(), validate_args=False).log_prob(x), (torch.randn(3),))


def test_an_error_in_the_model_has_its_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(4)

    line = model.__code__.co_firstlineno + 1
    words = rf"with these inputs, at capture_error_test.py:{line}: RuntimeError: .*length 4"
    with pytest.raises(UserError, match=words):
        capture(model, (torch.randn(3),))


def test_equal_refusals_are_one_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = torch.linalg.matrix_exp(x)
        return torch.linalg.matrix_exp(x)

    with pytest.raises(UnsupportedError) as caught:
        capture(model, (torch.randn(3, 3),), allows_aten=False)
    lines = str(caught.value).splitlines()
    assert lines[0] == "21 unsupported ops:" and len(lines) == 2
    first = model.__code__.co_firstlineno
    assert f":{first + 2}): no native kernel" in lines[1]
    assert lines[1].endswith(f"(21 of them, the last at <root> (capture_error_test.py:{first + 3}))"), lines[1]


def test_ops_behind_a_refused_one_are_counted() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        found = x.unique(dim=0)
        return (found * 2 + 1).sum() * found.shape[0]

    with pytest.raises(UnsupportedError) as caught:
        capture(model, (torch.randn(3, 40),))
    lines = str(caught.value).splitlines()
    assert (
        lines[0] == "1 unsupported op:" and "aten.unique_dim.default" in lines[1] and "more that work on" in lines[2]
    ), lines
    assert len(lines) == 3
