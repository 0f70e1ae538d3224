// SPDX-License-Identifier: Apache-2.0
// The special functions that op.special names. Each is a function of namespace sl of that name in
// codegen/kernels/special.h, of floats or doubles (exp2 and copysign: in scalar.h).
#ifndef STRAIGHTLINE_DIALECT_OP_SPECIAL_FUNCTIONS_H
#define STRAIGHTLINE_DIALECT_OP_SPECIAL_FUNCTIONS_H

#include <optional>
#include <string_view>

#include "llvm/ADT/StringRef.h"

namespace straightline::op {

struct SpecialFunction {
  std::string_view name;  ///< as ATen's, without "special_"
  unsigned arity;
};

inline constexpr SpecialFunction kSpecialFunctions[] = {
    // of errors and of the normal distribution
    {"erfc", 1},
    {"erfcx", 1},
    {"erfinv", 1},
    {"ndtri", 1},
    {"log_ndtr", 1},
    // of gamma: polygamma(n, x), zeta(x, q), igamma(a, x)
    {"lgamma", 1},
    {"digamma", 1},
    {"polygamma", 2},
    {"zeta", 2},
    {"igamma", 2},
    {"igammac", 2},
    // of Bessel and Airy
    {"i0", 1},
    {"i0e", 1},
    {"i1", 1},
    {"i1e", 1},
    {"modified_bessel_i0", 1},
    {"modified_bessel_i1", 1},
    {"modified_bessel_k0", 1},
    {"modified_bessel_k1", 1},
    {"scaled_modified_bessel_k0", 1},
    {"scaled_modified_bessel_k1", 1},
    {"bessel_j0", 1},
    {"bessel_j1", 1},
    {"bessel_y0", 1},
    {"bessel_y1", 1},
    {"spherical_bessel_j0", 1},
    {"airy_ai", 1},
    // orthogonal polynomials: (x, n)
    {"chebyshev_polynomial_t", 2},
    {"chebyshev_polynomial_u", 2},
    {"chebyshev_polynomial_v", 2},
    {"chebyshev_polynomial_w", 2},
    {"shifted_chebyshev_polynomial_t", 2},
    {"shifted_chebyshev_polynomial_u", 2},
    {"shifted_chebyshev_polynomial_v", 2},
    {"shifted_chebyshev_polynomial_w", 2},
    {"hermite_polynomial_h", 2},
    {"hermite_polynomial_he", 2},
    {"laguerre_polynomial_l", 2},
    {"legendre_polynomial_p", 2},
    // of powers and signs: math.exp2 and math.copysign
    {"exp2", 1},
    {"copysign", 2},
    // of the parts of a float; frexp_exponent is a whole number
    {"nextafter", 2},
    {"frexp_mantissa", 1},
    {"frexp_exponent", 1},
};

/// How many operands the function takes; nullopt for one that is not in the table.
inline std::optional<unsigned> arityOfSpecial(llvm::StringRef name) {
  for (const SpecialFunction& function : kSpecialFunctions) {
    if (name == llvm::StringRef(function.name)) {
      return function.arity;
    }
  }
  return std::nullopt;
}

}  // namespace straightline::op

#endif  // STRAIGHTLINE_DIALECT_OP_SPECIAL_FUNCTIONS_H
