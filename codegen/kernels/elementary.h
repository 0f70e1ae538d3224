// SPDX-License-Identifier: Apache-2.0
// Elementary functions on float, double and their vectors: polynomials, no library call. Everything
// the emitter prints is in scalar.h; this file, powers.h and trigonometry.h hold the numerics.
//
// Bounds, in units of the last place of the exact value (0.5 is the best possible), with denormal
// arguments and results, infinities, NaN and the sign of zero as IEEE 754 and C say. For float over
// all 2^32 arguments, each as vector and as scalar; in brackets the worst that was found
// (every_float_test):
//
//   exp     1.1  (1.0604 at 0x1.abb838p+4)       sin   0.9  (0.8751 at -0x1.f88128p+61)
//   exp2    1.1  (1.0748 at 0x1.28b7dp-1)        cos   0.9  (0.8811 at -0x1.b1c092p+38)
//   expm1   1.8  (1.7455 at 0x1.633bc6p-2)       tan   0.51 (0.5000)
//   log     1.0  (0.9869 at 0x1.55830ap-1)       tanh  1.4  (1.3320 at 0x1.43183ap-1)
//   log1p   1.8  (1.7358 at 0x1.564e86p-2)       erf   1.4  (1.3573 at -0x1.0e65e2p+0; AVX-512:
//           1.1711)
//   log2    0.51 (0.5000)                        sqrt  0.5
//   rsqrt   1.5  (1.4903 at 0x1.019566p-60)      floor, ceil, trunc, round_even, abs: exact
//
// Arguments of sin, cos and tan may be of any size: the bound holds up to the largest float; of an
// infinity they are NaN. exp is infinity from 88.7228394 on, and 0 below -103.97; log of 0 is
// -infinity, of a negative number NaN. For double all of these, and pow, atan2, fmod and the
// remainders for both types (two arguments: special values in all pairs, and random ones), are
// within 2 ulp (scalar_test). What ops make of these (sigmoid, gelu, softplus, ..) is compared with
// float64 and with torch's own per binade (tests/run/every_float_test.py): nowhere more than 3 ulp
// and half as much again worse. As torch's formulas, ours of sigmoid, silu and gelu lose their last
// bits, and below about -88 (gelu: -5.5) all of them, where the result is next to nothing.
//
// One source for a scalar and for a vector, so that a vector loop and its scalar tail agree bit by
// bit. float versions of the functions that networks run over large tensors (exp, expm1, log,
// log1p, tanh, erf, and sin and cos where multiply-adds are fused) work in float; the others
// compute in double. Coefficients are Chebyshev fits made with mpmath (60 digits) for the intervals
// named beside them.
#ifndef STRAIGHTLINE_KERNELS_ELEMENTARY_H
#define STRAIGHTLINE_KERNELS_ELEMENTARY_H

#include "straightline/kernels/vector.h"

namespace sl::elementary {

// ---- floating-point formats ----

template <class T>
struct Format;
template <>
struct Format<float> {
  using Int = int32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr float kMagic =
      12582912.0f;  ///< 1.5 * 2^23: adding it rounds to an integer (half to even)
  static constexpr float kOneUlp = 8388608.0f;  ///< 2^23: every larger number is an integer
  static constexpr float kSmallestNormal = 0x1p-126f;
  static constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);
  static constexpr float kNan = __builtin_bit_cast(float, 0x7fc00000u);
};
template <>
struct Format<double> {
  using Int = int64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr double kMagic = 6755399441055744.0;
  static constexpr double kOneUlp = 4503599627370496.0;
  static constexpr double kSmallestNormal = 0x1p-1022;
  static constexpr double kInfinity = __builtin_bit_cast(double, uint64_t(0x7ff) << 52);
  static constexpr double kNan = __builtin_bit_cast(double, uint64_t(0xfff) << 51);
};
template <class V>
using Fmt = Format<Element<V>>;

/// Wraps what a comparison yields into something that select() takes.
SL_INLINE bool mask(bool c) { return c; }
template <class I>
  requires Vector<I>
SL_INLINE auto mask(I bits) {
  using B = typename SignedOfSize<sizeof(Element<I>)>::type;
  return Mask<B, kLanes<I>>(vec<B, kLanes<I>>(bits));
}

