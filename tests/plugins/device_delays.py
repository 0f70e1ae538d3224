# SPDX-License-Identifier: Apache-2.0
"""`STRAIGHTLINE_BACKEND_PATH=LIB python tests/plugins/device_delays.py [--runs 1000] [--image 224]`: ResNet-18 on the simulated accelerator.

Each run has other random delays of the device's workers. The results are the same bits in all of them, and within the numeric
policy of float64; at the end the device has as many bytes as before.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import secrets
import time
from typing import Any

import straightline as sl
import torch
from straightline.demo_models import ResNet18
from straightline.testing.policy import check


def simulated() -> Any:
    """The functions of the opened plug-in that tests call (examples/backend_device/sim_device.h)."""
    library = ctypes.CDLL(sl.backends()["sim"].file)
    library.sim_device_live_bytes.restype = ctypes.c_int64
    library.sim_device_set_delay.argtypes = [ctypes.c_int64, ctypes.c_uint64]
    return library


def resnet18_under_delays(runs: int, image: int, seed: int) -> float:
    """Runs ResNet-18 at full width, from host memory; gives the seconds of a run.

    Args:
        runs: So many, each with other delays of up to 30 us an item.
        image: Height and width.
        seed: Of weights, input and delays.
    """
    library = simulated()
    gc.collect()
    before = [library.sim_device_live_bytes(number) for number in (0, 1)]
    torch.manual_seed(seed)
    model, x = ResNet18().eval(), torch.randn(1, 3, image, image)
    function = check(model, (x,), target="sim")
    expected = function(x)
    begin = time.perf_counter()
    try:
        for run in range(runs):
            library.sim_device_set_delay(30, seed + run + 1)
            assert torch.equal(function(x), expected), f"run {run} of seed {seed} gives other bits"
    finally:
        library.sim_device_set_delay(0, 1)
    seconds = (time.perf_counter() - begin) / runs
    held = library.sim_device_live_bytes(0) - before[0]
    assert held > 40 << 20, f"the device holds {held} bytes of ResNet-18"  # 11.7 million parameters
    del function
    gc.collect()
    after = [library.sim_device_live_bytes(number) for number in (0, 1)]
    assert after == before, f"the device has {after} bytes, {before} before"
    return seconds


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)  # noqa: T201
    seconds = resnet18_under_delays(given.runs, given.image, given.seed)
    print(f"{given.runs} runs of {seconds * 1e3:.1f} ms: the same bits; all bytes of the device are given back")  # noqa: T201


if __name__ == "__main__":
    main()
