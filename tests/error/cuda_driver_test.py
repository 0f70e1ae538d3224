# SPDX-License-Identifier: Apache-2.0
"""What is said where NVIDIA's driver, the device or a library is missing, too old or full.

The driver is one made here, so no device is needed: it has every function that the runtime asks for, and does nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]

_DRIVER = """
#include <stdlib.h>
#include <string.h>
static int number(const char* name, int otherwise) { const char* text = getenv(name); return text ? atoi(text) : otherwise; }
/* NVRTC, which tells its version to a driver that is there, calls it without a look whether there is one. */
int cuGetExportTable(const void** table, const void* id) { *table = 0; return 500; }
int cuInit(unsigned flags) { return number("FAKE_INIT", 0); }
int cuDriverGetVersion(int* version) { *version = number("FAKE_VERSION", 12040); return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)64; return number("FAKE_RETAIN", 0); }
int cuCtxGetCurrent(void** context) { *context = 0; return 0; }
int cuGetErrorName(int error, const char** name) {
  *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 100 ? "CUDA_ERROR_NO_DEVICE"
        : error == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_OTHER";
  return 0;
}
int cuGetErrorString(int error, const char** text) { *text = "as it is"; return 0; }
int cuLibraryLoadData(void** library) { *library = (void*)64; return number("FAKE_LOAD", 0); }
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) { *address = 4096; return number("FAKE_ALLOCATE", 0); }
int cuStreamCreate(void** stream, unsigned flags) { *stream = (void*)64; return 0; }
"""

_PRELUDE = """
import torch, straightline as sl
from straightline import _call, _compiler

table = torch.randn(33)

def model(x):
    return torch.softmax(x * table, -1)

def program(number=0):
    compiled = sl.compile(model, (torch.randn(4, 33),), target="cuda:sm_90")
    module = _compiler.Module.parse(compiled.ir("op"))
    return _compiler.compile(module, target="cuda:sm_90", device=number).program

def said(work):
    try:
        work()
    except Exception as error:
        print(type(error).__name__ + ": " + str(error))
    else:
        print("nothing was refused")
"""

_WEIGHTS = "said(lambda: _call.weights(program(), []))"
_CALL = 'said(lambda: sl.compile(model, (torch.randn(4, 33),), target="cuda:sm_90")(torch.randn(4, 33)))'
_LINEAR = """
said(lambda: sl.compile(torch.nn.Linear(64, 64).eval(), (torch.randn(40, 64),), target="cuda:sm_90",
                        routes={"linear": "cublaslt"}))