template <class V>
SL_INLINE V absolute(V x) {
  using I = IntegerLike<V>;
  using T = typename Fmt<V>::Int;
  return bitcast<V>(I(bitcast<I>(x) & T(~(T(1) << (sizeof(T) * 8 - 1)))));
}
/// |magnitude| with the sign of `sign`.
template <class V>
SL_INLINE V copySign(V magnitude, V sign) {
  using I = IntegerLike<V>;
  using T = typename Fmt<V>::Int;
  constexpr T kSign = T(T(1) << (sizeof(T) * 8 - 1));
  // LLVM up to 22.1 gives a masked VPTERNLOG with an operand in memory the wrong truth table
  // (its issue 157929): select(m, copySign(a, b), b) must not become one.
  return forgotten(bitcast<V>(I((bitcast<I>(magnitude) & T(~kSign)) | (bitcast<I>(sign) & kSign))));
}
/// Nearest integer, half to even, for |x| < 2^22 (float) or 2^51 (double).
template <class V>
SL_INLINE V nearestSmall(V x) {
  return (x + Fmt<V>::kMagic) - Fmt<V>::kMagic;
}
// Rounding to integers, any x; all keep the sign of zero. One instruction each. Spelled out with
// masks, clang 22 loses the rounding between two conversions of bfloat16 on AVX-512
// (tests/run/ops_test.py has the case).
#if defined(__clang__)
/// Nearest integer, half to even.
template <class V>
SL_INLINE V roundEven(V x) {
  return __builtin_elementwise_roundeven(x);
}
template <class V>
SL_INLINE V truncate(V x) {
  return __builtin_elementwise_trunc(x);
}
template <class V>
SL_INLINE V floorOf(V x) {
  return __builtin_elementwise_floor(x);
}
template <class V>
SL_INLINE V ceilOf(V x) {
  return __builtin_elementwise_ceil(x);
}
#else
template <class V>
SL_INLINE V roundEven(V x) {
  V a = absolute(x);
  V r = (a + Fmt<V>::kOneUlp) - Fmt<V>::kOneUlp;
  return select(mask(a < Fmt<V>::kOneUlp), copySign(r, x), x);
}
template <class V>
SL_INLINE V truncate(V x) {
  V a = absolute(x);
  V r = (a + Fmt<V>::kOneUlp) - Fmt<V>::kOneUlp;
  r = select(mask(r > a), V(r - Element<V>(1)), r);
  return select(mask(a < Fmt<V>::kOneUlp), copySign(r, x), x);
}
template <class V>
SL_INLINE V floorOf(V x) {
  V r = roundEven(x);
  return copySign(select(mask(r > x), V(r - Element<V>(1)), r), x);
}
template <class V>
SL_INLINE V ceilOf(V x) {
  V r = roundEven(x);
  return copySign(select(mask(r < x), V(r + Element<V>(1)), r), x);
}
#endif
/// 2^n for a whole n within the normal exponents (one beyond gives infinity). Unsigned, because NaN
/// wraps.
template <class V>
SL_INLINE V pow2(V n) {
  using U = UnsignedLike<V>;
  using T = Element<U>;
  U k = bitcast<U>(V(n + Fmt<V>::kMagic)) - bitcast<U>(splat<V>(Fmt<V>::kMagic));
  return bitcast<V>(U((k + T(Fmt<V>::kBias)) << T(Fmt<V>::kMantissa)));
}
/// The vector of which these are the halves.
template <class V, class H>
SL_INLINE V joined(H low, H high) {
  V r;
  __builtin_memcpy(&r, &low, sizeof(low));
  __builtin_memcpy(reinterpret_cast<char*>(&r) + sizeof(low), &high, sizeof(high));
  return r;
}
#if defined(__clang__) && defined(__AVX512VL__)
/// x * 2^n, rounded once; an instruction of any width.
template <class V>
SL_INLINE V scale(V x, V n) {
  using T = Element<V>;
  constexpr bool kFloat = kSame<T, float>;
  if constexpr (sizeof(V) > 64) {
    auto low = scale(lowHalf(x), lowHalf(n));
    return joined<V>(low, scale(highHalf(x), highHalf(n)));
  } else if constexpr (sizeof(V) < 16) {
    vec<T, 16 / int(sizeof(T))> wideX{};
    vec<T, 16 / int(sizeof(T))> wideN{};
    __builtin_memcpy(&wideX, &x, sizeof(x));
    __builtin_memcpy(&wideN, &n, sizeof(n));
    wideX = scale(wideX, wideN);
    __builtin_memcpy(&x, &wideX, sizeof(x));
    return x;
  } else if constexpr (sizeof(V) == 64 && kFloat) {
    return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4);  // 4: rounding as the thread has it
  } else if constexpr (sizeof(V) == 64) {
    return __builtin_ia32_scalefpd512_mask(x, n, x, -1, 4);
  } else if constexpr (sizeof(V) == 32 && kFloat) {
    return __builtin_ia32_scalefps256_mask(x, n, x, -1);
  } else if constexpr (sizeof(V) == 32) {
    return __builtin_ia32_scalefpd256_mask(x, n, x, -1);
  } else if constexpr (kFloat) {
    return __builtin_ia32_scalefps128_mask(x, n, x, -1);
  } else {
    return __builtin_ia32_scalefpd128_mask(x, n, x, -1);
  }
}
#else
/// x * 2^n in two steps, so that overflow and denormal results come out right.
template <class V>
SL_INLINE V scale(V x, V n) {
  V first = nearestSmall(V(n * Element<V>(0.5)));
  return x * pow2(first) * pow2(V(n - first));
}
#endif
/// c[0] + c[1] x + ... by Horner's rule.
template <class V, int N>
SL_INLINE V horner(V x, const Element<V> (&c)[N]) {
  V r = splat<V>(c[N - 1]);
  SL_UNROLL
  for (int i = N - 2; i >= 0; --i) {
    r = fma(r, x, splat<V>(c[i]));
  }
  return r;
}
/// f on each lane; for what is not worth a vector version.
template <class V, class F>
SL_INLINE V lanewise(V a, F f) {
  if constexpr (kLanes<V> == 1) {
    return f(a);
  } else {
    V r = a;
    for (int i = 0; i < kLanes<V>; ++i) {
      r[i] = f(a[i]);
    }
    return r;
  }
}
template <class V, class F>
SL_INLINE V lanewise(V a, V b, F f) {
  if constexpr (kLanes<V> == 1) {
    return f(a, b);
  } else {
    V r = a;
    for (int i = 0; i < kLanes<V>; ++i) {
      r[i] = f(a[i], b[i]);
    }
    return r;
  }
}
template <class V>
SL_INLINE V clampKeepingNan(V x, Element<V> low, Element<V> high) {
  x = select(mask(x > high), splat<V>(high), x);
  return select(mask(x < low), splat<V>(low), x);
}

