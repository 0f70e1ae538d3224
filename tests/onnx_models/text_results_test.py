# SPDX-License-Identifier: Apache-2.0
"""Results of text: arrays of objects from Python, numbers of a table in the program, in C and in files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl

from tests.onnx_models.encoders_test import FLOAT, STRING, ml, model_of, ort

CLASSES = ["gr\u00fcn", "rot", "blau"]


def classifier(x: np.ndarray) -> onnx.ModelProto:
    rng = np.random.default_rng(x.shape[0])
    node = ml(
        "LinearClassifier", ["x"], ["label", "scores"], coefficients=rng.standard_normal(3 * x.shape[1]).tolist(),
        intercepts=rng.standard_normal(3).tolist(), classlabels_strings=CLASSES, post_transform="SOFTMAX",
    )  # fmt: skip
    return model_of([node], x, {"label": STRING, "scores": FLOAT})


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((17, 4)).astype(np.float32) * 3


def same(found: Any, wanted: Any) -> None:
    label, scores = found
    assert label.dtype == object and all(type(text) is str for text in label.reshape(-1))
    np.testing.assert_array_equal(label, wanted[0])
    np.testing.assert_allclose(scores, wanted[1], rtol=1e-5, atol=1e-6)


def test_labels_of_a_classifier(x: np.ndarray) -> None:
    model = classifier(x)
    session = ort.InferenceSession(model.SerializeToString())
    function = sl.compile(model)
    for rows in (x, x[:1], x[:5]):
        same(function(rows), session.run(None, {"x": rows}))


def test_text_of_an_encoder(rng: np.random.Generator) -> None:
    """Of any rank, alone, and the default; text that is known before a call."""
    x = rng.integers(0, 4, (5, 3))
    encoder = ml("LabelEncoder", ["x"], ["y"], keys_int64s=[2, 0], values_strings=["two", "none"], default_string="?")
    model = model_of([encoder], x, {"y": STRING})
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = sl.compile(model)(x)
    assert found.dtype == object and found.shape == (5, 3)
    np.testing.assert_array_equal(found, wanted)
    known = model_of([onnx.helper.make_node("Identity", ["w"], ["y"])], x, {"y": STRING}, {"w": ["b", "a", "b"]})
    np.testing.assert_array_equal(sl.compile(known)(x), np.asarray(["b", "a", "b"], dtype=object))


def test_saved_models(x: np.ndarray, tmp_path: Path) -> None:
    """In a process that has no onnx, and in C as numbers."""
    model = classifier(x)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    sl.compile(model).save(tmp_path / "m.sl")
    same(sl.load(tmp_path / "m.sl")(x), wanted)
    np.save(tmp_path / "x.npy", x)
    script = """
import sys
sys.modules["onnx"] = sys.modules["torch"] = None
import numpy, straightline
label, _ = straightline.load(sys.argv[1])(numpy.load(sys.argv[2]))
print(ascii(label.tolist()))
"""
    command = [sys.executable, "-c", script, tmp_path / "m.sl", tmp_path / "x.npy"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == ascii(wanted[0].tolist())


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "straightline", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_commands(x: np.ndarray, tmp_path: Path) -> None:
    """`run` compares and writes text; `inspect` says what C gets."""
    onnx.save(classifier(x), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--compare", "onnxruntime", "--json", "--output", tmp_path)
    done = command("run", tmp_path / "m.onnx", *given)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [row["right"] for row in facts["compared"]] == [True, True]
    wanted = ort.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})[0]
    np.testing.assert_array_equal(np.load(tmp_path / "result0.npy"), wanted.astype(str))
    other = classifier(x)
    for attribute in other.graph.node[0].attribute:
        if attribute.name == "classlabels_strings":
            attribute.strings[:] = [b"a", b"b", b"c"]
    onnx.save(other, tmp_path / "other.onnx")
    assert command("run", tmp_path / "m.onnx", *given, "--reference", tmp_path / "other.onnx").returncode == 5
    sl.compile(classifier(x)).save(tmp_path / "m.sl")
    assert "label.index: int64[n]" in command("inspect", tmp_path / "m.sl").stdout


def test_what_is_refused(x: np.ndarray, tmp_path: Path) -> None:
    function = sl.compile(classifier(x))
    with pytest.raises(
        sl.UserError, match=r"result\[0\] is text \('gr\u00fcn', 'rot', 'blau'\), which each call makes anew"
    ):
        function(x, out=function(x))
    with pytest.raises(sl.UnsupportedError, match="which a call from Python alone makes of numbers; nearest supported"):
        function.export_library(tmp_path / "f.so", symbol="forward")
