// SPDX-License-Identifier: Apache-2.0
// Family `grouped_matmul`, products whose groups end where data says. `ends[g]`, read by the
// kernel, is the first row (or term) behind group g; a negative one counts from the back, one
// outside of the operand is taken as the nearest one inside, and a group that ends before it begins
// is empty.
//
// - cGroup == 0, groups of rows (a mixture of experts): C[M,N] = epilogue(A * B[g]), where each row
//   of A belongs to one group, with a matrix B[g] of its own. Rows behind the last group are the
//   epilogue of zeros.
// - else groups of terms (the gradients of a mixture's weights): C[g][M,N] = epilogue(A[:, own] *
//   B[own, :]), with A [M,K], B [K,N], and the terms of K that belong to group g. An empty group is
//   the epilogue of zeros.
//
//   sl::grouped_matmul<GroupedMatmulTune{..}>(ctx, team, shape, epilogue, a, b, ends, outputs..,
//   workspace)
//
// A, B and C have any strides but that C's columns are contiguous. Sums are those of float, also of
// bfloat16 and half.
//
// On a CPU threads share the columns of each group (its rows, when there are fewer panels of
// columns than threads). A group of at most kFewRows rows whose B lies along k is read as it is, as
// gemv does, for packing would cost more than the products. Otherwise panels of B are packed, as
// matmul does, and widened on the way. Of 16-bit floats mc rows of A at a time are widened into the
// workspace.
//
// In CUDA C++ a block makes a tile of rows x columns of one group by the bodies of matmul
// (cuda_matmul.h). It finds the group by a sum over the tiles of all groups, 32 groups at a time in
// each warp. The grid has the most tiles that so many rows can have; blocks beyond the last tile
// end at once. There is no workspace.
#ifndef STRAIGHTLINE_KERNELS_GROUPED_MATMUL_H
#define STRAIGHTLINE_KERNELS_GROUPED_MATMUL_H

#include "straightline/kernels/matmul.h"
#if !defined(__CUDACC__)
#include "straightline/kernels/gemv.h"
#endif

namespace sl {

struct GroupedMatmulTune {
  int mr = 6;
  int nr = 16;
  int kc = 512;
  int mc = 96;
  int rows = 0;     ///< CUDA only: rows x columns of the result that a block makes
  int columns = 0;  ///< CUDA only
  int threads = 0;  ///< CUDA only: of a block
  /// CUDA only: 1: products of float by tensor cores, factors rounded to 10 bits
  int tf32 = 0;
};

/// Strides in elements.
struct GroupedMatmulShape {
  int64_t groups = 0, m = 0, n = 0, k = 0;
  int64_t aRow = 0, aCol = 0;
  int64_t bGroup = 0, bRow = 0, bCol = 0;
  int64_t cRow = 0;
  int64_t endStride = 0;
  int64_t cGroup = 0;  ///< from the result of a group of terms to the next; 0: groups of rows
};

/// C [rows, N] at `c` is A [rows, terms] at `a` times B [terms, N] at `b`, offsets in elements.
struct GroupProduct {
  int64_t rows, terms;
  int64_t a, b, c;
};

/// The product of a group. Group `s.groups` has the rows behind the last one, if groups are of
/// rows; else it has no rows.
template <class I>
SL_INLINE GroupProduct productOfGroup(const GroupedMatmulShape& s, const I* ends, int64_t group) {
  const bool ofTerms = s.cGroup != 0;
  const int64_t size = ofTerms ? s.k : s.m;
  const auto end = [&](int64_t g) {
    const int64_t at = g < 0 ? 0 : g == s.groups ? size : int64_t(ends[g * s.endStride]);
    return minOf(at < -size ? 0 : at < 0 ? at + size : at, size);
  };
  const bool isRest = group == s.groups;
  const int64_t first = end(group - 1);
  const int64_t last = end(group);
  const int64_t count = last < first ? 0 : last - first;
  if (ofTerms) {
    return {isRest ? 0 : s.m, count, first * s.aCol, first * s.bRow, group * s.cGroup};
  }
  return {count, isRest ? 0 : s.k, first * s.aRow, isRest ? 0 : group * s.bGroup, first * s.cRow};
}

#if defined(__CUDACC__)

namespace grouped_matmul_detail {

/// A tile of the result of a group: rows [row, ..), columns [column, ..).
template <class Shape>
struct Tile {
  const Shape& s;
  bool exists = false;
  GroupProduct product{0, 0, 0, 0, 0};
  int64_t row = 0, column = 0;

