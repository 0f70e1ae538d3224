// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// What passes record is read as it is printed, whatever the order in which it was written.

// CHECK: module attributes {
// CHECK-SAME: op.candidates = [#op.measurement<key = "k", module = "module {}", candidates = ["a", "b"], at_edge_us = [0.000000e+00, 2.000000e+00]>]
// CHECK-SAME: op.options = #op.options<tf32 = "convolution+matmul", launch = "stream", routes = [#op.route<op = "linear", targets = ["native"], by = "routes.txt:3">], choices = {k = "native.gemm[mr:6]"}>
// CHECK-SAME: op.resident_bytes = 12 : i64
// CHECK-SAME: op.target = #kernel.target<"cpu", "x86-64-v3">
module attributes {
    op.target = #kernel.target<"cpu", "x86-64-v3">, op.resident_bytes = 12 : i64,
    op.options = #op.options<choices = {k = "native.gemm[mr:6]"}, routes = [#op.route<op = "linear", targets = ["native"], by = "routes.txt:3">],
                             launch = "stream", tf32 = "convolution+matmul">,
    op.candidates = [#op.measurement<at_edge_us = [0.0, 2.0], candidates = ["a", "b"], module = "module {}", key = "k">]} {
  // CHECK: func.func @recorded({{.*}}) -> (tensor<4xf32> {op.name = "y", op.strides = #op.dims<[2]>, op.tie = "state:s"}, tensor<4xf32> {op.alias}) attributes {op.live_parameters, op.size_advice = ["name it", "sizes="]}
  func.func @recorded(%x: tensor<4xf32> {op.name = "x", op.strides = #op.dims<[2]>})
      -> (tensor<4xf32> {op.tie = "state:s", op.name = "y", op.strides = #op.dims<[2]>}, tensor<4xf32> {op.alias})
      attributes {op.live_parameters, op.size_advice = ["name it", "sizes="]} {
    // CHECK: op.state "s" {op.strides = #op.dims<[2]>}
    %s = op.state "s" {op.strides = #op.dims<[2]>} : tensor<4xf32>
    // CHECK: op.kernel = #op.kernel_choice<key = "k", estimated = "a.one", kernel = "a.two", variant = 3, alone = true, why = "measured: \22quick\22", tunables = {mr = 6 : i64}, cost_us = 2.500000e+00 : f64>
    // CHECK-SAME: op.layout = #op.layout<order = [0], border = [1, 2]>
    // CHECK-SAME: op.prepare
    %0 = op.fusion(%s) {family = "pointwise", op.prepare, op.layout = #op.layout<order = [0], border = [1, 2]>,
        op.kernel = #op.kernel_choice<why = "measured: \22quick\22", kernel = "a.two", variant = 3, key = "k", estimated = "a.one",
                                      alone = true, tunables = {mr = 6 : i64}, cost_us = 2.5>} : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      // CHECK: op.relu %{{.*}} {op.layout = #op.layout<order = [0]>}
      %r = op.relu %a {op.layout = #op.layout<order = [0]>} : (tensor<4xf32>) -> tensor<4xf32>
      op.yield %r : tensor<4xf32>
    }
    // CHECK: op.kernel = #op.kernel_choice<kernel = "a.one", why = "cheap">, op.small_images = [#op.small_images<kernel = "a.two", why = "few", below = 16, images = 1, height = 2, width = 3>]}
    %1 = op.fusion(%x) {family = "pointwise", op.kernel = #op.kernel_choice<kernel = "a.one", why = "cheap">,
        op.small_images = [#op.small_images<below = 16, kernel = "a.two", images = 1, height = 2, width = 3, why = "few">]} : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %r = op.relu %a : (tensor<4xf32>) -> tensor<4xf32>
      op.yield %r : tensor<4xf32>
    }
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
