// SPDX-License-Identifier: Apache-2.0
// The body of family `matmul` in CUDA C++; included by matmul.h, which says what it does. There is
// no workspace.
//
//   sl::matmul<MatmulTune{.mr, .nr, .rows, .columns, .threads, .splits}>(shape, epilogue, a, b,
//   operands..., outputs...)
//
// A block computes rows x columns of the result, some steps of the reduction at a time, from tiles
// of A and B in shared memory. Tiles are read along the contiguous side of their operand, in pieces
// of 16 bytes where sizes and addresses allow it and element by element otherwise, so operands may
// have any strides. The grid has `splits` blocks for every tile of every batch item; tiles of
// neighbouring rows are adjacent. The blocks of a tile are a cluster: each sums a part of the
// reduction, then finishes a part of the tile from the sums of all, read in their shared memory.
//
// - float and double: a thread has mr x nr results; products are summed by fused multiply-adds. The
//   same holds, with sums of float, for bfloat16 before sm_80, whose tensor cores are the first to
//   take it.
// - bfloat16, half, and float with `tf32`: a warp has mr x nr results, made by tensor cores with
//   sums of float; several tiles are copied ahead. With `tf32` factors are rounded to 10 bits of
//   mantissa, to nearest.
//
// byThreads and byWarps do not depend on matrices: they take sources (what a block reads of one
// operand) and an item (which part of the result a block computes). Convolutions have their own
// (cuda_convolution_direct.h).
//
// An item has: `load<N>(ops, run, i, j)`, what the epilogue reads for N neighbours from (i, j) of
// the tile on; and `finish<N>(epilogue, ops, run, sums, i, j)` with what was loaded.
//
// A source has: `alongDepth`, whether the reduction is the side to read along; `inPieces`, 16 bytes
// at a time; `exists(row, at)`; `address(row, at)` of an element that exists; and `load<V>(to, row,
// at)`, V neighbours along the side that is read, zeros outside.
#ifndef STRAIGHTLINE_KERNELS_CUDA_MATMUL_H
#define STRAIGHTLINE_KERNELS_CUDA_MATMUL_H

#include "straightline/kernels/cuda_cluster.h"
#include "straightline/kernels/cuda_tensor_core.h"

namespace sl {
namespace matmul_detail {

/// What a block reads of one operand: `rows` rows of A, or columns of B, and `depth` steps of the
/// reduction.
template <class T>
struct Source {
  const T* p;
  int64_t rowStride, depthStride;
  int64_t rows, depth;
  bool alongDepth;  ///< the reduction is the side to read along
  bool inPieces;    ///< 16 bytes at a time

  SL_INLINE_MEMBER Source(const T* first, int64_t rowStride, int64_t depthStride, int64_t rows,
                          int64_t depth)
      : p(first), rowStride(rowStride), depthStride(depthStride), rows(rows), depth(depth) {
    constexpr int V = kWholePiece<T>;
    alongDepth = depthStride == 1 || rowStride != 1;
    // The extent along the side that is read is a number of whole pieces, and so is the stride of
    // the other side, so that every piece is aligned.
    inPieces = (alongDepth ? depthStride == 1 && depth % V == 0 && rowStride % V == 0
                           : rows % V == 0 && depthStride % V == 0) &&
               isAligned<V>(first);
  }
  SL_INLINE_MEMBER bool exists(int64_t row, int64_t at) const { return row < rows && at < depth; }
  SL_INLINE_MEMBER const T* address(int64_t row, int64_t at) const {
    return p + row * rowStride + at * depthStride;
  }
  /// V neighbours along the side that is read; zeros beyond the operand.
  template <int V>
  SL_INLINE_MEMBER void load(T* to, int64_t row, int64_t at) const {
    const T* from = address(row, at);
    if (inPieces) {
      loadPiecesOrZeros<V>(to, exists(row, at) ? from : nullptr);
      return;
    }
    SL_UNROLL
    for (int j = 0; j < V; ++j) {
      const bool exists = alongDepth ? row < rows && at + j < depth : row + j < rows && at < depth;
      to[j] = exists ? from[j * (alongDepth ? depthStride : rowStride)] : T{};
    }
  }
};

/// Whether a warp has mr x nr results; else a thread has.
template <MatmulTune Tune>
inline constexpr bool kByWarps =
    Tune.rows / Tune.mr * (Tune.columns / Tune.nr) * 32 == Tune.threads;

/// Offsets of one batch item, and which tile of its result a block computes.
template <class A, class B>
struct Item {
  const MatmulShape& s;
  const A* a;
  const B* b;
  RowOffsets base;
  int64_t row, column;
  int64_t steps[kMaxEpilogueOperands];

