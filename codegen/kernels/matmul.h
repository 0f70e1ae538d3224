// SPDX-License-Identifier: Apache-2.0
// Family `matmul`: C[b0,b1,b2,M,N] = epilogue(A * B) per batch item, any strides (either operand
// may be transposed). Panels of B are packed into a per-thread workspace, then run through the
// micro-kernel of gemm. In CUDA C++ (cuda_matmul.h) tiles in shared memory take their place.
//
// Cost: gemm's, plus k * n moves per batch item (a few per cent from m = 32 on; for fewer rows a
// contiguous B is used in place). Threads split batch items x panels, or row blocks when there are
// fewer of those than threads.
#ifndef STRAIGHTLINE_KERNELS_MATMUL_H
#define STRAIGHTLINE_KERNELS_MATMUL_H

#include "straightline/kernels/epilogue.h"

namespace sl {

struct MatmulTune {
  int mr = 6;
  int nr = 16;
  int kc = 512;
  int mc = 96;
  int rows = 0;     ///< CUDA only: rows x columns of the result that a block makes
  int columns = 0;  ///< CUDA only
  int threads = 0;  ///< CUDA only: of a block
  /// CUDA only: blocks of a cluster that share a reduction; more than 1 from sm_90 on
  int splits = 1;
  /// CUDA only: 1: products of float by tensor cores, factors rounded to 10 bits
  int tf32 = 0;
  /// CUDA only: tiles of A and B that a block keeps in dynamic shared memory, 3 or more where
  /// warpgroups multiply
  int stages = 0;
  /// CUDA only, by warpgroups: 1: a block gets ready before the previous kernel has ended; 2: it
  /// requests its first tiles of B then, too, which no kernel of a run writes
  int early = 0;
  /// 2: A and B are bfloat16, k is even and contiguous in A; a step takes two neighbours of k
  int pairs = 1;
  /// CPU only: 1: `kc` rows of a panel of B are packed at a time, so that the workspace does not
  /// depend on k
  int blocks = 0;
};

/// Strides in elements. The innermost stride of C is 1; of an epilogue operand [b0][b1][b2][m][n]
/// it is any.
struct MatmulShape {
  int64_t batch[3] = {};
  int64_t m = 0, n = 0, k = 0;
  int64_t aBatch[3] = {}, aRow = 0, aCol = 0;
  int64_t bBatch[3] = {}, bRow = 0, bCol = 0;
  int64_t cBatch[3] = {}, cRow = 0;
  int64_t epilogueStride[kMaxEpilogueOperands][5] = {};

  SL_INLINE_MEMBER constexpr int64_t rows() const { return m; }
  SL_INLINE_MEMBER constexpr int64_t columns() const { return n; }
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_matmul.h"
#else
#include "straightline/kernels/gemm.h"
#include "straightline/kernels/transpose.h"

namespace sl {

/// Bytes of workspace: one panel of B per thread, or `kc` rows of it.
template <class T = float>
SL_INLINE constexpr int64_t matmulWorkspace(const MatmulShape& s, MatmulTune tune,
                                            int64_t threads) {
  const int64_t k = tune.blocks != 0 ? tune.kc : s.k;
  return threads * ((k * tune.nr * int64_t(sizeof(T)) + 127) / 128 * 128);
}

/// Rows of one batch item.
template <class T>
struct BatchRows {
  static constexpr bool kOpaque = false;
  const T* a;
  int64_t aRow, cRow;
  const int64_t (*stride)[5];
  RowOffsets base;

