// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>, %w: tensor<6x2x3x3xf32>, %t: tensor<4x3x3x3xf32>, %b: tensor<6xf32>) {
  // CHECK: op.convolution{{.*}}{dilation = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, transposed = false}{{.*}} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<?x6x5x5xf32, #op.dims<[b, 6, 5, 5]>>
  %c = op.convolution %x, %w, %b {dilation = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, transposed = false} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<?x6x5x5xf32, #op.dims<[b, 6, 5, 5]>>
  // CHECK: op.convolution{{.*}}{dilation = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 1, 1>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, transposed = true}{{.*}} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>, tensor<4x3x3x3xf32>) -> tensor<?x6x18x18xf32, #op.dims<[b, 6, 18, 18]>>
  %u = op.convolution %x, %t {dilation = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 1, 1>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, transposed = true} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>, tensor<4x3x3x3xf32>) -> tensor<?x6x18x18xf32, #op.dims<[b, 6, 18, 18]>>
  // CHECK: op.max_pool2d{{.*}}{ceil_mode = true, dilation = array<i64: 1, 1>, kernel_size = array<i64: 2, 2>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>}{{.*}} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>) -> tensor<?x4x5x5xf32, #op.dims<[b, 4, 5, 5]>>
  %m = op.max_pool2d %x {ceil_mode = true, dilation = array<i64: 1, 1>, kernel_size = array<i64: 2, 2>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>) -> tensor<?x4x5x5xf32, #op.dims<[b, 4, 5, 5]>>
  // CHECK: op.avg_pool2d{{.*}}{ceil_mode = false, count_include_pad = true, divisor_override = 3 : i64, kernel_size = array<i64: 3, 3>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>}{{.*}} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>) -> tensor<?x4x5x5xf32, #op.dims<[b, 4, 5, 5]>>
  %a = op.avg_pool2d %x {ceil_mode = false, count_include_pad = true, divisor_override = 3 : i64, kernel_size = array<i64: 3, 3>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>) -> tensor<?x4x5x5xf32, #op.dims<[b, 4, 5, 5]>>
  // CHECK: op.adaptive_avg_pool2d{{.*}}{output_size = array<i64: 1, 1>}{{.*}} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>) -> tensor<?x4x1x1xf32, #op.dims<[b, 4, 1, 1]>>
  %d = op.adaptive_avg_pool2d %x {output_size = array<i64: 1, 1>} : (tensor<?x4x9x9xf32, #op.dims<[b, 4, 9, 9]>>) -> tensor<?x4x1x1xf32, #op.dims<[b, 4, 1, 1]>>
  return
}

// CHECK-LABEL: func.func @grid_sampler
func.func @grid_sampler(%x: tensor<?x4x9x?xf16, #op.dims<[b, 4, 9, w]>>, %g: tensor<?x5x6x2xf16, #op.dims<[b, 5, 6, 2]>>) {
  // CHECK: op.grid_sampler_2d{{.*}}{align_corners = true, interpolation_mode = "bicubic", padding_mode = "reflection"}{{.*}} : (tensor<?x4x9x?xf16, #op.dims<[b, 4, 9, w]>>, tensor<?x5x6x2xf16, #op.dims<[b, 5, 6, 2]>>) -> tensor<?x4x5x6xf16, #op.dims<[b, 4, 5, 6]>>
  %y = op.grid_sampler_2d %x, %g {align_corners = true, interpolation_mode = "bicubic", padding_mode = "reflection"} : (tensor<?x4x9x?xf16, #op.dims<[b, 4, 9, w]>>, tensor<?x5x6x2xf16, #op.dims<[b, 5, 6, 2]>>) -> tensor<?x4x5x6xf16, #op.dims<[b, 4, 5, 6]>>
  return
}
