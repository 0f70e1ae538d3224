// RUN: straightline-opt %s --verify-op-level | straightline-opt | FileCheck %s

// CHECK: op.symbol @b
op.symbol @b {min = 1 : i64, max = 64 : i64}

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<?x8xf32, #op.dims<[b, 8]>> {op.name = "x"})
    -> (tensor<?x8xf32, #op.dims<[b, 8]>> {op.name = "y"}) {
  %y = op.relu %x : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  return %y : tensor<?x8xf32, #op.dims<[b, 8]>>
}
