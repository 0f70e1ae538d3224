// RUN: straightline-opt %s --fuse-contractions --fuse-pointwise --select-kernels --assign-layouts | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --fuse-pointwise --select-kernels --assign-layouts -o %t.once && straightline-opt %t.once --assign-layouts -o %t.twice && diff %t.once %t.twice

// Between two convolutions memory is channels last, and has the border that the second reads; what the function returns is not.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<1x8x14x14xf32>) -> tensor<1x16x7x7xf32> {
  %v = op.parameter "v" : tensor<16x8x3x3xf32>
  %w = op.parameter "w" : tensor<16x16x3x3xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution", {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1]>
  %a = op.convolution %x, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x14x14xf32>
  // CHECK: op.max_pool2d {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1], border = [0, 0, 0, 0, 1, {{[0-9]+}}, 1, {{[0-9]+}}]>
  %p = op.max_pool2d %a {ceil_mode = false, dilation = array<i64: 1, 1>, kernel_size = array<i64: 2, 2>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>}
      : (tensor<1x16x14x14xf32>) -> tensor<1x16x7x7xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution"
  // CHECK-NOT: op.layout
  // CHECK: return
  %y = op.convolution %p, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x16x7x7xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x7x7xf32>
  return %y : tensor<1x16x7x7xf32>
}

// So has a sample of an image that lies channels last, whatever its grid's order is.
// CHECK-LABEL: func.func @samples
func.func @samples(%x: tensor<1x8x14x14xf32>, %y: tensor<1x2x9x9xf32>) -> (tensor<1x16x9x9xf32>, tensor<1x16x9x9xf32>) {
  %v = op.parameter "v" : tensor<16x8x3x3xf32>
  %w = op.parameter "w" : tensor<16x16x3x3xf32>
  %g = op.permute %y {dims = array<i64: 0, 2, 3, 1>} : (tensor<1x2x9x9xf32>) -> tensor<1x9x9x2xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution", {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1]>
  %a = op.convolution %x, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x14x14xf32>
  // CHECK: op.grid_sampler_2d {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1], border = [0, 0, 0, 0, 1, {{[0-9]+}}, 1, {{[0-9]+}}]>
  %p = op.grid_sampler_2d %a, %g {align_corners = false, interpolation_mode = "bilinear", padding_mode = "zeros"}
      : (tensor<1x16x14x14xf32>, tensor<1x9x9x2xf32>) -> tensor<1x16x9x9xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution"
  %b = op.convolution %p, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x16x9x9xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x9x9xf32>
  // A result of the function is not.
  // CHECK: op.grid_sampler_2d
  // CHECK-NOT: op.layout
  // CHECK: return
  %q = op.grid_sampler_2d %a, %g {align_corners = false, interpolation_mode = "nearest", padding_mode = "border"}
      : (tensor<1x16x14x14xf32>, tensor<1x9x9x2xf32>) -> tensor<1x16x9x9xf32>
  return %b, %q : tensor<1x16x9x9xf32>, tensor<1x16x9x9xf32>
}

// Signals have the same order and the border along their one dim; a pointwise op over a part of one follows it.
// CHECK-LABEL: func.func @signal
func.func @signal(%x: tensor<1x8x32xf32>) -> tensor<1x16x32xf32> {
  %v = op.parameter "v" : tensor<32x8x3xf32>
  %w = op.parameter "w" : tensor<16x16x5xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution", {{.*}}op.layout = #op.layout<order = [0, 2, 1]>
  %a = op.convolution %x, %v {dilation = array<i64: 1>, groups = 1 : i64, output_padding = array<i64: 0>, padding = array<i64: 1>, stride = array<i64: 1>, transposed = false}
      : (tensor<1x8x32xf32>, tensor<32x8x3xf32>) -> tensor<1x32x32xf32>
  %h = op.slice %a {dim = 1 : i64, start = 0 : i64, end = 16 : i64, step = 1 : i64} : (tensor<1x32x32xf32>) -> tensor<1x16x32xf32>
  // CHECK: op.fusion({{.*}}) {family = "pointwise", op.layout = #op.layout<order = [0, 2, 1], border = [0, 0, 0, 0, 2, 2]>
  %t = op.tanh %h : (tensor<1x16x32xf32>) -> tensor<1x16x32xf32>
  // CHECK: op.fusion({{.*}}) {family = "convolution"
  // CHECK-NOT: op.layout
  // CHECK: return
  %y = op.convolution %t, %w {dilation = array<i64: 1>, groups = 1 : i64, output_padding = array<i64: 0>, padding = array<i64: 2>, stride = array<i64: 1>, transposed = false}
      : (tensor<1x16x32xf32>, tensor<16x16x5xf32>) -> tensor<1x16x32xf32>
  return %y : tensor<1x16x32xf32>
}

