// RUN: straightline-opt %s --split-input-file --fuse-contractions --fuse-pointwise --select-kernels --assign-layouts --lower-to-kernel | FileCheck %s
// RUN: straightline-opt %s --split-input-file --fuse-contractions --fuse-pointwise --select-kernels --assign-layouts --lower-to-kernel --verify-kernel-level -o /dev/null

// Bias, residual and ReLU are the library's. Everything it sees is dense and channels last; the weight is turned in prepare.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<tf32 = "convolution", routes = [#op.route<op = "convolution", targets = ["cudnn"], by = "test">]>} {
  // CHECK-LABEL: kernel.program @residual
  // CHECK: %[[W:.*]] = kernel.prepared "w.channels_last" : !kernel.buffer<16x16x3x3xf32, strides [144, 1, 48, 16]>
  // CHECK: kernel.handle "cudnn_convolution_0" destroy("sl_cudnn_convolution_plan_destroy")
  // CHECK: kernel.plan @cudnn_convolution_0
  // CHECK: kernel.run (%[[X:.*]] "x": {{.*}}, %[[R:.*]] "r": {{.*}}) outs(%[[Y:[a-z0-9]+]]
  // CHECK: kernel.launch {{.*}}(%[[X]]) outs(%[[XL:.*]]) {{.*}}reorder
  // CHECK: kernel.launch {{.*}}(%[[R]]) outs(%[[RL:.*]]) {{.*}}reorder
  // CHECK: kernel.call @cudnn_convolution_0(%[[XL]], %[[W]], %{{.*}}, %[[RL]]) outs(%[[YL:[a-z0-9]+]]) handle(
  // CHECK: kernel.launch {{.*}}(%[[YL]]) outs(%[[Y]]) {{.*}}copy
  // CHECK: kernel.decl @cudnn_convolution_0(!kernel.buffer<1x16x9x9xf32, strides [1296, 1, 144, 16]>
  // CHECK-NEXT: activation = "relu"{{.*}}tf32 = 1 : i64{{.*}}workspace_bytes = 1048576 : i64
  // CHECK-SAME: sl_cudnn_convolution_run
  func.func @residual(%x: tensor<1x16x9x9xf32> {op.name = "x"}, %r: tensor<1x16x9x9xf32> {op.name = "r"}) -> tensor<1x16x9x9xf32> {
    %w = op.parameter "w" : tensor<16x16x3x3xf32>
    %b = op.parameter "b" : tensor<16xf32>
    %y = op.convolution %x, %w, %b {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x16x9x9xf32>, tensor<16x16x3x3xf32>, tensor<16xf32>) -> tensor<1x16x9x9xf32>
    %s = op.add %r, %y : (tensor<1x16x9x9xf32>, tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf32>
    %z = op.relu %s : (tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf32>
    return %z : tensor<1x16x9x9xf32>
  }
}

// -----

// 16-bit floats are rounded at the end alone. Without a bias there is one of zeros, which prepare makes; groups share nothing.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "convolution", targets = ["cudnn"], by = "test">]>} {
  // CHECK-LABEL: kernel.program @half
  // CHECK: %[[ZEROS:.*]] = kernel.prepared "no_bias.0" : !kernel.buffer<16xf16>
  // CHECK: kernel.call @cudnn_convolution_0(%{{.*}}, %{{.*}}, %[[ZEROS]], %{{.*}}) outs(
  // CHECK: kernel.decl @cudnn_convolution_0(
  // CHECK-NEXT: activation = "relu"{{.*}}groups = 2 : i64
  func.func @half(%x: tensor<1x16x9x9xf16>, %r: tensor<1x16x9x9xf16>) -> tensor<1x16x9x9xf16> {
    %w = op.parameter "w" : tensor<16x8x3x3xf16>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x16x9x9xf16>, tensor<16x8x3x3xf16>) -> tensor<1x16x9x9xf16>
    %a = op.to_dtype %y : (tensor<1x16x9x9xf16>) -> tensor<1x16x9x9xf32>
    %b = op.to_dtype %r : (tensor<1x16x9x9xf16>) -> tensor<1x16x9x9xf32>
    %s = op.add %a, %b : (tensor<1x16x9x9xf32>, tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf32>
    %z = op.relu %s : (tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf32>
    %h = op.to_dtype %z : (tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf16>
    return %h : tensor<1x16x9x9xf16>
  }
}

// -----

// What the library does not take is an elementwise kernel behind the bias: another activation, a sum with what is broadcast.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "convolution", targets = ["cudnn"], by = "test">]>} {
  // CHECK-LABEL: kernel.program @tail
  // CHECK: kernel.call @cudnn_convolution_0(%{{[a-z0-9]+}}, %{{[a-z0-9]+}}) outs(%[[Y:[a-z0-9]+]])
  // CHECK: kernel.launch {{.*}}(%[[Y]]) {{.*}}what the epilogue of the kernel before it does not take
  // CHECK: kernel.decl @cudnn_convolution_0(
  // CHECK-NEXT: problem("convolution", {c =
  func.func @tail(%x: tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf32> {
    %w = op.parameter "w" : tensor<16x16x1x1xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x16x9x9xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x9x9xf32>
    %z = op.silu %y : (tensor<1x16x9x9xf32>) -> tensor<1x16x9x9xf32>
    return %z : tensor<1x16x9x9xf32>
  }
}

// -----

// A signal is an image of height 1; one of 3 channels gets zeros up to 16 bytes, and so has its weight.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "convolution", targets = ["cudnn"], by = "test">]>} {
  // CHECK-LABEL: kernel.program @signal
  // CHECK: kernel.prepared "w.channels_last" : !kernel.buffer<8x4x5xf32, strides [20, 1, 4]>
  // CHECK: kernel.call @cudnn_convolution_0(
  // CHECK: kernel.decl @cudnn_convolution_0(!kernel.buffer<2x4x50xf32, strides [200, 1, 4]>
  // CHECK-NEXT: problem("convolution", {c = 4 : i64{{.*}}h = 1 : i64{{.*}}kh = 1 : i64, kw = 5 : i64{{.*}}pad_h = 0 : i64, pad_w = 2 : i64
  func.func @signal(%x: tensor<2x3x50xf32>) -> tensor<2x8x50xf32> {
    %w = op.parameter "w" : tensor<8x3x5xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1>, groups = 1 : i64, output_padding = array<i64: 0>, padding = array<i64: 2>, stride = array<i64: 1>, transposed = false}
        : (tensor<2x3x50xf32>, tensor<8x3x5xf32>) -> tensor<2x8x50xf32>
    return %y : tensor<2x8x50xf32>
  }
}
