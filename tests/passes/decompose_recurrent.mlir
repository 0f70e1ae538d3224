// RUN: straightline-opt %s --decompose-ops | FileCheck %s
// RUN: straightline-opt %s --decompose-ops -o %t.once && straightline-opt %t.once --decompose-ops -o %t.twice && diff %t.once %t.twice

// One linear over all steps, then a loop of linear, gates and an update of y. A named number of steps is fine.
// CHECK-LABEL: func.func @forward_lstm
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x?x3xf32, #op.dims<[2, s, 3]>>
func.func @forward_lstm(%x: tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, %h: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>,
                        %wh: tensor<16x4xf32>) -> tensor<2x?x4xf32, #op.dims<[2, s, 4]>> {
  // CHECK: %[[T:.*]] = op.permute %[[X]] {dims = array<i64: 1, 0, 2>}
  // CHECK: %[[P:.*]] = op.linear %[[T]]
  // CHECK: %[[F:.*]]:3 = op.for %[[I:.*]] = 0 to s step 1 iter(%[[H:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
  // CHECK: op.dynamic_slice %[[P]], %[[I]] {dim = 0 : i64, length = 1 : i64}
  // CHECK: op.linear %[[H]]
  // CHECK-COUNT-4: op.slice
  // Neither a gate nor a state is so small that a product of it is a subnormal number.
  // CHECK: %[[G:.*]] = op.sigmoid
  // CHECK: %[[LEAST:.*]] = op.full {value = 1.0842{{[0-9]*}}E-19 : f64}
  // CHECK: %[[CLOSED:.*]] = op.lt %[[G]], %[[LEAST]]
  // CHECK: op.where %[[CLOSED]], %{{.*}}, %[[G]]
  // CHECK: %[[A:.*]] = op.abs
  // CHECK: %[[TINY:.*]] = op.full {value = 1.1754943508222875E-38 : f64}
  // CHECK: op.lt %[[A]], %[[TINY]]
  // CHECK: op.dynamic_update_slice %[[Y]], %{{.*}}, %[[I]] {dim = 0 : i64}
  // CHECK: op.permute %[[F]]#2 {dims = array<i64: 1, 0, 2>}
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh
      {num_layers = 1 : i64, bidirectional = false, batch_first = true, has_biases = false}
      : (tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>,
         tensor<16x4xf32>) -> (tensor<2x?x4xf32, #op.dims<[2, s, 4]>>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return %y : tensor<2x?x4xf32, #op.dims<[2, s, 4]>>
}

// With a projection a step's h is a product, and c is as wide as the cell.
// CHECK-LABEL: func.func @projected_lstm
func.func @projected_lstm(%x: tensor<7x2x3xf32>, %h: tensor<1x2x2xf32>, %c: tensor<1x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x2xf32>,
                          %p: tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x4xf32>) {
  // CHECK: %[[F:.*]]:3 = op.for %[[I:.*]] = 0 to 7 step 1 iter(%[[H:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
  // CHECK: op.linear %[[H]], %arg4
  // CHECK: %[[M:.*]] = op.linear %{{[^ ]*}}, %arg5 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  // CHECK: %[[NEXT:.*]] = op.where %{{.*}}, %{{.*}}, %[[M]]
  // CHECK: %[[ROW:.*]] = op.reshape %[[NEXT]]
  // CHECK: op.dynamic_update_slice %[[Y]], %[[ROW]], %[[I]] {dim = 0 : i64}
  %y, %hn, %cn = op.lstm %x, %h, %c, %wi, %wh, %p {batch_first = false, bidirectional = false, has_biases = false, num_layers = 1 : i64}
      : (tensor<7x2x3xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>, tensor<16x2xf32>, tensor<2x4xf32>) -> (tensor<7x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x4xf32>)
  return %y, %cn : tensor<7x2x2xf32>, tensor<1x2x4xf32>
}

// The second direction counts down by index arithmetic.
// CHECK-LABEL: func.func @both_directions
func.func @both_directions(%x: tensor<7x2x3xf32>, %h: tensor<2x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>)
    -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>) {
  // CHECK: op.for
  // CHECK: op.for %[[I:.*]] = 0 to 7 step 1
  // CHECK: %[[LAST:.*]] = op.full {value = 6 : i64} : tensor<i64>
  // CHECK: %[[J:.*]] = op.sub %[[LAST]], %[[I]]
  // CHECK: op.dynamic_slice %{{.*}}, %[[J]]
  // CHECK: op.dynamic_update_slice %{{.*}}, %{{.*}}, %[[J]]
  // CHECK: op.cat %{{.*}}, %{{.*}} {dim = 2 : i64}
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh, %wi, %wh
      {num_layers = 1 : i64, bidirectional = true, batch_first = false, has_biases = false}
      : (tensor<7x2x3xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>,
         tensor<16x3xf32>, tensor<16x4xf32>) -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)
  return %y, %hn : tensor<7x2x8xf32>, tensor<2x2x4xf32>
}

