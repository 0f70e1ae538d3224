// RUN: straightline-opt %s --split-input-file --hoist-invariants | FileCheck %s
// RUN: straightline-opt %s --split-input-file --hoist-invariants --hoist-invariants | FileCheck %s

// The sum and what it reads (a view, a literal) move; the literal that a step adds stays as a copy of its own.
// CHECK-LABEL: func.func @moves
// CHECK: op.permute %arg1
// CHECK-NEXT: op.full
// CHECK-NEXT: op.mul
// CHECK-NEXT: %[[SUM:.*]] = op.sum
// CHECK-NEXT: op.while
// CHECK: op.full
// CHECK: op.full {value = 2.0
// CHECK: op.add %{{.*}}, %[[SUM]]
func.func @moves(%x: tensor<4xf32>, %w: tensor<3x4xf32>) -> tensor<4xf32> {
  %0 = op.while iter(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %limit = op.full {value = 9.0 : f64} : tensor<4xf32>
    %less = op.lt %a, %limit : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %all = op.all %less {dims = array<i64: 0>, keepdim = false} : (tensor<4xi1>) -> tensor<i1>
    op.yield %all : tensor<i1>
  } do {
  ^bb0(%a: tensor<4xf32>):
    %wt = op.permute %w {dims = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %two = op.full {value = 2.0 : f64} : tensor<4x3xf32>
    %twice = op.mul %wt, %two : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %sum = op.sum %twice {dims = array<i64: 1>, keepdim = false} : (tensor<4x3xf32>) -> tensor<4xf32>
    %more = op.full {value = 2.0 : f64} : tensor<4xf32>
    %b = op.add %a, %sum : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %c = op.mul %b, %more : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    op.yield %c : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// A broadcast sum has more elements than what it reads; what depends on a carried value stays.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: op.while
// CHECK: do
// CHECK: op.expand
// CHECK: op.expand
// CHECK: op.add
// CHECK: op.add
func.func @stays(%x: tensor<4x4xf32>, %r: tensor<1x4xf32>, %c: tensor<4x1xf32>) -> tensor<4x4xf32> {
  %0 = op.while iter(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    %limit = op.full {value = 9.0 : f64} : tensor<4x4xf32>
    %less = op.lt %a, %limit : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
    %all = op.all %less {dims = array<i64: 0, 1>, keepdim = false} : (tensor<4x4xi1>) -> tensor<i1>
    op.yield %all : tensor<i1>
  } do {
  ^bb0(%a: tensor<4x4xf32>):
    %row = op.expand %r : (tensor<1x4xf32>) -> tensor<4x4xf32>
    %column = op.expand %c : (tensor<4x1xf32>) -> tensor<4x4xf32>
    %grid = op.add %row, %column : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = op.add %a, %grid : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    op.yield %b : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}

// -----

// Out of both loops.
// CHECK-LABEL: func.func @nested
// CHECK-NEXT: op.exp %arg1
// CHECK-NEXT: op.while
func.func @nested(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = op.while iter(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %all = op.any %a {dims = array<i64: 0>, keepdim = false} : (tensor<4xf32>) -> tensor<i1>
    op.yield %all : tensor<i1>
  } do {
  ^bb0(%a: tensor<4xf32>):
    %1 = op.while iter(%a) : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%b: tensor<4xf32>):
      %any = op.any %b {dims = array<i64: 0>, keepdim = false} : (tensor<4xf32>) -> tensor<i1>
      op.yield %any : tensor<i1>
    } do {
    ^bb0(%b: tensor<4xf32>):
      %e = op.exp %w : (tensor<4xf32>) -> tensor<4xf32>
      %c = op.sub %b, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      op.yield %c : tensor<4xf32>
    }
    op.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
