// SPDX-License-Identifier: Apache-2.0
// Family `scatter_nd` (x[i, j, ..] = v with tensors i, j, ..; torch.scatter and its reductions): an
// element of src replaces the one of `out` at the places that all index tensors have for it, or is
// combined with it.
//
//   sl::scatter_nd<ScatterNdTune{.rank, .beside, .indices, .wrap, .combine}>(ctx, team, shape,
//                                                                index_0, index_1, .., src, out)
//
// `out` holds the old values already. The loops are those of src. The first `beside` of them are
// loops of `out` too, so that two of their positions never meet in one element; the others are
// those of the index tensors, along which `out` has no stride. Any strides. Index types int32 or
// int64, the same for all. With `wrap` an index in [-extent, 0) counts from the end of its dim. One
// outside is reported as SL_INDEX_ERROR (index, lowest, extent - 1), and its element is left out.
// Element types of src and out are equal; 16-bit floats are combined as float32 and rounded each
// time, sums of bools are `or`, products `and`. A team divides the positions beside the indices,
// and each is walked in the order of the others: of equal places the last one stays, and sums have
// one order. In CUDA C++ a thread takes one element of src: of equal places some one stays, and
// what is combined is combined by atomic operations in any order, both as in torch. An index
// outside ends the kernel.
#ifndef STRAIGHTLINE_KERNELS_SCATTER_ND_H
#define STRAIGHTLINE_KERNELS_SCATTER_ND_H

#include "straightline/kernels/gather_nd.h"
#include "straightline/kernels/gather_rows.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct ScatterNdTune {
  int rank = 1;        ///< loops
  int beside = 0;      ///< how many of them are loops of out
  int indices = 1;     ///< index tensors
  int wrap = 0;        ///< 1: negative indices count from the end
  int combine = 0;     ///< 0: replaces, 1: adds, 2: multiplies, 3: keeps the smaller, 4: the larger
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct ScatterNdShape {
  int64_t extent[SL_MAX_RANK] = {};  ///< of src
  /// elements: each index tensor, src, out
  int64_t stride[SL_MAX_RANK + 2][SL_MAX_RANK] = {};
  int64_t dimExtent[SL_MAX_RANK] = {};  ///< of `out` along the dim that each index tensor indexes
  int64_t dimStride[SL_MAX_RANK] = {};
};

namespace scatter_detail {

template <int COMBINE, class V>
SL_INLINE V combined(V old, V value) {
  if constexpr (COMBINE == 0) {
    return value;
  } else if constexpr (COMBINE == 3 || (COMBINE == 2 && kSame<V, bool>)) {
    return minimum(old, value);
  } else if constexpr (COMBINE == 4 || (COMBINE == 1 && kSame<V, bool>)) {
    return maximum(old, value);
  } else if constexpr (COMBINE == 1) {
    return add(old, value);
  } else {
    return multiply(old, value);
  }
}

/// The new element of a buffer, from its old value and an element of src.
template <int COMBINE, class E>
SL_INLINE E updated(E old, E value) {
  if constexpr (COMBINE != 0 && kPacked16<E>) {
    return cast<E>(combined<COMBINE>(cast<float>(old), cast<float>(value)));
  } else {
    return combined<COMBINE>(old, value);
  }
}

}  // namespace scatter_detail

#if defined(__CUDACC__)

namespace scatter_detail {

/// One atomic update: compare-and-swap of the aligned word that holds the element; the first try
/// assumes that the word is 0. Other elements in the word keep their values, also those that
/// another thread writes meanwhile.
template <int COMBINE, class E>
SL_INLINE void update(E* to, E value) {
  using W = typename Conditional<sizeof(E) == 8, unsigned long long, unsigned>::type;
  using Part = typename UnsignedOfSize<sizeof(E)>::type;
  const uint64_t address = reinterpret_cast<uint64_t>(to);
  W* const word = reinterpret_cast<W*>(address / sizeof(W) * sizeof(W));
  const int shift = int(address % sizeof(W)) * 8;
  constexpr W kMask = W(Part(~Part(0)));
  W seen = 0;
  for (;;) {
    const E next = updated<COMBINE>(bitcast<E>(Part(seen >> shift)), value);
    const W wanted = (seen & ~(kMask << shift)) | (W(bitcast<Part>(next)) << shift);
    const W found = atomicCAS(word, seen, wanted);
    if (found == seen) {
      return;
    }
    seen = found;
  }
}

}  // namespace scatter_detail

