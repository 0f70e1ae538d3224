// SPDX-License-Identifier: Apache-2.0
// Family `winograd`: 3x3 convolution with stride 1, padding 1, dilation 1, groups 1 over NHWC, as
// F(m x m, 3 x 3) for m = 2 or 4. Per chunk of `tiles` tiles: input transform into V[xi][tile][c],
// (m + 2)^2 small GEMMs into M[xi][tile][kb], output transform with the epilogue fused. c is a
// multiple of the vector, k of kb, kb of nr.
//
// Modes. kTile: threads split the tiles; no barrier inside. kOutputs: threads split the output
// channels, each reading its part of the weights only; V is shared, so this mode USES
// sl_barrier(team) and must be called by the whole team.
//
// Cost: multiplications / 2.25 (m = 2) or / 4 (m = 4); transforms are about 10%; weights grow 1.8x
// (m = 2) or 4x (m = 4), which decides at small images: 512 channels at 7x7, batch 1 is faster with
// m = 2. Against direct: 1.9-2.3x (m = 2), 2.7-3.6x (m = 4). Use kOutputs when weights, not pixels,
// dominate (>= 256 channels at 14x14 and below, batch 1).
//
// Borders: the input needs none. `border` says how many zero elements the buffer has around the
// image (top, bottom, left, right); tiles that need more are copied to a zero-filled patch first,
// the others read the buffer directly.
#ifndef STRAIGHTLINE_KERNELS_WINOGRAD_H
#define STRAIGHTLINE_KERNELS_WINOGRAD_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/micro_kernel.h"
#include "straightline/kernels/winograd_points.h"

namespace sl {

/// m: 2 or 4. tiles: tiles per chunk (V and M of a chunk should fit L2). kb: output channels per
/// pass over V, as packed. mr, nr: register tile. mode: 0 = kTile, 1 = kOutputs. prefetch: lines of
/// the next weight panel per 4 channels, prefetchStreams: as for gemm.
struct WinogradTune {
  int m = 4;
  int tiles = 24;
  int kb = 64;
  int mr = 6;
  int nr = 16;
  int mode = 0;
  int prefetch = 1;
  int prefetchStreams = 1;
};
inline constexpr int kWinogradTile = 0;
inline constexpr int kWinogradOutputs = 1;

/// Input [n][h][w][c], output [n][h][w][k], epilogue operands [n][h][w][k]; element strides of n,
/// h, w; channels contiguous.
struct WinogradShape {
  int64_t n = 0, h = 0, w = 0, c = 0, k = 0;
  int64_t inStride[3] = {}, outStride[3] = {};
  int64_t border[4] = {};
  int64_t epilogueStride[kMaxEpilogueOperands][4] = {};
};

/// Elements of one transformed chunk, one per xi. The 16 extra keep power-of-two strides from
/// aliasing in the cache.
struct WinogradPlan {
  int64_t points, rows, vStride, mStride, patch;