  SL_INLINE_MEMBER Item(const MatmulShape& s, const A* firstA, const B* firstB,
                        const MatmulTune& tune)
      : s(s), a(firstA), b(firstB) {
    const int64_t tileRows = tune.rows;
    const int64_t tileColumns = tune.columns;
    const int64_t down = ceilDiv(s.m, tileRows);
    const int64_t across = ceilDiv(s.n, tileColumns);
    int64_t number = int64_t(blockIdx.x) / tune.splits;
    row = number % down * tileRows;
    number /= down;
    column = number % across * tileColumns;
    number /= across;
    clear();
    SL_UNROLL
    for (int d = 2; d >= 0; --d) {
      const int64_t index = number % s.batch[d];
      number /= s.batch[d];
      a += index * s.aBatch[d];
      b += index * s.bBatch[d];
      base.output += index * s.cBatch[d];
      SL_UNROLL
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        base.operand[j] += index * s.epilogueStride[j][d];
      }
    }
    a += row * s.aRow;
    b += column * s.bCol;
  }
  /// The tile at (row, column) of a single product.
  SL_INLINE_MEMBER Item(const MatmulShape& s, const A* a, const B* b, int64_t row, int64_t column)
      : s(s), a(a + row * s.aRow), b(b + column * s.bCol), row(row), column(column) {
    clear();
  }
  /// Loads what the epilogue reads for N neighbours from (row + i, column + j) on, which finish()
  /// computes: in two steps, so that operands of several runs can be loaded at once.
  template <int N, class Ops>
  SL_INLINE_MEMBER void load(const Ops& ops, EpilogueRun<N, Ops>& run, int i, int j) const {
    if (row + i < s.m && column + j < s.n) {
      run.load(ops, operandsAt(row + i), steps, column + j, int(minOf(N, s.n - column - j)));
    }
  }
  /// Whether rows are whole pieces of N neighbours, which lie side by side and begin at multiples
  /// of their size, of what the epilogue reads and of results.
  template <int N, class Ops>
  SL_INLINE_MEMBER bool isWhole(const Ops& ops) const {
    return s.n % N == 0 && s.cRow % N == 0 && base.output % N == 0 &&
           isWholeOf<N>(ops, IntsUpTo<Ops::kInputs>{}, IntsUpTo<Ops::kOutputs>{});
  }
  /// The same as load() and finish() where isWhole() holds, of a piece.
  template <int N, class Ops>
  SL_INLINE_MEMBER void loadWhole(const Ops& ops, EpilogueRun<N, Ops>& run, int i, int j) const {
    if (row + i < s.m && column + j < s.n) {
      run.loadWhole(ops, operandsAt(row + i), column + j);
    }
  }
  template <int N, class Sum, class Epilogue, class Ops>
  SL_INLINE_MEMBER void finishWhole(const Epilogue& epilogue, const Ops& ops,
                                    EpilogueRun<N, Ops>& run, const Sum* sums, int i, int j) const {
    if (row + i < s.m && column + j < s.n) {
      run.finishWhole(epilogue, ops, sums, base.output + (row + i) * s.cRow + column + j);
    }
  }
  template <int N, class Sum, class Epilogue, class Ops>
  SL_INLINE_MEMBER void finish(const Epilogue& epilogue, const Ops& ops, EpilogueRun<N, Ops>& run,
                               const Sum* sums, int i, int j) const {
    if (row + i < s.m && column + j < s.n) {
      run.finish(epilogue, ops, sums, base.output + (row + i) * s.cRow + column + j,
                 int(minOf(N, s.n - column - j)));
    }
  }
  /// Where the epilogue's operands of a row begin.
  SL_INLINE_MEMBER RowOffsets operandsAt(int64_t m) const {
    RowOffsets at;
    SL_UNROLL
    for (int o = 0; o < kMaxEpilogueOperands; ++o) {
      at.operand[o] = base.operand[o] + m * s.epilogueStride[o][3];
    }
    return at;
  }

