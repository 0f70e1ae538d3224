# SPDX-License-Identifier: Apache-2.0
"""ONNX's RNN, GRU and LSTM of random forms, with a named batch and a named number of steps, against the operator's text in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
import straightline as sl
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
_GATES, _FUNCTIONS = {"LSTM": 4, "GRU": 3, "RNN": 1}, {"LSTM": 3, "GRU": 2, "RNN": 1}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
#: Of x, alpha and beta.
_ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * (np.exp(np.minimum(x, 0)) - 1)),
    "Affine": lambda x, a, b: a * x + b,
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
}
_BOUNDED = ("Sigmoid", "Tanh", "Softsign", "ScaledTanh", "HardSigmoid")
_WITH_BETA = ("Affine", "ScaledTanh", "HardSigmoid")
_WITH_ALPHA = ("LeakyRelu", "ThresholdedRelu", "Elu", *_WITH_BETA)


@dataclass
class Form:
    """A node: its kind, attributes, weights, and which optional inputs it has."""

    kind: str
    features: int
    hidden: int
    dtype: Any
    attributes: dict[str, Any]
    activations: list[str]
    weights: dict[str, Array] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def directions(self) -> int:
        return 2 if self.attributes["direction"] == "bidirectional" else 1

    @property
    def by_batch(self) -> bool:
        return bool(self.attributes.get("layout"))

    def sizes(self, name: str, steps: Any, batch: Any) -> list[Any]:
        """Of an input or result."""
        if name == "lengths":
            return [batch]
        if name == "x":
            return [batch, steps, self.features] if self.by_batch else [steps, batch, self.features]
        if name == "y":
            parts = [self.directions, batch, self.hidden]
            return [batch, steps, self.directions, self.hidden] if self.by_batch else [steps, *parts]
        return [batch, self.directions, self.hidden] if self.by_batch else [self.directions, batch, self.hidden]

    def model(self) -> onnx.ModelProto:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        info = lambda name, type: helper.make_tensor_value_info(name, type, self.sizes(name, "s", "b"))  # noqa: E731
        inputs = [info("x", element)]
        inputs += [info(name, TensorProto.INT32 if name == "lengths" else element) for name in self.given]
        names = ["x", "w", "r", "b", "lengths", "h", *(["c", "p"] if self.kind == "LSTM" else [])]
        used = [name if name in ("x", *self.weights, *self.given) else "" for name in names]
        results = ["y", "hn", *(["cn"] if self.kind == "LSTM" else [])]
        node = helper.make_node(self.kind, used, results, hidden_size=self.hidden, **self.attributes)
        constants = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph([node], "g", inputs, [info(name, element) for name in results], constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        onnx.checker.check_model(made)
        return made


def _random_form(rng: np.random.Generator, kind: str, dtype: Any, own_activations: bool) -> Form:
    some = lambda chance=0.5: bool(rng.random() < chance)  # noqa: E731
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    attributes: dict[str, Any] = {"direction": direction}
    activations = _DEFAULTS[kind] * directions
    if own_activations:
        activations = [str(name) for name in rng.choice(list(_ACTIVATIONS), len(activations))]
        if kind != "RNN":  # gates without a bound let states grow until float32 says nothing
            for place in range(0, len(activations), _FUNCTIONS[kind]):
                activations[place] = str(rng.choice(_BOUNDED))
        attributes["activations"] = activations
        for key, having in (("activation_alpha", _WITH_ALPHA), ("activation_beta", _WITH_BETA)):
            numbers = [float(np.float32(rng.uniform(0.05, 0.5))) for name in activations if name in having]
            attributes |= {key: numbers} if numbers else {}
    attributes |= {"layout": 1} if some(0.3) else {}
    attributes |= {"clip": float(np.float32(rng.uniform(0.2, 1.5)))} if some(0.3) else {}
    attributes |= {"linear_before_reset": 1} if kind == "GRU" and some() else {}
    attributes |= {"input_forget": 1} if kind == "LSTM" and some(0.25) else {}
    features, hidden = (int(n) for n in rng.integers(1, 9, 2))
    form = Form(kind, features, hidden, dtype, attributes, activations)
    rows = _GATES[kind] * hidden
    shapes = {"w": (rows, features), "r": (rows, hidden)}
    shapes |= {"b": (2 * rows,)} if some(0.7) else {}
    shapes |= {"p": (3 * hidden,)} if kind == "LSTM" and some(0.3) else {}
    for name, shape in shapes.items():
        form.weights[name] = (rng.standard_normal((directions, *shape)) * 0.5).astype(dtype)
    optional = ("lengths", "h", *(["c"] if kind == "LSTM" else []))
    form.given = tuple(name for name in optional if some())
    return form


def _inputs(rng: np.random.Generator, form: Form, steps: int, batch: int) -> dict[str, Array]:
    return {
        name: rng.integers(0, steps + 1, batch).astype(np.int32)
        if name == "lengths"
        else rng.standard_normal(form.sizes(name, steps, batch)).astype(form.dtype)
        for name in ("x", *form.given)
    }


def _reference(form: Form, feeds: Mapping[str, Array]) -> list[Array]:
    """The operator's equations, each row and step by itself, in float64."""
    wide = {name: array.astype(np.float64) for name, array in (form.weights | dict(feeds)).items()}
    if form.by_batch:
        wide |= {name: wide[name].swapaxes(0, 1) for name in ("x", "h", "c") if name in wide}
    steps, batch = wide["x"].shape[:2]
    alphas, betas = (list(form.attributes.get(key, ())) for key in ("activation_alpha", "activation_beta"))
    y = np.zeros((steps, form.directions, batch, form.hidden))
    last = [np.zeros((form.directions, batch, form.hidden)) for _ in range(2)]
    for d in range(form.directions):
        functions = []
        for name in form.activations[d * _FUNCTIONS[form.kind] :][: _FUNCTIONS[form.kind]]:
            alpha = alphas.pop(0) if name in _WITH_ALPHA else 0.0
            beta = betas.pop(0) if name in _WITH_BETA else 0.0
            functions.append(lambda x, f=_ACTIVATIONS[name], a=alpha, b=beta: f(x, a, b))
        for row in range(batch):
            count = int(feeds["lengths"][row]) if "lengths" in feeds else steps
            states = [wide[name][d, row] if name in wide else np.zeros(form.hidden) for name in ("h", "c")]
            backwards = form.attributes["direction"] == "reverse" or d == 1
            for t in reversed(range(count)) if backwards else range(count):
                states = _step(form, wide, d, wide["x"][t, row], *states, functions)
                y[t, d, row] = states[0]
            for all_of_them, state in zip(last, states):
                all_of_them[d, row] = state
    if form.by_batch:
        y, last = y.transpose(2, 0, 1, 3), [t.swapaxes(0, 1) for t in last]
    return [y, *last[: 2 if form.kind == "LSTM" else 1]]


