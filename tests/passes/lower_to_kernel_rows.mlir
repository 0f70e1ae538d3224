// RUN: straightline-opt %s --split-input-file --fuse-pointwise --lower-to-kernel | FileCheck %s

// A loop whose rounds together replace every row of y: y begins as it is, and what makes a row writes it where it belongs, beside the
// place of what the loop carries.
// CHECK-LABEL: kernel.program @rows
// CHECK: kernel.run (%[[X:.*]] "x": {{.*}}) outs(%[[Y:.*]] "y": {{.*}}, %[[H:.*]] "h": {{.*}})
// CHECK-NEXT: kernel.launch @fill{{[^ ]*}}() outs(%[[H]])
// CHECK-NOT: kernel.launch
// CHECK: kernel.for %[[I:.*]] = %
// CHECK: %[[ROW:.*]] = kernel.view %[[Y]] offset(i{{[0-9]*}} * 3) [i{{[0-9]*}} = %[[I]]] : !kernel.buffer<4x3xf32> -> !kernel.buffer<1x3xf32>
// CHECK: %[[FLAT:.*]] = kernel.view %[[ROW]] offset(0) : !kernel.buffer<1x3xf32> -> !kernel.buffer<3xf32>
// CHECK-NEXT: kernel.launch @pointwise_{{[^ ]*}}(%[[H]], %{{[^ ]*}}) outs(%[[H]], %[[FLAT]])
// CHECK-NOT: kernel.launch
// CHECK: kernel.return
func.func @rows(%x: tensor<3xf32> {op.name = "x"}) -> (tensor<4x3xf32> {op.name = "y"}, tensor<3xf32> {op.name = "h"}) {
  %zeros = op.full {value = 0.0 : f64} : tensor<3xf32>
  %none = op.full {value = 0.0 : f64} : tensor<4x3xf32>
  %h, %y = op.for %i = 0 to 4 step 1 iter(%before = %zeros, %c = %none) : (tensor<3xf32>, tensor<4x3xf32>) {
    %next = op.add %before, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %row = op.reshape %next : (tensor<3xf32>) -> tensor<1x3xf32>
    %all = op.dynamic_update_slice %c, %row, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %next, %all : tensor<3xf32>, tensor<4x3xf32>
  }
  return %y, %h : tensor<4x3xf32>, tensor<3xf32>
}

// -----

