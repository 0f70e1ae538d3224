// RUN: straightline-opt %s | FileCheck %s
// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

!vec = !kernel.buffer<64xf32>
!dev = !kernel.buffer<64xf32, space "late">
!rows = !kernel.buffer<[b, 64] x f32>

// CHECK-LABEL: kernel.program @all target(<"cpu", "x86-64-v3", threads = 2>)
kernel.program @all target(<"cpu", "x86-64-v3", threads = 2>) {
  // CHECK: kernel.queue @team backend("cpu")
  kernel.queue @team backend("cpu")
  // CHECK: kernel.queue @device backend("late")
  kernel.queue @device backend("late")
  // CHECK: kernel.extent @b min(1) max(64)
  kernel.extent @b min(1) max(64)
  // CHECK: %[[W:.*]] = kernel.parameter "fc.weight" : !kernel.buffer<64xf32>
  %w = kernel.parameter "fc.weight" : !vec
  // CHECK: kernel.state "steps" : !kernel.buffer<i64>
  %steps = kernel.state "steps" : !kernel.buffer<i64>
  // CHECK: %[[P:.*]] = kernel.prepared "fc.weight.packed" offset(0) : !kernel.buffer<64xf32>
  %p = kernel.prepared "fc.weight.packed" offset(0) : !vec
  // CHECK: %[[H:.*]] = kernel.handle "fc" destroy("lib_fc_destroy")
  %h = kernel.handle "fc" destroy("lib_fc_destroy")
  // CHECK: kernel.constant dense<{{.*}}> : tensor<2xi32> : !kernel.buffer<2xi32>
  %c = kernel.constant dense<[1, 2]> : tensor<2xi32> : !kernel.buffer<2xi32>
  // CHECK: kernel.prepare {
  kernel.prepare {
    // CHECK: kernel.launch @relu(%[[W]]) outs(%[[P]]) on @team :
    kernel.launch @relu(%w) outs(%p) on @team : (!vec) -> !vec
    // CHECK: kernel.plan @fc(%[[P]]) outs(%[[H]]) on @team : !kernel.buffer<64xf32>
    kernel.plan @fc(%p) outs(%h) on @team : !vec
  }
  // CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<[b, 64] x f32>, %[[N:.*]] "n" readwrite: !kernel.buffer<i64>) outs(%[[Y:.*]] "y": !kernel.buffer<64xf32>) {
  kernel.run (%x "x": !rows, %n "n" readwrite: !kernel.buffer<i64>) outs(%y "y": !vec) {
    // CHECK: %[[S:.*]] = kernel.slot offset(b * 256 + 64) : !kernel.buffer<64xf32>
    %s = kernel.slot offset(b * 256 + 64) : !vec
    // CHECK: %[[SCRATCH:.*]] = kernel.slot : !kernel.buffer<[b] x f32>
    %scratch = kernel.slot : !kernel.buffer<[b] x f32>
    // CHECK: %[[D:.*]] = kernel.slot offset(0) : !kernel.buffer<64xf32, space "late">
    %d = kernel.slot offset(0) : !dev
    // CHECK: %[[ROW:.*]] = kernel.view %[[X]] offset(b * 64 + 2) : !kernel.buffer<[b, 64] x f32> -> !kernel.buffer<64xf32>
    %row = kernel.view %x offset(b * 64 + 2) : !rows -> !vec
    // CHECK: kernel.launch @relu(%[[ROW]]) outs(%[[S]]) on @team {op = "relu", team = 1 : i64, why = "only one"}
    kernel.launch @relu(%row) outs(%s) on @team {op = "relu", team = 1, why = "only one"} : (!vec) -> !vec
    // CHECK: kernel.barrier on @team
    kernel.barrier on @team
    // CHECK: kernel.call @fc(%[[S]], %[[P]]) outs(%[[Y]]) handle(%[[H]]) workspace(%[[SCRATCH]] : !kernel.buffer<[b] x f32>) on @team :
    kernel.call @fc(%s, %p) outs(%y) handle(%h) workspace(%scratch : !kernel.buffer<[b] x f32>) on @team
        : (!vec, !vec) -> !vec
    // CHECK: kernel.copy %[[S]] to %[[D]] on @device :
    kernel.copy %s to %d on @device : !vec to !dev
    // CHECK: %[[E:.*]] = kernel.record on @device
    %e = kernel.record on @device
    // CHECK: kernel.wait %[[E]] on @team
    kernel.wait %e on @team
    // CHECK: %[[SIZE:.*]] = kernel.size(b * 64)
    %size = kernel.size(b * 64)
    %cell = kernel.slot offset(0) : !kernel.buffer<i64>
    // CHECK: kernel.alloc(%[[SIZE]]) cell(%[[CELL:.*]] : !kernel.buffer<i64>) : !kernel.buffer<[b, 64] x f32>
    %a = kernel.alloc(%size) cell(%cell : !kernel.buffer<i64>) : !rows
    // CHECK: kernel.alloc cell(%[[CELL]] : !kernel.buffer<i64>) : !kernel.buffer<[b, 64] x f32>
    %a2 = kernel.alloc cell(%cell : !kernel.buffer<i64>) : !rows
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // CHECK: %[[COUNT:.*]] = kernel.load %[[N]][] : !kernel.buffer<i64> -> i64
    %count = kernel.load %n[] : !kernel.buffer<i64> -> i64
    // CHECK: kernel.load %[[Y]][%{{.*}}] : !kernel.buffer<64xf32> -> f32
    %first = kernel.load %y[%zero] : !vec -> f32
    %limit = arith.constant 10 : i64
    %small = arith.cmpi slt, %count, %limit : i64
    // CHECK: kernel.check %[[SMALL:.*]], "count is too large"
    kernel.check %small, "count is too large"
    // CHECK: kernel.if %[[SMALL]] {
    // CHECK: } else {
    kernel.if %small {
      kernel.launch @relu(%row) outs(%s) on @team : (!vec) -> !vec
    } else {
      kernel.launch @relu(%y) outs(%s) on @team : (!vec) -> !vec
    }
    // CHECK: kernel.if %[[SMALL]] {
    // CHECK-NOT: else
    kernel.if %small {
      kernel.barrier on @team
    }
    // CHECK: kernel.for %[[I:.*]] = %{{.*}} to %[[SIZE]] step %{{.*}} {
    kernel.for %i = %zero to %size step %one {
      // CHECK: kernel.view %[[X]] offset(i * 64) [i = %[[I]]]
      %v = kernel.view %x offset(i * 64) [i = %i] : !rows -> !vec
      kernel.launch @relu(%v) outs(%s) on @team : (!vec) -> !vec
    }
    // One function for buffers of several sizes; its own names have the values of the launch.
    // CHECK: kernel.launch @sized(%[[X]]) outs(%{{.*}}) sizes([b * 64, 3]) on @team : (!kernel.buffer<[b, 64] x f32>) -> !kernel.buffer<[b, 64] x f32>
    kernel.launch @sized(%x) outs(%a) sizes([b * 64, 3]) on @team : (!rows) -> !rows
    // CHECK: kernel.launch @sized(%[[Y]]) outs(%{{.*}}) sizes([64, 3]) on @team : (!kernel.buffer<64xf32>) -> !kernel.buffer<64xf32>
    kernel.launch @sized(%y) outs(%s) sizes([64, 3]) on @team : (!vec) -> !vec
    // CHECK: kernel.while {
    // CHECK: kernel.condition %
    // CHECK: } do {
    kernel.while {
      %now = kernel.load %n[] : !kernel.buffer<i64> -> i64
      %more = arith.cmpi slt, %now, %limit : i64
      kernel.condition %more
    } do {
      kernel.launch @increment() outs(%n) on @team : () -> !kernel.buffer<i64>
    }
    // CHECK: kernel.return %[[Y]], %[[ROW]] :
    kernel.return %y, %row : !vec, !vec
  }
}

