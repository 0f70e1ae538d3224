// SPDX-License-Identifier: Apache-2.0
// Family "recurrent".
#ifndef STRAIGHTLINE_OP_RECURRENT_TD
#define STRAIGHTLINE_OP_RECURRENT_TD

include "dialect/op/op_dialect.td"

/// Layers of one cell: `gates` rows of a weight a unit; what it has beside h, behind h; attributes of its own last.
class Op_RecurrentLayersOp<string mnemonic, int gates, dag cellStart = (ins), dag cellEnd = (outs), dag attributes = (ins)> : Op_PlainOp<mnemonic> {
  let arguments = !con((ins Op_FloatTensor:$x, Op_FloatTensor:$h0), cellStart,
                       (ins Variadic<Op_FloatTensor>:$weights, I64Attr:$num_layers, BoolAttr:$bidirectional, BoolAttr:$batch_first,
                            BoolAttr:$has_biases), attributes);
  let results = !con((outs Op_Tensor:$y, Op_Tensor:$h), cellEnd);
  let extraClassDeclaration = "static constexpr int64_t kGates = " # gates # ";";
  let hasVerifier = 1;
}

/// One direction of a layer of one cell; `cellStart` is all that it reads behind the weight.
class Op_RecurrentSequenceOp<string mnemonic, int gates, dag cellStart, dag cellEnd = (outs), dag attributes = (ins), list<Trait> traits = []>
    : Op_PlainOp<mnemonic, traits> {
  let arguments = !con((ins Op_FloatTensor:$projected, Op_FloatTensor:$weight), cellStart, (ins BoolAttr:$reversed), attributes);
  let results = !con((outs Op_Tensor:$y, Op_Tensor:$h), cellEnd);
  let extraClassDeclaration = "static constexpr int64_t kGates = " # gates # ";";
  let hasVerifier = 1;
}

def Op_LstmOp : Op_RecurrentLayersOp<"lstm", 4, (ins Op_FloatTensor:$c0), (outs Op_Tensor:$c)> {
  let summary = "layers of long short-term memory over whole sequences";
  let description = [{
    x [s, b, i] (batch_first: [b, s, i]); h0 [layers * directions, b, p], c0 [.., b, h]; gates in the order i, f, g, o. Weights of a layer and
    direction, layers outermost: w_ih [4h, i], w_hh [4h, p], with `has_biases` b_ih [4h], b_hh [4h], and w_hr [p, h] or none (p is h).
    A step's h is sigmoid(o) * tanh(c), times w_hr where there is one.

    - (lstm_c1) x, h0 and c0 have rank 3 and equal batches; without w_hr equal widths of h0 and c0
    - (lstm_c2) the number of weights fits layers, directions and biases, with or without a w_hr each
    - (lstm_c3) each weight has its extents
    - (lstm_c4) y is [s, b, directions * p] (batch_first: [b, s, ..]); h and c have the types of h0 and c0
    - (lstm_c5) equal element types
  }];
}

def Op_GruOp : Op_RecurrentLayersOp<"gru", 3> {
  let summary = "layers of gated recurrent units over whole sequences";
  let description = [{
    x [s, b, i] (batch_first: [b, s, i]); h0 [layers * directions, b, h]. Weights of a layer and direction, layers outermost:
    w_ih [3h, i], w_hh [3h, h], and with `has_biases` b_ih [3h], b_hh [3h]; gates in the order r, z, n. A step is
    n = tanh(x w_in + b_in + r * (h w_hn + b_hn)), h' = n + z * (h - n), r and z sigmoids of their sums.

    - (gru_c1) x and h0 have rank 3 and equal batches
    - (gru_c2) the number of weights fits layers, directions and biases
    - (gru_c3) each weight has its extents
    - (gru_c4) y is [s, b, directions * h] (batch_first: [b, s, ..]); h has the type of h0
    - (gru_c5) equal element types
  }];
}

