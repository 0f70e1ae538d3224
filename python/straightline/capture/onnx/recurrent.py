# SPDX-License-Identifier: Apache-2.0
"""ONNX's RNN, GRU and LSTM: as ops of ours where they have their form, else as a loop over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from straightline.capture.builder import Dim, TensorType
from straightline.capture.graph_builder import Reject, Tensor, known
from straightline.capture.onnx.importer import Importer, Node, converter, shape_text
from straightline.capture.onnx.linear import rounded
from straightline.capture.onnx.shape import reversed_prefixes
from straightline.capture.onnx.values import Known, Value

#: Gates in ONNX's order, and where ours are among them.
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ORDER = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2], "RNN": [0]}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}

#: Activations that have an alpha, and those that have a beta: each takes the next of its list.
_WITH_BETA = frozenset(("affine", "scaledtanh", "hardsigmoid"))
_WITH_ALPHA = _WITH_BETA | {"leakyrelu", "thresholdedrelu", "elu"}


@dataclass
class _Layer:
    """A node's tensors, in the order of time first."""

    x: Tensor  # [s, b, i]
    w: list[Tensor]  # of each direction [g * h, i]
    r: list[Tensor]  # of each direction [g * h, h]
    b: Tensor | None  # [d, 2 * g * h]
    lengths: Tensor | None  # [b]
    h: Tensor  # [d, b, h]
    c: Tensor | None
    p: Tensor | None  # [d, 3 * h]
    hidden: int
    #: Whether products are of x and h as `rounded` gives them.
    rounds: bool = False

    @property
    def directions(self) -> int:
        return len(self.w)


def _tensors(ctx: Importer, node: Node) -> _Layer:
    """Of a node whose weights are floats."""
    w, r = (ctx.tensor(t) for t in node.inputs[1:3])
    if (w.rank, r.rank) != (3, 3):
        raise Reject(f"weights of ranks {w.rank} and {r.rank}", "ranks of 3")
    count = _directions(node, w, r)
    sides = ([ctx.select(t, 0, d) for d in range(count)] for t in (w, r))
    return _layer(ctx, node, *sides)


def _directions(node: Node, w: Tensor, r: Tensor) -> int:
    """How many directions the node has: as many as its attribute says, before anything is made of each."""
    direction = str(node.attribute("direction", "forward"))
    wanted, (of_w, of_r) = 2 if direction == "bidirectional" else 1, (known(t.extents[0]) for t in (w, r))
    if of_w != of_r:
        raise Reject(f"weights of {of_w} directions, and recurrent ones of {of_r}", "equally many")
    if of_w != wanted:
        raise Reject(f"weights of {of_w} directions with direction={direction!r}", f"weights of {wanted}")
    return wanted


def _need_shape(tensors: Sequence[Tensor], wanted: tuple[Dim, ...], what: str) -> None:
    """Refuses tensors whose known sizes are others."""
    for t in tensors:
        numbers = zip(t.extents, wanted)
        if t.rank != len(wanted) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in numbers):
            raise Reject(f"{what} of the shape {shape_text(t.extents)}", shape_text(wanted))


def _layer(ctx: Importer, node: Node, w: list[Tensor], r: list[Tensor]) -> _Layer:
    """A node's tensors, with these weights of each direction."""
    x = ctx.tensor(node.inputs[0])
    if x.rank != 3:
        raise Reject(f"an input of rank {x.rank}", "a rank of 3")
    if node.attribute("layout", 0):
        x = ctx.permute(x, [1, 0, 2])
    hidden, directions = known(r[0].extents[1]), len(w)

    def optional(place: int) -> Tensor | None:
        return None if node.input(place) is None else ctx.tensor(node.inputs[place])

    def state(place: int) -> Tensor:
        given = optional(place)
        if given is None:
            return ctx.full(0, x.dtype, (directions, x.extents[1], hidden))
        return ctx.permute(given, [1, 0, 2]) if node.attribute("layout", 0) else given

    lstm = node.kind != "GRU" and node.kind != "RNN"
    lengths = optional(4)
    gates = _GATES.get(node.kind, 4) * hidden
    _need_shape(w, (gates, x.extents[2]), "a weight of inputs")
    _need_shape(r, (gates, hidden), "a recurrent weight")
    _need_shape([t for t in [optional(3)] if t], (directions, 2 * gates), "a bias")
    _need_shape([t for t in (state(5), state(6) if lstm else None) if t], (directions, x.extents[1], hidden), "a state")
    return _Layer(
        x, w, r, optional(3), None if lengths is None else ctx.cast(lengths, "i64"), state(5), state(6) if lstm else None,
        optional(7) if lstm else None, hidden,
    )  # fmt: skip