  SL_INLINE_MEMBER const T* pointer(int64_t row) const { return a + row * aRow; }
  SL_INLINE_MEMBER RowOffsets offsets(int64_t row) const {
    RowOffsets at;
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      at.operand[j] = base.operand[j] + row * stride[j][3];
    }
    at.output = base.output + row * cRow;
    return at;
  }
};

/// Turns the first `count` rows of a block of N x N, which may be none; the others are zero.
template <int N, class T>
SL_INLINE void transposeFirst(const T* in, int64_t inRow, int64_t count, T* out, int64_t outCol) {
  vec<T, N> rows[N];
  SL_UNROLL
  for (int r = 0; r < N; ++r) {
    rows[r] = r < count ? load<N>(in + r * inRow) : vec<T, N>{};
  }
  turnLanes<N, T>(rows);
  SL_UNROLL
  for (int c = 0; c < N; ++c) {
    store(out + c * outCol, rows[c]);
  }
}

/// packed[k][NR] = B[k][0..columns), zero padded.
template <int NR, class T>
SL_INLINE void packPanel(const T* b, int64_t bRow, int64_t bCol, int64_t k, int64_t columns,
                         T* packed) {
  constexpr int N = panelLanes<T>(NR);
  if (bCol == 1 && columns == NR) {
    for (int64_t i = 0; i < k; ++i) {
      SL_UNROLL
      for (int j = 0; j < NR; j += N) {
        store(packed + i * NR + j, load<N>(b + i * bRow + j));
      }
    }
    return;
  }
  // The last vector of a row may be read beyond the row where that is not beyond the last element
  // of B.
  int64_t turned = 0;
  if (bCol == 1) {
    SL_NO_UNROLL
    for (; turned * bRow + NR <= (k - 1) * bRow + columns; ++turned) {
      SL_UNROLL
      for (int j = 0; j < NR; j += N) {
        const vec<T, N> row = load<N>(b + turned * bRow + j);
        store(packed + turned * NR + j, firstLanes(row, columns - j, vec<T, N>{}));
      }
    }
  }
  // Columns that are contiguous are transposed in registers, N at a time; there may be fewer in the
  // last block.
  if (bRow == 1) {
    for (; turned + N <= k; turned += N) {
      SL_NO_UNROLL
      for (int j = 0; j < NR; j += N) {
        const T* from = b + turned + j * bCol;
        T* to = packed + turned * NR + j;
        if (columns - j >= N) {
          transposeBlock<N>(from, bCol, to, NR);
        } else {
          transposeFirst<N>(from, bCol, columns - j, to, NR);
        }
      }
    }
  }
  // Blocks of 16 rows: the panel's part stays in L1 while the columns of B are walked along their
  // contiguous side.
  for (int64_t i0 = turned; i0 < k; i0 += 16) {
    const int64_t last = minOf(i0 + 16, k);
    for (int64_t j = 0; j < NR; ++j) {
      SL_NO_UNROLL
      for (int64_t i = i0; i < last; ++i) {
        packed[i * NR + j] = j < columns ? b[i * bRow + j * bCol] : T(0);
      }
    }
  }
}

/// A panel of B whose rows are packed when they are asked for, or read where they lie.
template <int NR, class T>
struct PanelInBlocks {
  const T* b;
  int64_t bRow, bCol, columns;
  T* packed;
  bool inPlace;
  int64_t at = -1;  ///< first row of those that are packed
};
template <int NR, class T>
SL_INLINE const T* panelRows(PanelInBlocks<NR, T>& panel, int64_t, int64_t k0, int64_t count) {
  const T* from = panel.b + k0 * panel.bRow;
  if (panel.inPlace) {
    return from;
  }
  if (panel.at != k0) {
    packPanel<NR>(from, panel.bRow, panel.bCol, count, panel.columns, panel.packed);
    panel.at = k0;
  }
  return panel.packed;
}

/// packed[k / 2][NR] = pairs of neighbours of B[k][0..columns), zero padded.
template <int NR>
SL_INLINE void packPairs(const bfloat16* b, int64_t bRow, int64_t bCol, int64_t steps,
                         int64_t columns, BfloatPair* packed) {
  constexpr int N = panelLanes<float>(NR);
  using Pairs = vec<uint32_t, N>;
  uint32_t* to = reinterpret_cast<uint32_t*>(packed);
  const auto put = [](uint32_t* at, Pairs pairs)
                       SL_INLINE_LAMBDA { __builtin_memcpy(at, &pairs, sizeof(pairs)); };
  int64_t done = 0;
  if (bCol == 1 && columns == NR) {
    for (; done < steps; ++done) {
      const bfloat16* row = b + 2 * done * bRow;
      SL_UNROLL
      for (int j = 0; j < NR; j += N) {
        SL_PREFETCH(row + 16 * bRow + j);  // an address only, which may lie beyond B
        SL_PREFETCH(row + 17 * bRow + j);
        const Pairs low = __builtin_convertvector(load<N>(row + j).bits, Pairs);
        const Pairs high = __builtin_convertvector(load<N>(row + bRow + j).bits, Pairs);
        put(to + done * NR + j, low | (high << 16));
      }
    }
  } else if (bRow == 1 && columns == NR) {
    for (; done + N <= steps; done += N) {
      SL_NO_UNROLL
      for (int j = 0; j < NR; j += N) {
        Pairs rows[N];
        for (int r = 0; r < N; ++r) {
          __builtin_memcpy(&rows[r], b + (j + r) * bCol + 2 * done, sizeof(Pairs));
        }
        turnLanes<N, uint32_t>(rows);
        for (int c = 0; c < N; ++c) {
          put(to + (done + c) * NR + j, rows[c]);
        }
      }
    }
  }
  for (; done < steps; ++done) {
    SL_NO_UNROLL
    for (int64_t j = 0; j < NR; ++j) {
      const bfloat16* at = b + 2 * done * bRow + j * bCol;
      packed[done * NR + j] = j < columns ? BfloatPair{at[0].bits, at[bRow].bits} : BfloatPair{};
    }
  }
}

/// Rows of one batch item of bfloat16, two elements at a time.
struct BatchPairRows {
  static constexpr bool kOpaque = false;
  BatchRows<bfloat16> rows;

