// RUN: straightline-opt %s --fuse-contractions --select-kernels -split-input-file -verify-diagnostics | FileCheck %s

// The library takes what is large enough for its tensor cores. (Costs are fitted to an H200: bench/cuda_convolutions.py.)
// CHECK-LABEL: func.func @half
// CHECK: kernel = "cudnn.convolution", why = "cudnn.convolution: estimated {{[0-9.]+}} us, a library: in a graph it is captured again when an address changes (cuda.convolution: estimated
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @half(%x: tensor<10x128x28x28xf16>) -> tensor<10x128x28x28xf16> {
    %w = op.parameter "w" : tensor<128x128x3x3xf16>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<10x128x28x28xf16>, tensor<128x128x3x3xf16>) -> tensor<10x128x28x28xf16>
    return %y : tensor<10x128x28x28xf16>
  }

  // Exact float32 is as fast by our kernels.
  // CHECK-LABEL: func.func @exact
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: estimated
  func.func @exact(%x: tensor<10x128x28x28xf32>) -> tensor<10x128x28x28xf32> {
    %w = op.parameter "w" : tensor<128x128x3x3xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<10x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<10x128x28x28xf32>
    return %y : tensor<10x128x28x28xf32>
  }

  // CHECK-LABEL: func.func @depthwise
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: estimated
  func.func @depthwise(%x: tensor<8x96x56x56xf16>) -> tensor<8x96x56x56xf16> {
    %w = op.parameter "w" : tensor<96x1x3x3xf16>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 96 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<8x96x56x56xf16>, tensor<96x1x3x3xf16>) -> tensor<8x96x56x56xf16>
    return %y : tensor<8x96x56x56xf16>
  }

  // CHECK-LABEL: func.func @wide
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: operand 0 is float64, needs 16 or 32 bits
  func.func @wide(%x: tensor<1x8x9x9xf64>) -> tensor<1x8x9x9xf64> {
    %w = op.parameter "w" : tensor<8x8x3x3xf64>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x8x9x9xf64>, tensor<8x8x3x3xf64>) -> tensor<1x8x9x9xf64>
    return %y : tensor<1x8x9x9xf64>
  }

  // CHECK-LABEL: func.func @transposed
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: transposed=1, needs 0
  func.func @transposed(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x9x9xf32> {
    %w = op.parameter "w" : tensor<8x8x3x3xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>, transposed = true}
        : (tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x9x9xf32>
    return %y : tensor<1x8x9x9xf32>
  }

  // CHECK-LABEL: func.func @dynamic
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: n is dynamic, needs sizes that are known when it is planned
  func.func @dynamic(%x: tensor<?x8x9x9xf16, #op.dims<[n, 8, 9, 9]>>) -> tensor<?x8x9x9xf16, #op.dims<[n, 8, 9, 9]>> {
    %w = op.parameter "w" : tensor<8x8x3x3xf16>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<?x8x9x9xf16, #op.dims<[n, 8, 9, 9]>>, tensor<8x8x3x3xf16>) -> tensor<?x8x9x9xf16, #op.dims<[n, 8, 9, 9]>>
    return %y : tensor<?x8x9x9xf16, #op.dims<[n, 8, 9, 9]>>
  }

  // CHECK-LABEL: func.func @empty
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: n=0, needs 1 or more
  func.func @empty(%x: tensor<0x8x9x9xf16>) -> tensor<0x8x9x9xf16> {
    %w = op.parameter "w" : tensor<8x8x3x3xf16>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<0x8x9x9xf16>, tensor<8x8x3x3xf16>) -> tensor<0x8x9x9xf16>
    return %y : tensor<0x8x9x9xf16>
  }

  // CHECK-LABEL: func.func @huge
  // CHECK: kernel = "cuda.convolution"{{.*}}cudnn.convolution: a tensor has 2147483648 elements, at most 2147483647
  func.func @huge(%x: tensor<1x8x16384x16384xf16>) -> tensor<1x8x16384x16384xf16> {
    %w = op.parameter "w" : tensor<8x8x1x1xf16>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x8x16384x16384xf16>, tensor<8x8x1x1xf16>) -> tensor<1x8x16384x16384xf16>
    return %y : tensor<1x8x16384x16384xf16>
  }
}

// -----

// Where torch says so the library rounds as well, and says it.
// CHECK-LABEL: func.func @rounded
// CHECK: kernel = "cudnn.convolution", why = "cudnn.convolution: estimated {{[0-9.]+}} us, TF32 as torch.backends.cudnn.allow_tf32 says, a library
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<tf32 = "convolution">} {
  func.func @rounded(%x: tensor<1x128x28x28xf32>) -> tensor<1x128x28x28xf32> {
    %w = op.parameter "w" : tensor<128x128x3x3xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x128x28x28xf32>, tensor<128x128x3x3xf32>) -> tensor<1x128x28x28xf32>
    return %y : tensor<1x128x28x28xf32>
  }
}

// -----

// A route leaves no other choice.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "convolution", targets = ["cudnn"], by = "the test">]>} {
  func.func @routed(%x: tensor<1x8x9x9xf64>) -> tensor<1x8x9x9xf64> {
    %w = op.parameter "w" : tensor<8x8x3x3xf64>
    // expected-error @+1 {{convolution: route convolution = cudnn (the test) cannot be honoured: cudnn.convolution: operand 0 is float64, needs 16 or 32 bits}}
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x8x9x9xf64>, tensor<8x8x3x3xf64>) -> tensor<1x8x9x9xf64>
    return %y : tensor<1x8x9x9xf64>
  }
}