 private:
  SL_INLINE_MEMBER void clear() {
    base.output = 0;
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      base.operand[j] = 0;
      steps[j] = s.epilogueStride[j][4];
    }
  }
  template <int N, class Ops, int... I, int... O>
  SL_INLINE_MEMBER bool isWholeOf(const Ops& ops, Ints<I...>, Ints<O...>) const {
    return ((inPieces<N>(get<I>(ops), steps[I], N) && s.epilogueStride[I][3] % N == 0 &&
             base.operand[I] % N == 0) &&
            ...) &&
           (inPieces<N>(get<Ops::kInputs + O>(ops), 1, N) && ...);
  }
};

/// This block's part of the reduction: steps [first, last), whole tiles of them.
template <int DEPTH, int SPLITS>
struct Part {
  int64_t first, last;

  SL_INLINE_MEMBER explicit Part(int64_t depth) {
    const int64_t tiles = ceilDiv(depth, DEPTH);
    if constexpr (SPLITS == 1) {
      first = 0;
      last = tiles * DEPTH;
    } else {
      const int64_t each = ceilDiv(tiles, SPLITS);
      first = minOf(cluster::rank() * each, tiles) * DEPTH;
      last = minOf(first + each * DEPTH, tiles * DEPTH);
    }
  }
};

/// Finishes this block's part of a tile from the sums of all blocks of the cluster, each with its
/// own in `sums` (shared memory, [rows][PITCH]).
template <MatmulTune Tune, int N, int PITCH = Tune.columns, class Sum, class Item, class Epilogue,
          class Ops>
SL_INLINE void finishTogether(const Item& item, const Epilogue& epilogue, const Ops& ops,
                              const Sum* sums) {
  cluster::sync();
  // A loop of few instructions: each is fetched once a launch.
  SL_NO_UNROLL
  for (int piece = cluster::rank() * Tune.threads + int(threadIdx.x);
       piece < Tune.rows * Tune.columns / N; piece += Tune.splits * Tune.threads) {
    EpilogueRun<N, Ops> run;
    Run<Sum, N> part[Tune.splits];
    const int row = piece * N / Tune.columns, column = piece * N % Tune.columns;
    item.template load<N>(ops, run, row, column);
    SL_UNROLL
    for (int block = 0; block < Tune.splits; ++block) {
      cluster::loadFrom(block, part[block].at, sums + row * PITCH + column);
    }
    SL_UNROLL
    for (int block = 1; block < Tune.splits; ++block) {
      SL_UNROLL
      for (int j = 0; j < N; ++j) {
        part[0].at[j] += part[block].at[j];
      }
    }
    item.template finish<N>(epilogue, ops, run, part[0].at, row, column);
  }
  cluster::sync();  // other blocks may still read this block's sums
}

// ---- fused multiply-adds ----

/// A tile of ROWS x DEPTH, first in registers of THREADS threads, then in shared memory as
/// [DEPTH][ROWS], converted to the type of sums.
template <class T, int ROWS, int DEPTH, int THREADS>
struct Stage {
  static constexpr int V = kWholePiece<T>;
  static constexpr int kPieces = (ROWS * DEPTH / V + THREADS - 1) / THREADS;
  static constexpr bool kRagged = ROWS * DEPTH / V % THREADS != 0;
  /// Padded, so that neighbouring steps of the reduction begin in different banks.
  static constexpr int kPitch = ROWS + V;
  using Sum = SumOf<T>;
  T piece[kPieces][V];

