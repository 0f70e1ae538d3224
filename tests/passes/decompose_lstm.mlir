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
  // CHECK: op.dynamic_update_slice %[[Y]], %{{.*}}, %[[I]] {dim = 0 : i64}
  // CHECK: op.permute %[[F]]#2 {dims = array<i64: 1, 0, 2>}
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh
      {num_layers = 1 : i64, bidirectional = false, batch_first = true, has_biases = false}
      : (tensor<2x?x3xf32, #op.dims<[2, s, 3]>>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<16x3xf32>,
         tensor<16x4xf32>) -> (tensor<2x?x4xf32, #op.dims<[2, s, 4]>>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return %y : tensor<2x?x4xf32, #op.dims<[2, s, 4]>>
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