// CHECK-LABEL: kernel.func @relu(!kernel.buffer<64xf32>) outs(!kernel.buffer<64xf32>)
// CHECK-NEXT: schedule(<"pointwise", shape = {n = 64, rows = b, more = [1, 2]}, tune = {unroll = 4, vector = true, combine = ["sum", "max"], eps = 1.000000e-05}>) ties([0 -> 0])
// CHECK-NEXT: lambda body(%{{.*}}: f32) {
kernel.func @relu(!vec) outs(!vec)
    schedule(<"pointwise", shape = {n = 64, rows = b, more = [1, 2]},
              tune = {unroll = 4, vector = true, combine = ["sum", "max"], eps = 1.0e-5}>) ties([0 -> 0])
    lambda body(%x: f32) {
  %zero = arith.constant 0.0 : f32
  %y = arith.maximumf %x, %zero : f32
  kernel.yield %y : f32
}

// CHECK-LABEL: kernel.func @sized(!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
// CHECK-NEXT: schedule(<"pointwise", shape = {n = n0, rows = n1}, tune = {}>) ties([])
kernel.func @sized(!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
    schedule(<"pointwise", shape = {n = n0, rows = n1}, tune = {}>) ties([]) lambda body(%x: f32) {
  kernel.yield %x : f32
}

// CHECK-LABEL: kernel.func @increment() outs(!kernel.buffer<i64> readwrite)
kernel.func @increment() outs(!kernel.buffer<i64> readwrite)
    schedule(<"pointwise", shape = {n = 1}, tune = {}>) ties([]) can_fail
    lambda first() {
  %one = arith.constant 1 : i64
  kernel.yield %one : i64
} lambda second(%a: i64, %b: i64) {
  %c = arith.addi %a, %b : i64
  kernel.yield %c : i64
}

// CHECK-LABEL: kernel.decl @fc(!kernel.buffer<64xf32>, constant !kernel.buffer<64xf32>) outs(!kernel.buffer<64xf32>) workspace(!kernel.buffer<[b] x f32>)
// CHECK-NEXT: problem("inner_product", {m = 1 : i64}) run("lib_fc_run") plan("lib_fc_plan") destroy("lib_fc_destroy") can_fail
kernel.decl @fc(!vec, constant !vec) outs(!vec) workspace(!kernel.buffer<[b] x f32>)
    problem("inner_product", {m = 1 : i64}) run("lib_fc_run") plan("lib_fc_plan") destroy("lib_fc_destroy") can_fail
