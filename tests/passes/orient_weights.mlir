// RUN: straightline-opt %s --orient-weights | FileCheck %s
// RUN: straightline-opt %s --orient-weights -o %t.once && straightline-opt %t.once --orient-weights -o %t.twice && diff %t.once %t.twice

// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<4x32xf32>) -> tensor<4x48xf32> {
  // CHECK: %[[W:.*]] = op.parameter
  // CHECK: %[[V:.*]] = op.permute %[[W]] {dims = array<i64: 1, 0>, op.prepare} : (tensor<32x48xf32>) -> tensor<48x32xf32>
  // CHECK: %[[C:.*]] = op.clone %[[V]] {op.prepare}
  // CHECK: op.linear %{{.*}}, %[[C]] : (tensor<4x32xf32>, tensor<48x32xf32>) -> tensor<4x48xf32>
  // CHECK-NOT: op.matmul
  %w = op.parameter "w" : tensor<32x48xf32>
  %y = op.matmul %x, %w : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// CHECK-LABEL: func.func @turned_linear
func.func @turned_linear(%x: tensor<2x3x32xbf16>) -> tensor<2x3x48xbf16> {
  // CHECK: %[[C:.*]] = op.clone %{{.*}} {op.prepare} : (tensor<48x32xbf16>) -> tensor<48x32xbf16>
  // CHECK: op.linear %{{.*}}, %[[C]], %{{.*}}
  %w = op.parameter "w" : tensor<32x48xbf16>
  %b = op.parameter "b" : tensor<48xbf16>
  %t = op.permute %w {dims = array<i64: 1, 0>} : (tensor<32x48xbf16>) -> tensor<48x32xbf16>
  %y = op.linear %x, %t, %b : (tensor<2x3x32xbf16>, tensor<48x32xbf16>, tensor<48xbf16>) -> tensor<2x3x48xbf16>
  return %y : tensor<2x3x48xbf16>
}

// As the weight of an embedding is used once more: it lies as a linear wants it, known early or not.
// CHECK-LABEL: func.func @turned_product
func.func @turned_product(%x: tensor<1x32xf16>, %w: tensor<48x32xf16>) -> tensor<1x48xf16> {
  // CHECK: op.linear %{{.*}}, %arg1 : (tensor<1x32xf16>, tensor<48x32xf16>) -> tensor<1x48xf16>
  %t = op.permute %w {dims = array<i64: 1, 0>} : (tensor<48x32xf16>) -> tensor<32x48xf16>
  %y = op.matmul %x, %t : (tensor<1x32xf16>, tensor<32x48xf16>) -> tensor<1x48xf16>
  return %y : tensor<1x48xf16>
}

// A plain linear stays; so do more rows, a weight that is computed, a batch, float64, live parameters.
// CHECK-LABEL: func.func @stays
func.func @stays(%x: tensor<4x32xf32>, %many: tensor<17x32xf32>, %w: tensor<32x48xf32>, %a: tensor<2x4x32xf32>, %d: tensor<4x32xf64>) -> (tensor<4x48xf32>, tensor<17x48xf32>, tensor<4x48xf32>, tensor<2x4x48xf32>, tensor<4x48xf64>) {
  // CHECK-NOT: op.clone
  // CHECK: op.linear
  // CHECK-COUNT-4: op.matmul
  // CHECK-NOT: op.clone
  %p = op.parameter "p" : tensor<48x32xf32>
  %q = op.parameter "q" : tensor<32x48xf32>
  %r = op.parameter "r" : tensor<2x32x48xf32>
  %s = op.parameter "s" : tensor<32x48xf64>
  %0 = op.linear %x, %p : (tensor<4x32xf32>, tensor<48x32xf32>) -> tensor<4x48xf32>
  %1 = op.matmul %many, %q : (tensor<17x32xf32>, tensor<32x48xf32>) -> tensor<17x48xf32>
  %2 = op.matmul %x, %w : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
  %3 = op.matmul %a, %r : (tensor<2x4x32xf32>, tensor<2x32x48xf32>) -> tensor<2x4x48xf32>
  %4 = op.matmul %d, %s : (tensor<4x32xf64>, tensor<32x48xf64>) -> tensor<4x48xf64>
  return %0, %1, %2, %3, %4 : tensor<4x48xf32>, tensor<17x48xf32>, tensor<4x48xf32>, tensor<2x4x48xf32>, tensor<4x48xf64>
}