  /// Of block blockIdx.x. All threads of the block find the same.
  template <class I>
  SL_INLINE_MEMBER Tile(const Shape& s, const I* ends, int tileRows, int tileColumns) : s(s) {
    constexpr unsigned kAll = 0xffffffffu;
    const int across = int(ceilDiv(s.n, tileColumns));
    const int wanted = int(blockIdx.x) / across;
    column = int64_t(int(blockIdx.x) % across) * tileColumns;
    const int lane = int(threadIdx.x) % 32;
    int before = 0;  // tiles of the groups before `first`
    SL_NO_UNROLL
    for (int64_t first = 0; first <= s.groups; first += 32) {
      const int64_t rows =
          first + lane <= s.groups ? productOfGroup(s, ends, first + lane).rows : 0;
      const int own = int(ceilDiv(rows, tileRows));
      int upTo = own;
      SL_UNROLL
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(kAll, upTo, distance);
        upTo += lane >= distance ? other : 0;
      }
      int passed = before + upTo <= wanted ? 1 : 0;  // then: in all lanes, a sum over them
      SL_UNROLL
      for (int distance = 16; distance > 0; distance /= 2) {
        passed += __shfl_xor_sync(kAll, passed, distance);
      }
      if (passed < 32) {
        exists = true;
        product = productOfGroup(s, ends, first + passed);
        row = int64_t(wanted - before - __shfl_sync(kAll, upTo - own, passed)) * tileRows;
        return;
      }
      before += __shfl_sync(kAll, upTo, 31);
    }
  }
  /// Its epilogues have no operands.
  template <int N, class Ops>
  SL_INLINE_MEMBER void load(const Ops&, EpilogueRun<N, Ops>&, int, int) const {
    static_assert(Ops::kInputs == 0);
  }
  /// Finishes N neighbours from (row + i, column + j) on.
  template <int N, class Sum, class Epilogue, class Ops>
  SL_INLINE_MEMBER void finish(const Epilogue& epilogue, const Ops& ops, EpilogueRun<N, Ops>& run,
                               const Sum* sums, int i, int j) const {
    if (row + i < product.rows && column + j < s.n) {
      run.finish(epilogue, ops, sums, product.c + (row + i) * s.cRow + column + j,
                 int(minOf(N, s.n - column - j)));
    }
  }
};

}  // namespace grouped_matmul_detail

template <GroupedMatmulTune Tune, class Epilogue, class T, class I, class... P>
SL_INLINE void grouped_matmul(GroupedMatmulShape s, Epilogue epilogue, const T* a, const T* b,
                              const I* ends, P... pointers) {
  constexpr MatmulTune kTile{.mr = Tune.mr,
                             .nr = Tune.nr,
                             .rows = Tune.rows,
                             .columns = Tune.columns,
                             .threads = Tune.threads,
                             .tf32 = Tune.tf32};
  const auto ops = epilogueOperands(pointers...);
  const grouped_matmul_detail::Tile<GroupedMatmulShape> tile(s, ends, Tune.rows, Tune.columns);
  if (!tile.exists) {
    return;
  }
  const GroupProduct& own = tile.product;
  const int64_t depth = own.terms;
  const matmul_detail::Source<T> rows(a + own.a + tile.row * s.aRow, s.aRow, s.aCol,
                                      own.rows - tile.row, depth);
  const matmul_detail::Source<T> columns(b + own.b + tile.column * s.bCol, s.bCol, s.bRow,
                                         s.n - tile.column, depth);
  if constexpr (matmul_detail::kByWarps<kTile>) {
    matmul_detail::byWarps<kTile, T>(tile, rows, columns, depth, epilogue, ops);
  } else {
    matmul_detail::byThreads<kTile, T>(tile, rows, columns, depth, epilogue, ops);
  }
}

#else

/// Rows of a group for which B is not packed.
inline constexpr int64_t kFewRows = 8;

/// Bytes of workspace: per thread a panel of B, and mc rows of A where those are widened.
template <class T>
SL_INLINE constexpr int64_t groupedMatmulWorkspace(const GroupedMatmulShape& s,
                                                   GroupedMatmulTune tune, int64_t threads) {
  using S = typename SumOf<T>::type;
  const int64_t tiles = tune.mc < tune.mr ? 1 : tune.mc / tune.mr;
  const int64_t chunk = tiles * tune.mr;
  const int64_t rows = kSame<T, S> ? 0 : chunk < kFewRows ? kFewRows : chunk;
  return threads * ((s.k * (tune.nr + rows) * int64_t(sizeof(S)) + 127) / 128 * 128);
}

