// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @branch
func.func @branch(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: op.if %{{.*}} -> (tensor<4xf32>) {
  // CHECK: op.yield %{{.*}} : tensor<4xf32>
  // CHECK: } else {
  // CHECK: op.yield %{{.*}} : tensor<4xf32>
  %y = op.if %c -> (tensor<4xf32>) {
    %n = op.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    op.yield %n : tensor<4xf32>
  } else {
    op.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @counted
func.func @counted(%x: tensor<?x4xf32, #op.dims<[s, 4]>>, %a: tensor<1x4xf32>) -> tensor<1x4xf32> {
  // CHECK: op.for %[[I:.*]] = 0 to s step 1 iter(%[[SUM:.*]] = %{{.*}}) : (tensor<1x4xf32>) {
  // CHECK: op.dynamic_slice %{{.*}}, %[[I]]
  // CHECK: op.yield
  %y = op.for %i = 0 to s step 1 iter(%sum = %a) : (tensor<1x4xf32>) {
    %row = op.dynamic_slice %x, %i {dim = 0 : i64, length = 1 : i64}
        : (tensor<?x4xf32, #op.dims<[s, 4]>>, tensor<i64>) -> tensor<1x4xf32>
    %next = op.add %sum, %row : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    op.yield %next : tensor<1x4xf32>
  }
  return %y : tensor<1x4xf32>
}

// CHECK-LABEL: func.func @no_carried
func.func @no_carried() {
  // CHECK: op.for %{{.*}} = 0 to 10 step 2 iter() : () {
  op.for %i = 0 to 10 step 2 iter() : () {
    op.yield
  }
  return
}

// CHECK-LABEL: func.func @conditional_loop
func.func @conditional_loop(%x: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> {
  // CHECK: op.while iter(%{{.*}}) : (tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>):
  // CHECK: op.yield %{{.*}} : tensor<i1>
  // CHECK: } do {
  // CHECK: op.yield %{{.*}} : tensor<f32>
  %y = op.while iter(%x) : (tensor<f32>) -> tensor<f32> {
  ^bb0(%a: tensor<f32>):
    %c = op.lt %a, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    op.yield %c : tensor<i1>
  } do {
  ^bb0(%a: tensor<f32>):
    %d = op.add %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
    op.yield %d : tensor<f32>
  }
  return %y : tensor<f32>
}
