# SPDX-License-Identifier: Apache-2.0
"""A fixed part of ONNX's node tests (`python -m tests.onnx_models.suite` runs all), and that none needs torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.onnx_models.suite import cases, examine

#: What the parts of the names of refused cases have in common, and why they are.
REFUSED = {
    "INT4": "elements of 4 bits", "INT2": "elements of 2 bits", "FLOAT4": "elements of 4 bits", "float4": "elements of 4 bits",
    "int4": "elements of 4 bits", "int2": "elements of 2 bits", "E8M0": "exponents alone", "string": "strings", "strnorm": "strings",
    "regex": "strings", "image_decoder": "images", "bernoulli": "random numbers", "training_dropout": "random numbers",
    "tfidf": "words", "nonmaxsuppression": "no converter", "deform_conv": "no converter", "ai_onnx_ml": "no converter",
    "adagrad": "training", "adam": "training", "momentum": "training", "bitcast": "the bits of floats", "label_encoder": "strings",
    "if_opt": "branches of sequences", "if_seq": "branches of sequences", "loop1": "sequences in loops", "stringsplit": "strings",
    "affine_grid": "branches of two shapes", "melweightmatrix": "no converter", "scan_sum": "its data does not fit its model",
    "quantizelinear_e8m0": "exponents alone", "equal_string": "strings", "string_concat": "strings", "range_": "",
}  # fmt: skip
#: onnx's numbers are less exact than ours by more than its tolerance: halves rounded at each step, sums of f32 that cancel.
LESS_EXACT = (
    "test_attention_4d_causal_fp16",
    "test_attention_4d_causal_fp16_expanded",
    "test_dft_inverse",
    "test_dft_inverse_opset19",
)
#: Every so many of all cases in the order of their names.
_EACH = 5

NAMES = sorted(cases("node"))[::_EACH]


@pytest.mark.parametrize("name", NAMES)
def test_node(name: str) -> None:
    if name in LESS_EXACT:
        pytest.skip("onnx's expected numbers are less exact than its tolerance")
    found = examine("node", name)
    may_be_refused = any(text in name for text in REFUSED)
    assert found.outcome == "passed" or (found.outcome == "refused" and may_be_refused), found


def test_torch_is_not_needed() -> None:
    """A node test in a process in which torch cannot be imported."""
    text = (
        "import sys; sys.modules['torch'] = None\n"
        "from tests.onnx_models.suite import examine\n"
        "assert examine('node', 'test_gemm_all_attributes').outcome == 'passed'\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", text], check=True, cwd=root)


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_other_suites(kind: str) -> None:
    for name in sorted(cases(kind))[::4]:
        found = examine(kind, name)
        assert found.outcome == "passed" or (kind == "simple" and found.outcome == "refused"), found