// ---- exponentials ----

/// (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2.
template <class V>
SL_INLINE V exponentialTail(V r) {
  if constexpr (kSame<Element<V>, float>) {
    constexpr float c[] = {0.5f, 0.16666573286056519f, 0.04166654869914055f, 0.008363774046301842f,
                           0.0013926926767453551f};
    return horner(r, c);
  } else {
    constexpr double c[] = {0.5,
                            0.1666666666666667,
                            0.041666666666666644,
                            0.008333333333325544,
                            0.0013888888888895761,
                            0.00019841269876864356,
                            2.4801587303812545e-05,
                            2.755725283351691e-06,
                            2.755729074036746e-07,
                            2.5106274733573296e-08,
                            2.090982422152758e-09};
    return horner(r, c);
  }
}
template <class T>
inline constexpr T kLog2E = T(0x1.71547652b82fep+0);
template <class T>
inline constexpr T kLn2 = T(0x1.62e42fefa39efp-1);
/// High part: n * high is exact for every exponent n.
template <class T>
inline constexpr T kLn2High = kSame<T, float> ? T(0x1.62e4p-1) : T(0x1.62e42feep-1);
template <class T>
inline constexpr T kLn2Low = kSame<T, float> ? T(0x1.7f7d1cp-20) : T(0x1.a39ef35793c76p-33);

/// exp(x + low), |low| far below |x|.
template <class V>
SL_INLINE V exponential(V x, V low) {
  using T = Element<V>;
  constexpr T kHigh = kSame<T, float> ? T(89.0) : T(710.0);
  constexpr T kLowest = kSame<T, float> ? T(-104.0) : T(-746.0);
  // Below that the result is 0. Rounding to it through a subnormal number takes Intel's cores some
  // 150 cycles, and most of what a mask has set to -infinity comes here.
  const auto none = mask(x < kLowest);
  x = select(none, V{}, select(mask(x > kHigh), splat<V>(kHigh), x));
  V n = nearestSmall(V(x * kLog2E<T>));
  V r = (x - n * kLn2High<T>)-(n * kLn2Low<T> - low);
  V p = (r * r) * exponentialTail(r) + r + T(1);
  return select(none, V{}, scale(p, n));
}
template <class V>
SL_INLINE V exponential(V x) {
  return exponential(x, V{});
}
template <class V>
SL_INLINE V exponential2(V x) {
  using T = Element<V>;
  constexpr T kHigh = kSame<T, float> ? T(128.0) : T(1024.0);
  const auto none = mask(x < (kSame<T, float> ? T(-151.0) : T(-1076.0)));
  x = select(none, V{}, select(mask(x > kHigh), splat<V>(kHigh), x));
  V n = nearestSmall(x);
  V r = (x - n) * kLn2<T>;
  return select(none, V{}, scale(V((r * r) * exponentialTail(r) + r + T(1)), n));
}
/// exp(x) - 1.
template <class V>
SL_INLINE V exponentialMinus1Float(V x) {
  V limited = clampKeepingNan(x, -18.0f, 89.0f);
  V n = nearestSmall(V(limited * kLog2E<float>));
  V high = limited - n * kLn2High<float>;
  V low = n * kLn2Low<float>;
  V r = high - low;
  V rest = (high - r) - low;
  V p = (r * r) * exponentialTail(r) + rest + r;
  // Half of 2^n (p + (1 - 2^-n)): 2^128 is no number.
  V half = pow2(V(n - 1.0f));
  return select(mask(x == 0.0f), x, V(fma(p, half, V(half - 0.5f)) * 2.0f));
}
/// The same in double.
template <class V>
SL_INLINE V exponentialMinus1(V x) {
  V limited = clampKeepingNan(x, -40.0, 710.0);
  V n = nearestSmall(V(limited * kLog2E<double>));
  V high = limited - n * kLn2High<double>;
  V low = n * kLn2Low<double>;
  V r = high - low;
  V rest = (high - r) - low;
  V p = (r * r) * exponentialTail(r) + rest + r;
  // 2^n p + (2^n - 1) = 2^n (p + (1 - 2^-n)); beyond 60 the power no longer counts.
  V n60 = select(mask(n > 60.0), splat<V>(60.0), n);
  V result = scale(V(p + (1.0 - pow2(V(-n60)))), n);
  return select(mask(x == 0.0), x, result);
}