// The copy of a weight that a branch reads is made outside of it; nothing is prepared within one.
// CHECK-LABEL: func.func @branch
func.func @branch(%c: tensor<i1>, %x: tensor<4x32xf32>) -> tensor<4x48xf32> {
  // CHECK: %[[C:.*]] = op.clone %{{.*}} {op.prepare} : (tensor<48x32xf32>) -> tensor<48x32xf32>
  // CHECK: op.if
  // CHECK: op.linear %{{.*}}, %[[C]]
  // CHECK: op.slice
  // CHECK-NEXT: op.matmul
  // CHECK-NOT: op.clone
  %w = op.parameter "w" : tensor<32x48xf32>
  %v = op.parameter "v" : tensor<32x50xf32>
  %y = op.if %c -> (tensor<4x48xf32>) {
    %a = op.matmul %x, %w : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
    op.yield %a : tensor<4x48xf32>
  } else {
    %s = op.slice %v {dim = 1 : i64, start = 0 : i64, end = 48 : i64, step = 1 : i64} : (tensor<32x50xf32>) -> tensor<32x48xf32>
    %b = op.matmul %x, %s : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
    op.yield %b : tensor<4x48xf32>
  }
  return %y : tensor<4x48xf32>
}

// CHECK-LABEL: func.func @live
func.func @live(%x: tensor<4x32xf32>) -> tensor<4x48xf32> attributes {op.live_parameters} {
  // CHECK: op.matmul
  %w = op.parameter "w" : tensor<32x48xf32>
  %y = op.matmul %x, %w : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

op.symbol @n {max = 64 : i64, min = 1 : i64}
// CHECK-LABEL: func.func @named
func.func @named(%x: tensor<?x32xf32, #op.dims<[n, 32]>>) -> tensor<?x48xf32, #op.dims<[n, 48]>> {
  // CHECK: op.matmul
  %w = op.parameter "w" : tensor<32x48xf32>
  %y = op.matmul %x, %w : (tensor<?x32xf32, #op.dims<[n, 32]>>, tensor<32x48xf32>) -> tensor<?x48xf32, #op.dims<[n, 48]>>
  return %y : tensor<?x48xf32, #op.dims<[n, 48]>>
}

// What is turned is a view, which prepare then makes for itself.
// CHECK-LABEL: func.func @view
func.func @view(%x: tensor<4x32xf32>) -> (tensor<4x48xf32>, tensor<32x48xf32>) {
  // CHECK: %[[LATE:.*]] = op.reshape %[[W:.*]] : (tensor<1536xf32>) -> tensor<32x48xf32>
  // CHECK: %[[V:.*]] = op.reshape %[[W]] {op.prepare} : (tensor<1536xf32>) -> tensor<32x48xf32>
  // CHECK: %[[T:.*]] = op.permute %[[V]] {dims = array<i64: 1, 0>, op.prepare}
  // CHECK: %[[C:.*]] = op.clone %[[T]] {op.prepare}
  // CHECK: op.linear %{{.*}}, %[[C]]
  // CHECK: return %{{.*}}, %[[LATE]]
  %w = op.parameter "w" : tensor<1536xf32>
  %v = op.reshape %w : (tensor<1536xf32>) -> tensor<32x48xf32>
  %y = op.matmul %x, %v : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
  return %y, %v : tensor<4x48xf32>, tensor<32x48xf32>
}

// A bias of attention [q, k, h] is turned once; a mask that comes with a call is not known, and what lies along the keys stays.
// CHECK-LABEL: func.func @turned_bias
func.func @turned_bias(%q: tensor<4x2x5x16xf32>, %m: tensor<5x5x2xf32>) -> (tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>) {
  // CHECK: %[[V:.*]] = op.reshape %{{.*}} {op.prepare} : (tensor<2x5x5xf32>) -> tensor<1x2x5x5xf32>
  // CHECK: %[[C:.*]] = op.clone %[[V]] {op.prepare}
  // CHECK: op.scaled_dot_product_attention %arg0, %arg0, %arg0 mask %[[C]]
  // CHECK-NOT: op.clone
  %table = op.parameter "table" : tensor<5x5x2xf32>
  %turned = op.permute %table {dims = array<i64: 2, 0, 1>} : (tensor<5x5x2xf32>) -> tensor<2x5x5xf32>
  %bias = op.reshape %turned : (tensor<2x5x5xf32>) -> tensor<1x2x5x5xf32>
  %x = op.scaled_dot_product_attention %q, %q, %q mask %bias {is_causal = false} : (tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<1x2x5x5xf32>) -> tensor<4x2x5x16xf32>
  %given = op.permute %m {dims = array<i64: 2, 0, 1>} : (tensor<5x5x2xf32>) -> tensor<2x5x5xf32>
  %y = op.scaled_dot_product_attention %q, %q, %q mask %given {is_causal = false} : (tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<2x5x5xf32>) -> tensor<4x2x5x16xf32>
  %rows = op.parameter "rows" : tensor<5x2x5xf32>
  %heads = op.permute %rows {dims = array<i64: 1, 0, 2>} : (tensor<5x2x5xf32>) -> tensor<2x5x5xf32>
  %z = op.scaled_dot_product_attention %q, %q, %q mask %heads {is_causal = false} : (tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<2x5x5xf32>) -> tensor<4x2x5x16xf32>
  return %x, %y, %z : tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>, tensor<4x2x5x16xf32>
}
