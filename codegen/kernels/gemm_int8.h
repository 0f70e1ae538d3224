// SPDX-License-Identifier: Apache-2.0
// Family `gemm_int8`: C[M,N] = epilogue(A[M,K] * B[K,N]) of signed 8-bit integers, summed in 32
// bits modulo 2^32; B packed by pack_gemm_int8.
//
// The instruction (VNNI) multiplies unsigned by signed bytes, so the packed B holds b + 128: sum a
// * (b + 128) is 128 times the sum of A's row too large, which is where a tile's sums begin. Each
// thread sums the rows of a chunk once for all of its panels. Without VNNI the same bytes are
// widened to 16 bits: the answers are the same numbers on every CPU.
//
// Cost: 4 multiply-adds a lane and instruction (one in a cycle on Zen 4): 8 times float32's in
// each. A single row streams the weight, of which there is a quarter.
#ifndef STRAIGHTLINE_KERNELS_GEMM_INT8_H
#define STRAIGHTLINE_KERNELS_GEMM_INT8_H

#include "straightline/kernels/gemm.h"

namespace sl {

/// mr x nr: tile in registers; nr must be what the weight was packed with. mc: rows that share one
/// pass over a panel. prefetch: cache lines of the next panel fetched per 16 elements of k;
/// prefetchStreams: as for gemm.
struct GemmInt8Tune {
  int mr = 6;
  int nr = 16;
  int mc = 96;
  int prefetch = 0;
  int prefetchStreams = 1;
};

/// C and every epilogue operand are indexed [m][n]; the innermost stride of C is 1, as that of A.
struct GemmInt8Shape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldc = 0;
  int64_t epilogueStride[kMaxEpilogueOperands][2] = {};

  SL_INLINE_MEMBER constexpr int64_t rows() const { return m; }
  SL_INLINE_MEMBER constexpr int64_t columns() const { return n; }
};

/// The sum of `count` bytes.
SL_INLINE int32_t sumOfBytes(const int8_t* p, int64_t count) {
  constexpr int N = kNativeLanes<int32_t>;
  vec<int32_t, N> sums{};
  int64_t i = 0;
  for (; i + 4 * N <= count; i += 4 * N) {
    vec<uint32_t, N> bytes;
    __builtin_memcpy(&bytes, p + i, sizeof(bytes));
    sums = multiplyQuads<N>(bytes, splat<vec<uint32_t, N>>(0x01010101u), sums);
  }
  uint32_t sum = uint32_t(horizontalSum(bitcast<vec<uint32_t, N>>(sums)));
  SL_NO_UNROLL
  for (; i < count; ++i) {
    sum += uint32_t(p[i]);
  }
  return int32_t(sum);
}

/// The last 1 to 3 elements of a row and zeros, so that nothing behind a row is read.
SL_INLINE ByteQuad lastQuad(const int8_t* p, int64_t count) {
  ByteQuad quad{};
  SL_NO_UNROLL
  for (int64_t i = 0; i < count; ++i) {
    quad.bytes[i] = uint8_t(p[i]);
  }
  return quad;
}