@converter("com.microsoft.DynamicQuantizeLSTM")
def _of_bytes(ctx: Importer, node: Node) -> list[Tensor | None]:
    """An LSTM whose weights are bytes, as ONNX Runtime computes it: x, and h of each step, are rounded to 256 numbers.

    The products are those of dequantized tensors, which the pass quantized-linears makes products of bytes.
    """
    w, r = (_of_scaled(ctx, node, i, 8 + 2 * (i - 1)) for i in (1, 2))
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.op_type, proto.domain = "LSTM", ""
    plain = Node(proto, node.inputs[:8], node.attributes, node.version)
    layer = _layer(ctx, plain, w, r)
    layer.x, layer.rounds = rounded(ctx, layer.x), True
    return _in_the_layout(ctx, plain, _by_steps(ctx, plain, layer))


def _of_scaled(ctx: Importer, node: Node, place: int, scale: int) -> list[Tensor]:
    """Weights of bytes [d, i, 4 * h] as floats [4 * h, i] of each direction.

    Scales, and zero points behind them, are [d] or [d, 4 * h].
    """
    bytes_ = ctx.permute(ctx.tensor(node.inputs[place]), [0, 2, 1])
    count = _directions(node, *(ctx.tensor(t) for t in node.inputs[1:3]))
    zero = node.input(scale + 1)
    found = []
    for d in range(count):

        def beside(value: Value | None, d: int = d) -> Tensor:
            number = ctx.select(ctx.tensor(value, "f32"), 0, d)
            return ctx.reshape(number, (*number.extents, 1)) if number.rank else number

        wide = ctx.cast(ctx.select(bytes_, 0, d), "f32")
        if zero is not None and not (isinstance(zero, Known) and not zero.array.any()):
            wide = ctx.binary("sub", wide, beside(zero))
        found.append(ctx.binary("mul", wide, beside(node.inputs[scale])))
    return found


@converter("LSTM", "GRU", "RNN")
def _recurrent(ctx: Importer, node: Node) -> list[Tensor | None]:
    layer = _tensors(ctx, node)
    batch = layer.x.extents[1]
    for state in (layer.h, layer.c):
        if state is not None:
            ctx.same_size(batch, state.extents[1])
    fit = lambda t: ctx.fitted(t, (t.extents[0], batch, t.extents[2]))  # noqa: E731
    layer.h, layer.c = fit(layer.h), None if layer.c is None else fit(layer.c)
    return _in_the_layout(
        ctx, node, _whole(ctx, node, layer) if _is_plain(node, layer) else _by_steps(ctx, node, layer)
    )


def _in_the_layout(ctx: Importer, node: Node, found: list[Tensor]) -> list[Tensor | None]:
    """What the node gives, of [s, d, b, h] and states [d, b, h]."""
    y, *last = found
    if node.attribute("layout", 0):
        return [ctx.permute(y, [2, 0, 1, 3]), *(ctx.permute(t, [1, 0, 2]) for t in last)]
    return [y, *last]


def _activations(node: Node, directions: int) -> list[str]:
    given = node.attribute("activations") or _DEFAULTS[node.kind] * directions
    return [name.lower() for name in given]