  template <class S>
  SL_INLINE_MEMBER void place(const S& source, int i, int& row, int& at) const {
    const int number = int(threadIdx.x) + i * THREADS;
    row = source.alongDepth ? number / (DEPTH / V) : number % (ROWS / V) * V;
    at = source.alongDepth ? number % (DEPTH / V) * V : number / (ROWS / V);
  }
  template <class S>
  SL_INLINE_MEMBER void load(const S& source, int64_t from) {
    SL_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      int row, at;
      place(source, i, row, at);
      if (!kRagged || int(threadIdx.x) + i * THREADS < ROWS * DEPTH / V) {
        source.template load<V>(piece[i], row, from + at);
      }
    }
  }
  template <class S>
  SL_INLINE_MEMBER void store(const S& source, Sum (&tile)[DEPTH][kPitch]) const {
    SL_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      int row, at;
      place(source, i, row, at);
      if (!kRagged || int(threadIdx.x) + i * THREADS < ROWS * DEPTH / V) {
        SL_UNROLL
        for (int j = 0; j < V; ++j) {
          tile[at + (source.alongDepth ? j : 0)][row + (source.alongDepth ? 0 : j)] =
              wide(piece[i][j]);
        }
      }
    }
  }
  static SL_INLINE_MEMBER Sum wide(T x) {
    if constexpr (kSame<T, Sum>) {
      return x;
    } else {
      return toFloat(x);
    }
  }
};

/// Neighbours in a chunk: a thread's COUNT results along one side of the tile are chunks of at most
/// 16 bytes, which are spread evenly over that side.
template <class T, int COUNT>
inline constexpr int kChunk = COUNT < kWholePiece<T> ? COUNT : kWholePiece<T>;

/// sums += a thread's rows of `a` times its columns of `b`, both [DEPTH][pitch] in shared memory.
/// down, across: where its first chunks begin; ROWS x COLUMNS: the tile of the block.
template <int ROWS, int COLUMNS, int DEPTH, class Sum, int MR, int NR, int PA, int PB>
SL_INLINE void multiplyTiles(const Sum (&a)[DEPTH][PA], const Sum (&b)[DEPTH][PB], int down,
                             int across, Sum (&sums)[MR][NR]) {
  constexpr int CM = kChunk<Sum, MR>, CN = kChunk<Sum, NR>;
  SL_UNROLL
  for (int d = 0; d < DEPTH; ++d) {
    Sum x[MR], y[NR];
    SL_UNROLL
    for (int i = 0; i < MR; i += CM) {
      loadPieces<CM>(x + i, &a[d][down + i / CM * (ROWS * CM / MR)]);
    }
    SL_UNROLL
    for (int j = 0; j < NR; j += CN) {
      loadPieces<CN>(y + j, &b[d][across + j / CN * (COLUMNS * CN / NR)]);
    }
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      SL_UNROLL
      for (int j = 0; j < NR; ++j) {
        sums[i][j] = fma(x[i], y[j], sums[i][j]);
      }
    }
  }
}

