# SPDX-License-Identifier: Apache-2.0
"""Where a program of ONNX, JAX or Paddle runs, and its parameters there. Arrays are of any framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from straightline import _complex, _devices, _frameworks, _targets
from straightline.errors import UnsupportedError, UserError
from straightline.mlir_model import DTYPES
from straightline.options import CompileOptions


def of_arrays(chosen: CompileOptions, arrays: Iterable[Any]) -> tuple[str, int]:
    """Where the program runs ("cpu", "cuda:sm_NN", "NAME") and the number: where the examples are, or as the target says.

    Raises:
        UserError: There is no such target, examples are elsewhere, or an option means nothing there.
    """
    plugin = _devices.place_of((), chosen.target)
    if plugin is not None:
        _targets.check_options(tune=chosen.tune, place=plugin, tensors=())
        chosen.check(plugin)
        return plugin, 0
    arrays = list(arrays)
    numbers = [(i, number) for i, array in enumerate(arrays, 1) if (number := number_on_cuda(array)) is not None]
    if chosen.target in (None, "cpu") and not numbers:
        chosen.check("cpu")
        return "cpu", 0
    if chosen.target == "cpu":
        raise UserError(
            f"target is 'cpu' but example {numbers[0][0]} is on cuda: give examples on the cpu, or leave target out"
        )
    first = next((number for _, number in numbers), 0)
    for place, number in numbers:
        if number != first:
            raise UserError(
                f"example {numbers[0][0]} is on cuda:{first} but example {place} is on cuda:{number}: "
                "a program runs on one device"
            )
    if _frameworks.installed_torch() is None:
        raise UserError("a CUDA device needs torch, for tensors there: pip install 'straightline[torch]'")
    place = _targets.chosen(chosen.target or "cuda", (), first)
    chosen.check(place)
    if chosen.tune and not numbers:
        raise UserError(
            f"tune=True measures on the device, but the target is {place} and the examples are on the cpu: "
            "give them on a device"
        )
    _targets.open_compiler()
    return place, first


def number_on_cuda(array: Any) -> int | None:
    """The number of the CUDA device that an array of torch, JAX or Paddle is on; None where it is on none.

    Raises:
        UnsupportedError: It is an array of JAX on a platform that is neither.
    """
    if hasattr(array, "sharding"):  # JAX
        devices = list(getattr(array.sharding, "device_set", ()))
        if len(devices) == 1 and devices[0].platform == "gpu":
            return int(devices[0].local_hardware_id or 0)
        if len(devices) == 1 and devices[0].platform != "cpu":
            raise UnsupportedError(
                f"an example is on {devices[0].platform}; nearest supported form: an array on the cpu or on cuda"
            )
        return None
    device = getattr(array, "device", None)
    if getattr(device, "type", "") == "cuda":
        return int(getattr(device, "index", None) or 0)
    place = getattr(array, "place", None)  # Paddle
    if hasattr(place, "is_gpu_place") and place.is_gpu_place():
        return int(place.gpu_device_id())
    return None


def placed(
    parameters: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], place: str, number: int
) -> Mapping[str, Any]:
    """Arrays as the program reads them: as tensors of torch on its CUDA device, where that is here; else as they are.

    Args:
        parameters: Arrays by name.
        rows: What the module declares of them.
        place: Where it runs.
        number: The device's.
    """
    if not place.startswith("cuda") or _targets.why_no_device(place, number):
        return parameters
    import numpy as np
    import torch

    moved = {}
    for row in rows:
        given = _complex.real(parameters[row["name"]])
        dtype = getattr(torch, DTYPES.get(row["type"], row["type"]))
        array = np.ascontiguousarray(given.numpy() if hasattr(given, "numpy") else given)
        if array.size == 0:
            moved[row["name"]] = torch.empty(array.shape, dtype=dtype, device=f"cuda:{number}")
            continue
        flat = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
        moved[row["name"]] = flat.to(f"cuda:{number}").view(dtype).reshape(array.shape)
    return moved
