// SPDX-License-Identifier: Apache-2.0
// How contractions in CUDA C++ load operands, sum over lanes and finish results: 16-byte pieces,
// and the epilogue on a run of neighbours of one row. Included by epilogue.h, which defines
// epilogues.
#ifndef STRAIGHTLINE_KERNELS_CUDA_EPILOGUE_H
#define STRAIGHTLINE_KERNELS_CUDA_EPILOGUE_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

/// What products of elements T are summed in.
template <class T>
using SumOf = typename Conditional<kSame<T, double>, double, float>::type;

/// Elements T of one load of 16 bytes.
template <class T>
inline constexpr int kWholePiece = 16 / int(sizeof(T));

/// Element `number` of elements T that were loaded as words, converted to the type of sums; a
/// bfloat16 becomes a float by one operation on its word.
template <class Sum, class T>
SL_INLINE Sum partAs(const uint32_t* words, int number) {
  if constexpr (kSame<T, bfloat16> && kSame<Sum, float>) {
    const uint32_t word = words[number / 2];
    return bitcast<float>(number % 2 != 0 ? word & 0xffff0000u : word << 16);
  } else if constexpr (sizeof(T) == 2) {
    return cast<Sum>(partOf<T>(words[number / 2], number % 2));
  } else if constexpr (sizeof(T) == 4) {
    return cast<Sum>(bitcast<T>(words[number]));
  } else {
    return cast<Sum>(
        bitcast<T>(uint64_t(words[2 * number]) | uint64_t(words[2 * number + 1]) << 32));
  }
}

/// Whether `p` lies at a multiple of N elements.
template <int N, class T>
SL_INLINE bool isAligned(const T* p) {
  return (reinterpret_cast<uint64_t>(p) & (unsigned(sizeof(T)) * N - 1)) == 0;
}

/// The value of the lane whose number differs from this one's in the bits of `distance`.
template <class T>
SL_INLINE T laneAt(T value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}

/// Sums each of COUNT values over LANES neighbouring lanes. While the number of values is even,
/// each half of the lanes goes on with one half of the values, so that COUNT = LANES = 32 takes 31
/// exchanges. A lane ends with kLeft of the sums, from number first() on. Lanes whose numbers
/// differ in bits of kCopies alone have the same sums, and isFirst() holds for one of these lanes.
template <int COUNT, int LANES>
struct LaneSum {
  static constexpr bool kHalves = LANES > 1 && COUNT % 2 == 0;
  using Next = LaneSum<kHalves ? COUNT / 2 : COUNT, LANES / 2>;
  static constexpr int kLeft = Next::kLeft;
  static constexpr unsigned kCopies = Next::kCopies | (kHalves ? 0 : unsigned(LANES / 2));

  SL_INLINE int first() {
    return (kHalves && (threadIdx.x & (LANES / 2)) != 0 ? COUNT / 2 : 0) + Next::first();
  }
  SL_INLINE bool isFirst() { return (threadIdx.x & kCopies) == 0; }
  template <class T>
  SL_INLINE void sum(T* values) {
    if constexpr (kHalves) {
      bool upper = (threadIdx.x & (LANES / 2)) != 0;
      SL_UNROLL
      for (int i = 0; i < COUNT / 2; ++i) {
        T other = upper ? values[i] : values[i + COUNT / 2];
        T mine = upper ? values[i + COUNT / 2] : values[i];
        values[i] = mine + laneAt(other, LANES / 2);
      }
    } else {
      SL_UNROLL
      for (int i = 0; i < COUNT; ++i) {
        values[i] += laneAt(values[i], LANES / 2);
      }
    }
    Next::sum(values);
  }
};
template <int COUNT>
struct LaneSum<COUNT, 1> {
  static constexpr int kLeft = COUNT;
  static constexpr unsigned kCopies = 0;
  SL_INLINE int first() { return 0; }
  SL_INLINE bool isFirst() { return true; }
  template <class T>
  SL_INLINE void sum(T*) {}
};

/// Operands of the epilogue for N neighbours of a row, in registers. They are loaded before the
/// sums are computed, so that finish() need not wait for memory.
template <int N, class Ops, class I = IntsUpTo<Ops::kInputs>, class O = IntsUpTo<Ops::kOutputs>>
struct EpilogueRun;
template <int N, class Ops, int... I, int... O>
struct EpilogueRun<N, Ops, Ints<I...>, Ints<O...>> {
  template <int J>
  using At = Pointee<decltype(leafType<J>(*static_cast<const Ops*>(nullptr)))>;
  TupleOf<Ints<I...>, Held<At<I>, N>...> operands;

  /// Elements [column, column + count) of a row; steps: innermost strides.
  SL_INLINE_MEMBER void load(const Ops& ops, const RowOffsets& at, const int64_t* steps,
                             int64_t column, int count) {
    (get<I>(operands).load(get<I>(ops) + at.operand[I] + column * steps[I], steps[I], count), ...);
  }
  /// The same for N elements that lie side by side and begin at a multiple of their size.
  SL_INLINE_MEMBER void loadWhole(const Ops& ops, const RowOffsets& at, int64_t column) {
    (get<I>(operands).loadWhole(get<I>(ops) + at.operand[I] + column), ...);
  }
  /// Results of outputs whose innermost stride is `step`. All N are computed, so that they do not
  /// wait for each other, and the first `count` stored.
  template <class V, class Epilogue>
  SL_INLINE_MEMBER void finish(const Epilogue& epilogue, const Ops& ops, const V* sums,
                               int64_t output, int count, int64_t step = 1) {
    Results results;
    compute(epilogue, sums, results);
    (storeRun<N>(get<Ops::kInputs + O>(ops) + output, step, count, get<O>(results).at), ...);
  }
  /// The same for N results that lie side by side and begin at a multiple of their size.
  template <class V, class Epilogue>
  SL_INLINE_MEMBER void finishWhole(const Epilogue& epilogue, const Ops& ops, const V* sums,
                                    int64_t output) {
    Results results;
    compute(epilogue, sums, results);
    (storePieces<N>(get<Ops::kInputs + O>(ops) + output, get<O>(results).at), ...);
  }

 private:
  using Results = TupleOf<Ints<O...>, Run<At<Ops::kInputs + O>, N>...>;
  template <class V, class Epilogue>
  SL_INLINE_MEMBER void compute(const Epilogue& epilogue, const V* sums, Results& results) const {
    SL_UNROLL
    for (int j = 0; j < N; ++j) {
      epilogue(sums[j], get<I>(operands).at(j)..., get<O>(results).at[j]...);
    }
  }
};

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_EPILOGUE_H
