// SPDX-License-Identifier: Apache-2.0
// Orthogonal polynomials of degree n at x, for doubles, with ATen's rules: n is truncated, a
// negative n (and one that is no number) gives 0. By their recurrences of three terms (A&S 22.7),
// and Chebyshev's between -1 and 1 by the angle (A&S 22.3.15), which takes no longer for a large n.
#ifndef STRAIGHTLINE_KERNELS_SPECIAL_POLYNOMIALS_H
#define STRAIGHTLINE_KERNELS_SPECIAL_POLYNOMIALS_H

#include "straightline/kernels/special_error.h"

namespace sl::special {

/// n as an integer; negative where it has none.
SL_INLINE int64_t degreeOf(double n) {
  return elementary::absolute(n) < 0x1p63 ? int64_t(n) : int64_t(-1);
}
SL_INLINE bool isOdd(int64_t n) { return (n & 1) != 0; }

/// acos(x), |x| <= 1.
SL_NOINLINE double arcCosine(double x) {
  return atan2(elementary::squareRoot((1.0 - x) * (1.0 + x)), x);
}

/// r[k] = 2 x r[k - 1] - r[k - 2], up to n; NaN ends it.
SL_NOINLINE double chebyshevRecurrence(double x, double first, int64_t n) {
  double p = 1.0;
  double q = first;
  for (int64_t k = 2; k <= n && q == q; ++k) {
    const double r = (x + x) * q - p;
    p = q;
    q = r;
  }
  return n == 0 ? 1.0 : q;
}

SL_NOINLINE double chebyshev_polynomial_t(double x, double degree) {
  const int64_t n = degreeOf(degree);
  if (n < 0) {
    return 0.0;
  }
  if (elementary::absolute(x) == 1.0) {
    return x > 0.0 || !isOdd(n) ? 1.0 : -1.0;
  }
  if (n > 6 && elementary::absolute(x) < 1.0) {
    return cos(double(n) * arcCosine(x));
  }
  return chebyshevRecurrence(x, x, n);
}

SL_NOINLINE double chebyshev_polynomial_u(double x, double degree) {
  const int64_t n = degreeOf(degree);
  if (n < 0) {
    return 0.0;
  }
  const double count = double(n) + 1.0;
  if (elementary::absolute(x) == 1.0) {
    return x > 0.0 || !isOdd(n) ? count : -count;
  }
  if (n > 8 && elementary::absolute(x) < 1.0) {
    const double angle = arcCosine(x);  // not 0: x is not 1
    return sin(count * angle) / sin(angle);
  }
  return chebyshevRecurrence(x, x + x, n);
}

SL_NOINLINE double chebyshev_polynomial_v(double x, double degree) {
  const int64_t n = degreeOf(degree);
  if (n < 0) {
    return 0.0;
  }
  const double count = 2.0 * double(n) + 1.0;
  if (elementary::absolute(x) == 1.0) {
    return x > 0.0 ? 1.0 : isOdd(n) ? -count : count;
  }
  if (n > 8 && elementary::absolute(x) < 1.0) {
    const double angle = arcCosine(x);
    return cos((double(n) + 0.5) * angle) / cos(angle / 2.0);
  }
  return chebyshevRecurrence(x, x + x - 1.0, n);
}

SL_NOINLINE double chebyshev_polynomial_w(double x, double degree) {
  const int64_t n = degreeOf(degree);
  if (n < 0) {
    return 0.0;
  }
  if (elementary::absolute(x) == 1.0) {
    return x > 0.0 ? 2.0 * double(n) + 1.0 : isOdd(n) ? -1.0 : 1.0;
  }
  if (n > 8 && elementary::absolute(x) < 1.0) {
    const double angle = arcCosine(x);
    return sin((double(n) + 0.5) * angle) / sin(angle / 2.0);
  }
  return chebyshevRecurrence(x, x + x + 1.0, n);
}

SL_INLINE double shifted_chebyshev_polynomial_t(double x, double n) {
  return chebyshev_polynomial_t(x + x - 1.0, n);
}
SL_INLINE double shifted_chebyshev_polynomial_u(double x, double n) {
  return chebyshev_polynomial_u(x + x - 1.0, n);
}
SL_INLINE double shifted_chebyshev_polynomial_v(double x, double n) {
  return chebyshev_polynomial_v(x + x - 1.0, n);
}
SL_INLINE double shifted_chebyshev_polynomial_w(double x, double n) {
  return chebyshev_polynomial_w(x + x - 1.0, n);
}

/// `scale` is 2 for the physicists' polynomials H, 1 for He; NaN beyond the degree `limit`, as
/// ATen.
SL_NOINLINE double hermite(double x, double degree, double scale, int64_t limit) {
  const int64_t n = degreeOf(degree);
  if (n <= 0) {
    return n == 0 ? 1.0 : 0.0;
  }
  if (n > limit) {
    return kNan;
  }
  double p = 1.0;
  double q = scale * x;
  for (int64_t k = 1; k < n; ++k) {
    const double r = scale * x * q - scale * double(k) * p;
    p = q;
    q = r;
  }
  return q;
}

SL_NOINLINE double laguerre_polynomial_l(double x, double degree) {
  const int64_t n = degreeOf(degree);
  if (n < 0) {
    return 0.0;
  }
  if (n == 0 || x == 0.0) {
    return 1.0;
  }
  double p = 1.0;
  double q = 1.0 - x;
  for (int64_t i = 1; i < n && q == q; ++i) {
    const double k = double(i);
    const double r = ((k + k + (1.0 - x)) * q - k * p) / (k + 1.0);
    p = q;
    q = r;
  }
  return q;
}

SL_NOINLINE double legendre_polynomial_p(double x, double degree) {
  const int64_t n = degreeOf(degree);
  if (n < 0) {
    return 0.0;
  }
  if (elementary::absolute(x) == 1.0) {
    return x > 0.0 || !isOdd(n) ? 1.0 : -1.0;
  }
  if (n == 0) {
    return 1.0;
  }
  double p = 1.0;
  double q = x;
  for (int64_t i = 1; i < n && q == q; ++i) {
    const double k = double(i);
    const double r = ((k + k + 1.0) * x * q - k * p) / (k + 1.0);
    p = q;
    q = r;
  }
  return q;
}

}  // namespace sl::special

#endif  // STRAIGHTLINE_KERNELS_SPECIAL_POLYNOMIALS_H
