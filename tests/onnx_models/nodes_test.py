# SPDX-License-Identifier: Apache-2.0
"""A fixed part of ONNX's node tests (`python -m straightline.onnx_coverage` runs all), and that none needs torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from straightline.onnx_coverage import cases, examine

#: What the parts of the names of refused cases have in common, and why they are.
REFUSED = {
    "ai_onnx_ml_label_encoder": "strings", "bernoulli": "random numbers", "equal_string": "strings",
    "image_decoder": "images", "loop11": "a slice that grows in a loop",
    "loop13_seq": "a sequence that a loop makes", "loop16_seq_none": "a sequence that a loop makes", "regex": "strings",
    "string_concat": "strings", "string_split": "strings", "strnormalizer": "strings", "tfidfvectorizer": "words",
    "training_dropout": "random numbers",
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
    if name in LESS_EXACT or name == "test_scan_sum":  # whose data does not fit its model
        pytest.skip("onnx's expected numbers are less exact than its tolerance")
    found = examine("node", name)
    assert found.outcome == ("refused" if any(text in name for text in REFUSED) else "passed"), found


def test_torch_is_not_needed() -> None:
    """A node test in a process in which torch cannot be imported."""
    text = (
        "import sys; sys.modules['torch'] = None\n"
        "from straightline.onnx_coverage import examine\n"
        "assert examine('node', 'test_gemm_all_attributes').outcome == 'passed'\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", text], check=True, cwd=root)


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_other_suites(kind: str) -> None:
    for name in sorted(cases(kind))[::4]:
        found = examine(kind, name)
        assert found.outcome == "passed" or (kind == "simple" and found.outcome == "refused"), found
