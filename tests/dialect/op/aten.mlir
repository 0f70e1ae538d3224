// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --canonicalize --cse | FileCheck %s --check-prefix=ONCE

op.symbol @b {min = 1 : i64, max = 64 : i64}

// CHECK-LABEL: func.func @tail
// CHECK: op.aten "aten::topk.default"(%{{.*}}) {arguments = "self=%0, k=2, dim=-1", door = "dispatcher", outcome = "@0, @1", schema = "aten::topk(..)", torch = "2.13.0", why = "no native kernel"} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
// CHECK: op.aten "mine::bump.default"(%{{.*}}) {{.*}}updates = array<i64: 0, 0>
// CHECK: sizes = #op.dims<[b * 2]>
// ONCE-LABEL: func.func @tail
// An op without effects that nobody reads goes; one with effects stays, and is not merged with its like.
// ONCE-NOT: "mine::unread.default"
// ONCE-COUNT-2: op.aten "aten::rand.default"
func.func @tail(%x: tensor<4x6xf32>, %y: tensor<?xf32, #op.dims<[b]>>) -> (tensor<4x2xf32>, tensor<4x2xi64>, tensor<4x6xf32>, tensor<?xf32, #op.dims<[b * 2]>>, tensor<3xf32>, tensor<3xf32>) {
  %v, %i = op.aten "aten::topk.default"(%x) {schema = "aten::topk(..)", torch = "2.13.0", door = "dispatcher", arguments = "self=%0, k=2, dim=-1", outcome = "@0, @1", why = "no native kernel"} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %u = op.aten "mine::unread.default"(%x) {schema = "s", torch = "2.13.0", door = "python", arguments = "%0", outcome = "@0", why = ""} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %n = op.aten "mine::bump.default"(%x) {schema = "s", torch = "2.13.0", door = "python", arguments = "x=@0, by=1.0", outcome = "", updates = array<i64: 0, 0>, why = ""} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = op.aten "mine::twice.default"(%y) {schema = "s", torch = "2.13.0", door = "dispatcher", arguments = "%0, size=[$0]", sizes = #op.dims<[b * 2]>, outcome = "@0", why = ""} : (tensor<?xf32, #op.dims<[b]>>) -> tensor<?xf32, #op.dims<[b * 2]>>
  %r0 = op.aten "aten::rand.default"() {schema = "s", torch = "2.13.0", door = "dispatcher", arguments = "size=[3]", outcome = "@0", effectful = true, why = ""} : () -> tensor<3xf32>
  %r1 = op.aten "aten::rand.default"() {schema = "s", torch = "2.13.0", door = "dispatcher", arguments = "size=[3]", outcome = "@0", effectful = true, why = ""} : () -> tensor<3xf32>
  return %v, %i, %n, %s, %r0, %r1 : tensor<4x2xf32>, tensor<4x2xi64>, tensor<4x6xf32>, tensor<?xf32, #op.dims<[b * 2]>>, tensor<3xf32>, tensor<3xf32>
}
