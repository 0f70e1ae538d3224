// SPDX-License-Identifier: Apache-2.0
// Families `gemm` (C[M,N] = epilogue(A[M,K] * B[K,N]), B packed by pack_gemm) and the panel driver
// that `convolution` shares. A packed B of 16-bit floats or bytes is widened in registers; with
// pairs = 2 both are bfloat16, and a step of the reduction takes two neighbours of k. The result
// never lives in C before the epilogue, so an operand may be the same buffer as an output.
//
// Cost: 2*m*n*k flops at 85-95% of peak for m >= mr; for m = 1 the packed weight streams at memory
// speed and gemv (which needs no packed copy) is as fast or faster. Blocking: a panel of B (kc * nr
// elements, L1 or L2) is used by all rows of a chunk of mc rows (A chunk in L2) before the next
// panel is touched. `prefetch` = cache lines of the next panel fetched per 4 steps of k; worth
// 15-30% when weights come from L3 or memory, costs as much when they are in L2 already.
// prefetchStreams divides `prefetch`: the lines are prefetched from so many places in turn (Ahead).
#ifndef STRAIGHTLINE_KERNELS_GEMM_H
#define STRAIGHTLINE_KERNELS_GEMM_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/micro_kernel.h"

namespace sl {

/// mr x nr: tile in registers; nr must be what the weight was packed with. kc: reduction block (0:
/// no blocking; steps). mc: rows that share one pass over a panel, in tiles of mr. prefetch: 0 =
/// off. pairs: elements of k in a step, as the weight was packed; 2: A and B are bfloat16, k is
/// even.
struct GemmTune {
  int mr = 6;
  int nr = 16;
  int kc = 512;
  int mc = 96;
  int prefetch = 0;
  int prefetchStreams = 1;
  int pairs = 1;
};

/// C and every epilogue operand are indexed [m][n]; the innermost stride of C is 1.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldc = 0;
  int64_t epilogueStride[kMaxEpilogueOperands][2] = {};

  SL_INLINE_MEMBER constexpr int64_t rows() const { return m; }
  SL_INLINE_MEMBER constexpr int64_t columns() const { return n; }
};

/// Which share of the row blocks x panels a thread does: whole panels or whole row blocks,
/// whichever balances better (panels when equal and there are few rows: each thread then reads its
/// part of the weights only).
struct PanelShare {
  Range blocks;
  Range panels;

  SL_INLINE_MEMBER PanelShare(int64_t blockCount, int64_t panelCount, sl_team team)
      : blocks{0, blockCount}, panels{0, panelCount} {
    if (team.size <= 1) {
      return;
    }
    // Units of the busiest thread, scaled to the whole: smaller is better.
    const int64_t byPanel = ceilDiv(panelCount, team.size) * blockCount;
    const int64_t byBlock = ceilDiv(blockCount, team.size) * panelCount;
    if (byPanel < byBlock || (byPanel == byBlock && blockCount <= 4 * panelCount)) {
      panels = split(panelCount, team, 1);
    } else {
      blocks = split(blockCount, team, 1);
    }
  }
};

/// Declared only, for decltype: the type that a pointer points to.
template <class T>
T pointee(const T*);

/// Reduction of a tile: `outer` x `inner` runs of `run` elements of A, `step` apart in a run.
struct Reduction {
  int64_t outer = 1, outerStride = 0;
  int64_t inner = 1, innerStride = 0;
  int64_t run, step = 1;
};

/// tile += A * panel over [k0, k0 + count) of the only run (blocked K), or over all runs when
/// `count` is all of it.
template <int Prefetch, int Streams, class T, int N, int MR, int NV, class A, class B>
SL_INLINE void reduceRuns(Tile<T, N, MR, NV>& tile, Rows<A, MR> a, const Reduction& r,
                          int64_t runLength, const B* b, int64_t bStride, Ahead ahead) {
  for (int64_t h = 0; h < r.outer; ++h) {
    Rows<A, MR> row = a;
    for (int64_t w = 0; w < r.inner; ++w) {
      multiply<Prefetch, Streams>(tile, row, r.step, b, bStride, runLength, ahead);
      row.advance(r.innerStride);
    }
    a.advance(r.outerStride);
  }
}