  constexpr WinogradPlan(int64_t c, WinogradTune t)
      : points((t.m + 2) * (t.m + 2)),
        rows(t.tiles + t.mr),  // a ragged chunk runs whole row blocks
        vStride(rows * c + 16),
        mStride(rows * t.kb + 16),
        patch(points * c) {}
  constexpr int64_t perThread(int mode) const {
    return points * (mStride + (mode == kWinogradTile ? vStride : 0)) + patch;
  }
  constexpr int64_t shared(int mode) const {
    return mode == kWinogradOutputs ? points * vStride : 0;
  }
};

/// Bytes of workspace (float).
constexpr int64_t winogradWorkspace(int64_t c, WinogradTune tune, int64_t threads) {
  const WinogradPlan plan(c, tune);
  return (plan.shared(tune.mode) + threads * ((plan.perThread(tune.mode) + 31) / 32 * 32)) *
         int64_t(sizeof(float));
}

/// V[xi] of one tile for channels [c0, c1): v[xi * vStride + c] = (B^T d B)[xi]; d[i][j] = in[i *
/// rowStride + j * colStride + c].
template <int M, int N, class T>
SL_INLINE void winogradInput(const T* in, int64_t rowStride, int64_t colStride, int64_t c0,
                             int64_t c1, T* v, int64_t vStride) {
  constexpr int n = M + 2;
  SL_NO_UNROLL
  for (int64_t c = c0; c < c1; c += N) {
    vec<T, N> t[n][n];
    SL_UNROLL
    for (int j = 0; j < n; ++j) {
      vec<T, N> d[n], o[n];
      SL_UNROLL
      for (int i = 0; i < n; ++i) {
        d[i] = load<N>(in + i * rowStride + j * colStride + c);
      }
      WinogradPoints<M>::input(d, o);
      SL_UNROLL
      for (int i = 0; i < n; ++i) {
        t[i][j] = o[i];
      }
    }
    SL_UNROLL
    for (int i = 0; i < n; ++i) {
      vec<T, N> o[n];
      WinogradPoints<M>::input(t[i], o);
      SL_UNROLL
      for (int j = 0; j < n; ++j) {
        store(v + (i * n + j) * vStride + c, o[j]);
      }
    }
  }
}

/// One m x m tile of outputs: row0, column0 of its first pixel; rows x columns of it are inside the
/// image.
struct WinogradTile {
  int64_t image, y, x, rows, columns;
};

template <int M>
SL_INLINE WinogradTile winogradTile(const WinogradShape& s, int64_t tile) {
  const int64_t across = ceilDiv(s.w, M);
  const int64_t down = ceilDiv(s.h, M);
  const int64_t y = tile / across % down * M;
  const int64_t x = tile % across * M;
  return {tile / across / down, y, x, minOf(M, s.h - y), minOf(M, s.w - x)};
}

/// Transforms one tile, through a zero-filled patch [M + 2][M + 2][c] where the buffer has no zeros
/// to read.
template <int M, int N, class T>
SL_INLINE void winogradInputTile(const WinogradShape& s, const T* in, int64_t tile, int64_t c0,
                                 int64_t c1, T* v, int64_t vStride, T* patch) {
  constexpr int n = M + 2;
  const WinogradTile at = winogradTile<M>(s, tile);
  const T* from =
      in + at.image * s.inStride[0] + (at.y - 1) * s.inStride[1] + (at.x - 1) * s.inStride[2];
  int64_t rowStride = s.inStride[1];
  int64_t colStride = s.inStride[2];
  const bool readable = at.y - 1 >= -s.border[0] && at.y + M < s.h + s.border[1] &&
                        at.x - 1 >= -s.border[2] && at.x + M < s.w + s.border[3];
  if (!readable) {
    SL_NO_UNROLL
    for (int i = 0; i < n; ++i) {
      SL_NO_UNROLL
      for (int j = 0; j < n; ++j) {
        const int64_t y = at.y - 1 + i;
        const int64_t x = at.x - 1 + j;
        const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
        const T* pixel = from + i * rowStride + j * colStride;
        SL_NO_UNROLL
        for (int64_t c = c0; c < c1; c += N) {
          store(patch + (i * n + j) * s.c + c, inside ? load<N>(pixel + c) : vec<T, N>{});
        }
      }
    }
    from = patch;
    rowStride = n * s.c;
    colStride = s.c;
  }
  winogradInput<M, N>(from, rowStride, colStride, c0, c1, v, vStride);
}

/// Output transform and epilogue of one tile for the kb channels from `channel` on.
template <WinogradTune Tune, int N, class T, class Epilogue, class Ops>
SL_INLINE void winogradOutputTile(const WinogradShape& s, int64_t tile, int64_t channel, const T* m,
                                  int64_t mStride, const int64_t* steps, const Epilogue& epilogue,
                                  const Ops& ops) {
  constexpr int M = Tune.m;
  constexpr int n = M + 2;
  const WinogradTile at = winogradTile<M>(s, tile);
  SL_NO_UNROLL
  for (int64_t k = 0; k < Tune.kb; k += N) {
    vec<T, N> t[M][n];
    vec<T, N> y[M][M];
    SL_UNROLL
    for (int j = 0; j < n; ++j) {
      vec<T, N> d[n], o[M];
      SL_UNROLL
      for (int i = 0; i < n; ++i) {
        d[i] = load<N>(m + (i * n + j) * mStride + k);
      }
      WinogradPoints<M>::output(d, o);
      SL_UNROLL
      for (int i = 0; i < M; ++i) {
        t[i][j] = o[i];
      }
    }
    SL_UNROLL
    for (int i = 0; i < M; ++i) {
      WinogradPoints<M>::output(t[i], y[i]);
    }
    SL_NO_UNROLL
    for (int64_t i = 0; i < at.rows; ++i) {
      RowOffsets offsets;
      offsets.output =
          at.image * s.outStride[0] + (at.y + i) * s.outStride[1] + at.x * s.outStride[2];
      SL_UNROLL
      for (int q = 0; q < Ops::kInputs; ++q) {
        offsets.operand[q] = at.image * s.epilogueStride[q][0] +
                             (at.y + i) * s.epilogueStride[q][1] + at.x * s.epilogueStride[q][2];
      }
      SL_NO_UNROLL
      for (int64_t j = 0; j < at.columns; ++j) {
        finish<N>(epilogue, ops, y[i][j], offsets, steps, channel + k, 1, N);
        offsets.output += s.outStride[2];
        SL_UNROLL
        for (int q = 0; q < Ops::kInputs; ++q) {
          offsets.operand[q] += s.epilogueStride[q][2];
        }
      }
    }
  }
}

/// m[xi][row][kb] = v[xi][row][c] * u[xi][kb / nr][c][nr] for `count` tiles, in row blocks of the
/// two sizes that a full chunk has; of another chunk the rest is rounded up to a third, two thirds
/// or the whole of a block. Such a chunk may run `mr` - 1 rows more than it has.
template <WinogradTune Tune, class T>
SL_INLINE void winogradMultiply(const WinogradPlan& plan, int64_t c, int64_t count, const T* v,
                                const T* u, T* m) {
  constexpr int N = panelLanes<T>(Tune.nr);
  constexpr int NV = Tune.nr / N;
  constexpr int kBlocks = (Tune.tiles + Tune.mr - 1) / Tune.mr;
  constexpr int kHigh = (Tune.tiles + kBlocks - 1) / kBlocks;
  constexpr int kBig = Tune.tiles - kBlocks * (kHigh - 1);
  // Where a panel's lines are divided by the blocks of a full chunk, another one divides them by
  // its own, which are as high as can be: 8 tiles of 512 channels in a kernel for 36 took 1.35
  // times as long with a third of the lines, 12 tiles of 256 in one for 16 1.25 times in two
  // blocks.
  constexpr bool kIsByBlocks = Tune.prefetch > 1 && Tune.prefetch == Tune.prefetchStreams;
  constexpr int kTall = kIsByBlocks ? Tune.mr : kHigh;
  constexpr int kThird = (kTall + 2) / 3;
  const bool full = count == Tune.tiles;
  const int64_t rest = full ? 0 : count % kTall;  // beyond the blocks of kTall
  const int64_t blocks = full ? kBlocks : count / kTall + (rest > 2 * kThird ? 1 : 0);
  const int64_t big = full ? kBig : blocks;
  const int64_t ragged = blocks + (rest > 0 && rest <= 2 * kThird ? 1 : 0);
  const int64_t lines = ceilDiv(panelLines<T>(Tune.nr), maxOf(ragged, 1));
  SL_NO_UNROLL
  for (int64_t xi = 0; xi < plan.points; ++xi) {
    SL_NO_UNROLL
    for (int64_t k = 0; k < Tune.kb; k += Tune.nr) {
      const T* a = v + xi * plan.vStride;
      T* to = m + xi * plan.mStride + k;
      int64_t done = 0;  // row blocks
      const auto rowBlock = [&](auto rows, auto isByBlocks) SL_INLINE_LAMBDA {
        constexpr int MR = decltype(rows)::value;
        constexpr bool kRagged = decltype(isByBlocks)::value != 0;
        constexpr int kPrefetch = kRagged ? kByBlocks : Tune.prefetch;
        constexpr int kStreams = kRagged ? 1 : Tune.prefetchStreams;
        Tile<T, N, MR, NV> tile;
        Rows<T, MR> row;
        SL_UNROLL
        for (int i = 0; i < MR; ++i) {
          row.p[i] = a + i * c;
        }
        tile.clear();
        const T* panel = u;
        Ahead ahead = aheadOf<kPrefetch, kStreams>(u, c * Tune.nr * int64_t(sizeof(T)), c, done++,
                                                   false, lines);
        multiply<kPrefetch, kStreams>(tile, row, 1, panel, Tune.nr, c, ahead);
        tile.storeTo(to, Tune.kb);
        a += MR * c;
        to += MR * Tune.kb;
      };
      if (kIsByBlocks && !full) {
        SL_NO_UNROLL
        for (int64_t block = 0; block < blocks; ++block) {
          rowBlock(Index<kTall>{}, Index<kIsByBlocks>{});
        }
      } else {
        SL_NO_UNROLL
        for (int64_t block = 0; block < big; ++block) {
          rowBlock(Index<kHigh>{}, Index<0>{});
        }
        if constexpr (kBig < kBlocks) {
          SL_NO_UNROLL
          for (int64_t block = big; block < blocks; ++block) {
            rowBlock(Index<kHigh - 1>{}, Index<0>{});
          }
        }
      }
      if (rest > kThird && rest <= 2 * kThird) {
        rowBlock(Index<minOf(2 * kThird, kTall)>{}, Index<kIsByBlocks>{});
      } else if (rest > 0 && rest <= kThird) {
        rowBlock(Index<kThird>{}, Index<kIsByBlocks>{});
      }
      u += c * Tune.nr;
    }
  }
}

template <WinogradTune Tune, class Epilogue, class T, class Ops>
SL_INLINE void winogradWith(sl_team team, const WinogradShape& s, const Epilogue& epilogue,
                            const T* in, const T* weight, const Ops& ops, char* workspace) {
  constexpr int N = panelLanes<T>(Tune.nr);
  static_assert(Tune.m == 2 || Tune.m == 4);
  static_assert(Tune.kb % Tune.nr == 0);
  const WinogradPlan plan(s.c, Tune);
  T* base = reinterpret_cast<T*>(workspace);
  T* own =
      base + plan.shared(Tune.mode) + team.index * ((plan.perThread(Tune.mode) + 31) / 32 * 32);
  T* m = own;
  T* patch = own + plan.points * plan.mStride;
  T* v = Tune.mode == kWinogradTile ? patch + plan.patch : base;
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][3], s.epilogueStride[1][3],
                                               s.epilogueStride[2][3], s.epilogueStride[3][3]};
  const int64_t tiles = s.n * ceilDiv(s.h, Tune.m) * ceilDiv(s.w, Tune.m);
  Range chunk{0, tiles};
  Range outputs{0, s.k / Tune.kb};
  Range channels{0, s.c};
  if constexpr (Tune.mode == kWinogradTile) {
    chunk = split(tiles, team, 1);
  } else {
    outputs = split(s.k / Tune.kb, team, 1);
    channels = split(s.c, team, N);
  }
  // Chunks of equal size: one tile left over is a pass over all weights.
  const int64_t chunks = ceilDiv(chunk.end - chunk.begin, Tune.tiles);
  const int64_t each = chunks > 0 ? ceilDiv(chunk.end - chunk.begin, chunks) : 1;
  SL_NO_UNROLL
  for (int64_t first = chunk.begin; first < chunk.end; first += each) {
    const int64_t count = minOf(each, chunk.end - first);
    if (Tune.mode == kWinogradOutputs && first != chunk.begin) {
      sl_barrier(team);  // V is still being read
    }
    SL_NO_UNROLL
    for (int64_t t = 0; t < count; ++t) {
      winogradInputTile<Tune.m, N>(s, in, first + t, channels.begin, channels.end, v + t * s.c,
                                   plan.vStride, patch);
    }
    if constexpr (Tune.mode == kWinogradOutputs) {
      sl_barrier(team);
    }
    SL_NO_UNROLL
    for (int64_t kb = outputs.begin; kb < outputs.end; ++kb) {
      winogradMultiply<Tune>(plan, s.c, count, v, weight + kb * (plan.points * s.c * Tune.kb), m);
      SL_NO_UNROLL
      for (int64_t t = 0; t < count; ++t) {
        winogradOutputTile<Tune, N>(s, first + t, kb * Tune.kb, m + t * Tune.kb, plan.mStride,
                                    steps, epilogue, ops);
      }
    }
  }
}

/// in NHWC, weight packed by pack_winograd; pointers: epilogue operands, outputs, `char* workspace`
/// (64-byte aligned).
template <WinogradTune Tune, class Epilogue, class T, class... P>
SL_INLINE void winograd(sl_ctx*, sl_team team, WinogradShape s, Epilogue epilogue, const T* in,
                        const T* weight, P... pointers) {
  withWorkspace(
      [&](const auto& ops, char* workspace)
          SL_INLINE_LAMBDA { winogradWith<Tune>(team, s, epilogue, in, weight, ops, workspace); },
      pointers...);
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_WINOGRAD_H