template <MatmulTune Tune, class T, class Item, class A, class B, class Epilogue, class Ops>
SL_INLINE void byThreads(const Item& item, const A& a, const B& b, int64_t depth,
                         const Epilogue& epilogue, const Ops& ops) {
  using Sum = SumOf<T>;
  constexpr int kDepth = Tune.rows + Tune.columns <= 128 && sizeof(Sum) == 4 ? 32 : 16;
  constexpr int kThreads = Tune.threads;
  constexpr int MR = Tune.mr, NR = Tune.nr;
  constexpr int CM = kChunk<Sum, MR>, CN = kChunk<Sum, NR>;
  constexpr int kAcross = Tune.columns / NR;
  static_assert(Tune.rows / MR * kAcross == kThreads && MR % CM == 0 && NR % CN == 0);
  using StageA = Stage<T, Tune.rows, kDepth, kThreads>;
  using StageB = Stage<T, Tune.columns, kDepth, kThreads>;
  struct Tiles {
    Sum a[2][kDepth][StageA::kPitch];
    Sum b[2][kDepth][StageB::kPitch];
  };
  constexpr int kTileBytes = int(sizeof(Tiles));
  constexpr int kSumBytes = Tune.splits > 1 ? Tune.rows * Tune.columns * int(sizeof(Sum)) : 0;
  __shared__ alignas(16) char memory[kTileBytes > kSumBytes ? kTileBytes : kSumBytes];
  Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
  const Part<kDepth, Tune.splits> part(depth);
  const int down = int(threadIdx.x) / kAcross * CM;
  const int across = int(threadIdx.x) % kAcross * CN;
  Sum sums[MR][NR] = {};
  StageA stageA;
  StageB stageB;
  stageA.load(a, part.first);
  stageB.load(b, part.first);
  stageA.store(a, tiles.a[0]);
  stageB.store(b, tiles.b[0]);
  __syncthreads();
  int now = 0;
  SL_NO_UNROLL
  for (int64_t k = part.first; k < part.last; k += kDepth) {
    const bool more = k + kDepth < part.last;
    if (more) {
      stageA.load(a, k + kDepth);
      stageB.load(b, k + kDepth);
    }
    multiplyTiles<Tune.rows, Tune.columns>(tiles.a[now], tiles.b[now], down, across, sums);
    if (more) {
      now ^= 1;
      stageA.store(a, tiles.a[now]);
      stageB.store(b, tiles.b[now]);
      __syncthreads();
    }
  }
  Sum* together = reinterpret_cast<Sum*>(memory);
  if constexpr (Tune.splits > 1) {
    __syncthreads();
  }
  SL_UNROLL
  for (int i = 0; i < MR; ++i) {
    SL_UNROLL
    for (int j = 0; j < NR; j += CN) {
      const int row = down + i / CM * (Tune.rows * CM / MR) + i % CM;
      const int column = across + j / CN * (Tune.columns * CN / NR);
      if constexpr (Tune.splits > 1) {
        storeRun<CN>(together + row * Tune.columns + column, 1, CN, &sums[i][j]);
      } else {
        EpilogueRun<CN, Ops> run;
        item.template load<CN>(ops, run, row, column);
        item.template finish<CN>(epilogue, ops, run, &sums[i][j], row, column);
      }
    }
  }
  if constexpr (Tune.splits > 1) {
    finishTogether<Tune, kWholePiece<Sum>>(item, epilogue, ops, together);
  }
}

// ---- bfloat16, half, float with tf32: tensor cores ----