// From the last row of a named number of them would be no literal; of known ones it is. What is not elementwise writes the row alone, and
// what the loop carries is copied from there. The number of the last row is no memory.
// CHECK-LABEL: kernel.program @from_the_last
// CHECK: kernel.run (%[[X:.*]] "x": {{.*}}) outs(%[[Y:.*]] "y": {{.*}}, %[[H:.*]] "h": {{.*}})
// CHECK-NEXT: kernel.launch @copy{{[^ ]*}}(%[[X]]) outs(%[[H]])
// CHECK: kernel.for
// CHECK: %[[ROW:.*]] = kernel.view %[[Y]] offset(
// CHECK: kernel.launch @copy{{[^ ]*}}(%{{[^ ]*}}) outs(%[[ROW]]) {{.*}}op = "flip"
// CHECK-NEXT: kernel.launch @copy{{[^ ]*}}(%[[ROW]]) outs(%[[H]])
// CHECK-NOT: kernel.launch
// CHECK: kernel.return
func.func @from_the_last(%x: tensor<1x3xf32> {op.name = "x"}) -> (tensor<4x3xf32> {op.name = "y"}, tensor<1x3xf32> {op.name = "h"}) {
  %none = op.full {value = 0.0 : f64} : tensor<4x3xf32>
  %last = op.full {value = 3 : i64} : tensor<i64>
  %h, %y = op.for %i = 0 to 4 step 1 iter(%before = %x, %c = %none) : (tensor<1x3xf32>, tensor<4x3xf32>) {
    %j = op.sub %last, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %next = op.flip %before {dims = array<i64: 1>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
    %all = op.dynamic_update_slice %c, %next, %j {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %next, %all : tensor<1x3xf32>, tensor<4x3xf32>
  }
  return %y, %h : tensor<4x3xf32>, tensor<1x3xf32>
}

// -----

// A named number of steps, zero among them.
module {
  op.symbol @s {min = 0, max = 9}
  // CHECK-LABEL: kernel.program @named
  // CHECK: kernel.run
  // CHECK-NEXT: kernel.size
  // CHECK: kernel.for
  // CHECK-COUNT-1: kernel.launch
  // CHECK-NOT: kernel.launch
  // CHECK: kernel.return
  func.func @named(%x: tensor<?x3xf32, #op.dims<[s, 3]>> {op.name = "x"}) -> (tensor<?x3xf32, #op.dims<[s, 3]>> {op.name = "y"}) {
    %none = op.full {value = 0.0 : f64} : tensor<?x3xf32, #op.dims<[s, 3]>>
    %y = op.for %i = 0 to s step 1 iter(%c = %none) : (tensor<?x3xf32, #op.dims<[s, 3]>>) {
      %part = op.dynamic_slice %x, %i {dim = 0 : i64, length = 1 : i64} : (tensor<?x3xf32, #op.dims<[s, 3]>>, tensor<i64>) -> tensor<1x3xf32>
      %next = op.exp %part : (tensor<1x3xf32>) -> tensor<1x3xf32>
      %all = op.dynamic_update_slice %c, %next, %i {dim = 0 : i64} : (tensor<?x3xf32, #op.dims<[s, 3]>>, tensor<1x3xf32>, tensor<i64>) -> tensor<?x3xf32, #op.dims<[s, 3]>>
      op.yield %all : tensor<?x3xf32, #op.dims<[s, 3]>>
    }
    return %y : tensor<?x3xf32, #op.dims<[s, 3]>>
  }
}

// -----

// Refused: rounds that leave a row, that begin behind the first, replace each row twice or read what they carry; a row further on.
// CHECK-LABEL: kernel.program @refused
// CHECK-COUNT-4: kernel.launch @fill
func.func @refused(%x: tensor<1x3xf32> {op.name = "x"})
    -> (tensor<4x3xf32> {op.name = "y"}, tensor<4x3xf32> {op.name = "z"}, tensor<4x3xf32> {op.name = "u"}, tensor<4x3xf32> {op.name = "v"}) {
  %none = op.full {value = 0.0 : f64} : tensor<4x3xf32>
  %one = op.full {value = 1 : i64} : tensor<i64>
  %y = op.for %i = 0 to 3 step 1 iter(%c = %none) : (tensor<4x3xf32>) {
    %row = op.exp %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
    %all = op.dynamic_update_slice %c, %row, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %all : tensor<4x3xf32>
  }
  %z = op.for %i = 1 to 4 step 1 iter(%c = %none) : (tensor<4x3xf32>) {
    %row = op.exp %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
    %all = op.dynamic_update_slice %c, %row, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %all : tensor<4x3xf32>
  }
  %u = op.for %i = 0 to 4 step 1 iter(%c = %none) : (tensor<4x3xf32>) {
    %part = op.dynamic_slice %c, %i {dim = 0 : i64, length = 1 : i64} : (tensor<4x3xf32>, tensor<i64>) -> tensor<1x3xf32>
    %row = op.add %part, %x : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %all = op.dynamic_update_slice %c, %row, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %all : tensor<4x3xf32>
  }
  %v = op.for %i = 0 to 4 step 1 iter(%c = %none) : (tensor<4x3xf32>) {
    %row = op.exp %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
    %j = op.sub %one, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %all = op.dynamic_update_slice %c, %row, %j {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %all : tensor<4x3xf32>
  }
  return %y, %z, %u, %v : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}
