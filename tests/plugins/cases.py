# SPDX-License-Identifier: Apache-2.0
"""Cases of in_own_process_test.py: `python cases.py case_NAME`. PROBES: the folder of the plug-ins. FOLDER: an empty one."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch

_PROBES, _FOLDER = Path(os.environ.get("PROBES", ".")), Path(os.environ.get("FOLDER", "."))


def _raises(kind: type[Exception], call: Any, *said: str) -> str:
    try:
        call()
    except kind as error:
        for text in said:
            assert text in str(error), (text, str(error))
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def _backends(compiled: Any) -> list[str]:
    return [row["backend"] for row in compiled.explain()["statements"] if row["phase"] == "run" and row["kernel"]]


def _model(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def _compile(**options: Any) -> Any:
    return sl.compile(_model, (torch.randn(32, 32),), **options)


def _called_at_once(call: Any, threads: int = 8, calls: int = 40) -> None:
    """Calls from several threads, with inputs of their own."""
    wrong: list[str] = []
    begin = threading.Barrier(threads)

    def work(seed: int) -> None:
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(seed))
        begin.wait()
        try:
            for _ in range(calls):
                if not torch.equal(call(x), torch.relu(x)):
                    wrong.append("another result")
        except Exception as error:
            wrong.append(repr(error))

    every = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    assert not wrong, wrong[0]


def _probe() -> Any:
    """The library's own functions."""
    return ctypes.CDLL(str(_PROBES / "libprobe.so"))


# Finding and loading --------------------------------------------------------------------------------------------------


def case_load_backend() -> None:
    loaded = sl.load_backend(_PROBES / "libprobe.so")
    assert (loaded.name, loaded.kernels) == ("probe", (("probe.relu", "relu"),))
    assert loaded.file == str((_PROBES / "libprobe.so").resolve())
    assert "probe.relu" in repr(loaded)
    link = _FOLDER / "link.so"
    link.symlink_to(_PROBES / "libprobe.so")
    assert sl.load_backend(link) == loaded  # the same file again
    assert _backends(_compile(routes={"relu": "probe"})) == ["probe"]


def case_one_that_was_registered_by_its_description() -> None:
    library, runtime = _probe(), ctypes.CDLL(str(Path(sl.__file__).parent / "libstraightline_runtime.so"))
    library.straightline_backend_v1.restype = ctypes.c_void_p
    message = ctypes.create_string_buffer(4096)
    described = ctypes.c_void_p(library.straightline_backend_v1())
    assert runtime.sl_backend_register(described, message) == 0, message.value
    assert sl.load_backend(_PROBES / "libprobe.so").name == "probe"


def case_a_name_or_a_symbol_that_is_taken() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    copy = _FOLDER / "copy.so"
    copy.write_bytes((_PROBES / "libprobe.so").read_bytes())
    said = f"backend 'probe' is registered already, from {(_PROBES / 'libprobe.so').resolve()}"
    _raises(sl.errors.UserError, lambda: sl.load_backend(copy), str(copy.resolve()), said)
    assert sl.load_backend(_PROBES / "libimpostor.so").name == "other"


def case_the_environment_names_a_file() -> None:
    os.environ["STRAIGHTLINE_BACKEND_PATH"] = str(_PROBES / "libprobe.so")
    assert _backends(_compile(routes={"relu": "probe.relu"})) == ["probe"]


def case_the_environment_names_a_folder() -> None:
    (_FOLDER / "a.so").symlink_to(_PROBES / "libprobe.so")
    (_FOLDER / "b.so").symlink_to(_PROBES / "libimpostor.so")
    os.environ["STRAIGHTLINE_BACKEND_PATH"] = f"{_FOLDER}:{_PROBES / 'libprobe.so'}"
    assert _backends(_compile(routes={"relu": "other"})) == ["other"]
    assert _backends(_compile(routes={"relu": "probe"})) == ["probe"]


def case_an_entry_point() -> None:
    package = _FOLDER / "probe-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[straightline.backends]\nprobe = probe_package:library\n")
    (_FOLDER / "probe_package.py").write_text(f"def library():\n    return {str(_PROBES / 'libprobe.so')!r}\n")
    sys.path.insert(0, str(_FOLDER))
    assert _backends(_compile(routes={"relu": "probe"})) == ["probe"]


def case_no_call_opens_one() -> None:
    compiled = _compile()
    os.environ["STRAIGHTLINE_BACKEND_PATH"] = str(_PROBES / "libprobe.so")
    compiled(torch.randn(32, 32))
    from straightline import _call

    assert "probe" not in _call.backend_names()


# Faults ---------------------------------------------------------------------------------------------------------------


def _faulty(name: str, said: str, kernel: str = "probe.relu", model: Any = torch.relu) -> None:
    library = sl.load_backend(_PROBES / f"lib{name}.so")
    text = _raises(
        sl.errors.UserError, lambda: sl.compile(model, (torch.randn(4),)), f"kernel '{kernel}' of {library.file}", said
    )
    assert f"`straightline plugin check {library.file}` shows more" in text
    allowed = sl.compile(model, (torch.randn(4),), allow=["native"])  # the way out that the message names
    assert library.name not in _backends(allowed)


