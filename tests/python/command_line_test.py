# SPDX-License-Identifier: Apache-2.0
"""`straightline compile`, `run` and `inspect` over each kind of file; exit statuses; what bad command lines get."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
from straightline.__main__ import main
from straightline.cli import peers
from torch import nn


def _model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One model as each kind of file, and an input."""
    model, x = _model(), torch.randn(2, 8)
    found = {kind: tmp_path / f"m.{kind}" for kind in ("sl", "pt2", "onnx", "npy")}
    sl.compile(model, (x,)).save(found["sl"])
    torch.export.save(torch.export.export(model, (x,)), found["pt2"])
    np.save(found["npy"], x.numpy())
    onnx = pytest.importorskip("onnx")
    helper, names = onnx.helper, ["0.weight", "0.bias", "2.weight", "2.bias"]
    state = model.state_dict()
    weights = [onnx.numpy_helper.from_array(state[name].numpy(), name) for name in names]
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 8])],
        [helper.make_tensor_value_info("y", 1, ["n", 4])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), found["onnx"])
    return found


def _said(capsys: pytest.CaptureFixture[str], *arguments: Any, status: int = 0) -> str:
    capsys.readouterr()
    assert main([str(a) for a in arguments]) == status
    said = capsys.readouterr()
    return said.out if status in (0, 5) else said.err


