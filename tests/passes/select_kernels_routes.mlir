// RUN: straightline-opt %s --fuse-contractions --select-kernels --split-input-file --verify-diagnostics | FileCheck %s

// The dearer kernel, because the user says so; the reasons keep what the cheaper one would have cost.
// CHECK-LABEL: func.func @named
// CHECK: kernel = "native.gemv", why = "native.gemv: route linear = native.gemv (the argument routes), estimated {{.*}} us (native.gemm: estimated {{.*}} us)"
module attributes {op.options = #op.options<routes = [#op.route<op = "linear", targets = ["native.gemv"], by = "the argument routes">]>} {
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
module attributes {op.options = #op.options<routes = [#op.route<op = "convolution", targets = ["native.winograd"], by = "routes.txt:4">, #op.route<op = "linear", targets = ["native"], by = "routes.txt:3">]>} {
  func.func @backend(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
    return %y : tensor<1x10xf32>
  }
}

// -----

module attributes {op.options = #op.options<routes = [#op.route<op = "linear", targets = ["native.gemv"], by = "STRAIGHTLINE_ROUTE_linear">]>} {
  func.func @refused(%x: tensor<32x64xf32>) -> tensor<32x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    // expected-error @+1 {{linear: route linear = native.gemv (STRAIGHTLINE_ROUTE_linear) cannot be honoured: native.gemv: m=32, needs 1 to 4}}
    %y = op.linear %x, %w : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
    return %y : tensor<32x10xf32>
  }
}

// -----

// By place: a module, lines of a file, and the first target that takes an op.
// CHECK-LABEL: @places
// CHECK: why = "native.gemv: route layers.*.fc : linear = native.gemv (me)
// CHECK: why = "native.gemm: route model.py:3-4 : linear = native.gemm (me)
// CHECK: why = "native.gemm: estimated
module attributes {op.options = #op.options<routes = [
    #op.route<op = "linear", targets = ["native.gemm"], where = "model.py:3-4", by = "me">,
    #op.route<op = "linear", targets = ["native.gemv"], where = "layers.*.fc", by = "me">]>} {
  func.func @places(%x: tensor<1x64xf32>) -> (tensor<1x10xf32>, tensor<1x10xf32>, tensor<1x10xf32>) {
    %w = op.parameter "w" : tensor<10x64xf32>
    %0 = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32> loc("layers.0.fc"("model.py":7:0))
    %1 = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32> loc("layers.0.fc"("model.py":4:0))
    %2 = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32> loc("layers.0"("model.py":5:0))
    return %0, %1, %2 : tensor<1x10xf32>, tensor<1x10xf32>, tensor<1x10xf32>
  }
}

// -----

// CHECK-LABEL: @targets
// CHECK: why = "native.gemm: route linear = native.gemv, native.gemm (me), {{.*}}native.gemv: m=32, needs 1 to 4
// CHECK-SAME: alternatives = [{{.*}}kernel = "native.gemv", said = "m=32, needs 1 to 4"
module attributes {op.options = #op.options<routes = [#op.route<op = "linear", targets = ["native.gemv", "native.gemm"], by = "me">]>} {
  func.func @targets(%x: tensor<32x64xf32>) -> tensor<32x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
    return %y : tensor<32x10xf32>
  }
}
