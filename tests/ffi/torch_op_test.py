# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as ops of torch: `fn.register`."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import derivatives
import pytest
import straightline as sl
import torch
from torch import Tensor, nn

_numbers = itertools.count()


def _name() -> str:
    """A name that no other test has."""
    return f"ffi_tests::op_{next(_numbers)}"


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval().requires_grad_(False)


def _op(name: str) -> Any:
    space, base = name.split("::")
    return getattr(getattr(torch.ops, space), base)


def _registered(model: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Any, Any]:
    """A function, its registration and the op."""
    fn = sl.compile(model, args, **options)
    registered = fn.register(_name())
    return fn, registered, _op(registered.name)


def _close(got: Any, expected: Any) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_a_tensor_in_and_out() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    fn, registered, op = _registered(model, x)
    assert registered.schema == f"{registered.name}(Tensor input) -> Tensor"
    assert torch.equal(op(x), fn(x))
    _close(op(x), model(x))
    assert torch.equal(registered.op(input=x), fn(x))


def test_it_outlives_its_function() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    fn, _, op = _registered(model, x)
    expected = fn(x)
    del fn
    gc.collect()
    assert torch.equal(op(x), expected)


class _Many(nn.Module):
    """Lists, numbers, a text, a default, an update in place, several results."""

    def forward(
        self, xs: list[Tensor], y: Tensor, k: int, a: float = 0.5, *, flag: bool = True, mode: str = "sum"
    ) -> tuple[Tensor, dict[str, Tensor]]:
        y.add_(xs[0] * k)
        return xs[0] + xs[1] * a, {"t": y.t(), "s": xs[1].sum() if flag and mode == "sum" else y}


def test_the_schema_follows_from_the_signature() -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    _, registered, op = _registered(_Many(), xs, y, 3)
    assert registered.schema.removeprefix(registered.name) == (
        '(Tensor[] xs, Tensor(a!) y, int k, float a=0.5, *, bool flag=True, str mode="sum") -> (Tensor, Tensor, Tensor)'
    )
    own, expected = y.clone(), y.clone()
    results = op(xs, own, 3)
    first, rest = _Many()(xs, expected, 3)
    assert torch.equal(own, expected)
    for got, wanted in zip(results, (first, rest["t"], rest["s"]), strict=True):
        _close(got, wanted)
    assert results[1].stride() == (1, 4)
    assert results[1].data_ptr() != own.data_ptr()  # a copy: results share memory with nothing


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 4}, "argument 'k' is 4 but the program was compiled for 3"),
        ({"a": 0.25}, "argument 'a' is 0.25 but the program was compiled for 0.5"),
        ({"flag": False}, "argument 'flag' is False but the program was compiled for True"),
        ({"mode": "mean"}, "argument 'mode' is 'mean' but the program was compiled for 'sum'"),
        ({"xs": 1}, "argument 'xs' has 1 tensors but the program was compiled for 2"),
        ({"xs": 3}, "argument 'xs' has 3 tensors but the program was compiled for 2"),
        ({"y": torch.float64}, "dtype"),
        ({"y": "alias"}, "shares memory with input"),
    ],
)
def test_what_calls_may_not_give(change: dict[str, Any], words: str) -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    _, _, op = _registered(_Many(), xs, y, 3)
    given: dict[str, Any] = {"xs": xs, "y": y, "k": 3, **change}
    if "xs" in change:
        given["xs"] = [xs[0]] * change["xs"]
    if "y" in change:
        given["y"] = xs[0] if change["y"] == "alias" else y.to(change["y"])
    with pytest.raises(RuntimeError, match=words):
        op(**given)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("k", [3, 4])
def test_nothing_holds_the_tensors_of_a_call(count: int, k: int) -> None:
    xs, y = [torch.randn(3, 4), torch.randn(3, 4)], torch.randn(3, 4)
    _, _, op = _registered(_Many(), xs, y, 3)
    given = [torch.randn(3, 4) for _ in range(count)]
    watched = [weakref.ref(tensor) for tensor in given]
    with contextlib.suppress(RuntimeError):
        op(given, y, k)
    del given
    gc.collect()
    assert [watch() for watch in watched] == [None] * count