def _is_plain(node: Node, layer: _Layer) -> bool:
    names = _activations(node, layer.directions)
    defaults = [n.lower() for n in _DEFAULTS[node.kind]] * layer.directions
    if node.kind == "RNN" and set(names) == {"relu"}:
        names = defaults
    if layer.lengths is not None or layer.p is not None or node.attribute("clip") or names != defaults:
        return False
    if node.kind == "GRU" and not node.attribute("linear_before_reset", 0):
        return False
    return node.attribute("direction", "forward") != "reverse" and not node.attribute("input_forget", 0)


def _ordered(ctx: Importer, t: Tensor, kind: str, hidden: int, dim: int = 0) -> Tensor:
    """Gates in our order along a dim."""
    order = _ORDER[kind]
    if len(order) == 1:
        return t
    return ctx.cat([ctx.slice(t, dim, i * hidden, (i + 1) * hidden, hidden) for i in order], dim, t.type)


def _whole(ctx: Importer, node: Node, layer: _Layer) -> list[Tensor]:
    kind, hidden = node.kind, layer.hidden
    weights: list[Tensor] = []
    for d in range(layer.directions):
        weights += [_ordered(ctx, t, kind, hidden) for t in (layer.w[d], layer.r[d])]
        if layer.b is not None:
            both, count = ctx.select(layer.b, 0, d), _GATES[kind] * hidden
            parts = (ctx.slice(both, 0, i * count, (i + 1) * count, count) for i in range(2))
            weights += [_ordered(ctx, part, kind, hidden) for part in parts]
    attributes: dict[str, Any] = {
        "num_layers": 1, "bidirectional": layer.directions == 2, "batch_first": False, "has_biases": layer.b is not None,
    }  # fmt: skip
    if kind == "RNN":
        attributes["nonlinearity"] = _activations(node, 1)[0]
    states = [layer.h] if layer.c is None else [layer.h, layer.c]
    steps, batch = layer.x.extents[:2]
    types = [TensorType(layer.x.dtype, (steps, batch, layer.directions * hidden)), *(t.type for t in states)]
    y, *last = ctx.emit(kind.lower(), [layer.x, *states, *weights], types, attributes)
    apart = ctx.reshape(y, (steps, batch, layer.directions, hidden))
    return [ctx.permute(apart, [0, 2, 1, 3]), *last]


# By steps -------------------------------------------------------------------------------------------------------------

_Step = Callable[[Tensor, list[Tensor]], list[Tensor]]


def _activation(ctx: Importer, name: str, alpha: float | None, beta: float | None) -> Callable[[Tensor], Tensor]:
    plain = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu"}
    if name in plain:
        return lambda x: ctx.unary(plain[name], x)
    a = (
        alpha
        if alpha is not None
        else {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "elu": 1.0, "hardsigmoid": 0.2}.get(name, 1.0)
    )
    b = beta if beta is not None else {"hardsigmoid": 0.5}.get(name, 0.0)
    others: dict[str, Callable[[Tensor], Tensor]] = {
        "affine": lambda x: ctx.binary("add", ctx.binary("mul", x, a), b),
        "leakyrelu": lambda x: ctx.unary("leaky_relu", x, negative_slope=a),
        "thresholdedrelu": lambda x: ctx.where(ctx.compare("gt", x, a), x, 0.0),
        "scaledtanh": lambda x: ctx.binary("mul", ctx.unary("tanh", ctx.binary("mul", x, b)), a),
        "hardsigmoid": lambda x: ctx.unary("clamp", ctx.binary("add", ctx.binary("mul", x, a), b), min=0.0, max=1.0),
        "elu": lambda x: ctx.unary("elu", x, alpha=a),
        "softsign": lambda x: ctx.binary("div", x, ctx.binary("add", ctx.unary("abs", x), 1.0)),
        "softplus": lambda x: ctx.unary("softplus", x, beta=1.0, threshold=20.0),
    }
    if name not in others:
        raise Reject(f"the activation {name}", ", ".join(sorted([*plain, *others])))
    return others[name]


