// RUN: straightline-opt %s --decompose-reductions | FileCheck %s
// RUN: straightline-opt %s --decompose-reductions -o %t.once && straightline-opt %t.once --decompose-reductions -o %t.twice && diff %t.once %t.twice

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>> {
  // CHECK: ^bb0(%[[X:[^:]*]]:
  // CHECK-NEXT: %[[M:.*]] = op.amax %[[X]] {dims = array<i64: 1>, keepdim = true}
  // CHECK-NEXT: %[[MW:.*]] = op.expand %[[M]]
  // CHECK-NEXT: %[[D:.*]] = op.sub %[[X]], %[[MW]]
  // CHECK-NEXT: %[[E:.*]] = op.exp %[[D]]
  // CHECK-NEXT: %[[S:.*]] = op.sum %[[E]] {dims = array<i64: 1>, keepdim = true}
  // CHECK-NEXT: %[[SW:.*]] = op.expand %[[S]]
  // CHECK-NEXT: %[[Y:.*]] = op.div %[[E]], %[[SW]]
  // CHECK-NEXT: op.yield %[[Y]]
  %y = op.fusion(%x) {family = "row_reduction"} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>> {
  ^bb0(%a: tensor<?x8xf32, #op.dims<[b, 8]>>):
    %r = op.softmax %a {dim = 1 : i64} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
    op.yield %r : tensor<?x8xf32, #op.dims<[b, 8]>>
  }
  return %y : tensor<?x8xf32, #op.dims<[b, 8]>>
}

// The result without kept dims is a view of the one with.
// CHECK-LABEL: func.func @mean
func.func @mean(%x: tensor<2x8xf32>) -> tensor<2xf32> {
  // CHECK: %[[S:.*]] = op.sum %{{.*}} {dims = array<i64: 1>, keepdim = true}
  // CHECK-NEXT: %[[N:.*]] = op.full {value = 8.000000e+00 : f64} : tensor<2x1xf32>
  // CHECK-NEXT: %[[M:.*]] = op.div %[[S]], %[[N]]
  // CHECK-NEXT: op.reshape %[[M]] : (tensor<2x1xf32>) -> tensor<2xf32>
  %y = op.fusion(%x) {family = "row_reduction"} : (tensor<2x8xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2x8xf32>):
    %r = op.mean %a {dims = array<i64: 1>, keepdim = false} : (tensor<2x8xf32>) -> tensor<2xf32>
    op.yield %r : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}

// Sums stay; so does what stands in no fusion.
// CHECK-LABEL: func.func @left
func.func @left(%x: tensor<2x8xf32>) -> (tensor<2xf32>, tensor<2x8xf32>) {
  // CHECK: op.sum %{{.*}} {dims = array<i64: 1>, keepdim = false}
  // CHECK-NEXT: op.yield
  // CHECK: op.softmax
  %y = op.fusion(%x) {family = "row_reduction"} : (tensor<2x8xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2x8xf32>):
    %r = op.sum %a {dims = array<i64: 1>, keepdim = false} : (tensor<2x8xf32>) -> tensor<2xf32>
    op.yield %r : tensor<2xf32>
  }
  %z = op.softmax %x {dim = 1 : i64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %y, %z : tensor<2xf32>, tensor<2x8xf32>
}
