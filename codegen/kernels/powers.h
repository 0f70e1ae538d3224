// SPDX-License-Identifier: Apache-2.0
// Powers, and what a division leaves; the rest of the numerics, and the conventions, are in
// elementary.h.
#ifndef STRAIGHTLINE_KERNELS_POWERS_H
#define STRAIGHTLINE_KERNELS_POWERS_H

#include "straightline/kernels/elementary.h"

namespace sl::elementary {

// ---- powers ----

/// A sum of two numbers that is not rounded, the second far below the first.
template <class V>
struct Exact {
  V high;
  V low;
};
template <class V>
SL_INLINE Exact<V> exactSum(V a, V b) {
  V s = a + b;
  V t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
template <class V>
SL_INLINE Exact<V> exactProduct(V a, V b) {
  V p = a * b;
#if defined(__CUDACC__) || \
    (defined(__clang__) && \
     (defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)))
  return {p, fma(a, b, V(-p))};
#else
  V as = a * 0x1.0000002p27;
  V bs = b * 0x1.0000002p27;
  V ah = as - (as - a);
  V bh = bs - (bs - b);
  V al = a - ah;
  V bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}

/// log(x) to about 2^-66 relative, x positive and finite.
template <class V>
SL_INLINE Exact<V> logarithmExact(V x) {
  constexpr double c[] = {0.4,
                          0.28571428571429364,
                          0.22222222221655907,
                          0.181818183353876,
                          0.15384594963074136,
                          0.13334804663624336,
                          0.11706237148816372,
                          0.11723170160799075};
  V m;
  V n;
  splitExponent(x, m, n);
  V f = m - 1.0;
  Exact<V> d = exactSum(splat<V>(2.0), f);
  V s = f / d.high;
  Exact<V> sd = exactProduct(s, d.high);
  V sLow = ((f - sd.high) - sd.low - s * d.low) / d.high;
  Exact<V> z = exactProduct(s, s);
  z.low += 2.0 * s * sLow;
  // 2/3 s^3 in two parts, then the rest of the series in one.
  Exact<V> w = exactProduct(s, splat<V>(0x1.5555555555555p-1));
  w.low += sLow * 0x1.5555555555555p-1 + s * 0x1.5555555555555p-55;
  Exact<V> cube = exactProduct(w.high, z.high);
  cube.low += w.high * z.low + w.low * z.high;
  V tail = s * z.high * z.high * horner(z.high, c);
  Exact<V> first = exactSum(V(n * kLn2High<double>), V(2.0 * s));
  Exact<V> second = exactSum(first.high, cube.high);
  V low = second.low + (first.low + (n * kLn2Low<double> + (2.0 * sLow + (cube.low + tail))));
  return exactSum(second.high, low);
}

/// Values of pow(x, y) that do not follow from |x|^y: signs, and the cases that make NaN on the
/// way.
template <class V>
SL_INLINE V powerSpecial(V x, V y, V magnitude) {
  using T = Element<V>;
  auto whole = mask(truncate(y) == y);
  V halved = y * T(0.5);
  auto odd = both(whole, mask(truncate(halved) != halved));
  auto negative = mask(bitcast<IntegerLike<V>>(x) < typename Fmt<V>::Int(0));
  V result = select(both(odd, negative), V(-magnitude), magnitude);
  auto invalid = both(both(mask(x < T(0)), !whole), mask(x > -Fmt<V>::kInfinity));
  result = select(invalid, splat<V>(Fmt<V>::kNan), result);
  result = select(both(mask(x == T(-1)), mask(absolute(y) == Fmt<V>::kInfinity)), splat<V>(T(1)),
                  result);
  result = select(either(mask(x != x), mask(y != y)), V(x + y), result);
  return select(either(mask(x == T(1)), mask(y == T(0))), splat<V>(T(1)), result);
}
template <class V>
SL_INLINE V powerDouble(V x, V y) {
  V a = absolute(x);
  auto usual =
      both(both(mask(a > 0.0), mask(a < Format<double>::kInfinity)), mask(absolute(y) <= 0x1p66));
  Exact<V> l = logarithmExact(select(usual, a, splat<V>(1.0)));
  Exact<V> p = exactProduct(y, l.high);
  V low = select(mask(absolute(p.high) < 800.0), V(p.low + y * l.low), V{});
  V magnitude = exponential(p.high, low);
  if (SL_UNLIKELY(anyLane(!usual))) {
    magnitude = select(usual, magnitude, exponential(V(y * logarithm(a))));
  }
  return powerSpecial(x, y, magnitude);
}
/// float: 2^(y log2 |x|) in double, where every float is a normal number and so is every power that
/// rounds to one. log2 has a relative error of 2^-37, 2^r one of 2^-34.
template <class V>
SL_INLINE V powerFloat(V x, V y) {
  using D = Like<double, V>;
  using U = UnsignedLike<D>;
  // 1 / sqrt(2), and exponents from 0 on
  constexpr uint64_t kLowest = 0x3fe6a09e667f3bcd - (uint64_t(1024) << 52);
  // log2((1 + s) / (1 - s)) / s in s^2, |s| <= 0.1716.
  constexpr double log[] = {2.885390081789987, 0.9617966734515485, 0.5770835660048659,
                            0.41167376623771057, 0.3407120415619086};
  // 2^r, |r| <= 1/2.
  constexpr double exp[] = {0.9999999999595618,     0.6931471805568324,    0.24022651213498092,
                            0.055504109063258665,   0.009618025613318034,  0.0013333478473685416,
                            0.00015469729214118296, 1.5303700711365693e-05};
  D a = convert<double>(absolute(x));
  U bits = bitcast<U>(a);
  U exponent = U(bits - kLowest) >> uint64_t(52);
  D m = bitcast<D>(U(bits - ((exponent - uint64_t(1024)) << uint64_t(52))));
  D whole = bitcast<D>(U(exponent + bitcast<uint64_t>(Format<double>::kMagic))) -
            (Format<double>::kMagic + 1024.0);
  D s = (m - 1.0) / (m + 1.0);
  D l = fma(s, horner(D(s * s), log), whole);
  l = select(mask(a == 0.0), splat<D>(-Format<double>::kInfinity), l);
  l = select(mask(a == Format<double>::kInfinity), a, l);
  D t = clampKeepingNan(D(convert<double>(y) * l), -200.0, 200.0);
  D n = nearestSmall(t);
  return powerSpecial(x, y, convert<float>(D(horner(D(t - n), exp) * pow2(n))));
}

// ---- remainders ----

/// x - trunc(x / y) y without rounding, sign of x. Long division on the bits: exact for every pair.
template <class T>
SL_NOINLINE T remainderBits(T x, T y) {
  using U = Conditional<kSame<T, float>, uint32_t, uint64_t>;
  using Bits = typename U::type;
  constexpr int kM = Format<T>::kMantissa;
  constexpr Bits kMask = (Bits(1) << kM) - 1;
  constexpr int kTop = kSame<T, float> ? 255 : 2047;
  Bits a = bitcast<Bits>(absolute(x));
  Bits b = bitcast<Bits>(absolute(y));
  int ea = int(a >> kM);
  int eb = int(b >> kM);
  if (ea == kTop || b == 0 || x != x || y != y) {
    return Format<T>::kNan;
  }
  if (a < b || eb == kTop) {
    return x;
  }
  Bits ma = ea == 0 ? a : (a & kMask) | (Bits(1) << kM);
  Bits mb = eb == 0 ? b : (b & kMask) | (Bits(1) << kM);
  ea = ea == 0 ? 1 : ea;
  eb = eb == 0 ? 1 : eb;
  ma %= mb;
  for (; ea > eb; --ea) {
    ma <<= 1;
    ma = ma >= mb ? ma - mb : ma;
  }
  if (ma == 0) {
    return copySign(T(0), x);
  }
  while ((ma >> kM) == 0 && ea > 1) {
    ma <<= 1;
    --ea;
  }
  Bits r = (ma >> kM) == 0 ? ma : (ma & kMask) | (Bits(ea) << kM);
  return copySign(bitcast<T>(r), x);
}
SL_INLINE float remainderScalar(float x, float y) {
  double q = double(x) / double(y);
  if (absolute(q) < 1.0) {
    return x;
  }
  if (SL_LIKELY(absolute(q) < 0x1p28)) {
    double b = absolute(double(y));
    double a = absolute(double(x));
    double r = a - truncate(absolute(q)) * b;  // 28 + 24 bits: exact
    r = r < 0.0 ? r + b : r;
    r = r >= b ? r - b : r;
    return copySign(float(r), x);
  }
  return remainderBits(x, y);
}
SL_INLINE double remainderScalar(double x, double y) {
  if (absolute(x) < absolute(y)) {
    return x;
  }
  return remainderBits(x, y);
}
/// x - trunc(x / y) y, exact. The rounded quotient's whole part q is the true one's or, where
/// rounding reached the next integer, one more; x - q y is then a multiple of y's last place and no
/// larger than y, so that one fused multiply-add has no error.
template <class V>
SL_INLINE V remainder(V x, V y) {
#if defined(__CUDACC__) || \
    (defined(__clang__) && \
     (defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)))
  V a = absolute(x);
  V b = absolute(y);
  V q = truncate(V(a / b));
  // Quotients that are not exact integers any more, infinity and NaN.
  if (SL_LIKELY(!anyLane(!mask(q < Fmt<V>::kOneUlp)))) {
    V r = fma(V(-q), b, a);
    r = select(mask(r < Element<V>(0)), V(r + b), r);
    // 0 times an infinite divisor would be NaN.
    return select(mask(q == Element<V>(0)), x, copySign(r, x));
  }
#endif
  return lanewise(x, y, [](auto one, auto other) { return remainderScalar(one, other); });
}

}  // namespace sl::elementary

#endif  // STRAIGHTLINE_KERNELS_POWERS_H
