# SPDX-License-Identifier: Apache-2.0
"""Op-level MLIR as text or a file, with parameters by name: runs on numpy arrays and torch tensors as the captured model does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import straightline as sl


class Counting(nn.Module):
    """A parameter, a buffer that is only read, and one that is updated; two results."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.fc = nn.Linear(24, 10, dtype=dtype)
        self.register_buffer("shift", torch.randn(10, dtype=dtype))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls.add_(1.0)
        return torch.relu(self.fc(x)) + self.shift, x.sum(1)


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _text(model: nn.Module, *args: Any, **options: Any) -> str:
    return sl.compile(model, args, **options).ir("op")


@pytest.mark.parametrize("emit", ["cpp", "python"])
@pytest.mark.parametrize("freeze", [True, False])
def test_matches_the_model_and_updates_state(freeze: bool, emit: str) -> None:
    model, x = Counting().eval(), torch.randn(3, 24)
    given = _copied(model)
    compiled = sl.compile_mlir(_text(model, x), given, freeze=freeze, emit=emit)
    with torch.no_grad():
        expected = model(x)
    for calls in (1, 2):
        torch.testing.assert_close(compiled(x), expected)
        assert given["calls"].item() == calls
    arrays = {name: tensor.numpy() for name, tensor in given.items()}
    compiled = sl.compile_mlir(_text(model, x), arrays, freeze=freeze, emit=emit)
    got = compiled(x.numpy())
    assert isinstance(got, tuple) and all(type(one) is np.ndarray for one in got)
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, two.numpy(), rtol=1e-5, atol=1e-5)
    assert arrays["calls"] == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("as_path", [True, False])
def test_files(dtype: torch.dtype, as_path: bool, tmp_path: Path) -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(8, dtype=dtype))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    model, x = Scale().eval(), torch.randn(5, 8, dtype=dtype)
    source, weights = tmp_path / "model.mlir", tmp_path / "weights.safetensors"
    source.write_text(_text(model, x))
    safetensors.torch.save_file(model.state_dict(), weights)
    compiled = sl.compile_mlir(source if as_path else str(source), weights if as_path else str(weights))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert compiled.explain()["parameters"] == ["scale"]
    assert "launch" in compiled.explain() and dict(compiled.explain()) == compiled.explain().facts
    assert "model.mlir:" in compiled.explain().statements[0]["source"]


def test_named_extents_arguments_by_name_and_one_result() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    model = nn.Linear(24, 10).eval()
    text = _text(model, torch.randn(3, 24), dynamic_shapes=({0: batch},))
    compiled = sl.compile_mlir(text, model.state_dict())
    assert "float32[batch, 24]" in compiled.examples[0]
    for rows in (1, 7, 64):
        x = torch.randn(rows, 24)
        with torch.no_grad():
            torch.testing.assert_close(compiled(input=x), model(x))
    with pytest.raises(
        sl.GuardError, match=r"65 but .* a torch\.export\.Dim with a larger max"
    ):  # text of a model of torch
        compiled(torch.randn(65, 24))


def test_strides_of_parameters_and_arguments_are_kept() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(6, 4).t())

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table

    model, x = Model().eval(), torch.randn(6, 4).t()
    compiled = sl.compile_mlir(_text(model, x), {"table": model.table.detach()})
    torch.testing.assert_close(compiled(x), (x + model.table).detach())
    with pytest.raises(sl.UserError, match=r"'table' has strides \(6, 1\) but \(1, 4\)"):
        sl.compile_mlir(_text(model, x), {"table": model.table.detach().contiguous()})


def test_other_parameters_over_the_same_program() -> None:
    model, other, x = Counting().eval(), Counting().eval(), torch.randn(3, 24)
    compiled = sl.compile_mlir(_text(model, x), _copied(model))
    second = compiled.with_parameters({name: tensor.numpy() for name, tensor in _copied(other).items()})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        torch.testing.assert_close(second(x), other(x))
        compiled.load_parameters(_copied(other))
        torch.testing.assert_close(compiled(x), other(x))


def test_bytecode_kernel_level_and_no_parameters() -> None:
    text = """
        func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
          %0 = op.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }"""
    x = torch.randn(4, 8).numpy()
    compiled = sl.compile_mlir(text.encode())
    np.testing.assert_array_equal(compiled(x), -x)
    np.testing.assert_array_equal(compiled(input0=x), -x)
    model, x = Counting().eval(), torch.randn(3, 24)
    given = _copied(model)
    kernel_level = sl.compile(model, (x,)).ir("kernel")
    with torch.no_grad():
        torch.testing.assert_close(sl.compile_mlir(kernel_level, given)(x), model(x))


def test_a_function_without_results_or_inputs() -> None:
    text = """
        func.func @forward() -> (tensor<2xf32> {op.name = "n", op.tie = "state:n"}) {
          %n = op.state "n" : tensor<2xf32>
          %0 = op.add %n, %n : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }"""
    n = np.array([1.0, 3.0], np.float32)
    compiled = sl.compile_mlir(text, {"n": n})
    assert compiled() is None
    np.testing.assert_array_equal(n, np.array([2.0, 6.0], np.float32))


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from straightline.__main__ import main

    model = Counting().eval()
    source, weights = tmp_path / "model.mlir", tmp_path / "weights.safetensors"
    source.write_text(_text(model, torch.randn(3, 24)))
    safetensors.torch.save_file(model.state_dict(), weights)
    given = ["compile", str(source), "--parameters", str(weights)]
    for extra, words in [
        ([], "straight line"),
        (["--show", "code"], "sl_program_run"),
        (["--show", "code", "--emit", "python"], "def run(io)"),
        (["--show", "op", "--threads", "2"], "op.linear"),
        (["--show", "kernel", "--cpu", "x86-64-v3"], "x86-64-v3"),
    ]:
        assert main([*given, *extra]) == 0
        assert words in capsys.readouterr().out
    assert main(given[:2]) == 1
    said = capsys.readouterr()
    assert (
        said.out == ""
        and said.err.startswith("UserError: the parameters do not fit model.mlir:")
        and "fc.weight" in said.err
    )
