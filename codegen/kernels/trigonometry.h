// SPDX-License-Identifier: Apache-2.0
// Sine, cosine, tangent and the angle of a point; the rest of the numerics, and the conventions,
// are in elementary.h.
//
// Arguments are reduced modulo pi/2 with parts of pi/2 below 2^20 and by Payne and Hanek's method
// above, lane by lane.
#ifndef STRAIGHTLINE_KERNELS_TRIGONOMETRY_H
#define STRAIGHTLINE_KERNELS_TRIGONOMETRY_H

#include "straightline/kernels/elementary.h"

namespace sl::elementary {

/// x minus the nearest multiple of pi/2, as high + low, and that multiple modulo 4.
template <class V>
struct Reduced {
  V high;
  V low;
  V quadrant;  ///< whole number, only its value modulo 4 counts
};

inline constexpr uint64_t kTwoOverPi[20] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

/// 64 bits of 2/pi starting `bit` places after the binary point (negative: zeros come first).
SL_INLINE uint64_t twoOverPiBits(int bit) {
  auto word = [](int i) { return i >= 0 && i < 20 ? kTwoOverPi[i] : 0; };
  int index = (bit + 64) / 64 - 1;
  int shift = (bit + 64) % 64;
  return shift == 0 ? word(index) : (word(index) << shift) | (word(index + 1) >> (64 - shift));
}

/// Payne and Hanek: x / (pi/2) modulo 4 in 192-bit fixed point. For |x| >= 2^10; infinity and NaN
/// give NaN.
SL_NOINLINE Reduced<double> reduceLarge(double x) {
  using U128 = unsigned __int128;
  uint64_t bits = bitcast<uint64_t>(x);
  int exponent = int((bits >> 52) & 2047);
  if (exponent == 2047) {
    return {x - x, 0.0, 0.0};
  }
  uint64_t m = (bits & ((uint64_t(1) << 52) - 1)) | (uint64_t(1) << 52);
  int first =
      exponent - 1075 - 2;  // x = m 2^(exponent - 1075); in units of full turns (4 quadrants)
  U128 p2 = U128(m) * twoOverPiBits(first + 128);
  U128 p1 = U128(m) * twoOverPiBits(first + 64) + (p2 >> 64);
  uint64_t top = m * twoOverPiBits(first) + uint64_t(p1 >> 64);
  // Fraction of a turn: top . p1 . p2, 64 bits each. Two bits of quadrant, then 126 + 64 bits.
  U128 fraction = (U128(top) << 64) | uint64_t(p1);
  uint64_t quadrant = uint64_t(fraction >> 126);
  fraction = (fraction << 2) | (uint64_t(p2) >> 62);
  bool negative = (fraction >> 127) != 0;
  if (negative) {
    ++quadrant;
    fraction = -fraction;
  }
  if (fraction == 0) {
    return {0.0, 0.0, double(quadrant & 3)};
  }
  uint64_t upper = uint64_t(fraction >> 64);
  int zeros = upper != 0 ? leadingZeros(upper) : 64 + leadingZeros(uint64_t(fraction));
  fraction <<= zeros;
  double unit = pow2(double(-zeros));
  double high = double(int64_t(fraction >> 75)) * 0x1p-53 * unit;
  double low =
      double(int64_t(uint64_t(fraction >> 11) & ((uint64_t(1) << 63) - 1))) * 0x1p-117 * unit;
  if (((fraction >> 74) & 1) != 0) {  // the bit that the mask above dropped
    low += 0x1p-54 * unit;
  }
  bool flip = negative != (x < 0);
  double sign = flip ? -1.0 : 1.0;
  double a = sign * high;
  double b = sign * low;
  double product = a * 0x1.921fb54442d18p+0;
  double split = a * 0x1p27;  // Dekker's product: no need for a fused multiply-add
  split = split + a;
  double aHigh = split - (split - a);
  double aLow = a - aHigh;
  constexpr double kHigh = 0x1.921fb54p+0;
  constexpr double kLow = 0x1.921fb54442d18p+0 - kHigh;
  double rest = ((aHigh * kHigh - product) + aHigh * kLow + aLow * kHigh) + aLow * kLow;
  rest += a * 0x1.1a62633145c07p-54 + b * 0x1.921fb54442d18p+0;
  double sum = product + rest;
  double q = double(quadrant & 3);
  return {sum, rest - (sum - product), x < 0 ? -q : q};
}

/// V is double or a vector of it.
template <class V>
SL_INLINE Reduced<V> reduceToQuadrant(V x) {
  constexpr double kLimit = 0x1p20;  // n * kFirst is exact below
  V n = nearestSmall(V(x * 0x1.45f306dc9c883p-1));
  // pi/2 in parts of 33 bits: the products are exact, the sums carry their rounding error along.
  V a = x - n * 0x1.921fb544p+0;
  V second = n * 0x1.0b4611a6p-34;
  V b = a - second;
  V bError = (a - (b + (a - b))) + ((a - b) - second);
  V third = n * 0x1.3198a2ep-69;
  V rest = bError - third;
  V restError = (bError - rest) - third;
  rest = rest + (restError - n * 0x1.b839a252049c1p-104);
  V high = b + rest;
  Reduced<V> r{high, V((b - high) + rest), n};
  auto large = !mask(absolute(x) < kLimit);
  if (SL_UNLIKELY(anyLane(large))) {
    if constexpr (kLanes<V> == 1) {
      return reduceLarge(x);
    } else {
      for (int i = 0; i < kLanes<V>; ++i) {
        if (lane(large, i)) {
          Reduced<double> one = reduceLarge(x[i]);
          r.high[i] = one.high;
          r.low[i] = one.low;
          r.quadrant[i] = one.quadrant;
        }
      }
    }
  }
  return r;
}

/// A result before its last rounding: high + low.
template <class V>
struct Unrounded {
  V high;
  V low;
};
/// sin(r + low), |r| <= pi/4.
template <class V>
SL_INLINE Unrounded<V> sineKernel(V r, V low) {
  V z = r * r;
  if constexpr (kSame<Element<V>, float>) {
    constexpr float c[] = {-0.1666666716337204f, 0.008333331905305386f, -0.00019840039021801203f,
                           2.724378191487631e-06f};
    return {r, V(low + r * z * horner(z, c))};
  } else {
    constexpr double c[] = {0.0083333333333307, -0.00019841269836385435, 2.7557315910939e-06,
                            -2.5051092308431318e-08, 1.5915309183057952e-10};
    V cube = z * r;
    return {r, V((low - z * (low * 0.5 - cube * horner(z, c))) - cube * 0.16666666666666666)};
  }
}
template <class V>
SL_INLINE Unrounded<V> cosineKernel(V r, V low) {
  V z = r * r;
  using T = Element<V>;
  V tail;
  if constexpr (kSame<T, float>) {
    constexpr float c[] = {0.0416666679084301f, -0.00138888880610466f, 2.48005599132739e-05f,
                           -2.7295831728224584e-07f};
    tail = horner(z, c);
  } else {
    constexpr double c[] = {0.041666666666666664,   -0.0013888888888887241,
                            2.480158729853226e-05,  -2.7557317151858866e-07,
                            2.0876121534608454e-09, -1.1380868171449914e-11};
    tail = horner(z, c);
  }
  V half = z * T(0.5);
  V w = T(1) - half;
  return {w, V(((T(1) - w) - half) + (z * (z * tail) - r * low))};
}
/// Bits of a quadrant modulo 4; `n` is whole. 0x1.8p52 plus n has them at its low end.
template <class V>
SL_INLINE auto quadrantBits(V n) {
  return bitcast<IntegerLike<V>>(V(n + Format<double>::kMagic));
}
/// sin or cos of the reduced argument: `turn` is 0 for the sine and 1 for the cosine.
template <class V, class I>
SL_INLINE V ofQuadrant(V high, V low, I quadrant) {
  using B = Element<I>;
  auto odd = mask((quadrant & B(1)) != B(0));
  auto negative = mask((quadrant & B(2)) != B(0));
  Unrounded<V> s = sineKernel(high, low);
  Unrounded<V> c = cosineKernel(high, low);
  V result = select(odd, V(c.high + c.low), V(s.high + s.low));
  return select(negative, V(-result), result);
}

/// V is float, double or a vector.
template <class V>
SL_INLINE V sineOrCosine(V x, double turn) {
  using T = Element<V>;
  using D = Like<double, V>;
  D wide = convert<double>(x);
  Reduced<D> r = reduceToQuadrant(wide);
  V high = convert<T>(r.high);
  V low = convert<T>(r.low);
  if constexpr (kSame<T, float>) {
    low = convert<float>(D(r.high - convert<double>(high)));
  }
  V result = ofQuadrant(high, low, quadrantBits(D(r.quadrant + turn)));
  return turn == 0.0 ? select(mask(x == T(0)), x, result) : result;
}
#if defined(__FMA__)
/// float: arguments below 2^13 are reduced in float, whose fused products are exact where it
/// counts: x - n * kFirst is a multiple of 2^-23 below 1, and the rest is kept in two parts.
template <class V>
SL_INLINE V sineOrCosineFloat(V x, double turn) {
  V n = nearestSmall(V(x * 0x1.45f306p-1f));
  V a = fma(n, splat<V>(-0x1.921fb6p+0f), x);
  V second = n * 0x1.777a5cp-25f;
  V lost = fma(n, splat<V>(0x1.777a5cp-25f), V(-second));
  V high = a + second;
  V low = fma(n, splat<V>(0x1.ee59dap-50f), V(((a - high) + second) + lost));
  using I = IntegerLike<V>;
  I quadrant = bitcast<I>(V(n + (Format<float>::kMagic + float(turn))));
  V result = ofQuadrant(high, low, quadrant);
  result = turn == 0.0 ? select(mask(x == 0.0f), x, result) : result;
  auto large = !mask(absolute(x) < 0x1p13f);
  if (SL_UNLIKELY(anyLane(large))) {
    result = select(large, sineOrCosine(x, turn), result);
  }
  return result;
}
#endif
template <class V>
SL_INLINE V tangent(V x) {
  using T = Element<V>;
  using D = Like<double, V>;
  D wide = convert<double>(x);
  Reduced<D> r = reduceToQuadrant(wide);
  Unrounded<D> s = sineKernel(r.high, r.low);
  Unrounded<D> c = cosineKernel(r.high, r.low);
  auto odd = mask((quadrantBits(r.quadrant) & int64_t(1)) != int64_t(0));
  D topHigh = select(odd, D(-c.high), s.high);
  D topLow = select(odd, D(-c.low), s.low);
  D bottomHigh = select(odd, s.high, c.high);
  D bottomLow = select(odd, s.low, c.low);
  // The quotient of the rounded values, corrected by what the roundings lost.
  D top = topHigh + topLow;
  D bottom = bottomHigh + bottomLow;
  D lostTop = topLow - (top - topHigh);
  D lostBottom = bottomLow - (bottom - bottomHigh);
  D t = top / bottom;
  t = t + (lostTop - t * lostBottom) / bottom;
  return select(mask(x == T(0)), x, convert<T>(t));
}

/// Angle of the point (x, y); double only.
template <class V>
SL_INLINE V angle(V y, V x) {
  constexpr double c[] = {-0.3333333333333333,  0.19999999999995466,  -0.1428571428465508,
                          0.11111111014334958,  -0.0909090454071021,  0.07692182322230513,
                          -0.06664499220441451, 0.05858042767486098,  -0.050848946488512896,
                          0.03921563261717332,  -0.019157273875052977};
  V ax = absolute(x);
  V ay = absolute(y);
  auto steep = mask(ay > ax);
  V top = select(steep, ax, ay);
  V bottom = select(steep, ay, ax);
  V t = top / bottom;
  t = select(mask(bottom == 0.0), V{}, t);
  t = select(mask(top == Format<double>::kInfinity), splat<V>(1.0), t);
  // Above tan(pi/8): atan(t) = pi/4 + atan((t - 1) / (t + 1)).
  auto upper = mask(t > 0.4142135623730951);
  V u = select(upper, V((top - bottom) / (top + bottom)), t);
  u = select(mask(top == Format<double>::kInfinity), V{}, u);
  u = select(both(upper, mask(bottom > 0x1p1022)),
             V((top * 0.25 - bottom * 0.25) / (top * 0.25 + bottom * 0.25)), u);
  u = select(mask(top == Format<double>::kInfinity), V{}, u);
  V z = u * u;
  V a = u * z * horner(z, c);
  V base = select(upper, splat<V>(0x1.921fb54442d18p-1), V{});
  V low = select(upper, splat<V>(0x1.1a62633145c07p-55), V{});
  // Angle = base + low + u + a, perhaps taken from pi/2 and then from pi; high parts are added
  // last.
  V sign = splat<V>(1.0);
  base = select(steep, V(0x1.921fb54442d18p+0 - base), base);
  low = select(steep, V(0x1.1a62633145c07p-54 - low), low);
  sign = select(steep, splat<V>(-1.0), sign);
  auto left = mask(bitcast<IntegerLike<V>>(x) < int64_t(0));
  base = select(left, V(0x1.921fb54442d18p+1 - base), base);
  low = select(left, V(0x1.1a62633145c07p-53 - low), low);
  sign = select(left, V(-sign), sign);
  V small = sign * u;
  V result = base + (small + (sign * a + low));
  // Keeps tiny angles (and their denormals) as they are.
  result = select(mask(base == 0.0), V(small + sign * a), result);
  result = copySign(absolute(result), y);
  return select(either(mask(x != x), mask(y != y)), splat<V>(Format<double>::kNan), result);
}

}  // namespace sl::elementary

#endif  // STRAIGHTLINE_KERNELS_TRIGONOMETRY_H
