// RUN: straightline-opt %s --decompose-ops | FileCheck %s

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {

// Where the weight fits into the registers of a cluster, all steps are one op; zeros need no operand, biases are added once.
// CHECK-LABEL: func.func @both_directions
func.func @both_directions(%x: tensor<7x2x3xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>, %b: tensor<16xf32>)
    -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>) {
  // CHECK: %[[B:.*]] = op.add %[[ARG:.*]], %[[ARG]]
  // CHECK: %[[P:.*]] = op.linear %{{[^ ]*}}, %{{[^ ]*}}, %[[B]]
  // CHECK: %[[F:.*]], %{{.*}}, %{{.*}} = op.lstm_sequence %[[P]], %{{[^ ]*}} {reversed = false}
  // CHECK: %[[R:.*]], %{{.*}}, %{{.*}} = op.lstm_sequence %{{[^ ]*}}, %{{[^ ]*}} {reversed = true}
  // CHECK-NOT: op.for
  // CHECK: op.cat %[[F]], %[[R]] {dim = 2 : i64}
  %zero = op.full {value = 0.0 : f64} : tensor<f32>
  %h = op.expand %zero : (tensor<f32>) -> tensor<2x2x4xf32>
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh, %b, %b, %wi, %wh, %b, %b
      {num_layers = 1 : i64, bidirectional = true, batch_first = false, has_biases = true}
      : (tensor<7x2x3xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>,
         tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)
  return %y, %hn : tensor<7x2x8xf32>, tensor<2x2x4xf32>
}

// A start that is given, and a named number of steps.
// CHECK-LABEL: func.func @from_a_start
func.func @from_a_start(%x: tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, %h: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>)
    -> tensor<?x2x4xf32, #op.dims<[s, 2, 4]>> {
  // CHECK: op.lstm_sequence %{{[^ ]*}}, %{{[^ ]*}} start %{{[^ ]*}} cell %{{[^ ]*}} {reversed = false}
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>)
      -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return %y : tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>
}

// With a projection the kernel's weight is the product of both, and y one product behind it.
// CHECK-LABEL: func.func @projected
// CHECK-SAME: %[[WI:[^:]*]]: tensor<16x3xf32>, %[[WH:[^:]*]]: tensor<16x2xf32>, %[[WR:[^:]*]]: tensor<2x4xf32>
func.func @projected(%x: tensor<7x2x3xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>, %p: tensor<2x4xf32>)
    -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>) {
  // CHECK: %[[P:.*]] = op.linear %{{[^ ]*}}, %[[WI]]
  // CHECK: %[[W:.*]] = op.matmul %[[WH]], %[[WR]] : (tensor<16x2xf32>, tensor<2x4xf32>) -> tensor<16x4xf32>
  // CHECK: %[[Y:[^,]*]], %[[H:[^,]*]], %{{[^ ]*}} = op.lstm_sequence %[[P]], %[[W]] {reversed = false}
  // CHECK: op.linear %[[Y]], %[[WR]] : (tensor<7x2x4xf32>, tensor<2x4xf32>) -> tensor<7x2x2xf32>
  // CHECK: op.linear %[[H]], %[[WR]] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %zero = op.full {value = 0.0 : f64} : tensor<f32>
  %h = op.expand %zero : (tensor<f32>) -> tensor<1x2x2xf32>
  %c = op.expand %zero : (tensor<f32>) -> tensor<1x2x4xf32>
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64}
      : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return %y, %hn, %cn : tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>
}

