// SPDX-License-Identifier: Apache-2.0
// Family `attention`: scaled dot-product attention, out = softmax(scale * q k^T + mask) v, with an
// online softmax over blocks of keys, so scores exist for one block only. q, out [B,H,S,D]; k, v
// [B,Hk,T,D], H a multiple of Hk; D is contiguous in all. As in torch: a bool mask keeps a key
// where it is true; a causal mask keeps key t for query s when t <= s; a row that keeps no key
// gives 0; NaN or +inf in a kept score gives NaN. Keys and values may each be in two buffers, the
// second of which continues the first (a cache, and the new tokens).
//
// Cost: 4*b*h*s*t*d flops at 60-80% of peak, plus an exponential per score and a transposing copy
// of K (and of V when d is no multiple of nr) per unit of work. Units are `rows` queries of one
// head, split over the threads. A unit of `few` queries or less copies nothing: its scores are dot
// products with the keys where they lie, which cost log2(lanes) more additions a score.
#ifndef STRAIGHTLINE_KERNELS_ATTENTION_H
#define STRAIGHTLINE_KERNELS_ATTENTION_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/scalar.h"

namespace sl {

/// mr x nr: register tile. rows: queries per unit (a multiple of mr). keys: keys per block (a
/// multiple of nr). few: units of up to so many queries copy no keys. mask: 0 none, 1 the pointer
/// after v is a mask (bool: keep; floating: added). causal: 0 or 1. parts: 2 when pointers to the
/// second part of k and of v follow v. nan: 1 when a query whose mask keeps no key gets NaN, not
/// zeros.
struct AttentionTune {
  int mr = 6;
  int nr = 16;
  int rows = 48;
  int keys = 64;
  int few = 0;  ///< CPU only
  int mask = 0;
  int causal = 0;
  int parts = 1;
  int nan = 0;
  int depth = 0;    ///< CUDA only: d, rounded up to whole pieces of 16 bytes
  int threads = 0;  ///< CUDA only: of a block
  /// CUDA only: keys that lanes hold at once in registers; 0: tiles of keys in shared memory
  int held = 0;
  /// CUDA only: 1: no kernel of the run writes k or v (where they have two parts, the first of
  /// them)
  int early = 0;
  /// CUDA only: warps that share the keys of 16 rows, by tensor cores; 0: no tensor cores
  int warps = 0;
  /// CUDA only: blocks of a cluster that share the keys; more than 1 from sm_90 on
  int splits = 1;
};

/// Strides of b, h, s (or t) in elements; maskStride of b, h, s, t (innermost 0 or 1); epilogue
/// operands [b][h][s][d]. scale 0 means 1 / sqrt(d). maskImages: images of the mask, which those of
/// q have by turns; 0: each has its own, or the stride is 0. split: keys in the first part, where
/// there are two.
struct AttentionShape {
  int64_t b = 0, h = 0, hk = 0, s = 0, t = 0, d = 0;
  double scale = 0;
  int64_t qStride[3] = {}, kStride[3] = {}, vStride[3] = {};
  int64_t outStride[3] = {}, maskStride[4] = {}, maskImages = 0;
  int64_t split = 0, k2Stride[3] = {}, v2Stride[3] = {};
  int64_t epilogueStride[kMaxEpilogueOperands][4] = {};
};

/// Where the mask of a query begins.
SL_INLINE int64_t maskOffset(const AttentionShape& s, int64_t image, int64_t head, int64_t query) {
  return (s.maskImages != 0 ? image % s.maskImages : image) * s.maskStride[0] +
         head * s.maskStride[1] + query * s.maskStride[2];
}

/// What a query gets whose mask keeps none of `keys` keys; of no keys at all the sum is zero.
template <AttentionTune Tune, class T>
SL_INLINE T resultOfNoKeys(int64_t keys) {
  return Tune.nan != 0 && keys != 0 ? T(__builtin_nanf("")) : T(0);
}

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_attention.h"
#else
#include "straightline/kernels/gemv.h"
#include "straightline/kernels/matmul.h"

namespace sl {

/// Elements of one thread's workspace.
struct AttentionPlan {
  int64_t depth, keys, values, scores, result, statistics;

