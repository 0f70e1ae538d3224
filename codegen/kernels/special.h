// SPDX-License-Identifier: Apache-2.0
// The special functions that op.special names (dialect/op/special_functions.h has the same list),
// on float, double and their vectors. Each is computed in double, lane by lane, by one function
// that is not inlined: they are long, and a unit has one copy of those that it calls. The emitter
// includes this file only where a lambda calls one of them.
#ifndef STRAIGHTLINE_KERNELS_SPECIAL_H
#define STRAIGHTLINE_KERNELS_SPECIAL_H

#include "straightline/kernels/special_bessel.h"
#include "straightline/kernels/special_error.h"
#include "straightline/kernels/special_gamma.h"
#include "straightline/kernels/special_polynomials.h"

namespace sl {

#define SL_SPECIAL(name)                                                           \
  template <class V>                                                               \
  SL_INLINE V name(V x) {                                                          \
    return convert<Element<V>>(elementary::lanewise(                               \
        convert<double>(x), [](double d) SL_LAMBDA { return special::name(d); })); \
  }
#define SL_SPECIAL_OF_TWO(name)                                                         \
  template <class V>                                                                    \
  SL_INLINE V name(V x, V y) {                                                          \
    return convert<Element<V>>(elementary::lanewise(                                    \
        convert<double>(x), convert<double>(y),                                         \
        [](double one, double other) SL_LAMBDA { return special::name(one, other); })); \
  }
SL_SPECIAL(erfc)
SL_SPECIAL(erfcx)
SL_SPECIAL(erfinv)
SL_SPECIAL(ndtri)
SL_SPECIAL(log_ndtr)
SL_SPECIAL(lgamma)
SL_SPECIAL(digamma)
SL_SPECIAL_OF_TWO(polygamma)
SL_SPECIAL_OF_TWO(zeta)
SL_SPECIAL_OF_TWO(igamma)
SL_SPECIAL_OF_TWO(igammac)
SL_SPECIAL(i0)
SL_SPECIAL(i0e)
SL_SPECIAL(i1)
SL_SPECIAL(i1e)
SL_SPECIAL(modified_bessel_k0)
SL_SPECIAL(modified_bessel_k1)
SL_SPECIAL(scaled_modified_bessel_k0)
SL_SPECIAL(scaled_modified_bessel_k1)
SL_SPECIAL(bessel_j0)
SL_SPECIAL(bessel_j1)
SL_SPECIAL(bessel_y0)
SL_SPECIAL(bessel_y1)
SL_SPECIAL(spherical_bessel_j0)
SL_SPECIAL(airy_ai)
SL_SPECIAL_OF_TWO(chebyshev_polynomial_t)
SL_SPECIAL_OF_TWO(chebyshev_polynomial_u)
SL_SPECIAL_OF_TWO(chebyshev_polynomial_v)
SL_SPECIAL_OF_TWO(chebyshev_polynomial_w)
SL_SPECIAL_OF_TWO(shifted_chebyshev_polynomial_t)
SL_SPECIAL_OF_TWO(shifted_chebyshev_polynomial_u)
SL_SPECIAL_OF_TWO(shifted_chebyshev_polynomial_v)
SL_SPECIAL_OF_TWO(shifted_chebyshev_polynomial_w)
SL_SPECIAL_OF_TWO(laguerre_polynomial_l)
SL_SPECIAL_OF_TWO(legendre_polynomial_p)
#undef SL_SPECIAL
#undef SL_SPECIAL_OF_TWO

template <class V>
SL_INLINE V modified_bessel_i0(V x) {
  return i0(x);
}
template <class V>
SL_INLINE V modified_bessel_i1(V x) {
  return i1(x);
}

/// ATen's limits of the degree: n! of a larger one is beyond the type.
template <class V>
inline constexpr int64_t kHermiteLimit = kSame<Element<V>, float> ? 128 : 512;
template <class V>
SL_INLINE V hermite_polynomial_h(V x, V n) {
  return convert<Element<V>>(elementary::lanewise(
      convert<double>(x), convert<double>(n), [](double one, double degree) SL_LAMBDA {
        return special::hermite(one, degree, 2.0, kHermiteLimit<V>);
      }));
}
template <class V>
SL_INLINE V hermite_polynomial_he(V x, V n) {
  return convert<Element<V>>(elementary::lanewise(
      convert<double>(x), convert<double>(n), [](double one, double degree) SL_LAMBDA {
        return special::hermite(one, degree, 1.0, kHermiteLimit<V>);
      }));
}

// ---- the parts of a float ----

/// The float next to x in the direction of y; y where they are equal, NaN where one is.
template <class V>
SL_INLINE V nextafter(V x, V y) {
  using T = Element<V>;
  return elementary::lanewise(x, y, [](T from, T to) SL_LAMBDA {
    using I = typename elementary::Format<T>::Int;
    if (from != from || to != to) {
      return from + to;
    }
    if (from == to) {
      return to;
    }
    if (from == T(0)) {
      return elementary::copySign(bitcast<T>(I(1)), to);
    }
    const bool isAway = (to > from) == (from > T(0));
    return bitcast<T>(I(bitcast<I>(from) + (isAway ? I(1) : I(-1))));
  });
}

namespace special {

/// x = mantissa * 2^exponent with a mantissa from 0.5 up to 1; a zero, an infinity and NaN have 0
/// as their exponent.
SL_NOINLINE double frexp_exponent(double x) {
  if (x == 0.0 || !(elementary::absolute(x) < kInfinity)) {
    return 0.0;
  }
  const bool isSmall = elementary::absolute(x) < elementary::Format<double>::kSmallestNormal;
  const int64_t bits = bitcast<int64_t>(isSmall ? x * 0x1p54 : x);
  return double(((bits >> 52) & 2047) - 1022 - (isSmall ? 54 : 0));
}
SL_NOINLINE double frexp_mantissa(double x) {
  if (x == 0.0 || !(elementary::absolute(x) < kInfinity)) {
    return x;
  }
  const bool isSmall = elementary::absolute(x) < elementary::Format<double>::kSmallestNormal;
  const int64_t bits = bitcast<int64_t>(isSmall ? x * 0x1p54 : x);
  return bitcast<double>((bits & ~(int64_t(2047) << 52)) | (int64_t(1022) << 52));
}

}  // namespace special

template <class V>
SL_INLINE V frexp_mantissa(V x) {
  return convert<Element<V>>(elementary::lanewise(
      convert<double>(x), [](double d) SL_LAMBDA { return special::frexp_mantissa(d); }));
}
template <class V>
SL_INLINE V frexp_exponent(V x) {
  return convert<Element<V>>(elementary::lanewise(
      convert<double>(x), [](double d) SL_LAMBDA { return special::frexp_exponent(d); }));
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_SPECIAL_H
