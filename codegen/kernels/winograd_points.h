// SPDX-License-Identifier: Apache-2.0
// Winograd transforms of F(m x m, 3 x 3): Y = A^T [(G g G^T) . (B^T d B)] A.
// F(2x2) has points 0, +-1, inf. F(4x4) has 0, +-3/4, +-3/2, inf: as fast as the usual 0, +-1, +-2,
// with a 4-5 times smaller error (max error / max |y| about 2e-6 at 256 channels, against 1e-5;
// direct is 1e-6; F(2x2) is 5e-7).
#ifndef STRAIGHTLINE_KERNELS_WINOGRAD_POINTS_H
#define STRAIGHTLINE_KERNELS_WINOGRAD_POINTS_H

#include "straightline/kernels/vector.h"

namespace sl {

template <int M>
struct WinogradPoints;

template <>
struct WinogradPoints<2> {
  static constexpr double kG[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};

  /// o = B^T d
  template <class V>
  SL_INLINE_MEMBER static void input(const V (&d)[4], V (&o)[4]) {
    o[0] = d[0] - d[2];
    o[1] = d[1] + d[2];
    o[2] = d[2] - d[1];
    o[3] = d[3] - d[1];
  }
  /// o = A^T d
  template <class V>
  SL_INLINE_MEMBER static void output(const V (&d)[4], V (&o)[2]) {
    o[0] = d[0] + d[1] + d[2];
    o[1] = d[1] - d[2] + d[3];
  }
};

template <>
struct WinogradPoints<4> {
  static constexpr double kA = 0.75, kB = 1.5;
  static constexpr double kA2 = kA * kA, kB2 = kB * kB;
  /// Row of point p among {0, +-a, +-b}: (1, p, p^2) / product of (p - other points).
  static constexpr double kN0 = 1 / (kA2 * kB2);
  static constexpr double kNa = 1 / (2 * kA2 * (kA2 - kB2));
  static constexpr double kNb = 1 / (2 * kB2 * (kB2 - kA2));
  static constexpr double kG[6][3] = {{kN0, 0, 0},
                                      {kNa, kNa * kA, kNa * kA2},
                                      {kNa, -kNa * kA, kNa * kA2},
                                      {kNb, kNb * kB, kNb * kB2},
                                      {kNb, -kNb * kB, kNb * kB2},
                                      {0, 0, 1}};

  template <class V>
  SL_INLINE_MEMBER static V of(double c) {
    return splat<V>(Element<V>(c));
  }
  template <class V>
  SL_INLINE_MEMBER static void input(const V (&d)[6], V (&o)[6]) {
    const V p = fma(of<V>(-kB2), d[2], d[4]);
    const V q = fma(of<V>(-kB2), d[1], d[3]);
    const V r = fma(of<V>(-kA2), d[2], d[4]);
    const V t = fma(of<V>(-kA2), d[1], d[3]);
    o[0] = fma(of<V>(kA2 * kB2), d[0], fma(of<V>(-(kA2 + kB2)), d[2], d[4]));
    o[1] = fma(of<V>(kA), q, p);
    o[2] = fma(of<V>(-kA), q, p);
    o[3] = fma(of<V>(kB), t, r);
    o[4] = fma(of<V>(-kB), t, r);
    o[5] = fma(of<V>(kA2 * kB2), d[1], fma(of<V>(-(kA2 + kB2)), d[3], d[5]));
  }
  template <class V>
  SL_INLINE_MEMBER static void output(const V (&d)[6], V (&o)[4]) {
    const V s = d[1] + d[2];
    const V e = d[1] - d[2];
    const V p = d[3] + d[4];
    const V q = d[3] - d[4];
    o[0] = d[0] + s + p;
    o[1] = fma(of<V>(kB), q, of<V>(kA) * e);
    o[2] = fma(of<V>(kB2), p, of<V>(kA2) * s);
    o[3] = fma(of<V>(kB2 * kB), q, fma(of<V>(kA2 * kA), e, d[5]));
  }
};

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_WINOGRAD_POINTS_H
