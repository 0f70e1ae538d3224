# SPDX-License-Identifier: Apache-2.0
"""The call path from Python, over programs written by hand."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import weakref
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hand_written import Buffer, Program, elementwise
from hand_written_callable import Maker, add, add_program, view_program
from straightline import _call, _signature, errors


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def make(folder: Path) -> Maker:
    return Maker(folder)


@pytest.fixture(scope="session")
def add_fn(make: Maker) -> Any:
    return make(add_program(), add, (torch.empty(2, 3), torch.empty(2, 3)))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


# ---- what works


def test_fresh_output(add_fn: Any, x: torch.Tensor) -> None:
    z = add_fn(x, x + 1)
    assert type(z) is torch.Tensor and not z.requires_grad
    assert torch.equal(z, 2 * x + 1)
    assert z.data_ptr() % 64 == 0
    del x
    z.add_(1)  # ours to write


def test_keywords_in_any_order(add_fn: Any, x: torch.Tensor) -> None:
    y = 10 * x
    assert torch.equal(add_fn(y=y, x=x), x + y)
    assert torch.equal(add_fn(x, y=y), x + y)
    assert torch.equal(add_fn(*[x], **{"y": y}), x + y)


def test_out(add_fn: Any, x: torch.Tensor) -> None:
    z = torch.empty(2, 3)
    assert add_fn(x, x, out=z) is z
    assert torch.equal(z, 2 * x)
    assert torch.equal(add_fn(x, x, out=None), 2 * x)


def test_numpy(add_fn: Any) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    z = add_fn(a, a)
    assert type(z) is np.ndarray and z.flags.writeable
    np.testing.assert_array_equal(z, 2 * a)
    out = np.empty_like(a)
    assert add_fn(a, a, out=out) is out
    np.testing.assert_array_equal(out, 2 * a)
    a.flags.writeable = False
    np.testing.assert_array_equal(add_fn(a, a), 2 * a)
    with pytest.raises(errors.GuardError, match="out 'result' is read-only"):
        add_fn(out, out, out=a)


def test_numpy_layouts(make: Maker) -> None:
    reverse = make(
        Program(
            [Buffer("INPUT", "x", (4,), strides=(-1,)), Buffer("OUTPUT", "z", (4,))],
            [(1, 1)],
            elementwise("a[-i]", "4", 1),
        ),
        lambda x: x,
        (np.empty(4, np.float32),),
        kind="numpy",
    )
    a = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(reverse(a[::-1]), a[::-1])
    with pytest.raises(errors.GuardError, match="stride"):
        reverse(a)
    scalar = make(add_program(()), add, (np.empty(()), np.empty(())), kind="numpy")
    z = scalar(np.array(2, np.float32), np.array(3, np.float32))
    assert z.shape == () and z == 5
    empty = make(add_program((0, 3)), add, (torch.empty(0, 3), torch.empty(0, 3)))
    assert empty(np.empty((0, 3), np.float32), np.empty((3, 0), np.float32).T).shape == (0, 3)
    assert empty(torch.empty(0, 3), torch.empty(0, 3)).shape == (0, 3)


def test_strided_output(make: Maker) -> None:
    program = Program(
        [Buffer("INPUT", "x", (2, 3)), Buffer("OUTPUT", "z", (2, 3), strides=(1, 2))],
        [(1, 1)],
        elementwise("a[(i % 2) * 3 + i / 2]", "6", 1),
    )
    fn = make(program, lambda x: x, (torch.empty(2, 3),))
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(fn(x), x) and fn(x).stride() == (1, 2)
    z = fn(x.numpy())
    np.testing.assert_array_equal(z, x.numpy())
    assert z.strides == (4, 8) and z.flags.writeable
    assert torch.equal(fn(x, out=torch.empty(3, 2).T), x)


def test_strided_and_overlapping_inputs(make: Maker) -> None:
    expanded = torch.arange(3.0).expand(2, 3)
    program = add_program((2, 3), (0, 1))
    program.run = elementwise("a[i % 3] + b[i]", "6")
    fn = make(program, add, (expanded, torch.empty(2, 3)))
    assert torch.equal(fn(expanded, torch.ones(2, 3)), expanded + 1)
    with pytest.raises(errors.GuardError, match="stride"):
        fn(expanded.contiguous(), torch.ones(2, 3))
    one = make(add_program((1, 3)), add, (torch.empty(1, 3), torch.empty(1, 3)))
    odd = torch.arange(3.0).as_strided((1, 3), (77, 1))  # the stride of a size-1 dim means nothing
    assert torch.equal(one(odd, odd), 2 * odd)


def test_named_extent(make: Maker) -> None:
    program = Program(
        [
            Buffer("INPUT", "x", ("b", 3)),
            Buffer("INPUT", "y", ("b", 3)),
            Buffer("OUTPUT", "z", ("b", 3)),
        ],
        [(2, 2)],
        elementwise("a[i] + b[i]", "3 * io->extents[0]"),
        extents=[("b", 1, 8)],
    )
    fn = make(program, add, (torch.empty(2, 3), torch.empty(2, 3)))
    for size in (1, 2, 8):
        v = torch.randn(size, 3)
        assert torch.equal(fn(v, v), 2 * v)
        assert torch.equal(fn(v, v, out=torch.empty(size, 3)), 2 * v)
        np.testing.assert_array_equal(fn(v.numpy(), v.numpy()), 2 * v.numpy())
    for bad in ((torch.empty(9, 3),) * 2, (torch.empty(2, 3), torch.empty(3, 3))):
        with pytest.raises(errors.GuardError):
            fn(*bad)
    with pytest.raises(errors.GuardError, match="size 3 in dim 0 but the result has 2"):
        fn(torch.empty(2, 3), torch.empty(2, 3), out=torch.empty(3, 3))


def test_result_that_is_an_extent(make: Maker) -> None:
    program = Program(
        [Buffer("INPUT", "x", ("b", 3)), Buffer("OUTPUT", "z", ("b", 3))],
        [(1, 1)],
        elementwise("a[i]", "3 * io->extents[0]", 1),
        extents=[("b", 1, 8)],
    )
    capsule = make.program(program)
    weights = _call.weights(capsule, ())
    inputs = _signature.input_structure(lambda x: x, (torch.empty(2, 3),))
    steps = (("s", 0), ("c", 3), ("*", 0))
    output = ("tuple", "result", (("tensor", "result[0]", 0), ("extent", "result[1]", steps)))
    fn = _call.Callable(capsule, weights, inputs, output, {})
    assert fn(torch.empty(5, 3))[1] == 15 and fn(torch.empty(8, 3))[1] == 24
    out = (torch.empty(2, 3), None)
    assert fn(torch.zeros(2, 3), out=out)[1] == 6 and not out[0].any()
    for bad in ((), (("c", 1), ("c", 2)), (("+", 0),), (("c", 1), ("?", 0)), (("s", 1),)):
        with pytest.raises((ValueError, TypeError)):
            _call.Callable(capsule, weights, inputs, ("extent", "r", bad), {})


def test_dlpack_objects(add_fn: Any, x: torch.Tensor) -> None:
    class Holder:
        def __init__(self, tensor: torch.Tensor, with_version: bool) -> None:
            self.tensor = tensor
            self.with_version = with_version

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> object:
            if not self.with_version and keywords:
                raise TypeError("no such keyword")
            return self.tensor.__dlpack__(**keywords)

    for with_version in (True, False):
        z = add_fn(Holder(x, with_version), Holder(x, with_version))
        assert type(z) is torch.Tensor and torch.equal(z, 2 * x)
    with pytest.raises(errors.GuardTypeError, match="'x' is a __dlpack__ object but 'y' is a torch tensor"):
        add_fn(Holder(x, True), x)


Pair = namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Batch:
    tokens: Any
    flag: bool


def _trees(v: torch.Tensor) -> tuple[Any, ...]:
    return (
        Pair(v, 2 * v),
        {"k": [3 * v, None], "m": (4 * v, 7)},
        Batch(OrderedDict(t=(5 * v, 6 * v)), True),
    )


def _of_trees(make: Maker, x: torch.Tensor) -> Any:
    """A function of the trees of `_trees`, compiled for them."""
    program = Program(
        [Buffer("INPUT", n, (2, 3)) for n in "abcdef"] + [Buffer("OUTPUT", "s", (2, 3)), Buffer("OUTPUT", "d", (2, 3))],
        [(6, 6), (7, 7)],
        elementwise("a[i] + b[i] + c[i] + d[i] + e[i] + f[i]", "6", 6)
        + "float* p = static_cast<float*>(io->outputs[1]); for (int i = 0; i < 6; ++i) p[i] = a[i] - b[i];",
    )

    def function(pair: Any, data: Any, batch: Any, scale: float = 2.0, *, mode: str = "sum") -> Any:
        return None

    result = {"sum": torch.empty(0), "more": [None, Pair(torch.empty(0), 3)]}
    return make(program, function, _trees(x), {"mode": "sum"}, result=result)


def test_trees(make: Maker, x: torch.Tensor) -> None:
    fn = _of_trees(make, x)
    got = fn(*_trees(x), mode="sum")
    assert torch.equal(got["sum"], 21 * x) and type(got["more"][1]) is Pair
    assert torch.equal(got["more"][1].first, -x) and got["more"][0] is None and got["more"][1].second == 3
    assert list(got) == ["sum", "more"]
    out = {"sum": torch.empty(2, 3), "more": [None, Pair(None, 3)]}
    again = fn(*_trees(x), 2.0, out=out)
    assert again["sum"] is out["sum"] and torch.equal(out["sum"], 21 * x)
    assert torch.equal(again["more"][1].first, -x)


def test_trees_that_differ(make: Maker, x: torch.Tensor) -> None:
    fn = _of_trees(make, x)
    pair, data, batch = _trees(x)
    bad: list[tuple[tuple[Any, ...], dict[str, Any], str, type]] = [
        (
            (tuple(pair), data, batch),
            {},
            "'pair' must be a Pair as compiled but is a tuple",
            TypeError,
        ),
        ((pair, {"k": [x, None]}, batch), {}, r"'data' has no key 'm'", ValueError),
        (
            (pair, {**data, "n": x}, batch),
            {},
            "'data' must have 2 entries as compiled but has 3",
            ValueError,
        ),
        ((pair, {**data, "k": [x]}, batch), {}, r"'data\['k'\]' must have 2 entries", ValueError),
        (
            (pair, {**data, "k": [x, x]}, batch),
            {},
            "compiled for the value None but is a Tensor",
            TypeError,
        ),
        ((pair, {**data, "m": (x, 8)}, batch), {}, "compiled for the value 7 but is 8", ValueError),
        (
            (pair, {**data, "m": (x, 7.0)}, batch),
            {},
            "compiled for the value 7 but is a float",
            TypeError,
        ),
        (
            (pair, data, Batch(batch.tokens, 1)),
            {},
            "'batch.flag' was compiled for the value True but is a int",
            TypeError,
        ),
        (
            (pair, data, batch),
            {"scale": 3.0},
            "'scale' was compiled for the value 2.0 but is 3.0",
            ValueError,
        ),
        (
            (pair, data, batch),
            {"mode": "mean"},
            "'mode' was compiled for the value 'sum' but is 'mean'",
            ValueError,
        ),
        (
            (pair, data, batch),
            {"other": 1},
            "argument 'other' was not given when this was compiled",
            TypeError,
        ),
        ((pair, data), {}, "argument 'batch' is missing", TypeError),
        (
            (pair, data, batch, 2.0, "sum"),
            {},
            "5 positional arguments are given but it was compiled for 4",
            TypeError,
        ),
        ((pair, data, batch), {"pair": pair}, "argument 'pair' is given twice", TypeError),
    ]
    for args, kwargs, words, kind in bad:
        with pytest.raises(errors.GuardError, match=words) as caught:
            fn(*args, **kwargs)
        assert isinstance(caught.value, kind)
    assert torch.equal(fn(*_trees(x))["sum"], 21 * x)


def test_registered_node(make: Maker, x: torch.Tensor) -> None:
    class Box:
        def __init__(self, a: Any, b: Any, tag: str) -> None:
            self.a, self.b, self.tag = a, b, tag

    torch.utils._pytree.register_pytree_node(
        Box, lambda box: ([box.a, box.b], box.tag), lambda items, tag: Box(*items, tag)
    )
    box = Box(x, x, "one")
    fn = make(add_program(), lambda box: box, (box,), result=Box(torch.empty(0), None, "two"))
    got = fn(box)
    assert type(got) is Box and got.tag == "two" and torch.equal(got.a, 2 * x)
    with pytest.raises(errors.GuardError, match="'box' was compiled with the structure 'one' but has 'three'"):
        fn(Box(x, x, "three"))
    with pytest.raises(errors.GuardTypeError, match="'box' must be a Box as compiled but is a Tensor"):
        fn(x)


def test_treespec_structure() -> None:
    value = {"a": [1, Pair(2, 3)], "b": (4, None)}
    leaves, spec = torch.utils._pytree.tree_flatten(value)
    nodes = [("const", "", leaf) for leaf in leaves]
    assert _signature.treespec_structure(spec, nodes) == _signature.result_structure(value)
    with pytest.raises(errors.UserError, match="more leaves"):
        _signature.treespec_structure(spec, nodes[:-1])


def test_leaves_are_numbered_as_torch_does() -> None:
    def indices(node: tuple[Any, ...], value: Any) -> dict[int, Any]:
        if node[0] == "tensor":
            return {node[2]: value}
        children = node[-1]
        if node[0] in ("tuple", "list", "namedtuple"):
            values = list(value)
        elif node[0] == "dict":
            values = [value[key] for key in node[3]]
        else:
            values = node[3](value)[0]
        found: dict[int, Any] = {}
        for child, item in zip(children, values, strict=True):
            found.update(indices(child, item))
        return found

    def function(a: Any, *rest: Any, z: Any, y: Any = None) -> None:
        return None

    args = (Pair(1, {"b": 2, "a": [3, (4,)]}), 5)
    kwargs = {"z": OrderedDict(q=6), "y": {"d": 7, "c": 8}}
    leaves, _ = torch.utils._pytree.tree_flatten((args, kwargs))
    got = _signature.input_structure(function, args, kwargs, range(len(leaves)))
    values = {"a": args[0], "rest[0]": args[1], **kwargs}
    found: dict[int, Any] = {}
    for parameter in got:
        found.update(indices(parameter[2], values[parameter[0]]))
    assert [found[i] for i in range(len(leaves))] == leaves
    with pytest.raises(errors.UserError, match="more leaves than the 7"):
        _signature.input_structure(function, args, kwargs, range(7))


def test_variadic_signature(make: Maker, x: torch.Tensor) -> None:
    def function(*tensors: Any, **named: Any) -> Any:
        return None

    fn = make(add_program(), function, (x,), {"extra": x})
    assert torch.equal(fn(x, extra=x), 2 * x)
    with pytest.raises(errors.GuardTypeError, match="argument 'tensors"):
        fn(**{"tensors[0]": x, "extra": x})
    with pytest.raises(errors.UserError, match="do not fit"):
        _signature.input_structure(add, (x,))
    with pytest.raises(errors.UserError, match="argument must be a tensor"):
        _signature.input_structure(add, (x, object()))


# ---- views


def test_views(make: Maker) -> None:
    w = torch.nn.Parameter(torch.arange(4.0))
    count = torch.zeros(1, dtype=torch.int64)
    leaf = torch.empty(0)
    fn = make(view_program(), lambda x: x, (leaf,), result=(leaf,) * 6, parameters=(w, count))
    x = torch.arange(12.0)[6:].reshape(2, 3)
    v, same, t, n, z, flat = fn(x)
    assert same is x
    assert v.data_ptr() == x.data_ptr() + 12 and torch.equal(v, x[1]) and v._base is not None
    assert t.data_ptr() == w.data_ptr() + 4 and torch.equal(t, w.detach()[1::2]) and not t.requires_grad
    assert n.data_ptr() == count.data_ptr() and n.item() == 1 and fn(x)[3].item() == 2
    assert flat.data_ptr() == z.data_ptr() and torch.equal(flat, (2 * x).flatten())
    del x, same
    gc.collect()
    assert v.tolist() == [9, 10, 11]
    with pytest.raises(errors.GuardError, match="this result is a view of 'x'"):
        fn(torch.zeros(2, 3), out=(torch.empty(3), None, None, None, None, None))
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    v, same, t, n, z, flat = fn(a)
    assert same is a and all(type(r) is np.ndarray for r in (v, t, n, z, flat))
    v[0] = 77
    assert a[1, 0] == 77 and np.shares_memory(flat, z)
    del a, same
    gc.collect()
    assert v.tolist() == [77, 4, 5]


def test_views_outlive_the_callable(make: Maker) -> None:
    w = torch.nn.Parameter(torch.arange(4.0))
    leaf = torch.empty(0)
    fn = make(
        view_program(),
        lambda x: x,
        (leaf,),
        result=(leaf,) * 6,
        parameters=(w, torch.zeros(1, dtype=torch.int64)),
    )
    t = fn(torch.zeros(2, 3))[2]
    w.data = torch.zeros(4)  # the program keeps the storage that it was made with
    t2 = fn(torch.zeros(2, 3))[2]
    del fn, w
    gc.collect()
    assert t.tolist() == t2.tolist() == [1, 3]


def test_input_updated_in_place(make: Maker, x: torch.Tensor) -> None:
    program = Program(
        [Buffer("INPUT", "x", (2, 3)), Buffer("INPUT", "y", (2, 3))],
        [(0, 0)],
        "float* p = static_cast<float*>(io->inputs[0]); for (int i = 0; i < 6; ++i) p[i] += 1;",
        writes=[0],
    )
    fn = make(program, add, (x, x))
    a = x.clone()
    assert fn(a, x) is a and torch.equal(a, x + 1)
    with pytest.raises(errors.GuardError, match="'x' is updated in place by the program but shares memory with 'y'"):
        fn(x, x)
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(errors.GuardError, match="'x' is updated in place by the program but is read-only"):
        fn(fixed, np.zeros((2, 3), np.float32))


# ---- refusals


def test_refusals(add_fn: Any, x: torch.Tensor) -> None:
    class Sub(torch.Tensor):
        pass

    fake = torch._subclasses.FakeTensorMode().from_tensor(x)
    conj = torch.randn(2, 3, dtype=torch.complex64).conj()
    cases: list[tuple[Any, str, type]] = [
        (x.double(), "float64", TypeError),
        (x[:1], r"\b1\b", ValueError),
        (x.reshape(3, 2), "3", ValueError),
        (x.flatten(), "rank|dimension", ValueError),
        (x.T.contiguous().T, "stride", ValueError),
        (x.as_subclass(Sub), "is a Sub, a subclass of torch.Tensor", TypeError),
        (fake, "is a fake tensor", TypeError),
        (x.to("meta"), "is on device 'meta'", TypeError),
        (x.to_sparse(), "sparse layout torch.sparse_coo", TypeError),
        (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "quantized", TypeError),
        (torch.nested.nested_tensor([x, x]), "nested", TypeError),
        (torch._neg_view(x), "negated view", TypeError),
        (conj.imag, "negated view", TypeError),
        (conj, "complex64|conj", ValueError),
        (x.clone().requires_grad_(), "requires grad while grad mode is on", TypeError),
        (torch.nn.Parameter(x), "requires grad while grad mode is on", TypeError),
        (torch._efficientzerotensor((2, 3)), "without storage", TypeError),
        (torch._to_functional_tensor(x), "without storage", TypeError),
        (1.0, "must be a tensor but is a float", TypeError),
        (None, "must be a tensor but is a NoneType", TypeError),
        ([1.0], "must be a tensor but is a list", TypeError),
        (np.float32(1), "must be a tensor but is a float32", TypeError),
        (np.ma.masked_array(x.numpy()), "subclass of numpy.ndarray", TypeError),
        (x.numpy().astype(">f4"), "foreign byte order", TypeError),
        (np.array([["a"] * 3] * 2), "dtype <U1, which no program takes", TypeError),
        (np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3), "not aligned", TypeError),
    ]
    for value, words, kind in cases:
        for args in ((value, x), (x, value)):
            if type(value) is np.ndarray:
                args = tuple(a.numpy() if isinstance(a, torch.Tensor) else a for a in args)
            with pytest.raises(errors.GuardError, match=words) as caught:
                add_fn(*args)
            assert isinstance(caught.value, kind), (value, caught.value)
            assert torch.equal(add_fn(x, x), 2 * x)


def test_negated_view_after_plain_tensors(make: Maker, x: torch.Tensor) -> None:
    """A place that has seen one tensor often must still notice a negated one of the same storage."""
    fn = make(add_program(), add, (x, x))
    memory = torch.zeros(2, 3)
    for _ in range(50):
        for _ in range(3):
            assert torch.equal(fn(memory, x, out=torch.empty(2, 3)), x)
        plain = memory.view(2, 3)
        fn(plain, x)
        fn(plain, x)
        fn(plain, x)
        del plain  # its address is free for the next object
        with pytest.raises(errors.GuardError, match="negated view"):
            fn(torch._neg_view(memory), x)
        with pytest.raises(errors.GuardError, match="negated view"):
            fn(x, x, out=torch._neg_view(memory))
    memory.requires_grad_()
    with pytest.raises(errors.GuardError, match="requires grad"):
        fn(memory, x)


def test_grad_modes(add_fn: Any, x: torch.Tensor) -> None:
    p = torch.nn.Parameter(x)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            z = add_fn(p, p)
            assert torch.equal(z, 2 * x) and not z.requires_grad
    with torch.inference_mode():
        assert torch.equal(add_fn(torch.ones(2, 3), x), x + 1)
    with pytest.raises(errors.GuardError, match="out|requires grad"):
        add_fn(x, x, out=torch.empty(2, 3, requires_grad=True))
    seen: list[str] = []

    def inside(v: torch.Tensor) -> torch.Tensor:
        try:
            add_fn(v, v)
        except errors.GuardError as error:
            seen.append(str(error))
        return v

    torch.vmap(inside)(x.expand(4, 2, 3))
    assert len(seen) == 1 and "cannot be borrowed" in seen[0]


def test_mixed_kinds(add_fn: Any, x: torch.Tensor) -> None:
    with pytest.raises(errors.GuardTypeError, match="'x' is a torch tensor but 'y' is a numpy array"):
        add_fn(x, x.numpy())
    with pytest.raises(
        errors.GuardTypeError,
        match="out 'result' is a numpy array but this call works with a torch",
    ):
        add_fn(x, x, out=np.empty((2, 3), np.float32))


def test_bad_out(make: Maker, add_fn: Any, x: torch.Tensor) -> None:
    memory = torch.zeros(12)
    overlapping = memory[:6].reshape(2, 3)
    cases: list[tuple[Any, str]] = [
        (
            torch.empty(2, 3, dtype=torch.float64),
            "out 'result' has dtype float64 but float32 was compiled",
        ),
        (torch.empty(3, 3), "out 'result' has size 3 in dim 0 but the result has 2"),
        (torch.empty(6), "out 'result' has rank 1 but the result has rank 2"),
        (
            torch.empty(3, 2).T,
            "out 'result' has stride 1 in dim 0 but 3 was compiled|stride 2 in dim 1",
        ),
        (torch.zeros(1).expand(2, 3), "out 'result' has stride 0"),
        (overlapping, "out 'result' shares memory with the input 'x'"),
        (memory[5:11].reshape(2, 3), "out 'result' shares memory with the input 'x'"),
        ([torch.empty(2, 3)], "must be a tensor but is a list"),
        (torch.empty(2, 3, device="meta"), "device 'meta'"),
    ]
    for out, words in cases:
        with pytest.raises(errors.GuardError, match=words):
            add_fn(overlapping, x, out=out)
    assert not memory.any()
    assert torch.equal(add_fn(overlapping, x, out=memory[6:].reshape(2, 3)), x)
    w = torch.zeros(10)
    program = add_program()
    program.buffers.append(Buffer("PARAMETER", "w", (10,)))
    fn = make(program, add, (x, x), parameters=(w,))
    with pytest.raises(errors.GuardError, match="shares memory with a parameter"):
        fn(x, x, out=w[4:].reshape(2, 3))
    program.buffers.append(Buffer("OUTPUT", "second", (2, 3)))
    program.results.append((4, 4))
    two = make(program, add, (x, x), result=(x, x), parameters=(w,))
    with pytest.raises(errors.GuardError, match="shares memory with the out tensor of result"):
        two(x, x, out=(memory[:6].reshape(2, 3), memory[5:11].reshape(2, 3)))


def test_status_classes(make: Maker, x: torch.Tensor) -> None:
    kinds = {
        1: (errors.UserError, ValueError),
        2: (errors.IndexRangeError, IndexError),
        3: (errors.DivisionError, ZeroDivisionError),
        4: (errors.CheckError, RuntimeError),
        5: (errors.OutOfMemoryError, MemoryError),
        6: (errors.CancelledError, RuntimeError),
        7: (errors.UnsupportedError, NotImplementedError),
        8: (errors.InternalError, RuntimeError),
    }
    for status, classes in kinds.items():
        program = add_program()
        program.run = f"ctx->status = {status}; ctx->statement = 0; ctx->detail[0] = 7;"
        fn = make(program, add, (x, x))
        for kind in classes:
            with pytest.raises(kind) as caught:
                fn(x, x)
        assert str(caught.value) and isinstance(caught.value, errors.StraightlineError)


def test_out_of_memory(make: Maker, x: torch.Tensor) -> None:
    program = add_program()
    program.buffers[2].shape = (1 << 50,)
    fn = make(program, add, (x, x))
    for args in ((x, x), (x.numpy(), x.numpy())):
        with pytest.raises(errors.OutOfMemoryError, match="output 'z' needs [0-9]{16} bytes"):
            fn(*args)


# ---- weights and programs


def test_weights(make: Maker, x: torch.Tensor) -> None:
    program = Program(
        [
            Buffer("INPUT", "x", (2, 3)),
            Buffer("PARAMETER", "fc.weight", (2, 3), strides=(1, 2)),
            Buffer("OUTPUT", "z", (2, 3)),
        ],
        [(2, 2)],
        "const float* w = static_cast<const float*>(io->prepared[0]);" + elementwise("a[i] + w[i]", "6", 1),
        prepare="for (int i = 0; i < 6; ++i) static_cast<float*>(io->prepared[0])[i] = "
        "2 * static_cast<const float*>(io->parameters[0])[(i / 3) + (i % 3) * 2];",
        prepared_bytes=64,
    )
    w = torch.nn.Parameter(torch.arange(6.0).reshape(3, 2).T)
    fn = make(program, lambda x: x, (x,), parameters=(w,))
    assert torch.equal(fn(x), x + 2 * w.detach())
    capsule = make.program(program)
    cases: list[tuple[Any, str]] = [
        ((), "0 parameters are given but the program has 1"),
        ((w.detach().double(),), "dtype"),
        ((torch.empty(2, 4),), "parameter 'fc.weight' has size 4 in dim 1 but 3 was compiled"),
        ((torch.empty(2, 3),), "parameter 'fc.weight' has stride"),
        ((torch.empty(6),), "parameter 'fc.weight' has rank 1 but 2 was compiled"),
        ((torch.empty(2, 3, device="meta"),), "meta"),
        (("w",), "must be a tensor but is a str"),
    ]
    for parameters, words in cases:
        with pytest.raises(errors.UserError, match=words):
            _call.weights(capsule, parameters)
    other = _call.weights(make.program(add_program()), ())
    with pytest.raises(errors.UserError, match="prepared for another program"):
        _call.Callable(capsule, other, _signature.input_structure(add, (x, x)), ("tensor", "r", 0), {})


def test_bad_construction(make: Maker, folder: Path, x: torch.Tensor) -> None:
    capsule = make.program(add_program())
    weights = _call.weights(capsule, ())
    inputs = _signature.input_structure(add, (x, x))
    with pytest.raises(errors.InternalError, match="input 1 of the program is no tensor"):
        _call.Callable(capsule, weights, inputs[:1], ("tensor", "r", 0), {})
    with pytest.raises(ValueError, match="position 1 but there are 1"):
        _call.Callable(capsule, weights, inputs, ("tensor", "r", 1), {})
    with pytest.raises(ValueError, match="unknown kind of node"):
        _call.Callable(capsule, weights, inputs, ("set", "r", ()), {})
    with pytest.raises(ValueError, match="kind must be"):
        _call.Callable(capsule, weights, inputs, ("tensor", "r", 0), {"kind": "lists"})
    for bad in ((weights, weights), (capsule, capsule)):
        with pytest.raises((ValueError, TypeError)):
            _call.Callable(*bad, inputs, ("tensor", "r", 0), {})
    with pytest.raises(errors.UserError, match="cannot be loaded"):
        _call.program_from_library(folder / "missing.so")
    (folder / "empty.cpp").write_text("int x;\n")
    subprocess.run(["g++", "-shared", "-fPIC", folder / "empty.cpp", "-o", folder / "empty.so"], check=True)
    with pytest.raises(errors.UserError, match="no symbol 'sl_program'"):
        _call.program_from_library(folder / "empty.so")


def test_no_tensor_input(make: Maker) -> None:
    program = Program([Buffer("OUTPUT", "z", (6,))], [(0, 0)], elementwise("i", "6", 0))
    assert type(make(program, lambda: 0, ())()) is torch.Tensor
    assert make(program, lambda: 0, (), kind="numpy")().tolist() == [0, 1, 2, 3, 4, 5]
    program.buffers[0].dtype = "bfloat16"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ml_dtypes", None)
        with pytest.raises(errors.UnsupportedError, match="dtype bfloat16, which numpy does not have.*ml_dtypes"):
            make(program, lambda: 0, (), kind="numpy")()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert make(program, lambda: 0, (), kind="numpy")().dtype == ml_dtypes.bfloat16


def test_subclass(make: Maker, x: torch.Tensor) -> None:
    class Methods:
        """What the package makes of it."""

        __slots__ = ()

        def shout(self) -> str:
            return self.note.upper()

    class Subclass(_call.Callable):
        def shout(self) -> str:
            return self.note.upper()

    made = _call.callable_type("straightline.Compiled", Methods)
    assert (made.__module__, made.__name__) == ("straightline", "Compiled")
    with pytest.raises(TypeError):
        _call.callable_type("a.B", bool)
    for kind in (made, Subclass):
        check_class(make, x, kind)


def check_class(make: Maker, x: torch.Tensor, kind: Any) -> None:
    capsule = make.program(add_program())
    weights = _call.weights(capsule, ())
    fn = kind(capsule, weights, _signature.input_structure(add, (x, x)), ("tensor", "result", 0), {})
    fn.note = "kept"
    assert fn.shout() == "KEPT" and type(fn) is kind
    fn.self = fn  # a cycle
    assert torch.equal(fn(x, y=x), 2 * x)
    reference = weakref.ref(fn)
    del fn
    gc.collect()
    assert reference() is None
