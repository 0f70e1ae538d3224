// SPDX-License-Identifier: Apache-2.0
// The reductions of a stage: how two values are combined, running results of lanes and of
// independent chains, and sums of blocks that are added pairwise. For CPUs and CUDA C++ alike;
// family `row_reduction` defines the results.
#ifndef STRAIGHTLINE_KERNELS_ACCUMULATOR_H
#define STRAIGHTLINE_KERNELS_ACCUMULATOR_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

enum class Combine { sum, max, min, prod, any, all, argmax, argmin };
enum class Value { automatic, f32, f64, i64, i1 };

namespace reduction {

/// The type that a stage computes in: what the schedule says, else by the types T of the inputs.
template <Value K, Combine C, class... T>
struct ValueTypeOf {
  static constexpr bool kAny = C == Combine::any || C == Combine::all;
  static constexpr bool kDouble = (kSame<T, double> || ...);
  static constexpr bool kFloat = ((kSame<T, float> || kPacked16<T>) || ...);
  using Automatic =
      Conditional<kAny, bool,
                  typename Conditional<kDouble, double,
                                       typename Conditional<kFloat, float, int64_t>::type>::type>;
  using type = typename Conditional<
      K == Value::automatic, typename Automatic::type,
      typename Conditional<
          K == Value::f32, float,
          typename Conditional<K == Value::f64, double,
                               typename Conditional<K == Value::i64, int64_t, bool>::type>::type>::
          type>::type;
};

inline constexpr bool isArg(Combine c) { return c == Combine::argmax || c == Combine::argmin; }

template <Combine C, class V>
SL_INLINE V combineValues(V a, V b) {
  if constexpr (C == Combine::sum) {
    return add(a, b);
  } else if constexpr (C == Combine::prod) {
    return multiply(a, b);
  } else if constexpr (C == Combine::max) {
    return maximum(a, b);
  } else if constexpr (C == Combine::min) {
    return minimum(a, b);
  } else if constexpr (C == Combine::any) {
    return bitwise_or(a, b);
  } else {
    return bitwise_and(a, b);
  }
}
template <Combine C, class T>
SL_INLINE T identity() {
  if constexpr (C == Combine::sum || C == Combine::any) {
    return T(0);
  } else if constexpr (C == Combine::prod || C == Combine::all) {
    return T(1);
  } else {
    constexpr bool kMost = C == Combine::min || C == Combine::argmin;
    if constexpr (kFloating<T>) {
      return kMost ? elementary::Format<T>::kInfinity : -elementary::Format<T>::kInfinity;
    } else if constexpr (kSame<T, bool>) {
      return kMost;
    } else {
      return kMost ? T(9223372036854775807LL) : T(INT64_MIN_SL);
    }
  }
}

/// Running result of a stage, N lanes of values T.
template <Combine C, class T, int N>
struct Accumulator {
  using V = Wide<T, N>;
  using Result = T;
  V best = splat<V>(identity<C, T>());

  SL_INLINE_MEMBER void take(V v, int64_t, int64_t) { best = combineValues<C>(best, v); }
  SL_INLINE_MEMBER void merge(const Accumulator& other) {
    best = combineValues<C>(best, other.best);
  }
  SL_INLINE_MEMBER Wide<Result, N> result() const { return best; }
  SL_INLINE_MEMBER Result fold() const {
    return foldLanes(best, [](auto a, auto b) SL_LAMBDA { return combineValues<C>(a, b); });
  }
};
/// argmax and argmin: value and position; a NaN is better than any number, the first of equals
/// stays.
template <Combine C, class T, int N>
  requires(isArg(C))
struct Accumulator<C, T, N> {
  using V = Wide<T, N>;
  using I = Wide<int64_t, N>;
  using Result = int64_t;
  V best = splat<V>(identity<C, T>());
  I where = splat<I>(-1);

  template <class U>
  SL_INLINE_MEMBER static auto better(U a, U b) {
    auto beyond = C == Combine::argmax ? gt(a, b) : lt(a, b);
    if constexpr (kFloating<T>) {
      return either(beyond, both(elementary::mask(a != a), elementary::mask(b == b)));
    } else {
      return beyond;
    }
  }
  /// Lane i is element at + i * step.
  SL_INLINE_MEMBER void take(V v, int64_t at, int64_t step) {
    I index = splat<I>(at);
    if constexpr (N > 1) {
      for (int i = 0; i < N; ++i) {
        index[i] += i * step;
      }
    }
    auto take = either(better(v, best), lt(where, splat<I>(0)));
    best = select(take, v, best);
    where = select(take, index, where);
  }
  template <class W, class J>
  SL_INLINE_MEMBER static void mergeOne(W& value, J& place, W otherValue, J otherPlace) {
    auto filled = ge(otherPlace, splat<J>(0));
    auto wins =
        either(better(otherValue, value), both(!better(value, otherValue), lt(otherPlace, place)));
    auto take = both(filled, either(wins, lt(place, splat<J>(0))));
    value = select(take, otherValue, value);
    place = select(take, otherPlace, place);
  }
  SL_INLINE_MEMBER void merge(const Accumulator& other) {
    mergeOne(best, where, other.best, other.where);
  }
  SL_INLINE_MEMBER I result() const { return maximum(where, splat<I>(0)); }
  SL_INLINE_MEMBER int64_t fold() const {
    T value = lane(best, 0);
    int64_t place = lane(where, 0);
    for (int i = 1; i < N; ++i) {
      mergeOne(value, place, T(lane(best, i)), int64_t(lane(where, i)));
    }
    return maximum(place, int64_t(0));
  }
};

/// Sums of blocks, added pairwise: slot i holds the sum of 2^i blocks.
template <class A, bool USED>
struct Cascade {
  static constexpr int kLevels = 40;
  typename A::V
      /// left uninitialised: only the slots of set bits of `blocks` hold anything
      level[kLevels];
  uint64_t blocks = 0;

  SL_INLINE_MEMBER void push(A a) {
    int i = 0;
    for (; ((blocks >> i) & 1) != 0; ++i) {
      A sum;
      sum.best = level[i];
      sum.merge(a);
      a = sum;
    }
    level[i] = a.best;
    ++blocks;
  }
  SL_INLINE_MEMBER A total() const {
    A sum;
    for (int i = 0; (blocks >> i) != 0; ++i) {
      if (((blocks >> i) & 1) != 0) {
        A part;
        part.best = level[i];
        sum.merge(part);
      }
    }
    return sum;
  }
};

/// Nothing, for what needs no cascade.
template <class A>
struct Cascade<A, false> {};

/// The result of all chains together, merged pairwise.
template <class A, int K>
SL_INLINE A mergeChains(const A (&chain)[K]) {
  A r[K];
  for (int i = 0; i < K; ++i) {
    r[i] = chain[i];
  }
  for (int step = 1; step < K; step *= 2) {
    for (int i = 0; i + step < K; i += 2 * step) {
      r[i].merge(r[i + step]);
    }
  }
  return r[0];
}

}  // namespace reduction
}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_ACCUMULATOR_H
