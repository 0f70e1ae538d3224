// SPDX-License-Identifier: Apache-2.0
// The gamma function's logarithm, its derivatives, Hurwitz's zeta and the incomplete gamma
// functions, for doubles.
//
// lgamma: Taylor's series at 2, whose coefficients are (zeta(k) - 1) / k, shifts, and Stirling's
// series from 9 on. digamma, zeta: Cephes (psi.c, zeta.c, S. L. Moshier): a shift, then the
// asymptotic series; sum and Euler-Maclaurin. igamma, igammac: the regions of Cephes and Boost
// (Maddock et al., "Incomplete Gamma Functions"): DLMF 8.11.4, 8.7.3, the continued fraction 8.9.2,
// Temme's uniform expansion 8.12.3 for large a near x, with its first terms; x^a exp(-x) / gamma(a)
// by Lanczos' approximation as in Boost.
#ifndef STRAIGHTLINE_KERNELS_SPECIAL_GAMMA_H
#define STRAIGHTLINE_KERNELS_SPECIAL_GAMMA_H

#include "straightline/kernels/special_error.h"

namespace sl::special {

/// sin(pi x): exactly 0 at whole numbers.
SL_NOINLINE double sineOfPi(double x) {
  double r = x - 2.0 * elementary::roundEven(x * 0.5);
  r = r > 0.5 ? 1.0 - r : r < -0.5 ? -1.0 - r : r;
  return sin(kPi * r);
}

/// log(gamma(2 + z)) for |z| <= 0.5.
SL_INLINE double logGammaNear2(double z) {
  constexpr double c[] = {0.42278433509846713,     0.3224670334241132,     -0.0673523010531981,
                          0.020580808427784546,    -0.007385551028673986,  0.0028905103307415234,
                          -0.001192753911703261,   0.0005096695247430425,  -0.00022315475845357939,
                          9.945751278180853e-05,   -4.492623673813314e-05, 2.050721277567069e-05,
                          -9.439488275268397e-06,  4.374866789907488e-06,  -2.039215753801366e-06,
                          9.55141213040742e-07,    -4.492469198764566e-07, 2.1207184805554665e-07,
                          -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08,
                          1.0838659214896955e-08,  -5.183475041970047e-09, 2.4836745438024785e-09,
                          -1.1921401405860912e-09, 5.731367241678862e-10,  -2.7595228851242334e-10,
                          1.330476437424449e-10,   -6.4229645638381e-11};
  return z * elementary::horner(z, c);
}

/// lgamma of a finite x >= 0.5.
SL_NOINLINE double logGammaOfPositive(double x) {
  if (x < 1.5) {
    return logGammaNear2(x - 1.0) - log1p(x - 1.0);
  }
  if (x < 9.0) {
    double product = 1.0;
    while (x > 2.5) {
      x -= 1.0;
      product *= x;
    }
    return log(product) + logGammaNear2(x - 2.0);
  }
  constexpr double c[] = {0.08333333333333333,    -0.002777777777777778, 0.0007936507936507937,
                          -0.0005952380952380953, 0.0008417508417508417, -0.0019175269175269176,
                          0.00641025641025641,    -0.029550653594771242};
  const double z = 1.0 / x;
  return (x - 0.5) * (log(x) - 1.0) + 0.4189385332046727 + z * elementary::horner(z * z, c);
}

SL_NOINLINE double lgamma(double x) {
  const double a = elementary::absolute(x);
  if (x != x || a == kInfinity) {
    return a;
  }
  if (a < 0.5) {
    return logGammaNear2(x) - log(a) - log1p(x);  // infinity at 0
  }
  if (x > 0.0) {
    return logGammaOfPositive(x);
  }
  const double sine = elementary::absolute(sineOfPi(x));  // 1.14..: log(pi)
  return sine == 0.0 ? kInfinity : 1.1447298858494002 - log(sine) - logGammaOfPositive(1.0 - x);
}

SL_NOINLINE double digamma(double x) {
  if (x == 0.0) {
    return elementary::copySign(kInfinity, -x);
  }
  double result = 0.0;
  if (x < 0.0) {
    const double whole = elementary::truncate(x);
    if (x == whole) {
      return kNan;
    }
    result = -kPi / tan(kPi * (x - whole));
    x = 1.0 - x;
  }
  while (x < 10.0) {
    result -= 1.0 / x;
    x += 1.0;
  }
  constexpr double c[] = {0.08333333333333333,   -0.008333333333333333, 0.003968253968253968,
                          -0.004166666666666667, 0.007575757575757576,  -0.021092796092796094,
                          0.08333333333333333};
  const double z = 1.0 / (x * x);
  return result + log(x) - 0.5 / x - z * elementary::horner(z, c);
}

/// The sum of (q + k)^-x over k >= 0, for x > 1 and q > 0.
SL_NOINLINE double zetaOfPositive(double x, double q) {
  constexpr double kEpsilon = 1.1102230246251565e-16;
  double sum = pow(q, -x);
  double a = q;
  double b = 0.0;
  for (int i = 0; i < 9 || a <= 9.0; ++i) {
    a += 1.0;
    b = pow(a, -x);
    sum += b;
    if (-kEpsilon * sum < b && b < kEpsilon * sum) {
      return sum;
    }
  }
  const double w = a;
  sum += b * w / (x - 1.0) - 0.5 * b;
  constexpr double c[] = {12.0,
                          -720.0,
                          30240.0,
                          -1209600.0,
                          47900160.0,
                          -1892437580.3183792,
                          74724249600.0,
                          -2950130727918.164,
                          116467828143500.67,
                          -4597978722407473.0,
                          1.8152105401943546e+17,
                          -7.166165256175667e+18};
  double factor = 1.0;
  double k = 0.0;
  SL_NO_UNROLL
  for (int i = 0; i < 12; ++i) {
    factor *= x + k;
    b /= w;
    const double term = factor * b / c[i];
    sum += term;
    if (elementary::absolute(term / sum) < kEpsilon) {
      break;
    }
    factor *= x + k + 1.0;
    b /= w;
    k += 2.0;
  }
  return sum;
}

/// The sum of (q + k)^-x over k >= 0. Below 0 it is that of the fraction of q, and that of the
/// terms in between, which is the difference of two such sums: no loop over them.
SL_NOINLINE double zeta(double x, double q) {
  if (x == 1.0) {
    return kInfinity;
  }
  if (x < 1.0) {
    return kNan;
  }
  if (!(q <= 0.0)) {
    return zetaOfPositive(x, q);
  }
  const double whole = elementary::floorOf(q);
  if (q == whole) {
    return kInfinity;
  }
  if (x != elementary::floorOf(x)) {
    return kNan;
  }
  if (q > -0.5) {  // whose fraction has fewer digits than itself
    return pow(q, -x) + zetaOfPositive(x, 1.0 + q);
  }
  const double fraction = q - whole;
  const double beyond = pow(1.0 - q, -x) == 0.0 ? 0.0 : zetaOfPositive(x, 1.0 - q);
  const double between = zetaOfPositive(x, 1.0 - fraction) - beyond;
  const bool odd = x - 2.0 * elementary::floorOf(0.5 * x) == 1.0;
  return zetaOfPositive(x, fraction) + (odd ? -between : between);
}

/// The n-th derivative of digamma; n is whole and not negative.
SL_NOINLINE double polygamma(double n, double x) {
  if (n == 0.0) {
    return digamma(x);
  }
  if (n == 1.0 && x == kInfinity) {
    return 0.0;
  }
  if (n == 1.0 && x < 0.5) {
    const double ratio = kPi / sineOfPi(x);
    return ratio * ratio - zeta(2.0, 1.0 - x);
  }
  const double size = exp(lgamma(n + 1.0)) * zeta(n + 1.0, x);
  return elementary::truncate(n * 0.5) * 2.0 == n ? -size : size;
}

/// x^a exp(-x) / gamma(a).
SL_NOINLINE double gammaDensity(double a, double x) {
  if (elementary::absolute(a - x) > 0.4 * a) {
    return exp(a * log(x) - x - lgamma(a));
  }
  constexpr double n[] = {0.006061842346248907, 0.5098416655656676, 19.519927882476175,
                          449.9445569063168,    6955.999602515376,  75999.29304014542,
                          601859.6171681099,    3481712.154980646,  14605578.087685067,
                          43338889.32467614,    86363131.2881386,   103794043.11634454,
                          56906521.913471565};
  constexpr double d[] = {1.0,         66.0,       1925.0,     32670.0,     357423.0,
                          2637558.0,   13339535.0, 45995730.0, 105258076.0, 150917976.0,
                          120543840.0, 39916800.0, 0.0};
  constexpr double kG = 6.02468004077673;
  // Both polynomials in 1 / a where a > 1: these tables have the highest power first.
  double above = 0.0;
  double below = 0.0;
  const double z = a > 1.0 ? 1.0 / a : a;
  SL_NO_UNROLL
  for (int i = 0; i < 13; ++i) {
    const int at = a > 1.0 ? 12 - i : i;
    above = above * z + n[at];
    below = below * z + d[at];
  }
  const double shifted = a + kG - 0.5;
  const double scale = elementary::squareRoot(shifted / 2.718281828459045) * below / above;
  if (a < 200.0 && x < 200.0) {
    return scale * exp(a - x) * pow(x / shifted, a);
  }
  const double part = (x - a - kG + 0.5) / shifted;
  return scale * exp(a * (log1p(part) - part) + x * (0.5 - kG) / shifted);
}

/// igamma by its power series.
SL_NOINLINE double lowerGammaSeries(double a, double x) {
  double r = a;
  double c = 1.0;
  double sum = 1.0;
  for (int i = 0; i < 2000 && c > 1.1102230246251565e-16 * sum; ++i) {
    r += 1.0;
    c *= x / r;
    sum += c;
  }
  return sum * gammaDensity(a, x) / a;
}

/// igammac by a power series, for small x.
SL_NOINLINE double upperGammaSeries(double a, double x) {
  double factor = 1.0;
  double sum = 0.0;
  for (int n = 1; n < 2000; ++n) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (elementary::absolute(term) <= 1.1102230246251565e-16 * elementary::absolute(sum)) {
      break;
    }
  }
  const double power = a * log(x);
  return -expm1(power - lgamma(1.0 + a)) - exp(power - lgamma(a)) * sum;
}