// ---- logarithms ----

/// x = m 2^n with m in [2/3, 4/3) (float) or [sqrt(1/2), sqrt(2)) (double); denormals are scaled
/// first. Zero, negatives, infinity and NaN are left to the caller.
template <class V>
SL_INLINE void splitExponent(V x, V& m, V& n) {
  using T = Element<V>;
  using I = IntegerLike<V>;
  using U = UnsignedLike<V>;
  using F = Element<U>;
  constexpr int kBits = Fmt<V>::kMantissa;
  constexpr F kLowest = kSame<T, float> ? F(0x3f2aaaab) : F(0x3fe6a09e667f3bcd);
  auto tiny = mask(x < Fmt<V>::kSmallestNormal);
  x = select(tiny, V(x * Fmt<V>::kOneUlp), x);
  // Unsigned, because the bits of a negative x wrap.
  U bits = bitcast<U>(x);
  I exponent = bitcast<I>(U(bits - kLowest)) >> Element<I>(kBits);
  m = bitcast<V>(U(bits - (bitcast<U>(exponent) << F(kBits))));
  n = convert<T>(exponent);
  n = select(tiny, V(n - T(kBits)), n);
}
/// high + log(1 + f) + low, 1 + f a mantissa of splitExponent. float: f - f^2/2 + f^3 P(f).
template <class V>
SL_INLINE V logFraction(V f, V low, V high) {
  using T = Element<V>;
  if constexpr (kSame<T, float>) {
    constexpr float c[] = {0.33333319425582886f,  -0.24999988079071045f, 0.20003780722618103f,
                           -0.16670140624046326f, 0.14118309319019318f,  -0.12346190214157104f,
                           0.1342574954032898f,   -0.12125580757856369f};
    V square = f * f;
    V rest = square * f * horner(f, c) + low;
    return high + (f + (rest - square * 0.5f));
  } else {
    // log((1 + s) / (1 - s)) = 2 s + s R, s = f / (2 + f); arranged so that f enters unrounded.
    constexpr double c[] = {0.666666666666667,   0.3999999999989945,  0.28571428626001427,
                            0.22222211130560726, 0.18182889433757515, 0.15331711346672997,
                            0.14616576421644387};
    V s = f / (f + 2.0);
    V z = s * s;
    V r = z * horner(z, c);
    V half = f * f * 0.5;
    return high - ((half - (s * (half + r) + low)) - f);
  }
}
template <class V>
SL_INLINE V logMantissa(V m, V low, V high) {
  return logFraction(V(m - Element<V>(1)), low, high);
}
/// Puts in log's values for 0, negatives, infinity and NaN.
template <class V>
SL_INLINE V logSpecial(V x, V result) {
  result = select(mask(x == Fmt<V>::kInfinity), x, result);
  result = select(mask(x == Element<V>(0)), splat<V>(-Fmt<V>::kInfinity), result);
  result = select(mask(x < Element<V>(0)), splat<V>(Fmt<V>::kNan), result);
  return select(mask(x != x), x, result);
}
template <class V>
SL_INLINE V logarithm(V x) {
  using T = Element<V>;
  V m;
  V n;
  splitExponent(x, m, n);
  return logSpecial(x, logMantissa(m, V(n * kLn2Low<T>), V(n * kLn2High<T>)));
}
/// Base 2; double only. Exact for powers of two.
template <class V>
SL_INLINE V logarithm2(V x) {
  V m;
  V n;
  splitExponent(x, m, n);
  // log2(e) in two parts: the product would otherwise cost half an ulp.
  V l = logMantissa(m, V{}, V{});
  return logSpecial(x, V(n + (l * 0x1.71547652b82fep+0 + l * 0x1.777d0ffda0d24p-56)));
}
/// log(1 + x). The exponent is that of 1 + x, the fraction comes from x: it is rounded once.
template <class V>
SL_INLINE V logarithm1PlusFloat(V x) {
  V u = x + 1.0f;
  V m;
  V n;
  splitExponent(u, m, n);
  V power = pow2(V(-n));  // no number for the largest n, where x alone tells the fraction
  V f = select(mask(x > 0x1p25f), V(m - 1.0f), fma(x, power, V(power - 1.0f)));
  V result = logSpecial(u, logFraction(f, V(n * kLn2Low<float>), V(n * kLn2High<float>)));
  return select(mask(x == 0.0f), x, result);
}
/// The same in double. The rounding error of 1 + x is put back in.
template <class V>
SL_INLINE V logarithm1Plus(V x) {
  V u = x + 1.0;
  V error = select(mask(x > 1.0), V(1.0 - (u - x)), V(x - (u - 1.0)));
  auto usable = both(mask(u > 0.0), mask(u < 1e300));
  V m;
  V n;
  splitExponent(u, m, n);
  V correction = select(usable, V(error / u), V{});
  V result =
      logSpecial(u, logMantissa(m, V(n * kLn2Low<double> + correction), V(n * kLn2High<double>)));
  return select(mask(absolute(x) < 0x1p-54), x, result);
}

