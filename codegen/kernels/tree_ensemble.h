// SPDX-License-Identifier: Apache-2.0
// Family `tree_ensemble` (decision trees: forests, boosted trees):
// out[row, column] = sum (or max, min) over the trees of the weight of the leaf that the row's
// features lead to.
//
//   sl::tree_ensemble<TreeEnsembleTune{...}>(ctx, team, shape, x, nodes, weights, columns, out)
//
//   x        [rows, features] float, double; its columns are contiguous
//   nodes    [m, 2] int32 or int64: the bits of a float (double), and a link. Trees t begin at node
//            t; children of a node are neighbours. A link has, from its lowest bits up, the feature
//            (`featureBits`), one bit where `missing` is 1, two where `decision` is mixed, and the
//            number of the first child. A row goes to the second child where the decision holds,
//            or where its feature is NaN and the bit `missing` is set. A leaf has no flags, its
//            first child is itself, and its float is a NaN, so that no decision leaves it; the low
//            bits of the NaN (`kLeafBits`) are the number of its row of weights.
//   weights  [leaves, columns]; [leaves, 1] where `columns` is given
//   columns  [trees] int32, where `perTree` is 1: the column that a tree adds to
//   out      [rows, columns] of the weights' type, any strides
//
// Every link but a leaf's leads to a node that no way has passed, and every feature is one of x's:
// whoever makes the nodes has checked that. Features are compared as the float of the nodes. The
// weights of a row are added in the order of the trees, so that results depend neither on the team
// nor on the number of rows. A step waits for the node that the one before it found: kChains ways
// go on at once, of rows through a tree where there are rows enough (the tree stays in the cache),
// else of a row through trees. They are scalar steps on purpose: vectors that gather took two to
// three times as long on Zen 5, so the compiler is kept from making such. The team splits rows.
//
// In CUDA C++ a warp takes a row and its lanes trees; sums of one column are added by lanes first.
#ifndef STRAIGHTLINE_KERNELS_TREE_ENSEMBLE_H
#define STRAIGHTLINE_KERNELS_TREE_ENSEMBLE_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

/// When a row goes to the second child: feature <= number, <, ==; mixed: two bits of the link say.
enum class Decision { atMost, below, equal, mixed };
enum class Aggregate { sum, max, min };

struct TreeEnsembleTune {
  Decision decision = Decision::atMost;
  Aggregate aggregate = Aggregate::sum;
  int featureBits = 8;
  int missing = 0;  ///< 1: nodes have a bit that says where NaN goes
  int perTree = 0;  ///< 1: a leaf has one weight, for its tree's column
  int depth = 0;    ///< decisions on the longest way; 0: more than kFixed (walk)
};

struct TreeEnsembleShape {
  int64_t rows = 0;
  int64_t columns = 1;
  int64_t trees = 0;
  int64_t inRow = 0;  ///< strides in elements
  int64_t outRow = 0;
  int64_t outColumn = 1;
};