def test_run(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = _model()(torch.from_numpy(np.load(files["npy"]))).detach().numpy()
    for kind in ("sl", "pt2", "onnx"):
        said = _said(capsys, "run", files[kind], "--input", files["npy"], "--output", tmp_path / kind)
        assert "float32[2, 8]" in said and "float32[2, 4]" in said
        np.testing.assert_allclose(np.load(tmp_path / kind / "result0.npy"), expected, atol=1e-5)
    facts = json.loads(
        _said(capsys, "run", files["onnx"], "--random", "--seed", 7, "--size", "n=5", "--json", "--repeat", 3)
    )
    assert facts["inputs"]["x"]["shape"] == [5, 8] and facts["seed"] == 7 and facts["least_us"] > 0
    again = json.loads(_said(capsys, "run", files["onnx"], "--random", "--seed", 7, "--size", "n=5", "--json"))
    assert again["results"] == facts["results"]
    assert "seed" in _said(capsys, "run", files["sl"], "--random")
    named = _said(capsys, "run", files["onnx"], "--input", f"x={files['npy']}")
    assert "float32[2, 4]" in named


def test_compare(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert "right" in _said(capsys, "run", files["pt2"], "--random", "--compare", "eager")
    assert "right" in _said(capsys, "run", files["sl"], "--random", "--compare", "eager", "--reference", files["pt2"])
    other = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    torch.export.save(torch.export.export(other, (torch.randn(2, 8),)), files["pt2"])
    assert "DIFFERENT" in _said(
        capsys, "run", files["sl"], "--random", "--compare", "eager", "--reference", files["pt2"], status=5
    )
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        said = _said(capsys, "run", files["onnx"], "--random", "--compare", "onnxruntime", status=1)
        assert "pip install onnxruntime" in said
    else:
        assert "right" in _said(capsys, "run", files["onnx"], "--random", "--compare", "onnxruntime")


def test_compile_writes(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.load(files["npy"])
    for kind in ("pt2", "onnx"):
        out = tmp_path / f"{kind}.sl"
        said = _said(capsys, "compile", files[kind], "-o", out, "--cpus", "x86-64-v3", "host", "--prepared")
        assert said.startswith(f"{out}: ") and "bytes" in said
        y = sl.load(out)(x if kind == "onnx" else torch.from_numpy(x))
        np.testing.assert_allclose(np.asarray(y), _model()(torch.from_numpy(x)).detach().numpy(), atol=1e-5)
    facts = json.loads(_said(capsys, "compile", files["onnx"], "--size", "n=3", "--json"))
    assert facts["programs"][0]["inputs"][0]["shape"] == [3, 8] and facts["output"] is None
    assert "sl_program_run" in _said(capsys, "compile", files["sl"], "--show", "code")


def test_bench(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, "bench", files["pt2"], "--quick", "--sample-ms", "0.1", "--json", tmp_path / "b.json")
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert [row["contender"] for row in rows] == ["straightline", "eager"] and all(row["least_us"] > 0 for row in rows)
    assert "eager" in said and "1.00x" in said
    for kind in ("sl", "onnx"):
        assert "straightline" in _said(capsys, "bench", files[kind], "--quick", "--sample-ms", "0.1")
    assert "no such file" in _said(capsys, "bench", tmp_path / "no.onnx", status=1)


def test_bench_compares_before_it_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many results, and NaN and infinities at equal places only."""

    class Roots(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sqrt(), 1 / x.relu()

    x, path = torch.randn(8, 8), tmp_path / "roots.pt2"
    torch.export.save(torch.export.export(Roots(), (x,)), path)
    bench = ("bench", path, "--quick", "--sample-ms", "0.1")
    assert "eager" in _said(capsys, *bench)  # both have NaN and infinities
    assert "right" in _said(capsys, "run", path, "--random", "--compare", "eager")
    eager_call = peers.eager_call

    def wrong(change: Any) -> None:
        def changed(*given: Any) -> Any:
            call = eager_call(*given)
            return lambda: change(*call())

        monkeypatch.setattr(peers, "eager_call", changed)

    for change, words in (
        (lambda a, b: (a,), "eager gives 1 results but straightline 2"),
        (lambda a, b: (a, b, b), "eager gives 3 results but straightline 2"),
        (lambda a, b: (a.nan_to_num(), b), "result[0] differs by inf"),
        (lambda a, b: (a, b * torch.nan), "result[1] differs by inf"),
        (lambda a, b: (a, torch.where(b.isinf(), -b, b)), "result[1] differs by inf"),
        (lambda a, b: (a * 1.5, b), "result[0] differs by"),
        (lambda a, b: (a[:, :4], b), "result[0] differs by inf"),
    ):
        wrong(change)
        said = _said(capsys, *bench, status=1)
        assert words in said and "nothing was timed" in said
    wrong(lambda a, b: (torch.where(a.isnan(), 0.0, a), b))
    assert "DIFFERENT" in _said(capsys, "run", path, "--random", "--compare", "eager", status=5)


def test_difference() -> None:
    one = np.array([1.0, np.nan, np.inf, -2.0], np.float32)
    assert peers.difference(one, one) == (0.0, 2.0)
    assert peers.difference(one + np.float32(0.5), one) == (0.5, 2.0)
    for other in ([1, 0, np.inf, -2], [1, np.nan, -np.inf, -2], [np.nan, np.nan, np.inf, -2], [1, np.inf, np.nan, -2]):
        assert peers.difference(np.array(other, np.float32), one)[0] == np.inf
        assert peers.difference(one, np.array(other, np.float32))[0] == np.inf
    assert peers.difference(one[:2], one)[0] == np.inf
    assert peers.difference(np.array([1 + 1j]), np.array([1 - 1j])) == (2.0, 2**0.5)
    assert peers.difference(np.zeros((0, 3)), np.zeros((0, 3))) == (0.0, 0.0)


def test_inspect(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, "inspect", files["sl"], "--verify")
    for part in (
        "takes",
        "input: float32[2, 8]",
        "gives",
        "0.weight",
        "weights.safetensors",
        "native",
        "format 1",
        "code for x86-64-v3, x86-64-v4",
    ):
        assert part in said
    facts = json.loads(_said(capsys, "inspect", files["sl"], "--json"))
    assert facts["saved"]["format"] == 1 and facts["parameters"]["0.weight"]["shape"] == [16, 8]
    assert facts["saved"]["cpus"] == [["x86-64-v3", "x86-64-v4"]] and facts["saved"]["targets"] == [["cpu", "cpu"]]
    assert "op.linear" in _said(capsys, "inspect", files["sl"], "--show", "op")
    assert "n: 1 to" in _said(capsys, "inspect", files["onnx"])


def test_inspect_writes_pages(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    asked = ("--profile", "2", "--program", "1", "--machine-code", "none", "--passes")
    for kind, more in (("sl", ()), ("sl", ("--passes",)), ("pt2", asked)):
        said = _said(capsys, "inspect", files[kind], "--html", tmp_path / "m.html", *more)
        assert said.startswith(f"{tmp_path / 'm.html'}: ")
        pages.append((tmp_path / "m.html").read_text())
    assert '"passes":null' in pages[0] and all('"name":"lower-to-kernel"' in page for page in pages[1:])
    assert "median of 2" in pages[2] and 'id="machine-1"' in pages[0] and 'id="machine-1"' not in pages[2]
    for alone in (("--passes",), ("--profile", "2"), ("--program", "1")):
        assert f"{alone[0]} is about the page: give --html FILE" in _said(
            capsys, "inspect", files["sl"], *alone, status=1
        )
    several = sl.compile(torch.nn.Linear(4, 4).eval(), [(torch.randn(1, 4),), (torch.randn(2, 4),)])
    several.save(tmp_path / "several.sl")
    asked = ("--profile", "2", "--program", "2")
    _said(capsys, "inspect", tmp_path / "several.sl", "--html", tmp_path / "m.html", *asked)
    page = (tmp_path / "m.html").read_text()
    assert "median of 2" in page and '"program":2' in page
    said = _said(capsys, "inspect", files["sl"], "--html", tmp_path / "m.html", "--machine-code", "gemm", status=1)
    assert "must be all or none with --html" in said


def test_only_saved_models_have_digests(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("pt2", "onnx"):
        for more in ((), ("--json",), ("--show", "op")):
            said = _said(capsys, "inspect", files[kind], "--verify", *more, status=1)
            assert "--verify compares the digests of a saved model (.sl)" in said and str(files[kind]) in said


def test_errors(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pt2"
    bad.write_text("no")
    (tmp_path / "bad.npy").write_text("no")
    for arguments, words in (
        (("run", tmp_path / "nothing.sl"), "No such file"),
        (("run", tmp_path / "nothing.onnx"), "no such file"),
        (("run", tmp_path / "nothing.txt"), ".onnx"),
        (("run", files["sl"]), "no array is given for input: float32[2, 8]"),
        (("run", files["sl"], "--input", f"z={files['npy']}"), "there is no input 'z'"),
        (("run", files["sl"], "--input", tmp_path / "bad.npy"), "cannot read"),
        (("run", files["sl"], "--random", "--repeat", "0"), "--repeat is 0"),
        (("run", files["onnx"], "--random", "--size", "n"), "--size is 'n'"),
        (("run", files["sl"], "--random", "--compare", "eager"), "needs a .pt2 file"),
        (("run", files["sl"], "--random", "--compare", "onnxruntime"), "needs an .onnx file"),
        (("run", bad, "--random"), "no exported program"),
        (("compile", files["onnx"], "--emit", "exe", "-o", tmp_path / "x"), "--emit is 'exe'"),
        (("compile", files["onnx"], "--emit", "shared-lib"), "needs a place"),
        (("compile", files["onnx"], "-o", tmp_path / "no" / "x.sl"), "cannot write"),
    ):
        assert words in _said(capsys, *arguments, status=1), arguments
    assert not (tmp_path / "x").exists()
    unsupported = _said(capsys, "run", files["sl"], "--random", "--threads", "0", status=1)
    assert "threads is 0" in unsupported
    with pytest.raises(SystemExit) as caught:
        main(["fly"])
    assert caught.value.code == 2
    with pytest.raises(SystemExit):
        main([])


def test_help_names_every_command_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name in ("compile", "run", "inspect", "bench", "coverage", "plugin", "opt", "cache", "completion"):
        assert name in shown
    pytest.importorskip("shtab")
    script = _said(capsys, "completion", "bash")
    assert "--prepared" in script and "inspect" in script


def test_running_a_saved_model_needs_neither_torch_nor_a_compiler(files: dict[str, Path]) -> None:
    script = (
        "import sys\n"
        "for name in ('torch', 'straightline._compiler', 'onnx'): sys.modules[name] = None\n"
        "from straightline.__main__ import main\n"
        f"sys.exit(main(['run', {str(files['sl'])!r}, '--random']) or main(['inspect', {str(files['sl'])!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "0.weight" in done.stdout, done.stderr


def test_a_closed_pipe_is_no_error(files: dict[str, Path]) -> None:
    command = f"{sys.executable} -m straightline inspect {files['sl']} --show code | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == "" and done.stdout.startswith("//")


def test_opt(files: dict[str, Path], tmp_path: Path) -> None:
    module = tmp_path / "m.mlir"
    module.write_text(sl.load(files["sl"]).ir("op"))
    done = subprocess.run(
        [sys.executable, "-m", "straightline", "opt", module, "--canonicalize"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "op.linear" in done.stdout, done.stderr
