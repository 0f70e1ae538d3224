// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @recurrent
func.func @recurrent(%x: tensor<7x2x3xf32>, %h: tensor<2x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>, %b: tensor<16xf32>) {
  // CHECK: op.lstm{{.*}}{batch_first = false, bidirectional = true, has_biases = true, num_layers = 1 : i64}{{.*}} : (tensor<7x2x3xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh, %b, %b, %wi, %wh, %b, %b {batch_first = false, bidirectional = true, has_biases = true, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)
  return
}

// CHECK-LABEL: func.func @projected
func.func @projected(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>, %p: tensor<2x4xf32>) {
  // CHECK: op.lstm{{.*}} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// CHECK-LABEL: func.func @sequence
func.func @sequence(%p: tensor<?x2x16xf32, #op.dims<[s, 2, 16]>>, %w: tensor<16x4xf32>, %h: tensor<2x4xf32>) {
  // CHECK: op.lstm_sequence %{{.*}}, %{{.*}} start %{{.*}} cell %{{.*}} {reversed = true} : (tensor<?x2x16xf32, #op.dims<[s, 2, 16]>>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>, tensor<2x4xf32>)
  %y, %hn, %cn = op.lstm_sequence %p, %w start %h cell %h {reversed = true} : (tensor<?x2x16xf32, #op.dims<[s, 2, 16]>>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>, tensor<2x4xf32>)
  // CHECK: op.lstm_sequence %{{[^ ]*}}, %{{[^ ]*}} {reversed = false}
  %z, %hz, %cz = op.lstm_sequence %p, %w {reversed = false} : (tensor<?x2x16xf32, #op.dims<[s, 2, 16]>>, tensor<16x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// CHECK-LABEL: func.func @gru
func.func @gru(%x: tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, %h: tensor<2x2x4xf32>, %wi: tensor<12x3xf32>, %wh: tensor<12x4xf32>, %b: tensor<12xf32>) {
  // CHECK: op.gru{{.*}}{batch_first = true, bidirectional = true, has_biases = true, num_layers = 1 : i64}{{.*}} -> (tensor<2x?x8xf32, #op.dims<[2, s, 8]>>, tensor<2x2x4xf32>)
  %y, %hn = op.gru %x, %h, %wi, %wh, %b, %b, %wi, %wh, %b, %b {batch_first = true, bidirectional = true, has_biases = true, num_layers = 1 : i64} : (tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, tensor<2x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>, tensor<12xf32>, tensor<12xf32>, tensor<12x3xf32>, tensor<12x4xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<2x?x8xf32, #op.dims<[2, s, 8]>>, tensor<2x2x4xf32>)
  return
}

// CHECK-LABEL: func.func @gru_sequence
func.func @gru_sequence(%p: tensor<?x2x12xf32, #op.dims<[s, 2, 12]>>, %w: tensor<12x4xf32>, %b: tensor<4xf32>, %h: tensor<2x4xf32>) {
  // CHECK: op.gru_sequence %{{.*}}, %{{.*}} bias %{{.*}} start %{{.*}} {reversed = true} : (tensor<?x2x12xf32, #op.dims<[s, 2, 12]>>, tensor<12x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>)
  %y, %hn = op.gru_sequence %p, %w bias %b start %h {reversed = true} : (tensor<?x2x12xf32, #op.dims<[s, 2, 12]>>, tensor<12x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>)
  // CHECK: op.gru_sequence %{{[^ ]*}}, %{{[^ ]*}} {reversed = false}
  %z, %hz = op.gru_sequence %p, %w {reversed = false} : (tensor<?x2x12xf32, #op.dims<[s, 2, 12]>>, tensor<12x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>)
  return
}

// CHECK-LABEL: func.func @rnn
func.func @rnn(%x: tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, %h: tensor<2x2x4xf32>, %wi: tensor<4x3xf32>, %wh: tensor<4x4xf32>, %b: tensor<4xf32>) {
  // CHECK: op.rnn{{.*}}{batch_first = true, bidirectional = true, has_biases = true, nonlinearity = "relu", num_layers = 1 : i64}{{.*}} -> (tensor<2x?x8xf32, #op.dims<[2, s, 8]>>, tensor<2x2x4xf32>)
  %y, %hn = op.rnn %x, %h, %wi, %wh, %b, %b, %wi, %wh, %b, %b {batch_first = true, bidirectional = true, has_biases = true, nonlinearity = "relu", num_layers = 1 : i64} : (tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, tensor<2x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x3xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x?x8xf32, #op.dims<[2, s, 8]>>, tensor<2x2x4xf32>)
  return
}

// CHECK-LABEL: func.func @rnn_sequence
func.func @rnn_sequence(%p: tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, %w: tensor<4x4xf32>, %h: tensor<2x4xf32>) {
  // CHECK: op.rnn_sequence %{{.*}}, %{{.*}} start %{{.*}} {nonlinearity = "tanh", reversed = true} : (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>)
  %y, %hn = op.rnn_sequence %p, %w start %h {nonlinearity = "tanh", reversed = true} : (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>)
  // CHECK: op.rnn_sequence %{{[^ ]*}}, %{{[^ ]*}} {nonlinearity = "relu", reversed = false}
  %z, %hz = op.rnn_sequence %p, %w {nonlinearity = "relu", reversed = false} : (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<4x4xf32>) -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<2x4xf32>)
  return
}