// ---- hyperbolic tangent, error function ----

template <class V>
SL_INLINE V hyperbolicTangent(V x) {
  V a = absolute(x);
  if constexpr (kSame<Element<V>, float>) {
    constexpr float c[] = {-0.333333283662796f, 0.1333276927471161f, -0.053850848227739334f,
                           0.02099689468741417f, -0.006096299737691879f};
    V z = x * x;
    V near = x + x * z * horner(z, c);
    V limited = clampKeepingNan(a, 0.0f, 10.0f);
    V far = 1.0f - 2.0f / (exponential(V(limited * 2.0f)) + 1.0f);
    return copySign(select(mask(a < 0.625f), near, far), x);
  } else {
    constexpr double c[] = {
        -0.3333333333333333,    0.13333333333333333,     -0.05396825396825397,
        0.021869488536155193,   -0.008863235529901713,   0.003592128036557391,
        -0.0014558343867402336, 0.000590027436479192,    -0.00023912906799708627,
        9.691502631129741e-05,  -3.9276306098930336e-05, 1.59102358698163e-05,
        -6.42371129031187e-06,  2.5475585647720295e-06,  -9.416873223692785e-07,
        2.822798115434543e-07,  -4.87668779335402e-08};
    V z = x * x;
    V near = x + x * z * horner(z, c);
    V t = exponentialMinus1(V(clampKeepingNan(a, 0.0, 22.0) * 2.0));
    V far = 1.0 - 2.0 / (t + 2.0);
    return copySign(select(mask(a < 0.625), near, far), x);
  }
}

