# SPDX-License-Identifier: Apache-2.0
"""The forms that a program of JAX is given in: jitted functions, exported ones, bytes, files; named sizes; what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import straightline as sl
from jax import export, lax
from jax.experimental import io_callback

from tests.frameworks.jax.compare import check, generator

W = jnp.asarray(np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4))


def _function(x: Any, more: Any) -> Any:
    return {"y": jax.nn.gelu(x @ W), "z": [more["b"] * 2, None]}


def _spec(*shape: Any, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _exported(**how: Any) -> export.Exported:
    return export.export(jax.jit(_function), **how)(_spec(3, 6), {"b": _spec(2)})


@pytest.mark.parametrize("form", ["exported", "bytes", "bytearray", "file", "two platforms", "module", "text"])
def test_each_form_gives_the_same(form: str, tmp_path: Path) -> None:
    exported = _exported(platforms=("cuda", "cpu")) if form == "two platforms" else _exported()
    path = tmp_path / "model.stablehlo"
    models: dict[str, Any] = {
        "exported": exported, "two platforms": exported, "bytes": bytes(exported.serialize()), "bytearray": exported.serialize(),
    }  # fmt: skip
    if form not in models:
        data = {"file": bytes(exported.serialize()), "module": exported.mlir_module_serialized}
        path.write_bytes(data[form] if form in data else exported.mlir_module().encode())
    fn = sl.compile(models.get(form, path))
    numbers = generator()
    x, b = (jnp.asarray(numbers.standard_normal(s).astype(np.float32)) for s in ((3, 6), 2))
    want = jax.jit(_function)(x, {"b": b})
    if form in ("module", "text"):  # which says nothing of trees
        y, z = fn(x, b)
    else:
        got = fn(x, {"b": b})
        assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
        y, z = got["y"], got["z"][0]
    np.testing.assert_allclose(y, want["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(z, want["z"][0])


def test_lines_of_the_program_are_in_the_explanation() -> None:
    fn = sl.compile(jax.jit(_function), (_spec(3, 6), {"b": _spec(2)}))
    assert any("entries_test.py:" in row["source"] for row in fn.explain().statements)


_NAMED: dict[str, tuple[Any, Any]] = {
    "shapes": (
        lambda x: (
            jnp.concatenate([x, x])[:, :3].reshape(-1),
            jnp.zeros((x.shape[0], 4)) + 1,
            jnp.pad(x, ((1, 1), (0, 0))),
        ),
        ("b", 6),
    ),
    "rows": (lambda x: (jax.nn.softmax(x, 0), jnp.var(x, 0), jnp.cumsum(x, 0), jnp.argmax(x, 0), x.mean()), ("b", 6)),
    "places": (lambda x: (x[jnp.array([0, 0])], x[-1], x[::-1], x.at[0].set(1.0)), ("b", 6)),
    "scan": (lambda x: lax.scan(lambda c, t: (jnp.tanh(c + t), c), jnp.zeros(x.shape[1]), x), (50, "b")),
    "attention": (lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), ("b", 5, 3, 8)),
    "numbers": (lambda x: x * (jnp.arange(x.shape[0]) < 3)[:, None] / x.shape[0], ("b", 6)),
    "matrices": (
        lambda x: (jnp.linalg.cholesky(x @ x.mT + jnp.eye(4)), jnp.linalg.solve(x + 9 * jnp.eye(4), x)),
        ("b", 4, 4),
    ),
    "rolled": (
        lambda x: (jnp.roll(x, 1, 0), jnp.roll(x, -1, 0), jnp.roll(x, 3, 0), jnp.roll(x, -5, 0), jnp.roll(x, 1)),
        ("b", 3),
    ),
    "stepped": (lambda x: (x[::2], x[::-1], x[::-2], x[1::3], x[-1:-2:3], x.at[::2].set(0.5)), ("b", 3)),
    "ordered": (
        lambda x: (
            jnp.sort(x, 0),
            jnp.argsort(x, 0),
            jnp.sort(x, 0, descending=True),
            lax.top_k(x[:, 0], 1),
            jnp.median(x, 0),
        ),
        ("b", 3),
    ),
    "ordered by several": (
        lambda x: (jnp.lexsort((jnp.round(x[:, 0]), x[:, 1])), lax.sort((x.T, x.T), num_keys=1)),
        ("b", 2),
    ),
    "quotients": (lambda x: x.sum() + (x.shape[0] - 5) // 2 + (x.shape[0] - 3) % 4 + (2 - x.shape[0]) // 3, ("b",)),
    "images": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), ("b", 8, 8, 3)),
}


@pytest.mark.parametrize("name", _NAMED)
def test_named_sizes(name: str) -> None:
    function, shape = _NAMED[name]
    symbols = dict(zip("b", export.symbolic_shape("b")))
    fn = sl.compile(jax.jit(function), (_spec(*(symbols.get(n, n) for n in shape)),))
    numbers = generator()
    for size in (1, 7, 64):
        x = numbers.standard_normal([size if n == "b" else n for n in shape]).astype(np.float32)
        check(function, jnp.asarray(x), compiled=fn)


_NAMED_COMPLEX: dict[str, Any] = {
    "elements": lambda z: (z * 2 + 1j, z.conj(), jnp.abs(z), jnp.exp(z * 0.1), 1 / (z + 9), z == z, jnp.angle(z)),
    "products": lambda z: (
        z @ jnp.full((6, 4), 1 - 2j, z.dtype),
        (z * z.conj()).sum(-1),
        z.mean(0),
        jnp.vdot(z, z),
        z @ z.T,
    ),
    "transforms": lambda z: (jnp.fft.fft(z), jnp.fft.irfft(z), jnp.fft.rfft(z.real), jnp.fft.fft2(z.reshape(-1, 2, 3))),
    "moved": lambda z: (
        jnp.zeros_like(z).at[:, :3].set(z[:, 3:]),
        jnp.concatenate([z, jnp.ones_like(z)], 1),
        jnp.pad(z, ((1, 2), (0, 1))),
        jnp.where(z.real > 0, z, 0),
        jnp.broadcast_to(z[:, None], (z.shape[0], 3, 6)),
        jnp.take(z, jnp.array([0, 2, 5]), 1),
        (z[::-1], z[0], z.T, z.reshape(-1), z.at[0].add(1j)),
    ),
    "control": lambda z: (
        lax.scan(lambda c, t: (c * 0.5 + t, jnp.abs(c)), jnp.zeros(z.shape[0], z.dtype), z.T),
        lax.scan(lambda c, t: (c * 0.5 + t, c), jnp.zeros(6, z.dtype), z),
        lax.cond(z.real.sum() > 0, lambda t: t * 1j, lambda t: -t, z),
        lax.fori_loop(0, 3, lambda i, c: c * z + 1, jnp.ones_like(z)),
    ),
}


@pytest.mark.parametrize("name", _NAMED_COMPLEX)
def test_complex_numbers_of_named_sizes(name: str) -> None:
    function, numbers = _NAMED_COMPLEX[name], generator()
    fn = sl.compile(jax.jit(function), (_spec(*export.symbolic_shape("b, 6"), dtype="complex64"),))
    for size in (1, 7, 64):
        parts = numbers.standard_normal((2, size, 6)) / 2
        check(function, jnp.asarray(parts[0] + 1j * parts[1], "complex64"), compiled=fn)


def test_sums_of_complex_numbers_of_named_sizes_are_refused() -> None:
    given = (_spec(*export.symbolic_shape("b, 6"), dtype="complex64"),)
    with pytest.raises(
        sl.UnsupportedError, match="entries_test.py:.*: complex numbers; nearest supported form: their parts"
    ):
        sl.compile(jax.jit(lambda z: jnp.cumsum(z, 0)), given)
    with pytest.raises(sl.UnsupportedError, match="scatter of complex numbers; nearest supported form: sums, products"):
        sl.compile(jax.jit(lambda z: z.at[:, 1].multiply(2j)), given)


def test_sizes_that_depend_on_each_other_are_guarded() -> None:
    b, twice = export.symbolic_shape("b, 2*b + 1")
    fn = sl.compile(jax.jit(lambda x, y: (x.sum(0), y + 1)), (_spec(b, 5), _spec(twice)), sizes={"b": (1, 64)})
    fn(jnp.ones((3, 5)), jnp.ones(7))
    with pytest.raises(sl.errors.GuardError, match=r"dim 0 is 6 but this program was compiled for b \* 2 \+ 1 = 7"):
        fn(jnp.ones((3, 5)), jnp.ones(6))
    for size, bound in ((65, "larger max"), (0, "smaller min")):
        with pytest.raises(sl.errors.GuardError) as caught:
            fn(jnp.ones((size, 5)), jnp.ones(2 * size + 1))
        assert str(caught.value) == (
            f"input 'x': dim 0 is {size} but this program was compiled for b in [1, 64]; "
            f"pass sizes= with a {bound} to sl.compile"
        )


def test_a_fixed_size_says_how_it_gets_a_name() -> None:
    function = jax.jit(lambda x: x * 2)
    for model, args in ((function, (_spec(3, 4),)), (export.export(function)(_spec(3, 4)), ())):
        with pytest.raises(sl.errors.GuardError) as caught:
            sl.compile(model, args)(jnp.ones((5, 4)))
        assert str(caught.value).partition("': ")[2] == (
            "dim 0 is 5 but this program was compiled for 3; trace the function for an example of this size, "
            "or of a dim named by jax.export.symbolic_shape"
        )


def _effects(x: Any) -> Any:
    jax.debug.print("{}", x)
    y = io_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return jnp.linalg.eigvals(y).real, jnp.arctan(x + 1j).real


def test_all_ops_that_are_refused_are_listed_with_their_lines() -> None:
    first = _effects.__code__.co_firstlineno
    with pytest.raises(sl.UnsupportedError) as caught:
        sl.compile(jax.jit(_effects), (jnp.ones((3, 3)),))
    text = str(caught.value)
    for line, words in {1: "callback", 2: "callback", 3: "lapack"}.items():
        assert any(f"entries_test.py:{first + line}" in row and words in row for row in text.splitlines()), (line, text)
    assert "complex" in text and "nearest supported form: a function without io_callback" in text


_BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "ordered": (lambda: sl.compile(jax.jit(lambda x: io_callback(lambda v: v, _spec(3), x, ordered=True)), (jnp.ones(3),)),
                sl.UnsupportedError, "a callback into Python"),
    "platform": (lambda: sl.compile(_exported(platforms=("cuda",))), sl.UnsupportedError, "was exported for cuda; .*platforms=.'cpu'"),
    "float0": (lambda: sl.compile(jax.jit(lambda x, y: x), (jnp.ones(3), np.zeros(3, jax.dtypes.float0))),
               sl.UnsupportedError, "the argument y has elements of float0"),
    "int4": (lambda: sl.compile(jax.jit(lambda x: x), (jnp.ones(3, "int4"),)), sl.UnsupportedError, "elements of int4"),
    "float8": (lambda: sl.compile(jax.jit(lambda x: x), (jnp.ones(3, "float8_e5m2"),)), sl.UnsupportedError, "float8_e5m2"),
    "inconclusive": (lambda: sl.compile(jax.jit(lambda x: x if x.shape[0] < 2 else -x), (_spec(*export.symbolic_shape("b")),)),
                     sl.UserError, "InconclusiveDimensionOperation"),
    "cut short": (lambda: sl.compile(bytes(_exported().serialize())[:300]), sl.UserError, "no exported program"),
    "cut module": (lambda: sl.compile(_exported().mlir_module_serialized[:300]), sl.UserError, "no StableHLO module"),
    "name that is no text": (lambda: sl.compile(bytes(_exported().serialize()).replace(b"jit(", b"j\xaft(")), sl.UserError,
                             r"a name in it, with the bytes b'.xaf', is no text"),
    "no program": (lambda: sl.compile(b"\x10\0\0\0" + b"x" * 60), sl.UserError, "no exported program"),
    "no file": (lambda: sl.compile("nowhere.stablehlo"), sl.UserError, "cannot read 'nowhere.stablehlo'"),
    "arguments": (lambda: sl.compile(jax.jit(lambda x: x @ x), (jnp.ones((3, 4)),)), sl.UserError, "does not trace"),
    "none given": (lambda: sl.compile(jax.jit(lambda x: x)), sl.UserError, "missing 1 required positional argument"),
    "branch": (lambda: sl.compile(jax.jit(lambda x: x if x > 0 else -x), (1.0,)), sl.UserError, "TracerBoolConversionError"),
    "plain function": (lambda: sl.compile(lambda x: x, (jnp.ones(3),)), sl.UserError, "give a function that jax.jit made"),
    "compiled by JAX": (lambda: sl.compile(jax.jit(lambda x: x).lower(1.0).compile()), sl.UserError, "is a Compiled of JAX"),
    "unknown size": (lambda: sl.compile(jax.jit(lambda x: x), (_spec(*export.symbolic_shape("b")),), sizes={"c": 3}),
                     sl.UserError, "has no size 'c': it has b"),
    "target": (lambda: sl.compile(jax.jit(lambda x: x), (1.0,), target="tpu"), sl.UserError, "target is 'tpu' but must be"),
    "dynamic_shapes": (lambda: sl.compile(jax.jit(lambda x: x), (1.0,), dynamic_shapes={}), sl.UserError, "symbolic_shape"),
    "examples": (lambda: sl.compile(jax.jit(lambda x: x), [(1.0,), (2.0,)]), sl.UserError, "compile it once for each"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "right"), [("é\\\\FF", True), ("a\\FF", False)])
def test_names_are_text(name: str, right: bool, tmp_path: Path) -> None:
    """UTF-8; a backslash that looks like the start of a byte is one."""
    path = tmp_path / "m.stablehlo"
    path.write_text(
        f'module @"{name}" {{ func.func @main(%x: tensor<f32>) -> tensor<f32> {{ return %x : tensor<f32> }} }}'
    )
    if right:
        assert float(sl.compile(str(path))(jnp.float32(3.0))) == 3.0
    else:
        with pytest.raises(sl.UserError, match="a name in it, with the bytes b'.xff', is no text"):
            sl.compile(str(path))


@pytest.mark.parametrize("name", _BAD)
def test_bad_input(name: str) -> None:
    make, kind, words = _BAD[name]
    with pytest.raises(kind, match=words):
        make()


def _chain(levels: int, last: str) -> str:
    """A module whose functions call each the next one, the last one `last`."""
    call = "func.func {} @{}(%a: tensor<f32>) -> tensor<f32> {{ %0 = call @{}(%a) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }}"
    names = ["main", *(f"f{i}" for i in range(levels)), last]
    calls = [call.format("private" if i else "public", *names[i : i + 2]) for i in range(levels + 1)]
    end = (
        ""
        if last in names[:-1]
        else f"func.func private @{last}(%a: tensor<f32>) -> tensor<f32> {{ return %a : tensor<f32> }}"
    )
    return "module { " + "\n".join(calls) + end + " }"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("module {" * 10_000 + "}" * 10_000, sl.UserError, "nests 10000 levels but a module has at most 400"),
        ("// " + "tuple<" * 10_000, sl.UserError, "nests 10000 levels"),
        (_chain(0, "main"), sl.UnsupportedError, "'main' calls itself; nearest supported form: no recursion"),
        (_chain(3, "f1"), sl.UnsupportedError, "'f1' calls itself"),
        (_chain(900, "last"), sl.UnsupportedError, "its functions, branches and loops nest too deep"),
    ],
    ids=["blocks", "types", "recursion", "a circle", "a chain"],
)
def test_modules_that_nest_without_end(text: str, kind: type[Exception], words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.stablehlo"
    path.write_text(text)
    with pytest.raises(kind, match=words):
        sl.compile(path)
    path.write_text(_chain(3, "last").replace("module {", 'module attributes {stablehlo.note = "[[{(<"} {'))
    assert float(sl.compile(path)(np.full((), 2, np.float32))) == 2


_SHARDED = """
import jax, jax.numpy as jnp, straightline as sl
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(jax.devices(), ("x",))
x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("x")))
fn = sl.compile(jax.jit(lambda a: a + 1), (jnp.ones(8),))
for call in (lambda: sl.compile(jax.jit(lambda a: a + 1), (x,)), lambda: fn(x),
             lambda: sl.compile(jax.jit(lambda a: jax.lax.with_sharding_constraint(a + 1, NamedSharding(mesh, P("x")))), (jnp.ones(8),)),
             lambda: sl.compile(jax.export.export(jax.jit(lambda a: a + 1))(x))):
    try:
        call()
        print("taken")
    except sl.StraightlineError as error:
        print(type(error).__name__, error)
