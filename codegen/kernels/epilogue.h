// SPDX-License-Identifier: Apache-2.0
// How the GEMM-like families call an epilogue. A family takes its trailing pointers as a pack: epilogue operands
// (`const T*`), then outputs (`T*`). The epilogue is `[](auto acc, auto e0, ..., auto& y0, ...)`; it is always called with
// vectors of N lanes: at a ragged edge the missing lanes repeat the first valid one (so no new trap or NaN can appear)
// and are not stored. Nothing outside the valid lanes is read or written.
#ifndef STRAIGHTLINE_KERNELS_EPILOGUE_H
#define STRAIGHTLINE_KERNELS_EPILOGUE_H

#include "straightline/kernels/vector.h"

namespace sl {

/// Most epilogue operands that a Shape has strides for.
inline constexpr int kMaxEpilogueOperands = 4;

template <int... I>
struct Indices {};

#if defined(__clang__)
template <class T, T... I>
struct IndicesOf {
  using Type = Indices<I...>;
};
template <int N>
using MakeIndices = typename __make_integer_seq<IndicesOf, int, N>::Type;
#else
template <int N>
using MakeIndices = Indices<__integer_pack(N)...>;
#endif

template <int I, class V>
struct Slot {
  V value;
};

template <int I, class V>
SL_INLINE V& slot(Slot<I, V>& s) {
  return s.value;
}
template <int I, class V>
SL_INLINE const V& slot(const Slot<I, V>& s) {
  return s.value;
}

/// Declared only: the type that a slot holds.
template <int I, class V>
V slotType(const Slot<I, V>& s);

template <class Is, class... V>
struct Slots;
template <int... I, class... V>
struct Slots<Indices<I...>, V...> : Slot<I, V>... {};

template <class P>
struct PointerTraits;
template <class T>
struct PointerTraits<T*> {
  using Element = T;
  static constexpr bool kIsInput = false;
};
template <class T>
struct PointerTraits<const T*> {
  using Element = T;
  static constexpr bool kIsInput = true;
};

/// The trailing pointers of a kernel, inputs (`const T*`) first.
template <class... P>
struct EpilogueOperands : Slots<MakeIndices<int(sizeof...(P))>, P...> {
  static constexpr int kInputs = (int(PointerTraits<P>::kIsInput) + ... + 0);
  static constexpr int kOutputs = int(sizeof...(P)) - kInputs;
  static_assert(kInputs <= kMaxEpilogueOperands, "too many epilogue operands");
  static_assert(kOutputs >= 1, "a kernel needs an output");
};

/// Element offset of one row (pixel) in every epilogue operand, and in the outputs (which share one layout).
struct RowOffsets {
  int64_t operand[kMaxEpilogueOperands];
  int64_t output;
};

/// Loads `count` (1..N) elements that lie `step` apart (0: one value for all lanes).
template <int N, class T>
SL_INLINE Wide<T, N> loadLanes(const T* p, int64_t step, int64_t count) {
  if (step == 0) {
    return loadSplat<N>(p);
  }
  if (step == 1 && count == N) {
    return load<N>(p);
  }
  T lanes[N];
  SL_NO_UNROLL
  for (int i = 0; i < N; ++i) {
    lanes[i] = p[i < count ? i * step : 0];
  }
  return load<N>(lanes);
}

/// Stores the first `count` lanes, `step` elements apart.
template <int N, class T, class V>
SL_INLINE void storeLanes(T* p, const V& v, int64_t step, int64_t count) {
  if (step == 1 && count == N) {
    store(p, v);
    return;
  }
  T lanes[N];
  store(lanes, v);
  SL_NO_UNROLL
  for (int i = 0; i < N; ++i) {  // not `i < count`: g++ would make it a memcpy of a size it then warns about
    if (i < count) {
      p[i * step] = lanes[i];
    }
  }
}

template <int N, class V, class Epilogue, class Ops, int... I, int... O>
SL_INLINE void finishLanes(const Epilogue& epilogue, const Ops& ops, const V& acc,
                           const RowOffsets& at, const int64_t* steps, int64_t column,
                           int64_t outputStep, int64_t count, Indices<I...>, Indices<O...>) {
  Slots<Indices<O...>,
        Wide<typename PointerTraits<decltype(slotType<Ops::kInputs + O>(ops))>::Element, N>...>
      results;
  epilogue(acc,
           loadLanes<N>(slot<I>(ops) + at.operand[I] + column * steps[I], steps[I], count)...,
           slot<O>(results)...);
  (storeLanes<N>(slot<Ops::kInputs + O>(ops) + at.output + column * outputStep, slot<O>(results),
                 outputStep, count),
   ...);
}

/// Runs the epilogue on `acc` = columns [column, column + count) of one row and stores its results. `steps[j]` is the
/// innermost stride of operand j, `outputStep` that of the outputs.
template <int N, class V, class Epilogue, class Ops>
SL_INLINE void finish(const Epilogue& epilogue, const Ops& ops, const V& acc, const RowOffsets& at,
                      const int64_t* steps, int64_t column, int64_t outputStep, int64_t count) {
  finishLanes<N>(epilogue, ops, acc, at, steps, column, outputStep, count,
                 MakeIndices<Ops::kInputs>{}, MakeIndices<Ops::kOutputs>{});
}

template <class... P>
SL_INLINE EpilogueOperands<P...> epilogueOperands(P... pointers) {
  return {{{pointers}...}};
}

template <class F, class All, int... I>
SL_INLINE void splitWorkspace(const F& f, const All& all, Indices<I...>) {
  f(epilogueOperands(slot<I>(all)...), slot<int(sizeof...(I))>(all));
}

/// Calls f(operands of all pointers but the last, last pointer): for families whose last pointer is `char* workspace`.
template <class F, class... P>
SL_INLINE void withWorkspace(const F& f, P... pointers) {
  const Slots<MakeIndices<int(sizeof...(P))>, P...> all{{pointers}...};
  splitWorkspace(f, all, MakeIndices<int(sizeof...(P)) - 1>{});
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_EPILOGUE_H