// A given h is added to the inputs of the first step; with a named number of steps it is a loop.
// CHECK-LABEL: func.func @projected_from_a_start
// CHECK-SAME: %[[X:[^:]*]]: tensor<7x2x3xf32>
func.func @projected_from_a_start(%x: tensor<7x2x3xf32>, %named: tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, %h: tensor<1x2x2xf32>,
                                  %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>, %p: tensor<2x4xf32>)
    -> (tensor<7x2x2xf32>, tensor<?x2x2xf32, #op.dims<[s, 2, 2]>>) {
  // CHECK: %[[P:.*]] = op.linear %[[X]]
  // CHECK: %[[A:.*]] = op.linear %{{.*}} -> tensor<2x16xf32>
  // CHECK: %[[T:.*]] = op.reshape %[[A]]
  // CHECK: %[[FIRST:.*]] = op.slice %[[P]]
  // CHECK: %[[ROW:.*]] = op.add %[[FIRST]], %[[T]]
  // CHECK: %[[REST:.*]] = op.slice %[[P]]
  // CHECK: %[[ALL:.*]] = op.cat %[[ROW]], %[[REST]] {dim = 0 : i64}
  // CHECK: op.lstm_sequence %[[ALL]], %{{[^ ]*}} start %{{[^ ]*}} cell %{{[^ ]*}} {reversed = false}
  // CHECK-NOT: op.lstm_sequence
  // CHECK: op.for %{{.*}} = 0 to s step 1
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64}
      : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  %z, %hz, %cz = op.lstm %named, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64}
      : (tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<?x2x2xf32, #op.dims<[s, 2, 2]>>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return %y, %z : tensor<7x2x2xf32>, tensor<?x2x2xf32, #op.dims<[s, 2, 2]>>
}

// Too few steps, a batch beyond the clusters of a device, a named batch, a weight beyond the registers of a cluster: a loop.
// CHECK-LABEL: func.func @loops
// CHECK-NOT: op.lstm_sequence
func.func @loops(%a: tensor<3x2x3xf32>, %b: tensor<7x513x3xf32>, %c: tensor<7x?x3xf32, #op.dims<[7, n, 3]>>, %d: tensor<7x2x3xf32>,
                 %ha: tensor<1x2x4xf32>, %hb: tensor<1x513x4xf32>, %hc: tensor<1x?x4xf32, #op.dims<[1, n, 4]>>, %hd: tensor<1x2x512xf32>,
                 %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>, %wi512: tensor<2048x3xf32>, %wh512: tensor<2048x512xf32>)
    -> (tensor<3x2x4xf32>, tensor<7x513x4xf32>, tensor<7x?x4xf32, #op.dims<[7, n, 4]>>, tensor<7x2x512xf32>) {
  // CHECK-COUNT-4: op.for
  %ya, %a1, %a2 = op.lstm %a, %ha, %ha, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<3x2x3xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>)
      -> (tensor<3x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  %yb, %b1, %b2 = op.lstm %b, %hb, %hb, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x513x3xf32>, tensor<1x513x4xf32>, tensor<1x513x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>)
      -> (tensor<7x513x4xf32>, tensor<1x513x4xf32>, tensor<1x513x4xf32>)
  %yc, %c1, %c2 = op.lstm %c, %hc, %hc, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x?x3xf32, #op.dims<[7, n, 3]>>, tensor<1x?x4xf32, #op.dims<[1, n, 4]>>, tensor<1x?x4xf32, #op.dims<[1, n, 4]>>,
         tensor<16x3xf32>, tensor<16x4xf32>)
      -> (tensor<7x?x4xf32, #op.dims<[7, n, 4]>>, tensor<1x?x4xf32, #op.dims<[1, n, 4]>>, tensor<1x?x4xf32, #op.dims<[1, n, 4]>>)
  %yd, %d1, %d2 = op.lstm %d, %hd, %hd, %wi512, %wh512 {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x2x3xf32>, tensor<1x2x512xf32>, tensor<1x2x512xf32>, tensor<2048x3xf32>, tensor<2048x512xf32>)
      -> (tensor<7x2x512xf32>, tensor<1x2x512xf32>, tensor<1x2x512xf32>)
  return %ya, %yb, %yc, %yd : tensor<3x2x4xf32>, tensor<7x513x4xf32>, tensor<7x?x4xf32, #op.dims<[7, n, 4]>>, tensor<7x2x512xf32>
}