/// A tile of ROWS x DEPTH in shared memory, in pieces of 16 bytes along the side that is read:
/// [ROWS][DEPTH] when that is the reduction, else [DEPTH][ROWS]; always [ROWS][DEPTH] for elements
/// of 4 bytes, which ldmatrix cannot transpose. Pieces of a line are permuted so that the pieces at
/// one position of 8 neighbouring lines lie in different banks.
template <class T, int ROWS, int DEPTH>
struct SwizzledTile {
  static constexpr int V = kWholePiece<T>;
  static constexpr bool kTurns = sizeof(T) == 2;
  static constexpr int kElements = ROWS * DEPTH;
  template <int LINE>
  SL_INLINE int swizzled(int line, int piece) {
    constexpr int kPieces = LINE / V;
    constexpr int kMask = (kPieces < 8 ? kPieces : 8) - 1;
    // lines that fill all banks once
    constexpr int kLinesOfBanks = kPieces < 8 ? 8 / kPieces : 1;
    return line * LINE + (piece ^ (line / kLinesOfBanks & kMask)) * V;
  }
  /// Offset of the piece that has element (row, at), in elements.
  SL_INLINE int offset(bool alongDepth, int row, int at) {
    if (alongDepth) {
      return swizzled<DEPTH>(row, at / V);
    }
    // lines of 128 bytes at most, so that both kinds of tensor cores' instructions read them
    constexpr int kLineRows = ROWS < 64 ? ROWS : 64;
    return row / kLineRows * kLineRows * DEPTH + swizzled<kLineRows>(at, row % kLineRows / V);
  }
  /// Loads the tile into shared memory: pieces by asynchronous copies of the caller's next group;
  /// what cannot be copied in pieces is written before the function returns.
  template <int THREADS, class S>
  SL_INLINE void fetch(T* tile, const S& source, int64_t from) {
    constexpr int kPieces = (kElements / V + THREADS - 1) / THREADS;
    SL_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const int number = int(threadIdx.x) + i * THREADS;
      if (kElements / V % THREADS != 0 && number >= kElements / V) {
        break;
      }
      const int row = source.alongDepth ? number / (DEPTH / V) : number % (ROWS / V) * V;
      const int at = source.alongDepth ? number % (DEPTH / V) * V : number / (ROWS / V);
      if (!kTurns && !source.alongDepth) {
        T piece[V];
        source.template load<V>(piece, row, from + at);
        SL_UNROLL
        for (int j = 0; j < V; ++j) {
          tile[offset(true, row + j, at) + at % V] = piece[j];
        }
        continue;
      }
      T* to = tile + offset(source.alongDepth, row, at);
      if (source.inPieces) {
        const bool exists = source.exists(row, from + at);
        tensor_core::copyLater(to, exists ? source.address(row, from + at) : source.p, exists);
      } else {
        Piece<T, V> piece;
        source.template load<V>(piece.at, row, from + at);
        *reinterpret_cast<Piece<T, V>*>(to) = piece;
      }
    }
  }
};

/// Loads a warp's fragments of A (rows from `down` on) and of B (columns from `across` on) for the
/// elements of the reduction from k on.
template <class TileA, class TileB, class T, class A, class B, int M, int N>
SL_INLINE void loadFragments(const T* tileA, const T* tileB, const A& a, const B& b, int down,
                             int across, int k, uint32_t (&x)[M][4], uint32_t (&y)[N][2]) {
  constexpr int V = kWholePiece<T>;
  const int part = int(threadIdx.x) % 32 / 8;
  const int other = int(threadIdx.x) % 32 % 8;
  SL_UNROLL
  for (int i = 0; i < M; ++i) {
    // 8 x 8 parts: the two halves of the rows, then of the reduction.
    const int row = down + i * 16;
    if (a.alongDepth || !TileA::kTurns) {
      tensor_core::loadParts<false>(
          x[i], tileA + TileA::offset(true, row + part % 2 * 8 + other, k + part / 2 * V));
    } else {
      tensor_core::loadParts<true>(
          x[i], tileA + TileA::offset(false, row + part % 2 * 8, k + part / 2 * 8 + other));
    }
  }
  SL_UNROLL
  for (int j = 0; j < N; j += 2) {
    // The two halves of the reduction, then of 16 columns.
    const int column = across + j * 8;
    uint32_t both[4];
    if (b.alongDepth || !TileB::kTurns) {
      tensor_core::loadParts<false>(
          both, tileB + TileB::offset(true, column + part / 2 * 8 + other, k + part % 2 * V));
    } else {
      tensor_core::loadParts<true>(
          both, tileB + TileB::offset(false, column + part / 2 * 8, k + part % 2 * 8 + other));
    }
    y[j][0] = both[0];
    y[j][1] = both[1];
    y[j + 1][0] = both[2];
    y[j + 1][1] = both[3];
  }
  if constexpr (sizeof(T) == 4) {
    tensor_core::roundFactors(x);
    tensor_core::roundFactors(y);
  }
}

