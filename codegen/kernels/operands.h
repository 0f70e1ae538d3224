// SPDX-License-Identifier: Apache-2.0
// Shared by the strided families: packs of operands, loads and stores of a few lanes, and loop
// nests that are simplified (dims merged, reordered) before they run. A shape that is known when
// the kernel is compiled is passed as Fixed<shape>: then the nest is a constant, and only the
// branch that it takes is compiled. One of which a single extent is found at run time, a named
// batch as a rule, is passed as Batched<shape, dim>.
#ifndef STRAIGHTLINE_KERNELS_OPERANDS_H
#define STRAIGHTLINE_KERNELS_OPERANDS_H

#include "straightline/kernels/vector.h"

namespace sl {

inline constexpr int kMaxOperands = 16;

/// A shape that is known when the kernel is compiled. It converts to the shape, for families that
/// have no special code for it.
template <auto SHAPE>
struct Fixed {
  using Shape = decltype(SHAPE);
  SL_INLINE_MEMBER constexpr operator Shape() const { return SHAPE; }
};

/// A shape of which the extent of dim DIM alone is found at run time: it is 1 in SHAPE. It converts
/// to the shape; `extentsOf` gives a family's extents that DIM is among.
template <auto SHAPE, int DIM>
struct Batched {
  using Shape = decltype(SHAPE);
  int64_t count;

  SL_INLINE_MEMBER constexpr operator Shape() const {
    Shape shape = SHAPE;
    extentsOf(shape)[DIM] = count;
    return shape;
  }
};

// ---- packs ----

template <int... I>
struct Ints {};
#if defined(__clang__)
template <class T, T... I>
struct MakeInts {
  using type = Ints<I...>;
};
template <int N>
using IntsUpTo = typename __make_integer_seq<MakeInts, int, N>::type;
#elif defined(__CUDACC__)
template <int N, int... I>
struct MakeInts : MakeInts<N - 1, N - 1, I...> {};
template <int... I>
struct MakeInts<0, I...> {
  using type = Ints<I...>;
};
template <int N>
using IntsUpTo = typename MakeInts<N>::type;
#else
template <int N>
struct MakeInts {
  using type = Ints<__integer_pack(N)...>;
};
template <int N>
using IntsUpTo = typename MakeInts<N>::type;
#endif

template <int I, class T>
struct Leaf {
  T value;
};
template <class S, class... T>
struct TupleOf;
template <int... I, class... T>
struct TupleOf<Ints<I...>, T...> : Leaf<I, T>... {};
/// An aggregate of values of different types.
template <class... T>
using Tuple = TupleOf<IntsUpTo<sizeof...(T)>, T...>;

template <int I, class T>
SL_INLINE T& get(Leaf<I, T>& leaf) {
  return leaf.value;
}
template <int I, class T>
SL_INLINE const T& get(const Leaf<I, T>& leaf) {
  return leaf.value;
}
template <class... T>
SL_INLINE Tuple<T...> tupleOf(T... values) {
  return Tuple<T...>{{values}...};
}

template <class P>
struct PointeeOf;
template <class T>
struct PointeeOf<T*> {
  using type = T;
};
template <class T>
struct PointeeOf<const T*> {
  using type = T;
};
template <class P>
using Pointee = typename PointeeOf<P>::type;

#if !defined(__CUDACC__)
// ---- lanes ----

/// Copies `count` < N elements in pieces of N/2, N/4, ... 1.
template <int N, class T>
SL_INLINE void copyPieces(T* to, const T* from, int count) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    if ((count & kHalf) != 0) {
      __builtin_memcpy(to, from, kHalf * sizeof(T));
      to += kHalf;
      from += kHalf;
    }
    copyPieces<kHalf>(to, from, count);
  }
}

/// Lanes p[0], p[2], p[4], ...; reads nothing beyond the last of them.
template <class T, int... I>
SL_INLINE vec<T, int(sizeof...(I))> loadEven(const T* p, Ints<I...>) {
  constexpr int N = sizeof...(I);
  auto first = load<N>(p);
  auto second = load<N>(p + N - 1);  // its odd lanes are p[N], p[N + 2], ...
  return __builtin_shufflevector(first, second, (I < N / 2 ? 2 * I : 2 * I + 1)...);
}

/// Lanes p[0], p[stride], ... of which the first `count` exist; the others repeat the last one.
template <int N, class T>
SL_INLINE Wide<T, N> loadLanes(const T* p, int64_t stride, int count) {
  if constexpr (N == 1) {
    return *p;
  } else {
    if (stride == 0) {
      return loadSplat<N>(p);
    }
    if (count == N) {
      if (stride == 1) {
        return load<N>(p);
      }
      if constexpr (Vector<Wide<T, N>>) {
        if (stride == 2) {
          return loadEven(p, IntsUpTo<N>{});
        }
      }
      return loadStrided<N>(p, stride);
    }
    T buffer[N];
    store(buffer, loadSplat<N>(p + (count - 1) * stride));
    if (stride == 1) {
      copyPieces<N>(buffer, p, count);
    } else {
      for (int i = 0; i < count; ++i) {
        buffer[i] = p[i * stride];
      }
    }
    auto lanes = load<N>(buffer);
    if constexpr (kSame<T, int64_t> || kSame<T, uint64_t>) {
      // LLVM 22.1 miscompiles this for AVX-512: of two i64 that are loaded beside repeated ones,
      // converted to float and copied as 8 bytes, it copies one twice.
      lanes = forgotten(lanes);
    }
    return lanes;
  }
}
template <class T, class V>
SL_INLINE void storeLanes(T* p, int64_t stride, int count, V v) {
  constexpr int N = kLanes<V>;
  if (stride == 1 && count == N) {
    store(p, v);
    return;
  }
  T buffer[N];
  store(buffer, v);
  if (stride == 1) {
    copyPieces<N>(p, buffer, count);
    return;
  }
  for (int i = 0; i < count; ++i) {
    p[i * stride] = buffer[i];
  }
}

