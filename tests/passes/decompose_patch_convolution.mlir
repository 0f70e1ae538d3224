// RUN: straightline-opt %s --decompose-ops=largest-patch-channels=3 | FileCheck %s
// RUN: straightline-opt %s --decompose-ops | FileCheck %s --check-prefix=WHOLE

// Patches of 2 x 4: their 3 * 8 elements are the channels of a convolution of 1 x 1. What is left over behind the last patch is cut off.
// CHECK-LABEL: func.func @patches
// WHOLE-LABEL: func.func @patches
func.func @patches(%x: tensor<?x3x5x8xf32, #op.dims<[n, 3, 5, 8]>>) -> tensor<?x6x2x2xf32, #op.dims<[n, 6, 2, 2]>> {
  // CHECK: %[[W:.*]] = op.parameter "w"
  // CHECK: %[[CUT:.*]] = op.slice %{{.*}} {dim = 2 : i64, end = 4 : i64, start = 0 : i64, step = 1 : i64}
  // CHECK: %[[SPLIT:.*]] = op.reshape %[[CUT]] {{.*}} -> tensor<?x3x2x2x2x4xf32
  // CHECK: %[[ORDERED:.*]] = op.permute %[[SPLIT]] {dims = array<i64: 0, 2, 4, 1, 3, 5>}
  // CHECK: %[[JOINED:.*]] = op.reshape %[[ORDERED]] {{.*}} -> tensor<?x2x2x24xf32
  // CHECK: %[[PATCHES:.*]] = op.permute %[[JOINED]] {dims = array<i64: 0, 3, 1, 2>}
  // CHECK: %[[FILTERS:.*]] = op.reshape %[[W]] : (tensor<6x3x2x4xf32>) -> tensor<6x24x1x1xf32>
  // CHECK: op.convolution %[[PATCHES]], %[[FILTERS]], %{{.*}} {{.*}}stride = array<i64: 1, 1>
  // WHOLE: op.convolution {{.*}}stride = array<i64: 2, 4>
  %w = op.parameter "w" : tensor<6x3x2x4xf32>
  %b = op.parameter "b" : tensor<6xf32>
  %y = op.convolution %x, %w, %b {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 2, 4>, transposed = false}
      : (tensor<?x3x5x8xf32, #op.dims<[n, 3, 5, 8]>>, tensor<6x3x2x4xf32>, tensor<6xf32>) -> tensor<?x6x2x2xf32, #op.dims<[n, 6, 2, 2]>>
  return %y : tensor<?x6x2x2xf32, #op.dims<[n, 6, 2, 2]>>
}

// Patches that overlap, have more channels, a border, or a dilation; and single elements.
// CHECK-LABEL: func.func @whole
func.func @whole(%x: tensor<1x3x8x8xf32>, %z: tensor<1x4x8x8xf32>) -> (tensor<1x2x7x7xf32>, tensor<1x2x4x4xf32>, tensor<1x2x5x5xf32>, tensor<1x2x3x3xf32>, tensor<1x2x8x8xf32>) {
  // CHECK-NOT: op.reshape
  %w = op.parameter "w" : tensor<2x3x2x2xf32>
  %v = op.parameter "v" : tensor<2x4x2x2xf32>
  %u = op.parameter "u" : tensor<2x3x1x1xf32>
  %a = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x3x8x8xf32>, tensor<2x3x2x2xf32>) -> tensor<1x2x7x7xf32>
  %b = op.convolution %z, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>, transposed = false}
      : (tensor<1x4x8x8xf32>, tensor<2x4x2x2xf32>) -> tensor<1x2x4x4xf32>
  %c = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, transposed = false}
      : (tensor<1x3x8x8xf32>, tensor<2x3x2x2xf32>) -> tensor<1x2x5x5xf32>
  %d = op.convolution %x, %w {dilation = array<i64: 2, 2>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>, transposed = false}
      : (tensor<1x3x8x8xf32>, tensor<2x3x2x2xf32>) -> tensor<1x2x3x3xf32>
  %e = op.convolution %x, %u {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x3x8x8xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x8x8xf32>
  return %a, %b, %c, %d, %e : tensor<1x2x7x7xf32>, tensor<1x2x4x4xf32>, tensor<1x2x5x5xf32>, tensor<1x2x3x3xf32>, tensor<1x2x8x8xf32>
}
