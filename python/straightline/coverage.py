# SPDX-License-Identifier: Apache-2.0
"""Which ops have a kernel for which element types and targets: the compiler is asked about a small example of each op.

`straightline coverage` prints the table; the reference of the documentation has it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from straightline import _compiler
from straightline.errors import UnsupportedError, UserError

#: Element types, as the IR names them.
DTYPES = ("f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1")
TARGETS = ("cpu", "cuda:sm_90")

_UNARY = """neg abs exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan tanh sigmoid relu erf silu floor ceil round
trunc sign bitwise_not hardsigmoid hardswish"""
_UNARY_WITH = {
    "gelu": 'approximate = "none"',
    "leaky_relu": "negative_slope = 0.01 : f64",
    "elu": "alpha = 1.0 : f64",
    "softplus": "beta = 1.0 : f64, threshold = 20.0 : f64",
    "clamp": "min = 0.0 : f64",
}
_TESTS = "isnan isinf logical_not"
_BINARY = """add sub mul div floor_divide trunc_divide remainder fmod pow maximum minimum atan2 bitwise_and bitwise_or
bitwise_xor"""
_COMPARISONS = "eq ne lt le gt ge logical_and logical_or logical_xor"
_SPATIAL = "padding = array<i64: 1, 1>, stride = array<i64: 1, 1>"
_RECURRENT = "batch_first = false, bidirectional = false, has_biases = true, num_layers = 1 : i64"

# Ops beyond the elementwise ones. `T` is the element type. Operands are inputs of a call, or parameters where their name is a
# capital. Of several lines the first that is valid for an element type is taken.
_OTHERS: dict[str, tuple[str, ...]] = {
    "where": ("%a, %b, %c : (tensor<4x8xi1>, tensor<4x8xT>, tensor<4x8xT>) -> tensor<4x8xT>",),
    "scan": ('%a {combine = "prod", dim = 1 : i64} : (tensor<4x8xT>) -> tensor<4x8xT>',),
    "cholesky": ("%a {upper = false} : (tensor<3x4x4xT>) -> (tensor<3x4x4xT>, tensor<3xi32>)",),
    "lu": ("%a : (tensor<3x4x4xT>) -> (tensor<3x4x4xT>, tensor<3x4xi32>, tensor<3x4xi64>, tensor<3xi32>)",),
    "geqrf": ("%a : (tensor<3x5x4xT>) -> (tensor<3x5x4xT>, tensor<3x4xT>)",),
    "orgqr": ("%a, %b : (tensor<3x5x4xT>, tensor<3x4xT>) -> tensor<3x5x4xT>",),
    "eigh": ("%a {upper = false} : (tensor<3x4x4xT>) -> (tensor<3x4x4xT>, tensor<3x4xT>, tensor<3xi32>)",),
    "svd": ("%a : (tensor<3x4x5xT>) -> (tensor<3x4x5xT>, tensor<3x4xT>, tensor<3x4x4xT>, tensor<3xi32>)",),
    "triangular_solve": (
        "%a, %b {transpose = false, unit = false, upper = true} : (tensor<3x4x4xT>, tensor<3x4x2xT>) -> tensor<3x4x2xT>",
    ),
    "special": ('%a {function = "lgamma"} : (tensor<4x8xT>) -> tensor<4x8xT>',),
    "bit_cast": ("%a : (tensor<4x8xf32>) -> tensor<4x8xi32>", "%a : (tensor<4x8xi64>) -> tensor<4x8xf64>"),
    "to_dtype": ("%a : (tensor<4x8xT>) -> tensor<4x8xf32>", "%a : (tensor<4x8xT>) -> tensor<4x8xf64>"),
    "full": ("{value = 1.0 : f64} : tensor<4xT>", "{value = 1 : i64} : tensor<4xT>", "{value = true} : tensor<4xT>"),
    "iota": ("{start = 0 : i64, step = 1 : i64} : tensor<8xT>",),
    "expand": ("%a : (tensor<8xT>) -> tensor<4x8xT>",),
    "reshape": ("%a : (tensor<4x8xT>) -> tensor<32xT>",),
    "permute": ("%a {dims = array<i64: 1, 0>} : (tensor<4x8xT>) -> tensor<8x4xT>",),
    "slice": (
        "%a {dim = 1 : i64, end = 8 : i64, start = 1 : i64, step = 2 : i64} : (tensor<4x8xT>) -> tensor<4x4xT>",
    ),
    "select": ("%a {dim = 0 : i64, index = 1 : i64} : (tensor<4x8xT>) -> tensor<8xT>",),
    "cat": ("%a, %b {dim = 0 : i64} : (tensor<4x8xT>, tensor<4x8xT>) -> tensor<8x8xT>",),
    "flip": ("%a {dims = array<i64: 0>} : (tensor<4x8xT>) -> tensor<4x8xT>",),
    "constant_pad_nd": (
        "%a {pad = array<i64: 1, 2>, value = 0.0 : f64} : (tensor<4x8xT>) -> tensor<4x11xT>",
        "%a {pad = array<i64: 1, 2>, value = 0 : i64} : (tensor<4x8xT>) -> tensor<4x11xT>",
        "%a {pad = array<i64: 1, 2>, value = false} : (tensor<4x8xT>) -> tensor<4x11xT>",
    ),
    "clone": ("%a : (tensor<4x8xT>) -> tensor<4x8xT>",),
    "slice_scatter": (
        "%a, %b {dim = 0 : i64, end = 4 : i64, start = 0 : i64, step = 2 : i64} : "
        "(tensor<4x8xT>, tensor<2x8xT>) -> tensor<4x8xT>",
    ),
    "select_scatter": (
        "%a, %b {dim = 0 : i64, index = 3 : i64} : (tensor<4x8xT>, tensor<8xT>) -> tensor<4x8xT>",
    ),
    "dynamic_slice": ("%a, %b {dim = 0 : i64, length = 2 : i64} : (tensor<4x8xT>, tensor<i64>) -> tensor<2x8xT>",),
    "dynamic_update_slice": (
        "%a, %b, %c {dim = 0 : i64} : (tensor<4x8xT>, tensor<2x8xT>, tensor<i64>) -> tensor<4x8xT>",
    ),
    **{
        name: (
            "%a {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xT>) -> tensor<4xT>",
            "%a {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xT>) -> tensor<4xi64>",
        )
        for name in ("sum", "mean", "amax", "amin", "prod")
    },
    **{
        name: ("%a {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xT>) -> tensor<4xi1>",)
        for name in ("any", "all")
    },
    "var": (
        "%a {correction = 1.0 : f64, dims = array<i64: 1>, keepdim = false} : (tensor<4x8xT>) -> tensor<4xT>",
    ),
    **{
        name: ("%a {dim = 1 : i64, keepdim = false} : (tensor<4x8xT>) -> tensor<4xi64>",)
        for name in ("argmax", "argmin")
    },
    **{
        name: ("%a {dim = 1 : i64} : (tensor<4x8xT>) -> tensor<4x8xT>", "%a {dim = 1 : i64} : (tensor<4x8xT>) -> tensor<4x8xi64>")
        for name in ("softmax", "log_softmax", "cumsum")
    },
    "topk": (
        "%a {dim = 1 : i64, k = 3 : i64, largest = true} : (tensor<4x8xT>) -> (tensor<4x3xT>, tensor<4x3xi64>)",
    ),
    "layer_norm": (
        "%a weight %W bias %B {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : "
        "(tensor<4x8xT>, tensor<8xT>, tensor<8xT>) -> tensor<4x8xT>",
    ),
    "rms_norm": (
        "%a weight %W {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x8xT>, tensor<8xT>) -> tensor<4x8xT>",
    ),
    "group_norm": (
        "%a weight %W bias %B {eps = 1.0e-5 : f64, groups = 4 : i64} : "
        "(tensor<2x8x5xT>, tensor<8xT>, tensor<8xT>) -> tensor<2x8x5xT>",
    ),
    "batch_norm": (
        "%a weight %W bias %B mean %M var %V {eps = 1.0e-5 : f64} : "
        "(tensor<2x8x5xT>, tensor<8xT>, tensor<8xT>, tensor<8xT>, tensor<8xT>) -> tensor<2x8x5xT>",
    ),
    "linear": (
        "%a, %W, %B : (tensor<4x8xT>, tensor<3x8xT>, tensor<3xT>) -> tensor<4x3xT>",
        "%a, %W : (tensor<4x8xT>, tensor<3x8xT>) -> tensor<4x3xi32>",
    ),
    "matmul": ("%a, %b : (tensor<2x4x8xT>, tensor<2x8x5xT>) -> tensor<2x4x5xT>",),
    "grouped_matmul": (
        "%a, %b, %c : (tensor<9x8xT>, tensor<3x8x5xT>, tensor<3xi32>) -> tensor<9x5xT>",
        "%a, %b, %c : (tensor<9x8xT>, tensor<8x5xT>, tensor<3xi32>) -> tensor<3x9x5xT>",
    ),
    "scaled_dot_product_attention": (
        "%a, %b, %c {is_causal = true} : "
        "(tensor<2x4x5x8xT>, tensor<2x4x7x8xT>, tensor<2x4x7x8xT>) -> tensor<2x4x5x8xT>",
    ),
    "convolution": (
        "%a, %W, %B {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, "
        + _SPATIAL
        + ", transposed = false} : (tensor<1x4x9x9xT>, tensor<6x4x3x3xT>, tensor<6xT>) -> tensor<1x6x9x9xT>",
    ),
    "max_pool2d": (
        "%a {ceil_mode = false, dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, "
        + _SPATIAL
        + "} : (tensor<1x4x9x9xT>) -> tensor<1x4x9x9xT>",
    ),
    "avg_pool2d": (
        "%a {ceil_mode = false, count_include_pad = true, kernel_size = array<i64: 3, 3>, "
        + _SPATIAL
        + "} : (tensor<1x4x9x9xT>) -> tensor<1x4x9x9xT>",
    ),
    "adaptive_avg_pool2d": ("%a {output_size = array<i64: 1, 1>} : (tensor<1x4x9x9xT>) -> tensor<1x4x1x1xT>",),
    "grid_sampler_2d": (
        '%a, %b {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : '
        "(tensor<2x4x9x9xT>, tensor<2x5x7x2xT>) -> tensor<2x4x5x7xT>",
    ),
    "embedding": ("%W, %a : (tensor<10x4xT>, tensor<2x3xi64>) -> tensor<2x3x4xT>",),
    "gather": ("%a, %b {dim = 0 : i64} : (tensor<10x4xT>, tensor<2x3xi64>) -> tensor<2x3xT>",),
    "index_select": ("%a, %b {dim = 1 : i64} : (tensor<10x4xT>, tensor<5xi64>) -> tensor<10x5xT>",),
    **{
        name: ("%a, %b, %c {dim = 1 : i64} : (tensor<4x9xT>, tensor<2xi64>, tensor<4x2xT>) -> tensor<4x9xT>",)
        for name in ("index_copy", "index_add")
    },
    "index": ("%a, %b, %c {dims = array<i64: 0, 1>} : (tensor<4x9xT>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xT>",),
    "index_put": (
        "%a, %b, %c, %d {accumulate = true, dims = array<i64: 0, 1>} : "
        "(tensor<4x9xT>, tensor<5xi64>, tensor<5xi64>, tensor<5xT>) -> tensor<4x9xT>",
    ),
    "scatter": (
        '%a, %b, %c {dim = 1 : i64, reduce = "sum"} : (tensor<4x9xT>, tensor<2x3xi64>, tensor<2x3xT>) -> tensor<4x9xT>',
    ),
    "tree_ensemble": (
        '%a, %W, %V {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, '
        "trees = 1 : i64} : (tensor<4x9xT>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>",
    ),
    "lstm": (
        f"%a, %b, %c, %W, %V, %B, %D {{{_RECURRENT}}} : (tensor<7x2x3xT>, tensor<1x2x4xT>, tensor<1x2x4xT>, tensor<16x3xT>, "
        "tensor<16x4xT>, tensor<16xT>, tensor<16xT>) -> (tensor<7x2x4xT>, tensor<1x2x4xT>, tensor<1x2x4xT>)",
    ),
    "gru": (
        f"%a, %b, %W, %V, %B, %D {{{_RECURRENT}}} : (tensor<7x2x3xT>, tensor<1x2x4xT>, tensor<12x3xT>, tensor<12x4xT>, "
        "tensor<12xT>, tensor<12xT>) -> (tensor<7x2x4xT>, tensor<1x2x4xT>)",
    ),
    "rnn": (
        f'%a, %b, %W, %V, %B, %D {{{_RECURRENT}, nonlinearity = "tanh"}} : (tensor<7x2x3xT>, tensor<1x2x4xT>, tensor<4x3xT>, '
        "tensor<4x4xT>, tensor<4xT>, tensor<4xT>) -> (tensor<7x2x4xT>, tensor<1x2x4xT>)",
    ),
}  # fmt: skip


def examples() -> dict[str, tuple[str, ...]]:
    """For each op that computes: assembly behind its name, with `T` for the element type."""
    two = "(tensor<4x8xT>, tensor<4x8xT>)"
    found = {name: ("%a : (tensor<4x8xT>) -> tensor<4x8xT>",) for name in _UNARY.split()}
    for name, attributes in _UNARY_WITH.items():
        found[name] = (f"%a {{{attributes}}} : (tensor<4x8xT>) -> tensor<4x8xT>",)
    found["clamp"] += ("%a {min = 0 : i64} : (tensor<4x8xT>) -> tensor<4x8xT>",)
    found |= {name: ("%a : (tensor<4x8xT>) -> tensor<4x8xi1>",) for name in _TESTS.split()}
    found |= {name: (f"%a, %b : {two} -> tensor<4x8xT>",) for name in _BINARY.split()}
    found |= {name: (f"%a, %b : {two} -> tensor<4x8xi1>",) for name in _COMPARISONS.split()}
    return found | _OTHERS


def _module(op: str, example: str, dtype: str) -> str:
    """A module whose function does the op alone."""
    text = re.sub(r"xT\b", f"x{dtype}", example)
    signature = text.rsplit(" : ", 1)[1]
    operands = re.findall(r"%(\w)", text)
    if "->" in signature:
        before, after = signature.split(" -> ")
    else:
        before, after = "", signature
    types = dict(zip(operands, re.findall(r"tensor<[^>]*>", before), strict=True))
    results = re.findall(r"tensor<[^>]*>", after)
    arguments = ", ".join(f'%{n}: {t} {{op.name = "{n}"}}' for n, t in types.items() if n.islower())
    given = ", ".join(f'{t} {{op.name = "r{i}"}}' for i, t in enumerate(results))
    lines = [f'  %{n} = op.parameter "{n}" : {t}' for n, t in types.items() if n.isupper()]
    names = [f"%r#{i}" if len(results) > 1 else "%r" for i in range(len(results))]
    count = f":{len(results)}" if len(results) > 1 else ""
    lines += [f"  %r{count} = op.{op} {text}", f"  return {', '.join(names)} : {', '.join(results)}"]
    return f"func.func @forward({arguments}) -> ({given}) {{\n" + "\n".join(lines) + "\n}\n"


@dataclass(frozen=True)
class Support:
    """Whether an op with one element type has a kernel on one target.

    Attributes:
        is_valid: The op is defined for this element type.
        is_supported: There is a kernel.
        reason: Why there is none.
    """

    is_valid: bool
    is_supported: bool
    reason: str = ""


def support(op: str, dtype: str, target: str) -> Support:
    """Asks the compiler about one op.

    Args:
        op: A name of `examples()`.
        dtype: One of `DTYPES`.
        target: "cpu" or "cuda:sm_NN".
    """
    for example in examples()[op]:
        try:
            module = _compiler.Module.parse(_module(op, example, dtype), op)
            _compiler.compile(module, target=target, emit_only=True, cache=False)
        except UnsupportedError as error:
            return Support(True, False, str(error).splitlines()[0])
        except UserError:  # not this line's element type
            continue
        return Support(True, True)
    return Support(False, False)


def rows(targets: Sequence[str] = TARGETS) -> Iterator[tuple[str, dict[tuple[str, str], Support]]]:
    """For each op, what became of it by target and element type."""
    for op in sorted(examples()):
        yield op, {(target, dtype): support(op, dtype, target) for target in targets for dtype in DTYPES}


def _cell(found: dict[str, Support]) -> str:
    """The targets that have a kernel: "yes" for all of them, "no" for none; empty where the op is not defined."""
    if not any(one.is_valid for one in found.values()):
        return ""
    having = [target.partition(":")[0] for target, one in found.items() if one.is_supported]
    return "yes" if len(having) == len(found) else ", ".join(having) or "no"


def markdown(targets: Sequence[str] = TARGETS) -> str:
    """The table: a row an op, a column an element type."""
    lines = ["| op | " + " | ".join(DTYPES) + " |", "|---" * (len(DTYPES) + 1) + "|"]
    for op, found in rows(targets):
        cells = [_cell({target: found[target, dtype] for target in targets}) for dtype in DTYPES]
        lines.append(f"| `{op}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