// A kernel of any layout passes on the one that its image comes in: between channels-last convolutions nothing is reordered.
// CHECK-LABEL: func.func @depthwise
func.func @depthwise(%x: tensor<1x8x14x14xf32>) -> tensor<1x8x14x14xf32> {
  %u = op.parameter "u" : tensor<16x8x1x1xf32>
  %v = op.parameter "v" : tensor<16x1x3x3xf32>
  %w = op.parameter "w" : tensor<8x16x1x1xf32>
  // CHECK: kernel = "native.convolution", {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1]
  %a = op.convolution %x, %u {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x14x14xf32>
  // CHECK: kernel = "native.convolution_direct", {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1]
  %b = op.convolution %a, %v {dilation = array<i64: 1, 1>, groups = 16 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x16x14x14xf32>, tensor<16x1x3x3xf32>) -> tensor<1x16x14x14xf32>
  %c = op.convolution %b, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x16x14x14xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x14x14xf32>
  return %c : tensor<1x8x14x14xf32>
}

// What joins channels-last values alone is channels last; with a value of another order it is not.
// CHECK-LABEL: func.func @joined
func.func @joined(%x: tensor<1x8x14x14xf32>) -> tensor<1x8x14x14xf32> {
  %u = op.parameter "u" : tensor<16x8x1x1xf32>
  %v = op.parameter "v" : tensor<16x8x1x1xf32>
  %w = op.parameter "w" : tensor<8x40x3x3xf32>
  %a = op.convolution %x, %u {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x14x14xf32>
  %b = op.convolution %x, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x14x14xf32>
  // CHECK: op.cat {{.*}}op.layout = #op.layout<order = [0, 2, 3, 1]>
  %two = op.cat %a, %b {dim = 1 : i64} : (tensor<1x16x14x14xf32>, tensor<1x16x14x14xf32>) -> tensor<1x32x14x14xf32>
  // CHECK: family = "pointwise", op.layout = #op.layout<order = [0, 2, 3, 1]>
  %t = op.tanh %two : (tensor<1x32x14x14xf32>) -> tensor<1x32x14x14xf32>
  // CHECK: op.cat {{.*}}{dim = 1 : i64} :
  %mixed = op.cat %t, %x {dim = 1 : i64} : (tensor<1x32x14x14xf32>, tensor<1x8x14x14xf32>) -> tensor<1x40x14x14xf32>
  %y = op.convolution %mixed, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x40x14x14xf32>, tensor<8x40x3x3xf32>) -> tensor<1x8x14x14xf32>
  return %y : tensor<1x8x14x14xf32>
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

// Heads that are put beside one another next are written so, whatever order of the other dims that takes.
// CHECK-LABEL: func.func @heads
// CHECK: op.scaled_dot_product_attention {{.*}}op.layout = #op.layout<order = [2, 0, 1, 3]>
func.func @heads(%q: tensor<2x4x16x8xf32>) -> tensor<16x2x4x8xf32> {
  %a = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.5 : f64}
      : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %p = op.permute %a {dims = array<i64: 2, 0, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<16x2x4x8xf32>
  return %p : tensor<16x2x4x8xf32>
}

// Readers that want different orders, and one that takes a head apart, get rows.
// CHECK-LABEL: func.func @heads_twice
// CHECK-NOT: op.layout
// CHECK: return
func.func @heads_twice(%q: tensor<2x4x16x8xf32>) -> (tensor<2x16x4x8xf32>, tensor<2x4x8x16xf32>) {
  %a = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.5 : f64}
      : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %p = op.permute %a {dims = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %r = op.permute %a {dims = array<i64: 0, 1, 3, 2>} : (tensor<2x4x16x8xf32>) -> tensor<2x4x8x16xf32>
  return %p, %r : tensor<2x16x4x8xf32>, tensor<2x4x8x16xf32>
}

// A tensor of rows of channels that is seen as an image lies channels last, and so does what is computed from it.
// CHECK-LABEL: func.func @rows_as_image
func.func @rows_as_image(%x: tensor<1x196x32xf32>, %r: tensor<1x16x14x14xf32>) -> tensor<1x16xf32> {
  %w = op.parameter "w" : tensor<16x32xf32>
  %y = op.linear %x, %w : (tensor<1x196x32xf32>, tensor<16x32xf32>) -> tensor<1x196x16xf32>
  %e = op.exp %y : (tensor<1x196x16xf32>) -> tensor<1x196x16xf32>
  %z = op.reshape %e : (tensor<1x196x16xf32>) -> tensor<1x14x14x16xf32>
  %t = op.sin %z : (tensor<1x14x14x16xf32>) -> tensor<1x14x14x16xf32>
  %image = op.permute %t {dims = array<i64: 0, 3, 1, 2>} : (tensor<1x14x14x16xf32>) -> tensor<1x16x14x14xf32>
  // CHECK: op.fusion({{.*}}) {family = "pointwise", op.layout = #op.layout<order = [0, 2, 3, 1]>
  %s = op.add %image, %r : (tensor<1x16x14x14xf32>, tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  %m = op.amax %s {dims = array<i64: 2, 3>, keepdim = false} : (tensor<1x16x14x14xf32>) -> tensor<1x16xf32>
  return %m : tensor<1x16xf32>
}
