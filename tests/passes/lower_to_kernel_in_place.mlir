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

// -----

// A concatenation whose parts stand in a later one is a part of its memory: each part is written once, and nothing is copied.
module {
  // CHECK-LABEL: kernel.program @growing
  // CHECK: kernel.run
  // CHECK: %[[ALL:.*]] = kernel.slot : !kernel.buffer<3x10xf32>
  // CHECK-NOT: kernel.slot
  // CHECK: %[[BOTH:.*]] = kernel.view %[[ALL]] offset(0) : !kernel.buffer<3x10xf32> -> !kernel.buffer<3x6xf32, strides [10, 1]>
  // CHECK: %[[SECOND:.*]] = kernel.view %[[ALL]] offset(4)
  // CHECK: kernel.launch @pointwise_exp_3x2(%arg1) outs(%[[SECOND]])
  // CHECK: kernel.launch @pointwise_relu_3x6(%[[BOTH]])
  // CHECK-NOT: op = "cat"
  // CHECK: kernel.return
  func.func @growing(%x: tensor<3x4xf32> {op.name = "x"}, %y: tensor<3x2xf32> {op.name = "y"}) -> (tensor<3x6xf32> {op.name = "z"}, tensor<3x10xf32> {op.name = "w"}) {
    %a = op.exp %y : (tensor<3x2xf32>) -> tensor<3x2xf32>
    %b = op.tanh %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %c = op.sin %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %two = op.cat %b, %a {dim = 1 : i64} : (tensor<3x4xf32>, tensor<3x2xf32>) -> tensor<3x6xf32>
    %z = op.relu %two : (tensor<3x6xf32>) -> tensor<3x6xf32>
    %three = op.cat %b, %a, %c {dim = 1 : i64} : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<3x4xf32>) -> tensor<3x10xf32>
    %w = op.relu %three : (tensor<3x10xf32>) -> tensor<3x10xf32>
    return %z, %w : tensor<3x6xf32>, tensor<3x10xf32>
  }
}

// -----

// The part that is written first would overwrite what the other part reads of the state: the new state has memory of its own.
module {
  // CHECK-LABEL: kernel.program @state
  // CHECK: %[[STATE:.*]] = kernel.state
  // CHECK: kernel.run
  // CHECK: %[[NEW:.*]] = kernel.slot
  // CHECK: kernel.view %[[NEW]] offset(0)
  // CHECK: kernel.view %[[NEW]] offset(8)
  // CHECK: kernel.launch @pointwise_exp_8
  // CHECK: kernel.launch @pointwise_tanh_8
  // CHECK: kernel.launch @copy_16(%[[NEW]]) outs(%[[STATE]])
  // CHECK: kernel.return
  func.func @state(%y: tensor<2x4xf32> {op.name = "y"}) -> (tensor<4x4xf32> {op.tie = "state:s"}) {
    %s = op.state "s" : tensor<4x4xf32>
    %low = op.slice %s {dim = 0 : i64, end = 2 : i64, start = 0 : i64, step = 1 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %a = op.exp %y : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = op.tanh %low : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %new = op.cat %a, %b {dim = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    return %new : tensor<4x4xf32>
  }
}
