// RUN: straightline-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fuse-attention{largest-tf32-head=16 largest-half-head=128}))' | FileCheck %s --implicit-check-not=op.scaled_dot_product_attention

// What lies between the products is read by nobody else, the scale is a literal, masks are added behind it: otherwise attention stays as it is written.

// The weights are returned, too.
// CHECK-LABEL: func.func @weights
// CHECK: op.softmax
func.func @weights(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>) -> (tensor<2x4x16xf32>, tensor<2x4x6xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y, %w : tensor<2x4x16xf32>, tensor<2x4x6xf32>
}

// So are the scores.
// CHECK-LABEL: func.func @scores
// CHECK: op.softmax
func.func @scores(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>) -> (tensor<2x4x16xf32>, tensor<2x4x6xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y, %s : tensor<2x4x16xf32>, tensor<2x4x6xf32>
}

// The scale is not known.
// CHECK-LABEL: func.func @scale
// CHECK: op.softmax
func.func @scale(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>, %c: tensor<2x4x6xf32>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %t = op.mul %s, %c : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// A scale of zero: without one it would be that of the head size.
// CHECK-LABEL: func.func @zero
// CHECK: op.softmax
func.func @zero(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %c = op.full {value = 0.0 : f64} : tensor<2x4x6xf32>
  %t = op.mul %s, %c : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// A mask is scaled as well.
// CHECK-LABEL: func.func @scaled_mask
// CHECK: op.softmax
func.func @scaled_mask(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>, %m: tensor<2x4x6xf32>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %u = op.add %s, %m : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %c = op.full {value = 0.5 : f64} : tensor<2x4x6xf32>
  %t = op.mul %u, %c : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// Another op than a sum.
// CHECK-LABEL: func.func @limited
// CHECK: op.softmax
func.func @limited(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %t = op.tanh %s : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// Another dim than that of the keys.
// CHECK-LABEL: func.func @other_dim
// CHECK: op.softmax
func.func @other_dim(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 1 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// Keys that do not lie in rows would be copied.
// CHECK-LABEL: func.func @columns
// CHECK: op.softmax
func.func @columns(%q: tensor<2x4x16xf32>, %kt: tensor<2x16x6xf32>, %v: tensor<2x6x16xf32>) -> (tensor<2x4x16xf32>) {
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// Values are smaller than keys.
// CHECK-LABEL: func.func @small_values
// CHECK: op.softmax
func.func @small_values(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x8xf32>) -> (tensor<2x4x8xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// The head is larger than one kernel takes.
// CHECK-LABEL: func.func @large
// CHECK: op.softmax
func.func @large(%q: tensor<2x4x17xf32>, %k: tensor<2x6x17xf32>, %v: tensor<2x6x17xf32>) -> (tensor<2x4x17xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x17xf32>) -> tensor<2x17x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x17xf32>, tensor<2x17x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x17xf32>) -> tensor<2x4x17xf32>
  return %y : tensor<2x4x17xf32>
}

// Kernels of float64 do not exist.
// CHECK-LABEL: func.func @double
// CHECK: op.softmax
func.func @double(%q: tensor<2x4x16xf64>, %k: tensor<2x6x16xf64>, %v: tensor<2x6x16xf64>) -> (tensor<2x4x16xf64>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf64>) -> tensor<2x16x6xf64>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf64>, tensor<2x16x6xf64>) -> tensor<2x4x6xf64>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf64>) -> tensor<2x4x6xf64>
  %y = op.matmul %w, %v : (tensor<2x4x6xf64>, tensor<2x6x16xf64>) -> tensor<2x4x16xf64>
  return %y : tensor<2x4x16xf64>
}

// Each key has a scale.
// CHECK-LABEL: func.func @scaled_keys
// CHECK: op.softmax
func.func @scaled_keys(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>, %c: tensor<1x1x6xf32>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %wide = op.expand %c : (tensor<1x1x6xf32>) -> tensor<2x4x6xf32>
  %t = op.mul %s, %wide : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// What a condition drops is not -infinity: a row of nothing else is no row of NaN.
// CHECK-LABEL: func.func @least_number
// CHECK: op.softmax
func.func @least_number(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>, %b: tensor<2x4x6xi1>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %c = op.full {value = -3.0e+38 : f64} : tensor<2x4x6xf32>
  %t = op.where %b, %s, %c : (tensor<2x4x6xi1>, tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// A mask is added, and a condition drops scores.
// CHECK-LABEL: func.func @two_kinds
// CHECK: op.softmax
func.func @two_kinds(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>, %m: tensor<2x4x6xf32>, %b: tensor<2x4x6xi1>) -> (tensor<2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
  %t = op.add %s, %m : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %c = op.full {value = 0xFFF0000000000000 : f64} : tensor<2x4x6xf32>
  %u = op.where %b, %t, %c : (tensor<2x4x6xi1>, tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.softmax %u {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// The number of heads is named.
// CHECK-LABEL: func.func @named_heads
// CHECK: op.softmax
func.func @named_heads(%q: tensor<?x4x16xf32, #op.dims<[h, 4, 16]>>, %k: tensor<?x6x16xf32, #op.dims<[h, 6, 16]>>, %v: tensor<?x6x16xf32, #op.dims<[h, 6, 16]>>) -> (tensor<?x4x16xf32, #op.dims<[h, 4, 16]>>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<?x6x16xf32, #op.dims<[h, 6, 16]>>) -> tensor<?x16x6xf32, #op.dims<[h, 16, 6]>>
  %s = op.matmul %q, %kt : (tensor<?x4x16xf32, #op.dims<[h, 4, 16]>>, tensor<?x16x6xf32, #op.dims<[h, 16, 6]>>) -> tensor<?x4x6xf32, #op.dims<[h, 4, 6]>>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<?x4x6xf32, #op.dims<[h, 4, 6]>>) -> tensor<?x4x6xf32, #op.dims<[h, 4, 6]>>
  %y = op.matmul %w, %v : (tensor<?x4x6xf32, #op.dims<[h, 4, 6]>>, tensor<?x6x16xf32, #op.dims<[h, 6, 16]>>) -> tensor<?x4x16xf32, #op.dims<[h, 4, 16]>>
  return %y : tensor<?x4x16xf32, #op.dims<[h, 4, 16]>>
}

// The head size is named.
// CHECK-LABEL: func.func @named_size
// CHECK: op.softmax
func.func @named_size(%q: tensor<2x4x?xf32, #op.dims<[2, 4, e]>>, %k: tensor<2x6x?xf32, #op.dims<[2, 6, e]>>, %v: tensor<2x6x?xf32, #op.dims<[2, 6, e]>>) -> (tensor<2x4x?xf32, #op.dims<[2, 4, e]>>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x?xf32, #op.dims<[2, 6, e]>>) -> tensor<2x?x6xf32, #op.dims<[2, e, 6]>>
  %s = op.matmul %q, %kt : (tensor<2x4x?xf32, #op.dims<[2, 4, e]>>, tensor<2x?x6xf32, #op.dims<[2, e, 6]>>) -> tensor<2x4x6xf32>
  %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x?xf32, #op.dims<[2, 6, e]>>) -> tensor<2x4x?xf32, #op.dims<[2, 4, e]>>
  return %y : tensor<2x4x?xf32, #op.dims<[2, 4, e]>>
}

// The mask has other elements than the queries.
// CHECK-LABEL: func.func @wide_mask
// CHECK: op.softmax
func.func @wide_mask(%q: tensor<2x4x16xf16>, %k: tensor<2x6x16xf16>, %v: tensor<2x6x16xf16>, %m: tensor<2x4x6xf32>) -> (tensor<2x4x16xf16>) {
  %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf16>) -> tensor<2x16x6xf16>
  %s = op.matmul %q, %kt : (tensor<2x4x16xf16>, tensor<2x16x6xf16>) -> tensor<2x4x6xf16>
  %f = op.to_dtype %s : (tensor<2x4x6xf16>) -> tensor<2x4x6xf32>
  %t = op.add %f, %m : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %p = op.softmax %t {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %w = op.to_dtype %p : (tensor<2x4x6xf32>) -> tensor<2x4x6xf16>
  %y = op.matmul %w, %v : (tensor<2x4x6xf16>, tensor<2x6x16xf16>) -> tensor<2x4x16xf16>
  return %y : tensor<2x4x16xf16>
}

// One mask repeats after 3 images, the other one after 4.
// CHECK-LABEL: func.func @two_periods
// CHECK: op.softmax
func.func @two_periods(%q: tensor<12x2x4x16xf32>, %k: tensor<12x2x6x16xf32>, %v: tensor<12x2x6x16xf32>, %m: tensor<1x3x1x4x6xf32>, %n: tensor<1x4x1x4x6xf32>) -> (tensor<12x2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 1, 3, 2>} : (tensor<12x2x6x16xf32>) -> tensor<12x2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<12x2x4x16xf32>, tensor<12x2x16x6xf32>) -> tensor<12x2x4x6xf32>
  %t0 = op.reshape %s : (tensor<12x2x4x6xf32>) -> tensor<4x3x2x4x6xf32>
  %t1 = op.expand %m : (tensor<1x3x1x4x6xf32>) -> tensor<4x3x2x4x6xf32>
  %t2 = op.add %t0, %t1 : (tensor<4x3x2x4x6xf32>, tensor<4x3x2x4x6xf32>) -> tensor<4x3x2x4x6xf32>
  %t = op.reshape %t2 : (tensor<4x3x2x4x6xf32>) -> tensor<12x2x4x6xf32>
  %u0 = op.reshape %t : (tensor<12x2x4x6xf32>) -> tensor<3x4x2x4x6xf32>
  %u1 = op.expand %n : (tensor<1x4x1x4x6xf32>) -> tensor<3x4x2x4x6xf32>
  %u2 = op.add %u0, %u1 : (tensor<3x4x2x4x6xf32>, tensor<3x4x2x4x6xf32>) -> tensor<3x4x2x4x6xf32>
  %u = op.reshape %u2 : (tensor<3x4x2x4x6xf32>) -> tensor<12x2x4x6xf32>
  %w = op.softmax %u {dim = 3 : i64} : (tensor<12x2x4x6xf32>) -> tensor<12x2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<12x2x4x6xf32>, tensor<12x2x6x16xf32>) -> tensor<12x2x4x16xf32>
  return %y : tensor<12x2x4x16xf32>
}

// A mask of each of 4 images, which is the same for its 3 windows.
// CHECK-LABEL: func.func @not_by_turns
// CHECK: op.softmax
func.func @not_by_turns(%q: tensor<12x2x4x16xf32>, %k: tensor<12x2x6x16xf32>, %v: tensor<12x2x6x16xf32>, %m: tensor<4x1x1x4x6xf32>) -> (tensor<12x2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 1, 3, 2>} : (tensor<12x2x6x16xf32>) -> tensor<12x2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<12x2x4x16xf32>, tensor<12x2x16x6xf32>) -> tensor<12x2x4x6xf32>
  %t0 = op.reshape %s : (tensor<12x2x4x6xf32>) -> tensor<4x3x2x4x6xf32>
  %t1 = op.expand %m : (tensor<4x1x1x4x6xf32>) -> tensor<4x3x2x4x6xf32>
  %t2 = op.add %t0, %t1 : (tensor<4x3x2x4x6xf32>, tensor<4x3x2x4x6xf32>) -> tensor<4x3x2x4x6xf32>
  %t = op.reshape %t2 : (tensor<4x3x2x4x6xf32>) -> tensor<12x2x4x6xf32>
  %w = op.softmax %t {dim = 3 : i64} : (tensor<12x2x4x6xf32>) -> tensor<12x2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<12x2x4x6xf32>, tensor<12x2x6x16xf32>) -> tensor<12x2x4x16xf32>
  return %y : tensor<12x2x4x16xf32>
}

// Five dims.
// CHECK-LABEL: func.func @rank_5
// CHECK: op.softmax
func.func @rank_5(%q: tensor<3x4x2x4x16xf32>, %k: tensor<3x4x2x6x16xf32>, %v: tensor<3x4x2x6x16xf32>) -> (tensor<3x4x2x4x16xf32>) {
  %kt = op.permute %k {dims = array<i64: 0, 1, 2, 4, 3>} : (tensor<3x4x2x6x16xf32>) -> tensor<3x4x2x16x6xf32>
  %s = op.matmul %q, %kt : (tensor<3x4x2x4x16xf32>, tensor<3x4x2x16x6xf32>) -> tensor<3x4x2x4x6xf32>
  %w = op.softmax %s {dim = 4 : i64} : (tensor<3x4x2x4x6xf32>) -> tensor<3x4x2x4x6xf32>
  %y = op.matmul %w, %v : (tensor<3x4x2x4x6xf32>, tensor<3x4x2x6x16xf32>) -> tensor<3x4x2x4x16xf32>
  return %y : tensor<3x4x2x4x16xf32>
}

// -----

// The user wants another kernel for products than the target's own.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "matmul", targets = ["cublaslt"], by = "the argument routes">]>} {
  // CHECK-LABEL: func.func @routed
  // CHECK: op.softmax
  func.func @routed(%q: tensor<2x4x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x16xf32>) -> tensor<2x4x16xf32> {
    %kt = op.permute %k {dims = array<i64: 0, 2, 1>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
    %s = op.matmul %q, %kt : (tensor<2x4x16xf32>, tensor<2x16x6xf32>) -> tensor<2x4x6xf32>
    %w = op.softmax %s {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    %y = op.matmul %w, %v : (tensor<2x4x6xf32>, tensor<2x6x16xf32>) -> tensor<2x4x16xf32>
    return %y : tensor<2x4x16xf32>
  }
}
