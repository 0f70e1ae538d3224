// RUN: straightline-opt %s --fuse-contractions | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions -o %t.once && straightline-opt %t.once --fuse-contractions -o %t.twice && diff %t.once %t.twice

// Bias, gelu written out (a value read twice) and a residual follow the product into one kernel.
// CHECK-LABEL: func.func @epilogue
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>, %[[R:[^:]*]]: tensor<4x3xf32>
func.func @epilogue(%x: tensor<4x8xf32>, %res: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK: %[[W:.*]] = op.parameter "w"
  // CHECK: %[[B:.*]] = op.parameter "b"
  // CHECK: %[[F:.*]] = op.fusion(%[[X]], %[[W]], %[[B]], %[[R]]) {family = "gemm"}
  // CHECK: op.linear
  // CHECK: op.expand
  // CHECK: op.add
  // CHECK: op.sigmoid
  // CHECK: op.mul
  // CHECK: op.add
  // CHECK: }
  // CHECK-NEXT: return %[[F]]
  %w = op.parameter "w" : tensor<3x8xf32>
  %b = op.parameter "b" : tensor<3xf32>
  %p = op.linear %x, %w : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  %bw = op.expand %b : (tensor<3xf32>) -> tensor<4x3xf32>
  %s = op.add %p, %bw : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %g = op.sigmoid %s : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %m = op.mul %s, %g : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = op.add %m, %res : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// The residual is the contraction's own operand: it stands twice.
// CHECK-LABEL: func.func @own_operand
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x4xf32>
func.func @own_operand(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: op.fusion(%[[X]], %[[X]], %[[X]]) {family = "matmul"}
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4x4xf32>, %[[C:.*]]: tensor<4x4xf32>):
  // CHECK-NEXT: %[[P:.*]] = op.matmul %[[A]], %[[B]]
  // CHECK-NEXT: op.add %[[P]], %[[C]]
  %p = op.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = op.add %p, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// Refused: the product itself is read elsewhere.
// CHECK-LABEL: func.func @two_readers
func.func @two_readers(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: op.fusion
  // CHECK: op.matmul
  // CHECK-NEXT: op.yield
  // CHECK: op.relu
  %p = op.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = op.relu %p : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %p, %y : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @residual_convolution
func.func @residual_convolution(%x: tensor<1x4x9x9xf32>, %r: tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32> {
  // CHECK: op.fusion(%{{.*}}, %{{.*}}, %{{.*}}) {family = "convolution"}
  // CHECK: op.convolution
  // CHECK-NEXT: op.add
  // CHECK-NEXT: op.relu
  // CHECK-NEXT: op.yield
  %w = op.parameter "w" : tensor<4x4x3x3xf32>
  %c = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>,
      transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x9x9xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x9x9xf32>
  %s = op.add %c, %r : (tensor<1x4x9x9xf32>, tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  %y = op.relu %s : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  return %y : tensor<1x4x9x9xf32>
}

// A reshape of the leading dims does not part a linear from its epilogue.
// CHECK-LABEL: func.func @reshape_between
func.func @reshape_between(%x: tensor<4x8xf32>, %r: tensor<2x2x3xf32>) -> tensor<2x2x3xf32> {
  // CHECK: %[[E:.*]] = op.exp
  // CHECK: %[[S:.*]] = op.reshape %[[E]] : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
  // CHECK: op.fusion(%[[S]], {{.*}}) {family = "gemm"}
  // CHECK: op.linear
  // CHECK-NEXT: op.add
  %w = op.parameter "w" : tensor<3x8xf32>
  %e = op.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = op.linear %e, %w : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  %v = op.reshape %l : (tensor<4x3xf32>) -> tensor<2x2x3xf32>
  %y = op.add %v, %r : (tensor<2x2x3xf32>, tensor<2x2x3xf32>) -> tensor<2x2x3xf32>
  return %y : tensor<2x2x3xf32>
}

// The sum of 16 bits is the result where what reads it can widen it (a norm, the next residual): half the bytes, and a type that a
// library stores. A widened result that the caller wants is the product's own.
// CHECK-LABEL: func.func @widened_by_readers
func.func @widened_by_readers(%x: tensor<4x8xbf16>, %res: tensor<4x3xf32>) -> (tensor<4x1xf32>, tensor<4x3xf32>) {
  // CHECK: %[[F:.*]] = op.fusion{{.*}} -> tensor<4x3xbf16> {
  // CHECK: }
  // CHECK-NEXT: op.to_dtype %[[F]]
  // CHECK-NOT: op.fusion
  // CHECK: return
  %w = op.parameter "w" : tensor<3x8xbf16>
  %p = op.linear %x, %w : (tensor<4x8xbf16>, tensor<3x8xbf16>) -> tensor<4x3xbf16>
  %f = op.to_dtype %p : (tensor<4x3xbf16>) -> tensor<4x3xf32>
  %s = op.add %f, %res : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %n = op.to_dtype %s : (tensor<4x3xf32>) -> tensor<4x3xbf16>
  %y = op.to_dtype %n : (tensor<4x3xbf16>) -> tensor<4x3xf32>
  %m = op.amax %y {dims = array<i64: 1>, keepdim = true} : (tensor<4x3xf32>) -> tensor<4x1xf32>
  %z = op.mul %y, %res : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %m, %z : tensor<4x1xf32>, tensor<4x3xf32>
}

// CHECK-LABEL: func.func @widened_for_the_caller
func.func @widened_for_the_caller(%x: tensor<4x8xbf16>) -> tensor<4x3xf32> {
  // CHECK: %[[F:.*]] = op.fusion{{.*}} -> tensor<4x3xf32> {
  // CHECK: }
  // CHECK-NEXT: return %[[F]]
  %w = op.parameter "w" : tensor<3x8xbf16>
  %p = op.linear %x, %w : (tensor<4x8xbf16>, tensor<3x8xbf16>) -> tensor<4x3xbf16>
  %y = op.to_dtype %p : (tensor<4x3xbf16>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