/// Rows [k0, k0 + count) of a panel of B. Other panels than pointers pack these rows when asked.
template <class B>
SL_INLINE const B* panelRows(const B* panel, int64_t bStride, int64_t k0, int64_t /*count*/) {
  return panel + k0 * bStride;
}

/// One panel of B (row k at panel + k * bStride) times the row blocks [first, last) of `rows`, `kc`
/// steps of the reduction at a time. Partial results are kept in a local buffer between the blocks
/// of K, each of which is summed by itself: an error grows with the length of a block.
/// Source: `pointer(row)` of A, `offsets(row)`; `kOpaque`: see Rows::makeOpaque.
template <GemmTune Tune, TileSizes Sizes = TileSizes{.most = Tune.mr}, class Panel, class Source,
          class Epilogue, class Ops>
SL_INLINE void runPanel(const Source& source, const RowBlocks& rows, int64_t first, int64_t last,
                        const Reduction& reduction, Panel&& panel, int64_t bStride,
                        const int64_t* steps, int64_t column, int64_t columns, int64_t outputStep,
                        const Epilogue& epilogue, const Ops& ops) {
  using B = decltype(pointee(panelRows(panel, bStride, 0, 0)));
  using T = typename SumOf<B>::type;
  using A = decltype(pointee(source.pointer(0)));
  constexpr int N = panelLanes<T>(Tune.nr);
  constexpr int NV = Tune.nr / N;
  constexpr int64_t kTiles = Tune.mc < Tune.mr ? 1 : Tune.mc / Tune.mr;
  // Streams of one line each: what a call's own blocks need is divided by their number.
  constexpr bool kIsByBlocks =
      !Sizes.known && Tune.prefetch > 1 && Tune.prefetch == Tune.prefetchStreams;
  constexpr int kPrefetch = kIsByBlocks ? kByBlocks : Tune.prefetch;
  constexpr int kStreams = kIsByBlocks ? 1 : Tune.prefetchStreams;
  const int64_t lines = kIsByBlocks ? ceilDiv(panelLines<B>(Tune.nr), last - first) : 0;
  const int64_t depth = reduction.outer * reduction.inner * reduction.run;
  const int64_t whole = Tune.kc == 0 || reduction.run < depth ? depth : minOf(Tune.kc, depth);
  const int64_t kc = maxOf(whole, 1);  // an empty reduction is one block without steps
  alignas(64) T partial[Tune.kc == 0 ? 1 : kTiles * Tune.mr * Tune.nr];
  for (int64_t k0 = 0; k0 < depth || k0 == 0; k0 += kc) {
    const int64_t run = kc == depth ? reduction.run : minOf(kc, depth - k0);
    const bool atStart = k0 == 0;
    const bool atEnd = k0 + kc >= depth;
    const B* const from = panelRows(panel, bStride, k0, run);
    for (int64_t block = first; block < last; ++block) {
      withCount<Sizes.most, Sizes.least>(rows.size(block), [&](auto count) SL_INLINE_LAMBDA {
        constexpr int MR = decltype(count)::value;
        const int64_t row = rows.begin(block);
        Tile<T, N, MR, NV> tile;
        Rows<A, MR> a;
        SL_UNROLL
        for (int i = 0; i < MR; ++i) {
          a.p[i] = source.pointer(row + i) + k0 * reduction.step;
        }
        if constexpr (Source::kOpaque) {
          a.makeOpaque();
        }
        T* saved = partial + (Tune.kc == 0 ? 0 : (block - first) * Tune.mr * Tune.nr);
        tile.clear();
        const Ahead ahead = aheadOf<kPrefetch, kStreams>(
            from, kc * Tune.nr * int64_t(sizeof(B)), kc, block - first, last - first == 1, lines);
        reduceRuns<kPrefetch, kStreams>(tile, a, reduction, run, from, bStride, ahead);
        if (!atStart) {
          tile.addFrom(saved, Tune.nr);
        }
        if (atEnd) {
          SL_UNROLL
          for (int i = 0; i < MR; ++i) {
            const RowOffsets at = source.offsets(row + i);
            SL_UNROLL
            for (int j = 0; j < NV; ++j) {
              const int64_t count = Sizes.wholeColumns ? N : minOf(N, columns - j * N);
              if (count > 0) {
                finish<N>(epilogue, ops, tile.v[i][j], at, steps, column + j * N, outputStep,
                          count);
              }
            }
          }
        } else {
          tile.storeTo(saved, Tune.nr);
        }
      });
    }
  }
}

