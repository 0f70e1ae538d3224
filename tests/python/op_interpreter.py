# SPDX-License-Identifier: Apache-2.0
"""A builder that records the `op` dialect and evaluates it with torch: capture is tested without the compiler.

Each op's result must have the dtype and the extents that capture said, evaluated for the sizes at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from straightline import _aten_calls
from straightline.capture import (
    Attr,
    Captured,
    Dense,
    Dim,
    Extent,
    Location,
    Result,
    TensorType,
)
from straightline.capture.builder import SizeAdvice
from torch.utils import _pytree as pytree

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "ui8": torch.uint8, "i1": torch.bool,
}  # fmt: skip


@dataclass(eq=False)
class Value:
    """A recorded value."""

    type: TensorType


@dataclass
class Region:
    """A recorded region."""

    arguments: list[Value]
    ops: list[Op] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)


@dataclass
class Op:
    """A recorded op."""

    name: str
    operands: list[Value | None]
    results: list[Value]
    attributes: dict[str, Attr]
    location: Location
    regions: list[Region]


class OpInterpreter:
    """Implements `Builder` by recording, and runs what it recorded."""

    def __init__(self) -> None:
        self.symbols: dict[str, tuple[int, int]] = {}
        self.arguments: list[tuple[str, Value]] = []
        self.results: list[Result] = []
        self._open: list[Region] = []
        self._ended: list[Region] = []

    # Builder

    def symbol(self, name: str, min: int, max: int) -> None:
        self.symbols[name] = (min, max)

    def advise(self, advice: SizeAdvice) -> None:
        self.advice = advice

    def begin_function(self, name: str, arguments: Sequence[tuple[str, TensorType]]) -> list[Value]:
        self.arguments = [(n, Value(t)) for n, t in arguments]
        self._open.append(Region([v for _, v in self.arguments]))
        return [v for _, v in self.arguments]

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[TensorType],
        attributes: dict[str, Attr],
        location: Location,
        segments: Sequence[int] | None = None,
        regions: int = 0,
    ) -> list[Value]:
        given = iter(operands)
        slots = [next(given) if s else None for s in segments or [1] * len(operands)]
        assert next(given, None) is None, f"{name}: segments {segments} for {len(operands)} operands"
        results = [Value(type) for type in result_types]
        taken = self._ended[len(self._ended) - regions :]
        del self._ended[len(self._ended) - regions :]
        self._open[-1].ops.append(Op(name, slots, results, dict(attributes), location, taken))
        return results

    def begin_region(self, arguments: Sequence[TensorType]) -> list[Value]:
        self._open.append(Region([Value(type) for type in arguments]))
        return self._open[-1].arguments

    def end_region(self, yields: Sequence[Value], location: Location) -> None:
        region = self._open.pop()
        region.yields = list(yields)
        self._ended.append(region)

    def end_function(self, results: Sequence[Result]) -> None:
        self.results = list(results)
        assert len(self._open) == 1 and not self._ended

    # Inspection

    def ops(self) -> list[Op]:
        """Every op, also those in regions."""
        return list(_walk(self._open[0]))

    def names(self) -> list[str]:
        """Names of every op, without "op."."""
        return [op.name.removeprefix("op.") for op in self.ops()]

    # Evaluation

    @torch.no_grad()
    def evaluate(self, inputs: Sequence[torch.Tensor], parameters: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Runs the function; returns all its results, tied ones last."""
        run = _Run(parameters, self._solve(inputs))
        for (name, value), tensor in zip(self.arguments, inputs, strict=True):
            run.bind(value, tensor, f"argument {name}")
        run.region(self._open[0])
        return [run.values[result.value] for result in self.results]

    def _solve(self, inputs: Sequence[torch.Tensor]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for (_, value), tensor in zip(self.arguments, inputs):
            for extent, size in zip(value.type.extents, tensor.shape):
                if isinstance(extent, Extent) and extent.text in self.symbols:
                    sizes[extent.text] = size
        return sizes


def _walk(region: Region) -> Any:
    for op in region.ops:
        yield op
        for nested in op.regions:
            yield from _walk(nested)


class _Run:
    def __init__(self, parameters: dict[str, torch.Tensor], sizes: dict[str, int]) -> None:
        self.parameters = parameters
        self.sizes = sizes
        self.values: dict[Value, torch.Tensor] = {}

    def size(self, extent: Dim) -> int:
        if isinstance(extent, int):
            return extent
        text = extent.text.replace("floordiv", "//").replace("mod", "%")
        return int(eval(text, {}, self.sizes))  # noqa: S307  (our own canonical text)

    def shape(self, type: TensorType) -> list[int]:
        return [self.size(extent) for extent in type.extents]

    def bind(self, value: Value, tensor: torch.Tensor, what: str) -> None:
        expected = (DTYPES[value.type.dtype], self.shape(value.type))
        assert (tensor.dtype, list(tensor.shape)) == expected, (
            f"{what} has {tensor.dtype} {list(tensor.shape)}, its type says {value.type}"
        )
        self.values[value] = tensor

    def region(self, region: Region) -> list[torch.Tensor]:
        for op in region.ops:
            self.op(op)
        return [self.values[value] for value in region.yields]

    def op(self, op: Op) -> None:
        name = op.name.removeprefix("op.")
        operands = [None if v is None else self.values[v] for v in op.operands]
        if op.regions:
            results = _CONTROL[name](self, op, operands)
        elif name in _SOURCES:
            results = _SOURCES[name](self, op)
        else:
            check_operands(name, operands)
            results = _OPS[name](*operands, **op.attributes, **self.extra(name, op))
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        for value, tensor in zip(op.results, results, strict=True):
            self.bind(value, tensor, f"{op.name} at {op.location}")

    def extra(self, name: str, op: Op) -> dict[str, Any]:
        """The result's shape or dtype, for ops that are defined by it."""
        if name in ("expand", "reshape"):
            return {"shape": self.shape(op.results[0].type)}
        if name in ("to_dtype", "bit_cast"):
            return {"dtype": DTYPES[op.results[0].type.dtype]}
        return {}


_SAME_OPERANDS = frozenset(
    """add sub mul div floor_divide trunc_divide remainder fmod pow maximum minimum atan2 special bitwise_and bitwise_or
    bitwise_xor logical_and logical_or logical_xor eq ne lt le gt ge""".split()
)


def check_operands(name: str, operands: Sequence[torch.Tensor | None]) -> None:
    """Promotion and broadcasting must be explicit."""
    same = operands if name in _SAME_OPERANDS else operands[1:] if name == "where" else []
    kinds = {(x.dtype, tuple(x.shape)) for x in same if x is not None}
    assert len(kinds) <= 1, f"{name} of different types {kinds}"
    if name == "where":
        assert operands[0].dtype == torch.bool and operands[0].shape == operands[1].shape
    if name == "matmul":
        assert operands[0].shape[:-2] == operands[1].shape[:-2] and operands[0].ndim >= 2
    if name == "cat":
        assert len({x.dtype for x in operands if x is not None}) == 1


# Sources --------------------------------------------------------------------------------------------------------------


def _named(run: _Run, op: Op) -> torch.Tensor:
    return run.parameters[str(op.attributes["name"])]


def _constant(run: _Run, op: Op) -> torch.Tensor:
    value = op.attributes["value"]
    assert isinstance(value, Dense) and value.type == op.results[0].type
    dtype = DTYPES[value.type.dtype]
    if not value.data:
        return torch.empty(run.shape(value.type), dtype=dtype)
    flat = torch.frombuffer(bytearray(value.data), dtype=dtype)
    return flat.reshape(run.shape(value.type))


def _full(run: _Run, op: Op) -> torch.Tensor:
    type = op.results[0].type
    assert isinstance(op.attributes["value"], float if type.dtype in _FLOATS else int)
    return torch.full(run.shape(type), op.attributes["value"], dtype=DTYPES[type.dtype])


def _iota(run: _Run, op: Op) -> torch.Tensor:
    type = op.results[0].type
    (count,) = run.shape(type)
    start, step = op.attributes["start"], op.attributes["step"]
    return (start + torch.arange(count) * step).to(DTYPES[type.dtype])


def _extent(run: _Run, op: Op) -> torch.Tensor:
    return torch.tensor(run.size(op.attributes["value"]))


def _aten(run: _Run, op: Op) -> list[torch.Tensor]:
    """An op of torch by its name, with the arguments that its text says; real results only."""
    attributes = op.attributes
    assert not attributes.get("updates")
    sizes = getattr(attributes.get("sizes"), "dims", ())

    def value(given: Any) -> Any:
        if isinstance(given, _aten_calls._TensorAt):
            return run.values[op.operands[given.number]]
        if isinstance(given, _aten_calls._Size):
            return run.size(sizes[given.number])
        return [value(item) for item in given] if isinstance(given, list) else given

    namespace, _, rest = str(attributes["name"]).partition("::")
    base, _, overload = rest.rpartition(".")
    function = getattr(getattr(getattr(torch.ops, namespace), base), overload)
    given = [value(argument) for argument in _aten_calls.parse_values(str(attributes["arguments"]))]
    declared = function._schema.arguments
    results = function(
        *(v for v, a in zip(given, declared) if not a.kwarg_only),
        **{a.name: v for v, a in zip(given, declared) if a.kwarg_only},
    )
    listed = [results] if isinstance(results, torch.Tensor) else pytree.tree_leaves(results)
    kept = pytree.tree_leaves(_aten_calls.parse_values(str(attributes["outcome"])), is_leaf=lambda leaf: leaf is None)
    return [result for result, place in zip(listed, kept, strict=True) if place is not None]


_FLOATS = ("f32", "f64", "f16", "bf16")
_SOURCES: dict[str, Callable[[_Run, Op], torch.Tensor]] = {
    "aten": _aten,
    "parameter": _named,
    "state": _named,
    "constant": _constant,
    "full": _full,
    "iota": _iota,
    "extent": _extent,
}


# Control flow ---------------------------------------------------------------------------------------------------------


def _if(run: _Run, op: Op, operands: list[Any]) -> list[torch.Tensor]:
    assert operands[0].shape == () and operands[0].dtype == torch.bool
    return run.region(op.regions[0 if operands[0].item() else 1])


def _while(run: _Run, op: Op, operands: list[Any]) -> list[torch.Tensor]:
    condition, body = op.regions
    carried = operands
    while True:
        for region in (condition, body):
            for value, tensor in zip(region.arguments, carried, strict=True):
                run.bind(value, tensor, "carried value")
        (goes_on,) = run.region(condition)
        assert goes_on.shape == () and goes_on.dtype == torch.bool
        if not goes_on.item():
            return carried
        carried = run.region(body)


_CONTROL: dict[str, Callable[[_Run, Op, list[Any]], list[torch.Tensor]]] = {
    "if": _if,
    "while": _while,
}


# Ops ------------------------------------------------------------------------------------------------------------------


def _slices(x: torch.Tensor, dim: int, start: int, end: int, step: int) -> Any:
    return (slice(None),) * dim + (slice(start, min(end, 2**62), step),)


def _pad(x: torch.Tensor, pad: list[int], value: float) -> torch.Tensor:
    return torch.constant_pad_nd(x, pad, value)


def _slice_scatter(x: torch.Tensor, src: torch.Tensor, **where: int) -> torch.Tensor:
    out = x.clone()
    assert out[_slices(x, **where)].shape == src.shape and x.dtype == src.dtype
    out[_slices(x, **where)] = src
    return out


def _lstm(x, h0, c0, *weights, num_layers, bidirectional, batch_first, has_biases):
    return torch.lstm(x, (h0, c0), weights, has_biases, num_layers, 0.0, False, bidirectional, batch_first)


def _gru(x, h0, *weights, num_layers, bidirectional, batch_first, has_biases):
    return torch.gru(x, h0, weights, has_biases, num_layers, 0.0, False, bidirectional, batch_first)


def _rnn(x, h0, *weights, num_layers, bidirectional, batch_first, has_biases, nonlinearity):
    run = {"tanh": torch.rnn_tanh, "relu": torch.rnn_relu}[nonlinearity]
    return run(x, h0, weights, has_biases, num_layers, 0.0, False, bidirectional, batch_first)


def _prod(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim=keepdim, dtype=x.dtype)
    return x


def _attention(q, k, v, mask=None, *, is_causal, scale):
    grouped = q.ndim >= 3 and q.shape[-3] != k.shape[-3]
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale, enable_gqa=grouped)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if x.dtype == torch.int8:  # sums are of 32 bits
        return x.int() @ weight.int().t()
    return F.linear(x, weight, bias)


