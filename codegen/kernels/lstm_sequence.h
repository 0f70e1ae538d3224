// SPDX-License-Identifier: Apache-2.0
// Family `lstm_sequence`: one direction of a layer of long short-term memory over a whole sequence, in one kernel. For devices only.
//
//   sl::lstm_sequence<LstmSequenceTune{..}>(shape, projected, weight, [h0, c0,] y, h, c)
//
//   gates = projected[t] + h weight^T            in the order i, f, g, o, each `hidden` wide
//   c = sigmoid(f) c + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c),  y[t] = h
//
// projected [steps, batch, 4 hidden] (x's product and both biases), weight [4 hidden, hidden], h0 and c0 [batch, hidden] (zeros where
// `start` is 0), y [steps, batch, hidden], h and c [batch, hidden], all of one type of floats; within a step neighbours lie side by
// side but for y. Sums and c are float32, of float64 float64; h is rounded to the type once a step. cuda_lstm_sequence.h says how.
#ifndef STRAIGHTLINE_KERNELS_LSTM_SEQUENCE_H
#define STRAIGHTLINE_KERNELS_LSTM_SEQUENCE_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct LstmSequenceTune {
  int hidden = 0;    ///< units
  int lanes = 8;     ///< 8, 16 or 32 neighbouring threads that share a unit
  int blocks = 1;    ///< of a cluster, which share the units; each has at least one
  int rows = 1;      ///< of the batch, that a cluster takes
  int threads = 32;  ///< of a block: whole warps that hold lanes times its units
  int start = 0;     ///< whether there are h0 and c0
  int reversed = 0;  ///< from the last step to the first
  int early = 0;     ///< whether no kernel of a run writes the weight
};

struct LstmSequenceShape {
  int64_t steps = 0, batch = 0;
  int64_t projectedStride[2] = {};  ///< elements: step, row of the batch
  int64_t weightStride = 0;         ///< of rows
  int64_t startStride[2] = {};      ///< of rows: h0, c0
  int64_t yStride[3] = {};          ///< step, row of the batch, unit
  int64_t endStride[2] = {};        ///< of rows: h, c
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_lstm_sequence.h"
#endif

#endif  // STRAIGHTLINE_KERNELS_LSTM_SEQUENCE_H