"""

_IMPORTS = """
import sys, straightline as sl
assert not any(name.partition(".")[0] in ("jax", "jaxlib") for name in sys.modules), "jax was imported"
sys.modules["jaxlib"] = None
try:
    sl.compile("model.stablehlo")
except sl.UserError as error:
    print(error)
"""


def _printed(code: str, **environment: str) -> str:
    import os

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_arrays_on_several_devices_are_refused() -> None:
    lines = _printed(_SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=2").splitlines()
    assert "argument [0][0] is sharded over 2 devices" in lines[0], lines
    assert "is sharded over 2 devices: give an array on one device" in lines[1], lines
    assert all(line.startswith("UnsupportedError") for line in lines[2:4]), lines


def test_the_package_imports_no_jax_and_says_what_to_install() -> None:
    text = _printed(_IMPORTS)
    assert "need jaxlib" in text and "pip install 'straightline[jax]'" in text


def test_the_command_compiles_files(tmp_path: Path) -> None:
    from straightline.__main__ import main

    path = tmp_path / "model.stablehlo"
    path.write_bytes(bytes(_exported().serialize()))
    assert main(["compile", str(path), "-o", str(tmp_path / "model.sl")]) == 0
    x, b = np.ones((3, 6), np.float32), np.ones(2, np.float32)
    got = sl.load(tmp_path / "model.sl")(x, {"b": b})
    np.testing.assert_allclose(got["y"], jax.nn.gelu(x @ W), rtol=1e-5, atol=1e-6)


_OF_NAMED = {
    "2*b": [lambda x: x.reshape(2, -1), lambda x: x + 1, lambda x: x.reshape(-1, 2, 3).sum(1)],
    "b": [lambda x: (x[1:], x[:-1], x[-2:], x[0], x[-1]), lambda x: x[1:] - x[:-1], lambda x: jnp.diff(x, axis=0)],
}


@pytest.mark.parametrize("size", _OF_NAMED)
def test_parts_and_multiples_of_named_sizes(size: str) -> None:
    (dim,) = export.symbolic_shape(size)
    both = lambda x: [f(x) for f in _OF_NAMED[size]]  # noqa: E731
    fn = sl.compile(jax.jit(both), (_spec(dim, 3),), sizes={"b": (2, 64)})
    for rows in (4, 6, 64):
        check(both, jnp.asarray(generator().standard_normal((rows, 3)), jnp.float32), compiled=fn)
    if size == "2*b":
        with pytest.raises(sl.errors.GuardError, match="no whole number b gives this size"):
            fn(jnp.ones((5, 3)))


def test_a_mesh_of_one_device_is_one_device() -> None:
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.device_put(jnp.arange(4.0), split)
    check(lambda x: jax.lax.with_sharding_constraint(x + 1, split), x)
    spec = jax.sharding.PartitionSpec("d")
    check(
        jax.shard_map(
            lambda x: jax.lax.psum(x, "d") + jax.lax.axis_index("d"), mesh=mesh, in_specs=spec, out_specs=spec
        ),
        x,
    )
