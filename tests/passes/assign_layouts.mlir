// RUN: straightline-opt %s --fuse-contractions --fuse-pointwise --select-kernels --assign-layouts | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --fuse-pointwise --select-kernels --assign-layouts -o %t.once && straightline-opt %t.once --assign-layouts -o %t.twice && diff %t.once %t.twice

// Between two convolutions memory is channels last, and has the border that the second reads; what the function returns is not.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<1x8x14x14xf32>) -> tensor<1x16x7x7xf32> {
  %v = op.parameter "v" : tensor<16x8x3x3xf32>
  %w = op.parameter "w" : tensor<16x16x3x3xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution", {{.*}}op.layout = {border = array<i64: 0, 0, 0, 0, 0, 0, 0, 0>, order = array<i64: 0, 2, 3, 1>}
  %a = op.convolution %x, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x14x14xf32>
  // CHECK: op.max_pool2d {{.*}}op.layout = {border = array<i64: 0, 0, 0, 0, 1, {{[0-9]+}}, 1, {{[0-9]+}}>, order = array<i64: 0, 2, 3, 1>}
  %p = op.max_pool2d %a {ceil_mode = false, dilation = array<i64: 1, 1>, kernel_size = array<i64: 2, 2>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>}
      : (tensor<1x16x14x14xf32>) -> tensor<1x16x7x7xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution"
  // CHECK-NOT: op.layout
  // CHECK: return
  %y = op.convolution %p, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x16x7x7xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x7x7xf32>
  return %y : tensor<1x16x7x7xf32>
}

// A reshape reads rows: the convolution before it writes row-major.
// CHECK-LABEL: func.func @flattened
func.func @flattened(%x: tensor<1x8x14x14xf32>) -> tensor<1x3136xf32> {
  // CHECK-NOT: op.layout
  %v = op.parameter "v" : tensor<16x8x3x3xf32>
  %a = op.convolution %x, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x14x14xf32>
  %y = op.reshape %a : (tensor<1x16x14x14xf32>) -> tensor<1x3136xf32>
  return %y : tensor<1x3136xf32>
}