def _grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    first = 0
    if b.ndim == 2:  # slices count negative ends from the back, as the op does
        parts = []
        for end in ends.tolist():
            parts.append(a[:, first:end] @ b[first:end])
            first = end
        return torch.stack(parts)
    y = a.new_zeros(a.shape[0], b.shape[2])
    for matrix, end in zip(b, ends.tolist(), strict=True):
        y[first:end] = a[first:end] @ matrix
        first = end
    return y


def _convolution(x, w, b=None, **k):
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    return torch.convolution(x, w, b, *(k[name] for name in names))


def _scan(x: torch.Tensor, dim: int, combine: str) -> torch.Tensor:
    if combine in ("prod", "logcumsumexp"):
        return x.cumprod(dim, dtype=x.dtype) if combine == "prod" else x.logcumsumexp(dim)
    found = getattr(torch, "cum" + combine.removeprefix("arg"))(x, dim)
    return found.indices if combine.startswith("arg") else found.values


def _lu(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    factors, pivots, info = torch.linalg.lu_factor_ex(x)
    order = torch.arange(x.shape[-1]).expand(pivots.shape).clone()
    for row, (places, exchanges) in enumerate(zip(order.reshape(-1, x.shape[-1]), pivots.reshape(-1, x.shape[-1]))):
        for i, other in enumerate(exchanges.tolist()):
            places[[i, other - 1]] = places[[other - 1, i]]
        order.reshape(-1, x.shape[-1])[row] = places
    return factors, pivots, order, info


def _triangular_solve(a: torch.Tensor, b: torch.Tensor, upper: bool, transpose: bool, unit: bool) -> torch.Tensor:
    a, upper = (a.mT, not upper) if transpose else (a, upper)
    return torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)