/// Chunks of row blocks x panels, for this thread's share. `source.prepare(firstRow, lastRow)` is
/// called per chunk.
template <GemmTune Tune, TileSizes Sizes, class B, class Source, class Epilogue, class Ops>
SL_INLINE void runPanels(sl_team team, Source& source, int64_t m, int64_t n,
                         const Reduction& reduction, const B* b, const int64_t* steps,
                         int64_t outputStep, const Epilogue& epilogue, const Ops& ops) {
  constexpr int64_t kTiles = Tune.mc < Tune.mr ? 1 : Tune.mc / Tune.mr;
  const RowBlocks rows(m, Tune.mr);
  const PanelShare share(rows.blocks, ceilDiv(n, Tune.nr), team);
  const int64_t panelSize = reduction.outer * reduction.inner * reduction.run * Tune.nr;
  for (int64_t first = share.blocks.begin; first < share.blocks.end; first += kTiles) {
    const int64_t last = minOf(first + kTiles, share.blocks.end);
    source.prepare(rows.begin(first), rows.begin(last));
    for (int64_t p = share.panels.begin; p < share.panels.end; ++p) {
      runPanel<Tune, Sizes>(source, rows, first, last, reduction, b + p * panelSize, Tune.nr, steps,
                            p * Tune.nr, minOf(Tune.nr, n - p * Tune.nr), outputStep, epilogue,
                            ops);
    }
  }
}

/// Rows of a plain matrix.
template <class T>
struct MatrixRows {
  static constexpr bool kOpaque = false;
  const T* a;
  int64_t lda, ldc;
  const int64_t (*rowStride)[2];

  SL_INLINE_MEMBER void prepare(int64_t, int64_t) {}
  SL_INLINE_MEMBER const T* pointer(int64_t row) const { return a + row * lda; }
  SL_INLINE_MEMBER RowOffsets offsets(int64_t row) const {
    RowOffsets at;
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      at.operand[j] = row * rowStride[j][0];
    }
    at.output = row * ldc;
    return at;
  }
};

/// Rows of a matrix of bfloat16, `lda` elements apart, two elements at a time.
struct PairRows {
  static constexpr bool kOpaque = false;
  MatrixRows<bfloat16> rows;

  SL_INLINE_MEMBER void prepare(int64_t, int64_t) {}
  SL_INLINE_MEMBER const BfloatPair* pointer(int64_t row) const {
    return reinterpret_cast<const BfloatPair*>(rows.pointer(row));
  }
  SL_INLINE_MEMBER RowOffsets offsets(int64_t row) const { return rows.offsets(row); }
};

/// C = epilogue(A * B). a [m][lda], b packed [ceil(n / nr)][k / pairs][nr][pairs], pointers:
/// epilogue operands, then outputs.
template <GemmTune Tune, class Shape, class Epilogue, class A, class B, class... P>
SL_INLINE void gemm(sl_ctx*, sl_team team, Shape shape, Epilogue epilogue, const A* a, const B* b,
                    P... pointers) {
  constexpr TileSizes kSizes = tileSizes(Shape{}, Tune.mr, Tune.nr);
  const GemmShape s = shape;
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][1], s.epilogueStride[1][1],
                                               s.epilogueStride[2][1], s.epilogueStride[3][1]};
  MatrixRows<A> source{a, s.lda, s.ldc, s.epilogueStride};
  if constexpr (Tune.pairs == 2) {
    PairRows pairs{source};
    runPanels<Tune, kSizes>(team, pairs, s.m, s.n, Reduction{.run = s.k / 2},
                            reinterpret_cast<const BfloatPair*>(b), steps, 1, epilogue,
                            epilogueOperands(pointers...));
  } else {
    runPanels<Tune, kSizes>(team, source, s.m, s.n, Reduction{.run = s.k}, b, steps, 1, epilogue,
                            epilogueOperands(pointers...));
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GEMM_H
