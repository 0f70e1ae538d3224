// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @indexing
func.func @indexing(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %n: tensor<5xi32>, %p: tensor<2xi64>, %x: tensor<4x9xf32>, %src: tensor<4x2xf32>) {
  // CHECK: op.embedding{{.*}} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %e = op.embedding %w, %i : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: op.gather{{.*}}{dim = 0 : i64}{{.*}} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  %g = op.gather %w, %i {dim = 0 : i64} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  // CHECK: op.index_select{{.*}}{dim = 1 : i64}{{.*}} : (tensor<10x4xf32>, tensor<5xi32>) -> tensor<10x5xf32>
  %s = op.index_select %w, %n {dim = 1 : i64} : (tensor<10x4xf32>, tensor<5xi32>) -> tensor<10x5xf32>
  // CHECK: op.index_copy %{{.*}} {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  %k = op.index_copy %x, %p, %src {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  // CHECK: op.index_add %{{.*}} {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  %l = op.index_add %x, %p, %src {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  // CHECK: op.scatter %{{.*}} {dim = 1 : i64, reduce = "sum"} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<4x9xf32>) -> tensor<4x9xf32>
  %m = op.scatter %x, %i, %x {dim = 1 : i64, reduce = "sum"} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<4x9xf32>) -> tensor<4x9xf32>
  return
}

// Dims that follow each other are replaced where they stand, others by dims that come first.
// CHECK-LABEL: func.func @index
func.func @index(%x: tensor<4x9x5xf32>, %i: tensor<2x3xi64>, %v: tensor<4x2x3xf32>, %w: tensor<2x3x9xf32>) {
  // CHECK: op.index %{{.*}} {dims = array<i64: 1, 2>} : (tensor<4x9x5xf32>, tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<4x2x3xf32>
  %a = op.index %x, %i, %i {dims = array<i64: 1, 2>} : (tensor<4x9x5xf32>, tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<4x2x3xf32>
  // CHECK: op.index %{{.*}} {dims = array<i64: 0, 2>} : (tensor<4x9x5xf32>, tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3x9xf32>
  %b = op.index %x, %i, %i {dims = array<i64: 0, 2>} : (tensor<4x9x5xf32>, tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3x9xf32>
  // CHECK: op.index_put %{{.*}} {accumulate = true, dims = array<i64: 1, 2>}
  %c = op.index_put %x, %i, %i, %v {accumulate = true, dims = array<i64: 1, 2>} : (tensor<4x9x5xf32>, tensor<2x3xi64>, tensor<2x3xi64>, tensor<4x2x3xf32>) -> tensor<4x9x5xf32>
  // CHECK: op.index_put %{{.*}} {dims = array<i64: 0, 2>}
  %d = op.index_put %x, %i, %i, %w {dims = array<i64: 0, 2>} : (tensor<4x9x5xf32>, tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3x9xf32>) -> tensor<4x9x5xf32>
  return
}

// CHECK-LABEL: func.func @tree_ensemble
func.func @tree_ensemble(%x: tensor<4x9xf32>, %n: tensor<7x2xi32>, %m: tensor<7x2xi64>, %w: tensor<4x3xf32>, %v: tensor<4x1xf64>, %c: tensor<2xi32>) {
  // CHECK: op.tree_ensemble %{{.*}} {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %a = op.tree_ensemble %x, %n, %w {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: op.tree_ensemble %{{.*}} {aggregate = "max", decision = "mixed", {{.*}}, trees = 2 : i64} : (tensor<4x9xf32>, tensor<7x2xi64>, tensor<4x1xf64>, tensor<2xi32>) -> tensor<4x5xf64>
  %b = op.tree_ensemble %x, %m, %v, %c {aggregate = "max", decision = "mixed", depth = 0 : i64, feature_bits = 4 : i64, missing = true, trees = 2 : i64} : (tensor<4x9xf32>, tensor<7x2xi64>, tensor<4x1xf64>, tensor<2xi32>) -> tensor<4x5xf64>
  return
}
