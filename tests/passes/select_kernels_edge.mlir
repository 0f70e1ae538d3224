// RUN: straightline-opt %s -split-input-file --fuse-contractions --select-kernels | FileCheck %s

// Where a graph has memory of the caller's, a library's kernel counts a capture more; between the edges it does not.
// CHECK-LABEL: func.func @first_and_last
// CHECK: kernel = "cuda.linear", why = "cuda.linear: estimated {{[0-9.]+}} us ({{.*}}cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge)"
// CHECK: kernel = "cublaslt.linear", why = "cublaslt.linear: estimated {{[0-9.]+}} us, a library
// CHECK: kernel = "cuda.linear"
// CHECK: op.fusion(%arg1, {{.*}}kernel = "cublaslt.linear", why = "cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge, a library
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
// CHECK: kernel = "cublaslt.linear", why = "cublaslt.linear: estimated {{[0-9.]+}} us, a library
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<launch = "stream">} {
  func.func @no_graph(%x: tensor<128x512xbf16>) -> tensor<128x512xbf16> {
    %w = op.parameter "w" : tensor<512x512xbf16>
    %y = op.linear %x, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
    return %y : tensor<128x512xbf16>
  }
}

// -----

// What a loop or a branch hands on is at the edge where that is.
// CHECK-LABEL: func.func @handed_on
// CHECK: op.for
// CHECK: why = "{{.*}}cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge
// CHECK: op.if
// CHECK: why = "{{.*}}cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge
// CHECK: } else {
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @handed_on(%x: tensor<128x512xbf16>, %c: tensor<i1>) -> (tensor<128x2x256xbf16>, tensor<128x512xbf16>) {
    %w = op.parameter "w" : tensor<512x512xbf16>
    %first = op.sqrt %x : (tensor<128x512xbf16>) -> tensor<128x512xbf16>
    %last = op.for %i = 0 to 8 step 1 iter(%a = %first) : (tensor<128x512xbf16>) {
      %b = op.linear %a, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
      op.yield %b : tensor<128x512xbf16>
    }
    %heads = op.reshape %last : (tensor<128x512xbf16>) -> tensor<128x2x256xbf16>
    %one = op.if %c -> (tensor<128x512xbf16>) {
      %b = op.linear %first, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
      op.yield %b : tensor<128x512xbf16>
    } else {
      op.yield %first : tensor<128x512xbf16>
    }
    return %heads, %one : tensor<128x2x256xbf16>, tensor<128x512xbf16>
  }
}

// -----

// Where something is computed from it, it is not.
// CHECK-LABEL: func.func @handed_on_within
// CHECK: op.for
// CHECK: kernel = "cublaslt.linear", why = "cublaslt.linear: estimated {{[0-9.]+}} us, a library
// CHECK: op.while
// CHECK: kernel = "cublaslt.linear", why = "cublaslt.linear: estimated {{[0-9.]+}} us, a library
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @handed_on_within(%x: tensor<128x512xbf16>, %c: tensor<i1>) -> tensor<128x512xbf16> {
    %w = op.parameter "w" : tensor<512x512xbf16>
    %first = op.sqrt %x : (tensor<128x512xbf16>) -> tensor<128x512xbf16>
    %counted:2 = op.for %i = 0 to 8 step 1 iter(%a = %first, %old = %first) : (tensor<128x512xbf16>, tensor<128x512xbf16>) {
      %b = op.linear %a, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
      op.yield %b, %a : tensor<128x512xbf16>, tensor<128x512xbf16>
    }
    %sum = op.add %counted#0, %counted#1 : (tensor<128x512xbf16>, tensor<128x512xbf16>) -> tensor<128x512xbf16>
    %last = op.while iter(%sum) : (tensor<128x512xbf16>) -> tensor<128x512xbf16> {
    ^bb0(%a: tensor<128x512xbf16>):
      op.yield %c : tensor<i1>
    } do {
    ^bb0(%a: tensor<128x512xbf16>):
      %b = op.linear %a, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
      op.yield %b : tensor<128x512xbf16>
    }
    %r = op.sqrt %last : (tensor<128x512xbf16>) -> tensor<128x512xbf16>
    return %r : tensor<128x512xbf16>
  }
}

// -----

// The round after the next hands it on.
// CHECK-LABEL: func.func @handed_on_a_round_later
// CHECK: why = "{{.*}}cublaslt.linear: estimated {{[0-9.]+}} us and 2.00 us at the graph's edge
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @handed_on_a_round_later(%x: tensor<128x512xbf16>) -> tensor<128x512xbf16> {
    %w = op.parameter "w" : tensor<512x512xbf16>
    %first = op.sqrt %x : (tensor<128x512xbf16>) -> tensor<128x512xbf16>
    %counted:2 = op.for %i = 0 to 8 step 1 iter(%a = %first, %old = %first) : (tensor<128x512xbf16>, tensor<128x512xbf16>) {
      %b = op.linear %a, %w : (tensor<128x512xbf16>, tensor<512x512xbf16>) -> tensor<128x512xbf16>
      op.yield %b, %a : tensor<128x512xbf16>, tensor<128x512xbf16>
    }
    return %counted#1 : tensor<128x512xbf16>
  }
}