// Of a GRU: the loop hands on h and y.
// CHECK-LABEL: func.func @forward_gru
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x?x3xf32, #op.dims<[2, s, 3]>>
func.func @forward_gru(%x: tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, %h: tensor<1x2x4xf32>, %wi: tensor<12x3xf32>,
                       %wh: tensor<12x4xf32>, %bi: tensor<12xf32>, %bh: tensor<12xf32>) -> tensor<2x?x4xf32, #op.dims<[2, s, 4]>> {
  // CHECK: %[[T:.*]] = op.permute %[[X]] {dims = array<i64: 1, 0, 2>}
  // CHECK: %[[P:.*]] = op.linear %[[T]], %{{[^ ]*}}, %[[BI:[^ ]*]] :
  // CHECK: %[[F:.*]]:2 = op.for %[[I:.*]] = 0 to s step 1 iter(%[[H:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
  // CHECK: op.dynamic_slice %[[P]], %[[I]] {dim = 0 : i64, length = 1 : i64}
  // CHECK: %[[R:.*]] = op.linear %[[H]], %{{[^ ]*}}, %{{[^ ]*}} :
  // CHECK-COUNT-4: op.slice
  // CHECK: %[[PN:.*]] = op.slice %{{.*}}start = 8
  // CHECK: %[[RN:.*]] = op.slice %[[R]]{{.*}}start = 8
  // CHECK: %[[M:.*]] = op.mul %[[RN]], %{{.*}}
  // CHECK: %[[A:.*]] = op.add %[[PN]], %[[M]]
  // CHECK: %[[N:.*]] = op.tanh %[[A]]
  // CHECK: %[[D:.*]] = op.sub %[[H]], %[[N]]
  // CHECK: %[[K:.*]] = op.mul %[[D]], %{{.*}}
  // CHECK: op.add %[[K]], %[[N]]
  // CHECK: op.dynamic_update_slice %[[Y]], %{{.*}}, %[[I]] {dim = 0 : i64}
  // CHECK: op.permute %[[F]]#1 {dims = array<i64: 1, 0, 2>}
  %y, %hn = op.gru %x, %h, %wi, %wh, %bi, %bh {num_layers = 1 : i64, bidirectional = false, batch_first = true, has_biases = true}
      : (tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>, tensor<12xf32>, tensor<12xf32>)
      -> (tensor<2x?x4xf32, #op.dims<[2, s, 4]>>, tensor<1x2x4xf32>)
  return %y : tensor<2x?x4xf32, #op.dims<[2, s, 4]>>
}

// Up to 32 steps stand one after the other; the second direction begins with the last.
// CHECK-LABEL: func.func @few_steps
func.func @few_steps(%x: tensor<3x2x3xf32>, %h: tensor<2x2x4xf32>, %wi: tensor<12x3xf32>, %wh: tensor<12x4xf32>)
    -> (tensor<3x2x8xf32>, tensor<2x2x4xf32>) {
  // CHECK-NOT: op.for
  // CHECK: op.linear
  // CHECK-COUNT-6: op.tanh
  // CHECK: op.cat %{{.*}}, %{{.*}}, %{{.*}} {dim = 0 : i64}
  // CHECK: op.cat %{{.*}}, %{{.*}} {dim = 2 : i64}
  // CHECK-NOT: op.for
  %y, %hn = op.gru %x, %h, %wi, %wh, %wi, %wh {num_layers = 1 : i64, bidirectional = true, batch_first = false, has_biases = false}
      : (tensor<3x2x3xf32>, tensor<2x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>)
      -> (tensor<3x2x8xf32>, tensor<2x2x4xf32>)
  return %y, %hn : tensor<3x2x8xf32>, tensor<2x2x4xf32>
}

