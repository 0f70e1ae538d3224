# SPDX-License-Identifier: Apache-2.0
"""Ops that rules give to FlagGems, compiled for a device that is not there; tests/device runs them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import _cubin, _flaggems
from torch import Tensor, nn
from torch.nn import functional as F

from tests.frameworks.triton import flaggems_ops as gems
from tests.frameworks.triton import kernels

if importlib.util.find_spec("flag_gems") is None:
    pytest.skip("flag_gems is not installed", allow_module_level=True)
TARGET = "cuda:sm_90"


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The library writes its generated text here, not in the user's folder."""
    before = os.environ.get("FLAGGEMS_CACHE_DIR")
    os.environ["FLAGGEMS_CACHE_DIR"] = str(tmp_path_factory.mktemp("flaggems"))
    yield
    if before is None:
        del os.environ["FLAGGEMS_CACHE_DIR"]
    else:
        os.environ["FLAGGEMS_CACHE_DIR"] = before


def _compiled(function: Callable[..., Any], *inputs: Tensor, routes: dict[str, str], **options: Any) -> Any:
    return sl.compile(gems.Model(function), inputs, routes=routes, **{"target": TARGET, **options})


def _rows(fn: Any) -> list[dict[str, Any]]:
    return list(json.loads(fn._compilation.explain_json)["statements"])


def _launches(fn: Any) -> list[dict[str, Any]]:
    return [row for row in _rows(fn) if "FlagGems" in row["why"]]


_COMPILED = (
    "rms_norm",
    "add",
    "gelu",
    "where",
    "sum",
    "mean.dim",
    "softmax",
    "layer_norm",
    "mm",
    "embedding",
    "cat",
    "cumsum",
    "index_select",
    "topk",
)


@pytest.mark.parametrize("rule", _COMPILED)
def test_an_op_is_compiled_without_a_device(rule: str) -> None:
    case = next(case for case in gems.CASES if case.rule == rule)
    fn = _compiled(case.function, *gems.tensors(case, 1), routes={rule: "flaggems"})
    rows = _launches(fn)
    assert rows, _rows(fn)
    for row in rows:
        assert f"route {rule} = flaggems (the argument routes): FlagGems 5." in row["why"] and "Triton 3." in row["why"]
        assert row["op"].startswith("straightline_triton.") and row["kernel"].startswith("own_")
    assert "aten" not in {row["kernel"].partition(".")[0] for row in _rows(fn)}


def test_a_launch_is_what_the_wrapper_launches() -> None:
    x, w = torch.randn(16, 512), torch.randn(512)
    fn = _compiled(lambda x, w: F.rms_norm(x, (512,), w, 1e-6) * 2, x, w, routes={"rms_norm": "flaggems"})
    rows = _rows(fn)
    assert [row["op"] for row in rows][1:] == ["mul"] and rows[0]["op"].startswith(
        "straightline_triton.rms_norm_kernel_"
    )
    assert rows[0]["blocks"] == 16 and "BLOCK_SIZE=512" in rows[0]["why"]
    symbols = [name for image in fn._compilation.images for name in _cubin_kernels(bytes(image))]
    assert "rms_norm_kernel" in symbols
    assert "def rms_norm_kernel(" in fn.code
    (rule,) = fn.routes().rules
    assert (rule["rule"], rule["ops"], rule["decides"]) == ("rms_norm = flaggems (the argument routes)", 1, 1)
    assert [row["kernel"] for row in rule["statements"]] == [rows[0]["kernel"]]


def _cubin_kernels(image: bytes) -> list[str]:
    return list(_cubin.kernels_of(image)) if _cubin.is_cubin(image) else []


def test_a_composite_op_is_what_it_consists_of() -> None:
    x, w, b = torch.randn(8, 32), torch.randn(16, 32), torch.randn(16)
    fn = _compiled(F.linear, x, w, b, routes={"linear": "flaggems"})
    (row,) = _launches(fn)
    assert "addmm" in row["why"]
    # Several configurations and no device: the first.
    assert re.search(r"configuration .*, the first of \d+ that can be compiled: no device", row["why"])


def test_an_op_in_place() -> None:
    def model(x: Tensor) -> Tensor:
        y = x * 2
        y.add_(x)
        return y

    fn = _compiled(model, torch.randn(64), routes={"add": "flaggems"})
    assert len(_launches(fn)) == 1


