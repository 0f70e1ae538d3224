// RUN: straightline-opt %s --pass-pipeline='builtin.module(func.func(fuse-attention{largest-tf32-head=64 largest-half-head=128}),canonicalize,cse)' | FileCheck %s
// RUN: straightline-opt %s --pass-pipeline='builtin.module(func.func(fuse-attention{largest-tf32-head=64 largest-half-head=128}),canonicalize,cse)' -o %t.once && straightline-opt %t.once --pass-pipeline='builtin.module(func.func(fuse-attention{largest-tf32-head=64 largest-half-head=128}),canonicalize,cse)' -o %t.twice && diff %t.once %t.twice
// RUN: straightline-opt %s --fuse-attention | FileCheck %s --check-prefix=NONE

// Without limits, as for a CPU, nothing is attention.
// NONE-NOT: op.scaled_dot_product_attention

// CHECK-LABEL: func.func @scaled_scores
// CHECK-NEXT: %[[Y:.*]] = op.scaled_dot_product_attention %arg0, %arg1, %arg2 {is_causal = false, scale = 2.500000e-01 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @scaled_scores(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %kt = op.permute %k {dims = array<i64: 0, 1, 3, 2>} : (tensor<2x4x7x16xf32>) -> tensor<2x4x16x7xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x5x16xf32>, tensor<2x4x16x7xf32>) -> tensor<2x4x5x7xf32>
  %c = op.full {value = 0.25 : f64} : tensor<2x4x5x7xf32>
  %t = op.mul %s, %c : (tensor<2x4x5x7xf32>, tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %w = op.softmax %t {dim = 3 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %y = op.matmul %w, %v : (tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %y : tensor<2x4x5x16xf32>
}

// Keys come as [b, s, h, e]; the scale is a division, the mask is added on the left, and a row that it leaves nothing of is NaN.
// CHECK-LABEL: func.func @divided_and_masked
// CHECK-NEXT: %[[K:.*]] = op.permute %arg1 {dims = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: op.scaled_dot_product_attention %arg0, %[[K]], %arg2 mask %arg3 {empty_is_nan, is_causal = false, scale = 5.000000e-01 : f64} {{.*}}tensor<2x1x1x7xf32>
func.func @divided_and_masked(%q: tensor<2x4x5x16xf32>, %k: tensor<2x7x4x16xf32>, %v: tensor<2x4x7x16xf32>, %m: tensor<2x1x1x7xf32>) -> tensor<2x4x5x16xf32> {
  %kt = op.permute %k {dims = array<i64: 0, 2, 3, 1>} : (tensor<2x7x4x16xf32>) -> tensor<2x4x16x7xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x5x16xf32>, tensor<2x4x16x7xf32>) -> tensor<2x4x5x7xf32>
  %c = op.full {value = 2.0 : f64} : tensor<2x4x5x7xf32>
  %t = op.div %s, %c : (tensor<2x4x5x7xf32>, tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %wide = op.expand %m : (tensor<2x1x1x7xf32>) -> tensor<2x4x5x7xf32>
  %u = op.add %wide, %t : (tensor<2x4x5x7xf32>, tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %w = op.softmax %u {dim = 3 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %y = op.matmul %w, %v : (tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %y : tensor<2x4x5x16xf32>
}

// Queries are scaled before their heads are taken apart, keys behind it; the scaled keys are read twice and stay scaled.
// CHECK-LABEL: func.func @scaled_queries
// CHECK-DAG: %[[K:.*]] = op.mul %arg1
// CHECK-DAG: %[[Q:.*]] = op.reshape %arg0
// CHECK: %[[Y:.*]] = op.scaled_dot_product_attention %[[Q]], %[[K]], %arg2 {is_causal = false, scale = 5.000000e-01 : f64}
// CHECK-NEXT: return %[[Y]], %[[K]]
func.func @scaled_queries(%q: tensor<5x64xf32>, %k: tensor<1x4x7x16xf32>, %v: tensor<1x4x7x16xf32>) -> (tensor<1x4x5x16xf32>, tensor<1x4x7x16xf32>) {
  %c = op.full {value = 0.5 : f64} : tensor<5x64xf32>
  %scaled = op.mul %q, %c : (tensor<5x64xf32>, tensor<5x64xf32>) -> tensor<5x64xf32>
  %heads = op.reshape %scaled : (tensor<5x64xf32>) -> tensor<1x4x5x16xf32>
  %d = op.full {value = 3.0 : f64} : tensor<1x4x7x16xf32>
  %keys = op.mul %k, %d : (tensor<1x4x7x16xf32>, tensor<1x4x7x16xf32>) -> tensor<1x4x7x16xf32>
  %kt = op.permute %keys {dims = array<i64: 0, 1, 3, 2>} : (tensor<1x4x7x16xf32>) -> tensor<1x4x16x7xf32>
  %s = op.matmul %heads, %kt : (tensor<1x4x5x16xf32>, tensor<1x4x16x7xf32>) -> tensor<1x4x5x7xf32>
  %w = op.softmax %s {dim = 3 : i64} : (tensor<1x4x5x7xf32>) -> tensor<1x4x5x7xf32>
  %y = op.matmul %w, %v : (tensor<1x4x5x7xf32>, tensor<1x4x7x16xf32>) -> tensor<1x4x5x16xf32>
  return %y, %keys : tensor<1x4x5x16xf32>, tensor<1x4x7x16xf32>
}

// Windows of several images: a bias of each head and a mask of each of 3 windows are one mask of 3 images, by turns. The number of
// images is named.
// CHECK-LABEL: func.func @windows
// CHECK: %[[BIAS:.*]] = op.expand {{.*}} -> tensor<3x4x5x5xf32>
// CHECK: %[[MASK:.*]] = op.expand {{.*}} -> tensor<3x4x5x5xf32>
// CHECK: %[[SUM:.*]] = op.add %[[BIAS]], %[[MASK]]
// CHECK: %[[Y:.*]] = op.scaled_dot_product_attention %arg0, %arg1, %arg2 mask %[[SUM]] {empty_is_nan, is_causal = false, scale = 1.000000e+00 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @windows(%q: tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>, %k: tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>, %v: tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>,
    %bias: tensor<4x5x5xf32>, %m: tensor<3x5x5xf32>) -> tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>> {
  %kt = op.permute %k {dims = array<i64: 0, 1, 3, 2>} : (tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>) -> tensor<?x4x16x5xf32, #op.dims<[n * 3, 4, 16, 5]>>
  %s = op.matmul %q, %kt : (tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>, tensor<?x4x16x5xf32, #op.dims<[n * 3, 4, 16, 5]>>) -> tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>
  %wideBias = op.expand %bias : (tensor<4x5x5xf32>) -> tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>
  %t = op.add %s, %wideBias : (tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>, tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>) -> tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>
  %apart = op.reshape %t : (tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>) -> tensor<?x3x4x5x5xf32, #op.dims<[n, 3, 4, 5, 5]>>
  %ofHeads = op.reshape %m : (tensor<3x5x5xf32>) -> tensor<1x3x1x5x5xf32>
  %wide = op.expand %ofHeads : (tensor<1x3x1x5x5xf32>) -> tensor<?x3x4x5x5xf32, #op.dims<[n, 3, 4, 5, 5]>>
  %masked = op.add %apart, %wide : (tensor<?x3x4x5x5xf32, #op.dims<[n, 3, 4, 5, 5]>>, tensor<?x3x4x5x5xf32, #op.dims<[n, 3, 4, 5, 5]>>) -> tensor<?x3x4x5x5xf32, #op.dims<[n, 3, 4, 5, 5]>>
  %joined = op.reshape %masked : (tensor<?x3x4x5x5xf32, #op.dims<[n, 3, 4, 5, 5]>>) -> tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>
  %w = op.softmax %joined {dim = 3 : i64} : (tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>) -> tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>
  %y = op.matmul %w, %v : (tensor<?x4x5x5xf32, #op.dims<[n * 3, 4, 5, 5]>>, tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>) -> tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>
  return %y : tensor<?x4x5x16xf32, #op.dims<[n * 3, 4, 5, 16]>>
}

// Images and heads are joined but where the mask of images is added; 16-bit floats, whose softmax is float32.
// CHECK-LABEL: func.func @joined_halves
// CHECK: op.scaled_dot_product_attention {{.*}} mask %arg3 {empty_is_nan, is_causal = false, scale = 1.000000e+00 : f64} {{.*}}tensor<2x4x5x96xf16>{{.*}} -> tensor<2x4x5x96xf16>
// CHECK-NEXT: op.reshape {{.*}} -> tensor<8x5x96xf16>
func.func @joined_halves(%q: tensor<8x5x96xf16>, %k: tensor<8x7x96xf16>, %v: tensor<8x7x96xf16>, %m: tensor<2x1x5x7xf16>) -> tensor<8x5x96xf16> {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<8x7x96xf16>) -> tensor<8x96x7xf16>
  %s = op.matmul %q, %kt : (tensor<8x5x96xf16>, tensor<8x96x7xf16>) -> tensor<8x5x7xf16>
  %apart = op.reshape %s : (tensor<8x5x7xf16>) -> tensor<2x4x5x7xf16>
  %wide = op.expand %m : (tensor<2x1x5x7xf16>) -> tensor<2x4x5x7xf16>
  %t = op.add %apart, %wide : (tensor<2x4x5x7xf16>, tensor<2x4x5x7xf16>) -> tensor<2x4x5x7xf16>
  %joined = op.reshape %t : (tensor<2x4x5x7xf16>) -> tensor<8x5x7xf16>
  %f = op.to_dtype %joined : (tensor<8x5x7xf16>) -> tensor<8x5x7xf32>
  %p = op.softmax %f {dim = 2 : i64} : (tensor<8x5x7xf32>) -> tensor<8x5x7xf32>
  %w = op.to_dtype %p : (tensor<8x5x7xf32>) -> tensor<8x5x7xf16>
  %y = op.matmul %w, %v : (tensor<8x5x7xf16>, tensor<8x7x96xf16>) -> tensor<8x5x96xf16>
  return %y : tensor<8x5x96xf16>
}

// Scores of each head have a scale of their own, which scales the queries; a condition says which scores are dropped.
// CHECK-LABEL: func.func @conditions
// CHECK-DAG: %[[SCALE:.*]] = op.expand %arg3 : (tensor<4x1x1xf32>) -> tensor<2x4x5x16xf32>
// CHECK-DAG: %[[Q:.*]] = op.mul %arg0, %[[SCALE]]
// CHECK-DAG: %[[MASK:.*]] = op.logical_not %{{.*}} : (tensor<1x1x5x7xi1>)
// CHECK: op.scaled_dot_product_attention %[[Q]], %arg1, %arg2 mask %[[MASK]] {empty_is_nan, is_causal = false, scale = 1.000000e+00 : f64}
func.func @conditions(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %scale: tensor<4x1x1xf32>, %dropped: tensor<5x7xi1>) -> tensor<2x4x5x16xf32> {
  %kt = op.permute %k {dims = array<i64: 0, 1, 3, 2>} : (tensor<2x4x7x16xf32>) -> tensor<2x4x16x7xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x5x16xf32>, tensor<2x4x16x7xf32>) -> tensor<2x4x5x7xf32>
  %wide = op.expand %scale : (tensor<4x1x1xf32>) -> tensor<2x4x5x7xf32>
  %t = op.mul %s, %wide : (tensor<2x4x5x7xf32>, tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %nothing = op.full {value = 0xFFF0000000000000 : f64} : tensor<2x4x5x7xf32>
  %condition = op.expand %dropped : (tensor<5x7xi1>) -> tensor<2x4x5x7xi1>
  %u = op.where %condition, %nothing, %t : (tensor<2x4x5x7xi1>, tensor<2x4x5x7xf32>, tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %w = op.softmax %u {dim = 3 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %y = op.matmul %w, %v : (tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %y : tensor<2x4x5x16xf32>
}
