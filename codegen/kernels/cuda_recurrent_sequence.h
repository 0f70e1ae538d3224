// SPDX-License-Identifier: Apache-2.0
// The body of family `recurrent_sequence`; included by recurrent_sequence.h, which says what it
// computes.
//
// A cluster computes all steps for `rows` rows of the batch. Its blocks share the units, and
// `lanes` neighbouring threads compute one unit: each keeps its columns of the unit's rows of the
// weight, one a gate, in registers across all steps. A step does this:
//   1. wait until all of the last step's h is in this block's shared memory,
//   2. multiply and add, sum over the lanes: every lane has the unit's gates and computes its
//      state,
//   3. lane j sends h to block j of the cluster (st.async, which counts at the receiver's barrier;
//      cuda_cluster.h).
// So the weight is read once, and blocks synchronize only through the values that they send. There
// are two buffers for h, used alternately: a block that has all of h[t + 1] knows that every block
// has read h[t], because each sent its own h[t + 1] after that. Persistent RNNs (Diamos et al.,
// ICML 2016) introduced weights that stay in registers across steps.
#ifndef STRAIGHTLINE_KERNELS_CUDA_RECURRENT_SEQUENCE_H
#define STRAIGHTLINE_KERNELS_CUDA_RECURRENT_SEQUENCE_H

#include "straightline/kernels/cuda_cluster.h"
#include "straightline/kernels/cuda_epilogue.h"

namespace sl {
namespace recurrent_sequence_detail {

inline constexpr int kLstm = 4, kGru = 3, kRnn = 1;  ///< gates
inline constexpr int kRun = 4;                       ///< neighbouring columns of a lane

template <class Sum>
SL_INLINE Sum sigmoid(Sum x) {
  return Sum(1) / (Sum(1) + exp(-x));
}

/// What is the same for all steps.
template <RecurrentSequenceTune T>
struct Layout {
  static constexpr int kUnits = (T.hidden + T.blocks - 1) / T.blocks;  ///< of a block
  static constexpr int kRuns = (T.hidden + kRun * T.lanes - 1) / (kRun * T.lanes);
  /// of a row of h: zeros behind `hidden`
  static constexpr int kWidth = kRuns * kRun * T.lanes;
  static_assert(T.gates == kGru || ((T.gates == kLstm || T.gates == kRnn) && T.bias == 0));
  static_assert(T.relu == 0 || T.gates == kRnn);
  static_assert(T.threads % 32 == 0 && T.threads >= kUnits * T.lanes && T.blocks <= T.lanes &&
                (T.blocks - 1) * kUnits < T.hidden);
};

/// A thread's unit, and what the thread keeps in registers across steps.
template <RecurrentSequenceTune Tune, class T>
struct Sequence {
  using L = Layout<Tune>;
  using Sum = SumOf<T>;
  static constexpr int kGates = Tune.gates, kRows = Tune.rows;
  static constexpr bool kIsLstm = kGates == kLstm;
  static constexpr int kStates = kIsLstm ? 2 : 1;
  RecurrentSequenceShape s;
  int lane, unit;
  bool isUnit;    ///< there is a unit for this thread
  int64_t first;  ///< row of the batch
  Sum weights[kGates][L::kRuns * kRun];
  Sum state[kRows] = {};  ///< c; the unit's own h where gates are a GRU's
  Sum bias = Sum(0);
  T next[kRows][kGates];  ///< what x contributes to a step, requested a step ahead

  SL_INLINE_MEMBER Sequence(const RecurrentSequenceShape& shape, int block) : s(shape) {
    const int place = int(threadIdx.x) / Tune.lanes;
    lane = int(threadIdx.x) % Tune.lanes;
    unit = block * L::kUnits + place;
    isUnit = place < L::kUnits && unit < Tune.hidden;
    first = int64_t(blockIdx.x) / Tune.blocks * kRows;
  }

  SL_INLINE_MEMBER void loadWeights(const T* weight) {
    SL_UNROLL
    for (int gate = 0; gate < kGates; ++gate) {
      const T* const row =
          weight + (int64_t(gate) * Tune.hidden + (isUnit ? unit : 0)) * s.weightStride;
      SL_UNROLL
      for (int i = 0; i < L::kRuns * kRun; ++i) {
        const int column = (i / kRun * Tune.lanes + lane) * kRun + i % kRun;
        weights[gate][i] = isUnit && column < Tune.hidden ? cast<Sum>(row[column]) : Sum(0);
      }
    }
  }

  /// The block's copies of h before the first step. h0 is not read where Tune.start is 0.
  SL_INLINE_MEMBER void beginHidden(const T* h0, Sum (&held)[2][kRows][L::kWidth]) {
    const int64_t rows = s.batch - first;
    for (int i = int(threadIdx.x); i < kRows * L::kWidth; i += Tune.threads) {
      const int row = i / L::kWidth, column = i % L::kWidth;
      Sum value(0);
      if constexpr (Tune.start != 0) {
        if (column < Tune.hidden && row < rows) {
          value = cast<Sum>(h0[(first + row) * s.startStride[0] + column]);
        }
      }
      held[0][row][column] = value;
      if (column >= Tune.hidden) {
        held[1][row][column] = Sum(0);  // other blocks may already have written what is before it
      }
    }
  }

