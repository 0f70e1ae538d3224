// SPDX-License-Identifier: Apache-2.0
// Family `tree_ensemble` against trees that are walked one by one: decisions, NaN, layouts, leaves
// at the root, one to many trees, rows and threads.
#include "straightline/kernels/tree_ensemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel_testing.h"

namespace {

using sl::Aggregate;
using sl::Decision;
using sl::testing::pick;

/// A tree as a user would write it: children by number, leaves without.
struct Node {
  int64_t feature = 0;
  double number = 0;
  int kind = 0;  ///< 0 at most, 1 below, 2 equal
  bool missing = false;
  int64_t first = -1, second = -1;
  int64_t leaf = -1;
};

template <class N>
struct Forest {
  std::vector<std::vector<Node>> trees;
  std::vector<N> nodes;
  int64_t leaves = 0;
};

int64_t grow(std::vector<Node>& tree, int64_t depth, int64_t features, sl::TreeEnsembleTune tune,
             int64_t& leaves) {
  const auto at = static_cast<int64_t>(tree.size());
  tree.emplace_back();
  if (depth == 0 || pick(0, 7) == 0) {
    tree[size_t(at)].leaf = leaves++;
    return at;
  }
  Node node;
  node.feature = pick(0, features - 1);
  node.number = double(pick(-4, 4)) / 4;
  node.kind = tune.decision == Decision::mixed ? int(pick(0, 2)) : int(tune.decision);
  node.missing = tune.missing != 0 && pick(0, 1) == 1;
  node.first = grow(tree, depth - 1, features, tune, leaves);
  node.second = grow(tree, depth - 1, features, tune, leaves);
  tree[size_t(at)] = node;
  return at;
}

template <class N>
void put(Forest<N>& forest, const std::vector<Node>& tree, int64_t from, size_t at,
         sl::TreeEnsembleTune tune) {
  using U = typename sl::UnsignedOfSize<sizeof(N)>::type;
  using F = sl::tree_ensemble_detail::NumberOf<N>;
  const int flags = tune.missing + (tune.decision == Decision::mixed ? 2 : 0);
  const int shift = tune.featureBits + flags;
  const Node& node = tree[size_t(from)];
  if (node.leaf >= 0) {
    const U nan = sizeof(N) == 4 ? U(0x7fc00000u) : U(0x7ff8000000000000ull);
    forest.nodes[2 * at] = N(nan | U(node.leaf));
    forest.nodes[2 * at + 1] = N(U(at) << shift);
    return;
  }
  const size_t child = forest.nodes.size() / 2;
  forest.nodes.resize(forest.nodes.size() + 4);
  U link = U(child) << shift | U(node.feature);
  link |= U(tune.missing != 0 && node.missing) << tune.featureBits;
  if (tune.decision == Decision::mixed) {
    link |= U(node.kind) << (tune.featureBits + tune.missing);
  }
  const F number = F(node.number);
  std::memcpy(&forest.nodes[2 * at], &number, sizeof(N));
  forest.nodes[2 * at + 1] = N(link);
  put(forest, tree, node.first, child, tune);
  put(forest, tree, node.second, child + 1, tune);
}

template <class N>
Forest<N> forestOf(int64_t trees, int64_t depth, int64_t features, sl::TreeEnsembleTune tune) {
  Forest<N> forest;
  forest.nodes.resize(size_t(2 * trees));
  for (int64_t t = 0; t < trees; ++t) {
    forest.trees.emplace_back();
    grow(forest.trees.back(), t % 5 == 4 ? 0 : depth, features, tune, forest.leaves);
    put(forest, forest.trees.back(), 0, size_t(t), tune);
  }
  return forest;
}

template <class F, class E>
int64_t leafOf(const std::vector<Node>& tree, const E* row) {
  int64_t at = 0;
  while (tree[size_t(at)].leaf < 0) {
    const Node& node = tree[size_t(at)];
    const F x = F(row[node.feature]), number = F(node.number);
    const bool holds = node.kind == 0 ? x <= number : node.kind == 1 ? x < number : x == number;
    at = holds || (std::isnan(x) && node.missing) ? node.second : node.first;
  }
  return tree[size_t(at)].leaf;
}

template <sl::TreeEnsembleTune T, class E, class N, class W>
void check(int64_t depth) {
  for (const int64_t trees : {int64_t(1), pick(2, 15), int64_t(16), pick(17, 60)}) {
    const int64_t rows = pick(0, 3) == 0 ? 1 : pick(0, 150);
    const int64_t features = pick(1, 12), columns = pick(1, 5), gap = pick(0, 3);
    SCOPED_TRACE(::testing::Message() << trees << " trees, " << rows << " rows, " << columns);
    const Forest<N> forest = forestOf<N>(trees, depth, features, T);
    std::vector<E> x(size_t(rows * (features + gap)));
    for (E& element : x) {
      element = pick(0, 9) == 0 ? std::numeric_limits<E>::quiet_NaN() : E(pick(-5, 5)) / 4;
    }
    const auto weights = sl::testing::randomVector<W>(forest.leaves * (T.perTree ? 1 : columns));
    std::vector<int32_t> column;
    for (int64_t t = 0; t < trees; ++t) {
      column.push_back(int32_t(pick(0, columns - 1)));
    }
    // out [rows, columns], in columns
    const sl::TreeEnsembleShape shape = {.rows = rows,
                                         .columns = columns,
                                         .trees = trees,
                                         .inRow = features + gap,
                                         .outRow = 1,
                                         .outColumn = rows};
    std::vector<W> expected(size_t(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        W sum = T.aggregate == Aggregate::sum   ? W(0)
                : T.aggregate == Aggregate::max ? -std::numeric_limits<W>::infinity()
                                                : std::numeric_limits<W>::infinity();
        for (int64_t t = 0; t < trees; ++t) {
          using F = sl::tree_ensemble_detail::NumberOf<N>;
          const int64_t leaf = leafOf<F>(forest.trees[size_t(t)], &x[size_t(r * shape.inRow)]);
          if (T.perTree && column[size_t(t)] != c) {
            continue;
          }
          const W weight = weights[size_t(T.perTree ? leaf : leaf * columns + c)];
          sum = T.aggregate == Aggregate::sum   ? sum + weight
                : T.aggregate == Aggregate::max ? std::max(sum, weight)
                                                : std::min(sum, weight);
        }
        expected[size_t(r + c * rows)] = sum;
      }
    }
    for (int team = 1; team <= 3; ++team) {
      std::vector<W> out(size_t(rows * columns), W(77));
      sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
        if constexpr (T.perTree != 0) {
          sl::tree_ensemble<T>(ctx, members, shape, x.data(), forest.nodes.data(), weights.data(),
                               column.data(), out.data());
        } else {
          sl::tree_ensemble<T>(ctx, members, shape, x.data(), forest.nodes.data(), weights.data(),
                               out.data());
        }
      });
      EXPECT_EQ(out, expected) << "of " << team
                               << " threads: the order of trees is the order of sums";
    }
  }
}

