# SPDX-License-Identifier: Apache-2.0
"""What a program is compiled for: this machine's CPU, a CUDA device, which need not be there, or a device of a plug-in."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from straightline import _call, _devices
from straightline.errors import UserError

#: Where NVIDIA's wheels keep the run-time compiler, under any folder of the namespace package `nvidia`.
_WHEELS = (
    "cu13/lib/libnvrtc.so.13",
    "cuda_nvrtc/lib/libnvrtc.so.13",
    "cuda_nvrtc/lib/libnvrtc.so.12",
)

#: The first architecture with a form of its own ("sm_90a"), and with one for its family ("sm_100f"):
#: passes/targets/cuda/architecture.h.
_FIRST_WITH = {"a": 90, "f": 100}


def number_of(tensors: Iterable[Any]) -> int:
    """The number of the device on which the example inputs are; 0 where none is on one.

    Raises:
        UserError: They are on two.
    """
    import torch

    tensors = list(tensors)
    if any(map(_devices.is_there, tensors)):
        return _devices.number_of(tensors)
    first = None
    for i, tensor in enumerate(tensors, 1):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
            continue
        if first is None:
            first = (i, tensor.device)
        elif tensor.device != first[1]:
            raise UserError(
                f"example tensor {first[0]} is on {first[1]} but example tensor {i} is on {tensor.device}: "
                "a program runs on one device"
            )
    return (first[1].index or 0) if first is not None else 0


def chosen(target: object, tensors: Iterable[Any], number: int) -> str:
    """The target as "cpu", "cuda:sm_NN" or the device of a plug-in ("NAME", "NAME:MACHINE").

    Args:
        target: What the user gave; None: where the tensors are.
        tensors: The example inputs, or what stands for them (`stand_ins`).
        number: The device on which they are.

    Raises:
        UserError: There is no such target, or the inputs are elsewhere.
    """
    import torch

    tensors = list(tensors)
    plugin = _devices.place_of(tensors, target)
    if plugin is not None:
        return plugin
    devices = {tensor.device.type for tensor in tensors if isinstance(tensor, torch.Tensor)}
    if target is None:
        target = "cuda" if "cuda" in devices else "cpu"
    if target == "cpu":
        if "cuda" in devices:
            raise UserError(
                "target is 'cpu' but an example input is on cuda: give inputs on the cpu, or leave target out"
            )
        return "cpu"
    if target == "cuda":
        if not torch.cuda.is_available():
            raise UserError(
                "target is 'cuda' but torch finds no device: name one to compile for it anywhere, such as 'cuda:sm_90'"
            )
        major, minor = torch.cuda.get_device_capability(number)
        return f"cuda:sm_{major}{minor}"
    named = re.fullmatch(r"cuda:sm_([0-9]{2,3})([a-z]?)", target) if isinstance(target, str) else None
    if named is None:
        others = "".join(f", '{name}'" for name in _devices.names())
        raise UserError(
            f"target is {target!r} but must be None, 'cpu', 'cuda'{others} or 'cuda:sm_NN', such as 'cuda:sm_90'"
        )
    number, suffix = int(named[1]), named[2]
    if suffix and (suffix not in _FIRST_WITH or number < _FIRST_WITH[suffix]):
        others = [f"'cuda:sm_{number}{letter}'" for letter, first in _FIRST_WITH.items() if number >= first]
        valid = " or ".join([f"'cuda:sm_{number}'", *others])
        rule = " and ".join(f"'{letter}' (from sm_{first} on)" for letter, first in _FIRST_WITH.items())
        raise UserError(
            f"target is {target!r} but sm_{number} has no form '{suffix}': give {valid}; suffixes are {rule}"
        )
    return target


def stand_ins(model: Any) -> list[Any]:
    """The tensors that name the device of a call: an exported program's example, else the model's own; there may be none."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        given = torch.utils._pytree.tree_leaves(model.example_inputs or ())
        return [x for x in given if isinstance(x, torch.Tensor)] or list(model.state_dict.values())
    return list(model.parameters()) + list(model.buffers()) if isinstance(model, torch.nn.Module) else []


def tf32() -> str:
    """Which products of float32 torch lets a device round to TF32, for the pipeline: "convolution+matmul", or a part, or "".

    torch's own defaults are convolutions only.
    """
    import torch

    def allows(backend: Any, settings: Any) -> bool:
        try:
            return bool(backend.allow_tf32)
        except RuntimeError:  # the newer settings were used, and torch refuses to answer by the older ones
            return getattr(settings, "fp32_precision", "ieee") == "tf32"

    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    kinds = (("convolution", cudnn, getattr(cudnn, "conv", None)), ("matmul", matmul, matmul))
    return "+".join(kind for kind, backend, settings in kinds if allows(backend, settings))


