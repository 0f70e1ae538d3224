# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM-FFI that launch on a device, and programs in programs there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from torch import Tensor, nn

tvm_ffi = pytest.importorskip("tvm_ffi")

_SOURCE = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  void* data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;
typedef struct {
  int32_t type;
  uint32_t small;
  union {
    int64_t integer;
    void* pointer;
  };
} Any;
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
void* TVMFFIEnvGetStream(int32_t device_type, int32_t device);
int TVMFFIEnvTensorAlloc(Tensor* like, void** out);
int TVMFFIObjectDecRef(void* object);
int TVMFFIFunctionGetGlobal(const void* name, void** out);
int TVMFFIFunctionCall(void* function, const Any* arguments, int32_t n, Any* result);

static const Tensor* tensor(const Any* any) {
  return any->type == 7 ? any->pointer : (const Tensor*)((const char*)any->pointer + 24);
}
static int64_t bytes(const Tensor* t) {
  int64_t all = t->bits / 8;
  for (int32_t d = 0; d < t->rank; ++d) all *= t->shape[d];
  return all;
}
static void* driver(const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name); }
static int copy(const Tensor* to, const Tensor* from) {
  int (*run)(uint64_t, uint64_t, size_t, void*) =
      (int (*)(uint64_t, uint64_t, size_t, void*))driver("cuMemcpyDtoDAsync_v2");
  return run((uint64_t)to->data + to->byte_offset, (uint64_t)from->data + from->byte_offset, bytes(from),
             TVMFFIEnvGetStream(from->device_type, from->device_id));
}

/// copied(Tensor(a!) out, Tensor x, bool fails) -> ()
int __tvm_ffi_copied(void* self, const Any* a, int32_t n, Any* result) {
  if (a[2].integer) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "it fails as asked");
    return -1;
  }
  return copy(tensor(&a[0]), tensor(&a[1]));
}
/// doubled(Tensor x) -> Tensor: through memory of the environment, twice
int __tvm_ffi_doubled(void* self, const Any* a, int32_t n, Any* result) {
  Tensor like = *tensor(&a[0]);
  void *first = NULL, *second = NULL;
  if (TVMFFIEnvTensorAlloc(&like, &first) || TVMFFIEnvTensorAlloc(&like, &second)) return -1;
  const Tensor *one = (Tensor*)((char*)first + 24), *two = (Tensor*)((char*)second + 24);
  if (copy(one, tensor(&a[0])) || copy(two, one)) return -1;
  TVMFFIObjectDecRef(first);
  result->type = 70;
  result->pointer = second;
  return 0;
}
/// numbers(Tensor(a!) ints, int locked, Tensor value, int count) -> int[count]: the bits of the value and what follows them,
/// which are also copied from scratch memory on the host to the device, as FlashInfer's plans are
int __tvm_ffi_numbers(void* self, const Any* a, int32_t n, Any* result) {
  const Tensor *ints = tensor(&a[0]), *locked = tensor(&a[1]), *value = tensor(&a[2]);
  if (value->device_type != 1 || locked->device_type != 1 || bytes(locked) != bytes(ints)) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "value and scratch are not on the host");
    return -1;
  }
  Any all[8];
  for (int64_t i = 0; i < a[3].integer; ++i) {
    all[i] = (Any){1, 0, {*(const unsigned*)value->data + i}};
  }
  for (int64_t i = 0; i < bytes(locked) / 4; ++i) {
    ((float*)locked->data)[i] = *(const float*)value->data + (float)i;
  }
  int (*run)(uint64_t, const void*, size_t, void*) =
      (int (*)(uint64_t, const void*, size_t, void*))driver("cuMemcpyHtoDAsync_v2");
  if (run((uint64_t)ints->data + ints->byte_offset, locked->data, (size_t)bytes(locked),
          TVMFFIEnvGetStream(ints->device_type, ints->device_id))) {
    return -1;
  }
  const struct { const char* data; size_t size; } name = {"ffi.Array", 9};
  void* array = NULL;
  if (TVMFFIFunctionGetGlobal(&name, &array)) return -1;
  const int failed = TVMFFIFunctionCall(array, all, (int32_t)a[3].integer, result);
  TVMFFIObjectDecRef(array);
  return failed;
}
/// taken(Tensor(a!) out, int[] numbers) -> (): fills with the first number's bits as a float
int __tvm_ffi_taken(void* self, const Any* a, int32_t n, Any* result) {
  const Tensor* out = tensor(&a[0]);
  const struct { const char* data; size_t size; } name = {"ffi.ArrayGetItem", 16};
  const Any place[2] = {a[1], {1, 0, {0}}};
  Any first = {0, 0, {0}};
  void* item = NULL;
  if (TVMFFIFunctionGetGlobal(&name, &item) || TVMFFIFunctionCall(item, place, 2, &first)) return -1;
  TVMFFIObjectDecRef(item);
  int (*run)(uint64_t, unsigned, size_t, void*) = (int (*)(uint64_t, unsigned, size_t, void*))driver("cuMemsetD32Async");
  return run((uint64_t)out->data + out->byte_offset, (unsigned)first.integer, (size_t)bytes(out) / 4,
             TVMFFIEnvGetStream(out->device_type, out->device_id));
}
/// filled(Tensor(a!) out, Tensor value) -> (): fills with a number that is read on the host
int __tvm_ffi_filled(void* self, const Any* a, int32_t n, Any* result) {
  const Tensor *out = tensor(&a[0]), *value = tensor(&a[1]);
  if (value->device_type != 1) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "the value is not on the host");
    return -1;
  }
  int (*run)(uint64_t, unsigned, size_t, void*) = (int (*)(uint64_t, unsigned, size_t, void*))driver("cuMemsetD32Async");
  return run((uint64_t)out->data + out->byte_offset, *(const unsigned*)value->data, (size_t)bytes(out) / 4,
             TVMFFIEnvGetStream(out->device_type, out->device_id));
}
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """torch.ops.tvm_device."""
    folder = tmp_path_factory.mktemp("tvm")
    (folder / "kernels.c").write_text(_SOURCE, encoding="ascii")
    place = Path(tvm_ffi.__file__).parent / "lib"
    command = [
        "gcc",
        "-O2",
        "-fPIC",
        "-shared",
        folder / "kernels.c",
        "-o",
        folder / "lib.so",
        f"-L{place}",
        "-ltvm_ffi",
        "-ldl",
    ]
    subprocess.run(command, check=True)
    made = sl.tvm_ffi_library(
        folder / "lib.so",
        {
            "copied": "tvm_device::copied(Tensor(a!) out, Tensor x, bool fails) -> ()",
            "doubled": "tvm_device::doubled(Tensor x) -> Tensor",
            "filled": "tvm_device::filled(Tensor(a!) out, Tensor value) -> ()",
            "numbers": "tvm_device::numbers(Tensor(a!) ints, int locked, Tensor value, int count) -> Tensor",
            "taken": "tvm_device::taken(Tensor(a!) out, Tensor numbers) -> ()",
        },
        device="cuda",
        workspace={"doubled": lambda x: x.numel() * x.element_size() + 64},
        plans={"filled": ["value"], "numbers": {"value": "copy", "locked": "scratch"}},
        numbers={"numbers": 3, "taken": ["numbers"]},
    )
    yield torch.ops.tvm_device
    for kernel in made.values():
        kernel.unregister()


