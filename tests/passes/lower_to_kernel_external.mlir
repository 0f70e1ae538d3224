// RUN: straightline-opt %s --backend=%vendor --split-input-file --lower-to-kernel | FileCheck %s
// RUN: straightline-opt %s --backend=%vendor --split-input-file --lower-to-kernel --verify-kernel-level -o /dev/null
// Calls of external kernels by their calling rules. Kernels of tests/vendor.

// Two results, both written where the caller wants them; the plan gets the attributes.
// CHECK-LABEL: kernel.program @two
// CHECK: kernel.call @vendor_topk_0(%{{.*}}) outs(%[[V:.*]], %[[I:.*]]) handle(%{{.*}}) on @team {kernel.cost_us = 1.000000e-04 : f64, op = "topk", team = 1 : i64, why = "because"}
// CHECK: kernel.return %[[V]], %[[I]]
// CHECK: kernel.decl @vendor_topk_0(!kernel.buffer<4x9xf32>) outs(!kernel.buffer<4x3xf32>, !kernel.buffer<4x3xi64>)
// CHECK-NEXT: problem("topk", {dim = 1 : i64, k = 3 : i64, largest = 1 : i64}) run("sl_vendor_topk") plan("sl_vendor_plan") destroy("sl_vendor_plan_destroy")
func.func @two(%x: tensor<4x9xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>) {
  %0:2 = op.external "topk"(%x) told {dim = 1 : i64, k = 3 : i64, largest = 1 : i64} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "vendor.topk", why = "because">} : (tensor<4x9xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
  return %0#0, %0#1 : tensor<4x3xf32>, tensor<4x3xi64>
}

// -----

// The kernel reads rows, so that a transposed operand is copied; [2,3,8] is given as [6,8]; of the attributes the rule lists two.
// CHECK-LABEL: kernel.program @rows
// CHECK: kernel.launch @{{(copy|transpose).*}}
// CHECK: kernel.view
// CHECK: kernel.call @vendor_layer_norm_0
// CHECK: kernel.decl @vendor_layer_norm_0(!kernel.buffer<6x8xf32>) outs(!kernel.buffer<6x8xf32>)
// CHECK-NEXT: problem("layer_norm", {eps = 1.000000e-02 : f64, operands_0 = 1 : i64, operands_1 = 0 : i64, operands_2 = 0 : i64})
func.func @rows(%x: tensor<8x3x2xf32>) -> tensor<2x3x8xf32> {
  %0 = op.permute %x {dims = array<i64: 2, 1, 0>} : (tensor<8x3x2xf32>) -> tensor<2x3x8xf32>
  %1 = op.external "layer_norm"(%0) told {eps = 0.01 : f64, normalized_rank = 1 : i64, operands_0 = 1 : i64, operands_1 = 0 : i64, operands_2 = 0 : i64} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "vendor.layer_norm", why = "because">} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %1 : tensor<2x3x8xf32>
}

// -----

// A kernel of any strides reads the view itself.
// CHECK-LABEL: kernel.program @strided
// CHECK-NOT: kernel.launch
// CHECK: kernel.decl @vendor_relu_0(!kernel.buffer<3x4xf32, strides [1, 3]>) outs(!kernel.buffer<3x4xf32>)
func.func @strided(%x: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %0 = op.permute %x {dims = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = op.external "relu"(%0) told {} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "vendor.relu", why = "because">} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// -----

// Workspace, of which the plan is told the bytes; the call may fail. Sizes of a call stand in `sizes`.
// CHECK-LABEL: kernel.program @workspace
// CHECK: workspace(%{{.*}} : !kernel.buffer<72xi8>)
// CHECK: kernel.decl @vendor_cumsum_0({{.*}}) outs({{.*}}) workspace(!kernel.buffer<72xi8>)
// CHECK-NEXT: problem("cumsum", {dim = 1 : i64, sizes = [#kernel.extent<n>, #kernel.extent<n>], workspace_bytes = 72 : i64}){{.*}}can_fail
op.symbol @n {max = 64 : i64, min = 1 : i64}
func.func @workspace(%x: tensor<?x9xf32, #op.dims<[n, 9]>>) -> tensor<?x9xf32, #op.dims<[n, 9]>> {
  %0 = op.external "cumsum"(%x) told {dim = 1 : i64} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "vendor.cumsum", why = "because">} : (tensor<?x9xf32, #op.dims<[n, 9]>>) -> tensor<?x9xf32, #op.dims<[n, 9]>>
  return %0 : tensor<?x9xf32, #op.dims<[n, 9]>>
}

// -----

// The plan reads the weight in prepare; the call gets it, too.
// CHECK-LABEL: kernel.program @planned
// CHECK: kernel.plan @vendor_embedding_0(%[[W:.*]]) outs
// CHECK: kernel.call @vendor_embedding_0(%[[W]], %{{.*}})
// CHECK: kernel.decl @vendor_embedding_0(constant !kernel.buffer<5x6xf32>, !kernel.buffer<3xi64>)
func.func @planned(%i: tensor<3xi64>) -> tensor<3x6xf32> {
  %w = op.parameter "w" : tensor<5x6xf32>
  %0 = op.external "embedding"(%w, %i) told {} {roles = array<i64: 0, 1>, op.kernel = #op.kernel_choice<kernel = "vendor.embedding", why = "because">} : (tensor<5x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}