/// to[count][k] = rows of A.
template <class S, class T>
SL_INLINE void widenRows(const T* a, int64_t aRow, int64_t aCol, int64_t count, int64_t k, S* to) {
  constexpr int N = kNativeLanes<S>;
  SL_NO_UNROLL
  for (int64_t i = 0; i < count; ++i) {
    const T* row = a + i * aRow;
    int64_t j = 0;
    if (aCol == 1) {
      for (; j + N <= k; j += N) {
        store(to + i * k + j, cast<S>(load<N>(row + j)));
      }
    }
    SL_NO_UNROLL
    for (; j < k; ++j) {
      to[i * k + j] = cast<S>(row[j * aCol]);
    }
  }
}

/// packed[k][NR] = B[k][0..columns) as what is summed, zero padded.
template <int NR, class S, class T>
SL_INLINE void packWide(const T* b, int64_t bRow, int64_t bCol, int64_t k, int64_t columns,
                        S* packed) {
  if constexpr (kSame<S, T>) {
    packPanel<NR>(b, bRow, bCol, k, columns, packed);
  } else {
    constexpr int N = panelLanes<S>(NR);
    using Bits = vec<uint32_t, N>;
    int64_t done = 0;
    if (bCol == 1 && columns == NR) {
      for (; done < k; ++done) {
        SL_UNROLL
        for (int j = 0; j < NR; j += N) {
          store(packed + done * NR + j, cast<S>(load<N>(b + done * bRow + j)));
        }
      }
    } else if (bRow == 1 && columns == NR) {
      for (; done + N <= k; done += N) {
        SL_NO_UNROLL
        for (int j = 0; j < NR; j += N) {
          Bits rows[N];
          for (int r = 0; r < N; ++r) {
            rows[r] = bitcast<Bits>(cast<S>(load<N>(b + (j + r) * bCol + done)));
          }
          turnLanes<N, uint32_t>(rows);
          for (int c = 0; c < N; ++c) {
            store(packed + (done + c) * NR + j, bitcast<vec<S, N> >(rows[c]));
          }
        }
      }
    }
    for (; done < k; ++done) {
      SL_NO_UNROLL
      for (int64_t j = 0; j < NR; ++j) {
        packed[done * NR + j] = j < columns ? cast<S>(b[done * bRow + j * bCol]) : S(0);
      }
    }
  }
}

/// Rows of one group: row `first` is at `a`.
template <class S>
struct GroupRows {
  static constexpr bool kOpaque = false;
  const S* a;
  int64_t first, aRow, output, cRow;

  SL_INLINE_MEMBER const S* pointer(int64_t row) const { return a + (row - first) * aRow; }
  SL_INLINE_MEMBER RowOffsets offsets(int64_t row) const {
    RowOffsets at;
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      at.operand[j] = 0;
    }
    at.output = output + row * cRow;
    return at;
  }
};

/// Columns [begin, end) of the product of `rows` (`count` of them, contiguous along k) with the
/// rows of a weight.
template <class S, class T, class Epilogue, class Ops>
SL_INLINE void multiplyFewRows(const GroupRows<S>& rows, int64_t count, const T* weight,
                               int64_t ldw, int64_t k, Range range, const Epilogue& epilogue,
                               const Ops& ops) {
  constexpr int N = kNativeLanes<S>;
  constexpr int kMost = 4;
  const int64_t steps[kMaxEpilogueOperands] = {};
  const RowBlocks blocks(count, kMost);
  SL_NO_UNROLL
  for (int64_t n = range.begin; n < range.end; n += N) {
    const int64_t columns = minOf(N, range.end - n);
    SL_NO_UNROLL
    for (int64_t block = 0; block < blocks.blocks; ++block) {
      withCount<kMost>(blocks.size(block), [&](auto size) SL_INLINE_LAMBDA {
        constexpr int MR = decltype(size)::value;
        constexpr int kRows = MR == 1 ? N : kVectorRegisters < 32 && MR > 2 ? 2 : minOf(4, N);
        const int64_t m0 = blocks.begin(block);
        S sums[MR * N];
        SL_NO_UNROLL
        for (int64_t r = 0; r < columns; r += kRows) {
          dotRows<kRows, MR, N>(rows.pointer(m0), rows.aRow, weight + (n + r) * ldw, ldw, k,
                                minOf(kRows, columns - r), sums + r);
        }
        SL_NO_UNROLL
        for (int m = 0; m < MR; ++m) {
          finish<N>(epilogue, ops, loadLanes<N>(sums + m * N, 1, int(columns)),
                    rows.offsets(m0 + m), steps, n, 1, columns);
        }
      });
    }
  }
}