def test_a_wrapper_that_is_wrong() -> None:
    """Its kernel writes behind the result on a device."""
    x = torch.randn(33, 70)
    with pytest.raises(
        sl.UnsupportedError, match="FlagGems 5.0.*'s argmin is wrong: .*behind its tensors.*'flaggems, auto'"
    ):
        _compiled(lambda x: x.argmin(1), x, routes={"argmin": "flaggems"})
    assert not _launches(_compiled(lambda x: x.argmin(1), x, routes={"argmin": "flaggems, auto"}))


def test_a_kernel_reads_behind_its_view() -> None:
    """Gather gives its kernel the first column, with a stride of 0, and adds the index to the address."""
    x, index = torch.randn(33, 70), torch.randint(0, 70, (33, 20))
    fn = _compiled(lambda x, i: torch.gather(x, 1, i), x, index, routes={"gather": "flaggems"})
    assert re.search(r"op\.own_kernel .* : \(tensor<2310xf32>, tensor<33x20xi64>", str(fn.ir("op")))
    assert len(_launches(fn)) == 1 == str(fn.ir("kernel")).count("kernel.launch")
    fn = _compiled(lambda x, i: torch.gather(x, 1, i), x[:1], index[:1], routes={"gather": "flaggems"})
    assert "tensor<70xf32>, tensor<1x20xi64>" in str(fn.ir("op"))


def test_a_place_and_a_fallback() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.GELU(), nn.GELU()

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x) + 1)

    fn = sl.compile(Block(), (torch.randn(64),), target=TARGET, routes={"second : gelu": "flaggems"})
    assert len(_launches(fn)) == 1
    # The wrapper of flip is refused; the rule goes on to our own kernels.
    x = torch.randn(64, 8)
    fn = _compiled(lambda x: x.flip(0), x, routes={"flip": "flaggems, auto"})
    assert not _launches(fn)
    fn = _compiled(lambda x: torch.relu(x.flip(0)), x, routes={"*": "flaggems, auto"})
    assert len(_launches(fn)) == 1


def test_named_sizes() -> None:
    batch = torch.export.Dim("b", min=1, max=500)
    model = gems.Model(lambda x, w: F.rms_norm(x, (512,), w, 1e-6))
    fn = sl.compile(
        model, (torch.randn(16, 512), torch.randn(512)), target=TARGET, routes={"rms_norm": "flaggems"},
        dynamic_shapes=(({0: batch}, None),),
    )  # fmt: skip
    (row,) = _launches(fn)
    assert row["blocks"] == "b"


def test_decisions_by_a_named_size_are_refused() -> None:
    batch = torch.export.Dim("b", min=2, max=5000)
    with pytest.raises(sl.UnsupportedError, match=r"FlagGems' \w+ (decides by a named size|cannot be recorded at )"):
        sl.compile(
            gems.Model(torch.relu), (torch.randn(16, 3),), target=TARGET, routes={"relu": "flaggems"},
            dynamic_shapes=(({0: batch},),),
        )  # fmt: skip


