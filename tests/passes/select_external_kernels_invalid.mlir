// RUN: straightline-opt %s --backend=%vendor --split-input-file --verify-diagnostics --select-external-kernels
// RUN: not straightline-opt %s --select-external-kernels=avoid=slow 2>&1 | FileCheck %s --check-prefix=AVOID
// RUN: not straightline-opt %s --backend=%S/none.so 2>&1 | FileCheck %s --check-prefix=BACKEND
// AVOID: select-external-kernels: avoid is 'slow', valid are transforms_inputs and narrow_inputs
// BACKEND: --backend: {{.*}}none.so cannot be loaded:
// Routes that cannot be honoured.

module attributes {op.options = #op.options<routes = [#op.route<op = "softmax", targets = ["vendor.softmax"], by = "me">]>} {
  func.func @dim(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{softmax: route softmax = vendor.softmax (me) cannot be honoured: vendor.softmax: dim is 0, it takes 1}}
    %0 = op.softmax %x {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

module attributes {op.options = #op.options<routes = [#op.route<op = "ceil", targets = ["vendor"], by = "me">]>} {
  func.func @rule(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{ceil: route ceil = vendor (me) cannot be honoured: vendor.ceil: its calling rule lists the attribute 'epsilon', ceil has none}}
    %0 = op.ceil %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

module attributes {op.options = #op.options<routes = [#op.route<op = "softmax", targets = ["cuda"], by = "me">]>} {
  func.func @elsewhere(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{softmax: route softmax = cuda (me) cannot be honoured: the kernels that are emitted for this program are of native}}
    %0 = op.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