template <ScatterNdTune T, class... P>
SL_INLINE void scatter_nd(ScatterNdShape s, P... pointers) {
  constexpr int K = T.indices;
  static_assert(sizeof...(P) == K + 2 && T.rank <= SL_MAX_RANK && K <= SL_MAX_RANK);
  const auto given = tupleOf(pointers...);
  const auto index = firstPointers<K>(given);
  int64_t at[K + 2] = {};
  if (!findElement<T.rank, T.firstBlock>(s.extent, s.stride, at)) {
    return;
  }
  int64_t place = at[K + 1];
  SL_UNROLL
  for (int k = 0; k < K; ++k) {
    const int64_t entry = int64_t(index.at[k][at[k]]);
    place +=
        (T.wrap != 0 ? placeFromEnd(entry, s.dimExtent[k]) : checkedIndex(entry, s.dimExtent[k])) *
        s.dimStride[k];
  }
  auto* const to = get<K + 1>(given) + place;
  const auto value = get<K>(given)[at[K]];
  using E = Pointee<decltype(get<K + 1>(given) + 0)>;
  if constexpr (T.combine == 0) {
    *to = value;
  } else if constexpr (T.combine == 1 && (kSame<E, float> || kSame<E, double>)) {
    atomicAdd(to, value);
  } else if constexpr (T.combine == 1 && sizeof(E) == 4) {
    atomicAdd(reinterpret_cast<unsigned*>(to), unsigned(value));
  } else if constexpr (T.combine == 1 && sizeof(E) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  } else {
    scatter_detail::update<T.combine>(to, value);
  }
}

#else

template <ScatterNdTune T, class... P>
SL_INLINE void scatter_nd(sl_ctx* ctx, sl_team team, ScatterNdShape s, P... pointers) {
  constexpr int K = T.indices;
  constexpr int O = K + 2;
  static_assert(sizeof...(P) == O && T.beside <= T.rank && T.rank <= SL_MAX_RANK);
  constexpr int64_t kPiece = 256;  // neighbours that are walked together: lines are used whole
  const auto given = tupleOf(pointers...);
  const auto index = firstPointers<K>(given);
  auto* const out = get<K + 1>(given);
  Nest<T.beside, O> beside;
  Nest<T.rank - T.beside, O> along;
  for (int d = 0; d < T.rank; ++d) {
    int64_t strides[O];
    for (int o = 0; o < O; ++o) {
      strides[o] = s.stride[o][d];
    }
    d < T.beside ? beside.append(s.extent[d], strides) : along.append(s.extent[d], strides);
  }
  const int64_t run = beside.innerExtent();
  const int64_t count = along.count();
  if (beside.count() == 0 || count == 0) {
    return;
  }
  bool isRepeated = true;  // along the innermost loop beside them every index is the same
  for (int k = 0; k < K; ++k) {
    isRepeated = isRepeated && beside.innerStride(k) == 0;
  }
  const int64_t srcStep = beside.innerStride(K);
  const int64_t outStep = beside.innerStride(K + 1);
  const int dims = beside.rank > 0 ? beside.rank - 1 : 0;
  const int64_t pieces = ceilDiv(run, kPiece);
  const Range part =
      split(beside.count() / run * pieces, team, ceilDiv(4096, count * minOf(run, kPiece)));
  Cursor<T.beside, O> at;
  // Finds the place in `out` of one element of src; false if an index is outside.
  const auto findPlace = [&](const int64_t* offset, int64_t i, int64_t* place) SL_LAMBDA {
    bool isInside = true;
    *place = 0;
    SL_UNROLL
    for (int k = 0; k < K; ++k) {
      const int64_t entry =
          int64_t(index.at[k][at.offset[k] + offset[k] + i * beside.innerStride(k)]);
      int64_t found = entry;
      if constexpr (T.wrap != 0) {
        found = placeFromEnd(ctx, entry, s.dimExtent[k]);
      } else if (SL_UNLIKELY(uint64_t(entry) >= uint64_t(s.dimExtent[k]))) {
        sl_fail_at(ctx, SL_INDEX_ERROR, entry, 0, s.dimExtent[k] - 1);
        found = -1;
      }
      isInside = isInside && found >= 0;
      *place += found * s.dimStride[k];
    }
    return isInside;
  };
  for (int64_t i = part.begin; i < part.end; ++i) {
    at.seek(beside, dims, i / pieces);
    const int64_t first = i % pieces * kPiece;
    const int64_t last = minOf(first + kPiece, run);
    Cursor<T.rank - T.beside, O> step;
    step.seek(along, along.rank, 0);
    for (int64_t m = 0; m < count; ++m, step.advance(along, along.rank)) {
      const auto* const from = get<K>(given) + at.offset[K] + step.offset[K];
      auto* const to = out + at.offset[K + 1];
      int64_t place = 0;
      if (isRepeated && !findPlace(step.offset, 0, &place)) {
        continue;
      }
      for (int64_t k = first; k < last; ++k) {
        if (isRepeated || findPlace(step.offset, k, &place)) {
          auto& element = to[place + k * outStep];
          element = scatter_detail::updated<T.combine>(element, from[k * srcStep]);
        }
      }
    }
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_SCATTER_ND_H