  SL_INLINE_MEMBER const BfloatPair* pointer(int64_t row) const {
    return reinterpret_cast<const BfloatPair*>(rows.pointer(row));
  }
  SL_INLINE_MEMBER RowOffsets offsets(int64_t row) const { return rows.offsets(row); }
};

/// pointers: epilogue operands, outputs, then `char* workspace` of matmulWorkspace bytes (64-byte
/// aligned).
template <MatmulTune Tune, class Shape, class Epilogue, class T, class Ops>
SL_INLINE void matmulWith(sl_team team, const Shape& shape, const Epilogue& epilogue, const T* a,
                          const T* b, const Ops& ops, char* workspace) {
  constexpr TileSizes kSizes = tileSizes(Shape{}, Tune.mr, Tune.nr);
  const MatmulShape s = shape;
  constexpr GemmTune kGemm{
      .mr = Tune.mr, .nr = Tune.nr, .kc = Tune.kc, .mc = Tune.mc, .prefetch = 0};
  constexpr int64_t kTiles = Tune.mc < Tune.mr ? 1 : Tune.mc / Tune.mr;
  char* own = workspace + team.index * matmulWorkspace<T>(s, Tune, 1);
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][4], s.epilogueStride[1][4],
                                               s.epilogueStride[2][4], s.epilogueStride[3][4]};
  const int64_t panels = ceilDiv(s.n, Tune.nr);
  const int64_t units = s.batch[0] * s.batch[1] * s.batch[2] * panels;
  const RowBlocks rows(s.m, Tune.mr);
  Range mine{0, units};
  Range blocks{0, rows.blocks};
  if (units >= team.size) {
    mine = split(units, team, 1);
  } else {
    blocks = split(rows.blocks, team, 1);
  }
  if (blocks.begin == blocks.end) {
    return;
  }
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t item = unit / panels;
    const int64_t panel = unit % panels;
    const int64_t index[3] = {item / s.batch[2] / s.batch[1], item / s.batch[2] % s.batch[1],
                              item % s.batch[2]};
    const T* bItem = b + panel * Tune.nr * s.bCol;
    BatchRows<T> source{a, s.aRow, s.cRow, s.epilogueStride, {}};
    SL_UNROLL
    for (int d = 0; d < 3; ++d) {
      source.a += index[d] * s.aBatch[d];
      bItem += index[d] * s.bBatch[d];
      source.base.output += index[d] * s.cBatch[d];
      SL_UNROLL
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        source.base.operand[j] += index[d] * s.epilogueStride[j][d];
      }
    }
    const int64_t columns = minOf(Tune.nr, s.n - panel * Tune.nr);
    if constexpr (Tune.pairs == 2) {
      BfloatPair* packed = reinterpret_cast<BfloatPair*>(own);
      packPairs<Tune.nr>(bItem, s.bRow, s.bCol, s.k / 2, columns, packed);
      const BatchPairRows pairs{source};
      for (int64_t first = blocks.begin; first < blocks.end; first += kTiles) {
        runPanel<kGemm, kSizes>(pairs, rows, first, minOf(first + kTiles, blocks.end),
                                Reduction{.run = s.k / 2}, static_cast<const BfloatPair*>(packed),
                                Tune.nr, steps, panel * Tune.nr, columns, 1, epilogue, ops);
      }
    } else {
      T* packed = reinterpret_cast<T*>(own);
      const bool inPlace = s.bCol == 1 && columns == Tune.nr && blocks.end - blocks.begin <= 4;
      if (!inPlace && Tune.blocks == 0) {
        packPanel<Tune.nr>(bItem, s.bRow, s.bCol, s.k, columns, packed);
      }
      const Reduction reduction{.run = s.k, .step = s.aCol};
      PanelInBlocks<Tune.nr, T> parts{bItem, s.bRow, s.bCol, columns, packed, inPlace};
      for (int64_t first = blocks.begin; first < blocks.end; first += kTiles) {
        const int64_t last = minOf(first + kTiles, blocks.end);
        if constexpr (Tune.blocks != 0) {
          runPanel<kGemm, kSizes>(source, rows, first, last, reduction, parts,
                                  inPlace ? s.bRow : Tune.nr, steps, panel * Tune.nr, columns, 1,
                                  epilogue, ops);
        } else {
          runPanel<kGemm, kSizes>(source, rows, first, last, reduction, inPlace ? bItem : packed,
                                  inPlace ? s.bRow : Tune.nr, steps, panel * Tune.nr, columns, 1,
                                  epilogue, ops);
        }
      }
    }
  }
}

template <MatmulTune Tune, class Shape, class Epilogue, class T, class... P>
SL_INLINE void matmul(sl_ctx*, sl_team team, Shape s, Epilogue epilogue, const T* a, const T* b,
                      P... pointers) {
  withWorkspace([&](const auto& ops, char* workspace)
                    SL_INLINE_LAMBDA { matmulWith<Tune>(team, s, epilogue, a, b, ops, workspace); },
                pointers...);
}

}  // namespace sl

#endif  // __CUDACC__

#endif  // STRAIGHTLINE_KERNELS_MATMUL_H
