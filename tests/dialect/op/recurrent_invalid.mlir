// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @lstm_c1(%x: tensor<7x2x3xf32>, %h: tensor<1x3x4xf32>, %w0: tensor<16x3xf32>, %w1: tensor<16x4xf32>) {
  // expected-error @+1 {{lstm: h0 has extents [1, 3, 4] but [1, 2, 4] are needed (lstm_c1)}}
  %y, %hn, %cn = op.lstm %x, %h, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x3x4xf32>, tensor<1x3x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x3x4xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @lstm_c2(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<16x3xf32>) {
  // expected-error @+1 {{lstm: has 1 weights but 2 are needed (lstm_c2)}}
  %y, %hn, %cn = op.lstm %x, %h, %h, %w0 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c3(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<16x3xf32>, %w1: tensor<12x4xf32>) {
  // expected-error @+1 {{lstm: weight #1 has extents [12, 4] but [16, 4] are needed (lstm_c3)}}
  %y, %hn, %cn = op.lstm %x, %h, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c4(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<16x3xf32>, %w1: tensor<16x4xf32>) {
  // expected-error @+1 {{lstm: y has extents [7, 2, 8] but [7, 2, 4] are needed (lstm_c4)}}
  %y, %hn, %cn = op.lstm %x, %h, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>) -> (tensor<7x2x8xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c5(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<16x3xf32>, %w1: tensor<16x4xf64>) {
  // expected-error @+1 {{lstm: an operand or result has elements 'f64' but 'f32' are needed (lstm_c5)}}
  %y, %hn, %cn = op.lstm %x, %h, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf64>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c1_widths(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>) {
  // expected-error @+1 {{lstm: c0 has extents [1, 2, 4] but [1, 2, 2] are needed (lstm_c1)}}
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c3_projection(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>, %p: tensor<4x2xf32>) {
  // expected-error @+1 {{lstm: weight #2 has extents [4, 2] but [2, 4] are needed (lstm_c3)}}
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<4x2xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c3_projected(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>, %p: tensor<2x4xf32>) {
  // expected-error @+1 {{lstm: weight #1 has extents [16, 4] but [16, 2] are needed (lstm_c3)}}
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c4_projected(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>, %p: tensor<2x4xf32>) {
  // expected-error @+1 {{lstm: y has extents [7, 2, 4] but [7, 2, 2] are needed (lstm_c4)}}
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @lstm_c4_cell(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>, %p: tensor<2x4xf32>) {
  // expected-error @+1 {{lstm: c has extents [1, 2, 2] but [1, 2, 4] are needed (lstm_c4)}}
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
  return
}

// -----

func.func @lstm_sequence_c1(%p: tensor<7x2x12xf32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{lstm_sequence: projected has extents [7, 2, 12] but [7, 2, 16] are needed (lstm_sequence_c1)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w {reversed = false} : (tensor<7x2x12xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @lstm_sequence_c1_named(%p: tensor<7x2x16xf32>, %w: tensor<16x?xf32, #op.dims<[16, h]>>) {
  // expected-error @+1 {{lstm_sequence: the hidden size is a named extent but a static one is needed (lstm_sequence_c1)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w {reversed = false} : (tensor<7x2x16xf32>, tensor<16x?xf32, #op.dims<[16, h]>>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @lstm_sequence_c1_ranks(%p: tensor<7x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{lstm_sequence: projected and weight have ranks 2 and 2 but 3 and 2 are needed (lstm_sequence_c1)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w {reversed = false} : (tensor<7x16xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @lstm_sequence_c2(%p: tensor<7x2x16xf32>, %w: tensor<16x4xf32>, %h: tensor<3x4xf32>) {
  // expected-error @+1 {{lstm_sequence: h0 has extents [3, 4] but [2, 4] are needed (lstm_sequence_c2)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w start %h cell %h {reversed = false} : (tensor<7x2x16xf32>, tensor<16x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @lstm_sequence_c2_alone(%p: tensor<7x2x16xf32>, %w: tensor<16x4xf32>, %h: tensor<2x4xf32>) {
  // expected-error @+1 {{lstm_sequence: has h0 alone but both or neither are needed (lstm_sequence_c2)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w start %h {reversed = false} : (tensor<7x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @lstm_sequence_c3(%p: tensor<7x2x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{lstm_sequence: y has extents [7, 2, 8] but [7, 2, 4] are needed (lstm_sequence_c3)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w {reversed = false} : (tensor<7x2x16xf32>, tensor<16x4xf32>) -> (tensor<7x2x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @lstm_sequence_c4(%p: tensor<7x2x16xf32>, %w: tensor<16x4xf64>) {
  // expected-error @+1 {{lstm_sequence: an operand or result has elements 'f64' but 'f32' are needed (lstm_sequence_c4)}}
  %y, %hn, %cn = op.lstm_sequence %p, %w {reversed = false} : (tensor<7x2x16xf32>, tensor<16x4xf64>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_c1(%x: tensor<7x2x3xf32>, %h: tensor<1x3x4xf32>, %w0: tensor<12x3xf32>, %w1: tensor<12x4xf32>) {
  // expected-error @+1 {{gru: h0 has extents [1, 3, 4] but [1, 2, 4] are needed (gru_c1)}}
  %y, %hn = op.gru %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x3x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @gru_c1_ranks(%x: tensor<7x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<12x3xf32>, %w1: tensor<12x4xf32>) {
  // expected-error @+1 {{gru: x has rank 2 but 3 is needed (gru_c1)}}
  %y, %hn = op.gru %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @gru_c2(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<12x3xf32>) {
  // expected-error @+1 {{gru: has 1 weights but 2 are needed (gru_c2)}}
  %y, %hn = op.gru %x, %h, %w0 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @gru_c3(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<12x3xf32>, %w1: tensor<16x4xf32>) {
  // expected-error @+1 {{gru: weight #1 has extents [16, 4] but [12, 4] are needed (gru_c3)}}
  %y, %hn = op.gru %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @gru_c4(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<12x3xf32>, %w1: tensor<12x4xf32>) {
  // expected-error @+1 {{gru: y has extents [7, 2, 8] but [7, 2, 4] are needed (gru_c4)}}
  %y, %hn = op.gru %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>) -> (tensor<7x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @gru_c4_state(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<12x3xf32>, %w1: tensor<12x4xf32>) {
  // expected-error @+1 {{gru: h has extents [1, 3, 4] but [1, 2, 4] are needed (gru_c4)}}
  %y, %hn = op.gru %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @gru_c5(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<12x3xf32>, %w1: tensor<12x4xf64>) {
  // expected-error @+1 {{gru: an operand or result has elements 'f64' but 'f32' are needed (gru_c5)}}
  %y, %hn = op.gru %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf64>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c1(%p: tensor<7x2x16xf32>, %w: tensor<12x4xf32>) {
  // expected-error @+1 {{gru_sequence: projected has extents [7, 2, 16] but [7, 2, 12] are needed (gru_sequence_c1)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x2x16xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c1_weight(%p: tensor<7x2x12xf32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{gru_sequence: weight has extents [16, 4] but [12, 4] are needed (gru_sequence_c1)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x2x12xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c1_named(%p: tensor<7x2x12xf32>, %w: tensor<12x?xf32, #op.dims<[12, h]>>) {
  // expected-error @+1 {{gru_sequence: the hidden size is a named extent but a static one is needed (gru_sequence_c1)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x2x12xf32>, tensor<12x?xf32, #op.dims<[12, h]>>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c1_ranks(%p: tensor<7x12xf32>, %w: tensor<12x4xf32>) {
  // expected-error @+1 {{gru_sequence: projected and weight have ranks 2 and 2 but 3 and 2 are needed (gru_sequence_c1)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x12xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c2_bias(%p: tensor<7x2x12xf32>, %w: tensor<12x4xf32>, %b: tensor<12xf32>) {
  // expected-error @+1 {{gru_sequence: bias has extents [12] but [4] are needed (gru_sequence_c2)}}
  %y, %hn = op.gru_sequence %p, %w bias %b {reversed = false} : (tensor<7x2x12xf32>, tensor<12x4xf32>, tensor<12xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c2_start(%p: tensor<7x2x12xf32>, %w: tensor<12x4xf32>, %h: tensor<3x4xf32>) {
  // expected-error @+1 {{gru_sequence: h0 has extents [3, 4] but [2, 4] are needed (gru_sequence_c2)}}
  %y, %hn = op.gru_sequence %p, %w start %h {reversed = false} : (tensor<7x2x12xf32>, tensor<12x4xf32>, tensor<3x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c3(%p: tensor<7x2x12xf32>, %w: tensor<12x4xf32>) {
  // expected-error @+1 {{gru_sequence: y has extents [7, 2, 8] but [7, 2, 4] are needed (gru_sequence_c3)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x2x12xf32>, tensor<12x4xf32>) -> (tensor<7x2x8xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @gru_sequence_c3_state(%p: tensor<7x2x12xf32>, %w: tensor<12x4xf32>) {
  // expected-error @+1 {{gru_sequence: h has extents [2, 8] but [2, 4] are needed (gru_sequence_c3)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x2x12xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @gru_sequence_c4(%p: tensor<7x2x12xf32>, %w: tensor<12x4xf64>) {
  // expected-error @+1 {{gru_sequence: an operand or result has elements 'f64' but 'f32' are needed (gru_sequence_c4)}}
  %y, %hn = op.gru_sequence %p, %w {reversed = false} : (tensor<7x2x12xf32>, tensor<12x4xf64>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_c1(%x: tensor<7x2x3xf32>, %h: tensor<1x3x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn: h0 has extents [1, 3, 4] but [1, 2, 4] are needed (rnn_c1)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x2x3xf32>, tensor<1x3x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @rnn_c1_ranks(%x: tensor<7x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn: x has rank 2 but 3 is needed (rnn_c1)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_c2(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>) {
  // expected-error @+1 {{rnn: has 1 weights but 2 are needed (rnn_c2)}}
  %y, %hn = op.rnn %x, %h, %w0 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_c3(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<16x4xf32>) {
  // expected-error @+1 {{rnn: weight #1 has extents [16, 4] but [4, 4] are needed (rnn_c3)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_c4(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn: y has extents [7, 2, 8] but [7, 2, 4] are needed (rnn_c4)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<7x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_c4_state(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn: h has extents [1, 3, 4] but [1, 2, 4] are needed (rnn_c4)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @rnn_c5(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<4x4xf64>) {
  // expected-error @+1 {{rnn: an operand or result has elements 'f64' but 'f32' are needed (rnn_c5)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf64>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c1(%p: tensor<7x2x16xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn_sequence: projected has extents [7, 2, 16] but [7, 2, 4] are needed (rnn_sequence_c1)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x2x16xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c1_weight(%p: tensor<7x2x4xf32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{rnn_sequence: weight has extents [16, 4] but [4, 4] are needed (rnn_sequence_c1)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x2x4xf32>, tensor<16x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c1_named(%p: tensor<7x2x4xf32>, %w: tensor<4x?xf32, #op.dims<[4, h]>>) {
  // expected-error @+1 {{rnn_sequence: the hidden size is a named extent but a static one is needed (rnn_sequence_c1)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x2x4xf32>, tensor<4x?xf32, #op.dims<[4, h]>>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c1_ranks(%p: tensor<7x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn_sequence: projected and weight have ranks 2 and 2 but 3 and 2 are needed (rnn_sequence_c1)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x4xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c2_start(%p: tensor<7x2x4xf32>, %w: tensor<4x4xf32>, %h: tensor<3x4xf32>) {
  // expected-error @+1 {{rnn_sequence: h0 has extents [3, 4] but [2, 4] are needed (rnn_sequence_c2)}}
  %y, %hn = op.rnn_sequence %p, %w start %h {nonlinearity = "relu", reversed = false} : (tensor<7x2x4xf32>, tensor<4x4xf32>, tensor<3x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c3(%p: tensor<7x2x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn_sequence: y has extents [7, 2, 8] but [7, 2, 4] are needed (rnn_sequence_c3)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x2x4xf32>, tensor<4x4xf32>) -> (tensor<7x2x8xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c3_state(%p: tensor<7x2x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn_sequence: h has extents [2, 8] but [2, 4] are needed (rnn_sequence_c3)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x2x4xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @rnn_sequence_c4(%p: tensor<7x2x4xf32>, %w: tensor<4x4xf64>) {
  // expected-error @+1 {{rnn_sequence: an operand or result has elements 'f64' but 'f32' are needed (rnn_sequence_c4)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<7x2x4xf32>, tensor<4x4xf64>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @rnn_c6(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %w0: tensor<4x3xf32>, %w1: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn: nonlinearity is "gelu" but tanh or relu is needed (rnn_c6)}}
  %y, %hn = op.rnn %x, %h, %w0, %w1 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "gelu"} : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_sequence_c5(%p: tensor<7x2x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{rnn_sequence: nonlinearity is "" but tanh or relu is needed (rnn_sequence_c5)}}
  %y, %hn = op.rnn_sequence %p, %w {nonlinearity = "", reversed = false} : (tensor<7x2x4xf32>, tensor<4x4xf32>) -> (tensor<7x2x4xf32>, tensor<2x4xf32>)
  return
}