/// The first `count` lanes of x (which may be none, or more than there are), then those of `rest`.
template <class V>
SL_INLINE V firstLanes(V x, int64_t count, V rest) {
  constexpr int N = kLanes<V>;
  using Number = typename SignedOfSize<sizeof(Element<V>)>::type;
  vec<Number, N> lane;
  SL_UNROLL
  for (int i = 0; i < N; ++i) {
    lane[i] = Number(i);
  }
  const Number bound = Number(minOf(maxOf(count, 0), N));
  return select(Mask<Number, N>(lane < splat<vec<Number, N>>(bound)), x, rest);
}

/// Lanes for operands of these types: as many as a register holds of the widest type, at most 32.
template <class... T>
SL_INLINE constexpr int lanesFor() {
  int bytes = 1;
  ((bytes = bytes < int(sizeof(T)) ? int(sizeof(T)) : bytes), ...);
  int lanes = kVectorBytes / bytes;
  return lanes > 32 ? 32 : lanes;
}

#endif  // __CUDACC__

// ---- loop nests ----

/// Up to R nested loops over O operands, outermost first; strides in elements.
template <int R, int O>
struct Nest {
  int rank = 0;
  int64_t extent[R + 1] = {};
  int64_t stride[O][R + 1] = {};

  SL_INLINE_MEMBER constexpr int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) {
      n *= extent[d];
    }
    return n;
  }
  SL_INLINE_MEMBER constexpr void swapDims(int a, int b) {
    int64_t e = extent[a];
    extent[a] = extent[b];
    extent[b] = e;
    for (int o = 0; o < O; ++o) {
      int64_t s = stride[o][a];
      stride[o][a] = stride[o][b];
      stride[o][b] = s;
    }
  }
  /// Appends a loop; loops of one iteration are left out, and one that continues the loop before it
  /// for every operand is merged into that.
  SL_INLINE_MEMBER constexpr void append(int64_t n, const int64_t (&strides)[O]) {
    if (n == 1) {
      return;
    }
    bool merge = rank > 0;
    for (int o = 0; merge && o < O; ++o) {
      merge = stride[o][rank - 1] == strides[o] * n;
    }
    int d = merge ? rank - 1 : rank;
    extent[d] = merge ? extent[d] * n : n;
    for (int o = 0; o < O; ++o) {
      stride[o][d] = strides[o];
    }
    rank = d + 1;
  }
  /// The innermost loop (one iteration when there is none).
  SL_INLINE_MEMBER constexpr int64_t innerExtent() const { return rank > 0 ? extent[rank - 1] : 1; }
  SL_INLINE_MEMBER constexpr int64_t innerStride(int o) const {
    return rank > 0 ? stride[o][rank - 1] : 0;
  }
  /// Whether each operand is contiguous or constant along the innermost loop.
  SL_INLINE_MEMBER constexpr bool innerIsVector() const {
    bool result = true;
    for (int o = 0; o < O; ++o) {
      int64_t s = innerStride(o);
      result = result && (s == 0 || s == 1);
    }
    return result;
  }
};

/// Position in the first `dims` loops of a nest: one index per loop and one offset (elements) per
/// operand.
template <int R, int O>
struct Cursor {
  int64_t index[R + 1] = {};
  int64_t offset[O] = {};

  SL_INLINE_MEMBER void seek(const Nest<R, O>& nest, int dims, int64_t linear) {
    for (int o = 0; o < O; ++o) {
      offset[o] = 0;
    }
    for (int d = dims - 1; d >= 0; --d) {
      index[d] = linear % nest.extent[d];
      linear /= nest.extent[d];
      for (int o = 0; o < O; ++o) {
        offset[o] += index[d] * nest.stride[o][d];
      }
    }
  }
  /// advance() where the number of loops is known.
  template <int DIMS>
  SL_INLINE_MEMBER void advanceFixed(const Nest<R, O>& nest) {
    if constexpr (DIMS > 0) {
      constexpr int D = DIMS - 1;
      if (++index[D] < nest.extent[D]) {
        for (int o = 0; o < O; ++o) {
          offset[o] += nest.stride[o][D];
        }
        return;
      }
      index[D] = 0;
      for (int o = 0; o < O; ++o) {
        offset[o] -= (nest.extent[D] - 1) * nest.stride[o][D];
      }
      advanceFixed<D>(nest);
    }
  }
  SL_INLINE_MEMBER void advance(const Nest<R, O>& nest, int dims) {
    for (int d = dims - 1; d >= 0; --d) {
      if (++index[d] < nest.extent[d]) {
        for (int o = 0; o < O; ++o) {
          offset[o] += nest.stride[o][d];
        }
        return;
      }
      index[d] = 0;
      for (int o = 0; o < O; ++o) {
        offset[o] -= (nest.extent[d] - 1) * nest.stride[o][d];
      }
    }
  }
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_operands.h"
#endif

#endif  // STRAIGHTLINE_KERNELS_OPERANDS_H