/// One panel of B times the row blocks [first, last) of `rows`; `start`: what the sums of a row of
/// the chunk begin with.
template <GemmInt8Tune Tune, TileSizes Sizes, class Source, class Epilogue, class Ops>
SL_INLINE void runBytePanel(const Source& source, const RowBlocks& rows, int64_t first,
                            int64_t last, int64_t k, const ByteQuad* panel, const int32_t* start,
                            const int64_t* steps, int64_t column, int64_t columns,
                            const Epilogue& epilogue, const Ops& ops) {
  constexpr int N = panelLanes<int32_t>(Tune.nr);
  constexpr int NV = Tune.nr / N;
  const int64_t whole = k / 4, rest = k % 4;
  for (int64_t block = first; block < last; ++block) {
    withCount<Sizes.most, Sizes.least>(rows.size(block), [&](auto count) SL_INLINE_LAMBDA {
      constexpr int MR = decltype(count)::value;
      const int64_t row = rows.begin(block);
      Tile<int32_t, N, MR, NV> tile;
      Rows<ByteQuad, MR> a;
      SL_UNROLL
      for (int i = 0; i < MR; ++i) {
        a.p[i] = reinterpret_cast<const ByteQuad*>(source.pointer(row + i));
        SL_UNROLL
        for (int j = 0; j < NV; ++j) {
          tile.v[i][j] = splat<vec<int32_t, N>>(start[row - rows.begin(first) + i]);
        }
      }
      Ahead ahead = aheadOf<Tune.prefetch, Tune.prefetchStreams>(
          panel, (whole + (rest != 0)) * Tune.nr * 4, whole, block - first, last - first == 1);
      const ByteQuad* b = panel;
      multiply<Tune.prefetch, Tune.prefetchStreams>(tile, a, 1, b, Tune.nr, whole, ahead);
      if (rest != 0) {
        ByteQuad quads[MR];
        Rows<ByteQuad, MR> tail;
        SL_UNROLL
        for (int i = 0; i < MR; ++i) {
          quads[i] = lastQuad(source.pointer(row + i) + whole * 4, rest);
          tail.p[i] = &quads[i];
        }
        multiplyStep(tile, tail, 0, b);
      }
      SL_UNROLL
      for (int i = 0; i < MR; ++i) {
        const RowOffsets at = source.offsets(row + i);
        SL_UNROLL
        for (int j = 0; j < NV; ++j) {
          const int64_t valid = Sizes.wholeColumns ? N : minOf(N, columns - j * N);
          if (valid > 0) {
            finish<N>(epilogue, ops, tile.v[i][j], at, steps, column + j * N, 1, valid);
          }
        }
      }
    });
  }
}

/// C = epilogue(A * B). a [m][lda], b packed [ceil(n / nr)][ceil(k / 4)][nr][4], pointers: epilogue
/// operands, then outputs.
template <GemmInt8Tune Tune, class Shape, class Epilogue, class... P>
SL_INLINE void gemm_int8(sl_ctx*, sl_team team, Shape shape, Epilogue epilogue, const int8_t* a,
                         const int8_t* b, P... pointers) {
  constexpr TileSizes kSizes = tileSizes(Shape{}, Tune.mr, Tune.nr);
  const GemmInt8Shape s = shape;
  constexpr int64_t kTiles = Tune.mc < Tune.mr ? 1 : Tune.mc / Tune.mr;
  const auto ops = epilogueOperands(pointers...);
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][1], s.epilogueStride[1][1],
                                               s.epilogueStride[2][1], s.epilogueStride[3][1]};
  const MatrixRows<int8_t> source{a, s.lda, s.ldc, s.epilogueStride};
  const RowBlocks rows(s.m, Tune.mr);
  const PanelShare share(rows.blocks, ceilDiv(s.n, Tune.nr), team);
  if (share.panels.begin == share.panels.end) {
    return;
  }
  const int64_t panelSize = ceilDiv(s.k, 4) * Tune.nr;
  for (int64_t first = share.blocks.begin; first < share.blocks.end; first += kTiles) {
    const int64_t last = minOf(first + kTiles, share.blocks.end);
    int32_t start[kTiles * Tune.mr];
    for (int64_t row = rows.begin(first); row < rows.begin(last); ++row) {
      start[row - rows.begin(first)] =
          int32_t(-128u * uint32_t(sumOfBytes(source.pointer(row), s.k)));
    }
    for (int64_t p = share.panels.begin; p < share.panels.end; ++p) {
      runBytePanel<Tune, kSizes>(source, rows, first, last, s.k,
                                 reinterpret_cast<const ByteQuad*>(b) + p * panelSize, start, steps,
                                 p * Tune.nr, minOf(Tune.nr, s.n - p * Tune.nr), epilogue, ops);
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GEMM_INT8_H
