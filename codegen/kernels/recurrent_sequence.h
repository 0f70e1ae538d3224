// SPDX-License-Identifier: Apache-2.0
// Family `recurrent_sequence`: one direction of a recurrent layer over a whole sequence, in one
// kernel. For devices only.
//
//   sl::recurrent_sequence<RecurrentSequenceTune{..}>(shape, projected, weight, [bias,] [h0, [c0,]]
//   y, h [, c])
//
//   gates = 4, long short-term memory, in the order i, f, g, o, each `hidden` wide; it has c0 and
//   c:
//     p = projected[t] + h weight^T,  c = sigmoid(pf) c + sigmoid(pi) tanh(pg),  h = sigmoid(po)
//     tanh(c),  y[t] = h
//   gates = 3, gated recurrent units, in the order r, z, n; it may have a bias [hidden], of n's
//   product with h:
//     p = projected[t],  q = h weight^T,  n = tanh(pn + sigmoid(pr + qr) (qn + bias)),  h = n +
//     sigmoid(pz + qz) (h - n),  y[t] = h
//   gates = 1, plain recurrent units, f tanh or where `relu` relu:
//     h = f(projected[t] + h weight^T),  y[t] = h
//
// projected [steps, batch, gates hidden] (x's product and the other biases), weight [gates hidden,
// hidden], h0 and c0 [batch, hidden] (zeros where `start` is 0), y [steps, batch, hidden], h and c
// [batch, hidden], all of one type of floats; within a step neighbours lie side by side but for y.
// Sums and c are float32, of float64 float64; h is rounded to the type once a step, and what comes
// after reads the rounded one: a sequence that is continued from its last h has the bits of the
// whole (but LSTM's). cuda_recurrent_sequence.h says how.
#ifndef STRAIGHTLINE_KERNELS_RECURRENT_SEQUENCE_H
#define STRAIGHTLINE_KERNELS_RECURRENT_SEQUENCE_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct RecurrentSequenceTune {
  int gates = 4;     ///< 4: LSTM, 3: GRU, 1: RNN
  int hidden = 0;    ///< units
  int lanes = 8;     ///< 8, 16 or 32 neighbouring threads that share a unit
  int blocks = 1;    ///< of a cluster, which share the units; each has at least one
  int rows = 1;      ///< of the batch, that a cluster takes
  int threads = 32;  ///< of a block: whole warps that hold lanes times its units
  int bias = 0;      ///< whether there is a bias
  int start = 0;     ///< whether there is h0 (and c0)
  int reversed = 0;  ///< from the last step to the first
  int early = 0;     ///< whether no kernel of a run writes the weight
  int relu = 0;      ///< whether RNN's function is relu
};

struct RecurrentSequenceShape {
  int64_t steps = 0, batch = 0;
  int64_t projectedStride[2] = {};  ///< elements: step, row of the batch
  int64_t weightStride = 0;         ///< of rows
  int64_t startStride[2] = {};      ///< of rows: h0, c0
  int64_t yStride[3] = {};          ///< step, row of the batch, unit
  int64_t endStride[2] = {};        ///< of rows: h, c
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_recurrent_sequence.h"
#endif

#endif  // STRAIGHTLINE_KERNELS_RECURRENT_SEQUENCE_H