#if defined(__AVX512F__)
/// erf(n / 8 + d) as the first row's number plus d times the polynomial of the others, |d| <= 1/16;
/// n = 0: the argument plus that.
inline constexpr float kErrorFunction[6][32] = {
    {0.0f,         0.140316203f, 0.276326388f, 0.404116899f, 0.520499885f, 0.623240888f,
     0.711155653f, 0.784075081f, 0.842700779f, 0.888388216f, 0.92290014f,  0.948170066f,
     0.966105163f, 0.978443742f, 0.986671686f, 0.99199003f,  0.995322287f, 0.997345984f,
     0.998537302f, 0.999217033f, 0.999593019f, 0.999794602f, 0.999899387f, 0.999952137f,
     0.999977887f, 0.999990106f, 0.999995708f, 0.999998212f, 0.999999285f, 0.999999702f,
     0.999999881f, 1.0f},
    {0.128379166f,    1.11088526f,     1.06001413f,     0.980352819f,    0.87878257f,
     0.763499558f,    0.642931044f,    0.524745047f,    0.415107489f,    0.318273962f,
     0.236521125f,    0.170359775f,    0.118930288f,    0.0804722607f,   0.0527749956f,
     0.0335458294f,   0.0206669848f,   0.0123408204f,   0.00714231888f,  0.004006478f,
     0.00217828434f,  0.0011478751f,   0.000586277223f, 0.000290228287f, 0.000139253054f,
     6.47586858e-05f, 2.91890246e-05f, 1.27517405e-05f, 5.39942675e-06f, 2.21592018e-06f,
     8.81432186e-07f, 3.39822378e-07f},
    {0.0f,
     -0.138860554f,
     -0.265003353f,
     -0.367632061f,
     -0.439391047f,
     -0.477187008f,
     -0.482198179f,
     -0.459151864f,
     -0.415107518f,
     -0.358058274f,
     -0.295651495f,
     -0.234244794f,
     -0.178395525f,
     -0.130767494f,
     -0.0923562869f,
     -0.0628984496f,
     -0.0413339734f,
     -0.0262242351f,
     -0.0160702039f,
     -0.00951537024f,
     -0.00544569734f,
     -0.00301316148f,
     -0.00161225453f,
     -0.000834400882f,
     -0.000417755626f,
     -0.000202368727f,
     -9.48630768e-05f,
     -4.30364271e-05f,
     -1.88976228e-05f,
     -8.03252169e-06f,
     -3.3052786e-06f,
     -1.31676859e-06f},
    {-0.37612626f,    -0.358723253f,   -0.309170723f,   -0.234876171f,   -0.146463782f,
     -0.055671908f,   0.026788706f,    0.0929235145f,   0.138369098f,    0.162452281f,
     0.167535782f,    0.15793772f,     0.138752028f,    0.114840649f,    0.0901573151f,
     0.0674411133f,   0.0482229814f,   0.0330374129f,   0.0217245575f,   0.0137305325f,
     0.00835008733f,  0.00489042327f,  0.00276038563f,  0.00150253344f,  0.000789098791f,
     0.0004000185f,   0.000195808898f, 9.25824643e-05f, 4.22952326e-05f, 1.86735942e-05f,
     7.96953827e-06f, 3.28845113e-06f},
    {0.0f,
     0.0685965419f,
     0.126783133f,
     0.166338935f,
     0.182835549f,
     0.176258102f,
     0.150555804f,
     0.112345904f,
     0.0692070127f,
     0.0280490462f,
     -0.00605550269f,
     -0.0303924829f,
     -0.0445045382f,
     -0.0496484898f,
     -0.0480584316f,
     -0.0422398075f,
     -0.0344427042f,
     -0.0263696965f,
     -0.0190975461f,
     -0.0131484075f,
     -0.00863603503f,
     -0.00542526413f,
     -0.00326620787f,
     -0.00188732939f,
     -0.00104800414f,
     -0.000559784647f,
     -0.000287857663f,
     -0.000142603953f,
     -6.80980738e-05f,
     -3.13619894e-05f,
     -1.3935557e-05f,
     -5.97667122e-06f},
    {0.112706833f,    0.104064576f,    0.0799742714f,   0.0454486981f,   0.00734953955f,
     -0.0273455605f,  -0.0531527884f,  -0.0671251416f,  -0.0691106245f,  -0.0612767823f,
     -0.0471633151f,  -0.0306128748f,  -0.0148894126f,  -0.00216509448f, 0.0065947948f,
     0.0114385262f,   0.0130725913f,   0.0124863498f,   0.0106543982f,   0.00835798867f,
     0.00611999212f,  0.00422120234f,  0.00275896164f,  0.00171584392f,  0.00101845467f,
     0.000578263192f, 0.000314627745f, 0.000164273311f, 8.2400722e-05f,  3.97464064e-05f,
     1.84505607e-05f, 8.24813651e-06f}};

/// table[index], a lane each; index is 0 .. 31.
template <class V>
SL_INLINE V lookUp(const float (&table)[32], IntegerLike<V> index) {
  using Sixteen = vec<float, 16>;
  if constexpr (kLanes<V> == 1) {
    return table[index];
  } else if constexpr (kLanes<V> == 16) {
    Sixteen low = load<16>(table);
    Sixteen high = load<16>(table + 16);
#if defined(__clang__)
    return __builtin_ia32_vpermi2varps512(low, index, high);
#else
    return __builtin_shuffle(low, high, index);
#endif
  } else if constexpr (kLanes<V> < 16) {
    vec<int32_t, 16> wide{};
    __builtin_memcpy(&wide, &index, sizeof(index));
    Sixteen found = lookUp<Sixteen>(table, wide);
    V result;
    __builtin_memcpy(&result, &found, sizeof(result));
    return result;
  } else {
    auto low = lookUp<Like<float, decltype(lowHalf(index))>>(table, lowHalf(index));
    auto high = lookUp<Like<float, decltype(highHalf(index))>>(table, highHalf(index));
    return joined<V>(low, high);
  }
}

