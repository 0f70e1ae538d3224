// SPDX-License-Identifier: Apache-2.0
// The complementary error function, what is made of it, and their inverses, for doubles.
//
// erfc: W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23
// (1969), with its two rational functions and its splitting of x^2. ndtri: the rational functions
// of Cephes (ndtri.c, S. L. Moshier). erfinv: the start of ATen's (a rational function of 4
// digits), then two steps of Newton's method on erf or erfc, whichever has no cancellation.
#ifndef STRAIGHTLINE_KERNELS_SPECIAL_ERROR_H
#define STRAIGHTLINE_KERNELS_SPECIAL_ERROR_H

#include "straightline/kernels/scalar.h"

namespace sl::special {

inline constexpr double kPi = 3.141592653589793;
inline constexpr double kInfinity = elementary::Format<double>::kInfinity;
inline constexpr double kNan = elementary::Format<double>::kNan;

/// A sum of Chebyshev polynomials of x / 2, the highest coefficient first; the constant one counts
/// half (Clenshaw).
template <int N>
SL_INLINE double chebyshevSum(double x, const double (&c)[N]) {
  double b0 = c[0];
  double b1 = 0.0;
  double b2 = 0.0;
  SL_NO_UNROLL
  for (int i = 1; i < N; ++i) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + c[i];
  }
  return 0.5 * (b0 - b2);
}

/// exp(sign * x^2), with x^2 in two parts.
SL_NOINLINE double exponentialOfSquare(double x, double sign) {
  const double high = elementary::truncate(x * 16.0) / 16.0;
  return exp(sign * high * high) * exp(sign * (x - high) * (x + high));
}

/// exp(x^2) erfc(x) for x > 0.46875.
SL_NOINLINE double scaledErfcOfLarge(double x) {
  if (x <= 4.0) {
    constexpr double c[] = {1230.3393547979972, 2051.0783778260716, 1712.0476126340707,
                            881.952221241769,   298.6351381974001,  66.11919063714163,
                            8.883149794388377,  0.5641884969886701, 2.1531153547440383e-08};
    constexpr double d[] = {1230.3393548037495, 3439.3676741437216, 4362.619090143247,
                            3290.7992357334597, 1621.3895745666903, 537.1811018620099,
                            117.6939508913125,  15.744926110709835, 1.0};
    return elementary::horner(x, c) / elementary::horner(x, d);
  }
  constexpr double kRootOfPi = 0.5641895835477563;  // 1 / sqrt(pi)
  if (x > 1.0e8) {
    return kRootOfPi / x;
  }
  constexpr double p[] = {0.0006587491615298378, 0.016083785148742275, 0.12578172611122926,
                          0.36034489994980445,   0.30532663496123236,  0.016315387137302097};
  constexpr double q[] = {0.0023352049762686918, 0.06051834131244132, 0.5279051029514285,
                          1.8729528499234673,    2.568520192289822,   1.0};
  const double z = 1.0 / (x * x);
  return (kRootOfPi - z * elementary::horner(z, p) / elementary::horner(z, q)) / x;
}

SL_NOINLINE double erfc(double x) {
  const double a = elementary::absolute(x);
  if (!(a > 0.46875)) {
    return 1.0 - elementary::errorFunctionDouble(x);
  }
  const double tail = a > 28.0 ? 0.0 : exponentialOfSquare(a, -1.0) * scaledErfcOfLarge(a);
  return x < 0.0 ? 2.0 - tail : tail;
}

SL_NOINLINE double erfcx(double x) {
  const double a = elementary::absolute(x);
  if (!(a > 0.46875)) {
    return exp(x * x) * (1.0 - elementary::errorFunctionDouble(x));
  }
  if (x > 0.0) {
    return scaledErfcOfLarge(x);
  }
  return x < -26.7 ? kInfinity : 2.0 * exponentialOfSquare(x, 1.0) - scaledErfcOfLarge(a);
}

SL_NOINLINE double log_ndtr(double x) {
  const double t = x * 0.7071067811865476;
  return x < -1.0 ? log(erfcx(-t) / 2.0) - t * t : log1p(-erfc(t) / 2.0);
}