def _eigh(x: torch.Tensor, upper: bool) -> tuple[torch.Tensor, ...]:
    values, vectors = torch.linalg.eigh(x, "U" if upper else "L")
    return vectors.mT, values, torch.zeros(x.shape[:-2], dtype=torch.int32)


def _svd(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    return right, values, left.mT, torch.zeros(x.shape[:-2], dtype=torch.int32)


class _Special(dict[str, Callable[..., Any]]):
    """The functions of `op.special` by their names, which are torch.special's but for three."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        return getattr(torch.special, name, None) or getattr(torch, name)


_SPECIAL = _Special(
    polygamma=lambda n, x: torch.polygamma(int(n.flatten()[0]), x),
    frexp_mantissa=lambda x: torch.frexp(x).mantissa,
    frexp_exponent=lambda x: torch.frexp(x).exponent.to(x.dtype),
    igamma=torch.igamma,
    igammac=torch.igammac,
    lgamma=torch.lgamma,
    copysign=torch.copysign,
)

_OPS: dict[str, Callable[..., Any]] = {
    name: getattr(torch, name)
    for name in """neg abs exp expm1 log log1p log2 sqrt rsqrt reciprocal sin cos tan tanh sigmoid relu erf floor ceil
    round trunc sign logical_not bitwise_not isnan isinf sub mul floor_divide remainder fmod pow maximum minimum
    atan2 bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor eq ne lt le gt ge where flip
    matmul clamp""".split()
}
_OPS |= {
    "special": lambda *xs, function: _SPECIAL[function](*xs),
    "add": torch.add,
    "clone": lambda x: x.clone(memory_format=torch.contiguous_format),
    "div": torch.true_divide,
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "to_dtype": lambda x, dtype: x.to(dtype),
    "bit_cast": lambda x, dtype: x.view(dtype),
    "expand": lambda x, shape: x.expand(shape),
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, dims: x.permute(dims),
    "slice": lambda x, **where: x[_slices(x, **where)],
    "select": lambda x, dim, index: x.select(dim, index),
    "cat": lambda *xs, dim: torch.cat(xs, dim),
    "constant_pad_nd": _pad,
    "slice_scatter": _slice_scatter,
    "select_scatter": lambda x, src, dim, index: x.select_scatter(src, dim, index),
    "sum": lambda x, dims, keepdim: x.sum(dims, keepdim=keepdim, dtype=x.dtype),
    "mean": lambda x, dims, keepdim: x.mean(dims, keepdim=keepdim),
    "amax": lambda x, dims, keepdim: x.amax(dims, keepdim=keepdim),
    "amin": lambda x, dims, keepdim: x.amin(dims, keepdim=keepdim),
    "prod": _prod,
    "any": lambda x, dims, keepdim: torch.any(x, dims, keepdim=keepdim),
    "all": lambda x, dims, keepdim: torch.all(x, dims, keepdim=keepdim),
    "var": lambda x, dims, keepdim, correction: x.var(dims, correction=correction, keepdim=keepdim),
    "argmax": lambda x, dim, keepdim: x.argmax(dim, keepdim),
    "argmin": lambda x, dim, keepdim: x.argmin(dim, keepdim),
    "softmax": lambda x, dim: torch.softmax(x, dim),
    "log_softmax": lambda x, dim: torch.log_softmax(x, dim),
    "topk": lambda x, dim, k, largest: tuple(
        y.narrow(dim, 0, k) for y in x.sort(dim=dim, stable=True, descending=largest)
    ),
    "scan": lambda x, dim, combine: _scan(x, dim, combine),
    "cholesky": lambda x, upper: tuple(torch.linalg.cholesky_ex(x, upper=upper)),
    "lu": _lu,
    "geqrf": lambda x: tuple(torch.geqrf(x)),
    "eigh": _eigh,
    "svd": _svd,
    "orgqr": torch.linalg.householder_product,
    "triangular_solve": _triangular_solve,
    "cumsum": lambda x, dim: x.cumsum(dim, dtype=x.dtype),
    "layer_norm": lambda x, w, b, normalized_rank, eps: F.layer_norm(x, x.shape[x.ndim - normalized_rank :], w, b, eps),
    "rms_norm": lambda x, w=None, *, normalized_rank, eps: F.rms_norm(x, x.shape[x.ndim - normalized_rank :], w, eps),
    "group_norm": lambda x, w, b, groups, eps: F.group_norm(x, groups, w, b, eps),
    "batch_norm": lambda x, w, b, m, v, eps: F.batch_norm(x, m, v, w, b, False, 0.0, eps),
    "linear": _linear,
    "grouped_matmul": _grouped_matmul,
    "scaled_dot_product_attention": _attention,
    "convolution": _convolution,
    "max_pool2d": F.max_pool2d,
    "avg_pool2d": F.avg_pool2d,
    "adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "grid_sampler_2d": lambda x, grid, interpolation_mode, padding_mode, align_corners: F.grid_sample(
        x, grid, interpolation_mode, padding_mode, align_corners
    ),
    "embedding": lambda w, i: F.embedding(i, w),
    "gather": lambda x, i, dim: x.gather(dim, i),
    "index_select": lambda x, i, dim: x.index_select(dim, i),
    "index_copy": lambda x, i, src, dim: x.index_copy(dim, i, src),
    "index_add": lambda x, i, src, dim: x.index_add(dim, i, src),
    "index": lambda x, *i, dims: torch.ops.aten.index(x, _at(i, dims)),
    "index_put": lambda x, *rest, dims, accumulate: torch.ops.aten.index_put(
        x, _at(rest[:-1], dims), rest[-1], accumulate
    ),
    "scatter": lambda x, i, src, dim, reduce: (
        x.scatter(dim, i, src) if reduce == "none" else x.scatter_reduce(dim, i, src, reduce)
    ),
    "gru": _gru,
    "lstm": _lstm,
    "rnn": _rnn,
}


def _at(indices: Sequence[torch.Tensor], dims: Sequence[int]) -> list[torch.Tensor | None]:
    """What ATen takes for one tensor a dim."""
    of = dict(zip(dims, indices, strict=True))
    return [of.get(dim) for dim in range(max(dims) + 1)]


def call(captured: Captured, *args: Any, **kwargs: Any) -> Any:
    """Calls a captured program as the user would: flattens, evaluates, writes tied results back, unflattens."""
    from torch.utils import _pytree as pytree

    interpreter = captured.builder
    assert isinstance(interpreter, OpInterpreter)
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs))
    assert spec == captured.in_spec, f"{spec} is not {captured.in_spec}"
    tensors = {}
    for leaf, expected in zip(leaves, captured.inputs, strict=True):
        if expected.is_tensor:
            tensors[expected.argument] = leaf
        else:
            assert leaf == expected.constant
    inputs = [tensors[i] for i in range(len(tensors))]
    results = [r.clone() if i in {t.result for t in captured.tied} else r
               for i, r in enumerate(interpreter.evaluate(inputs, captured.parameters))]  # fmt: skip
    names = [name for name, _ in interpreter.arguments]
    leaves = [_output(o, results, interpreter, inputs) for o in captured.outputs]
    with torch.no_grad():
        for tied in captured.tied:
            kind, _, name = tied.tie.partition(":")
            target = captured.parameters[name] if kind == "state" else inputs[names.index(name)]
            target.copy_(results[tied.result])
    return pytree.tree_unflatten(leaves, captured.out_spec)


def _output(output: Any, results: Any, interpreter: OpInterpreter, inputs: Any) -> Any:
    if output.result >= 0:
        return results[output.result]
    if output.extent is not None:
        return _Run({}, interpreter._solve(inputs)).size(output.extent)  # noqa: SLF001
    return output.constant
