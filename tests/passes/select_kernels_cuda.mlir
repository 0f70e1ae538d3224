// RUN: straightline-opt %s --fuse-contractions --select-kernels | FileCheck %s

// On a device only its kernels are asked: kernels of the host are not even named in the reasons. 16-bit floats stay what they
// are, and what only widens an operand of the epilogue joins it.
// CHECK-LABEL: func.func @few_rows
// CHECK: op.fusion{{.*}}kernel = "cuda.gemv", why = "cuda.gemv: estimated {{[0-9.]+}} us (cuda.linear: estimated {{[0-9.]+}} us; cuda.linear_warpgroups: m=1, needs 64 or more and no extent of 0; cublaslt.linear: estimated {{[0-9.]+}} us and {{[0-9.]+}} us for what is fused behind it and 2.00 us at the graph's edge)"
// CHECK: op.linear {{.*}} -> tensor<1x1024xbf16>
// CHECK: op.to_dtype {{.*}} : (tensor<1x1024xbf16>) -> tensor<1x1024xf32>
// CHECK: op.yield
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @few_rows(%x: tensor<1x1024xbf16>, %r: tensor<1x1024xbf16>) -> tensor<1x1024xf32> {
    %w = op.parameter "w" : tensor<1024x1024xbf16>
    %y = op.linear %x, %w : (tensor<1x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1x1024xbf16>
    %a = op.to_dtype %y : (tensor<1x1024xbf16>) -> tensor<1x1024xf32>
    %b = op.to_dtype %r : (tensor<1x1024xbf16>) -> tensor<1x1024xf32>
    %z = op.add %a, %b : (tensor<1x1024xf32>, tensor<1x1024xf32>) -> tensor<1x1024xf32>
    return %z : tensor<1x1024xf32>
  }

  // CHECK-LABEL: func.func @many_rows
  // CHECK: kernel = "cuda.linear", why = "cuda.linear: estimated {{[0-9.]+}} us (cuda.gemv: m=17, needs 1 to 16; cuda.linear_warpgroups: operand 0 is float32, needs 16 bits, or float32 that may be rounded; cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge)"
  func.func @many_rows(%x: tensor<17x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<17x1024xf32> {
    %y = op.linear %x, %w : (tensor<17x1024xf32>, tensor<1024x1024xf32>) -> tensor<17x1024xf32>
    return %y : tensor<17x1024xf32>
  }

  // CHECK-LABEL: func.func @product
  // CHECK: kernel = "cuda.matmul", why = "cuda.matmul: estimated {{[0-9.]+}} us (cuda.matmul_warpgroups: m=8, needs 64 or more and no extent of 0; cublaslt.matmul: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge)"
  func.func @product(%a: tensor<3x8x16xf16>, %b: tensor<3x16x8xf16>) -> tensor<3x8x8xf16> {
    %y = op.matmul %a, %b : (tensor<3x8x16xf16>, tensor<3x16x8xf16>) -> tensor<3x8x8xf16>
    return %y : tensor<3x8x8xf16>
  }

  // A library's tensor cores are worth its start where there is much to do; float64 it leaves alone.
  // CHECK-LABEL: func.func @large
  // CHECK: kernel = "cublaslt.matmul", why = "cublaslt.matmul: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge, a library: in a graph it is captured again when an address changes (cuda.matmul: estimated
  func.func @large(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %y = op.matmul %a, %b : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    return %y : tensor<4096x4096xbf16>
  }

  // CHECK-LABEL: func.func @wide
  // CHECK: kernel = "cuda.matmul"{{.*}}cublaslt.matmul: operand 0 is float64, needs 16 or 32 bits
  func.func @wide(%a: tensor<512x512xf64>, %b: tensor<512x512xf64>) -> tensor<512x512xf64> {
    %y = op.matmul %a, %b : (tensor<512x512xf64>, tensor<512x512xf64>) -> tensor<512x512xf64>
    return %y : tensor<512x512xf64>
  }
  // A library rounds a product to its operands' type: a cast behind it is a pass, which counts. Of few rows the kernel that casts
  // itself is faster, of many the library and the pass.
  // CHECK-LABEL: func.func @cast_of_few_rows
  // CHECK: kernel = "cuda.linear_warpgroups"{{.*}}cublaslt.linear: estimated {{[0-9.]+}} us and {{[0-9.]+}} us for what is fused behind it
  func.func @cast_of_few_rows(%x: tensor<128x1024xbf16>) -> tensor<128x3072xf32> {
    %w = op.parameter "w" : tensor<3072x1024xbf16>
    %y = op.linear %x, %w : (tensor<128x1024xbf16>, tensor<3072x1024xbf16>) -> tensor<128x3072xbf16>
    %f = op.to_dtype %y : (tensor<128x3072xbf16>) -> tensor<128x3072xf32>
    return %f : tensor<128x3072xf32>
  }
  // CHECK-LABEL: func.func @cast_of_many_rows
  // CHECK: kernel = "cublaslt.linear", why = "cublaslt.linear: estimated {{[0-9.]+}} us and {{[0-9.]+}} us for what is fused behind it
  func.func @cast_of_many_rows(%x: tensor<2048x1024xbf16>) -> tensor<2048x3072xf32> {
    %w = op.parameter "v" : tensor<3072x1024xbf16>
    %y = op.linear %x, %w : (tensor<2048x1024xbf16>, tensor<3072x1024xbf16>) -> tensor<2048x3072xbf16>
    %f = op.to_dtype %y : (tensor<2048x3072xbf16>) -> tensor<2048x3072xf32>
    return %f : tensor<2048x3072xf32>
  }
}