  constexpr AttentionPlan(int64_t d, AttentionTune t)
      : depth((d + t.nr - 1) / t.nr * t.nr),
        keys(t.rows <= t.few ? 0 : t.keys * d),
        values(t.rows <= t.few || d % t.nr == 0 ? 0 : t.keys * depth),
        scores(int64_t(t.rows) * t.keys),
        result(t.rows * depth),
        statistics((2 * t.rows + 31) / 32 * 32) {}
  constexpr int64_t total() const {
    return (keys + values + scores + result + statistics + 31) / 32 * 32;
  }
};

/// Bytes of workspace (float).
constexpr int64_t attentionWorkspace(int64_t d, AttentionTune tune, int64_t threads) {
  return threads * AttentionPlan(d, tune).total() * int64_t(sizeof(float));
}

/// c[rows][columns] (+)= a[rows][depth] * panels of nr columns; panel p at b + p * panelStride, its
/// row k bStride further. Rows from `valid` on repeat the last valid one of a (their results are
/// not used). rows, columns: multiples of the tile.
template <int MR, int NR, class T>
SL_INLINE void multiplyBlock(const T* a, int64_t aRow, int64_t valid, int64_t rows, const T* b,
                             int64_t panelStride, int64_t bStride, int64_t depth, T* c,
                             int64_t cRow, int64_t columns, bool accumulate) {
  constexpr int N = panelLanes<T>(NR);
  SL_NO_UNROLL
  for (int64_t p = 0; p < columns / NR; ++p) {
    SL_NO_UNROLL
    for (int64_t r = 0; r < rows; r += MR) {
      Tile<T, N, MR, NR / N> tile;
      Rows<T, MR> row;
      SL_UNROLL
      for (int i = 0; i < MR; ++i) {
        row.p[i] = a + minOf(r + i, valid - 1) * aRow;
      }
      T* to = c + r * cRow + p * NR;
      if (accumulate) {
        tile.loadFrom(to, cRow);
      } else {
        tile.clear();
      }
      const T* panel = b + p * panelStride;
      Ahead none;
      multiply<0, 1>(tile, row, 1, panel, bStride, depth, none);
      tile.storeTo(to, cRow);
    }
  }
}

/// The sums of N vectors' lanes: lane r is that of rows[r]. Each round adds the two halves of the
/// lanes that belong to one row, which is half as many additions and vectors as the one before.
template <int N, class T>
SL_INLINE vec<T, N> sumsOfRows(vec<T, N> (&rows)[N]) {
  SL_UNROLL
  for (int left = N / 2; left > 0; left /= 2) {
    SL_UNROLL
    for (int r = 0; r < left; ++r) {
      rows[r] = interleave<false>(rows[r], rows[r + left], IntsUpTo<N>{}) +
                interleave<true>(rows[r], rows[r + left], IntsUpTo<N>{});
    }
  }
  return rows[0];
}

/// scores[i][j] = row i of q * row j of k, which are read where they lie. What lies in the last
/// whole vector beyond `count` may be anything.
template <int N, class T>
SL_INLINE void scoresOfFew(const T* q, int64_t qRow, int64_t rows, const T* k, int64_t kRow,
                           int64_t count, int64_t d, T* scores, int64_t scoresRow) {
  if (count < N) {
    SL_NO_UNROLL
    for (int64_t i = 0; i < rows; ++i) {
      T sums[N] = {};
      SL_NO_UNROLL
      for (int64_t j = 0; j < count; ++j) {
        dotRows<1, 1, N>(q + i * qRow, 0, k + j * kRow, kRow, d, 1, sums + j);
      }
      store(scores + i * scoresRow, load<N>(sums));
    }
    return;
  }
  SL_NO_UNROLL
  for (int64_t begin = 0; begin < count; begin += N) {
    const int64_t j = minOf(begin, count - N);  // the last ones again, where they fill no vector
    const T* key = k + j * kRow;
    SL_NO_UNROLL
    for (int64_t i = 0; i < rows; ++i) {
      const T* query = q + i * qRow;
      vec<T, N> sums[N] = {};
      int64_t c = 0;
      SL_NO_UNROLL
      for (; c + N <= d; c += N) {
        const vec<T, N> x = load<N>(query + c);
        SL_UNROLL
        for (int r = 0; r < N; ++r) {
          sums[r] = fma(load<N>(key + r * kRow + c), x, sums[r]);
        }
      }
      if (c < d) {
        const LastLanes<T, N> last(c, d);
        const vec<T, N> x = last.of(query);
        SL_UNROLL
        for (int r = 0; r < N; ++r) {
          sums[r] = fma(last.of(key + r * kRow), x, sums[r]);
        }
      }
      store(scores + i * scoresRow + j, sumsOfRows<N, T>(sums));
    }
  }
}

/// result[i][0, NV * N) += the sum of weights[i][j] * v[j], for Q queries; `last`: elements of the
/// last vector. U keys at a time have sums of their own: one set would wait for the multiply-add.
template <int Q, int NV, int U, int N, class T>
SL_INLINE void addValues(const T* weights, int64_t weightsRow, const T* v, int64_t vRow,
                         int64_t count, int last, T* result, int64_t resultRow) {
  vec<T, N> sums[U][Q][NV] = {};
  const auto add = [&](int64_t j, int u) SL_INLINE_LAMBDA {
    SL_UNROLL
    for (int n = 0; n < NV; ++n) {
      const T* at = v + j * vRow + n * N;
      const vec<T, N> value = n == NV - 1 ? loadLanes<N>(at, 1, last) : load<N>(at);
      SL_UNROLL
      for (int i = 0; i < Q; ++i) {
        sums[u][i][n] = fma(value, splat<vec<T, N> >(weights[i * weightsRow + j]), sums[u][i][n]);
      }
    }
  };
  int64_t j = 0;
  SL_NO_UNROLL
  for (; j + U <= count; j += U) {
    SL_UNROLL
    for (int u = 0; u < U; ++u) {
      add(j + u, u);
    }
  }
  SL_NO_UNROLL
  for (; j < count; ++j) {
    add(j, 0);
  }
  SL_UNROLL
  for (int i = 0; i < Q; ++i) {
    SL_UNROLL
    for (int n = 0; n < NV; ++n) {
      T* to = result + i * resultRow + n * N;
      const vec<T, N> sum = U == 2 ? sums[0][i][n] + sums[U - 1][i][n] : sums[0][i][n];
      store(to, load<N>(to) + sum);
    }
  }
}

/// The same of all `d` elements, in pieces of four vectors and smaller ones.
template <int Q, int U, int N, class T>
SL_INLINE void addValuesOfQueries(const T* weights, int64_t weightsRow, const T* v, int64_t vRow,
                                  int64_t count, int64_t d, T* result, int64_t resultRow) {
  int64_t c = 0;
  SL_NO_UNROLL
  for (; c + 4 * N <= d; c += 4 * N) {
    addValues<Q, 4, U, N>(weights, weightsRow, v + c, vRow, count, N, result + c, resultRow);
  }
  SL_NO_UNROLL
  for (; c + 2 * N <= d; c += 2 * N) {
    addValues<Q, 2, U, N>(weights, weightsRow, v + c, vRow, count, N, result + c, resultRow);
  }
  SL_NO_UNROLL
  for (; c < d; c += N) {
    addValues<Q, 1, U, N>(weights, weightsRow, v + c, vRow, count, int(minOf(N, d - c)), result + c,
                          resultRow);
  }
}

template <int N, class T>
SL_INLINE void addValuesOfFew(const T* weights, int64_t weightsRow, int64_t rows, const T* v,
                              int64_t vRow, int64_t count, int64_t d, T* result,
                              int64_t resultRow) {
  int64_t i = 0;
  SL_NO_UNROLL
  for (; i + 2 <= rows; i += 2) {
    addValuesOfQueries<2, 1, N>(weights + i * weightsRow, weightsRow, v, vRow, count, d,
                                result + i * resultRow, resultRow);
  }
  if (i < rows) {
    addValuesOfQueries<1, 2, N>(weights + i * weightsRow, weightsRow, v, vRow, count, d,
                                result + i * resultRow, resultRow);
  }
}

/// Keys and values of one head (or of all, at the start), one after another.
template <class T>
struct AttentionPart {
  const T* k;
  const T* v;
};

/// What a unit works on: queries [s0, s0 + rows) of one head.
template <class T>
struct AttentionUnit {
  const T* q;
  int64_t image, head, s0, rows;
};

/// A block of keys, of one part.
template <class T>
struct AttentionBlock {
  const T* k;
  const T* v;
  int64_t kRow, vRow;  ///< from one key to the next
  int64_t key, count;  ///< the first one's number in the whole
};

/// Turns one row of scores [0, count) into weights exp(score - max), updates the row's running
/// maximum and sum, and returns the factor for what was accumulated before. Whole vectors: what
/// lies in the last one beyond `count` is 0 then. A block may have far fewer keys than there is
/// room for, as the last one of a named number has.
template <int N, class T, class MaskAt>
SL_INLINE T softmaxBlock(T* scores, int64_t count, T scale, T& highest, T& sum,
                         const MaskAt& mask) {
  using V = vec<T, N>;
  const V lowest = splat<V>(T(-__builtin_inff()));
  V top = lowest;
  SL_NO_UNROLL
  for (int64_t j = 0; j < count; j += N) {
    V x = mask(load<N>(scores + j) * splat<V>(scale), j, minOf(N, count - j));
    if (count - j < N) {  // lanes at or beyond `count` have no key
      x = firstLanes(x, count - j, lowest);
    }
    store(scores + j, x);
    top = x > top ? x : top;
  }
  const T blockTop = horizontalMax(top);
  const T newTop = blockTop > highest ? blockTop : highest;
  const T shift = newTop == T(-__builtin_inff()) ? T(0) : newTop;
  V total{};
  SL_NO_UNROLL
  for (int64_t j = 0; j < count; j += N) {
    const V weight = exp(load<N>(scores + j) - splat<V>(shift));
    store(scores + j, weight);
    total += weight;
  }
  const T factor = exp(highest - shift);
  sum = sum * factor + horizontalSum(total);
  highest = newTop;
  return factor;
}

/// Masks the scores of query `row` (of the unit); lanes of x are keys key + j onwards, `count` of
/// them real.
template <AttentionTune Tune, class T, class M>
struct ScoreMask {
  const AttentionShape& s;
  const AttentionUnit<T>& unit;
  const M* mask;
  int64_t row, key;

