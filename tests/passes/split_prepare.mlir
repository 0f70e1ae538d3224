// RUN: straightline-opt %s --split-prepare | FileCheck %s
// RUN: straightline-opt %s --split-prepare -o %t.once && straightline-opt %t.once --split-prepare -o %t.twice && diff %t.once %t.twice

// RUN: straightline-opt %s --split-prepare="freeze=false" | FileCheck %s --check-prefix=LIVE

// LIVE-NOT: op.prepare

op.symbol @n {max = 64 : i64, min = 2 : i64}

// Arithmetic on parameters moves, and the expand and literal that feed it; the view after it stays.
// CHECK-LABEL: func.func @moves
func.func @moves(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK: op.parameter "w" : tensor<3xf32>
  // CHECK: op.full {op.prepare, value = 2.000000e+00 : f64} : tensor<3xf32>
  // CHECK: op.mul {{.*}} {op.prepare}
  // CHECK: op.expand %{{[^ ]*}} :
  // CHECK: op.add %{{[^ ]*}}, %{{[^ ]*}} :
  %w = op.parameter "w" : tensor<3xf32>
  %two = op.full {value = 2.0 : f64} : tensor<3xf32>
  %m = op.mul %w, %two : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %e = op.expand %m : (tensor<3xf32>) -> tensor<4x3xf32>
  %y = op.add %x, %e : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// Refused: views and literals alone, state, inputs.
// CHECK-LABEL: func.func @stays
func.func @stays(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // CHECK-NOT: op.prepare
  %w = op.parameter "w" : tensor<4x3xf32>
  %t = op.permute %w {dims = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %s = op.state "s" : tensor<3x4xf32>
  %n = op.neg %s : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %a = op.add %x, %t : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %y = op.add %a, %n : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// Refused: what a call's sizes tell, and a parameter laid out by them.
// CHECK-LABEL: func.func @sizes
func.func @sizes(%x: tensor<?x5xf32, #op.dims<[n, 5]>>) -> tensor<?x5xf32, #op.dims<[n, 5]>> {
  // CHECK-NOT: op.prepare
  %i = op.iota {start = 0 : i64, step = 1 : i64} : tensor<?xi64, #op.dims<[n + 1]>>
  %l = op.select %i {dim = 0 : i64, index = -1 : i64} : (tensor<?xi64, #op.dims<[n + 1]>>) -> tensor<i64>
  %f = op.to_dtype %l : (tensor<i64>) -> tensor<f32>
  %w = op.parameter "w" : tensor<5xf32>
  %m = op.expand %w : (tensor<5xf32>) -> tensor<?x5xf32, #op.dims<[n, 5]>>
  %c = op.exp %m : (tensor<?x5xf32, #op.dims<[n, 5]>>) -> tensor<?x5xf32, #op.dims<[n, 5]>>
  %e = op.expand %f : (tensor<f32>) -> tensor<?x5xf32, #op.dims<[n, 5]>>
  %a = op.add %x, %e : (tensor<?x5xf32, #op.dims<[n, 5]>>, tensor<?x5xf32, #op.dims<[n, 5]>>) -> tensor<?x5xf32, #op.dims<[n, 5]>>
  %y = op.mul %a, %c : (tensor<?x5xf32, #op.dims<[n, 5]>>, tensor<?x5xf32, #op.dims<[n, 5]>>) -> tensor<?x5xf32, #op.dims<[n, 5]>>
  return %y : tensor<?x5xf32, #op.dims<[n, 5]>>
}

// Refused: a result belongs to the caller, so its op runs each time; what feeds it moves.
// CHECK-LABEL: func.func @returned
func.func @returned() -> tensor<3xf32> {
  // CHECK: op.exp {{.*}} {op.prepare}
  // CHECK: op.neg %{{[^ ]*}} :
  %w = op.parameter "w" : tensor<3xf32>
  %e = op.exp %w : (tensor<3xf32>) -> tensor<3xf32>
  %n = op.neg %e : (tensor<3xf32>) -> tensor<3xf32>
  return %n : tensor<3xf32>
}

// What is made of a result moves, so the result does; the caller gets a copy of it, also through a view.
// CHECK-LABEL: func.func @returned_and_read
func.func @returned_and_read(%x: tensor<3x1xf32>) -> (tensor<3xf32>, tensor<3x1xf32>, tensor<3x1xf32>) {
  // CHECK: %[[E:.*]] = op.exp %{{.*}} {op.prepare}
  // CHECK: %[[COPY:.*]] = op.clone %[[E]] : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: %[[N:.*]] = op.neg %[[E]] {op.prepare}
  // CHECK: %[[VIEW:.*]] = op.reshape %[[COPY]] : (tensor<3xf32>) -> tensor<3x1xf32>
  // CHECK: %[[M:.*]] = op.reshape %[[N]] : (tensor<3xf32>) -> tensor<3x1xf32>
  // CHECK: %[[Y:.*]] = op.mul %{{.*}}, %[[M]]
  // CHECK: return %[[COPY]], %[[VIEW]], %[[Y]]
  %w = op.parameter "w" : tensor<3xf32>
  %e = op.exp %w : (tensor<3xf32>) -> tensor<3xf32>
  %n = op.neg %e : (tensor<3xf32>) -> tensor<3xf32>
  %v = op.reshape %e : (tensor<3xf32>) -> tensor<3x1xf32>
  %m = op.reshape %n : (tensor<3xf32>) -> tensor<3x1xf32>
  %y = op.mul %x, %m : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return %e, %v, %y : tensor<3xf32>, tensor<3x1xf32>, tensor<3x1xf32>
}

// A view that both phases read is there twice.
// CHECK-LABEL: func.func @both
func.func @both(%x: tensor<3x1xf32>) -> (tensor<3x1xf32>, tensor<3x1xf32>) {
  // CHECK: %[[PREPARE:.*]] = op.reshape {{.*}} {op.prepare}
  // CHECK: %[[LATE:.*]] = op.reshape %{{[^ ]*}} :
  // CHECK: op.exp %[[PREPARE]] {op.prepare}
  // CHECK: op.add %{{.*}}, %[[LATE]]
  %w = op.parameter "w" : tensor<3xf32>
  %v = op.reshape %w : (tensor<3xf32>) -> tensor<3x1xf32>
  %e = op.exp %v : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %a = op.mul %x, %e : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %b = op.add %x, %v : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return %a, %b : tensor<3x1xf32>, tensor<3x1xf32>
}

// A call of torch moves as any other op does, for a device too; one with an effect is made by each run.
// CHECK-LABEL: func.func @torch
func.func @torch(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  // CHECK: op.aten "aten::cummax.default"({{.*}}) {{.*}}op.prepare
  // CHECK-NOT: op.prepare
  // CHECK: op.aten "aten::normal.default"
  %w = op.parameter "w" : tensor<3xf32>
  %s = op.aten "aten::cummax.default"(%w) {schema = "s", torch = "2.11", door = "dispatcher", arguments = "%0", outcome = "@0", effectful = false, why = "no converter"} : (tensor<3xf32>) -> tensor<3xf32>
  %r = op.aten "aten::normal.default"(%w) {schema = "s", torch = "2.11", door = "dispatcher", arguments = "%0", outcome = "@0", effectful = true, why = "no converter"} : (tensor<3xf32>) -> tensor<3xf32>
  %y = op.add %x, %s : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %z = op.add %x, %r : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %y, %z : tensor<3xf32>, tensor<3xf32>
}
