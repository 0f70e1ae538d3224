# SPDX-License-Identifier: Apache-2.0
"""`sl.jit`: the same as torch.compile after every kind of change, directly where it says so, and nothing kept alive."""

from __future__ import annotations

import copy
import gc
import pickle
import runpy
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import straightline as sl
import torch
from straightline import _dynamo_guards
from torch import nn, randn
from torch._dynamo.utils import counters

Change = Callable[[], Any]
#: What a case gives: a new function and its arguments, and changes; after each the function is called again.
Case = Callable[[], tuple[Any, tuple[Any, ...], list[Change]]]

_FACTOR = 2.0
_WEIGHT = torch.ones(3)


def _module(**how: Any) -> nn.Module:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.scale = 2.0
            self.drop = nn.Dropout(0.5)
            self.register_buffer("offset", torch.ones(3))

        def forward(self, x: Any, *, power: int = 1) -> Any:
            return (self.drop(self.linear(x)) * self.scale + self.offset) ** power

    return Model().eval().requires_grad_(False)


def _globals() -> tuple[Any, tuple[Any, ...], list[Change]]:
    namespace = {"factor": 2.0, "weight": torch.ones(3), "torch": torch}
    exec("def function(x): return x * factor + weight", namespace)
    return (
        namespace["function"],
        (randn(3),),
        [
            lambda: namespace.update(factor=3.0),
            lambda: namespace.update(weight=torch.full((3,), 5.0)),
            lambda: namespace.update(factor=2.0),
            lambda: namespace.update(weight=torch.ones(3, dtype=torch.float64)),
        ],
    )


def _closure() -> tuple[Any, tuple[Any, ...], list[Change]]:
    factor, offset = 2.0, torch.ones(3)

    def function(x: Any) -> Any:
        return x * factor + offset

    def other() -> None:
        nonlocal factor
        factor = 7.0

    def tensor() -> None:
        nonlocal offset
        offset = torch.zeros(3)

    return function, (randn(3),), [other, tensor]


def _defaults() -> tuple[Any, tuple[Any, ...], list[Change]]:
    def function(x: Any, factor: float = 2.0, *, offset: float = 1.0) -> Any:
        return x * factor + offset

    return (
        function,
        (randn(3),),
        [
            lambda: setattr(function, "__defaults__", (3.0,)),
            lambda: setattr(function, "__kwdefaults__", {"offset": 4.0}),
        ],
    )


def _code() -> tuple[Any, tuple[Any, ...], list[Change]]:
    def function(x: Any) -> Any:
        return x * 2

    def other(x: Any) -> Any:
        return x * 3

    return function, (randn(3),), [lambda: setattr(function, "__code__", other.__code__)]


def _attributes() -> tuple[Any, tuple[Any, ...], list[Change]]:
    model = _module()
    return (
        model,
        (randn(2, 3),),
        [
            lambda: setattr(model, "scale", 3.0),
            lambda: setattr(model, "linear", nn.Linear(3, 3).requires_grad_(False)),
            lambda: setattr(model.linear, "weight", nn.Parameter(torch.ones(3, 3), requires_grad=False)),
            lambda: model.linear.weight.fill_(2.0),
            lambda: setattr(model, "offset", torch.zeros(3)),
            lambda: model.double().float(),
            lambda: setattr(model.linear, "bias", None),
        ],
    )


def _of_modules() -> tuple[Any, tuple[Any, ...], list[Change]]:
    model = _module()
    handles: list[Any] = []
    return (
        model,
        (randn(2, 3),),
        [
            lambda: handles.append(model.register_forward_hook(lambda module, args, result: result + 1)),
            lambda: handles.pop().remove(),
            lambda: handles.append(model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))),
            lambda: handles.pop().remove(),
            lambda: setattr(model, "forward", lambda x: x - 1),
            lambda: delattr(model, "forward"),
            lambda: setattr(type(model), "forward", lambda self, x: x * self.scale),
        ],
    )


def _inner_hooks() -> tuple[Any, tuple[Any, ...], list[Change]]:
    """Dynamo does not see these by default (`skip_nnmodule_hook_guards`)."""
    model = _module()
    add = lambda: model.linear.register_forward_hook(lambda module, args, result: result - 1)  # noqa: E731
    return model, (randn(2, 3),), [add]


def _sequential() -> tuple[Any, tuple[Any, ...], list[Change]]:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).requires_grad_(False)
    return (
        model,
        (randn(2, 3),),
        [
            lambda: model.append(nn.Tanh()),
        ],
    )