def case_cost_is_nan() -> None:
    _faulty("nan", "cost is nan, expected a number from 0 on")


def case_cost_is_negative() -> None:
    _faulty("negative", "cost is -1, expected a number from 0 on")


def case_a_refusal_without_a_reason() -> None:
    _faulty("silent", "accepts refuses without a reason")


def case_workspace_is_negative() -> None:
    _faulty("workspace", "workspace is -8, expected a number from 0 on")


def case_accepts_throws() -> None:
    _faulty("throws", "accepts throws a C++ exception, which may not leave it: no luck", "throws.tanh", torch.tanh)


def case_plan_fails() -> None:
    file = sl.load_backend(_PROBES / "libplan_fails.so").file
    said = _raises(
        sl.errors.UnsupportedError,
        lambda: _compile(routes={"relu": "probe"}),
        "the probe makes no plans",
        "while preparing weights",
        "probe_relu_0_plan of probe",
        "cases.py",
    )
    assert file in said, said


def case_a_plan_that_fails_in_a_call() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    compiled = _compile(routes={"relu": "probe"})
    _probe().probe_fail_after(0)
    wrong: list[Exception] = []
    begin = threading.Barrier(8)

    def work() -> None:
        begin.wait()
        for _ in range(20):
            try:
                compiled(torch.randn(32, 32))
            except Exception as error:
                wrong.append(error)

    every = [threading.Thread(target=work) for _ in range(8)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    assert wrong and all("relu (kernel probe_relu_0 of probe" in str(error) for error in wrong), wrong[:1]
    _probe().probe_fail_after(-1)
    x = torch.randn(32, 32)
    assert torch.equal(compiled(x), torch.relu(x))  # the next call is unaffected


# Handles --------------------------------------------------------------------------------------------------------------


def case_eight_threads_compiled() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    for options in ({}, {"emit": "python"}, {"fast_path": False}):
        probe = _probe()
        before = probe.probe_handles()
        compiled = _compile(routes={"relu": "probe"}, threads=1, **options)
        assert _backends(compiled) == ["probe"]
        assert "sl_exclusive_run" in compiled.code or "emit" in options
        assert probe.probe_handles() == before + 1
        _called_at_once(compiled)
        assert before + 1 <= probe.probe_handles() <= before + 8
        made = probe.probe_plans()
        for _ in range(20):
            compiled(torch.randn(32, 32))  # a steady state plans nothing
        assert probe.probe_plans() == made
        del compiled
        assert probe.probe_handles() == before


def case_a_size_that_the_call_brings() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    rows = torch.export.Dim("rows", min=1, max=64)
    compiled = sl.compile(_model, (torch.randn(8, 32),), dynamic_shapes=({0: rows},), routes={"relu": "probe"})
    for count in (1, 7, 64):
        x = torch.randn(count, 32)
        assert torch.equal(compiled(x), torch.relu(x))
    _called_at_once(compiled)


def case_several_sets_of_weights() -> None:
    sl.load_backend(_PROBES / "libprobe.so")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(32, 32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) * self.weight

    model, x = Model().eval(), torch.randn(32, 32)
    compiled = sl.compile(model, (x,), routes={"relu": "probe"})
    other = compiled.with_parameters({"weight": torch.ones(32, 32)})
    assert torch.equal(other(x), torch.relu(x))
    assert _probe().probe_handles() == 2
    del compiled
    assert torch.equal(other(x), torch.relu(x))
    assert _probe().probe_handles() == 1


def case_a_saved_model() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    compiled = _compile(routes={"relu": "probe"})
    path = _FOLDER / "m.sl"
    _raises(sl.errors.UnsupportedError, lambda: compiled.save(path), "libraries=['probe']")
    compiled.save(path, libraries=["probe"])
    _called_at_once(sl.load(path))
    own = {**os.environ, "STRAIGHTLINE_BACKEND_PATH": ""}
    code = f"""
import straightline as sl, torch
try:
    sl.load({str(path)!r})
except sl.errors.UnsupportedError as error:
    assert "calls kernels of the backend 'probe', which is not here" in str(error), error
    assert "STRAIGHTLINE_BACKEND_PATH" in str(error) and "load_backend" in str(error), error
else:
    raise AssertionError
"""
    _python(code, own)
    call = f"import straightline as sl, torch; x = torch.randn(32, 32); assert torch.equal(sl.load({str(path)!r})(x), x.relu())"
    _python(call, {**own, "STRAIGHTLINE_BACKEND_PATH": str(_PROBES / "libprobe.so")})
    _python(f"import straightline as sl; sl.load_backend({str(_PROBES / 'libprobe.so')!r})\n{call}", own)


def _python(code: str, environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def case_a_linked_library() -> None:
    from straightline.library_writer import write

    sl.load_backend(_PROBES / "libprobe.so")
    compiled = _compile(routes={"relu": "probe"})
    _raises(
        sl.errors.UnsupportedError,
        lambda: write(compiled, _FOLDER / "sources", "c-source", "relu", libraries=["probe"]),
        "c-source cannot call kernels of the backend 'probe'",
        "nearest supported form: shared-lib",
    )
    write(compiled, _FOLDER / "librelu.so", "shared-lib", "relu", libraries=["probe"])
    runtime = ctypes.CDLL(str(Path(sl.__file__).parent / "libstraightline_runtime.so"))
    linked = ctypes.c_char.in_dll(ctypes.CDLL(str(_FOLDER / "librelu.so")), "sl_model_relu")
    model, message = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    status = runtime.sl_model_load_linked(ctypes.byref(linked), None, ctypes.byref(model), message)
    assert status == 0, message.value


def case_a_c_program() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    _compile(routes={"relu": "probe"}).save(_FOLDER / "m.sl", libraries=["probe"])
    x = torch.randn(32, 32)
    (_FOLDER / "in0").write_bytes(x.numpy().tobytes())
    (_FOLDER / "shapes").write_text("32 32\n")
    package = Path(sl.__file__).parent
    include = package.parents[1] / "include"
    source = Path(__file__).resolve().parents[1] / "artifacts/call.cpp"
    command = ["g++", "-std=c++20", "-O1", f"-I{include}", str(source), f"-L{package}", "-lstraightline_runtime"]
    command += [f"-Wl,-rpath,{package}", "-pthread", "-o", str(_FOLDER / "call")]
    subprocess.run(command, check=True)
    for path in ("", str(_PROBES / "libprobe.so")):
        own = {**os.environ, "STRAIGHTLINE_BACKEND_PATH": path}
        call = [str(_FOLDER / "call"), str(_FOLDER), "8"]  # 8 threads at once
        done = subprocess.run(call, capture_output=True, text=True, check=False, env=own)
        if path:
            assert done.returncode == 0, done.stdout + done.stderr
            assert (_FOLDER / "out0").read_bytes() == torch.relu(x).numpy().tobytes()
        else:
            said = done.stdout + done.stderr
            assert done.returncode != 0 and "sl_probe_relu" in said and "STRAIGHTLINE_BACKEND_PATH" in said, said


# Rules and the list of backends ---------------------------------------------------------------------------------------


def case_the_list_of_backends() -> None:
    sl.load_backend(_PROBES / "libprobe.so")
    listed = sl.backends()
    assert [each.name for each in listed][:2] == ["native", "cuda"]
    probe = listed["probe"]
    assert (probe.version, probe.file, probe.runs_on, probe.missing) == (
        "probe 1.2",
        str(_PROBES / "libprobe.so"),
        "cpu",
        "",
    )
    assert probe.kernels == {"relu": ("probe.relu",)} and not probe.emitted
    assert (
        listed["native"].emitted and "native.gemm" in listed["native"].kernels["linear"] and not listed["native"].file
    )
    assert listed["cudnn"].runs_on == "cuda" and (listed["cudnn"].missing or listed["cudnn"].version)
    assert "probe 1.2" in str(listed) and '"name": "probe"' in listed.json()
    _raises(sl.UserError, lambda: listed["none"], "there is no backend 'none'; there are native, cuda")


def case_default_rules_are_below_all_others() -> None:
    sl.load_backend(_PROBES / "libdefaults.so")
    assert str(sl.routes()) == "relu = eager.relu (default rules of eager:1)"
    assert sl.backends()["eager"].missing == "its chip is missing"
    assert _backends(_compile()) == ["eager"]
    assert _backends(_compile(routes={"relu": "native"})) == ["native"]
    assert _backends(_compile(routes={"*": "native"})) == ["native"], "another source comes first, whatever the rank"
    row = next(row for row in _compile().routes().rows if row["phase"] == "run")
    assert row["rule"] == "relu = eager.relu (default rules of eager:1)"


def case_default_rules_that_name_no_op_of_a_model() -> None:
    sl.load_backend(_PROBES / "libdefaults.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.compile(torch.sin, (torch.randn(3),))
    with pytest.warns(sl.RouteWarning, match="names no op of the model"):
        sl.compile(torch.sin, (torch.randn(3),), routes={"relu": "native"})


def case_default_rules_to_torchs_ops() -> None:
    sl.load_backend(_PROBES / "libtorchs.so")
    assert str(sl.routes()) == "sin = aten (default rules of eager:1)"
    assert _backends(sl.compile(torch.sin, (torch.randn(3),))) == ["aten"]


def case_default_rules_that_are_none() -> None:
    sl.load_backend(_PROBES / "libdefaults_bad.so")
    _raises(sl.UserError, _compile, "default rules of eager:3: 'relu eager' is no rule")
    _raises(sl.UserError, sl.routes, "default rules of eager:3: 'relu eager' is no rule")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