  /// The thread's own state and bias. Neither pointer is read where Tune has no such operand.
  SL_INLINE_MEMBER void beginState(const T* start, const T* biases) {
    if constexpr (Tune.start != 0 && kGates != kRnn) {
      constexpr int kLast = kStates - 1;
      SL_UNROLL
      for (int row = 0; row < kRows; ++row) {
        state[row] = isUnit && first + row < s.batch
                         ? cast<Sum>(start[(first + row) * s.startStride[kLast] + unit])
                         : Sum(0);
      }
    }
    if constexpr (Tune.bias != 0) {
      bias = isUnit ? cast<Sum>(biases[unit]) : Sum(0);
    }
  }

  SL_INLINE_MEMBER void request(const T* projected, int64_t step) {
    const int64_t at = (Tune.reversed != 0 ? s.steps - 1 - step : step) * s.projectedStride[0];
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const bool isThere = isUnit && first + row < s.batch;
      const T* const from =
          projected + at + (isThere ? first + row : 0) * s.projectedStride[1] + (isUnit ? unit : 0);
      SL_UNROLL
      for (int gate = 0; gate < kGates; ++gate) {
        next[row][gate] = from[gate * Tune.hidden];
      }
    }
  }

  /// Writes the initial states as the last ones, for a sequence without steps.
  SL_INLINE_MEMBER void writeStart(const T* const* given, T* const* ends) {
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      if (first + row < s.batch && lane == row % Tune.lanes) {
        SL_UNROLL
        for (int number = 0; number < kStates; ++number) {
          T start(0);
          if constexpr (Tune.start != 0) {
            start = given[Tune.bias + number][(first + row) * s.startStride[number] + unit];
          }
          ends[number][(first + row) * s.endStride[number] + unit] = start;
        }
      }
    }
  }

  /// sums += weights * h, this lane's columns.
  SL_INLINE_MEMBER void multiply(const Sum (&held)[kRows][L::kWidth], Sum (&sums)[kRows][kGates]) {
    SL_UNROLL
    for (int run = 0; run < L::kRuns; ++run) {
      SL_UNROLL
      for (int row = 0; row < kRows; ++row) {
        Sum values[kRun];
        loadPieces<kRun>(values, &held[row][(run * Tune.lanes + lane) * kRun]);
        SL_UNROLL
        for (int gate = 0; gate < kGates; ++gate) {
          SL_UNROLL
          for (int i = 0; i < kRun; ++i) {
            sums[row][gate] = fma(weights[gate][run * kRun + i], values[i], sums[row][gate]);
          }
        }
      }
    }
  }

  SL_INLINE_MEMBER static void sumOverLanes(Sum (&sums)[kRows][kGates]) {
    SL_UNROLL
    for (int distance = Tune.lanes / 2; distance > 0; distance /= 2) {
      SL_UNROLL
      for (int row = 0; row < kRows; ++row) {
        SL_UNROLL
        for (int gate = 0; gate < kGates; ++gate) {
          sums[row][gate] += laneAt(sums[row][gate], distance);
        }
      }
    }
  }

  /// What x contributes to the step, widened: `next` may be requested for the one behind it.
  SL_INLINE_MEMBER void takeInputs(Sum (&inputs)[kRows][kGates]) const {
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      SL_UNROLL
      for (int gate = 0; gate < kGates; ++gate) {
        inputs[row][gate] = cast<Sum>(next[row][gate]);
      }
    }
  }

  /// The unit's next h in `row`, and its next state.
  SL_INLINE_MEMBER T advance(int row, const Sum (&sums)[kGates], const Sum (&inputs)[kGates]) {
    if constexpr (kGates == kRnn) {
      const Sum sum = sums[0] + inputs[0];
      return cast<T>(Tune.relu != 0 ? maximum(sum, Sum(0)) : tanh(sum));
    } else if constexpr (kIsLstm) {
      const Sum in = sigmoid(sums[0] + inputs[0]), forget = sigmoid(sums[1] + inputs[1]);
      const Sum candidate = tanh(sums[2] + inputs[2]), out = sigmoid(sums[3] + inputs[3]);
      state[row] = forget * state[row] + in * candidate;
      return cast<T>(out * tanh(state[row]));
    } else {
      const Sum reset = sigmoid(sums[0] + inputs[0]), update = sigmoid(sums[1] + inputs[1]);
      const Sum candidate = tanh(inputs[2] + reset * (sums[2] + bias));
      const T value = cast<T>(candidate + update * (state[row] - candidate));
      state[row] = cast<Sum>(value);
      return value;
    }
  }

  /// Writes the unit's h of `step`, and its last states after the last step.
  SL_INLINE_MEMBER void write(int row, T value, int64_t step, int64_t at, T* y,
                              T* const* ends) const {
    if (isUnit && first + row < s.batch && lane == row % Tune.lanes) {
      y[at + (first + row) * s.yStride[1] + unit * s.yStride[2]] = value;
      if (step + 1 == s.steps) {
        ends[0][(first + row) * s.endStride[0] + unit] = value;
        if constexpr (kIsLstm) {
          ends[1][(first + row) * s.endStride[1] + unit] = cast<T>(state[row]);
        }
      }
    }
  }

  /// The unit's h of `step` in every row: sent to each block's `held` for the next step, and
  /// written.
  SL_INLINE_MEMBER void finishStep(int64_t step, const Sum (&sums)[kRows][kGates],
                                   const Sum (&inputs)[kRows][kGates],
                                   Sum (&held)[kRows][L::kWidth], uint64_t* arrived, T* y,
                                   T* const* ends) {
    const int64_t at = (Tune.reversed != 0 ? s.steps - 1 - step : step) * s.yStride[0];
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const T value = advance(row, sums[row], inputs[row]);
      if (isUnit && step + 1 < s.steps && lane < Tune.blocks) {
        cluster::send<(Tune.blocks > 1)>(lane, &held[row][unit], cast<Sum>(value), arrived);
      }
      write(row, value, step, at, y, ends);
    }
  }

  /// Each block of the cluster expects what the others send for the next two steps.
  SL_INLINE_MEMBER static void openCluster(uint64_t (&arrived)[2], int bytes) {
    if (threadIdx.x == 0) {
      cluster::expect(&arrived[0], bytes);
      cluster::expect(&arrived[1], bytes);
    }
    cluster::arriveFirst();
  }

  /// Whether the thread's warp has no unit (never the first of a block): no thread waits for it, so
  /// it may not read what other blocks send.
  SL_INLINE_MEMBER static bool isOfNoUnit(int block) {
    const int firstOfWarp = int(threadIdx.x) / 32 * 32 / Tune.lanes;
    return firstOfWarp >= L::kUnits || block * L::kUnits + firstOfWarp >= Tune.hidden;
  }
};

}  // namespace recurrent_sequence_detail