def _step(form: Form, wide: Mapping[str, Array], d: int, x: Array, h: Array, c: Array, f: list[Any]) -> list[Array]:
    size, limit = form.hidden, form.attributes.get("clip", np.inf)
    clip = lambda v: np.clip(v, -limit, limit)  # noqa: E731
    w, r = wide["w"][d], wide["r"][d]
    of_x, of_h = np.split(wide["b"][d], 2) if "b" in wide else (np.zeros(len(w)),) * 2
    given = w @ x + of_x
    if form.kind == "RNN":
        return [f[0](clip(given + r @ h + of_h)), c]
    if form.kind == "GRU":
        z, reset = (f[0](clip(given[k] + r[k] @ h + of_h[k])) for k in (slice(0, size), slice(size, 2 * size)))
        n = slice(2 * size, 3 * size)
        inner = (
            reset * (r[n] @ h + of_h[n]) if form.attributes.get("linear_before_reset") else r[n] @ (reset * h) + of_h[n]
        )
        return [(1 - z) * f[1](clip(given[n] + inner)) + z * h, c]
    pi, po, pf = np.split(wide["p"][d], 3) if "p" in wide else (0.0, 0.0, 0.0)
    i, o, forget, new = np.split(given + r @ h + of_h, 4)
    i, forget, new = f[0](clip(i + pi * c)), f[0](clip(forget + pf * c)), f[1](clip(new))
    c = (1 - i if form.attributes.get("input_forget") else forget) * c + i * new
    return [f[0](clip(o + po * c)) * f[2](c), c]


def _check(rng: np.random.Generator, form: Form) -> None:
    compiled = sl.compile(form.model(), sizes={"s": (0, 64), "b": (0, 64)})
    sizes = [tuple(int(n) for n in rng.integers(1, 9, 2)), (1, 1), (int(rng.integers(9, 20)), 1), (0, 3), (3, 0)]
    for steps, batch in sizes:
        feeds = _inputs(rng, form, steps, batch)
        what = f"{form.kind} {form.attributes}, given {form.given}, weights {list(form.weights)}, {steps} steps, batch {batch}"
        tolerance = 2e-5 if form.dtype is np.float32 else 1e-12
        for mine, right in zip(compiled(**feeds), _reference(form, feeds), strict=True):
            assert mine.dtype == form.dtype, what
            scale = max(1.0, float(np.abs(right).max(initial=0)))
            np.testing.assert_allclose(mine, right, rtol=tolerance, atol=tolerance * scale, err_msg=what)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("own_activations", [False, True])
@pytest.mark.parametrize("kind", _GATES)
def test_random_forms(kind: str, own_activations: bool, dtype: Any, rng: np.random.Generator) -> None:
    """Directions, layouts, peepholes, clips, activations, lengths and starts; named sizes, of which 0 and 1."""
    _check(rng, _random_form(rng, kind, dtype, own_activations))


def test_alphas_and_betas_go_to_those_that_have_them(rng: np.random.Generator) -> None:
    """LeakyRelu has an alpha and no beta: the one beta is Affine's."""
    form = _random_form(rng, "LSTM", np.float64, own_activations=False)
    form.attributes |= {
        "direction": "forward", "activations": ["LeakyRelu", "Affine", "HardSigmoid"], "activation_alpha": [0.25, 0.5, 0.125],
        "activation_beta": [0.375, 0.625],
    }  # fmt: skip
    form.weights = {name: array[:1] for name, array in form.weights.items()}
    form.activations = form.attributes["activations"]
    _check(rng, form)


@pytest.mark.parametrize(
    ("of_w", "of_r", "direction", "words"),
    [
        (1 << 30, 1 << 30, "forward", f"weights of {1 << 30} directions with direction='forward'; .* weights of 1"),
        (1, 1 << 30, "forward", f"weights of 1 directions, and recurrent ones of {1 << 30}"),
        (1, 1, "bidirectional", "weights of 1 directions with direction='bidirectional'; .* weights of 2"),
        (2, 2, "reverse", "weights of 2 directions with direction='reverse'; .* weights of 1"),
        (0, 0, "forward", "weights of 0 directions"),
    ],
)
def test_numbers_of_directions(of_w: int, of_r: int, direction: str, words: str) -> None:
    """They are checked before anything is made of each: a number that is damaged took a minute."""
    shapes = {"x": [4, 2, 5], "w": [of_w, 12, 5], "r": [of_r, 12, 3]}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3, direction=direction)
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", given, [result]), ir_version=10)
    with pytest.raises(sl.UnsupportedError, match=words):
        sl.compile(model)
