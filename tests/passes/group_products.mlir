// RUN: straightline-opt %s -split-input-file --fuse-contractions --fuse-reductions --fuse-pointwise --decompose-reductions --select-kernels --group-products | FileCheck %s

// Three products of what a norm makes, and the norm: one fusion with three results.

// CHECK-LABEL: func.func @projections
// CHECK: %{{.*}}:3 = op.fusion(%arg0, %{{.*}}, %{{.*}}, %{{.*}}) {family = "product_group"
// CHECK-SAME: kernel = "cuda.gemv_group"
// CHECK-SAME: why = "cuda.gemv_group: 3 products of the same rows, which each block makes, in one kernel
// CHECK: op.sum
// CHECK-COUNT-3: op.linear
// CHECK-NOT: op.fusion
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @projections(%x: tensor<2x64xf32> {op.name = "x"}) -> (tensor<2x48xf32> {op.name = "q"}, tensor<2x16xf32> {op.name = "k"}, tensor<2x16xf32> {op.name = "v"}) {
    %wq = op.parameter "q" : tensor<48x64xf32>
    %wk = op.parameter "k" : tensor<16x64xf32>
    %wv = op.parameter "v" : tensor<16x64xf32>
    %n = op.rms_norm %x {normalized_rank = 1 : i64, eps = 1.0e-6 : f64} : (tensor<2x64xf32>) -> tensor<2x64xf32>
    %q = op.linear %n, %wq : (tensor<2x64xf32>, tensor<48x64xf32>) -> tensor<2x48xf32>
    %k = op.linear %n, %wk : (tensor<2x64xf32>, tensor<16x64xf32>) -> tensor<2x16xf32>
    %v = op.linear %n, %wv : (tensor<2x64xf32>, tensor<16x64xf32>) -> tensor<2x16xf32>
    return %q, %k, %v : tensor<2x48xf32>, tensor<2x16xf32>, tensor<2x16xf32>
  }
}

// -----

// Two products that meet in one expression: one result.

// CHECK-LABEL: func.func @gated
// CHECK: %[[Y:.*]] = op.fusion(%arg0, %{{.*}}, %{{.*}}) {family = "product_group"
// CHECK-COUNT-2: op.linear
// CHECK: op.silu
// CHECK: return %[[Y]]
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @gated(%x: tensor<1x64xf32> {op.name = "x"}) -> (tensor<1x96xf32> {op.name = "y"}) {
    %wg = op.parameter "gate" : tensor<96x64xf32>
    %wu = op.parameter "up" : tensor<96x64xf32>
    %g = op.linear %x, %wg : (tensor<1x64xf32>, tensor<96x64xf32>) -> tensor<1x96xf32>
    %u = op.linear %x, %wu : (tensor<1x64xf32>, tensor<96x64xf32>) -> tensor<1x96xf32>
    %s = op.silu %g : (tensor<1x96xf32>) -> tensor<1x96xf32>
    %y = op.mul %s, %u : (tensor<1x96xf32>, tensor<1x96xf32>) -> tensor<1x96xf32>
    return %y : tensor<1x96xf32>
  }
}

// -----

// One that reads the other's result through something else cannot be beside it; a norm with another reader stays a kernel;
// and more rows than the kernel takes leave all as they were.

// CHECK-LABEL: func.func @dependent
// CHECK-NOT: product_group
// CHECK-LABEL: func.func @norm_is_read
// CHECK: family = "row_reduction"
// CHECK: family = "product_group"
// CHECK-LABEL: func.func @many_rows
// CHECK-NOT: product_group
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @dependent(%x: tensor<1x64xf32> {op.name = "x"}) -> (tensor<1x64xf32> {op.name = "y"}) {
    %wa = op.parameter "a" : tensor<64x64xf32>
    %wb = op.parameter "b" : tensor<64x64xf32>
    %a = op.linear %x, %wa : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
    %s = op.softmax %a {dim = 1 : i64} : (tensor<1x64xf32>) -> tensor<1x64xf32>
    %b = op.linear %x, %wb : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
    %y = op.mul %b, %s : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
    return %y : tensor<1x64xf32>
  }
  func.func @norm_is_read(%x: tensor<1x64xf32> {op.name = "x"}) -> (tensor<1x64xf32> {op.name = "a"}, tensor<1x32xf32> {op.name = "b"}, tensor<1x64xf32> {op.name = "n"}) {
    %wa = op.parameter "a" : tensor<64x64xf32>
    %wb = op.parameter "b" : tensor<32x64xf32>
    %n = op.rms_norm %x {normalized_rank = 1 : i64, eps = 1.0e-6 : f64} : (tensor<1x64xf32>) -> tensor<1x64xf32>
    %a = op.linear %n, %wa : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
    %b = op.linear %n, %wb : (tensor<1x64xf32>, tensor<32x64xf32>) -> tensor<1x32xf32>
    return %a, %b, %n : tensor<1x64xf32>, tensor<1x32xf32>, tensor<1x64xf32>
  }
  func.func @many_rows(%x: tensor<64x64xf32> {op.name = "x"}) -> (tensor<64x64xf32> {op.name = "a"}, tensor<64x32xf32> {op.name = "b"}) {
    %wa = op.parameter "a" : tensor<64x64xf32>
    %wb = op.parameter "b" : tensor<32x64xf32>
    %a = op.linear %x, %wa : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = op.linear %x, %wb : (tensor<64x64xf32>, tensor<32x64xf32>) -> tensor<64x32xf32>
    return %a, %b : tensor<64x64xf32>, tensor<64x32xf32>
  }
}