def _global_hooks() -> tuple[Any, tuple[Any, ...], list[Change]]:
    from torch.nn.modules.module import register_module_forward_hook

    handles: list[Any] = []
    add = lambda: handles.append(register_module_forward_hook(lambda module, args, result: result))  # noqa: E731
    return _module(), (randn(2, 3),), [add, lambda: handles.pop().remove()]


def _dtype() -> tuple[Any, tuple[Any, ...], list[Change]]:
    return (
        lambda x: x + torch.ones(3),
        (randn(3),),
        [lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)],
    )


def _of_sizes() -> tuple[Any, tuple[Any, ...], list[Change]]:
    x = randn(3, 4)
    return lambda: x * 2 + x.shape[0], (), [lambda: x.resize_(5, 4).fill_(1), lambda: x.resize_(7, 4).fill_(2)]


def _reset() -> tuple[Any, tuple[Any, ...], list[Change]]:
    return lambda x: x + 1, (randn(3),), [torch.compiler.reset]


def _stances() -> tuple[Any, tuple[Any, ...], list[Change]]:
    set_stance = torch.compiler.set_stance
    return lambda x: x + 1, (randn(3),), [lambda: set_stance("force_eager"), lambda: set_stance("default")]


_CASES = [
    _globals,
    _closure,
    _defaults,
    _code,
    _attributes,
    _of_modules,
    _inner_hooks,
    _sequential,
    _global_hooks,
    _dtype,
    _of_sizes,
    _reset,
    _stances,
]


def _run(case: Case, by: Callable[[Any], Any]) -> tuple[list[Any], list[int], Any]:
    """Results and how many programs there are, after each change."""
    torch.compiler.reset()
    torch.manual_seed(0)
    function, args, changes = case()
    compiled = by(function)
    results, programs = [], []
    for change in (lambda: None, *changes):
        change()
        for _ in range(3):
            results.append(compiled(*args).clone())
        programs.append(len(sl.programs(compiled)))
    return results, programs, compiled


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)
    torch.compiler.set_stance("default")


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.__name__.strip("_"))
def test_changes_are_seen_as_by_torch_compile(case: Case) -> None:
    want, _, _ = _run(case, lambda function: function)
    theirs, their_programs, _ = _run(case, lambda function: torch.compile(function, backend="straightline"))
    ours, our_programs, compiled = _run(case, sl.jit)
    for a, b, c in zip(ours, theirs, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
        if case is not _inner_hooks:
            torch.testing.assert_close(b, c)
    assert our_programs == their_programs
    assert compiled.explain().direct_calls > 0, compiled.explain()


def test_training_is_seen() -> None:
    model = _module()
    function = sl.jit(model)
    x = randn(64, 3)
    torch.testing.assert_close([function(x), function(x)], [model(x), model(x)])
    function.train()
    assert model.training
    torch.manual_seed(3)
    got = [function(x), function(x)]
    torch.manual_seed(3)
    torch.testing.assert_close(got, [model(x), model(x)])
    function.eval()
    torch.testing.assert_close(function(x), model(x))
    assert function.explain().direct_calls >= 2


def test_modes_around_a_call() -> None:
    """Grad, inference and autocast mode, a default device, a function mode."""
    from torch.overrides import TorchFunctionMode

    class Counts(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    weight = randn(3, 3)
    function = sl.jit(lambda x: x @ weight + torch.ones(3))
    x = randn(2, 3)
    around: list[Callable[[], Any]] = [
        torch.no_grad,
        torch.enable_grad,
        torch.inference_mode,
        lambda: torch.autocast(x.device.type, dtype=torch.bfloat16),
        lambda: torch.device(x.device),
        Counts,
    ]
    for mode in around * 2:
        with mode():
            want = x @ weight + torch.ones(3)
            for _ in range(3):
                got = function(x)
                assert got.dtype == want.dtype and got.is_inference() == want.is_inference()
                torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


def test_gradients_are_refused_as_by_the_backend() -> None:
    function = sl.jit(lambda x: x * 2)
    assert function(randn(3)).shape == function(randn(3)).shape == (3,)
    with torch.enable_grad(), pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="gradients are on"):
        function(randn(3, requires_grad=True))
    assert function(randn(3, requires_grad=True)).shape == (3,)


def test_arguments_bind_as_in_a_call() -> None:
    def plain(a: Any, b: Any = 2, /, c: Any = 3, *rest: Any, d: Any = 4, **more: Any) -> Any:
        return a * b + c * d + sum(rest) + sum(more.values())

    function = sl.jit(plain)
    x = randn(3)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((x, 5), {}),
        ((x, 5), {"c": 7}),
        ((x, 5, 7, 8), {}),
        ((x, 5, 7, 8, 9), {"d": 1, "e": 2}),
        ((x,), {"e": 2, "f": x}),
    ]
    for args, keywords in calls * 2:
        torch.testing.assert_close(function(*args, **keywords), plain(*args, **keywords))
    before = function.explain().direct_calls
    for args, keywords in calls:
        torch.testing.assert_close(function(*args, **keywords), plain(*args, **keywords))
    assert function.explain().direct_calls == before + len(calls)
    for args, keywords in (((), {}), ((), {"a": x}), ((x,), {"b": 3, "c": 1, 1: 2})):
        with pytest.raises(TypeError):
            function(*args, **keywords)
    narrow = sl.jit(lambda a, *, b: a + b)
    narrow(x, b=x), narrow(x, b=x)
    for args, keywords in (((x, x), {}), ((x,), {}), ((x,), {"c": x}), ((x,), {"a": x, "b": x})):
        with pytest.raises(TypeError):
            narrow(*args, **keywords)