def test_sizes_that_are_named() -> None:
    torch._dynamo.utils.counters.clear()  # other tests of the process count, too
    n = torch.export.Dim("n", min=2, max=64)
    model = _mlp()
    _, _, op = _registered(model, torch.randn(3, 16), dynamic_shapes={"input": {0: n}})
    for rows in (2, 7, 64):
        x = torch.randn(rows, 16)
        _close(op(x), model(x))
    with pytest.raises(RuntimeError, match="65"):
        op(torch.randn(65, 16))
    graph = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True, dynamic=True, backend="eager")
    for rows in (5, 9):
        x = torch.randn(rows, 16)
        _close(graph(x), model(x * 2) + 1)
    assert torch._dynamo.utils.counters["graph_break"] == {}


def test_a_fake_kernel_knows_sizes_and_strides() -> None:
    n = torch.export.Dim("n", min=2, max=64)

    class Stack(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cat([x, y, y]), x.t().contiguous().t() * 2

    _, registered, op = _registered(Stack(), torch.randn(3, 4), torch.randn(5, 4), dynamic_shapes=[{0: n}, None])
    x, y = torch.randn(6, 4), torch.randn(5, 4)
    torch.library.opcheck(registered.op, (x, y))
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = op(mode.from_tensor(x), mode.from_tensor(y))
    for fake, real in zip(fakes, op(x, y), strict=True):
        assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(Exception, match="compiled for"):
        op(mode.from_tensor(x), mode.from_tensor(torch.randn(4, 4)))


def test_an_update_in_place_in_a_compiled_graph() -> None:
    class Add(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            x.add_(y)
            return x * y

    _, registered, op = _registered(Add(), torch.randn(4), torch.randn(4))
    x, y = torch.randn(4), torch.randn(4)
    torch.library.opcheck(registered.op, (x.clone(), y))
    graph = torch.compile(lambda a, b: op(a, b) + a, fullgraph=True, backend="aot_eager")
    own, expected = x.clone(), x + y
    _close(graph(own, y), expected * y + expected)
    _close(own, expected)


def test_several_examples() -> None:
    model = _mlp()
    fn = sl.compile(model, [(torch.randn(3, 16),), (torch.randn(5, 16),)])
    registered = fn.register(_name())
    op = _op(registered.name)
    for rows in (3, 5):
        x = torch.randn(rows, 16)
        assert torch.equal(op(x), fn(x))
    with pytest.raises(RuntimeError, match="no program takes these inputs"):
        op(torch.randn(4, 16))
    with torch._subclasses.FakeTensorMode() as mode:
        assert op(mode.from_tensor(torch.randn(5, 16))).shape == (5, 4)


def test_a_size_that_depends_on_data() -> None:
    class Positive(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0] * 2

    x = torch.randn(17)
    _, _, op = _registered(Positive(), x)
    x = torch.randn(17)
    _close(op(x), Positive()(x))
    graph = torch.compile(lambda a: op(a).sum(), fullgraph=True, backend="eager")
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    _close(graph(x), Positive()(x).sum())


def test_new_parameters_reach_it() -> None:
    model, other, x = _mlp(), _mlp(), torch.randn(3, 16)
    fn, _, op = _registered(model, x)
    fn.load_parameters(other.state_dict())
    _close(op(x), other(x))


def test_a_program_for_single_sizes_reaches_it() -> None:
    n = torch.export.Dim("n", min=2, max=64)
    model = _mlp()
    fn, _, op = _registered(model, torch.randn(3, 16), dynamic_shapes={"input": {0: n}})
    fn.specialize({"n": 8})
    for rows in (8, 9):
        x = torch.randn(rows, 16)
        assert torch.equal(op(x), fn(x))


def test_several_threads_and_new_parameters() -> None:
    models, x = [_mlp(), _mlp()], torch.randn(3, 16)
    fn, registered, op = _registered(models[0], x)
    expected = []
    for model in models:
        fn.load_parameters(model.state_dict())
        expected.append(fn(x))
    wrong, stop = [], threading.Event()

    def call() -> None:
        while not stop.is_set():
            result = op(x)
            if not any(torch.equal(result, one) for one in expected):
                wrong.append(result)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(60):
        fn.load_parameters(models[i % 2].state_dict())
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert registered.calls_running == 0


def test_unregistering_while_calls_run() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    fn, registered, op = _registered(model, x)
    expected, wrong, refused = fn(x), [], []
    ready = threading.Barrier(5)

    def call() -> None:
        ready.wait()
        for _ in range(100_000):
            try:
                result = op(x)
            except RuntimeError as error:
                refused.append(str(error))
                return
            if not torch.equal(result, expected):
                wrong.append(result)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    for _ in range(200):
        op(x)
    registered.unregister()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(refused) == 4
    assert all("was unregistered" in words for words in refused)
    registered.unregister()  # twice is as good as once


def test_a_name_that_is_taken() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    fn, registered, op = _registered(model, x)
    with pytest.raises(sl.UserError, match=f"{registered.name} is registered with"):
        fn.register(registered.name)
    with pytest.raises(sl.UserError, match="torch has an op aten::relu already"):
        fn.register("aten::relu")
    registered.unregister()
    other = _mlp()
    again = sl.compile(other, (x,)).register(registered.name)
    _close(op(x), other(x))
    again.unregister()

    class Two(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a * b

    third = sl.compile(Two(), (x, x)).register(registered.name)  # another schema
    assert third.schema.endswith("(Tensor a, Tensor b) -> Tensor")
    _close(_op(registered.name)(x, x), x * x)


@pytest.mark.parametrize("name", ["forward", "a::b::c", "a.b::c", "a::", 3])
def test_names_that_are_none(name: Any) -> None:
    fn = sl.compile(_mlp(), (torch.randn(3, 16),))
    with pytest.raises(sl.UserError, match="must be a namespace and a name"):
        fn.register(name)


def test_gradients() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, registered, op = _registered(model, x)
    with pytest.raises(RuntimeError, match=r"torch\.library\.register_autograd"):
        op(x.clone().requires_grad_())
    with torch.no_grad():
        _close(op(x.clone().requires_grad_()), model(x))

    def backward(context: Any, gradient: Tensor) -> Tensor:
        with torch.enable_grad():
            given = context.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(model(given), given, gradient)[0]

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    torch.library.register_autograd(registered.name, backward, setup_context=keep)
    own, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    op(own).sum().backward()
    model(expected).sum().backward()
    _close(own.grad, expected.grad)


def _traced(backend: str) -> Callable[..., Any]:
    def differentiate(function: Callable[[Tensor], Tensor], x: Tensor) -> Any:
        torch._dynamo.reset()
        torch.compile(function, fullgraph=True, backend=backend)(x.clone().requires_grad_()).sum().backward()

    return differentiate


@pytest.mark.parametrize(
    ("differentiate", "said"),
    [
        (lambda f, x: f(x.clone().requires_grad_()), "an argument requires grad"),
        *derivatives.WAYS,
        (_traced("eager"), "an argument requires grad"),
        (_traced("aot_eager"), "an argument requires grad"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_derivatives_that_it_does_not_have(differentiate: Any, said: str) -> None:
    """Torch itself would warn and give zeros, or drop the tangent."""
    model, x = _mlp(), torch.randn(3, 16)
    _, registered, op = _registered(model, x)
    with pytest.raises((RuntimeError, sl.UserError), match=derivatives.words(registered.name, said)):
        differentiate(lambda x: op(x * 1), x)


def test_derivatives_beside_it() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, _, op = _registered(model, x)
    y, expected = torch.randn(4), model(x)
    _close(torch.func.grad(lambda y: (op(x) * y).sum())(y), expected.sum(0))  # of another tensor
    _close(
        torch.func.grad(lambda z: torch.func.grad(lambda y: (op(x) * y * y * z).sum())(y).sum())(y),
        2 * y * expected.sum(0),
    )
    _close(torch.vmap(op)(x[None].repeat(2, 1, 1)), expected.repeat(2, 1, 1))
    _close(torch.vmap(torch.func.grad(lambda y: (op(x) * y).sum()))(y[None]), expected.sum(0)[None])
    graph = torch.compile(
        lambda y: torch.func.grad(lambda y: (op(x) * y).sum())(y), fullgraph=True, backend="aot_eager"
    )
    _close(graph(y), expected.sum(0))
    linear = nn.Linear(16, 16)  # its parameters require grad, and an exported graph only calls the op
    exported = torch.export.export(nn.Sequential(linear, _Calls(op)), (x,))
    with torch.no_grad():
        _close(exported.module()(x), model(linear(x)))

    class Given(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return op(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad.sum(1, keepdim=True).expand(3, 16)

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            return tangent[:, :4] * 2

    assert torch.equal(torch.func.grad(lambda x: Given.apply(x).sum())(x), torch.full_like(x, 4))
    assert torch.equal(torch.func.jvp(Given.apply, (x,), (x,))[1], x[:, :4] * 2)


class _Calls(nn.Module):
    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Any:
        return self.op(x)


_OTHER_SCHEMAS = """
import itertools, sys, threading, time, torch
import straightline as sl

x = torch.randn(64)
functions = [sl.compile(lambda x: x * 2, (x,)), sl.compile(lambda a, b: a * b, (x, x)), sl.compile(lambda x: (x + 1, x - 1), (x,))]
registered = functions[0].register("other_schemas::op")
packet, overload = torch.ops.other_schemas.op, torch.ops.other_schemas.op.default  # handles from before
go, stop, wrong, calls = threading.Event(), threading.Event(), [], [0, 0]
known = ("was unregistered", "expected at most 1 argument", "is missing value for argument", "has no attribute 'op'", "schema registered")

def work(call):
    while not stop.is_set():
        while go.is_set():
            try:
                call()
                calls[0] += 1
            except (RuntimeError, AttributeError) as error:
                calls[1] += 1
                if not any(words in str(error) for words in known):
                    wrong.append(str(error))
        time.sleep(0.0005)

work_of = [
    lambda: packet(x), lambda: overload(x), lambda: torch.ops.other_schemas.op(x), lambda: torch.ops.other_schemas.op(x, x),
]
go.set()
threads = [threading.Thread(target=work, args=(call,)) for call in work_of]
for thread in threads:
    thread.start()
refused = 0
for function in itertools.islice(itertools.cycle(functions[1:] + functions[:1]), 10):
    time.sleep(0.002)
    registered.unregister()
    while not registered.is_open:
        try:
            registered = function.register("other_schemas::op")
        except sl.UserError as error:
            refused += 1
            if "cannot get another schema while it is called" not in str(error):
                wrong.append(str(error))
            go.clear()  # the calls come to an end
    go.set()
stop.set()
go.clear()
for thread in threads:
    thread.join()
print(wrong[:3], calls[0] > 0, calls[1] > 0, refused > 0)
"""


def test_another_schema_while_threads_call() -> None:
    """Words, or the other op; also by handles from before, which torch itself would leave pointing to nothing."""
    done = subprocess.run([sys.executable, "-c", _OTHER_SCHEMAS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[] True True True"), done.stderr[-2000:]


def test_a_handle_from_before_another_schema() -> None:
    x = torch.randn(4)
    _, registered, op = _registered(lambda x: x * 2, x)
    overload = op.default
    torch.compile(lambda x: op(x) + 1, fullgraph=True, backend="aot_eager")(x)
    registered.unregister()
    sl.compile(lambda a, b: a * b, (x, x)).register(registered.name)
    gc.collect()
    assert torch.equal(overload(x, x), x * x)
    assert torch.equal(op(x, x), x * x)
    graph = torch.compile(lambda a, b: _op(registered.name)(a, b) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(graph(x, x), x * x + 1)  # torch's dispatcher remembers the object, too


def test_in_an_exported_graph_and_in_a_program_of_ours() -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, registered, op = _registered(model, x)

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(op(x * 2))

    exported = torch.export.export(Outer(), (x,))
    assert registered.op in [node.target for node in exported.graph.nodes]
    expected = model(x * 2).relu()
    _close(exported.module()(x), expected)
    outer = sl.compile(exported)
    _close(outer(x), expected)
    rows = [row for row in outer.explain().facts["statements"] if row["op"] == registered.name.replace("::", ".")]
    assert [row["backend"] for row in rows] == ["own"]  # a direct call: program_op_test.py


def test_in_aot_inductor(tmp_path: Path) -> None:
    model, x = _mlp(), torch.randn(3, 16)
    _, _, op = _registered(model, x)

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return op(x * 2) + 1

    exported = torch.export.export(Outer(), (x,))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "m.pt2"))
    _close(torch._inductor.aoti_load_package(package)(x), model(x * 2) + 1)


_CALLER = """
#include <cstdint>
#include <cstring>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

extern "C" int call(AtenTensorHandle x, AtenTensorHandle* out) {
  uint64_t stack[1] = {0};
  AtenTensorHandle own = nullptr;  // the dispatcher takes it over
  if (aoti_torch_new_tensor_handle(x, &own)) return 1;
  std::memcpy(stack, &own, sizeof own);
  if (aoti_torch_call_dispatcher("NAME", "", stack)) return 2;
  std::memcpy(out, stack, sizeof *out);
  return 0;
}
"""


def test_called_by_c_plus_plus(tmp_path: Path) -> None:
    """By torch's dispatcher, without Python."""
    model, x = _mlp(), torch.randn(3, 16)
    _, registered, op = _registered(model, x)
    source, path = tmp_path / "caller.cpp", tmp_path / "libcaller.so"
    source.write_text(_CALLER.replace("NAME", registered.name), encoding="ascii")
    root = Path(torch.__file__).parent
    flags = [f"-I{root}/include", f"-L{root}/lib", "-ltorch_cpu"]
    subprocess.run(["g++", "-std=c++20", "-fPIC", "-shared", source, "-o", path, *flags], check=True)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.argtypes, capsule.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
    (handle,) = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors([x])
    made = ctypes.c_void_p()
    call = ctypes.CDLL(str(path)).call
    for _ in range(2):
        assert call(ctypes.c_void_p(pointer(handle, None)), ctypes.byref(made)) == 0
        result = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(capsule(made, None, None))
        _close(result, model(x))
        assert torch.equal(result, op(x))


@pytest.mark.parametrize(
    ("model", "args", "options", "words"),
    [
        (lambda x, k: {"a": x, "b": k}, (torch.randn(3), 3), {}, "result"),
        (lambda d: d["a"] * 2, ({"a": torch.randn(3)},), {}, "has no place in a schema"),
        (lambda x: torch.view_as_real(x) * 2, (torch.randn(3, dtype=torch.complex64),), {}, "has no place in a schema"),
        (lambda x, k: x * (k % 7), (torch.randn(3), 2**70), {}, "has no place in a schema"),
        (lambda x: x * 2, (torch.randn(3),), {"freeze": False}, "freeze=True"),
        (_mlp(), (torch.randn(3, 16),), {"slots": {"linear": ["native.gemm", "native.gemv"]}}, "slots"),
    ],
)
def test_what_no_schema_has(model: Any, args: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    fn = sl.compile(model, args, **options)
    with pytest.raises(sl.UnsupportedError, match=words):
        fn.register(_name())


def test_ops_of_torch_and_of_python_inside() -> None:
    @torch.library.custom_op("ffi_tests::in_python", mutates_args=())
    def in_python(x: Tensor) -> Tensor:
        return x * 3

    in_python.register_fake(torch.empty_like)
    x = torch.randn(4, 4)
    fn, registered, op = _registered(lambda x: in_python(torch.linalg.matrix_exp(x)) + 1, x)
    assert torch.equal(op(x), fn(x))
    wrong = []

    def call() -> None:
        wrong.extend(1 for _ in range(50) if not torch.equal(op(x), fn(x)))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    del registered


def test_a_function_that_was_loaded(tmp_path: Path) -> None:
    model, x = _mlp(), torch.randn(3, 16)
    sl.compile(model, (x,)).save(tmp_path / "m.sl")
    fn = sl.load(tmp_path / "m.sl")
    op = _op(fn.register(_name()).name)
    assert torch.equal(op(x), torch.as_tensor(fn(x)))
    fn.export_library(tmp_path / "f.so", torch_op="ffi_tests::loaded")
    torch.ops.load_library(tmp_path / "f.so")
    _close(torch.ops.ffi_tests.loaded(x), model(x))


def test_a_buffer_that_the_model_updates() -> None:
    class Count(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            return x * self.calls

    fn = sl.compile(Count(), (torch.randn(3),))
    with pytest.raises(sl.UnsupportedError, match="updates its buffer 'calls'"):
        fn.register(_name())


def test_text_that_was_replaced() -> None:
    fn = sl.compile(_mlp(), (torch.randn(3, 16),), emit="python")
    x = torch.randn(3, 16)
    assert torch.equal(_op(fn.register(_name()).name)(x), fn(x))
    fn.code = fn.code + "\n# replaced\n"
    with pytest.raises(sl.UnsupportedError, match="code was replaced"):
        fn.register(_name())


def test_empty_tensors_and_views() -> None:
    n = torch.export.Dim("n", min=0, max=8)
    fn, _, op = _registered(lambda x: (x * 2, x.t(), x), torch.randn(3, 4), dynamic_shapes={"x": {0: n}})
    for rows in (0, 1, 8):
        x = torch.randn(rows, 4)
        for got, wanted in zip(op(x), (x * 2, x.t(), x), strict=True):
            assert torch.equal(got, wanted)
    with pytest.raises(RuntimeError, match="stride"):
        op(torch.randn(4, 3).t())


def test_each_op_has_a_kernel_of_its_own() -> None:
    """The loader knows libraries by their path: two that lie in files without a name may not have the same one."""
    x = torch.randn(4)
    ops = [_registered(lambda x, i=i: x * (i + 2), x)[2] for i in range(5)]
    for i, op in enumerate(ops):
        _close(op(x), x * (i + 2))
