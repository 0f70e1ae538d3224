// RUN: straightline-opt %s -split-input-file --fuse-pointwise --lower-to-kernel --verify-kernel-level | FileCheck %s

// A value that is the new one of several states: what makes it writes all of them, over the old value of one too.
// CHECK-LABEL: kernel.program @states
// CHECK-DAG: %[[A:.*]] = kernel.state "a"
// CHECK-DAG: %[[B:.*]] = kernel.state "b"
// CHECK: kernel.launch @{{.*}}(%[[B]]) outs(%[[A]], %[[B]])
// CHECK-NOT: kernel.launch
// CHECK: kernel.return
func.func @states() -> (tensor<4xf32> {op.tie = "state:a"}, tensor<4xf32> {op.tie = "state:b"}) {
  %a = op.state "a" : tensor<4xf32>
  %b = op.state "b" : tensor<4xf32>
  %y = op.exp %b : (tensor<4xf32>) -> tensor<4xf32>
  return %y, %y : tensor<4xf32>, tensor<4xf32>
}

// -----

// The old value of one is read later: it is copied there when all is done. So is a value that no elementwise op makes.
// CHECK-LABEL: kernel.program @late
// CHECK-DAG: %[[A:.*]] = kernel.state "a"
// CHECK-DAG: %[[B:.*]] = kernel.state "b"
// CHECK-DAG: %[[C:.*]] = kernel.state "c"
// CHECK-DAG: %[[D:.*]] = kernel.state "d"
// CHECK: kernel.run (%[[X:.*]] "x": {{.*}}) outs(%[[Z:.*]] "z"
// CHECK: kernel.launch @{{.*}}(%[[X]]) outs(%[[A]])
// CHECK: kernel.launch @{{.*}} outs(%[[C]])
// CHECK: kernel.launch @{{.*}}(%[[B]], %[[A]]) outs(%[[Z]])
// CHECK-DAG: kernel.launch @{{.*}}(%[[A]]) outs(%[[B]])
// CHECK-DAG: kernel.launch @{{.*}}(%[[C]]) outs(%[[D]])
// CHECK: kernel.return
func.func @late(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "z"}, tensor<4xf32> {op.tie = "state:a"}, tensor<4xf32> {op.tie = "state:b"}, tensor<4xf32> {op.tie = "state:c"}, tensor<4xf32> {op.tie = "state:d"}) {
  %b = op.state "b" : tensor<4xf32>
  %y = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %u = op.slice %y {dim = 0 : i64, start = 0 : i64, end = 4 : i64, step = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %r = op.flip %x {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %z = op.mul %b, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z, %y, %y, %r, %r : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// More states than a kernel has operands: another one computes the value again, before the first may change what it reads.
// CHECK-LABEL: kernel.program @many
// CHECK: kernel.launch @[[TWO:.*]](%{{.*}}) outs(%{{[0-9]+}}, %{{[0-9]+}})
// CHECK-NEXT: kernel.launch @{{.*}}(%{{.*}}) outs({{(%[0-9]+, ){14}%[0-9]+}})
// CHECK-NEXT: kernel.return
func.func @many(%x: tensor<i64> {op.name = "x"}) -> (tensor<i64> {op.tie = "state:0"}, tensor<i64> {op.tie = "state:1"}, tensor<i64> {op.tie = "state:2"}, tensor<i64> {op.tie = "state:3"}, tensor<i64> {op.tie = "state:4"}, tensor<i64> {op.tie = "state:5"}, tensor<i64> {op.tie = "state:6"}, tensor<i64> {op.tie = "state:7"}, tensor<i64> {op.tie = "state:8"}, tensor<i64> {op.tie = "state:9"}, tensor<i64> {op.tie = "state:10"}, tensor<i64> {op.tie = "state:11"}, tensor<i64> {op.tie = "state:12"}, tensor<i64> {op.tie = "state:13"}, tensor<i64> {op.tie = "state:14"}, tensor<i64> {op.tie = "state:15"}, tensor<i64> {op.tie = "state:16"}) {
  %y = op.neg %x : (tensor<i64>) -> tensor<i64>
  return %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>
}
