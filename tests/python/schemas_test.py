# SPDX-License-Identifier: Apache-2.0
"""Ops of the installed torch by what becomes of them (capture/torch/schemas.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from straightline.__main__ import main
from straightline.capture.torch import schemas

import straightline as sl


def _kinds() -> dict[str, str]:
    return {op.name: op.kind for op in schemas.base_ops()}


def test_every_op_has_a_kind() -> None:
    """Refused ones, and no others, have a reason."""
    ops = schemas.base_ops()
    assert len(ops) > 1000 and len({op.name for op in ops}) == len(ops)
    for op in ops:
        assert op.kind in schemas.KINDS and bool(op.reason) == (op.kind == "refused"), op


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("add", "native"), ("relu", "native"), ("hardtanh", "native"), ("acosh", "parts"), ("linalg_multi_dot", "parts"), ("linalg_eig", "torch"),
        ("polar", "parts"), ("normal", "torch"), ("as_strided", "native"), ("as_strided_copy", "native"), ("resize", "refused"), ("to_sparse", "refused"), ("quantize_per_tensor", "refused"), ("_nnz", "refused"),
    ],
)  # fmt: skip
def test_kinds(name: str, kind: str) -> None:
    assert _kinds()[name] == kind


def test_names() -> None:
    """Forms that write in place belong to the op; Python's own names keep their underscores."""
    text = "- func: add.Tensor(Tensor self)\n  variants: method\n- func: add_.Tensor(Tensor(a!) self)\n- func: __and__.Scalar(Tensor self)\n# - func: x()\n"
    assert list(schemas.names_in(text)) == ["add.Tensor", "add_.Tensor", "__and__.Scalar"]
    assert [schemas.base_name(name) for name in schemas.names_in(text)] == ["add", "add", "__and__"]


def test_an_op_of_a_later_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that this build does not have is refused, with the reason."""
    path = tmp_path / "native_functions.yaml"
    path.write_text("- func: brand_new(Tensor self) -> Tensor\n- func: exp(Tensor self) -> Tensor\n")
    monkeypatch.setattr(schemas, "schema_file", lambda: path)
    new, known = schemas.base_ops.__wrapped__()
    assert (new.name, new.kind, new.reason) == ("brand_new", "refused", "this build of torch has no such op")
    assert (known.name, known.kind) == ("exp", "native")


def test_a_torch_without_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch/__init__.py"))
    with pytest.raises(sl.UserError, match="has no list of its ops: expected .*native_functions.yaml"):
        schemas.schema_file()


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "torch"]) == 0
    printed = capsys.readouterr().out
    count = len(schemas.base_ops())
    assert printed.startswith(f"torch {torch.__version__}: {count} ops\n")
    assert "| native |" in printed and "| `_nnz` | works on" not in printed and "`acosh`" in printed