namespace tree_ensemble_detail {

/// Low bits of the NaN of a leaf that number it.
template <class N>
inline constexpr int kLeafBits = sizeof(N) == 4 ? 22 : 51;
template <class N>
using NumberOf = typename Conditional<sizeof(N) == 4, float, double>::type;
template <class N>
using Bits = typename UnsignedOfSize<sizeof(N)>::type;

/// The node that follows `at` for a row.
template <TreeEnsembleTune T, class N, class E>
SL_INLINE Bits<N> stepFrom(const N* nodes, Bits<N> at, const E* row) {
  using F = NumberOf<N>;
  using U = Bits<N>;
  constexpr int kFlags = T.missing + (T.decision == Decision::mixed ? 2 : 0);
  const F number = bitcast<F>(nodes[2 * int64_t(at)]);
  const U link = U(nodes[2 * int64_t(at) + 1]);
  const F x = F(row[link & ((U(1) << T.featureBits) - 1)]);
  bool second;
  if constexpr (T.decision == Decision::atMost) {
    second = x <= number;
  } else if constexpr (T.decision == Decision::below) {
    second = x < number;
  } else if constexpr (T.decision == Decision::equal) {
    second = x == number;
  } else {
    const int kind = int(link >> (T.featureBits + T.missing)) & 3;
    second = (kind != 2 && x < number) || (kind != 1 && x == number);
  }
  if constexpr (T.missing != 0) {
    second = second | ((x != x) & bool((link >> T.featureBits) & 1));
  }
  return U(link >> (T.featureBits + kFlags)) + U(second);
}

/// The row of weights of a leaf.
template <class N>
SL_INLINE int64_t leafOf(const N* nodes, Bits<N> at) {
  return int64_t(Bits<N>(nodes[2 * int64_t(at)]) & ((Bits<N>(1) << kLeafBits<N>)-1));
}

template <Aggregate A, class W>
SL_INLINE void combine(W& sum, W weight) {
  if constexpr (A == Aggregate::sum) {
    sum += weight;
  } else if constexpr (A == Aggregate::max) {
    sum = weight > sum ? weight : sum;
  } else {
    sum = weight < sum ? weight : sum;
  }
}

/// What a column is that no tree has reached.
template <Aggregate A, class W>
SL_INLINE W nothing() {
  return A == Aggregate::sum   ? W(0)
         : A == Aggregate::max ? -W(__builtin_inff())
                               : W(__builtin_inff());
}

#if !defined(__CUDACC__)

inline constexpr int kChains = 16;

/// Walks K ways at once to their leaves: way k stands at node at[k] and is the row rowOf(k)'s.
template <TreeEnsembleTune T, int K, class N, class RowOf>
SL_INLINE void walk(const N* nodes, Bits<N> (&at)[K], RowOf rowOf) {
  constexpr int kFixed = 8;  // up to so many steps none looks whether it was one too many
  auto step = [&](auto k) SL_LAMBDA {
    Bits<N> next = stepFrom<T>(nodes, at[k], rowOf(k));
    asm("" : "+r"(next));  // no vectors of ways
    return next;
  };
  if constexpr (T.depth > 0 && T.depth <= kFixed) {
    SL_UNROLL
    for (int d = 0; d < T.depth; ++d) {
      unrolled<K>([&](auto k) SL_LAMBDA { at[k] = step(k); });
    }
  } else {
    Bits<N> moved;
    do {
      SL_NO_UNROLL
      for (int d = 0; d < 3; ++d) {
        unrolled<K>([&](auto k) SL_LAMBDA { at[k] = step(k); });
      }
      moved = 0;
      unrolled<K>([&](auto k) SL_LAMBDA {
        const Bits<N> next = step(k);
        moved |= next ^ at[k];
        at[k] = next;
      });
    } while (moved != 0);
  }
}

/// K trees at once for one row, from `tree` on.
template <TreeEnsembleTune T, int K, class E, class N, class W>
SL_INLINE void treesOfRow(const TreeEnsembleShape& s, int64_t tree, const E* x, const N* nodes,
                          const W* weights, const int32_t* columns, W* out) {
  Bits<N> at[K];
  unrolled<K>([&](auto k) SL_LAMBDA { at[k] = Bits<N>(tree + k); });
  walk<T, K>(nodes, at, [&](auto) SL_LAMBDA { return x; });
  if constexpr (T.perTree != 0) {
    unrolled<K>([&](auto k) SL_LAMBDA {
      combine<T.aggregate>(out[columns[tree + k] * s.outColumn], weights[leafOf<N>(nodes, at[k])]);
    });
  } else {
    for (int64_t c = 0; c < s.columns; ++c) {
      W sum = out[c * s.outColumn];
      unrolled<K>([&](auto k) SL_LAMBDA {
        combine<T.aggregate>(sum, weights[leafOf<N>(nodes, at[k]) * s.columns + c]);
      });
      out[c * s.outColumn] = sum;
    }
  }
}

/// K rows at once through one tree.
template <TreeEnsembleTune T, int K, class E, class N, class W>
SL_INLINE void rowsOfTree(const TreeEnsembleShape& s, int64_t tree, const E* x, const N* nodes,
                          const W* weights, const int32_t* columns, W* out) {
  Bits<N> at[K];
  unrolled<K>([&](auto k) SL_LAMBDA { at[k] = Bits<N>(tree); });
  walk<T, K>(nodes, at, [&](auto k) SL_LAMBDA { return x + k * s.inRow; });
  unrolled<K>([&](auto k) SL_LAMBDA {
    const int64_t leaf = leafOf<N>(nodes, at[k]);
    W* to = out + k * s.outRow;
    if constexpr (T.perTree != 0) {
      combine<T.aggregate>(to[columns[tree] * s.outColumn], weights[leaf]);
    } else {
      for (int64_t c = 0; c < s.columns; ++c) {
        combine<T.aggregate>(to[c * s.outColumn], weights[leaf * s.columns + c]);
      }
    }
  });
}

template <TreeEnsembleTune T, class E, class N, class W>
SL_INLINE void oneRow(const TreeEnsembleShape& s, const E* x, const N* nodes, const W* weights,
                      const int32_t* columns, W* out) {
  constexpr int kFew = 4;
  int64_t tree = 0;
  for (; tree + kChains <= s.trees; tree += kChains) {
    treesOfRow<T, kChains>(s, tree, x, nodes, weights, columns, out);
  }
  for (; tree + kFew <= s.trees; tree += kFew) {
    treesOfRow<T, kFew>(s, tree, x, nodes, weights, columns, out);
  }
  for (; tree < s.trees; ++tree) {
    treesOfRow<T, 1>(s, tree, x, nodes, weights, columns, out);
  }
}

#endif  // __CUDACC__

}  // namespace tree_ensemble_detail

