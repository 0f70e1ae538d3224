# SPDX-License-Identifier: Apache-2.0
"""What is saved and loaded is the function that it was: results, structures, parameters, texts."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import straightline as sl
import torch
from policy import same_bits
from straightline import _compiler, library_writer
from saved_cases import CASES, Pair, Point, Structures, copy_of, mlp
from torch import Tensor, nn


def _same(a: Any, b: Any) -> None:
    """The same structure with the same bits."""
    flat_a, spec_a = torch.utils._pytree.tree_flatten(a)
    flat_b, spec_b = torch.utils._pytree.tree_flatten(b)
    assert spec_a == spec_b
    for x, y in zip(flat_a, flat_b, strict=True):
        assert type(x) is type(y)
        if isinstance(x, Tensor):
            assert x.dtype == y.dtype and x.stride() == y.stride() and same_bits(x, y)
        elif isinstance(x, np.ndarray):
            assert x.dtype == y.dtype and x.tobytes() == y.tobytes()
        else:
            assert x == y


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str, tmp_path: Path) -> None:
    make, inputs, options = CASES[name]
    model = make().eval()
    args = inputs()
    function = sl.compile(model, args, **options)
    function.save(tmp_path / "m.sl", ("host",))
    loaded = sl.load(tmp_path / "m.sl", verify=True)
    for _ in range(3):
        args = inputs()
        _same(function(*copy_of(args)), loaded(*copy_of(args)))


@torch.no_grad()
@pytest.mark.parametrize("name", ["mlp", "convolutions", "bfloat16", "states", "views"])
def test_prepared(name: str, tmp_path: Path) -> None:
    make, inputs, options = CASES[name]
    function = sl.compile(make().eval(), inputs(), **options)
    function.save(tmp_path / "m.sl", ("host",), prepared=True)
    has = any(n.endswith("prepared.bin") for n in zipfile.ZipFile(tmp_path / "m.sl").namelist())
    assert has == (function.explain()["prepared_bytes"] > 0)
    loaded = sl.load(tmp_path / "m.sl")
    args = inputs()
    _same(function(*copy_of(args)), loaded(*copy_of(args)))


def test_a_folder_and_two_saves(tmp_path: Path) -> None:
    x = torch.randn(2, 16)
    function = sl.compile(mlp().eval(), (x,))
    function.save(tmp_path / "a.sl")
    function.save(tmp_path / "b.sl")
    assert (tmp_path / "a.sl").read_bytes() == (tmp_path / "b.sl").read_bytes()
    archive = zipfile.ZipFile(tmp_path / "a.sl")
    for info in archive.infolist():
        assert info.compress_type == zipfile.ZIP_STORED
        with archive.open(info):
            pass
        header = (tmp_path / "a.sl").read_bytes()[info.header_offset : info.header_offset + 30]
        begin = (
            info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        )
        assert begin % 4096 == 0, info.filename
    archive.extractall(tmp_path / "folder")
    _same(function(x), sl.load(tmp_path / "folder", verify=True)(x))


def test_the_weights_are_a_safetensors_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = CASES["convolutions"][0]().eval()
    sl.compile(model, (torch.randn(1, 3, 16, 16),)).save(tmp_path / "m.sl")
    zipfile.ZipFile(tmp_path / "m.sl").extract("weights.safetensors", tmp_path)
    found = safetensors.load_file(tmp_path / "weights.safetensors")
    for name, tensor in found.items():
        assert torch.equal(tensor, model.state_dict()[name])
    assert "0.weight" in found


def test_named_sizes_and_several_examples(tmp_path: Path) -> None:
    model = mlp().eval()
    sized = sl.compile(model, (torch.randn(3, 16),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    sized.save(tmp_path / "sized.sl", ("host",))
    loaded = sl.load(tmp_path / "sized.sl")
    for batch in (1, 2, 64):
        x = torch.randn(batch, 16)
        _same(sized(x), loaded(x))
    for function in (sized, loaded):
        with pytest.raises(sl.GuardError) as caught:
            function(torch.randn(65, 16))
        assert str(caught.value) == (
            "input 'input': dim 0 is 65 but this program was compiled for batch in [1, 64]; "
            "pass an example of this size or a torch.export.Dim with a larger max to sl.compile"
        )
    loaded.specialize({"batch": 2})
    x = torch.randn(2, 16)
    torch.testing.assert_close(loaded(x), sized(x))
    assert loaded.explain().programs[-1]["specialized"] == {"batch": 2}

    several = sl.compile(model, [(torch.randn(1, 16),), (torch.randn(4, 16),)])
    several.save(tmp_path / "several.sl", ("host",))
    loaded = sl.load(tmp_path / "several.sl")
    assert loaded.examples == several.examples
    for batch in (1, 4):
        x = torch.randn(batch, 16)
        _same(several(x), loaded(x))
    with pytest.raises(sl.GuardError):
        loaded(torch.randn(2, 16))


def test_texts_and_facts(tmp_path: Path) -> None:
    function = sl.compile(mlp().eval(), (torch.randn(2, 16),))
    function.save(tmp_path / "m.sl", ("host",))
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.code == function.code
    assert loaded.ir("op") == function.ir("op")
    assert loaded.ir("op", locations=True) == function.ir("op", locations=True)
    assert loaded.ir("kernel", locations=True) == function.ir("kernel", locations=True)
    assert loaded.explain().statements == function.explain().statements
    assert [entry.name for entry in loaded.kernels.native] == [entry.name for entry in function.kernels.native]


def test_parameters(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model, other = mlp().eval(), mlp().eval()
    x = torch.randn(2, 16)
    function = sl.compile(model, (x,))
    function.save(tmp_path / "m.sl", ("host",), prepared=True)
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.parameters().keys() == function.parameters().keys()
    for name, tensor in loaded.parameters().items():
        assert torch.equal(tensor, model.state_dict()[name])
    second = loaded.with_parameters(other.state_dict())
    expected = function.with_parameters(other.state_dict())(x)
    _same(second(x), expected)
    _same(loaded(x), function(x))
    safetensors.save_file(other.state_dict(), tmp_path / "other.safetensors")
    loaded.load_parameters(tmp_path / "other.safetensors")
    _same(loaded(x), expected)
    loaded.load_parameters({"0.bias": model.state_dict()["0.bias"], **other.state_dict()})
    with pytest.raises(sl.UserError, match="missing: '0.weight'"):
        loaded.load_parameters({"0.bias": torch.zeros(32)})


def test_saved_again(tmp_path: Path) -> None:
    x = torch.randn(2, 16)
    sl.compile(mlp().eval(), (x,)).save(tmp_path / "a.sl", ("x86-64-v3",))
    sl.load(tmp_path / "a.sl").save(tmp_path / "b.sl", ("x86-64-v3",))
    _same(sl.load(tmp_path / "a.sl")(x), sl.load(tmp_path / "b.sl")(x))


def test_levels(tmp_path: Path) -> None:
    """A machine takes the code with most features that it has."""
    x = torch.randn(2, 16)
    sl.compile(mlp().eval(), (x,)).save(tmp_path / "m.sl", ("x86-64", "x86-64-v2", "x86-64-v3"))
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.explain()["target"].startswith("x86-64")
    assert "x86-64-v3" in loaded.code.splitlines()[0]


def test_host_says_the_features_that_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its name stands for fewer, as a virtual machine may give it."""
    real = _compiler.cpu_features
    name, features = real("host")

    def disguised(cpu: str) -> tuple[str, list[str]]:
        return (name, features) if cpu == "host" else real("x86-64-v3" if cpu == name else cpu)

    monkeypatch.setattr(_compiler, "cpu_features", disguised)
    function = sl.compile(mlp().eval(), (torch.randn(2, 16),))
    function.save(tmp_path / "m.sl", ("host", "x86-64-v3", name))
    manifest = json.loads(zipfile.ZipFile(tmp_path / "m.sl").read("manifest.json"))
    variants = {variant["cpu"]: variant["features"] for variant in manifest["programs"][0]["variants"]}
    assert variants == {name: features, "x86-64-v3": real("x86-64-v3")[1]}
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded._binding.cpu(_compiler) == "host"
    assert loaded._binding.compiled_with(emit_only=True).code == function.code
    wrong = dataclasses.replace(loaded._binding, features=tuple(features[1:]))
    assert wrong.cpu(_compiler) == name  # another machine of this name