/// Finishes a warp's results; where blocks share a reduction, writes the sums to `together`
/// instead. What many results read is loaded before the first of them is finished: all, or what 16
/// rows read where that needs too many registers.
template <MatmulTune Tune, class Item, class Epilogue, class Ops, int M, int N>
SL_INLINE void finishWarp(const Item& item, const Epilogue& epilogue, const Ops& ops,
                          float* together, float (&sums)[M][N][4], int down, int across) {
  using Run = EpilogueRun<2, Ops>;
  constexpr bool kAll = M * N * 2 * int(sizeof(Run)) <= 64 * 4;
  constexpr int kAtOnce = kAll ? M : 1;
  const int lane = int(threadIdx.x) % 32;
  const auto row = [&](int i, int half) { return down + i * 16 + half * 8 + lane / 4; };
  const auto column = [&](int j) { return across + j * 8 + lane % 4 * 2; };
  SL_UNROLL
  for (int first = 0; first < M; first += kAtOnce) {
    Run runs[kAtOnce][N][2];
    SL_UNROLL
    for (int number = 0; number < (Tune.splits > 1 ? 0 : kAtOnce * N * 2); ++number) {
      const int i = number / (N * 2), j = number / 2 % N, half = number % 2;
      item.template load<2>(ops, runs[i][j][half], row(first + i, half), column(j));
    }
    SL_UNROLL
    for (int number = 0; number < kAtOnce * N * 2; ++number) {
      const int i = number / (N * 2), j = number / 2 % N, half = number % 2;
      const int r = row(first + i, half), c = column(j);
      const float* two = &sums[first + i][j][half * 2];
      if constexpr (Tune.splits > 1) {
        storeRun<2>(together + r * Tune.columns + c, 1, 2, two);
      } else {
        item.template finish<2>(epilogue, ops, runs[i][j][half], two, r, c);
      }
    }
  }
}

template <MatmulTune Tune, class T, class Item, class A, class B, class Epilogue, class Ops>
SL_INLINE void byWarps(const Item& item, const A& a, const B& b, int64_t depth,
                       const Epilogue& epilogue, const Ops& ops) {
  constexpr int kDepth = (Tune.rows + Tune.columns <= 128 ? 128 : 64) / int(sizeof(T));
  constexpr int V = kWholePiece<T>;
  constexpr int kStageBytes = (Tune.rows + Tune.columns) * kDepth * int(sizeof(T));
  constexpr int kStages = 49152 / kStageBytes < 4 ? 49152 / kStageBytes : 4;
  constexpr int kThreads = Tune.threads;
  constexpr int MR = Tune.mr, NR = Tune.nr;
  constexpr int kTilesM = MR / 16, kTilesN = NR / 8;
  constexpr int kAcross = Tune.columns / NR;
  static_assert(Tune.rows / MR * kAcross * 32 == kThreads && MR % 16 == 0 && NR % 16 == 0);
  using TileA = SwizzledTile<T, Tune.rows, kDepth>;
  using TileB = SwizzledTile<T, Tune.columns, kDepth>;
  constexpr int kSumBytes = Tune.splits > 1 ? Tune.rows * Tune.columns * int(sizeof(float)) : 0;
  __shared__ alignas(
      16) char memory[kStages * kStageBytes > kSumBytes ? kStages * kStageBytes : kSumBytes];
  auto tileA = reinterpret_cast<T(*)[TileA::kElements]>(memory);
  auto tileB =
      reinterpret_cast<T(*)[TileB::kElements]>(memory + kStages * TileA::kElements * sizeof(T));
  const Part<kDepth, Tune.splits> part(depth);
  const int warp = int(threadIdx.x) / 32;
  const int down = warp / kAcross * MR;
  const int across = warp % kAcross * NR;
  const int64_t steps = (part.last - part.first) / kDepth;
  float sums[kTilesM][kTilesN][4] = {};
  SL_UNROLL
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < steps) {
      TileA::template fetch<kThreads>(tileA[stage], a, part.first + stage * kDepth);
      TileB::template fetch<kThreads>(tileB[stage], b, part.first + stage * kDepth);
    }
    tensor_core::closeGroup();
  }
  int now = 0;
  SL_NO_UNROLL
  for (int64_t step = 0; step < steps; ++step) {
    tensor_core::waitForGroups<kStages - 2>();
    __syncthreads();
    const int64_t ahead = step + kStages - 1;
    const int later = now == 0 ? kStages - 1 : now - 1;
    if (ahead < steps) {
      TileA::template fetch<kThreads>(tileA[later], a, part.first + ahead * kDepth);
      TileB::template fetch<kThreads>(tileB[later], b, part.first + ahead * kDepth);
    }
    tensor_core::closeGroup();
    SL_UNROLL
    for (int k = 0; k < kDepth; k += 2 * V) {
      uint32_t x[kTilesM][4], y[kTilesN][2];
      loadFragments<TileA, TileB, T>(tileA[now], tileB[now], a, b, down, across, k, x, y);
      SL_UNROLL
      for (int i = 0; i < kTilesM; ++i) {
        SL_UNROLL
        for (int j = 0; j < kTilesN; ++j) {
          tensor_core::multiply<T>(sums[i][j], x[i], y[j]);
        }
      }
    }
    now = now + 1 == kStages ? 0 : now + 1;
  }
  float* together = reinterpret_cast<float*>(memory);
  if constexpr (Tune.splits > 1) {
    tensor_core::waitForGroups<0>();
    __syncthreads();
  }
  finishWarp<Tune>(item, epilogue, ops, together, sums, down, across);
  if constexpr (Tune.splits > 1) {
    finishTogether<Tune, 4>(item, epilogue, ops, together);
  }
}