  template <class V>
  SL_INLINE_MEMBER V operator()(V x, [[maybe_unused]] int64_t j,
                                [[maybe_unused]] int64_t count) const {
    constexpr int N = kLanes<V>;
    if constexpr (Tune.mask != 0) {
      const M* at =
          mask + maskOffset(s, unit.image, unit.head, unit.s0 + row) + (key + j) * s.maskStride[3];
      const auto m = loadLanes<N>(at, s.maskStride[3], int(count));
      if constexpr (kSame<M, bool>) {
        x = select(m, x, splat<V>(T(-__builtin_inff())));
      } else {
        x = x + convert<T>(m);
      }
    }
    if constexpr (Tune.causal != 0) {
      const int64_t keep = unit.s0 + row - (key + j) + 1;  // lanes before this one
      if (keep < N) {
        x = firstLanes(x, keep, splat<V>(T(-__builtin_inff())));
      }
    }
    return x;
  }
};

/// One block of keys: scores, softmax, and result += weights * v.
template <AttentionTune Tune, class T, class M>
SL_INLINE void attendBlock(const AttentionShape& s, const AttentionPlan& plan,
                           const AttentionUnit<T>& unit, const M* mask, T scale,
                           const AttentionBlock<T>& block, T* work) {
  constexpr int N = kNativeLanes<T>;
  T* keys = work;
  T* values = keys + plan.keys;
  T* scores = values + plan.values;
  T* result = scores + plan.scores;
  T* statistics = result + plan.result;
  const int64_t rows = roundUp(unit.rows, Tune.mr);
  const auto [k, v, kRow, vRow, key, count] = block;
  const bool isFew = Tune.few > 0 && (Tune.rows <= Tune.few || unit.rows <= Tune.few);
  if (isFew) {
    scoresOfFew<N>(unit.q, s.qStride[2], unit.rows, k, kRow, count, s.d, scores, Tune.keys);
  } else {
    const int64_t columns = roundUp(count, Tune.nr);
    SL_NO_UNROLL
    for (int64_t j = 0; j < columns; j += Tune.nr) {
      packPanel<Tune.nr>(k + j * kRow, 1, kRow, s.d, minOf(Tune.nr, count - j), keys + j * s.d);
    }
    multiplyBlock<Tune.mr, Tune.nr>(unit.q, s.qStride[2], unit.rows, rows, keys, s.d * Tune.nr,
                                    Tune.nr, s.d, scores, Tune.keys, columns, false);
  }
  SL_NO_UNROLL
  for (int64_t row = 0; row < unit.rows; ++row) {
    const T factor = softmaxBlock<N>(scores + row * Tune.keys, count, scale, statistics[row],
                                     statistics[Tune.rows + row],
                                     ScoreMask<Tune, T, M>{s, unit, mask, row, key});
    if (key != 0) {
      constexpr int kPart = panelLanes<T>(Tune.nr);
      SL_NO_UNROLL
      for (int64_t c = 0; c < plan.depth; c += kPart) {
        T* p = result + row * plan.depth + c;
        store(p, load<kPart>(p) * splat<vec<T, kPart> >(factor));
      }
    }
  }
  if (isFew) {
    if (key == 0) {
      SL_NO_UNROLL
      for (int64_t c = 0; c < unit.rows * plan.depth; c += N) {
        store(result + c, vec<T, N>{});
      }
    }
    addValuesOfFew<N>(scores, Tune.keys, unit.rows, v, vRow, count, s.d, result, plan.depth);
    return;
  }
  int64_t vPanel = Tune.nr;
  int64_t vStride = vRow;
  const T* from = v;
  if (s.d % Tune.nr != 0) {
    SL_NO_UNROLL
    for (int64_t c = 0; c < s.d; c += Tune.nr) {
      packPanel<Tune.nr>(v + c, vRow, 1, count, minOf(Tune.nr, s.d - c), values + c * Tune.keys);
    }
    from = values;
    vPanel = int64_t(Tune.nr) * Tune.keys;
    vStride = Tune.nr;
  }
  multiplyBlock<Tune.mr, Tune.nr>(scores, Tune.keys, unit.rows, rows, from, vPanel, vStride, count,
                                  result, plan.depth, plan.depth, key != 0);
}

template <AttentionTune Tune, class T, class M, class Epilogue, class Ops>
SL_INLINE void attentionWith(sl_team team, const AttentionShape& s, const Epilogue& epilogue,
                             const T* q, const AttentionPart<T> (&parts)[2], const M* mask,
                             const Ops& ops, char* workspace) {
  constexpr int N = kNativeLanes<T>;
  static_assert(Tune.rows % Tune.mr == 0 && Tune.keys % Tune.nr == 0 && Tune.keys % N == 0);
  const AttentionPlan plan(s.d, Tune);
  T* work = reinterpret_cast<T*>(workspace) + team.index * plan.total();
  const T* result = work + plan.keys + plan.values + plan.scores;
  T* statistics = work + plan.keys + plan.values + plan.scores + plan.result;
  const T scale = T(s.scale != 0 ? s.scale : 1 / __builtin_sqrt(double(s.d)));
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][3], s.epilogueStride[1][3],
                                               s.epilogueStride[2][3], s.epilogueStride[3][3]};
  const int64_t blocks = ceilDiv(s.s, Tune.rows);
  const Range mine = split(s.b * s.h * blocks, team, 1);
  SL_NO_UNROLL
  for (int64_t index = mine.begin; index < mine.end; ++index) {
    AttentionUnit<T> unit;
    unit.image = index / blocks / s.h;
    unit.head = index / blocks % s.h;
    unit.s0 = index % blocks * Tune.rows;
    unit.rows = minOf(Tune.rows, s.s - unit.s0);
    const int64_t kvHead = unit.head / (s.h / s.hk);
    unit.q = q + unit.image * s.qStride[0] + unit.head * s.qStride[1] + unit.s0 * s.qStride[2];
    for (int64_t row = 0; row < unit.rows; ++row) {
      statistics[row] = T(-__builtin_inff());
      statistics[Tune.rows + row] = T(0);
    }
    const int64_t keys = Tune.causal != 0 ? minOf(s.t, unit.s0 + unit.rows) : s.t;
    SL_UNROLL
    for (int part = 0; part < Tune.parts; ++part) {
      const auto& kStride = part == 0 ? s.kStride : s.k2Stride;
      const auto& vStride = part == 0 ? s.vStride : s.v2Stride;
      const T* k = parts[part].k + unit.image * kStride[0] + kvHead * kStride[1];
      const T* v = parts[part].v + unit.image * vStride[0] + kvHead * vStride[1];
      const int64_t first = part == 0 ? 0 : s.split;
      const int64_t end = Tune.parts == 1 || part == 1 ? keys : minOf(keys, s.split);
      SL_NO_UNROLL
      for (int64_t key = first; key < end; key += Tune.keys) {
        attendBlock<Tune>(
            s, plan, unit, mask, scale,
            AttentionBlock<T>{k + (key - first) * kStride[2], v + (key - first) * vStride[2],
                              kStride[2], vStride[2], key, minOf(Tune.keys, end - key)},
            work);
      }
    }
    SL_NO_UNROLL
    for (int64_t row = 0; row < unit.rows; ++row) {
      const T sum = statistics[Tune.rows + row];
      const T inverse = sum == T(0) ? resultOfNoKeys<Tune, T>(s.t) : T(1) / sum;
      RowOffsets at;
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        at.operand[j] = unit.image * s.epilogueStride[j][0] + unit.head * s.epilogueStride[j][1] +
                        (unit.s0 + row) * s.epilogueStride[j][2];
      }
      at.output = unit.image * s.outStride[0] + unit.head * s.outStride[1] +
                  (unit.s0 + row) * s.outStride[2];
      SL_NO_UNROLL
      for (int64_t c = 0; c < s.d; c += panelLanes<T>(Tune.nr)) {
        constexpr int kPart = panelLanes<T>(Tune.nr);
        vec<T, kPart> value{};
        if (keys > 0) {  // else nothing has been accumulated
          value = load<kPart>(result + row * plan.depth + c) * splat<vec<T, kPart> >(inverse);
        }
        finish<kPart>(epilogue, ops, value, at, steps, c, 1, minOf(kPart, s.d - c));
      }
    }
  }
}