"""
_CONVOLUTION = """
said(lambda: sl.compile(torch.nn.Conv2d(64, 64, 3).eval(), (torch.randn(1, 64, 8, 8),), target="cuda:sm_90",
                        routes={"convolution": "cudnn"}))
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 of all functions, and below it `older` with one that lacks a function."""
    header = (_ROOT / "runtime" / "backends" / "cuda" / "driver.h").read_text()
    symbols = re.findall(r"ENTRY\(\w+, (cu\w+),", header)
    assert len(symbols) > 40, symbols
    folder = tmp_path_factory.mktemp("driver")
    (folder / "older").mkdir()
    for place, omitted in ((folder, ""), (folder / "older", "cuLibraryLoadData")):
        text = _DRIVER if not omitted else "\n".join(line for line in _DRIVER.splitlines() if omitted not in line)
        text += "".join(f"int {s}() {{ return 0; }}\n" for s in symbols if f"int {s}(" not in text and s != omitted)
        (place / "cuda.c").write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", place / "libcuda.so.1", place / "cuda.c"], check=True)
    return folder


def _said(folder: Path, script: str, **settings: int) -> str:
    """What `script` prints beside the driver of `folder`. Nothing is cached: NVRTC itself runs beside it, whichever test is first."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        **{f"FAKE_{name}": str(v) for name, v in settings.items()},
    }
    environment["STRAIGHTLINE_CACHE_DIR"] = ""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PRELUDE + script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_no_driver(tmp_path: Path, driver: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("this is no library")
    text = _said(tmp_path, _CALL)
    assert text.startswith(
        "UnsupportedError: this program was compiled for cuda:sm_90 and cannot run here: NVIDIA's driver libcuda.so.1"
    )
    assert "cannot be opened" in text


def test_no_device(driver: Path) -> None:
    text = _said(driver, _CALL, INIT=100)
    assert text.startswith("UnsupportedError") and text.endswith(
        "finds no device: CUDA_ERROR_NO_DEVICE (100): as it is"
    ), text


def test_a_driver_that_is_too_old(driver: Path) -> None:
    assert _said(driver, _CALL, VERSION=11080).endswith("NVIDIA's driver is for CUDA 11.8 but 12.0 or newer is needed")
    assert _said(driver / "older", _CALL).endswith(
        "libcuda.so.1 has no cuLibraryLoadData: a driver of CUDA 12.0 or newer is needed"
    )


def test_with_a_device_the_tensors_are_missing(driver: Path) -> None:
    assert _said(driver, _CALL).endswith(
        "its example tensors are on the cpu: compile with the model and its inputs on cuda"
    )


def test_code_that_the_device_does_not_take(driver: Path) -> None:
    """Another architecture, with a driver that takes what this NVRTC makes."""
    text = _said(driver, _WEIGHTS, LOAD=209, VERSION=13050)
    assert re.fullmatch(
        r"DeviceError: kernel '\w+' cannot be loaded: CUDA_ERROR_NO_BINARY_FOR_GPU \(209\): as it is; "
        r"device 0 is sm_90, its driver is for CUDA 13\.5; the kernel was compiled by NVRTC \d+\.\d+; the program is for cuda:sm_90",
        text,
    ), text


@pytest.mark.parametrize("error", [200, 209, 222])
def test_an_nvrtc_of_a_newer_cuda_than_the_driver(error: int, driver: Path) -> None:
    """Both versions, and what to do about it."""
    text = _said(driver, _WEIGHTS, LOAD=error)
    made = re.search(
        r"its driver is for CUDA 12\.4; the kernel was compiled by NVRTC (\d+)\.\d+; such a driver may not take", text
    )
    assert made is not None and int(made[1]) > 12, text
    assert text.endswith(
        f"needs a driver of CUDA {made[1]} or an NVRTC of CUDA 12 (`pip install nvidia-cuda-nvrtc-cu12`, "
        "STRAIGHTLINE_NVRTC=<site-packages>/nvidia/cuda_nvrtc/lib/libnvrtc.so.12); the program is for cuda:sm_90"
    ), text


def test_a_driver_of_the_same_cuda_that_takes_no_such_code(driver: Path) -> None:
    text = _said(driver, _WEIGHTS, LOAD=222, VERSION=13000)
    assert text.endswith(
        "; the driver takes what an NVRTC of its own version makes (STRAIGHTLINE_NVRTC names one); the program is for cuda:sm_90"
    )


def test_memory_that_is_not_there(driver: Path) -> None:
    text = _said(driver, _WEIGHTS, ALLOCATE=2)
    assert re.fullmatch(
        r"\w*Memory\w*: out of memory: the prepared weights need \d+ bytes in 'cuda' of device 0", text
    ), text


def test_a_device_that_is_not_there(driver: Path) -> None:
    assert "there is no device 1: NVIDIA's driver has 1" in _said(driver, "said(lambda: _call.weights(program(1), []))")


def test_a_device_that_cannot_be_used(driver: Path) -> None:
    text = _said(driver, _WEIGHTS, RETAIN=2)
    assert "device 0 cannot be used: CUDA_ERROR_OUT_OF_MEMORY (2): as it is" in text, text


def test_cudnn_that_is_missing_beside_a_device(driver: Path) -> None:
    text = _said(driver, _CONVOLUTION)
    assert text.startswith("UserError") and "cuDNN is missing: libcudnn.so.9 cannot be opened" in text, text


def test_cublaslt_that_is_missing_beside_a_device(driver: Path) -> None:
    text = _said(driver, _LINEAR)
    assert text.startswith("UserError") and "route linear = cublaslt" in text, text
    assert "cuBLASLt is missing: neither libcublasLt.so.13 nor libcublasLt.so.12 can be opened" in text, text


def test_an_architecture_that_nvrtc_does_not_know(driver: Path) -> None:
    text = _said(driver, 'said(lambda: sl.compile(model, (torch.randn(4, 33),), target="cuda:sm_20"))')
    assert text.startswith("UnsupportedError") and "sm_20" in text, text
