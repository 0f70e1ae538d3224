// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// CHECK: op.symbol @b {max = 64 : i64, min = 1 : i64}
op.symbol @b {min = 1 : i64, max = 64 : i64}

// CHECK-LABEL: func.func private @written_and_returned
// CHECK-SAME: op.alias, op.name = "y"
func.func private @written_and_returned(tensor<8xf32> {op.name = "x"})
    -> (tensor<8xf32> {op.alias, op.name = "y"}, tensor<8xf32> {op.tie = "input:x"})

// CHECK-LABEL: func.func @sources
// CHECK-SAME: {op.name = "x"}
// CHECK-SAME: op.tie = "state:count"
func.func @sources(%x: tensor<?xf32, #op.dims<[b]>> {op.name = "x"})
    -> (tensor<?xf32, #op.dims<[b]>> {op.name = "y"}, tensor<i64> {op.tie = "state:count"}) {
  // CHECK: op.parameter "fc.weight" : tensor<10x64xf32>
  %w = op.parameter "fc.weight" : tensor<10x64xf32>
  // CHECK: %[[COUNT:.*]] = op.state "count" : tensor<i64>
  %count = op.state "count" : tensor<i64>
  // CHECK: op.constant dense<[1, 2]> : tensor<2xi32>
  %c = op.constant dense<[1, 2]> : tensor<2xi32>
  // CHECK: op.full {value = 2.500000e+00 : f64} : tensor<?xf32, #op.dims<[b]>>
  %f = op.full {value = 2.5 : f64} : tensor<?xf32, #op.dims<[b]>>
  // CHECK: op.full {value = true} : tensor<i1>
  %t = op.full {value = true} : tensor<i1>
  // CHECK: op.iota {start = 0 : i64, step = 1 : i64} : tensor<?xi64, #op.dims<[b]>>
  %i = op.iota {start = 0 : i64, step = 1 : i64} : tensor<?xi64, #op.dims<[b]>>
  // CHECK: op.fusion(%{{.*}}, %{{.*}}) {family = "pointwise"} : (tensor<?xf32, #op.dims<[b]>>, tensor<?xf32, #op.dims<[b]>>) -> tensor<?xf32, #op.dims<[b]>> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<?xf32, #op.dims<[b]>>, %[[B:.*]]: tensor<?xf32, #op.dims<[b]>>):
  // CHECK-NEXT: %[[S:.*]] = op.add %[[A]], %[[B]]
  // CHECK-NEXT: op.yield %[[S]] : tensor<?xf32, #op.dims<[b]>>
  // LOC: op.fusion
  // LOC: loc([[ADD:#.*]])
  %y = op.fusion(%x, %f) {family = "pointwise"}
      : (tensor<?xf32, #op.dims<[b]>>, tensor<?xf32, #op.dims<[b]>>) -> tensor<?xf32, #op.dims<[b]>> {
  ^bb0(%a: tensor<?xf32, #op.dims<[b]>>, %c0: tensor<?xf32, #op.dims<[b]>>):
    %s = op.add %a, %c0 : (tensor<?xf32, #op.dims<[b]>>, tensor<?xf32, #op.dims<[b]>>)
        -> tensor<?xf32, #op.dims<[b]>> loc("block"("model.py":12:0))
    op.yield %s : tensor<?xf32, #op.dims<[b]>>
  }
  return %y, %count : tensor<?xf32, #op.dims<[b]>>, tensor<i64>
}
// LOC: loc("model.py":12:0)
// LOC: loc("block"(

op.symbol @u0 {min = 0 : i64, max = 256 : i64}

op.symbol @u1 {min = 0 : i64, max = 256 : i64}

// CHECK-LABEL: func.func @computed_in_a_branch
func.func @computed_in_a_branch(%n: tensor<i64>, %c: tensor<i1>) -> tensor<i64> {
  // CHECK: op.if
  %r = op.if %c -> (tensor<i64>) {
    // CHECK-NEXT: op.set_extent %{{.*}} {bound = #op.dims<[4]>, extent = "u1"} : tensor<i64>
    op.set_extent %n {extent = "u1", bound = #op.dims<[4]>} : tensor<i64>
    op.yield %n : tensor<i64>
  } else {
    op.yield %n : tensor<i64>
  }
  return %r : tensor<i64>
}

// CHECK-LABEL: func.func @computed
func.func @computed(%x: tensor<?xf32, #op.dims<[b]>>, %n: tensor<i64>, %fits: tensor<i1>) -> tensor<?xf32, #op.dims<[u0]>> {
  // CHECK: op.check %{{.*}} {message = "n fits"} : tensor<i1>
  op.check %fits {message = "n fits"} : tensor<i1>
  // CHECK: op.set_extent %{{.*}} {bound = #op.dims<[b]>, extent = "u0"} : tensor<i64>
  op.set_extent %n {extent = "u0", bound = #op.dims<[b]>} : tensor<i64>
  // CHECK: op.dynamic_slice %{{.*}}, %{{.*}} {dim = 0 : i64, length = -1 : i64}
  %y = op.dynamic_slice %x, %n {dim = 0 : i64, length = -1 : i64} : (tensor<?xf32, #op.dims<[b]>>, tensor<i64>) -> tensor<?xf32, #op.dims<[u0]>>
  return %y : tensor<?xf32, #op.dims<[u0]>>
}
