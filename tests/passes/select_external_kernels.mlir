// RUN: straightline-opt %s --backend=%vendor --split-input-file --select-external-kernels | FileCheck %s
// RUN: straightline-opt %s --backend=%vendor --split-input-file --select-external-kernels | straightline-opt --backend=%vendor --split-input-file --select-external-kernels | FileCheck %s
// RUN: not straightline-opt %s --split-input-file --select-external-kernels 2>&1 | FileCheck %s --check-prefix=NONE
// NONE-NOT: op.external
// NONE: maximum: route maximum = vendor (me) cannot be honoured: vendor: there is no such kernel for it
// NONE-NOT: op.external
// Kernels of tests/vendor. The second run changes nothing; without the library nothing is external, and a rule that names it is an error.

// Attributes as integers, floats and text; roles leave out the absent weight.
// CHECK-LABEL: func.func @norm
// CHECK: op.external "layer_norm"(%{{.*}}, %{{.*}}) told {eps = 1.000000e-02 : f64, normalized_rank = 1 : i64, operands_0 = 1 : i64, operands_1 = 0 : i64, operands_2 = 1 : i64}
// CHECK-SAME: op.kernel = #op.kernel_choice<kernel = "vendor.layer_norm", why = "vendor.layer_norm: estimated 0.00 us; emitted kernels: estimated
// CHECK-SAME: roles = array<i64: 0, 2>
func.func @norm(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = op.layer_norm %x bias %b {eps = 0.01 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// What kernels say against an op stays with it: another dim, another type.
// CHECK-LABEL: func.func @refused
// CHECK: op.softmax %{{.*}} {dim = 0 : i64, op.refusals = [{kernel = "vendor.softmax", op = "softmax", said = "dim is 0, it takes 1"}]}
// CHECK: op.relu %{{.*}} {op.refusals = [{kernel = "vendor.relu", op = "relu", said = "operand 0 (x) is of f64, the kernel takes f32"}]}
// CHECK: op.floor %{{.*}} {op.refusals = [{kernel = "vendor.floor", op = "floor", said = "its description has no calling rule"}]}
// CHECK: op.maximum %{{.*}} {op.refusals = [{kernel = "vendor.maximum", op = "maximum", said = "estimated 1000000.00 us; emitted kernels: estimated
func.func @refused(%x: tensor<4x8xf32>, %y: tensor<4xf64>) -> (tensor<4x8xf32>, tensor<4xf64>, tensor<4x8xf32>) {
  %0 = op.softmax %x {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = op.relu %y : (tensor<4xf64>) -> tensor<4xf64>
  %2 = op.floor %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = op.maximum %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1, %3 : tensor<4x8xf32>, tensor<4xf64>, tensor<4x8xf32>
}

// -----

// A route comes before the cost; a route to emitted kernels asks no library; views are never given away.
// CHECK-LABEL: func.func @routed
// CHECK: op.reshape
// CHECK: op.external "maximum"
// CHECK-SAME: route maximum = vendor (me), estimated
// CHECK: op.softmax %{{.*}} {dim = 1 : i64} :
module attributes {op.options = #op.options<routes = [#op.route<op = "maximum", targets = ["vendor"], by = "me">, #op.route<op = "softmax", targets = ["native"], by = "me">]>} {
  func.func @routed(%x: tensor<32xf32>) -> tensor<4x8xf32> {
    %0 = op.reshape %x : (tensor<32xf32>) -> tensor<4x8xf32>
    %1 = op.maximum %0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = op.softmax %1 {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
