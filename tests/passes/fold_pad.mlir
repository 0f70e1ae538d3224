// RUN: straightline-opt %s --fold-pad | FileCheck %s
// RUN: straightline-opt %s --fold-pad -o %t.once && straightline-opt %t.once --fold-pad -o %t.twice && diff %t.once %t.twice

// Widths (2, 2) of w and (1, 1) of h join the padding [0, 1] of [h, w].
// CHECK-LABEL: func.func @folded
func.func @folded(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x9x13xf32> {
  // CHECK-NOT: op.constant_pad_nd
  // CHECK: op.convolution %arg0, %arg1 {{.*}}padding = array<i64: 1, 3>{{.*}}(tensor<1x4x9x9xf32>
  %p = op.constant_pad_nd %x {pad = array<i64: 2, 2, 1, 1>, value = 0.0 : f64} : (tensor<1x4x9x9xf32>) -> tensor<1x4x11x13xf32>
  %c = op.convolution %p, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 1>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x11x13xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x9x13xf32>
  return %c : tensor<1x6x9x13xf32>
}

// CHECK-LABEL: func.func @not_zero
func.func @not_zero(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x9x9xf32> {
  // CHECK: op.constant_pad_nd
  %p = op.constant_pad_nd %x {pad = array<i64: 1, 1, 1, 1>, value = 1.0 : f64} : (tensor<1x4x9x9xf32>) -> tensor<1x4x11x11xf32>
  %c = op.convolution %p, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x11x11xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x9x9xf32>
  return %c : tensor<1x6x9x9xf32>
}

// CHECK-LABEL: func.func @one_side
func.func @one_side(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32> {
  // CHECK: op.constant_pad_nd
  %p = op.constant_pad_nd %x {pad = array<i64: 0, 1, 0, 1>, value = 0.0 : f64} : (tensor<1x4x9x9xf32>) -> tensor<1x4x10x10xf32>
  %c = op.convolution %p, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x10x10xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  return %c : tensor<1x6x8x8xf32>
}

// CHECK-LABEL: func.func @channels
func.func @channels(%x: tensor<1x2x9x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32> {
  // CHECK: op.constant_pad_nd
  %p = op.constant_pad_nd %x {pad = array<i64: 0, 0, 0, 0, 1, 1>, value = 0.0 : f64} : (tensor<1x2x9x9xf32>) -> tensor<1x4x9x9xf32>
  %c = op.convolution %p, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  return %c : tensor<1x6x7x7xf32>
}