def Op_RnnOp : Op_RecurrentLayersOp<"rnn", 1, (ins), (outs), (ins StrAttr:$nonlinearity)> {
  let summary = "layers of plain recurrent units over whole sequences";
  let description = [{
    x [s, b, i] (batch_first: [b, s, i]); h0 [layers * directions, b, h]. Weights of a layer and direction, layers outermost:
    w_ih [h, i], w_hh [h, h], and with `has_biases` b_ih [h], b_hh [h]. A step is h' = f(x w_ih + b_ih + h w_hh + b_hh), f tanh or relu.

    - (rnn_c1) x and h0 have rank 3 and equal batches
    - (rnn_c2) the number of weights fits layers, directions and biases
    - (rnn_c3) each weight has its extents
    - (rnn_c4) y is [s, b, directions * h] (batch_first: [b, s, ..]); h has the type of h0
    - (rnn_c5) equal element types
    - (rnn_c6) `nonlinearity` is "tanh" or "relu"
  }];
}

def Op_LstmSequenceOp : Op_RecurrentSequenceOp<"lstm_sequence", 4, (ins Optional<Op_FloatTensor>:$h0, Optional<Op_FloatTensor>:$c0),
                                                (outs Op_Tensor:$c), (ins), [AttrSizedOperandSegments]> {
  let summary = "one direction of one layer of lstm over a whole sequence, behind the products of its inputs";
  let description = [{
    projected [s, b, 4h] (x times w_ih, and both biases; gates in the order i, f, g, o), weight [4h, h]; h0 and c0 [b, h], zeros
    where they are left out. Results: y [s, b, h], the last h and c [b, h]. `reversed`: from the last step to the first. What
    decompose-ops leaves of lstm where a device has a kernel for all steps.

    - (lstm_sequence_c1) projected is [s, b, 4h] and weight [4h, h] with a static h
    - (lstm_sequence_c2) h0 and c0 are both [b, h], or both left out
    - (lstm_sequence_c3) y is [s, b, h], h and c are [b, h]
    - (lstm_sequence_c4) equal element types
  }];
  let assemblyFormat = [{
    $projected `,` $weight (`start` $h0^)? (`cell` $c0^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Op_GruSequenceOp : Op_RecurrentSequenceOp<"gru_sequence", 3, (ins Optional<Op_FloatTensor>:$bias, Optional<Op_FloatTensor>:$h0),
                                               (outs), (ins), [AttrSizedOperandSegments]> {
  let summary = "one direction of one layer of gru over a whole sequence, behind the products of its inputs";
  let description = [{
    projected [s, b, 3h] (x times w_ih, and the biases but b_hn; gates in the order r, z, n), weight [3h, h], bias [h] (b_hn); h0 [b, h],
    zeros where it is left out. Results: y [s, b, h], the last h [b, h]. `reversed`: from the last step to the first. What
    decompose-ops leaves of gru where a device has a kernel for all steps.

    - (gru_sequence_c1) projected is [s, b, 3h] and weight [3h, h] with a static h
    - (gru_sequence_c2) bias is [h] and h0 [b, h]
    - (gru_sequence_c3) y is [s, b, h], h is [b, h]
    - (gru_sequence_c4) equal element types
  }];
  let assemblyFormat = [{
    $projected `,` $weight (`bias` $bias^)? (`start` $h0^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Op_RnnSequenceOp : Op_RecurrentSequenceOp<"rnn_sequence", 1, (ins Optional<Op_FloatTensor>:$h0), (outs), (ins StrAttr:$nonlinearity)> {
  let summary = "one direction of one layer of rnn over a whole sequence, behind the products of its inputs";
  let description = [{
    projected [s, b, h] (x times w_ih, and both biases), weight [h, h]; h0 [b, h], zeros where it is left out. Results: y [s, b, h], the
    last h [b, h]. `reversed`: from the last step to the first. What decompose-ops leaves of rnn where a device has a kernel for all steps.

    - (rnn_sequence_c1) projected is [s, b, h] and weight [h, h] with a static h
    - (rnn_sequence_c2) h0 is [b, h]
    - (rnn_sequence_c3) y is [s, b, h], h is [b, h]
    - (rnn_sequence_c4) equal element types
    - (rnn_sequence_c5) `nonlinearity` is "tanh" or "relu"
  }];
  let assemblyFormat = [{
    $projected `,` $weight (`start` $h0^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif  // STRAIGHTLINE_OP_RECURRENT_TD