/// `rest`: [bias,] [h0, [c0,]] y, h [, c].
template <RecurrentSequenceTune Tune, class T, class... Rest>
SL_INLINE void recurrent_sequence(RecurrentSequenceShape s, const T* projected, const T* weight,
                                  Rest*... rest) {
  using namespace recurrent_sequence_detail;
  using Thread = Sequence<Tune, T>;
  using L = Layout<Tune>;
  using Sum = SumOf<T>;
  constexpr int kGates = Tune.gates, kRows = Tune.rows, kStates = Thread::kStates;
  constexpr int kInputs = Tune.bias + Tune.start * kStates;
  static_assert(sizeof...(rest) == kInputs + 1 + kStates);
  const T* const given[] = {rest...};
  T* const y = const_cast<T*>(given[kInputs]);
  // h, c; of GRU and RNN h alone
  T* const ends[] = {const_cast<T*>(given[kInputs + 1]), const_cast<T*>(given[kInputs + kStates])};
  constexpr bool kTogether = Tune.blocks > 1;
  constexpr int kSentBytes = kRows * Tune.hidden * int(sizeof(Sum));  // to each block, a step
  // h as the next step reads it
  __shared__ alignas(16) Sum held[2][kRows][L::kWidth];
  __shared__ uint64_t arrived[2];

  const int thread = int(threadIdx.x);
  int block = 0;
  if constexpr (kTogether) {
    block = cluster::rank();
  }
  Thread mine(s, block);
  if constexpr (Tune.early == 0) {
    awaitPrevious();
  }
  mine.loadWeights(weight);
  if constexpr (kTogether) {
    Thread::openCluster(arrived, kSentBytes);
  }
  if constexpr (Tune.early != 0) {
    awaitPrevious();
  }
  mine.beginHidden(given[Tune.bias], held);
  mine.beginState(given[Tune.bias + kStates - 1], given[0]);
  if (s.steps > 0) {
    mine.request(projected, 0);
  } else if (mine.isUnit) {
    mine.writeStart(given, ends);
  }
  __syncthreads();
  if constexpr (kTogether) {
    cluster::wait();
    if (Thread::isOfNoUnit(block)) {
      return;
    }
  }

  SL_NO_UNROLL
  for (int64_t step = 0; step < s.steps; ++step) {
    const int turn = int(step & 1);
    if constexpr (kTogether) {
      if (step > 0) {
        cluster::awaitSent(&arrived[turn], int((step - 1) >> 1 & 1));
        if (thread == 0) {
          cluster::expectAgain(&arrived[turn], kSentBytes);
        }
      }
    }
    Sum sums[kRows][kGates] = {};
    mine.multiply(held[turn], sums);
    Sum inputs[kRows][kGates];
    mine.takeInputs(inputs);
    if (step + 1 < s.steps) {
      mine.request(projected, step + 1);
    }
    Thread::sumOverLanes(sums);
    if constexpr (kTogether) {
      // A receiver of h writes to this block's held[turn] next, so all lanes of the warp must have
      // read it before one of them sends.
      __syncwarp();
    }
    mine.finishStep(step, sums, inputs, held[turn ^ 1], &arrived[turn ^ 1], y, ends);
    if constexpr (!kTogether) {
      __syncthreads();
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_RECURRENT_SEQUENCE_H