/// igammac by its continued fraction.
SL_NOINLINE double upperGammaFraction(double a, double x) {
  double y = 1.0 - a;
  double z = x + y + 1.0;
  double p2 = 1.0;
  double q2 = x;
  double p1 = x + 1.0;
  double q1 = z * x;
  double found = p1 / q1;
  for (int i = 1; i <= 2000; ++i) {
    y += 1.0;
    z += 2.0;
    const double p = p1 * z - p2 * (y * i);
    const double q = q1 * z - q2 * (y * i);
    const double next = p / q;
    const bool isDone = q != 0.0 && elementary::absolute((found - next) / next) <= 1.2e-16;
    found = q != 0.0 ? next : found;
    // Kept within range: only ratios count.
    const double shrink = elementary::absolute(p) > 4503599627370496.0 ? 0x1p-52 : 1.0;
    p2 = p1 * shrink;
    p1 = p * shrink;
    q2 = q1 * shrink;
    q1 = q * shrink;
    if (isDone) {
      break;
    }
  }
  return found * gammaDensity(a, x);
}

/// igamma (or igammac) for large a near x: the first terms of Temme's expansion, which suffice from
/// a = 200 on and |x - a| < 4.5 sqrt(a).
SL_NOINLINE double gammaOfNear(double a, double x, bool isLower) {
  constexpr double d[8][14] = {
      {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
       0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,
       -2.1854485106799924e-06, -1.85406221071516e-06, 8.296711340953087e-07,
       -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
       -4.382036018453353e-09},
      {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
       0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05,
       7.64916091608111e-06, -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07,
       -5.752545603517705e-08, 1.1951628599778148e-08, -1.7543241719747647e-11},
      {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
       -0.00010736653226365161, 5.2923448829120125e-05, -1.2760635188618728e-05,
       3.423578734096138e-08, 1.3721957309062932e-06, -6.298992138380055e-07,
       1.4280614206064242e-07, -2.0477098421990866e-10, -1.409252991086752e-08,
       6.228974084922022e-09},
      {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
       0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
       1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06,
       -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
       -1.9111168485973655e-08, 2.3928620439808118e-12},
      {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
       -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
       1.1375726970678419e-05, 2.507497226237533e-10, -1.6954149536558305e-06,
       8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11, 2.8865829742708783e-08,
       -1.4189739437803219e-08},
      {-0.00033679855336635813, -6.972813758365858e-05, 0.0002772753244959392,
       -0.00019932570516188847, 6.797780477937208e-05, 1.419062920643967e-07,
       -1.3594048189768693e-05, 8.018470256334202e-06, -2.291481176508095e-06,
       -3.252473551298454e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
       4.8240967037894184e-08, -1.7989466721743514e-14},
      {0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045, 7.902353232660328e-07,
       -8.153969367561969e-05, 5.61168275310625e-05, -1.8329116582843375e-05,
       -3.0796134506033047e-09, 3.465155368803609e-06, -2.0291327396058603e-06,
       5.788792863149004e-07, 2.338630673826657e-13, -8.828600746330484e-08,
       4.7435958880408125e-08},
      {0.00034436760689237765, 5.171790908260592e-05, -0.00033493161081142234,
       0.0002812695154763237, -0.00010976582244684731, -1.2741009095484485e-07,
       2.7744451511563645e-05, -1.8263488805711332e-05, 5.7876949497350525e-06,
       4.93875893393627e-10, -1.0595367014026043e-06, 6.166714376110408e-07,
       -1.7562973359060463e-07, -1.297447328701544e-12}};
  const double sign = isLower ? -1.0 : 1.0;
  const double s = (x - a) / a;
  const double size = elementary::squareRoot(maximum(0.0, -2.0 * (log1p(s) - s)));
  const double eta = x > a ? size : -size;
  double sum = 0.0;
  SL_NO_UNROLL
  for (int k = 7; k >= 0; --k) {
    double inner = 0.0;
    SL_NO_UNROLL
    for (int n = 13; n >= 0; --n) {
      inner = inner * eta + d[k][n];
    }
    sum = sum / a + inner;
  }
  return 0.5 * erfc(sign * eta * elementary::squareRoot(a / 2.0)) +
         sign * exp(-0.5 * a * eta * eta) * sum / elementary::squareRoot(2.0 * kPi * a);
}