def test_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.random.randn(4, 3).astype("float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 4])],
        [helper.make_tensor_value_info("y", 1, ["n", 3])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    function = sl.compile(model)
    function.save(tmp_path / "m.sl", ("host",))
    loaded = sl.load(tmp_path / "m.sl")
    x = np.random.randn(5, 4).astype("float32")
    _same(function(x), loaded(x))


def test_classes_are_not_imported(tmp_path: Path) -> None:
    """A file names classes; reading it imports no module."""
    model = Structures()
    args = (Point(torch.randn(3), torch.randn(3)), {"factor": 3.0})
    sl.compile(model, args).save(tmp_path / "m.sl")
    modules = dict(sys.modules)
    try:
        del sys.modules[Point.__module__]
        with pytest.raises(sl.UserError, match="class Point of the module .*types="):
            sl.load(tmp_path / "m.sl")
        with pytest.raises(sl.UserError, match="class Pair of the module .*types="):
            sl.load(tmp_path / "m.sl", types=(Point,))
        loaded = sl.load(tmp_path / "m.sl", types=(Point, Pair))
    finally:
        sys.modules.update(modules)
    assert torch.equal(loaded(*args)["a"].total, model(*args)["a"].total)


def test_without_torch_or_a_compiler(tmp_path: Path) -> None:
    """A process that may import neither runs it, and saves nothing."""
    x = np.random.randn(2, 16).astype("float32")
    function = sl.compile(mlp().eval(), (torch.from_numpy(x),))
    function.save(tmp_path / "m.sl", ("host",))
    np.save(tmp_path / "x.npy", x)
    script = """
import sys
for name in ("torch", "straightline._compiler", "onnx", "rich"):
    sys.modules[name] = None
import numpy as np
import straightline.artifact as artifact
f = artifact.load(sys.argv[1] + "/m.sl", threads=1)
np.save(sys.argv[1] + "/y.npy", f(np.load(sys.argv[1] + "/x.npy")))
print(sorted(f.parameters()), f.ir("kernel")[:10], len(f.code) > 1000)
try:
    f.specialize({})
except Exception as error:
    print(type(error).__name__)
"""
    environment = {**os.environ, "STRAIGHTLINE_ONLY_RUNTIME": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), function(torch.from_numpy(x)).numpy())
    assert "['0.bias', '0.weight', '2.bias', '2.weight']" in done.stdout


def test_what_has_no_form_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(sl.UnsupportedError, match="aten"):
        sl.compile(lambda x: torch.linalg.eigvalsh(x), (torch.eye(3),)).save(tmp_path / "m.sl")
    assert os.listdir(tmp_path) == []
    function = sl.compile(lambda x: torch.linalg.eigvalsh(x), (torch.eye(3),))
    function.save(tmp_path / "m.sl", libraries=("aten",))
    x = torch.randn(3, 3)
    x = x + x.T
    torch.testing.assert_close(sl.load(tmp_path / "m.sl")(x), torch.linalg.eigvalsh(x))


def test_python_text_of_each_cpu(tmp_path: Path) -> None:
    """Kernels and the order of weights differ between CPUs, and so does the text that calls them."""
    model, x = mlp().eval(), torch.randn(2, 16)
    function = sl.compile(model, (x,), emit="python")
    function.save(tmp_path / "m.sl")
    archive = zipfile.ZipFile(tmp_path / "m.sl")
    texts = {
        cpu: gzip.decompress(archive.read(f"programs/0/{cpu}/source.py.gz")).decode()
        for cpu in ("x86-64-v3", "x86-64-v4")
    }
    for cpu, text in texts.items():
        assert text == function._binding.compiled_with(cpu=cpu, emit_only=True).python
        function.save(tmp_path / "one.sl", (cpu,))
        if sl.load(tmp_path / "m.sl")._binding.request["cpu"] in ("x86-64-v3", cpu):  # else this machine cannot run it
            one = sl.load(tmp_path / "one.sl")
            plain = sl.compile(model, (x,), cpu=cpu)
            assert one.code == text and torch.equal(one(x), plain(x))
    assert texts["x86-64-v3"] != texts["x86-64-v4"]


def test_replaced_python_text(tmp_path: Path) -> None:
    """What was put in place of the text is what a file does: from Python, for this CPU; C says so."""
    function = sl.compile(mlp().eval(), (x := torch.randn(2, 16),), emit="python")
    function.code += "\n# ours\n"
    with pytest.raises(sl.UnsupportedError, match=r"code was replaced.*cpus=\('host',\)"):
        function.save(tmp_path / "m.sl")
    function.save(tmp_path / "m.sl", ("host",))
    loaded = sl.load(tmp_path / "m.sl")
    assert loaded.code == function.code and torch.equal(loaded(x), function(x))
    loaded.save(tmp_path / "again.sl", ("host",))
    assert sl.load(tmp_path / "again.sl").code == function.code
    with pytest.raises(sl.UnsupportedError, match="code was replaced"):
        loaded.save(tmp_path / "m.sl")
    with pytest.raises(sl.UnsupportedError, match="a library has the C"):
        library_writer.write(function, tmp_path / "libm.so", "shared-lib", None, ("host",))


def test_bad_arguments(tmp_path: Path) -> None:
    function = sl.compile(mlp().eval(), (torch.randn(2, 16),))
    for given, words in (
        ({"cpus": "x86-64-v3"}, "cpus is 'x86-64-v3'"),
        ({"cpus": ()}, "cpus is ()"),
        ({"cpus": ("z80",)}, "z80"),
        ({"libraries": "aten"}, "libraries is 'aten'"),
    ):
        with pytest.raises(sl.UserError) as caught:
            function.save(tmp_path / "m.sl", **given)
        assert words in str(caught.value)
    with pytest.raises(sl.UserError, match="No such file"):
        function.save(tmp_path / "nowhere" / "m.sl")
    (tmp_path / "is_a_folder").mkdir()
    with pytest.raises(sl.UserError, match="cannot write"):
        function.save(tmp_path / "is_a_folder")
    assert sorted(os.listdir(tmp_path)) == ["is_a_folder"]
    function.save(tmp_path / "m.sl")
    for given in ({"device": "moon"}, {"threads": 0}, {"threads": True}):
        with pytest.raises(sl.UserError):
            sl.load(tmp_path / "m.sl", **given)
    with pytest.raises(sl.UnsupportedError, match="another kind of device"):
        sl.load(tmp_path / "m.sl", device="cuda")
    manifest = json.loads(zipfile.ZipFile(tmp_path / "m.sl").read("manifest.json"))
    assert manifest["format"] == 1


def _files_of_code() -> dict[int, os.stat_result]:
    """The files of programs' code that this process holds, by inode (numbers that the kernel gives out of order)."""
    # Names of descriptors that close meanwhile are not there.
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists() and "memfd:" in os.readlink(link)]
    return {found.st_ino: found for found in (link.stat() for link in links if "code.so" in os.readlink(link))}


def test_relocations_that_were_applied_take_no_memory(tmp_path: Path) -> None:
    """A model's code is private to each process; the fifth of it that says what to relocate is given back once it is loaded."""
    layers = [nn.Linear(8, 8) for _ in range(24)]
    x = torch.randn(3, 8)
    function = sl.compile(nn.Sequential(*layers).eval(), (torch.randn(3, 8),))
    function.save(tmp_path / "deep_code.sl", ("host",))
    before = _files_of_code()
    loaded = sl.load(tmp_path / "deep_code.sl")
    (code,) = (found for file, found in _files_of_code().items() if file not in before)
    assert code.st_blocks * 512 <= code.st_size - 4096  # two pages at least, and the last one is not full
    assert torch.equal(loaded(x), function(x))
    kernel = next(row["kernel"] for row in function.explain().statements if row["kernel"])
    assert loaded.machine_code(kernel) == function.machine_code(kernel)
