// RUN: straightline-opt %s --fold-batch-norm | FileCheck %s
// RUN: straightline-opt %s --fold-batch-norm -o %t.once && straightline-opt %t.once --fold-batch-norm -o %t.twice && diff %t.once %t.twice

// CHECK-LABEL: func.func @folded
func.func @folded(%x: tensor<1x4x9x9xf32>) -> tensor<1x6x7x7xf32> {
  // CHECK-DAG: %[[W:.*]] = op.parameter "w"
  // CHECK-DAG: %[[G:.*]] = op.parameter "g"
  // CHECK: op.sqrt {{.*}} -> tensor<6xf64>
  // CHECK: %[[SCALE:.*]] = op.div {{.*}} -> tensor<6xf64>
  // CHECK: %[[WIDE:.*]] = op.to_dtype %[[W]] : (tensor<6x4x3x3xf32>) -> tensor<6x4x3x3xf64>
  // CHECK: %[[COLUMN:.*]] = op.reshape %[[SCALE]] : (tensor<6xf64>) -> tensor<6x1x1x1xf64>
  // CHECK: %[[FACTOR:.*]] = op.expand %[[COLUMN]]
  // CHECK: %[[SCALED:.*]] = op.mul %[[WIDE]], %[[FACTOR]]
  // CHECK: %[[NEW:.*]] = op.to_dtype %[[SCALED]] : (tensor<6x4x3x3xf64>) -> tensor<6x4x3x3xf32>
  // CHECK: %[[Y:.*]] = op.convolution %{{.*}}, %[[NEW]], %{{.*}} {
  // CHECK-NEXT: return %[[Y]]
  %w = op.parameter "w" : tensor<6x4x3x3xf32>
  %g = op.parameter "g" : tensor<6xf32>
  %b = op.parameter "b" : tensor<6xf32>
  %m = op.parameter "m" : tensor<6xf32>
  %v = op.parameter "v" : tensor<6xf32>
  %c = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  %n = op.batch_norm %c weight %g bias %b mean %m var %v {eps = 1.0e-5 : f64}
      : (tensor<1x6x7x7xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6x7x7xf32>
  return %n : tensor<1x6x7x7xf32>
}

// CHECK-LABEL: func.func @folded_linear
func.func @folded_linear(%x: tensor<2x4xf32>) -> tensor<2x6xf32> {
  // CHECK: op.linear
  // CHECK-NEXT: return
  %w = op.parameter "w" : tensor<6x4xf32>
  %b = op.parameter "b" : tensor<6xf32>
  %l = op.linear %x, %w, %b : (tensor<2x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  %n = op.batch_norm %l mean %b var %b {eps = 1.0e-5 : f64}
      : (tensor<2x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  return %n : tensor<2x6xf32>
}

// Refused: the convolution's value is read elsewhere; the norm is one multiply-add by channel.
// CHECK-LABEL: func.func @two_readers
func.func @two_readers(%x: tensor<1x4x9x9xf32>) -> (tensor<1x6x7x7xf32>, tensor<1x6x7x7xf32>) {
  // CHECK: %[[C:.*]] = op.convolution
  // CHECK-NOT: op.batch_norm
  // CHECK: %[[P:.*]] = op.mul %[[C]]
  // CHECK: %[[N:.*]] = op.add %[[P]]
  // CHECK: return %[[C]], %[[N]]
  %w = op.parameter "w" : tensor<6x4x3x3xf32>
  %v = op.parameter "v" : tensor<6xf32>
  %c = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  %n = op.batch_norm %c mean %v var %v {eps = 1.0e-5 : f64}
      : (tensor<1x6x7x7xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6x7x7xf32>
  return %c, %n : tensor<1x6x7x7xf32>, tensor<1x6x7x7xf32>
}

// Refused: the statistics are an input.
// CHECK-LABEL: func.func @statistics_given
func.func @statistics_given(%x: tensor<1x4x9x9xf32>, %v: tensor<6xf32>) -> tensor<1x6x7x7xf32> {
  // CHECK: op.convolution
  // CHECK: op.mul
  // CHECK: op.add
  // CHECK-NEXT: return
  %w = op.parameter "w" : tensor<6x4x3x3xf32>
  %c = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  %n = op.batch_norm %c mean %v var %v {eps = 1.0e-5 : f64}
      : (tensor<1x6x7x7xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6x7x7xf32>
  return %n : tensor<1x6x7x7xf32>
}