def test_methods_and_decorators() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        @sl.jit
        def scaled(self, x: Any) -> Any:
            return x * self.by

        def plain(self, x: Any) -> Any:
            return x + self.by

    two, three = Scaled(2.0), Scaled(3.0)
    x = randn(3)
    for _ in range(3):
        torch.testing.assert_close((two.scaled(x), three.scaled(x)), (x * 2, x * 3))
    function = sl.jit(three.plain)
    torch.testing.assert_close((function(x), function(x)), (x + 3, x + 3))
    assert function.explain().direct_calls == 1 and Scaled.scaled.explain().direct_calls >= 2

    @sl.jit(dynamic=True, options={"threads": 1})
    def sized(x: Any) -> Any:
        return {"sum": x.sum(0), "size": x.shape[0], "nested": [x + 1, (x, None)]}

    for size in (3, 4, 5, 6):
        x = randn(size, 2)
        got = sized(x)
        assert got["size"] == size and got["nested"][1][0] is x
        torch.testing.assert_close((got["sum"], got["nested"][0]), (x.sum(0), x + 1))
    assert sized.explain().direct_calls == 3 and len(sl.programs(sized)) == 1


def test_what_goes_through_torch_compile_says_why() -> None:
    kept: list[Any] = []

    class Place:
        value: Any = None

    where = Place()

    def breaks(x: Any) -> Any:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    def appends(x: Any) -> Any:
        kept.append(x + 1)
        return x * 2

    def writes(x: Any) -> Any:
        where.value = x + 1
        return x * 2

    def yields(x: Any) -> Iterator[Any]:
        yield x + 1

    x = randn(3)
    reasons = {breaks: "graph break", appends: "side effect", writes: "side effect"}
    for plain, reason in reasons.items():
        function = sl.jit(plain)
        torch.testing.assert_close([function(x), function(x)], [x * 2 if plain is not breaks else (x + 1) * 2] * 2)
        explanation = function.explain()
        assert explanation.direct_calls == 0 and reason in explanation.reason, explanation
        assert all(way == "torch.compile" for _, way, _ in explanation.ways)
    assert len(kept) == 2
    torch.testing.assert_close(where.value, x + 1)
    assert "has not been called" in sl.jit(breaks).explain().reason
    generator = sl.jit(yields)
    torch.testing.assert_close(list(generator(x)), [x + 1])
    assert "generator" in generator.explain().reason


def _exports_what_is_compiled() -> bool:
    """Whether this torch exports a function that calls one of torch.compile's own: before 2.12 it fails with any backend."""
    inner = torch.compile(lambda x: x * 2, backend="eager")

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return inner(x) + 1

    try:
        torch.export.export(Model(), (randn(3),), strict=False)
    except Exception:
        return False
    return True


def test_inside_another_compilation_and_under_export() -> None:
    inner = sl.jit(lambda x: x * 2)
    x = randn(3)
    inner(x), inner(x)
    before = inner.explain().direct_calls
    outer = torch.compile(lambda x: inner(x) + 1, backend="straightline")
    torch.testing.assert_close((outer(x), outer(x)), (x * 2 + 1, x * 2 + 1))

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return inner(x) + 1

    if _exports_what_is_compiled():
        exported = torch.export.export(Model(), (x,), strict=False)
        torch.testing.assert_close(exported.module()(x), x * 2 + 1)
    with pytest.raises(RuntimeError, match="torch.jit.trace"):
        torch.jit.trace(inner, (x,))
    assert inner.explain().direct_calls == before


