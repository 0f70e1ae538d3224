# SPDX-License-Identifier: Apache-2.0
"""Files of paddle.jit.save: read without Paddle, compared with Paddle, and damaged in every way that the issue names."""

from __future__ import annotations

import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import straightline as sl
from paddle.vision import models as zoo

from tests.frameworks.paddle.comparison import assert_close, fresh_seed
from bench.paddle_models import Branches, Recurrent

_Spec = paddle.static.InputSpec


def _saved(layer: Any, spec: list[Any], folder: pathlib.Path) -> pathlib.Path:
    layer.eval()
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), str(folder / "model"))
    return folder / "model.json"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A saved net of two linear layers with a named batch."""
    paddle.seed(fresh_seed())
    net = paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.ReLU(), paddle.nn.Linear(5, 3))
    return _saved(net, [_Spec([-1, 6], "float32", "x")], tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize(
    ("make", "spec", "calls"),
    [
        (zoo.LeNet, [_Spec([-1, 1, 28, 28], "float32", "x")], [[1, 1, 28, 28], [5, 1, 28, 28]]),
        (Branches, [_Spec([-1, 8], "float32", "x")], [[1, 8], [4, 8]]),
        (lambda: Recurrent("GRU"), [_Spec([-1, 7], "int64", "words")], [[2, 7]]),
    ],
)
def test_saved_models(make: Callable[[], Any], spec: list[Any], calls: list[list[int]], tmp_path: pathlib.Path) -> None:
    paddle.seed(fresh_seed())
    path = _saved(make(), spec, tmp_path)
    compiled = sl.compile(str(path))
    loaded = paddle.jit.load(str(path)[: -len(".json")])
    loaded.eval()
    for shape in calls:
        x = paddle.randint(0, 50, shape) if spec[0].dtype == paddle.int64 else paddle.randn(shape)
        want = loaded(x)
        got = compiled(x)
        pairs = zip(got, want, strict=True) if isinstance(want, (list, tuple)) else [(got, want)]
        for a, b in pairs:
            assert_close(a, b, scale=100)
    by_name = compiled(**{spec[0].name: x.numpy()})
    assert isinstance(by_name[0] if isinstance(by_name, tuple) else by_name, np.ndarray)


def test_a_file_needs_no_paddle(small: pathlib.Path) -> None:
    code = f"""
import sys
sys.modules["paddle"] = None
import numpy, straightline as sl
fn = sl.compile({str(small)!r}, dynamic_shapes={{"x": {{0: "batch"}}}}, sizes={{"batch": (1, 8)}})
print(fn(numpy.ones((3, 6), "float32")).shape, fn.explain().facts["named_sizes"][0]["name"], sorted(fn.parameters()))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("(3, 3) batch ['linear_")


def test_load_parameters_takes_unique_names(small: pathlib.Path) -> None:
    compiled, x = sl.compile(str(small)), paddle.randn([2, 6])
    zeros = {name: np.zeros_like(np.asarray(t)) for name, t in compiled.parameters().items()}
    compiled.load_parameters(zeros)
    assert float(compiled(x).abs().max()) == 0.0


def test_an_example_fixes_the_sizes(small: pathlib.Path) -> None:
    compiled = sl.compile(str(small), (np.zeros((4, 6), "float32"),))
    assert compiled.explain().facts["named_sizes"] == []


# Damaged files --------------------------------------------------------------------------------------------------------


def _refusal(path: pathlib.Path, kind: type[Exception] = sl.UserError, **options: Any) -> str:
    with pytest.raises(kind) as error:
        sl.compile(str(path), **options)
    return str(error.value)


def _changed(small: pathlib.Path, folder: pathlib.Path, change: Callable[[Any], Any]) -> pathlib.Path:
    """A copy of the program that is changed as JSON, beside the same parameters."""
    whole = json.loads(small.read_text())
    whole = change(whole) or whole
    (folder / "model.json").write_text(json.dumps(whole))
    shutil.copy(small.with_suffix(".pdiparams"), folder / "model.pdiparams")
    return folder / "model.json"


