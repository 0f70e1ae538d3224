// SPDX-License-Identifier: Apache-2.0
// Family `gather_nd` (x[i, j, ..] with tensors i, j, ..): an element of `out` is the one of `in` at
// the places that all index tensors have for it.
//
//   sl::gather_nd<GatherNdTune{.rank, .indices}>(ctx, team, shape, in, index_0, index_1, .., out)
//
// The loops are those of out. Along each of them every index tensor has a stride (0: it is
// broadcast), and `in` has one where the loop is a dim of it that no tensor indexes. Any strides.
// Index types int32 or int64, the same for all. An index in [-extent, 0) counts from the end of its
// dim. One outside [-extent, extent) is reported as SL_INDEX_ERROR (index, -extent, extent - 1),
// and nothing outside is read: place 0 is (a zero where there is none). Indices that are the same
// for a whole innermost loop are looked up once, and a contiguous loop is copied. In CUDA C++ a
// thread takes an element, and an index outside ends the kernel.
#ifndef STRAIGHTLINE_KERNELS_GATHER_ND_H
#define STRAIGHTLINE_KERNELS_GATHER_ND_H

#include "straightline/kernels/operands.h"

namespace sl {

struct GatherNdTune {
  int rank = 1;        ///< loops
  int indices = 1;     ///< index tensors
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct GatherNdShape {
  int64_t extent[SL_MAX_RANK] = {};  ///< of out
  /// elements: in, each index tensor, out
  int64_t stride[SL_MAX_RANK + 2][SL_MAX_RANK] = {};
  int64_t dimExtent[SL_MAX_RANK] = {};  ///< of `in` along the dim that each index tensor indexes
  int64_t dimStride[SL_MAX_RANK] = {};
};

/// The first K of some pointers of one type.
template <class P, int K>
struct Pointers {
  P at[K];
};
template <int K, class T>
SL_INLINE auto firstPointers(const T& tuple) {
  using P = decltype(get<0>(tuple) + 0);
  Pointers<P, K> result;
  unrolled<K>([&](auto k) SL_LAMBDA { result.at[k] = get<decltype(k)::value>(tuple); });
  return result;
}

#if defined(__CUDACC__)

/// The place of entry `index` along a dim; ends the kernel if it is outside.
SL_INLINE int64_t placeFromEnd(int64_t index, int64_t extent) {
  const int64_t place = index < 0 ? index + extent : index;
  failUnless(uint64_t(place) < uint64_t(extent), "an index lies outside of what is indexed");
  return place;
}

template <GatherNdTune T, class E, class... P>
SL_INLINE void gather_nd(GatherNdShape s, const E* in, P... pointers) {
  constexpr int K = T.indices;
  static_assert(sizeof...(P) == K + 1 && T.rank <= SL_MAX_RANK && K <= SL_MAX_RANK);
  const auto given = tupleOf(pointers...);
  const auto index = firstPointers<K>(given);
  int64_t at[K + 2] = {};
  if (!findElement<T.rank, T.firstBlock>(s.extent, s.stride, at)) {
    return;
  }
  int64_t from = at[0];
  SL_UNROLL
  for (int k = 0; k < K; ++k) {
    from += placeFromEnd(int64_t(index.at[k][at[1 + k]]), s.dimExtent[k]) * s.dimStride[k];
  }
  get<K>(given)[at[K + 1]] = in[from];
}

#else

/// The place of entry `index` along a dim; reports an index that is outside and returns -1.
SL_INLINE int64_t placeFromEnd(sl_ctx* ctx, int64_t index, int64_t extent) {
  const int64_t place = index < 0 ? index + extent : index;
  if (SL_UNLIKELY(uint64_t(place) >= uint64_t(extent))) {
    sl_fail_at(ctx, SL_INDEX_ERROR, index, -extent, extent - 1);
    return -1;
  }
  return place;
}

template <GatherNdTune T, class E, class... P>
SL_INLINE void gather_nd(sl_ctx* ctx, sl_team team, GatherNdShape s, const E* in, P... pointers) {
  constexpr int K = T.indices;
  constexpr int O = K + 2;
  static_assert(sizeof...(P) == K + 1 && T.rank <= SL_MAX_RANK && K <= SL_MAX_RANK);
  const auto given = tupleOf(pointers...);
  const auto index = firstPointers<K>(given);
  E* const out = get<K>(given);
  Nest<T.rank, O> nest;
  for (int d = 0; d < T.rank; ++d) {
    int64_t strides[O];
    for (int o = 0; o < O; ++o) {
      strides[o] = s.stride[o][d];
    }
    nest.append(s.extent[d], strides);
  }
  const Range part = split(nest.count(), team, 1024);
  if (part.begin >= part.end) {
    return;
  }
  bool isEmpty = false;    // nothing of `in` may be read
  bool isRepeated = true;  // along the innermost loop every index is the same
  for (int k = 0; k < K; ++k) {
    isEmpty = isEmpty || s.dimExtent[k] == 0;
    isRepeated = isRepeated && nest.innerStride(1 + k) == 0;
  }
  const int64_t run = nest.innerExtent();
  const int64_t inStep = nest.innerStride(0);
  const int64_t outStep = nest.innerStride(O - 1);
  const int dims = nest.rank > 0 ? nest.rank - 1 : 0;
  Cursor<T.rank, O> at;
  at.seek(nest, dims, part.begin / run);
  int64_t first = part.begin % run;
  int64_t count = 0;
  const auto offsetOf = [&](int k, int64_t i) SL_LAMBDA {
    const int64_t entry = int64_t(index.at[k][at.offset[1 + k] + i * nest.innerStride(1 + k)]);
    return maxOf(placeFromEnd(ctx, entry, s.dimExtent[k]), 0) * s.dimStride[k];
  };
  for (int64_t i = part.begin; i < part.end; i += count) {
    count = minOf(run - first, part.end - i);
    E* const to = out + at.offset[O - 1] + first * outStep;
    int64_t base = at.offset[0] + first * inStep;  // with what does not change along the loop
    SL_UNROLL
    for (int k = 0; k < K; ++k) {
      base += nest.innerStride(1 + k) == 0 ? offsetOf(k, 0) : 0;
    }
    int64_t j = 0;
    if (isRepeated && inStep == 1 && outStep == 1 && !isEmpty) {
      constexpr int N = kNativeLanes<E>;
      for (; j + N <= count; j += N) {
        store(to + j, load<N>(in + base + j));
      }
    }
    SL_NO_UNROLL
    for (; j < count; ++j) {
      int64_t from = base + j * inStep;
      SL_UNROLL
      for (int k = 0; k < K; ++k) {
        from += nest.innerStride(1 + k) == 0 ? 0 : offsetOf(k, first + j);
      }
      to[j * outStep] = isEmpty ? E{} : in[from];
    }
    first = 0;
    at.advance(nest, dims);
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GATHER_ND_H