def test_an_unknown_torch_goes_through_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    x = randn(3)
    for module, name in (
        ("torch._C._dynamo.eval_frame", "_debug_get_cache_entry_list"),
        ("torch._C._dynamo.eval_frame", "get_eval_frame_callback"),
        ("torch._guards", "_TLS"),
        ("torch.of_another_version", ""),
    ):
        needed = {**_dynamo_guards._NEEDED, module: (f"{name}_of_another_version",)}
        monkeypatch.setattr(_dynamo_guards, "_NEEDED", needed)
        function = sl.jit(lambda x: x + 1)
        torch.testing.assert_close((function(x), function(x)), (x + 1, x + 1))
        explanation = function.explain()
        assert explanation.direct_calls == 0 and f"this torch has no {module}" in explanation.reason
        monkeypatch.undo()
    monkeypatch.setattr(_dynamo_guards.Dynamo, "frame", lambda self, compiled: compiled.of_another_version)
    function = sl.jit(lambda x: x + 1)
    torch.testing.assert_close((function(x), function(x)), (x + 1, x + 1))
    assert "something else than is known" in function.explain().reason


def test_entries_of_other_backends_are_not_taken() -> None:
    def plain(x: Any) -> Any:
        return x + 1

    x = randn(3)
    torch.compile(plain, backend="eager")(x)
    function = sl.jit(plain)
    torch.testing.assert_close((function(x), function(x)), (x + 1, x + 1))
    assert len(function.explain().ways) == 1 and function.explain().direct_calls == 1


def test_lives_end_with_dynamos() -> None:
    def alive(programs: list[weakref.ref[Any]]) -> int:
        gc.collect()
        return sum(program() is not None for program in programs)

    def made() -> tuple[Any, list[weakref.ref[Any]]]:
        namespace: dict[str, Any] = {}
        exec("def function(x): return x * 2", namespace)
        function = sl.jit(namespace["function"])
        function(randn(3)), function(randn(3)), function(randn(5)), function(randn(5))
        return function, [weakref.ref(program._compiled()) for program in sl.programs(function)]

    function, programs = made()
    assert alive(programs) == len(programs) == 2
    torch.compiler.reset()
    assert alive(programs) == 0
    function(randn(3)), function(randn(3))
    assert len(sl.programs(function)) == 1

    def left(by: Callable[[Any], Any]) -> int:
        """Programs of a module that is gone."""
        torch.compiler.reset()
        model = _module()
        compiled = by(model)
        compiled(randn(2, 3)), compiled(randn(2, 3))
        programs = [weakref.ref(program._compiled()) for program in sl.programs(compiled)]
        parts = [weakref.ref(compiled), weakref.ref(model)]
        assert alive(programs) == 1
        del compiled, model
        assert alive(parts) == 0
        return alive(programs)

    of_torch = left(lambda model: torch.compile(model, backend="straightline"))  # torch 2.11 keeps one
    assert left(sl.jit) <= of_torch


def test_a_dropped_function_takes_its_programs_as_by_torch_compile() -> None:
    def left(by: Callable[[Any], Any]) -> int:
        torch.compiler.reset()

        def function(x: Any) -> Any:
            return x * 2

        compiled = by(types.FunctionType(function.__code__.replace(), {"__builtins__": __builtins__}, "f"))
        compiled(randn(3)), compiled(randn(3))
        programs = [weakref.ref(program._compiled()) for program in sl.programs()]
        del compiled, function
        gc.collect()
        return sum(program() is not None for program in programs)

    assert left(sl.jit) <= left(lambda f: torch.compile(f, backend="straightline"))


def test_two_threads_at_their_first_call_and_while_another_compiles() -> None:
    function = sl.jit(lambda x: x * 2 + x.shape[0], dynamic=False)
    wrong: list[BaseException] = []
    start = threading.Barrier(4)

    def call(sizes: list[int]) -> None:
        try:
            start.wait()
            with torch.no_grad():
                for size in sizes:
                    x = torch.ones(size)
                    torch.testing.assert_close(function(x), x * 2 + size)
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(sizes,)) for sizes in ([3] * 300, [3] * 300, [3, 4, 5, 6], [7, 4])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert function.explain().direct_calls > 0


def test_a_steady_call_does_not_reach_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _module()
    function = sl.jit(model)
    x = randn(2, 3)
    function(x)
    compiled = counters["stats"]["unique_graphs"]

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("through torch.compile")

    monkeypatch.setattr(function, "_compiled", never)
    for _ in range(5):
        torch.testing.assert_close(function(x, power=1), model(x))
    with pytest.raises(AssertionError, match=r"through torch\.compile"):
        function(x, power=2)
    assert counters["stats"]["unique_graphs"] == compiled


