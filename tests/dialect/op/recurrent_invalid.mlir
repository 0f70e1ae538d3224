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