// Of a GRU: the bias of n's product with h is an operand, the others are added once.
// CHECK-LABEL: func.func @gru
func.func @gru(%x: tensor<7x2x3xf32>, %h: tensor<1x2x4xf32>, %wi: tensor<12x3xf32>, %wh: tensor<12x4xf32>, %bi: tensor<12xf32>, %bh: tensor<12xf32>)
    -> (tensor<7x2x4xf32>, tensor<7x2x4xf32>) {
  // CHECK: %[[N:.*]] = op.slice %[[BH:[^ ]*]] {{.*}}start = 8
  // CHECK: %[[RZ:.*]] = op.slice %[[BH]] {{.*}}start = 0
  // CHECK: %[[C:.*]] = op.cat %[[RZ]], %{{.*}} {dim = 0 : i64}
  // CHECK: %[[B:.*]] = op.add %{{[^ ]*}}, %[[C]]
  // CHECK: %[[P:.*]] = op.linear %{{[^ ]*}}, %{{[^ ]*}}, %[[B]]
  // CHECK: op.gru_sequence %[[P]], %{{[^ ]*}} bias %[[N]] start %{{[^ ]*}} {reversed = false}
  // CHECK: op.gru_sequence %{{[^ ]*}}, %{{[^ ]*}} {reversed = false}
  // CHECK-NOT: op.for
  %y, %hn = op.gru %x, %h, %wi, %wh, %bi, %bh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = true}
      : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>, tensor<12xf32>, tensor<12xf32>)
      -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  %zero = op.full {value = 0.0 : f64} : tensor<f32>
  %zeros = op.expand %zero : (tensor<f32>) -> tensor<1x2x4xf32>
  %z, %hz = op.gru %x, %zeros, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>) -> (tensor<7x2x4xf32>, tensor<1x2x4xf32>)
  return %y, %z : tensor<7x2x4xf32>, tensor<7x2x4xf32>
}

// Three rows of the weight a unit: a GRU fits where an LSTM does not.
// CHECK-LABEL: func.func @a_larger_one_fits
func.func @a_larger_one_fits(%x: tensor<7x1x3xf32>, %h: tensor<1x1x288xf32>, %wi: tensor<864x3xf32>, %wh: tensor<864x288xf32>,
                             %vi: tensor<1152x3xf32>, %vh: tensor<1152x288xf32>) -> (tensor<7x1x288xf32>, tensor<7x1x288xf32>) {
  // CHECK: op.gru_sequence
  // CHECK: op.for
  %y, %hn = op.gru %x, %h, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x1x3xf32>, tensor<1x1x288xf32>, tensor<864x3xf32>, tensor<864x288xf32>) -> (tensor<7x1x288xf32>, tensor<1x1x288xf32>)
  %z, %hz, %cz = op.lstm %x, %h, %h, %vi, %vh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x1x3xf32>, tensor<1x1x288xf32>, tensor<1x1x288xf32>, tensor<1152x3xf32>, tensor<1152x288xf32>)
      -> (tensor<7x1x288xf32>, tensor<1x1x288xf32>, tensor<1x1x288xf32>)
  return %y, %z : tensor<7x1x288xf32>, tensor<7x1x288xf32>
}

// Of an RNN: both biases are added once, and layers of up to 512 units fit.
// CHECK-LABEL: func.func @rnn
func.func @rnn(%x: tensor<7x1x3xf32>, %h: tensor<1x1x512xf32>, %wi: tensor<512x3xf32>, %wh: tensor<512x512xf32>, %b: tensor<512xf32>,
               %g: tensor<1x1x513xf32>, %vi: tensor<513x3xf32>, %vh: tensor<513x513xf32>) -> (tensor<7x1x512xf32>, tensor<7x1x513xf32>) {
  // CHECK: %[[B:.*]] = op.add %[[ARG:.*]], %[[ARG]]
  // CHECK: %[[P:.*]] = op.linear %{{[^ ]*}}, %{{[^ ]*}}, %[[B]]
  // CHECK: op.rnn_sequence %[[P]], %{{[^ ]*}} start %{{[^ ]*}} {nonlinearity = "relu", reversed = false}
  // CHECK-NOT: op.rnn_sequence
  // CHECK-COUNT-7: op.tanh
  %y, %hn = op.rnn %x, %h, %wi, %wh, %b, %b {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = true, nonlinearity = "relu"}
      : (tensor<7x1x3xf32>, tensor<1x1x512xf32>, tensor<512x3xf32>, tensor<512x512xf32>, tensor<512xf32>, tensor<512xf32>)
      -> (tensor<7x1x512xf32>, tensor<1x1x512xf32>)
  %z, %hz = op.rnn %x, %g, %vi, %vh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"}
      : (tensor<7x1x3xf32>, tensor<1x1x513xf32>, tensor<513x3xf32>, tensor<513x513xf32>) -> (tensor<7x1x513xf32>, tensor<1x1x513xf32>)
  return %y, %z : tensor<7x1x512xf32>, tensor<7x1x513xf32>
}

}