// More are a loop, and the second direction of a named number of steps reads x from its end.
// CHECK-LABEL: func.func @many_steps
func.func @many_steps(%x: tensor<33x2x3xf32>, %z: tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, %h: tensor<1x2x4xf32>, %g: tensor<2x2x4xf32>,
                      %wi: tensor<12x3xf32>, %wh: tensor<12x4xf32>) -> (tensor<33x2x4xf32>, tensor<?x2x8xf32, #op.dims<[s, 2, 8]>>) {
  // CHECK: op.for %{{.*}} = 0 to 33 step 1
  // CHECK: op.for %{{.*}} = 0 to s step 1
  // CHECK: %[[BACK:.*]] = op.flip %{{.*}} {dims = array<i64: 0>}
  // CHECK: op.linear %[[BACK]]
  // CHECK: %[[F:.*]]:2 = op.for %{{.*}} = 0 to s step 1
  // CHECK: op.flip %[[F]]#1 {dims = array<i64: 0>}
  %y, %hn = op.gru %x, %h, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<33x2x3xf32>, tensor<1x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>) -> (tensor<33x2x4xf32>, tensor<1x2x4xf32>)
  %y2, %hn2 = op.gru %z, %g, %wi, %wh, %wi, %wh {num_layers = 1 : i64, bidirectional = true, batch_first = false, has_biases = false}
      : (tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, tensor<2x2x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>, tensor<12x3xf32>, tensor<12x4xf32>)
      -> (tensor<?x2x8xf32, #op.dims<[s, 2, 8]>>, tensor<2x2x4xf32>)
  return %y, %y2 : tensor<33x2x4xf32>, tensor<?x2x8xf32, #op.dims<[s, 2, 8]>>
}

// Of an RNN: few steps by themselves, many and named ones as a loop; one product and one function a step.
// CHECK-LABEL: func.func @rnn
func.func @rnn(%few: tensor<2x2x3xf32>, %many: tensor<33x2x3xf32>, %named: tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, %h: tensor<1x2x4xf32>,
               %wi: tensor<4x3xf32>, %wh: tensor<4x4xf32>, %bi: tensor<4xf32>, %bh: tensor<4xf32>)
    -> (tensor<2x2x4xf32>, tensor<33x2x4xf32>, tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>) {
  // CHECK: op.linear %arg0
  // CHECK-COUNT-2: op.relu
  // CHECK: op.cat
  // CHECK: %[[P:.*]] = op.linear %arg1, %{{[^ ]*}}, %[[BI:[^ ]*]] :
  // CHECK: op.for %[[I:.*]] = 0 to 33 step 1 iter(%[[H:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}})
  // CHECK: op.dynamic_slice %[[P]], %[[I]] {dim = 0 : i64, length = 1 : i64}
  // CHECK: %[[R:.*]] = op.linear %[[H]], %{{[^ ]*}}, %{{[^ ]*}} :
  // CHECK: %[[S:.*]] = op.add %[[R]], %{{.*}}
  // CHECK: op.tanh %[[S]]
  // CHECK: op.dynamic_update_slice %[[Y]], %{{.*}}, %[[I]] {dim = 0 : i64}
  // CHECK: op.for %{{.*}} = 0 to s step 1
  %y, %hn = op.rnn %few, %h, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "relu"}
      : (tensor<2x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) -> (tensor<2x2x4xf32>, tensor<1x2x4xf32>)
  %y2, %hn2 = op.rnn %many, %h, %wi, %wh, %bi, %bh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = true, nonlinearity = "tanh"}
      : (tensor<33x2x3xf32>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<33x2x4xf32>, tensor<1x2x4xf32>)
  %y3, %hn3 = op.rnn %named, %h, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"}
      : (tensor<?x2x3xf32, #op.dims<[s, 2, 3]>>, tensor<1x2x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>)
      -> (tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>, tensor<1x2x4xf32>)
  return %y, %y2, %y3 : tensor<2x2x4xf32>, tensor<33x2x4xf32>, tensor<?x2x4xf32, #op.dims<[s, 2, 4]>>
}

// In 16 bits nothing is asked: such states are computed in float32.
// CHECK-LABEL: func.func @half_lstm
// CHECK-NOT: op.where
// CHECK: return
func.func @half_lstm(%x: tensor<7x2x3xf16>, %h: tensor<1x2x4xf16>, %wi: tensor<16x3xf16>, %wh: tensor<16x4xf16>) -> tensor<7x2x4xf16> {
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x2x3xf16>, tensor<1x2x4xf16>, tensor<1x2x4xf16>, tensor<16x3xf16>, tensor<16x4xf16>) -> (tensor<7x2x4xf16>, tensor<1x2x4xf16>, tensor<1x2x4xf16>)
  return %y : tensor<7x2x4xf16>
}
