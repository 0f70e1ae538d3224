// RUN: straightline-opt %s --fuse-pointwise | FileCheck %s
// RUN: straightline-opt %s --fuse-pointwise -o %t.once && straightline-opt %t.once --fuse-pointwise -o %t.twice && diff %t.once %t.twice

// A chain and a broadcast operand are one kernel; the intermediate that is read elsewhere is a second result.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>, %[[V:[^:]*]]: tensor<8xf32>
func.func @chain(%x: tensor<4x8xf32>, %v: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: %[[F:.*]]:2 = op.fusion(%[[X]], %[[V]]) {family = "pointwise"}
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[W:.*]] = op.expand %[[B]]
  // CHECK-NEXT: %[[S:.*]] = op.add %[[A]], %[[W]]
  // CHECK-NEXT: %[[TWO:.*]] = op.full {value = 2.000000e+00 : f64}
  // CHECK-NEXT: %[[M:.*]] = op.mul %[[S]], %[[TWO]]
  // CHECK-NEXT: op.yield %[[S]], %[[M]]
  // CHECK: return %[[F]]#0, %[[F]]#1
  %w = op.expand %v : (tensor<8xf32>) -> tensor<4x8xf32>
  %s = op.add %x, %w : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %two = op.full {value = 2.0 : f64} : tensor<4x8xf32>
  %m = op.mul %s, %two : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s, %m : tensor<4x8xf32>, tensor<4x8xf32>
}

// Refused: exp and add would be one kernel around the flip, which reads the one and feeds the other.
// CHECK-LABEL: func.func @cycle
func.func @cycle(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: op.fusion(%{{.*}}) {family = "pointwise"}
  // CHECK: op.exp
  // CHECK: op.flip
  // CHECK: op.fusion(%{{.*}}, %{{.*}}) {family = "pointwise"}
  // CHECK: op.add
  %e = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %f = op.flip %e {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %s = op.add %e, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// Refused: what prepare computes and what run computes are never one kernel.
// CHECK-LABEL: func.func @phases
func.func @phases(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[P:.*]] = op.fusion(%{{.*}}) {family = "pointwise", op.prepare}
  // CHECK: op.fusion(%[[P]], %{{.*}}) {family = "pointwise"}
  %w = op.parameter "w" : tensor<4xf32>
  %e = op.exp %w {op.prepare} : (tensor<4xf32>) -> tensor<4xf32>
  %s = op.add %e, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// The reshape between moves to the operands, which their ops made contiguous.
// CHECK-LABEL: func.func @reshape_between
func.func @reshape_between(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  // CHECK: %[[FLIP:.*]] = op.flip
  // CHECK-NEXT: %[[FLAT:.*]] = op.reshape %[[FLIP]]
  // CHECK-NEXT: op.fusion(%[[FLAT]])
  // CHECK: op.relu
  // CHECK: op.exp
  // CHECK-NOT: op.reshape
  %f = op.flip %x {dims = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = op.relu %f : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = op.reshape %r : (tensor<4x8xf32>) -> tensor<32xf32>
  %e = op.exp %v : (tensor<32xf32>) -> tensor<32xf32>
  return %e : tensor<32xf32>
}

// Refused: index arithmetic of a loop is no kernel.
// CHECK-LABEL: func.func @index
func.func @index(%x: tensor<4xf32>) -> tensor<1xf32> {
  %zero = op.full {value = 0.0 : f64} : tensor<1xf32>
  // CHECK: op.for
  // CHECK-NOT: op.fusion
  // CHECK: op.sub
  // CHECK: op.dynamic_slice
  %y = op.for %i = 0 to 4 step 1 iter(%a = %zero) : (tensor<1xf32>) {
    %last = op.full {value = 3 : i64} : tensor<i64>
    %j = op.sub %last, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %s = op.dynamic_slice %x, %j {dim = 0 : i64, length = 1 : i64} : (tensor<4xf32>, tensor<i64>) -> tensor<1xf32>
    op.yield %s : tensor<1xf32>
  }
  return %y : tensor<1xf32>
}
