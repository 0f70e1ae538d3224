# SPDX-License-Identifier: Apache-2.0
"""Cubins of users as ops: what is read of them, launches, and what does not fit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import _cubin
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cubins  # noqa: E402

TARGET = "cuda:sm_90"
SCHEMA = "own_cubin::scale(Tensor x, float a, SymInt n) -> Tensor"


def _scale(source: Any = None, name: str = "scale_wide", schema: str = SCHEMA, **options: Any) -> Any:
    given: dict[str, Any] = {"grid": lambda x, a, n: ((n + 127) // 128, 128), **options}
    return sl.cuda_kernel(cubins.cubin() if source is None else source, name, schema, **given)


@pytest.fixture
def made() -> Iterator[list[Any]]:
    kernels: list[Any] = []
    yield kernels
    for kernel in kernels:
        kernel.unregister()


class _Scaled(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.ops.own_cubin.scale(x, 2.5, x.shape[0] * x.shape[1]) + x)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_what_a_cubin_says_of_itself(arch: str) -> None:
    image = cubins.cubin(arch=arch)
    assert _cubin.architecture_of(image) == arch
    assert sorted(_cubin.kernels_of(image)) == ["scale", "scale_wide"]
    assert _cubin.parameters_of(image, "scale") == (8, 4, 4, 8)
    assert _cubin.parameters_of(image, "scale_wide") == (8, 8, 8, 8)


@pytest.mark.parametrize("name", ["scale", "scale_wide"])
def test_a_cubin_is_an_image_of_the_program(made: list[Any], name: str, tmp_path: Path) -> None:
    image = cubins.cubin()
    (tmp_path / "k.cubin").write_bytes(image)
    for source in (image, tmp_path / "k.cubin", str(tmp_path / "k.cubin")):
        made.append(_scale(source, name))
        fn = sl.compile(_Scaled(), (torch.randn(30, 10),), target=TARGET)
        assert image in [bytes(each) for each in fn._compilation.images]
        a = int.from_bytes(
            torch.tensor(2.5, dtype=torch.float32 if name == "scale" else torch.float64).numpy().tobytes(), "little"
        )
        steps = dict(re.findall(r"sl_expr_step (e\d+)\[\] = \{(.*)\};", fn.code))
        table = re.search(r"sl_device_parameter parameters_\w+\[\] = \{\n(.*?)\n\};", fn.code, re.S)
        assert table is not None
        found = [steps[step] for step in re.findall(r"\{\{(e\d+), 1\}, 1\}", table[1])]
        assert found == ["{'s', 0}", f"{{'c', {a}}}", "{'c', 300}", "{'s', 1}"]
        assert f'"{name}", &own_scale_image' in fn.code
        made.pop().unregister()


def test_named_sizes_need_eight_bytes(made: list[Any]) -> None:
    batch = torch.export.Dim("b", min=1, max=500)
    made.append(_scale())
    fn = sl.compile(_Scaled(), (torch.randn(4, 10),), target=TARGET, dynamic_shapes=({0: batch},))
    assert re.search(r"\{'s', 2\}, \{'c', 10\}, \{'\*', 0\}", fn.code)
    made.pop().unregister()
    made.append(_scale(name="scale"))
    with pytest.raises(sl.UserError, match=r"'n' of own_cubin::scale is the size b \* 10.*has 4 bytes, expected 8"):
        sl.compile(_Scaled(), (torch.randn(4, 10),), target=TARGET, dynamic_shapes=({0: batch},))


def test_another_architecture_is_refused(made: list[Any], tmp_path: Path) -> None:
    made.append(_scale(cubins.cubin(arch="sm_80")))
    x = torch.ones(2, 2)
    with pytest.raises(sl.UserError, match="own_cubin::scale is a cubin for sm_80 but the target is sm_90"):
        sl.compile(_Scaled(), (x,), target=TARGET)
    fn = sl.compile(_Scaled(), (x,), target="cuda:sm_86")  # an earlier one of the same generation
    with pytest.raises(
        sl.UnsupportedError, match="own_cubin::scale is machine code for sm_80 but the program is for sm_90"
    ):
        fn.save(tmp_path / "m.sl", devices=("sm_86", "sm_90"))
    with pytest.raises(sl.UnsupportedError, match="own_cubin::scale is a CUDA kernel but the program runs on the host"):
        sl.compile(_Scaled(), (x,))


@pytest.mark.parametrize(
    ("name", "schema", "said"),
    [
        ("missing", SCHEMA, r"source of \d+ bytes has no kernel missing, it has scale"),
        ("scale", "own_cubin::scale(Tensor x, float a) -> Tensor", r"takes 4 parameters but the schema .* gives 3: 'x', 'a', result 0"),
        ("scale", "own_cubin::scale(Tensor x, Tensor a, int n) -> Tensor", "parameter of 4 bytes where .* gives 'a', expected 8"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit(name: str, schema: str, said: str) -> None:
    with pytest.raises(sl.UserError, match=said):
        _scale(name=name, schema=schema)


def test_a_number_that_does_not_fit(made: list[Any]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.own_cubin.scale(x, 2.5, 2**40)

    made.append(_scale(name="scale", grid=(1, 128)))
    with pytest.raises(sl.UserError, match="'n' of own_cubin::scale is 1099511627776, which does not fit the 4 bytes"):
        sl.compile(Model(), (torch.ones(2),), target=TARGET)


@pytest.mark.parametrize(
    ("data", "said"),
    [(cubins.cubin(ptx=True), "is PTX"), (b"\x50\xed\x55\xba rest", "is a fatbin"), (b"text", "is no cubin")],
)
def test_what_is_no_cubin(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(data)
    for source in (data, tmp_path / "k.cubin"):
        with pytest.raises(sl.UnsupportedError, match=said):
            _scale(source)
    with pytest.raises(sl.UserError, match="nowhere.cubin: No such file"):
        _scale(tmp_path / "nowhere.cubin")