template <GroupedMatmulTune Tune, class Epilogue, class T, class I, class Ops>
SL_INLINE void groupedMatmulWith(sl_team team, const GroupedMatmulShape& s,
                                 const Epilogue& epilogue, const T* a, const T* b, const I* ends,
                                 const Ops& ops, char* workspace) {
  using S = typename SumOf<T>::type;
  constexpr bool kWidens = !kSame<S, T>;
  constexpr GemmTune kGemm{
      .mr = Tune.mr, .nr = Tune.nr, .kc = Tune.kc, .mc = Tune.mc, .prefetch = 0};
  constexpr int64_t kTiles = Tune.mc < Tune.mr ? 1 : Tune.mc / Tune.mr;
  S* packed = reinterpret_cast<S*>(workspace + team.index * groupedMatmulWorkspace<T>(s, Tune, 1));
  S* wide = packed + s.k * Tune.nr;
  const int64_t steps[kMaxEpilogueOperands] = {};
  const int64_t panels = ceilDiv(s.n, Tune.nr);
  const bool byPanels = panels >= team.size;
  const Range ownPanels = byPanels ? split(panels, team, 1) : Range{0, panels};
  for (int64_t group = 0; group <= s.groups; ++group) {
    const GroupProduct own = productOfGroup(s, ends, group);
    const int64_t depth = own.terms;
    const T* first = a + own.a;
    const T* matrix = b + own.b;
    GroupRows<S> source{nullptr, 0, s.aRow, own.c, s.cRow};
    if constexpr (kWidens) {
      source.a = wide;
      source.aRow = depth;
    } else {
      source.a = first;
    }
    if (own.rows > 0 && own.rows <= kFewRows && s.bRow == 1 && s.aCol == 1 && depth > 0) {
      const Range columns = split(s.n, team, kNativeLanes<S>);
      if constexpr (kWidens) {
        if (columns.begin < columns.end) {
          widenRows(first, s.aRow, s.aCol, own.rows, depth, wide);
        }
      }
      multiplyFewRows(source, own.rows, matrix, s.bCol, depth, columns, epilogue, ops);
      continue;
    }
    const RowBlocks rows(own.rows, Tune.mr);
    const Range blocks = byPanels ? Range{0, rows.blocks} : split(rows.blocks, team, 1);
    int64_t widened = -1;  // the block of rows that `wide` begins with
    for (int64_t p = ownPanels.begin; p < ownPanels.end && blocks.begin < blocks.end; ++p) {
      const int64_t columns = minOf(Tune.nr, s.n - p * Tune.nr);
      const T* from = matrix + p * Tune.nr * s.bCol;
      const bool inPlace = s.bCol == 1 && columns == Tune.nr && blocks.end - blocks.begin <= 4;
      if (!inPlace) {
        packWide<Tune.nr, S>(from, s.bRow, s.bCol, depth, columns, packed);
      }
      for (int64_t block = blocks.begin; block < blocks.end; block += kTiles) {
        const int64_t last = minOf(block + kTiles, blocks.end);
        if constexpr (kWidens) {
          source.first = rows.begin(block);
          if (widened != block) {
            widened = block;
            widenRows(first + source.first * s.aRow, s.aRow, s.aCol,
                      rows.begin(last) - source.first, depth, wide);
          }
        }
        const Reduction reduction{.run = depth, .step = kWidens ? 1 : s.aCol};
        if (inPlace) {
          runPanel<kGemm>(source, rows, block, last, reduction, from, s.bRow, steps, p * Tune.nr,
                          columns, 1, epilogue, ops);
        } else {
          runPanel<kGemm>(source, rows, block, last, reduction, static_cast<const S*>(packed),
                          Tune.nr, steps, p * Tune.nr, columns, 1, epilogue, ops);
        }
      }
    }
  }
}

/// pointers: outputs, then `char* workspace` of groupedMatmulWorkspace bytes (64-byte aligned).
template <GroupedMatmulTune Tune, class Epilogue, class T, class I, class... P>
SL_INLINE void grouped_matmul(sl_ctx*, sl_team team, GroupedMatmulShape s, Epilogue epilogue,
                              const T* a, const T* b, const I* ends, P... pointers) {
  withWorkspace(
      [&](const auto& ops, char* workspace) SL_INLINE_LAMBDA {
        groupedMatmulWith<Tune>(team, s, epilogue, a, b, ends, ops, workspace);
      },
      pointers...);
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GROUPED_MATMUL_H