def _by_steps(ctx: Importer, node: Node, layer: _Layer) -> list[Tensor]:
    names, each = _activations(node, layer.directions), len(_DEFAULTS[node.kind])
    alphas, betas = list(node.attribute("activation_alpha") or []), list(node.attribute("activation_beta") or [])

    def taken(values: list[float], name: str, having: frozenset[str]) -> float | None:
        return values.pop(0) if values and name in having else None

    found = []
    for d in range(layer.directions):
        functions = [
            _activation(ctx, n, taken(alphas, n, _WITH_ALPHA), taken(betas, n, _WITH_BETA))
            for n in names[d * each : (d + 1) * each]
        ]
        backwards = node.attribute("direction", "forward") == "reverse" or d == 1
        found.append(_one_direction(ctx, node, layer, d, functions, backwards))
    count = len(found[0])
    parts = [[ctx.reshape(f[0], (f[0].extents[0], 1, *f[0].extents[1:])) for f in found]]
    parts += [[ctx.reshape(f[i], (1, *f[i].extents)) for f in found] for i in range(1, count)]
    results = []
    for i, tensors in enumerate(parts):
        dim = 1 if i == 0 else 0
        extents = list(tensors[0].extents)
        extents[dim] = layer.directions
        results.append(
            tensors[0] if len(tensors) == 1 else ctx.cat(tensors, dim, TensorType(layer.x.dtype, tuple(extents)))
        )
    return results


def _one_direction(
    ctx: Importer, node: Node, layer: _Layer, d: int, f: Sequence[Callable[[Tensor], Tensor]], backwards: bool
) -> list[Tensor]:
    x, hidden = layer.x, layer.hidden
    steps, batch = x.extents[:2]
    if backwards and layer.lengths is not None:
        x = reversed_prefixes(ctx, x, layer.lengths, 0, 1)
    gates = _GATES[node.kind] * hidden
    w, r = layer.w[d], layer.r[d]
    bias = ctx.select(layer.b, 0, d) if layer.b is not None else None
    halves = [None, None] if bias is None else [ctx.slice(bias, 0, i * gates, (i + 1) * gates, gates) for i in range(2)]
    projected = ctx.emit_one("linear", [x, w, halves[0]], TensorType(x.dtype, (steps, batch, gates)))
    states = [ctx.select(layer.h, 0, d)] + ([] if layer.c is None else [ctx.select(layer.c, 0, d)])
    step = _stepper(ctx, node, layer, d, r, halves[1], f)

    def masked(t: Tensor, old: list[Tensor], number: Tensor) -> list[Tensor]:
        new = step(t, old)
        if layer.lengths is None:
            return new
        runs = ctx.reshape(ctx.compare("lt", number, layer.lengths), (batch, 1))
        return [ctx.where(ctx.expand(runs, n.extents), n, o) for n, o in zip(new, old)]

    y, last = _loop(ctx, projected, states, masked, backwards and layer.lengths is None)
    if layer.lengths is not None:
        places = ctx.reshape(ctx.iota(steps), (steps, 1, 1))
        runs = ctx.compare("lt", places, ctx.reshape(layer.lengths, (1, batch, 1)))
        y = ctx.where(ctx.expand(runs, y.extents), y, ctx.full(0, y.dtype))
        if backwards:
            y = reversed_prefixes(ctx, y, layer.lengths, 0, 1)
    return [y, *last]


def _loop(
    ctx: Importer,
    projected: Tensor,
    states: list[Tensor],
    step: Callable[[Tensor, list[Tensor], Tensor], list[Tensor]],
    backwards: bool,
) -> tuple[Tensor, list[Tensor]]:
    """The states behind each step, and behind the last one; `backwards`: that of the first row."""
    count: Dim = projected.extents[0]
    y = ctx.full(0, projected.dtype, (count, *states[0].extents))
    number = TensorType("i64", ())
    initial = [ctx.full(0, "i64"), *states, y]
    types = [t.type for t in initial]
    with ctx.region(types) as (values, yields):
        yields.append(ctx.emit_one("lt", [values[0], ctx.scalar(count, "i64")], TensorType("i1", ())))
    with ctx.region(types) as (values, yields):
        at, old, whole = values[0], values[1:-1], values[-1]
        row = TensorType(projected.dtype, (1, *projected.extents[1:]))
        place = ctx.binary("sub", ctx.scalar(count - 1, "i64"), at) if backwards else at
        t = ctx.reshape(
            ctx.emit_one("dynamic_slice", [projected, place], row, {"dim": 0, "length": 1}), projected.extents[1:]
        )
        new = step(t, old, at)
        yields.append(ctx.emit_one("add", [at, ctx.full(1, "i64")], number))
        yields.extend(new)
        part = ctx.reshape(new[0], (1, *new[0].extents))
        yields.append(ctx.emit_one("dynamic_update_slice", [whole, part, place], whole.type, {"dim": 0}))
    found = ctx.emit("while", initial, types, regions=2)
    return found[-1], found[1:-1]


