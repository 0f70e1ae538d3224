// SPDX-License-Identifier: Apache-2.0
// The body of family `recurrent_sequence`; included by recurrent_sequence.h, which says what it
// computes.
//
// A cluster takes `rows` of the batch through all steps; its blocks share the units, and `lanes`
// neighbouring threads one unit: each holds its columns of the unit's rows of the weight, one a
// gate, in registers, for good. A step is then
//   1. wait until all of the last step's h is in this block's shared memory,
//   2. multiply and add, sum over the lanes: every lane has the unit's gates and computes its
//      state,
//   3. lane j sends h to block j of the cluster (st.async, which counts at the receiver's barrier;
//      cuda_cluster.h).
// So the weight is read once, and blocks meet nowhere but in what they send each other. There are
// two places for h, used in turns: who has all of h[t + 1] knows that every block has read h[t],
// because each sent its own h[t + 1] after that. The idea of keeping a recurrent weight in
// registers across steps is that of persistent RNNs (Diamos et al., ICML 2016).
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

}  // namespace recurrent_sequence_detail

/// `rest`: [bias,] [h0, [c0,]] y, h [, c].
template <RecurrentSequenceTune Tune, class T, class... Rest>
SL_INLINE void recurrent_sequence(RecurrentSequenceShape s, const T* projected, const T* weight,
                                  Rest*... rest) {
  using namespace recurrent_sequence_detail;
  constexpr int kGates = Tune.gates;
  constexpr bool kIsLstm = kGates == kLstm;
  constexpr int kStates = kIsLstm ? 2 : 1, kInputs = Tune.bias + Tune.start * kStates;
  static_assert(sizeof...(rest) == kInputs + 1 + kStates);
  const T* const given[] = {rest...};
  T* const y = const_cast<T*>(given[kInputs]);
  // h, c; of GRU and RNN h alone
  T* const ends[] = {const_cast<T*>(given[kInputs + 1]), const_cast<T*>(given[kInputs + kStates])};
  using L = Layout<Tune>;
  using Sum = SumOf<T>;
  constexpr int kRows = Tune.rows;
  constexpr bool kTogether = Tune.blocks > 1;
  constexpr int kSentBytes = kRows * Tune.hidden * int(sizeof(Sum));  // to each block, a step
  // h as the next step reads it
  __shared__ alignas(16) Sum held[2][kRows][L::kWidth];
  __shared__ uint64_t arrived[2];

  const int thread = int(threadIdx.x), lane = thread % Tune.lanes, place = thread / Tune.lanes;
  int block = 0;
  if constexpr (kTogether) {
    block = cluster::rank();
  }
  const int unit = block * L::kUnits + place;
  const bool isUnit = place < L::kUnits && unit < Tune.hidden;
  const int64_t first = int64_t(blockIdx.x) / Tune.blocks * kRows;  // row of the batch

  if constexpr (Tune.early == 0) {
    awaitPrevious();
  }
  Sum weights[kGates][L::kRuns * kRun];
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
  if constexpr (kTogether) {
    if (thread == 0) {
      cluster::expect(&arrived[0], kSentBytes);
      cluster::expect(&arrived[1], kSentBytes);
    }
    cluster::arriveFirst();
  }
  if constexpr (Tune.early != 0) {
    awaitPrevious();
  }

  for (int i = thread; i < kRows * L::kWidth; i += Tune.threads) {
    const int row = i / L::kWidth, column = i % L::kWidth;
    Sum value(0);
    if constexpr (Tune.start != 0) {
      if (column < Tune.hidden && first + row < s.batch) {
        value = cast<Sum>(given[Tune.bias][(first + row) * s.startStride[0] + column]);  // h0
      }
    }
    held[0][row][column] = value;
    if (column >= Tune.hidden) {
      held[1][row][column] = Sum(0);  // before it others may have written already
    }
  }
  Sum state[kRows] = {};  // c, of GRU the unit's own h
  if constexpr (Tune.start != 0 && kGates != kRnn) {
    constexpr int kLast = kStates - 1;
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      state[row] =
          isUnit && first + row < s.batch
              ? cast<Sum>(given[Tune.bias + kLast][(first + row) * s.startStride[kLast] + unit])
              : Sum(0);
    }
  }
  Sum bias(0);
  if constexpr (Tune.bias != 0) {
    bias = isUnit ? cast<Sum>(given[0][unit]) : Sum(0);
  }
  // What x contributes to a step is asked for a step ahead.
  T next[kRows][kGates];
  auto ask = [&](int64_t step) SL_LAMBDA {
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
  };
  if (s.steps > 0) {
    ask(0);
  } else if (isUnit) {  // the last states are the first ones
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
  __syncthreads();
  if constexpr (kTogether) {
    cluster::wait();
    const int firstOfWarp = thread / 32 * 32 / Tune.lanes;
    if (firstOfWarp >= L::kUnits || block * L::kUnits + firstOfWarp >= Tune.hidden) {
      // a warp without a unit (never a block's first): nobody waits for it, so it may not read what
      // is sent
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
    SL_UNROLL
    for (int run = 0; run < L::kRuns; ++run) {
      SL_UNROLL
      for (int row = 0; row < kRows; ++row) {
        Sum values[kRun];
        loadPieces<kRun>(values, &held[turn][row][(run * Tune.lanes + lane) * kRun]);
        SL_UNROLL
        for (int gate = 0; gate < kGates; ++gate) {
          SL_UNROLL
          for (int i = 0; i < kRun; ++i) {
            sums[row][gate] = fma(weights[gate][run * kRun + i], values[i], sums[row][gate]);
          }
        }
      }
    }
    Sum inputs[kRows][kGates];
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      SL_UNROLL
      for (int gate = 0; gate < kGates; ++gate) {
        inputs[row][gate] = cast<Sum>(next[row][gate]);
      }
    }
    if (step + 1 < s.steps) {
      ask(step + 1);
    }
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
    if constexpr (kTogether) {
      // who gets what is sent writes to held[turn] next: the other lanes have read it
      __syncwarp();
    }
    const int64_t at = (Tune.reversed != 0 ? s.steps - 1 - step : step) * s.yStride[0];
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      T value;
      if constexpr (kGates == kRnn) {
        const Sum sum = sums[row][0] + inputs[row][0];
        value = cast<T>(Tune.relu != 0 ? maximum(sum, Sum(0)) : tanh(sum));
      } else if constexpr (kIsLstm) {
        const Sum in = sigmoid(sums[row][0] + inputs[row][0]),
                  forget = sigmoid(sums[row][1] + inputs[row][1]);
        const Sum candidate = tanh(sums[row][2] + inputs[row][2]),
                  out = sigmoid(sums[row][3] + inputs[row][3]);
        state[row] = forget * state[row] + in * candidate;
        value = cast<T>(out * tanh(state[row]));
      } else {
        const Sum reset = sigmoid(sums[row][0] + inputs[row][0]),
                  update = sigmoid(sums[row][1] + inputs[row][1]);
        const Sum candidate = tanh(inputs[row][2] + reset * (sums[row][2] + bias));
        value = cast<T>(candidate + update * (state[row] - candidate));
        state[row] = cast<Sum>(value);
      }
      if (isUnit && step + 1 < s.steps && lane < Tune.blocks) {
        cluster::send<kTogether>(lane, &held[turn ^ 1][row][unit], cast<Sum>(value),
                                 &arrived[turn ^ 1]);
      }
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
    if constexpr (!kTogether) {
      __syncthreads();
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_RECURRENT_SEQUENCE_H
