// RUN: straightline-opt %s --fuse-contractions --select-kernels --split-input-file --verify-diagnostics | FileCheck %s

// The dearer kernel, because the user says so; the reasons keep what the cheaper one would have cost.
// CHECK-LABEL: func.func @named
// CHECK: kernel = "native.gemv", why = "native.gemv: route linear = native.gemv (the argument routes), estimated {{.*}} us (native.gemm: estimated {{.*}} us)"
module attributes {op.options = #op.options<routes = {linear = #op.route<"native.gemv" by "the argument routes">}>} {
  func.func @named(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
    return %y : tensor<1x10xf32>
  }
}

// -----

// A backend: the cheapest of its kernels. A route of another op changes nothing.
// CHECK-LABEL: func.func @backend
// CHECK: kernel = "native.gemm", why = "native.gemm: route linear = native (routes.txt:3), estimated {{.*}} us (native.gemv: estimated {{.*}} us)"
module attributes {op.options = #op.options<routes = {convolution = #op.route<"native.winograd" by "routes.txt:4">, linear = #op.route<"native" by "routes.txt:3">}>} {
  func.func @backend(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
    return %y : tensor<1x10xf32>
  }
}

// -----

module attributes {op.options = #op.options<routes = {linear = #op.route<"native.gemv" by "STRAIGHTLINE_ROUTE_linear">}>} {
  func.func @refused(%x: tensor<32x64xf32>) -> tensor<32x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    // expected-error @+1 {{linear: route linear = native.gemv (STRAIGHTLINE_ROUTE_linear) cannot be honoured: native.gemv: m=32, needs 1 to 4}}
    %y = op.linear %x, %w : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
    return %y : tensor<32x10xf32>
  }
}

// -----

// expected-error @+1 {{options: routes are {linear = "native"}, expected #op.route<"KERNEL" by "WHO"> by op (options_c3)}}
module attributes {op.options = #op.options<routes = {linear = "native"}>} {
}
