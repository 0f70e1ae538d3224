# SPDX-License-Identifier: Apache-2.0
"""What a plug-in's kernel costs inside of a program, beside a call of its C function: `python bench/plugin_call.py`.

The kernel adds 16 floats. A program of 201 such statements is timed against one of a single statement, in turns; their
difference over 200 is one statement. The C function is called as often by a loop of the plug-in, through a pointer that the
compiler does not see through. One thread, the least of 7.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import straightline as sl
import torch

_MANY, _REPEATS, _CALLS = 200, 7, 2000

_PLUGIN = r"""
#include <stdlib.h>
#include <time.h>
#include "straightline/abi/kernel.h"

#define EXPORT __attribute__((visibility("default")))
typedef struct { int64_t count; } Plan;

EXPORT int32_t sl_NAME_plan(sl_ctx* ctx, const sl_problem* p, const void* const* constants, void** handle) {
  Plan* plan = malloc(sizeof *plan);
  plan->count = sl_operand_at(p, 0)->extents[0];
  *handle = plan;
  return SL_OK;
}
EXPORT void sl_NAME_plan_destroy(void* handle) { free(handle); }
EXPORT int32_t sl_NAME_add(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs, void* const* outputs,
                           void* workspace) {
  const int64_t count = ((const Plan*)handle)->count;
  const float *a = inputs[0], *b = inputs[1];
  float* c = outputs[0];
  for (int64_t i = 0; i < count; ++i) {
    c[i] = a[i] + b[i];
  }
  return SL_OK;
}
/* Nanoseconds of one call of the function. */
EXPORT double direct(int64_t calls) {
  int32_t (*volatile run)(sl_ctx*, sl_team, void*, const void* const*, void* const*, void*) = sl_NAME_add;
  Plan plan = {16};
  float a[16] = {1}, b[16] = {2}, c[16];
  const void* inputs[] = {a, b};
  void* outputs[] = {c};
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int64_t i = 0; i < calls; ++i) {
    run(NULL, (sl_team){NULL, 0, 1}, &plan, inputs, outputs, NULL);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)calls;
}
static int32_t accepts(const sl_problem* p, char* reason, size_t bytes) { return 1; }
static double cost(const sl_problem* p) { return 0.001; }
static const sl_calling_rule kRule = {.size = sizeof kRule};
static const sl_kernel_desc kKernels[] = {{
    .size = sizeof(sl_kernel_desc), .name = "NAME.add", .backend = "NAME", .op = "add", .family = "", .summary = "add",
    .accepts = accepts, .cost = cost, .plan_symbol = "sl_NAME_plan", .plan = (void*)sl_NAME_plan,
    .destroy = sl_NAME_plan_destroy, .run_symbol = "sl_NAME_add", .run = (void*)sl_NAME_add, .properties = PROPERTIES,
    .rule = &kRule}};
static const sl_backend_desc kBackend = {
    .size = sizeof kBackend, .abi_version = SL_KERNEL_ABI_VERSION, .name = "NAME", .kernels = kKernels, .kernel_count = 1,
    .kernel_stride = sizeof kKernels[0]};
EXPORT const sl_backend_desc* straightline_backend_v1(void) { return &kBackend; }
"""


def _built(folder: Path, name: str, properties: str) -> Path:
    source, library = folder / f"{name}.c", folder / f"lib{name}.so"
    source.write_text(_PLUGIN.replace("NAME", name).replace("PROPERTIES", properties))
    package = Path(sl.__file__).parent
    include = next(place for place in (package / "include", package.parents[1] / "include") if place.exists())
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
    return library


def _chain(count: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = x + y
        return x

    return function


def measure(name: str, properties: str, folder: Path) -> dict[str, float]:
    """Nanoseconds of a statement and of a call."""
    library = _built(folder, name, properties)
    sl.load_backend(library)
    direct = ctypes.CDLL(str(library)).direct
    direct.restype, direct.argtypes = ctypes.c_double, [ctypes.c_int64]
    x, y = torch.randn(16), torch.randn(16)
    one, many = (sl.compile(_chain(count), (x, y), routes={"add": name}, threads=1) for count in (1, 1 + _MANY))

    def timed(fn: Callable[..., object]) -> float:
        begin = time.perf_counter_ns()
        for _ in range(_CALLS):
            fn(x, y)
        return (time.perf_counter_ns() - begin) / _CALLS

    for fn in (one, many):
        timed(fn)
    turns = [(timed(one), timed(many), direct(_CALLS * _MANY)) for _ in range(_REPEATS)]
    least_one, least_many, least_direct = (min(column) for column in zip(*turns, strict=True))
    statement = (least_many - least_one) / _MANY
    return {"statement_ns": statement, "direct_ns": least_direct, "more_ns": statement - least_direct}


def main() -> None:
    """Prints the times as JSON."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {
            "one handle for all runs": measure("shared", "0", Path(folder)),
            "a handle for each run": measure("alone", "SL_KERNEL_EXCLUSIVE_HANDLE", Path(folder)),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
