// RUN: straightline-opt %s --fuse-reductions | FileCheck %s
// RUN: straightline-opt %s --fuse-reductions -o %t.once && straightline-opt %t.once --fuse-reductions -o %t.twice && diff %t.once %t.twice

// RMS norm written by hand is one kernel.
// CHECK-LABEL: func.func @rms
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x8xf32>
func.func @rms(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  // CHECK-NEXT: %[[W:.*]] = op.parameter "w"
  // CHECK-NEXT: %[[F:.*]] = op.fusion(%[[X]], %[[W]]) {family = "row_reduction"} : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  // CHECK: op.mul
  // CHECK: op.mean
  // CHECK: op.add
  // CHECK: op.rsqrt
  // CHECK: op.expand
  // CHECK: op.mul
  // CHECK: op.mul
  // CHECK: op.yield
  // CHECK-NEXT: {{^ +[}]$}}
  // CHECK-NEXT: return %[[F]]
  %w = op.parameter "w" : tensor<8xf32>
  %q = op.mul %x, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %m = op.mean %q {dims = array<i64: 2>, keepdim = true} : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %eps = op.full {value = 1.0e-6 : f64} : tensor<2x3x1xf32>
  %v = op.add %m, %eps : (tensor<2x3x1xf32>, tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %r = op.rsqrt %v : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %rw = op.expand %r : (tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %n = op.mul %x, %rw : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %ww = op.expand %w : (tensor<8xf32>) -> tensor<2x3x8xf32>
  %y = op.mul %n, %ww : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// ReshapeMix of the benchmark: five small ops, one kernel.
// CHECK-LABEL: func.func @reshape_mix
func.func @reshape_mix(%x: tensor<8x16x16xf32>, %b: tensor<256xf32>) -> tensor<8x256xf32> {
  // CHECK: op.reshape
  // CHECK: op.fusion({{.*}}) {family = "row_reduction"} : (tensor<8x256xf32>, tensor<256xf32>) -> tensor<8x256xf32>
  // CHECK: op.relu
  // CHECK: op.mean
  // CHECK: op.yield
  // CHECK-NEXT: {{^ +[}]$}}
  // CHECK-NEXT: return
  %flat = op.reshape %x : (tensor<8x16x16xf32>) -> tensor<8x256xf32>
  %bw = op.expand %b : (tensor<256xf32>) -> tensor<8x256xf32>
  %s = op.add %flat, %bw : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  %r = op.relu %s : (tensor<8x256xf32>) -> tensor<8x256xf32>
  %two = op.full {value = 2.0 : f64} : tensor<8x256xf32>
  %t = op.mul %r, %two : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  %m = op.mean %flat {dims = array<i64: 1>, keepdim = true} : (tensor<8x256xf32>) -> tensor<8x1xf32>
  %mw = op.expand %m : (tensor<8x1xf32>) -> tensor<8x256xf32>
  %y = op.add %t, %mw : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  return %y : tensor<8x256xf32>
}

// Two reductions of the same rows share a kernel, also with a named extent; both are results.
// CHECK-LABEL: func.func @statistics
func.func @statistics(%x: tensor<?x8xf32, #op.dims<[b, 8]>>)
    -> (tensor<?xf32, #op.dims<[b]>>, tensor<?xf32, #op.dims<[b]>>) {
  // CHECK-NEXT: %[[F:.*]]:2 = op.fusion(%{{.*}}) {family = "row_reduction"}
  // CHECK: op.exp
  // CHECK: op.amax
  // CHECK: op.sum
  // CHECK: return %[[F]]#0, %[[F]]#1
  %e = op.exp %x : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  %a = op.amax %e {dims = array<i64: 1>, keepdim = false}
      : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?xf32, #op.dims<[b]>>
  %s = op.sum %e {dims = array<i64: 1>, keepdim = false}
      : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?xf32, #op.dims<[b]>>
  return %a, %s : tensor<?xf32, #op.dims<[b]>>, tensor<?xf32, #op.dims<[b]>>
}

// Refused: other rows, so another kernel.
// CHECK-LABEL: func.func @other_rows
func.func @other_rows(%x: tensor<4x8x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  // CHECK: op.fusion(%{{.*}}) {family = "row_reduction"}{{.*}} -> tensor<4x8xf32>
  // CHECK: op.fusion(%{{.*}}) {family = "row_reduction"}{{.*}} -> tensor<4xf32>
  %a = op.sum %x {dims = array<i64: 2>, keepdim = false} : (tensor<4x8x8xf32>) -> tensor<4x8xf32>
  %b = op.sum %x {dims = array<i64: 1, 2>, keepdim = false} : (tensor<4x8x8xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4xf32>
}

// Refused: a reduction over leading dims; decompose-ops makes it one over trailing dims of a view.
// CHECK-LABEL: func.func @leading
func.func @leading(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: op.fusion
  %a = op.sum %x {dims = array<i64: 0>, keepdim = false} : (tensor<4x8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// Five reductions in a row: a kernel has four stages, and softmax takes two of them.
// CHECK-LABEL: func.func @five
func.func @five(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  // CHECK: op.fusion
  // CHECK: op.softmax
  // CHECK: op.sum
  // CHECK: op.amax
  // CHECK: op.yield
  // CHECK: op.fusion
  // CHECK: op.softmax
  // CHECK: op.yield
  %s = op.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = op.sum %s {dims = array<i64: 1>, keepdim = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %ae = op.expand %a : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %b = op.mul %s, %ae : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = op.amax %b {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  %t = op.softmax %b {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %c, %t : tensor<4xf32>, tensor<4x8xf32>
}

// A value a row without the reduced dim: expand repeats it over the rows, whatever the sizes say, so it stays outside.
// CHECK-LABEL: func.func @square
func.func @square(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[SUM:.*]] = op.fusion
  // CHECK: op.sum
  // CHECK: op.yield
  // CHECK: op.expand %[[SUM]] : (tensor<4xf32>) -> tensor<4x4xf32>
  // CHECK: op.sub
  %s = op.sum %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %e = op.expand %s : (tensor<4xf32>) -> tensor<4x4xf32>
  %d = op.sub %x, %e : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}

// Rows that decompose-ops has made the last dims: what makes them joins the reduction, with its operands permuted. Expands and literals stay
// what they are, a product that is read by itself has one permuted operand.
// CHECK-LABEL: func.func @turned
func.func @turned(%x: tensor<3x4x8xf32>, %w: tensor<3x4x1xf32>) -> tensor<3x8xf32> {
  // CHECK-DAG: %[[X:.*]] = op.permute %{{.*}} {dims = array<i64: 0, 2, 1>} : (tensor<3x4x8xf32>) -> tensor<3x8x4xf32>
  // CHECK-DAG: %[[W:.*]] = op.permute %{{.*}} {dims = array<i64: 0, 2, 1>} : (tensor<3x4x1xf32>) -> tensor<3x1x4xf32>
  // CHECK: op.fusion({{.*}}) {family = "row_reduction"} : ({{.*}}) -> tensor<3x8xf32>
  // CHECK: op.mul
  // CHECK: op.expand {{.*}} -> tensor<3x8x4xf32>
  // CHECK: op.mul
  // CHECK: op.add
  // CHECK: op.sum
  // CHECK: op.yield
  %square = op.mul %x, %x : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %ww = op.expand %w : (tensor<3x4x1xf32>) -> tensor<3x4x8xf32>
  %p = op.mul %square, %ww : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %one = op.full {value = 1.0 : f64} : tensor<3x4x8xf32>
  %q = op.add %p, %one : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %t = op.permute %q {dims = array<i64: 0, 2, 1>} : (tensor<3x4x8xf32>) -> tensor<3x8x4xf32>
  %s = op.sum %t {dims = array<i64: 2>, keepdim = false} : (tensor<3x8x4xf32>) -> tensor<3x8xf32>
  return %s : tensor<3x8xf32>
}

// The same with a named extent, for an expand that adds dims.
// CHECK-LABEL: func.func @turned_named
func.func @turned_named(%x: tensor<?x8xf32, #op.dims<[b, 8]>>, %w: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: op.fusion({{.*}}) {family = "row_reduction"}
  // CHECK: op.mul {{.*}} -> tensor<8x?xf32, #op.dims<[8, b]>>
  // CHECK: op.sum
  %ww = op.expand %w : (tensor<8xf32>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  %p = op.mul %x, %ww : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  %t = op.permute %p {dims = array<i64: 1, 0>} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
  %s = op.sum %t {dims = array<i64: 1>, keepdim = false} : (tensor<8x?xf32, #op.dims<[8, b]>>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// Refused: an operand lies across already; and a product with another reader is made anyway.
// CHECK-LABEL: func.func @turned_refused
func.func @turned_refused(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  // CHECK: op.mul {{.*}} -> tensor<4x8xf32>
  // CHECK: op.permute {{.*}} -> tensor<8x4xf32>
  // CHECK: op.fusion
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: op.sum
  // CHECK: op.exp {{.*}} -> tensor<4x8xf32>
  // CHECK: op.permute {{.*}} -> tensor<8x4xf32>
  // CHECK: op.fusion
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: op.sum
  %z = op.permute %y {dims = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %p = op.mul %x, %z : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = op.permute %p {dims = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %s = op.sum %t {dims = array<i64: 1>, keepdim = false} : (tensor<8x4xf32>) -> tensor<8xf32>
  %e = op.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %u = op.permute %e {dims = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %v = op.sum %u {dims = array<i64: 1>, keepdim = false} : (tensor<8x4xf32>) -> tensor<8xf32>
  return %s, %e, %v : tensor<8xf32>, tensor<4x8xf32>, tensor<8xf32>
}

// Refused: two stages would compute the square root twice.
// CHECK-LABEL: func.func @turned_stages
func.func @turned_stages(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // CHECK: op.sqrt {{.*}} -> tensor<4x8xf32>
  // CHECK-NEXT: op.permute
  // CHECK-NEXT: op.fusion
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: op.var
  %r = op.sqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = op.permute %r {dims = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %v = op.var %t {dims = array<i64: 1>, correction = 1.0 : f64, keepdim = false} : (tensor<8x4xf32>) -> tensor<8xf32>
  return %v : tensor<8xf32>
}
