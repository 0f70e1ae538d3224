// RUN: straightline-opt %s -split-input-file -verify-diagnostics --place-on-cuda --verify-kernel-level --plan-memory --insert-barriers --verify-planned-level | FileCheck %s

// Everything is in space "cuda" already: nothing is copied but the literal, once, and nothing waits. Each kernel has a grid
// and the tunables of its CUDA form.

// CHECK-LABEL: kernel.program @rows
// CHECK: kernel.queue @team backend("cpu")
// CHECK-NEXT: kernel.queue @stream backend("cuda")
// CHECK: %[[W:.*]] = kernel.parameter "w" : !kernel.buffer<1024xf32, space "cuda">
// CHECK: %[[HOST:.*]] = kernel.constant
// CHECK: %[[TABLE:.*]] = kernel.prepared "constant0.device" offset(0) : !kernel.buffer<1024xf32, space "cuda">
// CHECK: kernel.prepare {
// CHECK-NEXT: kernel.copy %[[HOST]] to %[[TABLE]] on @stream
// CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<[b, 1024] x f32, space "cuda">) outs(%[[Y:.*]] "y": !kernel.buffer<[b, 1024] x f32, space "cuda">) {
// CHECK-NEXT: %[[T:.*]] = kernel.slot offset(0) : !kernel.buffer<[b, 1024] x f32, space "cuda">
// CHECK-NEXT: kernel.launch @scale(%[[X]], %[[W]], %[[TABLE]]) outs(%[[T]]) on @stream
// CHECK-NEXT: kernel.launch @mean(%[[T]]) outs(%[[Y]]) on @stream
// CHECK-NEXT: kernel.return
// CHECK: kernel.func @scale
// CHECK: tune = {rank = 2, inputs = 3, vector = 4}
// CHECK-SAME: kernel.blocks = #kernel.extent<b>, kernel.early_start = "at_entry", kernel.threads = 256
// CHECK: kernel.func @mean
// CHECK: tune = {{.*}}threads = 32, vector = 4, each = 8}
// CHECK-SAME: kernel.blocks = #kernel.extent<(b + 3) floordiv 4>, kernel.early_start = "at_entry", kernel.threads = 128
!x = !kernel.buffer<[b, 1024] x f32>
!w = !kernel.buffer<1024xf32>
kernel.program @rows target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(1000000)
  %w = kernel.parameter "w" : !w
  %table = kernel.constant dense<2.0> : tensor<1024xf32> : !w
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %t = kernel.slot : !x
    kernel.launch @scale(%x, %w, %table) outs(%t) on @team {team = 1 : i64} : (!x, !w, !w) -> !x
    kernel.launch @mean(%t) outs(%y) on @team : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.func @scale(!x, !w, !w) outs(!x)
    schedule(<"pointwise", shape = {extent = [b, 1024], stride = [[1024, 1], [0, 1], [0, 1], [1024, 1]]}, tune = {rank = 2, inputs = 3}>) ties([])
    lambda body(%a: f32, %b: f32, %c: f32) {
  %0 = arith.mulf %a, %b : f32
  %1 = arith.addf %0, %c : f32
  kernel.yield %1 : f32
}
kernel.func @mean(!x) outs(!x)
    schedule(<"row_reduction", shape = {outer = [b], inner = [1024], stride = [[[1024], [1]], [[1024], [1]]]},
              tune = {outerRank = 1, innerRank = 1, inputs = 1, rowOutputs = 0, elementOutputs = 1, kept = 0, keptStage = 0, stages = 1, combine = ["sum"]}>) ties([])
    lambda stage0(%a: f32) {
  kernel.yield %a : f32
}
    lambda element(%a: f32, %r: f32) {
  %0 = arith.subf %a, %r : f32
  kernel.yield %0 : f32
}

// -----

// Everything that has no CUDA form is told, not the first alone.

!x = !kernel.buffer<8xf32>
kernel.program @two target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %t = kernel.slot : !x
    // expected-error @below {{linear on cuda: kernels of family 'gemm' have no CUDA form}}
    kernel.launch @gemm(%x) outs(%t) on @team {op = "linear"} : (!x) -> !x
    // expected-error @below {{linear on cuda: the gemv kernel lacks the tunable 'lanes' of its CUDA form}}
    kernel.launch @gemv(%x) outs(%t) on @team {op = "linear"} : (!x) -> !x
    // expected-error @below {{matmul on cuda: the matmul kernel lacks the tunable 'rows' of its CUDA form}}
    kernel.launch @matmul(%x) outs(%t) on @team {op = "matmul"} : (!x) -> !x
    // expected-error @below {{attention on cuda: the attention kernel lacks the tunable 'depth' of its CUDA form}}
    kernel.launch @attention(%x) outs(%t) on @team {op = "attention"} : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.func @gemm(!x) outs(!x) schedule(<"gemm", shape = {n = 8}, tune = {}>) ties([])
kernel.func @gemv(!x) outs(!x) schedule(<"gemv", shape = {n = 8}, tune = {rows = 4, mr = 4}>) ties([])
kernel.func @matmul(!x) outs(!x) schedule(<"matmul", shape = {n = 8}, tune = {mr = 6, nr = 16}>) ties([])
kernel.func @attention(!x) outs(!x) schedule(<"attention", shape = {b = 1}, tune = {mr = 6, nr = 16, rows = 48, keys = 64}>) ties([])

// -----

// Nothing fails by the context of the call there, and what the host needs of the device's data it copies and waits for.

!x = !kernel.buffer<8xi64>
!flag = !kernel.buffer<i1>
// CHECK-LABEL: kernel.program @branch
kernel.program @branch target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x, %c "c": !flag) outs(%y "y": !x) {
    // CHECK: %[[HOST:.*]] = kernel.slot
    // CHECK: kernel.copy %{{.*}} to %[[HOST]] on @stream
    // CHECK: %[[DONE:.*]] = kernel.record on @stream
    // CHECK: kernel.wait %[[DONE]] on @team
    // CHECK: kernel.load %[[HOST]][]
    %s = kernel.load %c[] : !flag -> i1
    kernel.if %s {
      // CHECK: kernel.launch @divide({{.*}}) on @stream
      kernel.launch @divide(%x) outs(%y) on @team {op = "floor_divide"} : (!x) -> !x
    }
    kernel.return %y : !x
  }
}
// CHECK: kernel.func @divide
// CHECK-NOT: can_fail
kernel.func @divide(!x) outs(!x)
    schedule(<"pointwise", shape = {extent = [8], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) can_fail
    lambda body(%a: i64) {
  kernel.yield %a : i64
}
