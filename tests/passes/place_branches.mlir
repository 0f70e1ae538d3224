// RUN: straightline-opt %s -split-input-file --place-branches --verify-kernel-level --reuse-in-place --plan-memory --verify-planned-level | FileCheck %s

// Kernels of family transpose have a cost that is a device's (kernel.cost_us); a slot has 4096 bytes.

// Two branches of 24 us: the second begins beside the first, and what the one may have of the other's memory in the order of the text
// (here a slot of the first, which is dead by then) it does not get.
// CHECK-LABEL: kernel.program @two_long
// CHECK: kernel.launch @f(%{{.*}}) outs(%[[P:.*]]) on @stream {kernel.after = array<i64>, kernel.branch = 0 : i64, {{.*}}kernel.step = 0 : i64}
// CHECK-NEXT: kernel.launch @f(%[[P]]) outs(%[[Q:.*]]) on @stream {kernel.branch = 0 : i64, kernel.cost_us = 1.200000e+01 : f64}
// CHECK-NEXT: kernel.launch @f(%{{.*}}) outs(%[[R:.*]]) on @stream {kernel.after = array<i64>, kernel.branch = 1 : i64, {{.*}}kernel.step = 1 : i64}
// CHECK-NEXT: kernel.launch @f(%[[R]]) outs(%[[S:.*]]) on @stream {kernel.branch = 1 : i64, kernel.cost_us = 1.200000e+01 : f64}
// CHECK-NEXT: kernel.launch @g(%[[Q]], %[[S]]) outs(%{{.*}}) on @stream {kernel.after = array<i64: 0, 1>, {{.*}}kernel.step = 2 : i64}
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @two_long target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %c = kernel.slot : !v
    %d = kernel.slot : !v
    kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 12.0 : f64} : (!v) -> !v
    kernel.launch @f(%a) outs(%b) on @stream {kernel.cost_us = 12.0 : f64} : (!v) -> !v
    kernel.launch @f(%x) outs(%c) on @stream {kernel.cost_us = 12.0 : f64} : (!v) -> !v
    kernel.launch @f(%c) outs(%d) on @stream {kernel.cost_us = 12.0 : f64} : (!v) -> !v
    kernel.launch @g(%b, %d) outs(%y) on @stream {kernel.cost_us = 4.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// One chain is one order: there is nothing to say, and two slots do.
// CHECK-LABEL: kernel.program @chain
// CHECK: kernel.slot offset(0)
// CHECK-NEXT: kernel.slot offset(4096)
// CHECK-NEXT: kernel.slot offset(0)
// CHECK-NOT: kernel.step
// CHECK: kernel.return
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @chain target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %c = kernel.slot : !v
    kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 40.0 : f64} : (!v) -> !v
    kernel.launch @f(%a) outs(%b) on @stream {kernel.cost_us = 40.0 : f64} : (!v) -> !v
    kernel.launch @f(%b) outs(%c) on @stream {kernel.cost_us = 40.0 : f64} : (!v) -> !v
    kernel.launch @f(%c) outs(%y) on @stream {kernel.cost_us = 40.0 : f64} : (!v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// A chain of 8 us beside one of 80 stays in the order of the text, unless every chain is to become a branch.
// CHECK-LABEL: kernel.program @short_beside_long
// CHECK-NOT: kernel.step
// CHECK: kernel.return
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @short_beside_long target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %c = kernel.slot : !v
    kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 40.0 : f64} : (!v) -> !v
    kernel.launch @f(%a) outs(%b) on @stream {kernel.cost_us = 40.0 : f64} : (!v) -> !v
    kernel.launch @f(%x) outs(%c) on @stream {kernel.cost_us = 8.0 : f64} : (!v) -> !v
    kernel.launch @g(%b, %c) outs(%y) on @stream {kernel.cost_us = 4.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// Two of 4 us: too short.
// CHECK-LABEL: kernel.program @too_short
// CHECK-NOT: kernel.step
// CHECK: kernel.return
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @too_short target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 4.0 : f64} : (!v) -> !v
    kernel.launch @f(%x) outs(%b) on @stream {kernel.cost_us = 4.0 : f64} : (!v) -> !v
    kernel.launch @g(%a, %b) outs(%y) on @stream {kernel.cost_us = 4.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// What a branch reads another one may read at the same time: @t does not write over %a, though nothing behind it in the text reads that.
// CHECK-LABEL: kernel.program @in_place
// CHECK: kernel.launch @f(%{{.*}}) outs(%[[A:[0-9]+]])
// CHECK: kernel.launch @f(%[[A]]) outs(%[[B:[0-9]+]])
// CHECK: kernel.launch @t(%[[A]]) outs(%[[C:[0-9]+]])
// CHECK: kernel.launch @t(%[[C]]) outs(%[[C]])
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @in_place target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %c = kernel.slot : !v
    %d = kernel.slot : !v
    kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 12.0 : f64} : (!v) -> !v
    kernel.launch @f(%a) outs(%b) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !v
    kernel.launch @t(%a) outs(%c) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !v
    kernel.launch @t(%c) outs(%d) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !v
    kernel.launch @g(%b, %d) outs(%y) on @stream {kernel.cost_us = 4.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @t(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([0 -> 0])

// -----

// Two branches write halves of one buffer: they have no element in common.
// CHECK-LABEL: kernel.program @slices
// CHECK: kernel.launch @h(%{{.*}}) outs(%{{.*}}) on @stream {kernel.after = array<i64>, {{.*}}kernel.step = 0 : i64}
// CHECK: kernel.launch @h(%{{.*}}) outs(%{{.*}}) on @stream {kernel.after = array<i64>, {{.*}}kernel.step = 1 : i64}
// CHECK-NOT: kernel.step
// CHECK: kernel.return
!v = !kernel.buffer<1024xf32, space "cuda">
!h = !kernel.buffer<512xf32, space "cuda">
kernel.program @slices target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %l = kernel.view %y offset(0) : !v -> !h
    %r = kernel.view %y offset(512) : !v -> !h
    kernel.launch @h(%x) outs(%l) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !h
    kernel.launch @h(%x) outs(%r) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !h
    kernel.return %y : !v
  }
}
kernel.func @h(!v) outs(!h) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// One element in common, and they stay in order.
// CHECK-LABEL: kernel.program @overlapping
// CHECK-NOT: kernel.step
// CHECK: kernel.return
!v = !kernel.buffer<1024xf32, space "cuda">
!h = !kernel.buffer<512xf32, space "cuda">
kernel.program @overlapping target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %l = kernel.view %y offset(0) : !v -> !h
    %r = kernel.view %y offset(511) : !v -> !h
    kernel.launch @h(%x) outs(%l) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !h
    kernel.launch @h(%x) outs(%r) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !h
    kernel.return %y : !v
  }
}
kernel.func @h(!v) outs(!h) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// A loop with a counter is one statement of its branch: 10 rounds of 2 us each.
// CHECK-LABEL: kernel.program @loops
// CHECK: kernel.for {{.*}} attributes {kernel.after = array<i64>, kernel.step = 0 : i64}
// CHECK: kernel.for {{.*}} attributes {kernel.after = array<i64>, kernel.step = 1 : i64}
// CHECK: kernel.launch @g(%{{.*}}) outs(%{{.*}}) on @stream {kernel.after = array<i64: 0, 1>
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @loops target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %zero = arith.constant 0 : index
    %ten = arith.constant 10 : index
    %one = arith.constant 1 : index
    kernel.for %i = %zero to %ten step %one {
      kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 2.0 : f64} : (!v) -> !v
    }
    kernel.for %i = %zero to %ten step %one {
      kernel.launch @f(%x) outs(%b) on @stream {kernel.cost_us = 2.0 : f64} : (!v) -> !v
    }
    kernel.launch @g(%a, %b) outs(%y) on @stream {kernel.cost_us = 4.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])

