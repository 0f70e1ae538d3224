// SPDX-License-Identifier: Apache-2.0
// The body of family `pointwise` in CUDA C++; included by pointwise.h, which says what it does.
//
//   sl::pointwise<PointwiseTune{.rank, .inputs, .vector}>(shape, f, inputs..., outputs...)
//
// Thread i of a one-dimensional grid takes the i-th run of `vector` neighbours along the innermost
// loop, in pieces of up to 16 bytes where addresses allow it. The grid has at least one thread a
// run: product of the outer extents times ceil(innermost extent / vector).
#ifndef STRAIGHTLINE_KERNELS_CUDA_POINTWISE_H
#define STRAIGHTLINE_KERNELS_CUDA_POINTWISE_H

#include "straightline/kernels/operands.h"

namespace sl {
namespace pointwise_detail {

/// Offsets of run `number`, and where it begins along the innermost loop. INDEX: the narrowest type
/// that numbers all runs, for divisions of 64 bits are slow.
template <PointwiseTune T, class INDEX, int O>
SL_INLINE INDEX seek(const PointwiseShape& shape, INDEX number, INDEX runs, int64_t (&offset)[O]) {
  INDEX first = number % runs * T.vector;
  number /= runs;
  SL_UNROLL
  for (int o = 0; o < O; ++o) {
    offset[o] = T.rank > 0 ? int64_t(first) * shape.stride[o][T.rank > 0 ? T.rank - 1 : 0] : 0;
  }
  SL_UNROLL
  for (int d = T.rank - 2; d >= 0; --d) {
    INDEX extent = INDEX(shape.extent[d]);
    int64_t at = int64_t(number % extent);
    number /= extent;
    SL_UNROLL
    for (int o = 0; o < O; ++o) {
      offset[o] += at * shape.stride[o][d];
    }
  }
  return first;
}

template <PointwiseTune T, class F, class B, int... I>
SL_INLINE void run(const PointwiseShape& shape, F f, B& base, const int64_t* offset, int count,
                   Ints<I...>) {
  constexpr int N = T.vector;
  constexpr int kLast = T.rank > 0 ? T.rank - 1 : 0;
  auto values =
      tupleOf(Run<Pointee<typename RemoveReference<decltype(get<I>(base))>::type>, N>{}...);
  auto stride = [&](int o) { return T.rank > 0 ? shape.stride[o][kLast] : 0; };
  unrolled<T.inputs>([&](auto i) {
    constexpr int K = decltype(i)::value;
    loadRun<N>(get<K>(values).at, get<K>(base) + offset[K], stride(K), count);
  });
  SL_UNROLL
  for (int j = 0; j < N; ++j) {  // all of them: behind branches they would wait for each other
    f(get<I>(values).at[j]...);
  }
  unrolled<int(sizeof...(I)) - T.inputs>([&](auto i) {
    constexpr int K = T.inputs + decltype(i)::value;
    storeRun<N>(get<K>(base) + offset[K], stride(K), count, get<K>(values).at);
  });
}

}  // namespace pointwise_detail

template <PointwiseTune T, class F, class... P>
SL_INLINE void pointwise(PointwiseShape shape, F f, P... pointers) {
  namespace detail = pointwise_detail;
  constexpr int O = sizeof...(P);
  static_assert(O > T.inputs && O <= kMaxOperands && T.rank <= SL_MAX_RANK && T.vector >= 1);
  auto base = tupleOf(pointers...);
  int64_t inner = T.rank > 0 ? shape.extent[T.rank > 0 ? T.rank - 1 : 0] : 1;
  int64_t runs = ceilDiv(inner, T.vector);
  int64_t all = runs;
  SL_UNROLL
  for (int d = 0; d < T.rank - 1; ++d) {
    all *= shape.extent[d];
  }
  int64_t number = threadNumber<T.firstBlock>();
  if (number >= all) {
    return;
  }
  int64_t offset[O];
  int64_t first = all <= 0x7fffffff
                      ? int64_t(detail::seek<T>(shape, uint32_t(number), uint32_t(runs), offset))
                      : int64_t(detail::seek<T>(shape, uint64_t(number), uint64_t(runs), offset));
  detail::run<T>(shape, f, base, offset, int(minOf(T.vector, inner - first)), IntsUpTo<O>{});
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_POINTWISE_H
