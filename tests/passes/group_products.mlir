// RUN: straightline-opt %s -split-input-file --fuse-contractions --fuse-reductions --fuse-pointwise --decompose-reductions --select-kernels --group-products | FileCheck %s
// RUN: straightline-opt %s -split-input-file --fuse-contractions --fuse-reductions --fuse-pointwise --decompose-reductions --select-kernels=prefer=cublaslt --group-products=prefer=cublaslt | FileCheck %s --check-prefix=PREFERRED

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

// One that reads the other's result, which the caller wants, too, or reads it through something else, cannot be beside it; a norm with another reader stays a kernel;
// and more rows than the kernel takes leave all as they were.

// CHECK-LABEL: func.func @dependent(
// CHECK-NOT: product_group
// CHECK-LABEL: func.func @dependent_and_wanted(
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
  func.func @dependent_and_wanted(%x: tensor<1x64xf32> {op.name = "x"}) -> (tensor<1x64xf32> {op.name = "a"}, tensor<1x64xf32> {op.name = "y"}) {
    %wa = op.parameter "a" : tensor<64x64xf32>
    %wb = op.parameter "b" : tensor<64x64xf32>
    %a = op.linear %x, %wa : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
    %b = op.linear %x, %wb : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
    %y = op.mul %b, %a : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
    return %a, %y : tensor<1x64xf32>, tensor<1x64xf32>
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

// -----

// Many rows, which Hopper's warpgroups multiply. Queries, keys and values whatever kernel each has by itself; both products of a gated
// unit for one result; a product by itself has its own kernels; products of float32 whose factors are not rounded stay apart, and so
// do products by tensors that are no weights, and convolutions.

// CHECK-LABEL: func.func @many_rows_of_16_bits
// CHECK: %{{.*}}:3 = op.fusion(%arg0, %{{.*}}, %{{.*}}, %{{.*}}) {family = "product_group"
// CHECK-SAME: kernel = "cuda.linear_group_warpgroups"
// CHECK-SAME: why = "cuda.linear_group_warpgroups: 3 products of the same rows, in one kernel
// CHECK-SAME: tunables = {columns = 64 : i64, rows = 64 : i64, stages = 13 : i64, tf32 = 0 : i64, threads = 160 : i64, workspace = 13952 : i64}
// CHECK-NOT: op.fusion
// PREFERRED-LABEL: func.func @many_rows_of_16_bits
// PREFERRED-NOT: product_group
// CHECK-LABEL: func.func @gated_of_many_rows
// CHECK: %[[Y:.*]] = op.fusion(%arg0, %{{.*}}, %{{.*}}) {family = "product_group"
// CHECK-COUNT-2: op.linear
// CHECK: return %[[Y]]
// CHECK-LABEL: func.func @a_product_of_many_rows
// CHECK-NOT: product_group
// CHECK-LABEL: func.func @many_rows_of_float32
// CHECK-NOT: product_group
// CHECK-LABEL: func.func @other_products
// CHECK-NOT: product_group
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @many_rows_of_16_bits(%x: tensor<128x512xbf16> {op.name = "x"}) -> (tensor<128x1024xbf16> {op.name = "q"}, tensor<128x256xbf16> {op.name = "k"}, tensor<128x256xbf16> {op.name = "v"}) {
    %wq = op.parameter "q" : tensor<1024x512xbf16>
    %wk = op.parameter "k" : tensor<256x512xbf16>
    %wv = op.parameter "v" : tensor<256x512xbf16>
    %q = op.linear %x, %wq : (tensor<128x512xbf16>, tensor<1024x512xbf16>) -> tensor<128x1024xbf16>
    %k = op.linear %x, %wk : (tensor<128x512xbf16>, tensor<256x512xbf16>) -> tensor<128x256xbf16>
    %v = op.linear %x, %wv : (tensor<128x512xbf16>, tensor<256x512xbf16>) -> tensor<128x256xbf16>
    return %q, %k, %v : tensor<128x1024xbf16>, tensor<128x256xbf16>, tensor<128x256xbf16>
  }
  func.func @gated_of_many_rows(%x: tensor<128x512xf16> {op.name = "x"}) -> (tensor<128x1024xf16> {op.name = "y"}) {
    %wg = op.parameter "gate" : tensor<1024x512xf16>
    %wu = op.parameter "up" : tensor<1024x512xf16>
    %g = op.linear %x, %wg : (tensor<128x512xf16>, tensor<1024x512xf16>) -> tensor<128x1024xf16>
    %u = op.linear %x, %wu : (tensor<128x512xf16>, tensor<1024x512xf16>) -> tensor<128x1024xf16>
    %s = op.silu %g : (tensor<128x1024xf16>) -> tensor<128x1024xf16>
    %y = op.mul %s, %u : (tensor<128x1024xf16>, tensor<128x1024xf16>) -> tensor<128x1024xf16>
    return %y : tensor<128x1024xf16>
  }
  func.func @a_product_of_many_rows(%x: tensor<128x512xbf16> {op.name = "x"}) -> (tensor<128x1024xbf16> {op.name = "y"}) {
    %w = op.parameter "w" : tensor<1024x512xbf16>
    %y = op.linear %x, %w : (tensor<128x512xbf16>, tensor<1024x512xbf16>) -> tensor<128x1024xbf16>
    return %y : tensor<128x1024xbf16>
  }
  func.func @many_rows_of_float32(%x: tensor<128x512xf32> {op.name = "x"}) -> (tensor<128x512xf32> {op.name = "a"}, tensor<128x512xf32> {op.name = "b"}) {
    %wa = op.parameter "a" : tensor<512x512xf32>
    %wb = op.parameter "b" : tensor<512x512xf32>
    %a = op.linear %x, %wa : (tensor<128x512xf32>, tensor<512x512xf32>) -> tensor<128x512xf32>
    %b = op.linear %x, %wb : (tensor<128x512xf32>, tensor<512x512xf32>) -> tensor<128x512xf32>
    return %a, %b : tensor<128x512xf32>, tensor<128x512xf32>
  }
  func.func @other_products(%x: tensor<128x512xbf16> {op.name = "x"}, %b: tensor<512x256xbf16> {op.name = "b"}, %i: tensor<1x64x56x56xbf16> {op.name = "i"})
      -> (tensor<128x256xbf16> {op.name = "p"}, tensor<128x256xbf16> {op.name = "q"}, tensor<1x64x56x56xbf16> {op.name = "c"}, tensor<1x64x56x56xbf16> {op.name = "d"}) {
    %w = op.parameter "w" : tensor<64x64x1x1xbf16>
    %v = op.parameter "v" : tensor<64x64x1x1xbf16>
    %t = op.tanh %b : (tensor<512x256xbf16>) -> tensor<512x256xbf16>
    %p = op.matmul %x, %b : (tensor<128x512xbf16>, tensor<512x256xbf16>) -> tensor<128x256xbf16>
    %q = op.matmul %x, %t : (tensor<128x512xbf16>, tensor<512x256xbf16>) -> tensor<128x256xbf16>
    %c = op.convolution %i, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false} : (tensor<1x64x56x56xbf16>, tensor<64x64x1x1xbf16>) -> tensor<1x64x56x56xbf16>
    %d = op.convolution %i, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false} : (tensor<1x64x56x56xbf16>, tensor<64x64x1x1xbf16>) -> tensor<1x64x56x56xbf16>
    return %p, %q, %c, %d : tensor<128x256xbf16>, tensor<128x256xbf16>, tensor<1x64x56x56xbf16>, tensor<1x64x56x56xbf16>
  }
}
