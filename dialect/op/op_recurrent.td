// SPDX-License-Identifier: Apache-2.0
// Family "recurrent".
#ifndef STRAIGHTLINE_OP_RECURRENT_TD
#define STRAIGHTLINE_OP_RECURRENT_TD

include "dialect/op/op_dialect.td"

def Op_LstmOp : Op_PlainOp<"lstm"> {
  let summary = "layers of long short-term memory over whole sequences";
  let description = [{
    x [s, b, i] (batch_first: [b, s, i]); h0 and c0 [layers * directions, b, h]. Weights of a layer and direction, layers
    outermost: w_ih [4h, i], w_hh [4h, h], and with `has_biases` b_ih [4h], b_hh [4h]; gates in the order i, f, g, o.

    - (lstm_c1) x, h0 and c0 have rank 3 and equal batches
    - (lstm_c2) the number of weights fits layers, directions and biases
    - (lstm_c3) each weight has its extents
    - (lstm_c4) y is [s, b, directions * h] (batch_first: [b, s, ..]); h and c have the types of h0
      and c0
    - (lstm_c5) equal element types
  }];
  let arguments = (ins Op_FloatTensor:$x, Op_FloatTensor:$h0, Op_FloatTensor:$c0, Variadic<Op_FloatTensor>:$weights,
                       I64Attr:$num_layers, BoolAttr:$bidirectional, BoolAttr:$batch_first, BoolAttr:$has_biases);
  let results = (outs Op_Tensor:$y, Op_Tensor:$h, Op_Tensor:$c);
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_RECURRENT_TD