class _Copied(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        out = torch.empty_like(y)
        torch.ops.tvm_device.copied(out, y, False)
        return out + 1


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_on_the_stream_of_a_call(ops: Any, launch: str) -> None:
    x = torch.randn(1000, device="cuda")
    fn = sl.compile(_Copied(), (x,), launch=launch)
    assert fn.explain()["launch"] == launch
    for _ in range(3):
        y = torch.randn_like(x)
        assert torch.equal(fn(y), y * 2 + 1)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        z = fn(y * 3)
    side.synchronize()
    assert torch.equal(z, y * 3 * 2 + 1)
    with sl.fast_path(False):
        assert torch.equal(fn(x), x * 2 + 1)
    assert torch.equal(sl.compile(_Copied(), (x,), launch=launch, emit="python")(x), x * 2 + 1)
    assert torch.equal(_Copied()(x), x * 2 + 1)  # in eager


def test_in_a_capture_of_the_callers(ops: Any) -> None:
    x = torch.randn(1000, device="cuda")
    fn = sl.compile(_Copied(), (x,))
    fn(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = fn(x)
    y.zero_()
    x.mul_(3)
    graph.replay()
    assert torch.equal(y, x * 2 + 1)


def test_saved(ops: Any, tmp_path: Path) -> None:
    x = torch.randn(1000, device="cuda")
    fn = sl.compile(_Copied(), (x,))
    fn.save(tmp_path / "m.sl")
    assert torch.equal(sl.load(tmp_path / "m.sl")(x), fn(x))


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_results_and_memory_of_the_environment(ops: Any, launch: str) -> None:
    """Later tensors of torch get no memory that a graph still writes."""
    x = torch.randn(1 << 16, device="cuda")
    fn = sl.compile(lambda x: ops.doubled(x) * 2, (x,), launch=launch)
    for _ in range(3):
        y = torch.randn_like(x)
        others = [torch.zeros_like(x) for _ in range(8)]
        assert torch.equal(fn(y), y * 2)
        assert not any(other.any() for other in others)
    assert torch.equal(ops.doubled(x), x)


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_a_plan_is_made_in_each_run(ops: Any, launch: str) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, value: Tensor) -> Tensor:
            out = torch.empty_like(x)
            ops.filled(out, value + 1)
            return (x + out).relu()

    x, value = torch.randn(500, device="cuda"), torch.zeros(1, device="cuda")
    fn = sl.compile(Model(), (x, value), launch=launch)
    for number in (3.0, 5.0, 7.5):
        value.fill_(number)  # the same address
        assert torch.equal(fn(x, value), (x + (number + 1)).relu())
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(sl.OpError, match="it plans on the host before each launch"), torch.cuda.graph(graph):
        fn(x, value)
    torch.cuda.synchronize()
    assert torch.equal(fn(x, value), (x + 8.5).relu())


class _Numbers(nn.Module):
    """Two launches with the numbers of one plan, kernels of ours around them."""

    def __init__(self, ops: Any, count: int = 3) -> None:
        super().__init__()
        self.ops, self.count = ops, count

    def forward(self, x: Tensor, value: Tensor) -> Tensor:
        ints = torch.empty(16, device=x.device)
        numbers = self.ops.numbers(ints, 64, value + 1, self.count)
        first, second = torch.empty_like(x), torch.empty(64, device=x.device)
        self.ops.taken(first, numbers)
        y = (x + first).relu()
        self.ops.taken(second, numbers)
        return y + second.sum() + ints.sum()


def _of_numbers(x: Tensor, value: float) -> Tensor:
    return (x + value + 1).relu() + 64 * (value + 1) + 16 * (value + 1) + 120


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_numbers_of_a_plan_reach_the_launches_of_each_run(ops: Any, launch: str, tmp_path: Path) -> None:
    x, value = torch.randn(500, device="cuda"), torch.zeros(1, device="cuda")
    model = _Numbers(ops)
    fn = sl.compile(model, (x, value), launch=launch)
    fn.save(tmp_path / "m.sl")
    calls = {
        "program": fn,
        "python": sl.compile(model, (x, value), launch=launch, emit="python"),
        "saved": sl.load(tmp_path / "m.sl"),
        "eager": model,
    }
    for number in (3.0, 5.0, 7.5, 3.0):
        value.fill_(number)
        for name, call in calls.items():
            torch.testing.assert_close(
                call(x, value), _of_numbers(x, number), msg=lambda text, name=name: f"{name}: {text}"
            )
        with sl.fast_path(False):
            torch.testing.assert_close(fn(x, value), _of_numbers(x, number))
    results = []
    for number in range(20):  # without a wait between them
        value.fill_(float(number))
        results.append(fn(x, value))
    for number, result in enumerate(results):
        torch.testing.assert_close(result, _of_numbers(x, float(number)))
    with (
        pytest.raises(sl.OpError, match="it plans on the host before each launch"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        fn(x, value)
    torch.cuda.synchronize()
    torch.testing.assert_close(fn(x, value), _of_numbers(x, 19.0))


def test_numbers_that_do_not_fit_on_a_device(ops: Any) -> None:
    x, value = torch.randn(500, device="cuda"), torch.zeros(1, device="cuda")
    fn = sl.compile(_Numbers(ops, 4), (x, value))
    for _ in range(2):
        with pytest.raises(sl.OpError, match="it returned 4 numbers, but numbers= says 3"):
            fn(x, value)
    with pytest.raises(
        sl.UserError, match="'numbers' of tvm_device::taken is int64 of rank 1 on cuda:0, but it is numbers"
    ):
        ops.taken(x, torch.zeros(3, dtype=torch.int64, device="cuda"))
    with pytest.raises(sl.UnsupportedError, match="tvm_device.numbers has numbers on the host but"):
        sl.compile(lambda x, value: x + ops.numbers(torch.empty_like(x), 2000, value, 3)[0], (x, value))


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_errors(ops: Any, launch: str) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            out = torch.empty_like(x)
            ops.copied(out, x * 2, True)
            return out + 1

    x = torch.randn(100, device="cuda")
    fn = sl.compile(Model(), (x,), launch=launch)
    for _ in range(2):
        with pytest.raises(sl.OpError, match=r"ValueError: it fails as asked(.|\n)*tvm_library_test\.py"):
            fn(x)
    assert torch.equal(_Copied()(x), x * 2 + 1)  # the device is as it was


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_a_program_in_a_program(launch: str) -> None:
    inner = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval().requires_grad_(False).cuda()
    x = torch.randn(3, 16, device="cuda")
    registered = sl.compile(inner, (x,)).register(f"tvm_device_programs::{launch}")
    op = getattr(torch.ops.tvm_device_programs, launch)
    outer = sl.compile(lambda x: torch.relu(op(x * 2)), (x,), launch=launch)
    assert "own_outside" in [row["backend"] for row in outer.explain().statements]
    for _ in range(3):
        y = torch.randn_like(x)
        assert torch.equal(outer(y), torch.relu(op(y * 2)))
    registered.unregister()