/// The same tile of a block by warps that each copy and multiply, four of them for 64 rows.
constexpr MatmulTune withoutWarpgroups(MatmulTune tune) {
  tune.mr = tune.rows / 2;
  tune.nr = tune.columns / (tune.rows / 32);
  tune.threads = tune.rows * 2;
  tune.splits = 1;
  tune.stages = 0;
  return tune;
}

}  // namespace matmul_detail
}  // namespace sl

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "straightline/kernels/cuda_matmul_warpgroups.h"
#endif

namespace sl {

/// C = epilogue(A * B). pointers: epilogue operands, then outputs; by warpgroups then a workspace
/// of 256 bytes for each block and 128 more.
template <MatmulTune Tune, class Epilogue, class T, class... P>
SL_INLINE void matmul(MatmulShape s, Epilogue epilogue, const T* a, const T* b, P... pointers) {
  namespace detail = matmul_detail;
  const detail::Item<T, T> item(s, a, b, Tune);
  const detail::Source<T> rows(item.a, s.aRow, s.aCol, s.m - item.row, s.k);
  const detail::Source<T> columns(item.b, s.bCol, s.bRow, s.n - item.column, s.k);
  if constexpr (Tune.stages > 0) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    withWorkspace(
        [&](const auto& ops, char* maps) {
          detail::byWarpgroups<Tune, T>(item, rows, columns, s.k, epilogue, ops, maps);
        },
        pointers...);
#else
    // PTX for later devices: the last warp, and all blocks of a cluster but the first, have nothing
    // to do.
    constexpr MatmulTune kOther = detail::withoutWarpgroups(Tune);
    awaitPrevious();
    if (int(threadIdx.x) >= kOther.threads || int(blockIdx.x) % Tune.splits != 0) {
      return;
    }
    withWorkspace(
        [&](const auto& ops, char*) {
          detail::byWarps<kOther, T>(item, rows, columns, s.k, epilogue, ops);
        },
        pointers...);
#endif
  } else if constexpr (detail::kByWarps<Tune>) {
    detail::byWarps<Tune, T>(item, rows, columns, s.k, epilogue, epilogueOperands(pointers...));
  } else {
    detail::byThreads<Tune, T>(item, rows, columns, s.k, epilogue, epilogueOperands(pointers...));
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_MATMUL_H
