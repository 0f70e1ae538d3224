// RUN: straightline-opt %s --split-input-file --lower-to-kernel | FileCheck %s

// What a loop begins with is copied to where the loop carries it; a full is written there, by each loop that begins with it.
// CHECK-LABEL: kernel.program @loops
// CHECK: kernel.run (%[[A:.*]] "a": {{.*}}, %[[X:.*]] "x": {{.*}}) outs(%[[Y:.*]] "y": {{.*}}, %[[Z:.*]] "z": {{.*}}, %[[V:.*]] "v": {{.*}})
// CHECK-NEXT: kernel.launch @fill{{[^ ]*}}() outs(%[[Y]])
// CHECK: kernel.for
// CHECK: kernel.launch @fill{{[^ ]*}}() outs(%[[Z]])
// CHECK: kernel.launch @copy{{[^ ]*}}(%[[A]]) outs(%[[V]])
// CHECK: kernel.for
func.func @loops(%a: tensor<4x3xf32> {op.name = "a"}, %x: tensor<1x3xf32> {op.name = "x"})
    -> (tensor<4x3xf32> {op.name = "y"}, tensor<4x3xf32> {op.name = "z"}, tensor<4x3xf32> {op.name = "v"}) {
  %none = op.full {value = 0.0 : f64} : tensor<4x3xf32>
  %y = op.for %i = 1 to 4 step 1 iter(%c = %none) : (tensor<4x3xf32>) {
    %next = op.dynamic_update_slice %c, %x, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %next : tensor<4x3xf32>
  }
  %z, %v = op.for %i = 1 to 4 step 1 iter(%c = %none, %d = %a) : (tensor<4x3xf32>, tensor<4x3xf32>) {
    %next = op.dynamic_update_slice %c, %x, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    %other = op.dynamic_update_slice %d, %x, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %next, %other : tensor<4x3xf32>, tensor<4x3xf32>
  }
  return %y, %z, %v : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

// -----

// A full that anything else reads has a place of its own.
// CHECK-LABEL: kernel.program @read_elsewhere
// CHECK: outs(%[[Y:.*]] "y": {{.*}}, %[[Z:.*]] "z": {{.*}})
// CHECK-NEXT: kernel.launch @fill{{[^ ]*}}() outs(%[[Z]])
// CHECK: kernel.launch @copy{{[^ ]*}}(%[[Z]]) outs(%[[Y]])
// CHECK: kernel.for
func.func @read_elsewhere(%x: tensor<1x3xf32> {op.name = "x"}) -> (tensor<4x3xf32> {op.name = "y"}, tensor<4x3xf32> {op.name = "z"}) {
  %none = op.full {value = 0.0 : f64} : tensor<4x3xf32>
  %y = op.for %i = 1 to 4 step 1 iter(%c = %none) : (tensor<4x3xf32>) {
    %next = op.dynamic_update_slice %c, %x, %i {dim = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>) -> tensor<4x3xf32>
    op.yield %next : tensor<4x3xf32>
  }
  return %y, %none : tensor<4x3xf32>, tensor<4x3xf32>
}
