// RUN: straightline-opt %s --verify-op-level=stage=captured --canonicalize --fuse-pointwise --lower-to-kernel | FileCheck %s

// A state that no op reads has a buffer all the same, with the strides that its op had.
module {
  // CHECK-LABEL: kernel.program @forward
  // CHECK-DAG: kernel.state "n" : !kernel.buffer<3x4xf32>
  // CHECK-DAG: kernel.state "turned" : !kernel.buffer<3x4xf32, strides
  func.func @forward(%x: tensor<3x4xf32> {op.name = "x"}) -> (tensor<3x4xf32> {op.name = "a", op.tie = "state:n"},
                                                              tensor<3x4xf32> {op.name = "b", op.tie = "state:turned"}) {
    %n = op.state "n" : tensor<3x4xf32>
    %turned = op.state "turned" {op.strides = #op.dims<[1, 3]>} : tensor<3x4xf32>
    %a = op.exp %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %b = op.tanh %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
    return %a, %b : tensor<3x4xf32>, tensor<3x4xf32>
  }
}