#if defined(__CUDACC__)

template <TreeEnsembleTune T, class E, class N, class W>
SL_INLINE void tree_ensemble(TreeEnsembleShape s, const E* x, const N* nodes, const W* weights,
                             const int32_t* columns, W* out) {
  namespace detail = tree_ensemble_detail;
  constexpr int kWarp = 32;
  constexpr unsigned kAll = 0xffffffffu;
  const int64_t number = threadNumber();
  const int64_t row = number / kWarp;
  const int lane = int(number % kWarp);
  if (row >= s.rows) {
    return;  // as do all lanes of the warp
  }
  x += row * s.inRow;
  out += row * s.outRow;
  const bool oneColumn = T.perTree == 0 && s.columns == 1;
  W sum = detail::nothing<T.aggregate, W>();  // of the lane's trees, of one column
  for (int64_t c = lane; c < s.columns; c += kWarp) {
    out[c * s.outColumn] = sum;
  }
  for (int64_t first = 0; first < s.trees; first += kWarp) {
    int leaf = 0;
    if (first + lane < s.trees) {
      detail::Bits<N> at = detail::Bits<N>(first + lane), last;
      do {
        last = at;
        at = detail::stepFrom<T>(nodes, at, x);
      } while (at != last);
      leaf = int(detail::leafOf<N>(nodes, at));
      if (oneColumn) {
        detail::combine<T.aggregate>(sum, weights[leaf]);
      }
    }
    for (int64_t tree = first; !oneColumn && tree < minOf(first + kWarp, s.trees); ++tree) {
      const int64_t found = __shfl_sync(kAll, leaf, int(tree - first));
      if constexpr (T.perTree != 0) {
        if (columns[tree] % kWarp == lane) {
          detail::combine<T.aggregate>(out[columns[tree] * s.outColumn], weights[found]);
        }
      } else {
        for (int64_t c = lane; c < s.columns; c += kWarp) {
          detail::combine<T.aggregate>(out[c * s.outColumn], weights[found * s.columns + c]);
        }
      }
    }
  }
  if (oneColumn) {
    using I = typename SignedOfSize<sizeof(W)>::type;
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      detail::combine<T.aggregate>(sum,
                                   bitcast<W>(I(__shfl_xor_sync(kAll, bitcast<I>(sum), distance))));
    }
    if (lane == 0) {
      out[0] = sum;
    }
  }
}

template <TreeEnsembleTune T, class E, class N, class W>
SL_INLINE void tree_ensemble(TreeEnsembleShape s, const E* x, const N* nodes, const W* weights,
                             W* out) {
  tree_ensemble<T>(s, x, nodes, weights, static_cast<const int32_t*>(nullptr), out);
}

#else

template <TreeEnsembleTune T, class E, class N, class W>
SL_INLINE void tree_ensemble(sl_ctx*, sl_team team, TreeEnsembleShape s, const E* x, const N* nodes,
                             const W* weights, const int32_t* columns, W* out) {
  namespace detail = tree_ensemble_detail;
  constexpr int K = detail::kChains;
  constexpr int64_t kBlock = 64;  // rows that stay in the cache while trees pass
  const Range part = split(s.rows, team, K);
  for (int64_t row = part.begin; row < part.end; ++row) {
    for (int64_t c = 0; c < s.columns; ++c) {
      out[row * s.outRow + c * s.outColumn] = detail::nothing<T.aggregate, W>();
    }
  }
  int64_t row = part.begin;
  while (row + K <= part.end) {
    const int64_t end = row + minOf(kBlock, (part.end - row) / K * K);
    for (int64_t tree = 0; tree < s.trees; ++tree) {
      for (int64_t r = row; r < end; r += K) {
        detail::rowsOfTree<T, K>(s, tree, x + r * s.inRow, nodes, weights, columns,
                                 out + r * s.outRow);
      }
    }
    row = end;
  }
  for (; row < part.end; ++row) {
    detail::oneRow<T>(s, x + row * s.inRow, nodes, weights, columns, out + row * s.outRow);
  }
}

template <TreeEnsembleTune T, class E, class N, class W>
SL_INLINE void tree_ensemble(sl_ctx* ctx, sl_team team, TreeEnsembleShape s, const E* x,
                             const N* nodes, const W* weights, W* out) {
  tree_ensemble<T>(ctx, team, s, x, nodes, weights, static_cast<const int32_t*>(nullptr), out);
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_TREE_ENSEMBLE_H
