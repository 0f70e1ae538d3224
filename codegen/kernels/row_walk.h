// SPDX-License-Identifier: Apache-2.0
// How family `row_reduction` visits the elements of rows on a CPU: N lanes along the inner dims of
// a row in several chains, or one element at a time of neighbouring rows. Q is a call's problem
// (row_reduction.h): its loops, and where its operands are.
#ifndef STRAIGHTLINE_KERNELS_ROW_WALK_H
#define STRAIGHTLINE_KERNELS_ROW_WALK_H

#include "straightline/kernels/operands.h"

namespace sl {
namespace reduction {

/// Lane view of one chunk: where its operands are and how many lanes exist.
template <int O>
struct Chunk {
  int64_t offset[O];
  int64_t laneStride[O];
  int count;
};

/// The same along the inner dims of a known shape.
template <class Q, int COUNT>
struct FixedChunk {
  int64_t offset[Q::kOperands];
  static constexpr auto laneStride = Q::kInnerStrides.values;
  static constexpr int count = COUNT;
};

inline constexpr int kChains = 4;  ///< independent accumulators along a row
inline constexpr int kBlock = 16;  ///< values per lane between two steps of the cascade

/// Rounds of all chains that alongInner makes; flush() is called after every kBlock of them.
SL_INLINE constexpr int64_t roundsAlong(int64_t run, int64_t total, int each) {
  return run == 0 ? 0 : total / run * maxOf(run / each, 1);
}

/// Visits the inner dims of a known shape: see alongInner.
template <int N, int CHAINS, class Q, class Visit, class Flush>
SL_INLINE void alongFixed(const Q&, const int64_t* row, Visit visit, Flush flush) {
  constexpr int O = Q::kOperands;
  constexpr int64_t kRun = Q::inner.innerExtent();
  constexpr int64_t kTotal = Q::inner.count();
  constexpr bool kFlushes = roundsAlong(kRun, kTotal, CHAINS * N) >= kBlock;
  typename Q::InnerCursor cursor;
  FixedChunk<Q, N> at;
  auto step = [&]() SL_LAMBDA {
    for (int o = 0; o < O; ++o) {
      at.offset[o] += N * at.laneStride[o];
    }
  };
  int rounds = 0;
  auto endOfRound = [&]() SL_LAMBDA {
    if constexpr (kFlushes) {
      if (++rounds == kBlock) {
        rounds = 0;
        flush();
      }
    }
  };
  for (int64_t first = 0; first < kTotal; first += kRun) {
    for (int o = 0; o < O; ++o) {
      at.offset[o] = row[o] + cursor.offset[o];
    }
    if constexpr (kRun >= CHAINS * N) {
      for (int64_t i = 0; i + CHAINS * N <= kRun; i += CHAINS * N) {
        unrolled<CHAINS>([&](auto chain) SL_LAMBDA {
          visit(at, first + i + chain * N, chain);
          step();
        });
        endOfRound();
      }
    }
    constexpr int64_t kRest = kRun / (CHAINS * N) * (CHAINS * N);
    if constexpr (kRun - kRest >= N) {
      for (int64_t i = kRest; i + N <= kRun; i += N) {
        visit(at, first + i, Index<0>{});
        step();
      }
    }
    if constexpr (kRun % N != 0) {
      FixedChunk<Q, int(kRun % N)> tail;
      for (int o = 0; o < O; ++o) {
        tail.offset[o] = at.offset[o];
      }
      visit(tail, first + kRun / N * N, Index<0>{});
    }
    if constexpr (kRun < CHAINS * N) {
      endOfRound();
    }
    cursor.advance(Q::inner, Q::inner.rank - 1);
  }
}

/// Visits the inner dims of a shape that is known when the kernel runs: see alongInner.
template <int N, int CHAINS, class Q, class Visit, class Flush>
SL_INLINE void alongGiven(const Q& q, const int64_t* row, Visit visit, Flush flush) {
  constexpr int O = Q::kOperands;
  int64_t run = q.inner.innerExtent();
  int64_t total = q.inner.count();
  typename Q::InnerCursor cursor;
  Chunk<O> at;
  for (int o = 0; o < O; ++o) {
    at.laneStride[o] = q.inner.innerStride(o);
  }
  auto step = [&]() SL_LAMBDA {
    for (int o = 0; o < O; ++o) {
      at.offset[o] += N * at.laneStride[o];
    }
  };
  int rounds = 0;
  for (int64_t first = 0; first < total; first += run) {
    for (int o = 0; o < O; ++o) {
      at.offset[o] = row[o] + cursor.offset[o];
    }
    at.count = N;
    int64_t i = 0;
    for (; i + CHAINS * N <= run; i += CHAINS * N) {
      unrolled<CHAINS>([&](auto chain) SL_LAMBDA {
        visit(at, first + i + chain * N, chain);
        step();
      });
      if (++rounds == kBlock) {
        rounds = 0;
        flush();
      }
    }
    for (; i < run; i += N) {
      at.count = int(minOf(N, run - i));
      visit(at, first + i, Index<0>{});
      step();
    }
    if (run < CHAINS * N && ++rounds == kBlock) {
      rounds = 0;
      flush();
    }
    cursor.advance(q.inner, q.inner.rank - 1);
  }
}

/// Visits the inner dims of the row at `row` N elements at a time: visit(chunk, position, chain),
/// and flush() after every kBlock rounds of all chains.
template <int N, int CHAINS, class Q, class Visit, class Flush>
SL_INLINE void alongInner(const Q& q, const int64_t* row, Visit visit, Flush flush) {
  if constexpr (Q::kFixed) {
    alongFixed<N, CHAINS>(q, row, visit, flush);
  } else {
    alongGiven<N, CHAINS>(q, row, visit, flush);
  }
}

/// Visits the inner dims one element at a time for `count` neighbouring rows at once (lanes along
/// rows).
template <class Q, class Visit, class Flush>
SL_INLINE void alongRows(const Q& q, const int64_t* row, int count, Visit visit, Flush flush) {
  constexpr int O = Q::kOperands;
  int64_t total = q.inner.count();
  typename Q::InnerCursor cursor;
  Chunk<O> at;
  at.count = count;
  for (int o = 0; o < O; ++o) {
    at.laneStride[o] = q.outer.innerStride(o);
  }
  for (int64_t position = 0; position < total; ++position) {
    for (int o = 0; o < O; ++o) {
      at.offset[o] = row[o] + cursor.offset[o];
    }
    visit(at, position);
    if ((position + 1) % kBlock == 0) {
      flush();
    }
    cursor.advance(q.inner, q.inner.rank);
  }
}

}  // namespace reduction
}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_ROW_WALK_H
