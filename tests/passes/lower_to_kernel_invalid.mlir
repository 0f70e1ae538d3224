// RUN: straightline-opt %s -split-input-file -verify-diagnostics --lower-to-kernel

// A contraction for which no kernel was chosen.
func.func @forward(%x: tensor<4x4xf32> {op.name = "x"}) -> (tensor<4x4xf32> {op.name = "y"}) {
  // expected-error@+1 {{matmul has no lowering to kernels; decompose_ops or a fusion pass probably lacks a case}}
  %y = op.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// expected-error@+1 {{has no body}}
func.func private @forward(tensor<4xf32>) -> tensor<4xf32>

// -----

func.func @forward(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
  // expected-error@+1 {{'op.exp' op stands outside a fusion: fuse_pointwise must come before}}
  %y = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// What decompose-ops makes for devices only.
func.func @forward(%p: tensor<5x2x16xf32> {op.name = "p"}, %w: tensor<16x4xf32> {op.name = "w"}) -> (tensor<5x2x4xf32> {op.name = "y"}) {
  // expected-error@+1 {{lstm_sequence with the state 'tensor<2x4xf32>' has no kernel on CPU; lstm is supported}}
  %y, %h, %c = op.lstm_sequence %p, %w {reversed = false}
      : (tensor<5x2x16xf32>, tensor<16x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return %y : tensor<5x2x4xf32>
}

// -----

func.func @forward(%p: tensor<5x2x12xf32> {op.name = "p"}, %w: tensor<12x4xf32> {op.name = "w"}) -> (tensor<5x2x4xf32> {op.name = "y"}) {
  // expected-error@+1 {{gru_sequence with the state 'tensor<2x4xf32>' has no kernel on CPU; gru is supported}}
  %y, %h = op.gru_sequence %p, %w {reversed = false} : (tensor<5x2x12xf32>, tensor<12x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>)
  return %y : tensor<5x2x4xf32>
}

// -----

func.func @forward(%p: tensor<5x2x4xf32> {op.name = "p"}, %w: tensor<4x4xf32> {op.name = "w"}) -> (tensor<5x2x4xf32> {op.name = "y"}) {
  // expected-error@+1 {{rnn_sequence with the state 'tensor<2x4xf32>' has no kernel on CPU; rnn is supported}}
  %y, %h = op.rnn_sequence %p, %w {nonlinearity = "tanh", reversed = false}
      : (tensor<5x2x4xf32>, tensor<4x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>)
  return %y : tensor<5x2x4xf32>
}

// -----

// A counter is a scalar of the emitted loop: no memory holds it.
func.func @forward(%x: tensor<4xi64> {op.name = "x"}) -> (tensor<4xi64> {op.name = "y"}) {
  %y = op.for %i = 0 to 4 step 1 iter(%c = %x) : (tensor<4xi64>) {
    // expected-error@+1 {{op.reshape reads the counter of a loop as a tensor, but a counter can only be the index of op.dynamic_slice and op.dynamic_update_slice; nearest supported form: a number that the loop carries (iter) and adds to in each round}}
    %row = op.reshape %i : (tensor<i64>) -> tensor<1xi64>
    %next = op.dynamic_update_slice %c, %row, %i {dim = 0 : i64} : (tensor<4xi64>, tensor<1xi64>, tensor<i64>) -> tensor<4xi64>
    op.yield %next : tensor<4xi64>
  }
  return %y : tensor<4xi64>
}
