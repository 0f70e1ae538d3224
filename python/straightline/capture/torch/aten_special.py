# SPDX-License-Identifier: Apache-2.0
"""Special functions: `op.special` by name, and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import torch

from straightline.capture.builder import TensorType
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.torch.importer import Arguments, Importer, converter

_HALF = ("f16", "bf16")

#: Functions of one operand; ATen has most of them with the prefix "special_".
_PLAIN = "exp2 erfc erfinv lgamma digamma i0".split()
_PREFIXED = """erfcx ndtri log_ndtr i0e i1 i1e modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
scaled_modified_bessel_k0 scaled_modified_bessel_k1 bessel_j0 bessel_j1 bessel_y0 bessel_y1 spherical_bessel_j0 airy_ai""".split()
_POLYNOMIALS = """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p""".split()


def _special(ctx: Importer, function: str, operands: list[Tensor], type: TensorType) -> Tensor:
    return ctx.emit_one("special", operands, type, {"function": function})


def _unary(function: str, prefix: str) -> None:
    @converter(f"aten.{prefix}{function}.default")
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
        type = ctx.result_type(node)
        return _special(ctx, function, [ctx.cast(a.get("self", a.get("x")), type.dtype)], type)


for _function in _PLAIN:
    _unary(_function, "")
for _function in _PREFIXED:
    _unary(_function, "special_")


def _pair(ctx: Importer, function: str, node: torch.fx.Node, x: Any, y: Any) -> Tensor:
    """A function of two operands, tensors or numbers, with the result's type."""
    type = ctx.result_type(node)
    return _special(ctx, function, [ctx.operand(x, type), ctx.operand(y, type)], type)


@converter("aten.special_zeta.default", "aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar")
def _zeta(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _pair(ctx, "zeta", node, a.self, a.other)


@converter("aten.igamma.default", "aten.igammac.default", "aten.copysign.Tensor", "aten.copysign.Scalar")
def _plain_pair(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    return _pair(ctx, str(node.target).split(".")[1], node, a.self, a.other)


@converter("aten.nextafter.default")
def _nextafter(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    if type.dtype in _HALF:  # computed in float32, the next one would be rounded away
        raise Reject(f"nextafter of {type.dtype}", "float32 or float64")
    return _pair(ctx, "nextafter", node, a.self, a.other)


def _polynomial(function: str) -> None:
    @converter(*(f"aten.special_{function}.{overload}" for overload in ("default", "x_scalar", "n_scalar")))
    def convert(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
        return _pair(ctx, function, node, a.x, a.n)


for _function in _POLYNOMIALS:
    _polynomial(_function)


@converter("aten.polygamma.default")
def _polygamma(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    type = ctx.result_type(node)
    if a.n == 0:
        return _special(ctx, "digamma", [ctx.cast(a.self, type.dtype)], type)
    wide = TensorType("f32" if type.dtype in _HALF else type.dtype, type.extents)  # n beyond 256 is no half
    operands = [ctx.operand(float(a.n), wide), ctx.cast(ctx.cast(a.self, type.dtype), wide.dtype)]
    return ctx.cast(_special(ctx, "polygamma", operands, wide), type.dtype)


@converter("aten.mvlgamma.default")
def _mvlgamma(ctx: Importer, a: Arguments, node: torch.fx.Node) -> Tensor:
    """The sum of lgamma(x - i / 2) for i < p, and a constant (the multivariate gamma function, A&S has the case p = 1)."""
    type = ctx.result_type(node)
    if type.dtype in _HALF:  # eager rounds each term
        raise Reject(f"mvlgamma of {type.dtype}", "float32 or float64")
    x, p = ctx.cast(a.self, type.dtype), int(a.p)
    total = ctx.operand(p * (p - 1) / 4 * math.log(math.pi), type)
    for i in range(p):
        shifted = ctx.emit_one("sub", [x, ctx.operand(i / 2, type)], type)
        total = ctx.emit_one("add", [total, _special(ctx, "lgamma", [shifted], type)], type)
    return total


@converter("aten.frexp.Tensor")
def _frexp(ctx: Importer, a: Arguments, node: torch.fx.Node) -> list[Tensor]:
    mantissa, exponent = (ctx.result_type(node, index) for index in (0, 1))
    number = _special(ctx, "frexp_exponent", [a.self], mantissa)
    return [_special(ctx, "frexp_mantissa", [a.self], mantissa), ctx.cast(number, exponent.dtype)]
