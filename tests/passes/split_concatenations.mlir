// RUN: straightline-opt %s -split-input-file --split-concatenations | FileCheck %s

// Rotary embedding behind a norm, through a reshape of leading dims: sums of both halves, then each half's elements; nothing
// but the last concatenation is left.

// CHECK-LABEL: func.func @rotary
// CHECK-NOT: op.cat
// CHECK: op.slice %{{.*}} {dim = 2 : i64, end = 4 : i64, start = 0 : i64
// CHECK: op.slice %{{.*}} {dim = 2 : i64, end = 8 : i64, start = 4 : i64
// CHECK: %[[BOTH:.*]] = op.add %{{.*}} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK: op.mean %[[BOTH]] {dims = array<i64: 2>, keepdim = true} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
// CHECK: op.neg %{{.*}} : (tensor<2x3x4xf32>)
// CHECK: %[[WHOLE:.*]] = op.cat %{{.*}}, %{{.*}} {dim = 2 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: return %[[WHOLE]]
func.func @rotary(%x: tensor<6x8xf32> {op.name = "x"}, %c: tensor<2x3x8xf32> {op.name = "c"}, %s: tensor<2x3x8xf32> {op.name = "s"}) -> (tensor<2x3x8xf32> {op.name = "y"}) {
  %square = op.mul %x, %x : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %mean = op.mean %square {dims = array<i64: 1>, keepdim = true} : (tensor<6x8xf32>) -> tensor<6x1xf32>
  %r = op.rsqrt %mean : (tensor<6x1xf32>) -> tensor<6x1xf32>
  %wide = op.expand %r : (tensor<6x1xf32>) -> tensor<6x8xf32>
  %n = op.mul %x, %wide : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %h = op.reshape %n : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  %a = op.slice %h {dim = 2 : i64, end = 4 : i64, start = 0 : i64, step = 1 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %b = op.slice %h {dim = 2 : i64, end = 8 : i64, start = 4 : i64, step = 1 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %nb = op.neg %b : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %turned = op.cat %nb, %a {dim = 2 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
  %0 = op.mul %h, %c : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = op.mul %turned, %s : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %2 = op.add %0, %1 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %2 : tensor<2x3x8xf32>
}

// -----

// What somebody else reads as well is computed once, and read in halves.

// CHECK-LABEL: func.func @read_elsewhere
// CHECK: %[[N:.*]] = op.exp %{{.*}} : (tensor<2x8xf32>)
// CHECK: op.slice %[[N]] {dim = 1 : i64, end = 4 : i64, start = 0 : i64
// CHECK: %[[WHOLE:.*]] = op.cat
// CHECK: return %[[WHOLE]], %[[N]]
func.func @read_elsewhere(%x: tensor<2x8xf32> {op.name = "x"}) -> (tensor<2x8xf32> {op.name = "y"}, tensor<2x8xf32> {op.name = "n"}) {
  %n = op.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %a = op.slice %n {dim = 1 : i64, end = 4 : i64, start = 0 : i64, step = 1 : i64} : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %b = op.slice %n {dim = 1 : i64, end = 8 : i64, start = 4 : i64, step = 1 : i64} : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %turned = op.cat %b, %a {dim = 1 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %0 = op.add %n, %turned : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0, %n : tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// Halves of two tensors stay as they are: nothing would be saved.

// CHECK-LABEL: func.func @two_tensors
// CHECK: %[[C:.*]] = op.cat %arg0, %arg1
// CHECK-NEXT: op.relu %[[C]] : (tensor<2x8xf32>)
func.func @two_tensors(%x: tensor<2x4xf32> {op.name = "x"}, %z: tensor<2x4xf32> {op.name = "z"}) -> (tensor<2x8xf32> {op.name = "y"}) {
  %c = op.cat %x, %z {dim = 1 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %0 = op.relu %c : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}