/// One polynomial for each interval of length 1/8; a register holds one coefficient of 16 of them.
template <class V>
SL_INLINE V errorFunctionFloat(V x) {
  using I = IntegerLike<V>;
  V a = absolute(x);
  V t = select(mask(a > 3.93f), splat<V>(3.93f), a);  // from there on the sum is 1
  V shifted = fma(t, splat<V>(8.0f), splat<V>(Format<float>::kMagic));
  V n = shifted - Format<float>::kMagic;
  I index = bitcast<I>(shifted) & 31;
  V d = fma(n, splat<V>(-0.125f), t);
  V p = lookUp<V>(kErrorFunction[5], index);
  SL_UNROLL
  for (int i = 4; i > 0; --i) {
    p = fma(p, d, lookUp<V>(kErrorFunction[i], index));
  }
  V first = select(mask(index == 0), t, lookUp<V>(kErrorFunction[0], index));
  return copySign(fma(p, d, first), x);
}
#else
template <class V>
SL_INLINE V errorFunctionFloat(V x) {
  constexpr float small[] = {0.12837915122509003f,  -0.37612491846084595f, 0.11281786113977432f,
                             -0.02676517888903618f, 0.004990662448108196f, -0.0005976329557597637f};
  // -log(erfc(t)) / t - 1 on [0.92, 4].
  constexpr float big[] = {0.12890279293060303f,    0.6341481804847717f,    0.1078556552529335f,
                           -0.025139549747109413f,  0.004303789231926203f,  -0.0004988249856978655f,
                           3.4388507629046217e-05f, -1.046065676746366e-06f};
  V a = absolute(x);
  V z = x * x;
  V near = x + x * horner(z, small);
  V t = clampKeepingNan(a, 0.0f, 4.0f);
  V far = 1.0f - exponential(V(-(t + t * horner(t, big))));
  far = select(mask(a >= 4.0f), splat<V>(1.0f), far);
  return select(mask(a < 0.925f), near, copySign(far, x));
}
#endif