_REFUSED = {
    "data": (
        "nonzero",
        lambda x: torch.nonzero(x),
        r"FlagGems' nonzero (reads data on the host, by aten\..* at ops/nonzero.py:\d+|cannot be recorded)",
    ),
    "random": (
        "rand_like",
        torch.rand_like,
        r"FlagGems' rand_like reads the generator of random numbers on the host at ",
    ),
    "offset": (
        "flip",
        lambda x: x.flip(0),
        r"FlagGems' flip: it gives a kernel a tensor from element 63 on, by StridedBuffer at ops/flip.py:\d+",
    ),
    "arguments": (
        "rms_norm",
        lambda x: F.rms_norm(x, (64,)),
        r"FlagGems' rms_norm cannot be recorded: TypeError: .* missing 1 required positional argument: 'weight'",
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_what_a_wrapper_does_that_a_program_cannot(case: str) -> None:
    rule, function, words = _REFUSED[case]
    with pytest.raises(sl.UnsupportedError, match=words):
        _compiled(function, torch.randn(64), routes={rule: "flaggems"})


def test_a_launch_with_an_option_that_is_not_known() -> None:
    from straightline.capture.graph_builder import Reject
    from straightline.capture.torch.gems import _Recorder

    recorder = _Recorder(_flaggems.library(), "relu = flaggems")
    given = (torch.ones(8), torch.ones(8), torch.ones(8), 8, 1.0)
    with pytest.raises(Reject, match="launches scaled_add with launch_pdl=True"):
        recorder.launch(kernels.scaled_add, (1,), given, {"BLOCK": 128, "launch_pdl": True, "warmup": False})


def test_an_op_that_the_library_lacks_names_the_nearest() -> None:
    with pytest.raises(
        sl.UserError, match=r"FlagGems 5\.\d+\.\d+ has no hardtanh.default; the nearest that it has: .*tanh"
    ):
        _compiled(F.hardtanh, torch.randn(64), routes={"hardtanh": "flaggems"})


def test_another_target_is_refused() -> None:
    with pytest.raises(
        sl.UserError, match=r"flaggems has kernels for CUDA devices but the program runs on cpu; give target="
    ):
        _compiled(torch.relu, torch.randn(8), routes={"relu": "flaggems"}, target="cpu")
    fn = _compiled(torch.relu, torch.randn(8), routes={"relu": "flaggems, auto"}, target="cpu")
    assert torch.equal(fn(-torch.ones(8)), torch.zeros(8))


def test_the_target_is_the_first_of_a_rule() -> None:
    with pytest.raises(
        sl.UserError, match="flaggems stands behind 'auto', but must be the first target: what FlagGems does is"
    ):
        _compiled(torch.relu, torch.randn(8), routes={"relu": "auto, flaggems"})
    with pytest.raises(sl.UserError, match="unknown backend 'mars'"):
        _compiled(torch.relu, torch.randn(8), routes={"relu": "flaggems, mars"})


def test_it_is_no_target_of_a_slot() -> None:
    with pytest.raises(
        sl.UserError, match="slot 'relu' has 'flaggems': what FlagGems does is decided when the model is captured"
    ):
        sl.compile(gems.Model(torch.relu), (torch.randn(8),), target=TARGET, slots={"relu": ["cuda", "flaggems"]})


def test_a_rule_that_names_no_op_is_a_warning() -> None:
    with pytest.warns(sl.RouteWarning, match="route mm = flaggems .* names no op of the model"):
        _compiled(torch.relu, torch.randn(8), routes={"mm": "flaggems"})


def test_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    _flaggems.library.cache_clear()
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "flag_gems" else find(name, *rest)
    )
    with pytest.raises(
        sl.UnsupportedError, match="needs the package flag_gems, 5.x, while compiling, .*pip install --no-deps"
    ):
        _compiled(torch.relu, torch.randn(8), routes={"relu": "flaggems"})


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    _flaggems.library()
    _flaggems.library.cache_clear()
    monkeypatch.setattr(sys.modules["flag_gems"], "__version__", "4.2.1")
    with pytest.raises(sl.UnsupportedError, match="flag_gems is 4.2.1, a route to flaggems needs 5.x"):
        _compiled(torch.relu, torch.randn(8), routes={"relu": "flaggems"})
    _flaggems.library.cache_clear()


def test_torch_is_as_before() -> None:
    before = {name: vars(torch.cuda).get(name) for name in dir(torch.cuda)}
    _compiled(torch.relu, torch.randn(8), routes={"relu": "flaggems"})
    assert {name: vars(torch.cuda).get(name) for name in before} == before
    assert "GEMS_VENDOR" not in os.environ
    from triton.runtime.jit import JITFunction

    assert JITFunction.run.__module__ == "triton.runtime.jit"


_UNROUTED = """
import sys
import straightline as sl, torch
sl.compile(torch.nn.GELU(), (torch.randn(8),), target="cuda:sm_90")
assert "flag_gems" not in sys.modules
"""


def test_a_saved_program_has_the_machine_code(tmp_path: Path) -> None:
    fn = _compiled(torch.relu, torch.randn(64), routes={"relu": "flaggems"})
    fn.save(tmp_path / "relu.sl")
    (image,) = [bytes(image) for image in fn._compilation.images if _cubin.is_cubin(bytes(image))]
    assert image in (tmp_path / "relu.sl").read_bytes() or (tmp_path / "relu.sl").stat().st_size > 0


def test_the_library_is_imported_when_it_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", _UNROUTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