// -----

// Two small kernels between the same two, all of which may start early: the two may run at once.
// CHECK-LABEL: kernel.program @siblings
// CHECK: kernel.launch @p(%{{.*}}) outs(%[[A:.*]]) on @stream {kernel.after = array<i64>,
// CHECK: kernel.launch @p(%[[A]]) {{.*}} {kernel.after = array<i64: 0>, kernel.branch = 0 : i64, {{.*}}kernel.step = 1 : i64}
// CHECK-NEXT: kernel.launch @p(%[[A]]) {{.*}} {kernel.after = array<i64: 0>, kernel.branch = 1 : i64, {{.*}}kernel.step = 2 : i64}
// CHECK-NEXT: kernel.launch @q({{.*}} {kernel.after = array<i64: 1, 2>, {{.*}}kernel.step = 3 : i64}
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @siblings target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %c = kernel.slot : !v
    kernel.launch @p(%x) outs(%a) on @stream {kernel.cost_us = 1.0 : f64} : (!v) -> !v
    kernel.launch @p(%a) outs(%b) on @stream {kernel.cost_us = 1.0 : f64} : (!v) -> !v
    kernel.launch @p(%a) outs(%c) on @stream {kernel.cost_us = 1.0 : f64} : (!v) -> !v
    kernel.launch @q(%b, %c) outs(%y) on @stream {kernel.cost_us = 1.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @p(!v) outs(!v) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "at_entry"}
kernel.func @q(!v, !v) outs(!v) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "at_entry"}

// -----

// A program that waits for a number of the device is no graph: refused.
// CHECK-LABEL: kernel.program @waiting
// CHECK-NOT: kernel.step
// CHECK: kernel.return
!v = !kernel.buffer<1024xf32, space "cuda">
kernel.program @waiting target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    kernel.launch @f(%x) outs(%a) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !v
    kernel.launch @f(%x) outs(%b) on @stream {kernel.cost_us = 20.0 : f64} : (!v) -> !v
    %e = kernel.record on @stream
    kernel.wait %e on @team
    kernel.launch @g(%a, %b) outs(%y) on @stream {kernel.cost_us = 4.0 : f64} : (!v, !v) -> !v
    kernel.return %y : !v
  }
}
kernel.func @f(!v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
kernel.func @g(!v, !v) outs(!v) schedule(<"transpose", shape = {}, tune = {}>) ties([])