def _ops(whole: Any) -> list[Any]:
    return whole["program"]["regions"][0]["blocks"][0]["ops"]


def _named(whole: Any, name: str) -> Any:
    return next(op for op in _ops(whole) if op["#"] == name)


def _set(path: list[Any], value: Any) -> Callable[[Any], None]:
    def change(whole: Any) -> None:
        place = whole
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


def _first_type(whole: Any, name: str, shape: list[Any]) -> None:
    _named(whole, name)["O"][0]["TT"]["D"][1] = shape


def _swapped(whole: Any) -> None:
    ops = _ops(whole)
    i = next(i for i, op in enumerate(ops) if op["#"] == "1.matmul")
    ops[i], ops[i + 1] = ops[i + 1], ops[i]


def _reads_itself(whole: Any) -> None:
    op = _named(whole, "1.matmul")
    op["I"][0]["%"] = op["O"][0]["%"]


def _given_twice(whole: Any) -> None:
    ops = _ops(whole)
    ops.append(copy.deepcopy(_named(whole, "1.relu")))


_DAMAGES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("another version", _set(["base_code", "version"], 99), "is of version 99 of Paddle's format but 1 to 4 are read"),
    ("no version", _set(["base_code"], {"magic": "pir"}), "is of version None"),
    ("another magic", _set(["base_code", "magic"], "onnx"), "its magic is 'onnx', not 'pir'"),
    ("a list", lambda whole: [whole], "the file has no 'base_code' that is a dict"),
    ("no program", _set(["program"], 3), "the file has no 'program' that is a dict"),
    ("no blocks", _set(["program", "regions", 0, "blocks"], []), "the program has 0 blocks, not 1"),
    ("huge size", lambda w: _first_type(w, "1.data", [10**9] * 9), "a tensor has the sizes [1000000000"),
    ("negative size", lambda w: _first_type(w, "1.data", [-7, 6]), "a tensor has the sizes [-7, 6]"),
    ("size of text", lambda w: _first_type(w, "1.data", ["x", 6]), "is 'x', not an integer of 64 bits"),
    ("many dims", lambda w: _first_type(w, "1.data", [1] * 10**5), "a tensor has 100000 dims"),
    ("a result of another size", lambda w: _first_type(w, "1.matmul", [-1, 77]), "but the program says float32[?, 77]"),
    ("out of order", _swapped, "which nothing gives before it"),
    ("a cycle", _reads_itself, "which nothing gives before it"),
    ("given twice", _given_twice, "is given twice"),
    ("a parameter of another size", lambda w: _ops(w)[0]["O"]["TT"]["D"].__setitem__(1, [4]), "but model.json says float32[4]"),
    ("a parameter more", lambda w: _ops(w).insert(0, {**copy.deepcopy(_ops(w)[0]), "A": [0, 1, 1, "zz"], "O": {
        "%": 999, "TT": _ops(w)[0]["O"]["TT"]}}), "'zz' and those behind it are missing"),
    ("a parameter less", lambda w: _set(["program", "regions", 0, "blocks", 0, "ops"], [
        op for op in _ops(w) if op["#"] != "p"])(w), "which nothing gives before it"),
    ("an op without operands", lambda w: _named(w, "1.add").__setitem__("I", []), "is not what Paddle writes"),
    ("operands of text", lambda w: _named(w, "1.add").__setitem__("I", [{"%": "x"}]), "has no '%' that is a int"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), [d[1:] for d in _DAMAGES], ids=[d[0] for d in _DAMAGES])
def test_damaged_programs(
    small: pathlib.Path, tmp_path: pathlib.Path, change: Callable[[Any], Any], words: str
) -> None:
    assert words in _refusal(_changed(small, tmp_path, change))


