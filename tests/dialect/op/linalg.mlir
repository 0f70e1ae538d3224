// RUN: straightline-opt %s | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @factors
func.func @factors(%x: tensor<3x4x4xf32>, %b: tensor<3x4x2xf32>, %w: tensor<2x3x5xf64>) {
  // CHECK: op.cholesky{{.*}}{upper = true} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
  %factor, %info = op.cholesky %x {upper = true} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
  // CHECK: op.lu{{.*}} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4xi32>, tensor<3x4xi64>, tensor<3xi32>)
  %lu, %pivots, %permutation, %singular = op.lu %x : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4xi32>, tensor<3x4xi64>, tensor<3xi32>)
  // CHECK: op.triangular_solve{{.*}}{transpose = false, unit = true, upper = true} : (tensor<3x4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %y = op.triangular_solve %lu, %b {transpose = false, unit = true, upper = true} : (tensor<3x4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  // CHECK: op.geqrf{{.*}} : (tensor<3x4x2xf32>) -> (tensor<3x4x2xf32>, tensor<3x2xf32>)
  %qr, %taus = op.geqrf %b : (tensor<3x4x2xf32>) -> (tensor<3x4x2xf32>, tensor<3x2xf32>)
  // CHECK: op.orgqr{{.*}} : (tensor<3x4x2xf32>, tensor<3x2xf32>) -> tensor<3x4x2xf32>
  %q = op.orgqr %qr, %taus : (tensor<3x4x2xf32>, tensor<3x2xf32>) -> tensor<3x4x2xf32>
  // CHECK: op.eigh{{.*}} {upper = true} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4xf32>, tensor<3xi32>)
  %vectors, %values, %found = op.eigh %x {upper = true} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4xf32>, tensor<3xi32>)
  // CHECK: op.svd{{.*}} : (tensor<2x3x5xf64>) -> (tensor<2x3x5xf64>, tensor<2x3xf64>, tensor<2x3x3xf64>, tensor<2xi32>)
  %right, %s, %left, %done = op.svd %w : (tensor<2x3x5xf64>) -> (tensor<2x3x5xf64>, tensor<2x3xf64>, tensor<2x3x3xf64>, tensor<2xi32>)
  return
}