/// erfc on [1 + i/2, 1.5 + i/2], about the middle of each interval.
inline constexpr double kComplementaryError[10][16] = {
    {0.07709987174354177, -0.2365211224472908, 0.29565140305911347, -0.16753579506683097,
     0.006159404230404562, 0.04718103640485265, -0.021301272964275707, -0.0036259826097572,
     0.005697678108932558, -0.0008776361555080803, -0.0007935132549137486, 0.00032395603967168263,
     5.277134548048168e-05, -5.5815349505981285e-05, 2.6843087165424223e-06, 6.283438155269649e-06},
    {0.013328328780817557, -0.05277499593015037, 0.09235624287776316, -0.09015728471400689,
     0.04810220983216754, -0.006624361468317317, -0.008963045098629102, 0.0060587514705918374,
     -0.0007300512533418182, -0.0008941817579693001, 0.00044275071235674797, 5.44592127050155e-06,
     -6.867575413438665e-05, 1.7712416662410485e-05, 4.6665767245665035e-06,
     -3.192715177734666e-06},
    {0.0014627165866811518, -0.007142319022017983, 0.016070217799540463, -0.021724553691971366,
     0.01908338363695351, -0.010657679165666803, 0.0029043570711635323, 0.0006704559698678936,
     -0.0009994937189389504, 0.0003693804229868636, 1.146679884129987e-05, -6.513512377443662e-05,
     2.2684174542223717e-05, 1.335493224093712e-06, -3.380175700156628e-06, 8.273098672293922e-07},
    {0.00010062192211963684, -0.0005862772470937923, 0.0016122624295079274, -0.002760388705066605,
     0.0032581136596311227, -0.0027558084140738496, 0.0016573274035999294, -0.0006460409566513852,
     8.901157536880886e-05, 7.122311339810565e-05, -5.499713430814413e-05, 1.5843850004331665e-05,
     1.0738171292410846e-06, -2.6884132849557686e-06, 8.881480876581181e-07,
     5.8971352714874275e-09},
    {4.302779463675122e-06, -2.9189025383581702e-05, 9.486433249664092e-05, -0.00019580971194819394,
     0.00028656933775013653, -0.0003137972254908763, 0.00026352850423192614, -0.000169991414513222,
     8.164762946941232e-05, -2.5913846890296573e-05, 2.328902474792755e-06, 2.8642955069258217e-06,
     -1.90504033195323e-06, 5.483126627722047e-07, 3.363245457568956e-09, -6.714941839770211e-08},
    {1.1372725656979667e-07, -8.814321912318039e-07, 3.305370717119242e-06, -7.969616062387573e-06,
     1.3841239877944544e-05, -1.837097499818495e-05, 1.927272144597582e-05, -1.6275302741747272e-05,
     1.1128227499999795e-05, -6.108880632193085e-06, 2.603306842661322e-06, -7.753495000275143e-07,
     9.019222027836112e-08, 5.735472696088974e-08, -4.30049867082411e-08, 1.3992762439026549e-08},
    {1.8505741373867466e-09, -1.6143993719507412e-08, 6.861197330789804e-08,
     -1.8901925979922913e-07, 3.7879526930691113e-07, -5.872461798783154e-07, 7.309200159809951e-07,
     -7.477252149647889e-07, 6.378323461265949e-07, -4.5700618957283566e-07, 2.7506206091425855e-07,
     -1.377654071598957e-07, 5.592257220517102e-08, -1.7132727257202965e-08, 2.881736326045258e-09,
     4.65674500883983e-10},
    {1.8485047721484882e-11, -1.7934357034341334e-10, 8.518819591320942e-10,
     -2.6378450138011107e-09, 5.980921254437765e-09, -1.057239687982947e-08, 1.514471609640057e-08,
     -1.8036305873029998e-08, 1.8172814539162504e-08, -1.5675358190971917e-08,
     1.166094886922737e-08, -7.505697281199532e-09, 4.173665334747471e-09, -1.992488762170897e-09,
     8.167794780418494e-10, -2.622475361770401e-10},
    {1.13103132668817e-13, -1.2084074716006569e-12, 6.3441392260152455e-12, -2.1801684800167115e-11,
     5.511470948751495e-11, -1.0920038454968575e-10, 1.7640342191171871e-10, -2.386050357489475e-10,
     2.753680735031485e-10, -2.748675775538174e-10, 2.3966696592401925e-10, -1.8378837844563608e-10,
     1.2430620298256008e-10, -7.457285261687519e-11, 4.1462490197696575e-11,
     -1.9105977791202175e-11},
    {4.232136617408263e-16, -4.93848514096342e-15, 2.839628956412271e-14, -1.0720628160340224e-13,
     2.987526285497594e-13, -6.54969163398119e-13, 1.1756903499912058e-12, -1.7755460680851192e-12,
     2.300404112311957e-12, -2.5941681086958725e-12, 2.574664381278425e-12, -2.2670007108601394e-12,
     1.7761645000621435e-12, -1.2541730264626613e-12, 8.578287740400164e-13,
     -4.835033207095479e-13},
};
SL_INLINE double errorFunctionDouble(double x) {
  constexpr double small[] = {
      0.1283791670955126,      -0.3761263890318375,     0.11283791670954879,
      -0.026866170645076792,   0.0052239776248180145,   -0.000854832698083379,
      0.0001205533111164271,   -1.4925595266831182e-05, 1.6461000484121368e-06,
      -1.6350312701054695e-07, 1.4659775274047436e-08,  -1.1372848856791674e-09,
      5.957176147748911e-11};
  double a = absolute(x);
  if (!(a >= 1.0)) {
    return x + x * horner(x * x, small);
  }
  if (a >= 6.0) {
    return copySign(1.0, x);
  }
  int interval = int(a * 2.0) - 2;
  return copySign(1.0 - horner(a - (interval * 0.5 + 1.25), kComplementaryError[interval]), x);
}

// ---- roots ----

template <class V>
SL_INLINE V squareRoot(V x) {
#if defined(__CUDACC__)
  if constexpr (kSame<V, float>) {
    return __fsqrt_rn(x);
  } else {
    return __dsqrt_rn(x);
  }
#elif defined(__clang__)
  return __builtin_elementwise_sqrt(x);
#elif defined(__x86_64__)
  // g++ would call sqrt() for errno; the instruction does not.
  using T = Element<V>;
  constexpr int kLane = 16 / int(sizeof(T));
  if constexpr (kLanes<V> < kLane) {
    return lanewise(x, [](T a) { return squareRoot(splat<vec<T, kLane>>(a))[0]; });
  } else if constexpr (kLanes<V> == kLane) {
    if constexpr (kSame<T, float>) {
      return __builtin_ia32_sqrtps(x);
    } else {
      return __builtin_ia32_sqrtpd(x);
    }
#if defined(__AVX__)
  } else if constexpr (kLanes<V> == 2 * kLane) {
    if constexpr (kSame<T, float>) {
      return __builtin_ia32_sqrtps256(x);
    } else {
      return __builtin_ia32_sqrtpd256(x);
    }
#endif
  } else {
    auto low = squareRoot(lowHalf(x));
    auto high = squareRoot(highHalf(x));
    return joined<V>(low, high);
  }
#else
  return lanewise(
      x, [](auto a) { return kSame<decltype(a), float> ? __builtin_sqrtf(a) : __builtin_sqrt(a); });
#endif
}

}  // namespace sl::elementary

#endif  // STRAIGHTLINE_KERNELS_ELEMENTARY_H
