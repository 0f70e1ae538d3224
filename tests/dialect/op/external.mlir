// RUN: straightline-opt %s | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @f
// CHECK: op.external "clamp"(%{{.*}}) told {max = 1.000000e+00 : f64} {op.kernel = #op.kernel_choice<kernel = "v.clamp", why = "w">, roles = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = op.external "clamp"(%x) told {max = 1.0 : f64} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "v.clamp", why = "w">} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