def _stepper(
    ctx: Importer,
    node: Node,
    layer: _Layer,
    d: int,
    r: Tensor,
    bias: Tensor | None,
    f: Sequence[Callable[[Tensor], Tensor]],
) -> _Step:
    hidden, clip = layer.hidden, node.attribute("clip")

    def clipped(x: Tensor) -> Tensor:
        return ctx.unary("clamp", x, min=-float(clip), max=float(clip)) if clip else x

    def gate(x: Tensor, i: int) -> Tensor:
        return ctx.slice(x, x.rank - 1, i * hidden, (i + 1) * hidden, hidden)

    def recurrent(h: Tensor, weight: Tensor, b: Tensor | None) -> Tensor:
        given = rounded(ctx, h) if layer.rounds else h
        return ctx.emit_one("linear", [given, weight, b], TensorType(h.dtype, (h.extents[0], weight.extents[0])))

    def add(x: Tensor, y: Tensor) -> Tensor:
        return ctx.binary("add", x, y)

    def mul(x: Tensor, y: Tensor) -> Tensor:
        return ctx.binary("mul", x, y)

    def rnn(t: Tensor, old: list[Tensor]) -> list[Tensor]:
        return [f[0](clipped(add(t, recurrent(old[0], r, bias))))]

    def lstm(t: Tensor, old: list[Tensor]) -> list[Tensor]:
        h, c = old
        s = add(t, recurrent(h, r, bias))
        i, o, g, n = (gate(s, k) for k in range(4))
        if layer.p is not None:
            peep = ctx.select(layer.p, 0, d)
            pi, po, pf = (gate(peep, k) for k in range(3))
            i, g = add(i, mul(c, pi)), add(g, mul(c, pf))
        i, g, n = f[0](clipped(i)), f[0](clipped(g)), f[1](clipped(n))
        if node.attribute("input_forget", 0):
            g = ctx.binary("sub", ctx.full(1, i.dtype), i)
        new = add(mul(g, c), mul(i, n))
        if layer.p is not None:
            o = add(o, mul(new, po))
        return [mul(f[0](clipped(o)), f[2](new)), new]

    def gru(t: Tensor, old: list[Tensor]) -> list[Tensor]:
        h = old[0]
        zr = ctx.slice(r, 0, 0, 2 * hidden, 2 * hidden)
        of_h = ctx.slice(r, 0, 2 * hidden, 3 * hidden, hidden)
        bias_zr = None if bias is None else ctx.slice(bias, 0, 0, 2 * hidden, 2 * hidden)
        bias_h = None if bias is None else ctx.slice(bias, 0, 2 * hidden, 3 * hidden, hidden)
        both = add(ctx.slice(t, t.rank - 1, 0, 2 * hidden, 2 * hidden), recurrent(h, zr, bias_zr))
        z, reset = f[0](clipped(gate(both, 0))), f[0](clipped(gate(both, 1)))
        if node.attribute("linear_before_reset", 0):
            inner = mul(reset, recurrent(h, of_h, bias_h))
        else:
            inner = recurrent(mul(reset, h), of_h, bias_h)
        n = f[1](clipped(add(gate(t, 2), inner)))
        return [add(mul(ctx.binary("sub", ctx.full(1, z.dtype), z), n), mul(z, h))]

    return {"RNN": rnn, "LSTM": lstm, "GRU": gru}[node.kind]
