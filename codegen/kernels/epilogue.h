// SPDX-License-Identifier: Apache-2.0
// How the GEMM-like families call an epilogue. A family takes its trailing pointers as a pack:
// epilogue operands
// (`const T*`), then outputs (`T*`). The epilogue is `[](auto acc, auto e0, ..., auto& y0, ...)`;
// it is always called with vectors of N lanes: at a ragged edge the missing lanes repeat a valid
// one (so no new trap or NaN can appear) and are not stored. Nothing outside the valid lanes is
// read or written. In CUDA C++ (cuda_epilogue.h) it is called with scalars.
#ifndef STRAIGHTLINE_KERNELS_EPILOGUE_H
#define STRAIGHTLINE_KERNELS_EPILOGUE_H

#include "straightline/kernels/operands.h"

namespace sl {

/// Most epilogue operands that a Shape has strides for.
inline constexpr int kMaxEpilogueOperands = 4;

/// Declared only: the type that a leaf holds.
template <int I, class T>
T leafType(const Leaf<I, T>& leaf);

template <class P>
inline constexpr bool kIsInput = false;
template <class T>
inline constexpr bool kIsInput<const T*> = true;

/// The trailing pointers of a kernel, inputs (`const T*`) first.
template <class... P>
struct EpilogueOperands : Tuple<P...> {
  static constexpr int kInputs = (int(kIsInput<P>) + ... + 0);
  static constexpr int kOutputs = int(sizeof...(P)) - kInputs;
  static_assert(kInputs <= kMaxEpilogueOperands, "too many epilogue operands");
  static_assert(kOutputs >= 1, "a kernel needs an output");
};

/// Element offset of one row (pixel) in every epilogue operand, and in the outputs (which share one
/// layout).
struct RowOffsets {
  int64_t operand[kMaxEpilogueOperands];
  int64_t output;
};

#if !defined(__CUDACC__)
template <int N, class V, class Epilogue, class Ops, int... I, int... O>
SL_INLINE void finishLanes(const Epilogue& epilogue, const Ops& ops, const V& acc,
                           const RowOffsets& at, const int64_t* steps, int64_t column,
                           int64_t outputStep, int count, Ints<I...>, Ints<O...>) {
  TupleOf<Ints<O...>, Wide<Pointee<decltype(leafType<Ops::kInputs + O>(ops))>, N>...> results;
  epilogue(acc, loadLanes<N>(get<I>(ops) + at.operand[I] + column * steps[I], steps[I], count)...,
           get<O>(results)...);
  (storeLanes(get<Ops::kInputs + O>(ops) + at.output + column * outputStep, outputStep, count,
              get<O>(results)),
   ...);
}

/// Runs the epilogue on `acc` = columns [column, column + count) of one row and stores its results.
/// `steps[j]` is the innermost stride of operand j, `outputStep` that of the outputs.
template <int N, class V, class Epilogue, class Ops>
SL_INLINE void finish(const Epilogue& epilogue, const Ops& ops, const V& acc, const RowOffsets& at,
                      const int64_t* steps, int64_t column, int64_t outputStep, int64_t count) {
  // Written so that the compiler still knows a count of N after the conversion to int.
  finishLanes<N>(epilogue, ops, acc, at, steps, column, outputStep, count >= N ? N : int(count),
                 IntsUpTo<Ops::kInputs>{}, IntsUpTo<Ops::kOutputs>{});
}
#endif  // __CUDACC__

template <class... P>
SL_INLINE EpilogueOperands<P...> epilogueOperands(P... pointers) {
  return {{{pointers}...}};
}

template <class F, class All, int... I>
SL_INLINE void splitWorkspace(const F& f, const All& all, Ints<I...>) {
  f(epilogueOperands(get<I>(all)...), reinterpret_cast<char*>(get<int(sizeof...(I))>(all)));
}

/// Calls f(operands of all pointers but the last, last pointer): for families whose last pointer is
/// `char* workspace`.
template <class F, class... P>
SL_INLINE void withWorkspace(const F& f, P... pointers) {
  const Tuple<P...> all = tupleOf(pointers...);
  splitWorkspace(f, all, IntsUpTo<int(sizeof...(P)) - 1>{});
}

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_epilogue.h"
#endif

#endif  // STRAIGHTLINE_KERNELS_EPILOGUE_H
