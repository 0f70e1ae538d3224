// RUN: straightline-opt %s -split-input-file --fuse-contractions --select-kernels | FileCheck %s

// Where a graph has memory of the caller's, a library's kernel counts a capture more; between the edges it does not.
// CHECK-LABEL: func.func @first_and_last
// CHECK: op.kernel = "cuda.linear", op.why = "cuda.linear: estimated {{[0-9.]+}} us ({{.*}}cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge)"
// CHECK: op.kernel = "cublaslt.linear", op.why = "cublaslt.linear: estimated {{[0-9.]+}} us, a library
// CHECK: op.kernel = "cuda.linear"
// CHECK: op.fusion(%arg1, {{.*}}op.kernel = "cublaslt.linear", op.why = "cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge, a library
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @first_and_last(%x: tensor<2x64x512xbf16>, %large: tensor<128x2048xbf16>) -> (tensor<128x2x256xbf16>, tensor<128x2048xbf16>) {
    %w = op.parameter "w" : tensor<512x512xbf16>
    %wide = op.parameter "wide" : tensor<2048x2048xbf16>
    %rows = op.reshape %x : (tensor<2x64x512xbf16>) -> tensor<128x512xbf16>
    %a = op.linear %rows, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
    %b = op.linear %a, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
    %c = op.linear %b, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
    %heads = op.reshape %c : (tensor<128x512xbf16>) -> tensor<128x2x256xbf16>
    %d = op.linear %large, %wide : (tensor<128x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<128x2048xbf16>
    return %heads, %d : tensor<128x2x256xbf16>, tensor<128x2048xbf16>
  }
}

// -----

// Launched one by one there is nothing to capture.
// CHECK-LABEL: func.func @no_graph
// CHECK: op.kernel = "cublaslt.linear", op.why = "cublaslt.linear: estimated {{[0-9.]+}} us, a library
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.launch = "stream"} {
  func.func @no_graph(%x: tensor<128x512xbf16>) -> tensor<128x512xbf16> {
    %w = op.parameter "w" : tensor<512x512xbf16>
    %y = op.linear %x, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
    return %y : tensor<128x512xbf16>
  }
}