def test_more_arguments_than_a_direct_call_binds(tmp_path: Path) -> None:
    for count, direct in ((32, 2), (33, 0)):
        names = ", ".join(f"a{place}" for place in range(count))
        file = tmp_path / f"of_{count}.py"  # before torch 2.12 Dynamo compiles another frame for what has no file
        file.write_text(f"def function({names}): return a0 + a{count - 1}\n")
        function = sl.jit(runpy.run_path(str(file))["function"])
        given = [randn(3) for _ in range(count)]
        for _ in range(3):
            torch.testing.assert_close(function(*given), given[0] + given[-1])
        explained = function.explain()
        assert explained.direct_calls == direct
        assert bool(explained.reason) == (not direct) and (direct or "33 arguments" in explained.reason)


# Modules --------------------------------------------------------------------------------------------------------------


def test_a_jitted_module_is_a_module() -> None:
    model = _module()
    function = sl.jit(model)
    x = randn(2, 3)
    for _ in range(3):
        torch.testing.assert_close(function(x), model(x))
    assert isinstance(function, nn.Module) and isinstance(function, torch._dynamo.OptimizedModule)
    names = [name for name, _ in torch.compile(model, backend="straightline").named_parameters()]
    assert [name for name, _ in function.named_parameters()] == names
    outer = nn.Sequential(function, nn.ReLU())
    assert len(list(outer.parameters())) == 2
    torch.testing.assert_close(outer(x), model(x).relu())
    before = function.explain().direct_calls
    function(x)
    assert function.explain().direct_calls == before + 1

    function.load_state_dict({name: value * 2 for name, value in function.state_dict().items()})
    torch.testing.assert_close(function(x), model(x))
    assert model.offset[0] == 2
    function.scale = 5.0
    assert model.scale == 5.0 and function.scale == 5.0
    torch.testing.assert_close(function(x), model(x))
    function.note = 1
    del function.note
    assert not hasattr(model, "note") and "note" not in dir(function) and "scale" in dir(function)
    function.train()
    assert model.training and function.training
    function.eval()
    assert not model.training
    function.double()
    torch.testing.assert_close(function(x.double()), model(x.double()))
    assert "(_orig_mod): Model(" in repr(function)


def test_hooks_of_a_jitted_module() -> None:
    model = _module()
    function, x, seen = sl.jit(model), randn(2, 3), list[str]()
    for _ in range(3):
        function(x)
    with function.register_forward_hook(lambda *_: seen.append("after")):
        function(x)
    with function.register_forward_pre_hook(lambda *_: seen.append("before")):
        function(x)
    function(x)
    assert seen == ["after", "before"]


def test_copies_of_a_jitted_module() -> None:
    model = nn.Sequential(nn.Linear(3, 3)).eval().requires_grad_(False)
    function, x = sl.jit(model, dynamic=False), randn(2, 3)
    function(x)
    for other in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert type(other) is type(function)
        torch.testing.assert_close(other(x), model(x))
        other._orig_mod[0].weight.zero_()
        other(x)
        torch.testing.assert_close(other(x), other._orig_mod(x))
        assert other.explain().direct_calls
    torch.testing.assert_close(function(x), model(x))


def test_a_jitted_module_in_a_compiled_one() -> None:
    """The outer graph ends at it, and goes on behind it."""
    model = _module()
    outer, x = nn.Sequential(nn.ReLU(), sl.jit(model), nn.Tanh()), randn(2, 3)
    compiled = torch.compile(outer, backend="straightline")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x.relu()).tanh())


def test_functions_of_tensors_alone() -> None:
    """The program is called with some arguments in another order, and one of its results is returned."""

    def last(a: Any, b: Any, *, c: Any) -> Any:
        return c * 2 - a

    def two(a: Any, b: Any) -> Any:
        return b - a, a * b

    def kept(a: Any, b: Any) -> Any:
        return a, b * 2

    a, b, c = randn(3), randn(3), randn(3)
    cases = ((lambda a, b: b - a, (a, b), {}), (lambda a, b, c: a + c, (a, b, c), {}), (last, (a, b), {"c": c}),
             (two, (a, b), {}), (kept, (a, b), {}), (lambda a, b=b: a * b, (a,), {}))  # fmt: skip
    for function, args, kwargs in cases:
        jitted = sl.jit(function)
        for _ in range(3):
            torch.testing.assert_close(jitted(*args, **kwargs), function(*args, **kwargs))
        assert jitted.explain().direct_calls == 2
        other = tuple(x * 3 for x in args)
        torch.testing.assert_close(jitted(*other, **kwargs), function(*other, **kwargs))