def _is_on_cuda(tensor: Any) -> bool:
    return getattr(getattr(tensor, "device", None), "type", "cpu") == "cuda"


def check_options(*, tune: bool, place: str, tensors: Iterable[Any]) -> None:
    """Raises for options that mean nothing on a device of a plug-in, or on a CUDA device that is not here.

    Args:
        tune: Whether kernels are to be measured.
        place: The target, "cuda:sm_NN".
        tensors: The example inputs, or what stands for them.
    """
    if _devices.is_plugin(place):
        return  # its kernels are measured on device 0 of the plug-in, wherever the tensors are
    if tune and not any(map(_is_on_cuda, tensors)):
        raise UserError(
            f"tune=True measures on the device, but the target is {place} and the example inputs are on the cpu: "
            "give the model and its inputs on a device"
        )


def machine(number: int) -> str:
    """Returns what measured times depend on: the name of the CUDA device, and the versions of CUDA and cuDNN."""
    import torch

    return f"{torch.cuda.get_device_name(number)}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"


def open_compiler() -> None:
    """Loads NVIDIA's run-time compiler from its wheel, where there is one, so that it is found by name."""
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for name in _WHEELS:
            path = pathlib.Path(folder) / name
            if path.exists():
                ctypes.CDLL(str(path))
                return


@contextmanager
def apart(request: Mapping[str, Any]) -> Iterator[None]:
    """A block of a background thread that prepares a program of these options.

    On a device it works on a stream of its own, and does not disturb graphs that other threads capture meanwhile.
    """
    if not request["target"].startswith("cuda"):
        yield
        return
    import torch

    # cudaStreamCaptureModeRelaxed: what this thread does is no part of anybody's capture.
    mode = ctypes.c_int(2)
    exchange = ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    exchange(ctypes.byref(mode))
    try:
        with torch.cuda.device(request["device"]), torch.cuda.stream(torch.cuda.Stream(request["device"])):
            yield
            torch.cuda.current_stream().synchronize()
    finally:
        exchange(ctypes.byref(mode))


def settle(tensors: Iterable[Any]) -> None:
    """Waits until the current stream has written tensors on a CUDA device: calls may read them on any stream."""
    devices = {tensor.device for tensor in tensors if _is_on_cuda(tensor)}
    if devices:
        import torch

        for device in devices:
            torch.cuda.current_stream(device).synchronize()


def runs(target: str, major: int, minor: int) -> bool:
    """Whether a device takes machine code for `target`: one of its generation and no older (so with `f`); with `a` no other."""
    found = re.fullmatch(r"cuda:sm_(\d+)(\d)([a-z]?)", target)
    if found is None:
        return True
    return int(found[1]) == major and (int(found[2]) == minor if found[3] == "a" else int(found[2]) <= minor)


def why_no_device(target: str, number: int) -> str:
    """Why device `number` does not run machine code for a target ("cuda:sm_90") in this process; empty when it does."""
    if _devices.is_plugin(target):
        return ""
    missing = _call.cuda_missing()
    if missing:
        return missing
    import torch

    if number >= torch.cuda.device_count():
        return f"there is no device {number}, only {torch.cuda.device_count()}"
    major, minor = torch.cuda.get_device_capability(number)
    return "" if runs(target, major, minor) else f"device {number} is sm_{major}{minor}"


def why_not_here(tensors: dict[str, Any], target: str) -> str:
    """Why a program for a device cannot be called in this process; empty when it can.

    Args:
        tensors: Example inputs and parameters, by name.
        target: What it was compiled for: "cuda:sm_NN".

    Raises:
        UserError: Some of them are on a device and some are not, or they are on several.
    """
    if _devices.is_plugin(target):
        _devices.check_together(tensors)
        return ""
    away = [name for name, tensor in tensors.items() if tensor.device.type != "cuda"]
    if away and len(away) < len(tensors):
        here = next(name for name in tensors if name not in away)
        raise UserError(
            f"{here} is on cuda but {', '.join(away)} {'is' if len(away) == 1 else 'are'} not: move the model and its inputs"
        )
    here = {name: tensor.device for name, tensor in tensors.items() if name not in away}
    first = next(iter(here), "")
    for name, device in here.items():
        if device != here[first]:
            raise UserError(
                f"{first} is on {here[first]} but {name} is on {device}: move the model and its inputs to one device"
            )
    missing = _call.cuda_missing()
    if missing:
        return missing
    if away:
        return "its example tensors are on the cpu: compile with the model and its inputs on cuda"
    if not here:
        return ""
    import torch

    number = here[first].index or 0
    major, minor = torch.cuda.get_device_capability(number)
    return "" if runs(target, major, minor) else f"device {number} is sm_{major}{minor}"
