// SPDX-License-Identifier: Apache-2.0
// Family `pack_convolution_int8`: a weight of 8-bit integers as convolution_int8 reads it,
// [ceil(o / nr)][kh][kw][i / 4][nr][4] unsigned bytes that are 128 more than the weight's, 0 beyond
// o. Once for a set of weights.
#ifndef STRAIGHTLINE_KERNELS_PACK_CONVOLUTION_INT8_H
#define STRAIGHTLINE_KERNELS_PACK_CONVOLUTION_INT8_H

#include "straightline/kernels/vector.h"

namespace sl {

struct PackConvolutionInt8Tune {
  int nr = 0;
};
/// Strides of the weight [o][i][kh][kw]; i is a multiple of 4.
struct PackConvolutionInt8Shape {
  int64_t o = 0, i = 0, kh = 0, kw = 0;
  int64_t strideO = 0, strideI = 0, strideH = 0, strideW = 0;
};

template <PackConvolutionInt8Tune Tune>
SL_INLINE void pack_convolution_int8(sl_ctx*, sl_team team, PackConvolutionInt8Shape s,
                                     const int8_t* weight, int8_t* packed) {
  constexpr int64_t nr = Tune.nr;
  const Range panels = split(ceilDiv(s.o, nr), team, 1);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    int8_t* to = packed + p * nr * s.i * s.kh * s.kw;
    for (int64_t h = 0; h < s.kh; ++h) {
      for (int64_t w = 0; w < s.kw; ++w) {
        for (int64_t i = 0; i < s.i; i += 4) {
          for (int64_t j = 0; j < nr; ++j) {
            const int64_t o = p * nr + j;
            const int8_t* from =
                weight + o * s.strideO + i * s.strideI + h * s.strideH + w * s.strideW;
            SL_NO_UNROLL
            for (int64_t q = 0; q < 4; ++q) {
              *to++ = o < s.o ? int8_t(from[q * s.strideI] ^ int8_t(-128)) : int8_t(0);
            }
          }
        }
      }
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PACK_CONVOLUTION_INT8_H