SL_NOINLINE double erfinv(double y) {
  const double a = elementary::absolute(y);
  if (!(a < 1.0)) {
    return a == 1.0 ? elementary::copySign(kInfinity, y) : kNan;
  }
  constexpr double kSlope = 1.1283791670955126;  // erf'(0)
  if (a <= 0.7) {
    constexpr double n[] = {0.886226899, -1.645349621, 0.914624893, -0.140543331};
    constexpr double d[] = {1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801};
    double x = y * elementary::horner(y * y, n) / elementary::horner(y * y, d);
    for (int step = 0; step < 2; ++step) {
      x -= (elementary::errorFunctionDouble(x) - y) / (kSlope * exp(-x * x));
    }
    return x;
  }
  constexpr double n[] = {-1.970840454, -1.624906493, 3.429567803, 1.641345311};
  constexpr double d[] = {1.0, 3.543889200, 1.637067800};
  const double z = elementary::squareRoot(-log((1.0 - a) / 2.0));
  double x = elementary::horner(z, n) / elementary::horner(z, d);
  for (int step = 0; step < 2; ++step) {
    x += (erfc(x) - (1.0 - a)) / (kSlope * exp(-x * x));
  }
  return elementary::copySign(x, y);
}

SL_NOINLINE double ndtri(double given) {
  if (given == 0.0 || given == 1.0) {
    return given == 0.0 ? -kInfinity : kInfinity;
  }
  if (!(given > 0.0 && given < 1.0)) {
    return kNan;
  }
  constexpr double kTail = 0.1353352832366127;  // exp(-2)
  const bool isUpper = given > 1.0 - kTail;
  const double y = isUpper ? 1.0 - given : given;
  if (y > kTail) {
    constexpr double p0[] = {-1.2391658386738125, 13.931260938727968, -56.67628574690703,
                             98.00107541859997, -59.96335010141079};
    constexpr double q0[] = {-1.1833162112133,   15.90562251262117,   -82.03722561683334,
                             200.26021238006066, -225.46268785411937, 86.36024213908905,
                             4.676279128988815,  1.9544885833814176,  1.0};
    const double t = y - 0.5;
    const double z = t * t;
    return (t + t * (z * elementary::horner(z, p0) / elementary::horner(z, q0))) *
           2.5066282746310007;  // sqrt(2 pi)
  }
  const double x = elementary::squareRoot(-2.0 * log(y));
  const double z = 1.0 / x;
  const double first = x - log(x) / x;
  double rest;
  if (x < 8.0) {
    constexpr double p1[] = {-0.0008574567851546854, -0.03504246268278482, -0.1402560791713545,
                             2.1866330685079025,     14.684956192885803,   44.08050738932008,
                             57.16281922464213,      31.525109459989388,   4.0554489230596245};
    constexpr double q1[] = {-0.0009332594808954574, -0.03808064076915783, -0.14218292285478779,
                             2.504649462083094,      15.04253856929075,    41.3172038254672,
                             45.39076351288792,      15.779988325646675,   1.0};
    rest = z * elementary::horner(z, p1) / elementary::horner(z, q1);
  } else {
    constexpr double p2[] = {6.239745391849833e-09, 2.6580697468673755e-06, 0.00030158155350823543,
                             0.012371663481782003,  0.20148538954917908,    1.3330346081580755,
                             3.9388102529247444,    6.915228890689842,      3.2377489177694603};
    constexpr double q2[] = {6.790194080099813e-09, 2.8924786474538068e-06, 0.00032801446468212774,
                             0.013420400608854318,  0.21623699359449663,    1.3770209948908132,
                             3.6798356385616087,    6.02427039364742,       1.0};
    rest = z * elementary::horner(z, p2) / elementary::horner(z, q2);
  }
  return isUpper ? first - rest : rest - first;
}

}  // namespace sl::special

#endif  // STRAIGHTLINE_KERNELS_SPECIAL_ERROR_H