template <AttentionTune Tune, class Epilogue, class T, class First, class... P>
SL_INLINE void attentionOver(sl_team team, const AttentionShape& s, const Epilogue& epilogue,
                             const T* q, const AttentionPart<T> (&parts)[2], First first,
                             P... pointers) {
  if constexpr (Tune.mask != 0) {
    withWorkspace(
        [&](const auto& ops, char* workspace) SL_INLINE_LAMBDA {
          attentionWith<Tune>(team, s, epilogue, q, parts, first, ops, workspace);
        },
        pointers...);
  } else {
    withWorkspace(
        [&](const auto& ops, char* workspace) SL_INLINE_LAMBDA {
          attentionWith<Tune>(team, s, epilogue, q, parts, static_cast<const bool*>(nullptr), ops,
                              workspace);
        },
        first, pointers...);
  }
}

/// pointers: [second parts of k and v when Tune.parts is 2], [mask when Tune.mask], epilogue
/// operands, outputs, `char* workspace` (64-byte aligned).
template <AttentionTune Tune, class Epilogue, class T, class First, class... P>
SL_INLINE void attention(sl_ctx*, sl_team team, AttentionShape s, Epilogue epilogue, const T* q,
                         const T* k, const T* v, First first, P... pointers) {
  if constexpr (Tune.parts == 2) {
    [&](const T* k2, const T* v2, auto... rest) SL_INLINE_LAMBDA {
      const AttentionPart<T> parts[2] = {{k, v}, {k2, v2}};
      attentionOver<Tune>(team, s, epilogue, q, parts, rest...);
    }(first, pointers...);
  } else {
    const AttentionPart<T> parts[2] = {{k, v}, {k, v}};
    attentionOver<Tune>(team, s, epilogue, q, parts, first, pointers...);
  }
}

}  // namespace sl

#endif  // __CUDACC__

#endif  // STRAIGHTLINE_KERNELS_ATTENTION_H
