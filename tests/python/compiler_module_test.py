# SPDX-License-Identifier: Apache-2.0
"""The `_compiler` module: parsing, building, errors, cache functions."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from straightline import _compiler
from straightline.capture.builder import Dense, Location, Result, TensorType
from straightline.errors import InternalError, UserError
from straightline.module_builder import ModuleBuilder

VECTOR = TensorType("f32", (4,))


def test_parse_prints_what_it_read() -> None:
    module = _compiler.Module.parse("module {\n  func.func @f() {\n    return\n  }\n}")
    assert "func.func @f()" in str(module)
    assert _compiler.Module.parse(str(module)).print() == module.print()
    assert "loc(" in module.print(locations=True)


def test_malformed_module_is_a_user_error_with_its_place() -> None:
    with pytest.raises(UserError, match=r"broken\.mlir:2"):
        _compiler.Module.parse("func.func @f() {\n  nonsense\n}", name="broken.mlir")


def test_builder_builds_and_keeps_places() -> None:
    builder = ModuleBuilder()
    builder.symbol("b", 1, 64)
    (x,) = builder.begin_function("forward", [("x", VECTOR)])
    (one,) = builder.op("op.constant", [], [VECTOR], {"value": Dense(VECTOR, bytes(16))}, Location())
    (sum_,) = builder.op("op.add", [x, one], [VECTOR], {}, Location("layer.0", "model.py", 12))
    builder.end_function([Result(sum_, "z"), Result(sum_, "x_new", "input:x")])
    text = builder.finish().print(locations=True)
    assert "op.symbol @b" in text
    assert 'op.tie = "input:x"' in text
    assert '"layer.0"("model.py":12:0)' in text
    assert str(_compiler.Module.parse(text))


def test_builder_mistakes_are_internal_errors() -> None:
    builder = ModuleBuilder()
    (x,) = builder.begin_function("forward", [("x", VECTOR)])
    with pytest.raises(InternalError, match=r"unknown op 'op\.nonsense'"):
        builder.op("op.nonsense", [x], [VECTOR], {}, Location())
    with pytest.raises(InternalError, match="needs 16 bytes but has 3"):
        builder.op("op.constant", [], [VECTOR], {"value": Dense(VECTOR, b"abc")}, Location())


def test_module_that_does_not_verify_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_DUMP", str(tmp_path))
    builder = ModuleBuilder()
    (x,) = builder.begin_function("forward", [("x", VECTOR)])
    (wrong,) = builder.op("op.add", [x, x], [TensorType("f32", (5,))], {}, Location())
    builder.end_function([Result(wrong, "z")])
    with pytest.raises(InternalError, match=str(tmp_path)):
        builder.finish()
    assert len(list(tmp_path.iterdir())) == 1


def test_unknown_cpu_is_a_user_error() -> None:
    module = _compiler.Module.parse("module {}")
    with pytest.raises(UserError, match="unknown target cpu 'abacus'"):
        _compiler.compile(module, cpu="abacus")


def test_cache_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setenv("STRAIGHTLINE_CACHE_MAX_MB", "3")
    info = _compiler.cache_info()
    assert info["directory"] == str(tmp_path / "here")
    assert (info["bytes_used"], info["bytes_max"]) == (0, 3 << 20)
    assert _compiler.cache_clear() == 0
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", "")
    assert _compiler.cache_info()["bytes_max"] == 0


def test_modules_are_made_on_many_threads() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                assert "@f" in str(_compiler.Module.parse("func.func @f() { return }"))
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_both_builders_make_the_same_module() -> None:
    import torch
    from straightline import demo_models
    from straightline.capture import TextBuilder, capture

    model = demo_models.DigitsCnn().eval()
    example = (torch.randn(2, 1, 8, 8),)
    batch = ({0: torch.export.Dim("b", min=1, max=64)},)
    built, printed = ModuleBuilder(), TextBuilder()
    capture(model, example, dynamic_shapes=batch, builder=built)
    capture(model, example, dynamic_shapes=batch, builder=printed)
    assert str(built.finish()) == str(_compiler.Module.parse(printed.text()))