def test_an_op_that_is_not_there(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = _changed(small, tmp_path, lambda w: _named(w, "1.relu").__setitem__("#", "1.relux"))
    words = _refusal(path, sl.UnsupportedError)
    # Paddle numbers the layers of a process: another test may have made some.
    where = r"relux at ReLU(_\d+)? \(model.json:\d+\)"
    assert re.search(where + ": there is no op relux here; nearest supported form: relu", words)


def test_a_reshape_to_a_billion(tmp_path: pathlib.Path) -> None:
    class Shaped(paddle.nn.Layer):
        def forward(self, x: Any) -> Any:
            return x.reshape([3, 2]) + paddle.full([3, 2], 1.0)

    path = _saved(Shaped(), [_Spec([6], "float32", "x")], tmp_path)
    text = path.read_text().replace('"D":3},{"#":"0.a_i64","D":2}', '"D":1000000000},{"#":"0.a_i64","D":1000000000}')
    assert text != path.read_text()
    path.write_text(text)
    assert "a reshape of [6] to [1000000000, 1000000000]" in _refusal(path, sl.UnsupportedError)


def test_ten_thousand_levels(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("[" * 10_000 + "]" * 10_000)
    assert "nests 10000 levels but a program has at most 400" in _refusal(path)
    path.write_text('{"a\\"": ' * 10_000 + "1" + "}" * 10_000)
    assert "nests 10000 levels" in _refusal(path)


def test_cut_short(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text, data = small.read_bytes(), small.with_suffix(".pdiparams").read_bytes()
    path = tmp_path / "model.json"
    for end in (0, 1, 50, len(text) // 2, len(text) - 1):
        path.write_bytes(text[:end])
        assert "is no program of Paddle, or is cut short" in _refusal(path)
    path.write_bytes(text)
    assert "there is no model.pdiparams beside it" in _refusal(path)
    beside = tmp_path / "model.pdiparams"
    for end in (7, 40, len(data) // 2, len(data) - 1):
        beside.write_bytes(data[:end])
        words = _refusal(path)
        assert "is cut short" in words or "are missing" in words
    beside.write_bytes(data + data[:60])
    assert "is cut short" in _refusal(path) or "holds more parameters" in _refusal(path)
    beside.write_bytes(b"\xff" * len(data))
    assert "is no file of parameters" in _refusal(path)


def test_no_such_file(tmp_path: pathlib.Path) -> None:
    assert "cannot read" in _refusal(tmp_path / "nothing.json")


def test_random_damage(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Bytes of both files are changed: an error of ours, or a program."""
    rng = np.random.default_rng(fresh_seed())
    text, data = small.read_bytes(), small.with_suffix(".pdiparams").read_bytes()
    for i in range(60):
        files = [bytearray(text), bytearray(data)]
        damaged = files[i % 4 == 0]
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(0, len(damaged) if i % 4 else 120))] = int(rng.integers(0, 256))
        (tmp_path / "model.json").write_bytes(bytes(files[0]))
        (tmp_path / "model.pdiparams").write_bytes(bytes(files[1]))
        try:
            sl.compile(str(tmp_path / "model.json"))
        except (sl.UserError, sl.UnsupportedError):
            pass


def test_numbers_that_would_fill_memory(tmp_path: pathlib.Path) -> None:
    """Attributes that a file may set to anything: refused before memory is taken or a billion ops are written."""

    class Many(paddle.nn.Layer):
        def forward(self, x: Any) -> Any:
            parts = paddle.split(x, 3)
            return (
                parts[0]
                + paddle.arange(0, 2, 1).astype("float32")
                + paddle.tile(x[0:2], [1])
                + paddle.linspace(0, 1, 2)
            )

    path = _saved(Many(), [_Spec([6], "float32", "x")], tmp_path)
    text = path.read_text()
    for old, new in (
        ('{"#":"0.a_f64","D":2.0}', '{"#":"0.a_f64","D":2000000000000.0}'),
        ('{"#":"0.a_i64","D":1}', '{"#":"0.a_i64","D":1000000000}'), ('{"#":"0.a_i32","D":3}', '{"#":"0.a_i32","D":1000000000}'),
    ):  # fmt: skip
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises((sl.UserError, sl.UnsupportedError)):
            sl.compile(str(path))
