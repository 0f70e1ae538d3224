// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @convolution_c1(%x: tensor<1x4x9x9xf32>, %w: tensor<6x5x3x3xf32>) {
  // expected-error @+1 {{convolution: x has 4 channels but weight has 5 in 1 groups (convolution_c1)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x5x3x3xf32>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c2(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @+1 {{convolution: x has rank 4 and weight rank 3 but equal ranks of at least 3 are needed (convolution_c2)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3xf32>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c3(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{convolution: stride has 1 numbers but 2 are needed (convolution_c3)}}
  %y = op.convolution %x, %w {stride = array<i64: 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c3(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{convolution: stride holds 0 but at least 1 is needed (convolution_c3)}}
  %y = op.convolution %x, %w {stride = array<i64: 0, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c4(%x: tensor<1x4x9x9xf32>, %w: tensor<5x2x3x3xf32>) {
  // expected-error @+1 {{convolution: 2 groups do not divide weight's 5 channels (convolution_c4)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 2 : i64} : (tensor<1x4x9x9xf32>, tensor<5x2x3x3xf32>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c5(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{convolution: bias has extents [4] but [6] are needed (convolution_c5)}}
  %y = op.convolution %x, %w, %b {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>, tensor<4xf32>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c6(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{convolution: the result has extents [1, 6, 9, 9] but [1, 6, 7, 7] are needed (convolution_c6)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x9x9xf32>
  return
}

// -----

func.func @convolution_c7(%x: tensor<1x4x9x9xf32>, %w: tensor<6x4x3x3xf64>) {
  // expected-error @+1 {{convolution: weight has elements 'f64' but 'f32' are needed (convolution_c7)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<6x4x3x3xf64>) -> tensor<1x6x7x7xf32>
  return
}

// -----

func.func @convolution_c7_sums(%x: tensor<1x4x9x9xi8>, %w: tensor<6x4x3x3xi8>) {
  // expected-error @+1 {{convolution: the result has elements 'i8' but 'i32' are needed (convolution_c7)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x7x7xi8>
  return
}

// -----

func.func @convolution_c7_integers(%x: tensor<1x4x9x9xi32>, %w: tensor<6x4x3x3xi32>) {
  // expected-error @+1 {{convolution: x has elements 'i32' but floats or 'i8' are needed (convolution_c7)}}
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x9x9xi32>, tensor<6x4x3x3xi32>) -> tensor<1x6x7x7xi32>
  return
}

// -----

func.func @pool_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{max_pool2d: x has rank 2 but 3 or 4 is needed (pool_c1)}}
  %y = op.max_pool2d %x {kernel_size = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false} : (tensor<4x8xf32>) -> tensor<1x4x4x4xf32>
  return
}

// -----

func.func @pool_c2(%x: tensor<1x4x9x9xf32>) {
  // expected-error @+1 {{max_pool2d: kernel_size has 1 numbers but 2 are needed (pool_c2)}}
  %y = op.max_pool2d %x {kernel_size = array<i64: 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x9x9xf32>) -> tensor<1x4x4x4xf32>
  return
}

// -----

func.func @pool_c3(%x: tensor<1x4x9x9xf32>) {
  // expected-error @+1 {{max_pool2d: the result has extents [1, 4, 5, 5] but [1, 4, 4, 4] are needed (pool_c3)}}
  %y = op.max_pool2d %x {kernel_size = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x9x9xf32>) -> tensor<1x4x5x5xf32>
  return
}

// -----

func.func @pool_c4(%x: tensor<1x4x9x9xf32>) {
  // expected-error @+1 {{max_pool2d: padding 2 is more than half of kernel 2 (pool_c4)}}
  %y = op.max_pool2d %x {kernel_size = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 2, 2>, dilation = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x9x9xf32>) -> tensor<1x4x4x4xf32>
  return
}

// -----

func.func @grid_sampler_2d_c1(%x: tensor<2x4x9xf32>, %g: tensor<2x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: x has extents [2, 4, 9] and grid [2, 5, 6, 2] but [n, c, h, w] and [n, h', w', 2] are needed (grid_sampler_2d_c1)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x9xf32>, tensor<2x5x6x2xf32>) -> tensor<2x4x5x6xf32>
  return
}

// -----

func.func @grid_sampler_2d_c1_grid(%x: tensor<2x4x9x9xf32>, %g: tensor<2x5x6x3xf32>) {
  // expected-error @+1 {{grid_sampler_2d: x has extents [2, 4, 9, 9] and grid [2, 5, 6, 3] but [n, c, h, w] and [n, h', w', 2] are needed (grid_sampler_2d_c1)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x9x9xf32>, tensor<2x5x6x3xf32>) -> tensor<2x4x5x6xf32>
  return
}

// -----

func.func @grid_sampler_2d_c2(%x: tensor<2x4x9x9xf32>, %g: tensor<1x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: x has 2 images but grid 1 (grid_sampler_2d_c2)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x9x9xf32>, tensor<1x5x6x2xf32>) -> tensor<2x4x5x6xf32>
  return
}

// -----

func.func @grid_sampler_2d_c3(%x: tensor<2x4x9x9xf32>, %g: tensor<2x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: interpolation_mode is "linear" but "bilinear", "nearest" or "bicubic" is needed (grid_sampler_2d_c3)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "linear", padding_mode = "zeros"} : (tensor<2x4x9x9xf32>, tensor<2x5x6x2xf32>) -> tensor<2x4x5x6xf32>
  return
}

// -----

func.func @grid_sampler_2d_c3_padding(%x: tensor<2x4x9x9xf32>, %g: tensor<2x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: padding_mode is "circular" but "zeros", "border" or "reflection" is needed (grid_sampler_2d_c3)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "circular"} : (tensor<2x4x9x9xf32>, tensor<2x5x6x2xf32>) -> tensor<2x4x5x6xf32>
  return
}

// -----

func.func @grid_sampler_2d_c4(%x: tensor<2x4x9x9xf32>, %g: tensor<2x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: the result has extents [2, 4, 6, 5] but [2, 4, 5, 6] are needed (grid_sampler_2d_c4)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x9x9xf32>, tensor<2x5x6x2xf32>) -> tensor<2x4x6x5xf32>
  return
}

// -----

func.func @grid_sampler_2d_c5(%x: tensor<2x4x9x9xf32>, %g: tensor<2x5x6x2xf64>) {
  // expected-error @+1 {{grid_sampler_2d: grid has elements 'f64' but 'f32' are needed (grid_sampler_2d_c5)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x9x9xf32>, tensor<2x5x6x2xf64>) -> tensor<2x4x5x6xf32>
  return
}

// -----

func.func @grid_sampler_2d_c5_result(%x: tensor<2x4x9x9xf32>, %g: tensor<2x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: the result has elements 'f16' but 'f32' are needed (grid_sampler_2d_c5)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x9x9xf32>, tensor<2x5x6x2xf32>) -> tensor<2x4x5x6xf16>
  return
}

// -----

func.func @grid_sampler_2d_c6(%x: tensor<2x4x0x9xf32>, %g: tensor<2x5x6x2xf32>) {
  // expected-error @+1 {{grid_sampler_2d: x has extents [2, 4, 0, 9] but images with elements are needed (grid_sampler_2d_c6)}}
  %y = op.grid_sampler_2d %x, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"} : (tensor<2x4x0x9xf32>, tensor<2x5x6x2xf32>) -> tensor<2x4x5x6xf32>
  return
}