TEST(TreeEnsemble, Shallow) {
  check<sl::TreeEnsembleTune{.depth = 3}, float, int32_t, float>(3);
  check<sl::TreeEnsembleTune{.depth = 8}, float, int32_t, float>(8);
  check<sl::TreeEnsembleTune{.perTree = 1, .depth = 4}, float, int32_t, float>(4);
}

TEST(TreeEnsemble, Deep) {
  check<sl::TreeEnsembleTune{}, float, int32_t, float>(11);
  check<sl::TreeEnsembleTune{.featureBits = 5, .perTree = 1}, float, int32_t, float>(10);
}

TEST(TreeEnsemble, Decisions) {
  check<sl::TreeEnsembleTune{.decision = Decision::below, .depth = 4}, float, int32_t, float>(4);
  check<sl::TreeEnsembleTune{.decision = Decision::equal, .missing = 1, .depth = 4}, float, int32_t,
        float>(4);
  check<sl::TreeEnsembleTune{.decision = Decision::mixed, .missing = 1}, float, int32_t, float>(9);
  check<sl::TreeEnsembleTune{.decision = Decision::mixed, .depth = 5}, float, int32_t, float>(5);
}

TEST(TreeEnsemble, Missing) {
  check<sl::TreeEnsembleTune{.missing = 1, .depth = 6}, float, int32_t, float>(6);
}

TEST(TreeEnsemble, Aggregates) {
  check<sl::TreeEnsembleTune{.aggregate = Aggregate::max, .depth = 4}, float, int32_t, float>(4);
  check<sl::TreeEnsembleTune{.aggregate = Aggregate::min, .perTree = 1, .depth = 4}, float, int32_t,
        double>(4);
}

TEST(TreeEnsemble, Doubles) {
  check<sl::TreeEnsembleTune{.missing = 1, .depth = 6}, double, int64_t, double>(6);
  check<sl::TreeEnsembleTune{.decision = Decision::mixed}, float, int64_t, float>(10);
}

}  // namespace
