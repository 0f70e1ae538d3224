// RUN: straightline-opt %s -split-input-file --fuse-pointwise --lower-to-kernel --verify-kernel-level | FileCheck %s

// On a device what makes the row that replaces one of a state writes it there: the kernel reads which one. Later readers of the state stand behind.
// CHECK-LABEL: kernel.program @row
// CHECK: %[[KEYS:.*]] = kernel.state "keys"
// CHECK: kernel.run (%[[X:.*]] "x": {{.*}}, %[[AT:.*]] "at": {{.*}}) outs(%[[Y:.*]] "y"
// CHECK-NOT: kernel.slot
// CHECK: %[[ROWS:.*]] = kernel.view %[[KEYS]] offset(0) : !kernel.buffer<1x2x9x4xf32> -> !kernel.buffer<9x1x2x1x4xf32, strides [4, 72, 36, 4, 1]>
// CHECK-NEXT: kernel.launch @[[PUT:.*]](%{{.*}}, %[[AT]]) outs(%[[ROWS]])
// CHECK-NEXT: kernel.launch @{{.*}}(%[[KEYS]]) outs(%[[Y]])
// CHECK-NEXT: kernel.return
// CHECK: kernel.func @[[PUT]](!kernel.buffer<f32>, !kernel.buffer<i64>) outs(!kernel.buffer<f32> readwrite)
// CHECK-NEXT: shape = {extent = [2, 4], stride = {{\[\[}}4, 1], [36, 1]]}, tune = {rank = 2, inputs = 1}
// CHECK-SAME: ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @row(%x: tensor<1x2x1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}) -> (tensor<1x2x9x4xf32> {op.name = "y"}, tensor<1x2x9x4xf32> {op.tie = "state:keys"}) {
    %keys = op.state "keys" : tensor<1x2x9x4xf32>
    %k = op.exp %x : (tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
    %new = op.index_copy %keys, %at, %k {dim = 2 : i64} : (tensor<1x2x9x4xf32>, tensor<1xi64>, tensor<1x2x1x4xf32>) -> tensor<1x2x9x4xf32>
    %y = op.tanh %new : (tensor<1x2x9x4xf32>) -> tensor<1x2x9x4xf32>
    return %y, %new : tensor<1x2x9x4xf32>, tensor<1x2x9x4xf32>
  }
}

// -----

// Halves of a row, which is permuted on its way; the number is a view of what the caller gives, made where it is needed first. `index_put` counts from
// the end.
// CHECK-LABEL: kernel.program @halves
// CHECK: %[[KEYS:.*]] = kernel.state "keys"
// CHECK: kernel.run (%[[X:.*]] "x"
// CHECK: %[[AT:.*]] = kernel.view %{{.*}} offset(0) : !kernel.buffer<i32> -> !kernel.buffer<1xi32>
// CHECK: %[[LOW:.*]] = kernel.view %[[KEYS]] offset(0) : {{.*}} -> !kernel.buffer<9x1x1x2x2xf32,
// CHECK: %[[HIGH:.*]] = kernel.view %[[KEYS]] offset(2) : {{.*}} -> !kernel.buffer<9x1x1x2x2xf32,
// CHECK: kernel.launch @[[BOTH:.*]](%[[X]], %[[AT]]) outs(%[[LOW]], %[[HIGH]]) on
// CHECK-NOT: kernel.launch
// CHECK: kernel.return
// CHECK: kernel.func @[[BOTH]](!kernel.buffer<f32>, !kernel.buffer<i32>) outs(!kernel.buffer<f32> readwrite, !kernel.buffer<f32> readwrite)
// CHECK-NEXT: kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 1>, #kernel.row<output = 1, index = 1, extent = 9, stride = 4, wrap = 1>]
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @halves(%x: tensor<1x1x2x2xf32> {op.name = "x"}, %at: tensor<i32> {op.name = "at"}) -> (tensor<1x2x9x4xf32> {op.tie = "state:keys"}) {
    %keys = op.state "keys" : tensor<1x2x9x4xf32>
    %a = op.exp %x : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
    %b = op.tanh %a : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
    %k = op.cat %a, %b {dim = 3 : i64} : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x4xf32>
    %p = op.permute %k {dims = array<i64: 0, 2, 1, 3>} : (tensor<1x1x2x4xf32>) -> tensor<1x2x1x4xf32>
    %i = op.reshape %at : (tensor<i32>) -> tensor<1xi32>
    %new = op.index_put %keys, %i, %p {dims = array<i64: 2>} : (tensor<1x2x9x4xf32>, tensor<1xi32>, tensor<1x2x1x4xf32>) -> tensor<1x2x9x4xf32>
    return %new : tensor<1x2x9x4xf32>
  }
}
