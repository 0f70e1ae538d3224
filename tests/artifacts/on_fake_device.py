# SPDX-License-Identifier: Apache-2.0
"""A saved model on a CUDA device that is not there (bench/fake_cuda), as a process of its own: prints what was taken as JSON.

on_fake_device.py choose FILE: the variant that is chosen, and the machine code that sl_model_load hands to the driver.
on_fake_device.py linked LIBRARY: of a library with sl_model_m, the machine code that is handed to the driver, whole.
on_fake_device.py run FILE: also a run, kernel by kernel, and how many of its kernels may start early.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import straightline
from straightline import _artifact_tree, _call
from straightline.errors import StraightlineError

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.cuda_call_path import fake_tensors, on_device

_CUDA = 2  # DLDeviceType


class _Message(ctypes.Structure):
    """sl_message."""

    _fields_ = (("text", ctypes.c_char * 1024),)


def _by_c(path: str) -> dict[str, Any]:
    runtime = ctypes.CDLL(str(Path(straightline.__file__).parent / "libstraightline_runtime.so"))
    driver = ctypes.CDLL("libcuda.so.1")
    driver.fake_last_image.restype = ctypes.POINTER(ctypes.c_ubyte)
    model, message = ctypes.c_void_p(), _Message()
    status = runtime.sl_model_load(path.encode(), None, ctypes.byref(model), ctypes.byref(message))
    if status != 0:
        return {"model_error": message.text.decode()}
    return {"model_image": bytes(driver.fake_last_image()[:4]).hex()}


def _linked(path: str) -> dict[str, Any]:
    """What is loaded of a library: the cubin's header, or the text."""
    runtime = ctypes.CDLL(str(Path(straightline.__file__).parent / "libstraightline_runtime.so"))
    driver, library = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(path)
    driver.fake_last_image.restype = ctypes.c_void_p
    linked = ctypes.byref(ctypes.c_char.in_dll(library, "sl_model_m"))
    model, message = ctypes.c_void_p(), _Message()
    if runtime.sl_model_load_linked(linked, None, ctypes.byref(model), ctypes.byref(message)) != 0:
        return {"model_error": message.text.decode()}
    image = driver.fake_last_image()
    isText = ctypes.string_at(image, 4) != b"\x7fELF"
    return {"model_image": (ctypes.string_at(image) if isText else ctypes.string_at(image, 64)).hex()}


def _run(artifact: Any, manifest: dict[str, Any], number: int) -> dict[str, Any]:
    import torch

    tensors, driver = fake_tensors(), ctypes.CDLL("libcuda.so.1")
    facts = manifest["programs"][0]
    variant = facts["variants"][number]
    program = _call.artifact_program(artifact, 0, number, 0)
    shapes = {name: _call.artifact_tensor(artifact, name)[1] for name in variant["parameters"]}
    own = [on_device(tensors, torch.empty(shapes[name], dtype=torch.half)) for name in variant["parameters"]]
    reader = _artifact_tree.Reader(())
    inputs = tuple((row["name"], row["kind"], reader.node(row["node"])) for row in facts["inputs"])
    options = {"kind": "torch", "estimated_us": 0.0, "fast_path": True, "reuse_outputs": False, "launch": "stream"}
    weights = _call.weights(program, own, False, None)
    function = _call.Callable(program, weights, inputs, reader.node(facts["outputs"]), options)
    explained = json.loads(gzip.decompress(ctypes.string_at(*_call.artifact_entry(artifact, variant["explain"]))))
    x = on_device(tensors, torch.empty(explained["inputs"][0]["shape"], dtype=torch.half))
    function(x)
    early, launches = driver.fake_early(), _call.cuda_calls()["launches"]
    function(x)
    return {"early": driver.fake_early() - early, "launches": _call.cuda_calls()["launches"] - launches}


def main() -> None:
    """Runs the command."""
    what, path = sys.argv[1:]
    if what == "linked":
        print(json.dumps(_linked(path)))
        return
    artifact = _call.artifact_open(path, False)
    address, count = _call.artifact_entry(artifact, "manifest.json")
    manifest = json.loads(ctypes.string_at(address, count))
    answer: dict[str, Any] = {}
    try:
        number = _call.artifact_choose(artifact, 0, _CUDA, 0)
        answer["target"] = manifest["programs"][0]["variants"][number]["target"]
        if what == "run":
            answer |= _run(artifact, manifest, number)
    except StraightlineError as error:
        answer["error"] = str(error)
    print(json.dumps(answer | _by_c(path)))


if __name__ == "__main__":
    main()
