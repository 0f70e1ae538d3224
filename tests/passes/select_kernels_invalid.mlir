// RUN: straightline-opt %s -verify-diagnostics --fuse-contractions --select-kernels

// All that no kernel takes are reported, not the first one alone.
func.func @integers(%x: tensor<4x4xi32>, %y: tensor<4x4xui8>) -> (tensor<4x4xi32>, tensor<4x4xui8>) {
  // expected-error@+1 {{has no kernel; native.matmul: operand 0 is int32, needs float32 or float64}}
  %a = op.matmul %x, %x : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
  // expected-error@+1 {{has no kernel; native.matmul: operand 0 is uint8, needs float32 or float64}}
  %b = op.matmul %y, %y : (tensor<4x4xui8>, tensor<4x4xui8>) -> tensor<4x4xui8>
  return %a, %b : tensor<4x4xi32>, tensor<4x4xui8>
}
