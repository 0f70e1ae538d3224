// RUN: straightline-opt %s --split-input-file --fuse-pointwise --lower-to-kernel | FileCheck %s

// A result, or a part of a concatenation, that is seen with one more dim of one element is written where it is wanted: nothing is
// copied onto itself.
module {
  // CHECK-LABEL: kernel.program @result
  // CHECK: kernel.run
  // CHECK-COUNT-1: kernel.launch
  // CHECK-NOT: kernel.launch
  // CHECK: kernel.return
  func.func @result(%x: tensor<3x4xf32> {op.name = "x"}) -> (tensor<1x3x4xf32> {op.name = "y"}) {
    %e = op.exp %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %y = op.reshape %e : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
    return %y : tensor<1x3x4xf32>
  }
}

// -----

module {
  // CHECK-LABEL: kernel.program @parts
  // CHECK: kernel.run
  // CHECK-COUNT-2: kernel.launch
  // CHECK-NOT: kernel.launch
  // CHECK: kernel.return
  func.func @parts(%x: tensor<3x4xf32> {op.name = "x"}) -> (tensor<2x3x4xf32> {op.name = "y"}) {
    %e = op.exp %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %a = op.reshape %e : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
    %s = op.tanh %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %b = op.reshape %s : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
    %y = op.cat %a, %b {dim = 0 : i64} : (tensor<1x3x4xf32>, tensor<1x3x4xf32>) -> tensor<2x3x4xf32>
    return %y : tensor<2x3x4xf32>
  }
}