SL_INLINE bool isNear(double a, double x) {
  return a > 200.0 && elementary::absolute(x - a) / a < 4.5 / elementary::squareRoot(a);
}

inline constexpr double kInside = -1.0;
/// igamma(a, x) where a or x is 0 or infinite; NaN where it is none; kInside elsewhere. One of them
/// may be NaN at an edge of the other, as in ATen.
SL_NOINLINE double incompleteGammaAtEdge(double a, double x) {
  if (x < 0.0 || a < 0.0) {
    return kNan;
  }
  if (a == 0.0) {
    return x > 0.0 ? 1.0 : kNan;
  }
  if (x == 0.0) {
    return 0.0;
  }
  if (a == kInfinity) {
    return x == kInfinity ? kNan : 0.0;
  }
  if (x == kInfinity) {
    return 1.0;
  }
  return a != a || x != x ? kNan : kInside;
}

SL_NOINLINE double igammac(double a, double x) {
  const double known = incompleteGammaAtEdge(a, x);
  if (known >= 0.0) {
    return 1.0 - known;
  }
  if (!(known == kInside)) {
    return kNan;
  }
  if (isNear(a, x)) {
    return gammaOfNear(a, x, false);
  }
  if (x > 1.1 ? x < a : x <= 0.5 ? -0.4 / log(x) < a : x * 1.1 < a) {
    return 1.0 - lowerGammaSeries(a, x);
  }
  return x > 1.1 ? upperGammaFraction(a, x) : upperGammaSeries(a, x);
}

SL_NOINLINE double igamma(double a, double x) {
  const double known = incompleteGammaAtEdge(a, x);
  if (known >= 0.0) {
    return known;
  }
  if (!(known == kInside)) {
    return kNan;
  }
  if (isNear(a, x)) {
    return gammaOfNear(a, x, true);
  }
  return x > 1.0 && x > a ? 1.0 - igammac(a, x) : lowerGammaSeries(a, x);
}

}  // namespace sl::special

#endif  // STRAIGHTLINE_KERNELS_SPECIAL_GAMMA_H
