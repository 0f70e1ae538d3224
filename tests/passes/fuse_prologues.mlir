// RUN: straightline-opt %s --split-input-file --fuse-prologues | FileCheck %s
// RUN: straightline-opt %s --split-input-file --fuse-prologues -o %t.once && straightline-opt %t.once --split-input-file --fuse-prologues -o %t.twice && diff %t.once %t.twice

// Fires: a factor for each output, whatever its place among the operands, and a conversion.
!w = !kernel.buffer<32x8xf32>
!h = !kernel.buffer<32x8xbf16>
!s = !kernel.buffer<32xf64>
!p = !kernel.buffer<2x8x16xf32>
!f = !kernel.buffer<f32>
!b = !kernel.buffer<bf16>
!d = !kernel.buffer<f64>
// CHECK-LABEL: kernel.program @fires
module {
  kernel.program @fires target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    // CHECK: %[[W:.*]] = kernel.parameter "w"
    %w = kernel.parameter "w" : !w
    // CHECK: %[[S:.*]] = kernel.parameter "s"
    %s = kernel.parameter "s" : !s
    // CHECK: %[[H:.*]] = kernel.parameter "h"
    %h = kernel.parameter "h" : !h
    %p0 = kernel.prepared "p0" : !p
    %p1 = kernel.prepared "p1" : !p
    %p2 = kernel.prepared "p2" : !p
    %p3 = kernel.prepared "p3" : !p
    %p4 = kernel.prepared "p4" : !p
    // CHECK: kernel.prepare {
    // CHECK-NOT: kernel.slot
    kernel.prepare {
      %a = kernel.slot : !w
      %b = kernel.slot : !w
      %c = kernel.slot : !w
      // CHECK-NEXT: kernel.launch @pack_mul(%[[W]], %[[S]]) outs({{.*}}) on @team {kernel.cost_us = 2.000000e+00 : f64, op = "to_dtype, mul, pack", team = 1 : i64, why = "once"}
      kernel.launch @scale(%w, %s) outs(%a) on @team {op = "to_dtype, mul"} : (!w, !s) -> !w
      kernel.launch @pack(%a) outs(%p0) on @team {kernel.cost_us = 2.0 : f64, op = "pack", team = 1 : i64, why = "once"} : (!w) -> !p
      // CHECK-NEXT: kernel.launch @pack_mul_0(%[[W]], %[[S]])
      kernel.launch @scale_turned(%s, %w) outs(%b) on @team {op = "mul"} : (!s, !w) -> !w
      kernel.launch @pack(%b) outs(%p1) on @team {op = "pack"} : (!w) -> !p
      // CHECK-NEXT: kernel.launch @pack_to_dtype(%[[H]])
      kernel.launch @widen(%h) outs(%c) on @team {op = "to_dtype"} : (!h) -> !w
      kernel.launch @pack(%c) outs(%p2) on @team {op = "pack"} : (!w) -> !p
      // The same kernel as the first; and one that packs a weight as it is.
      // CHECK-NEXT: kernel.launch @pack_mul(%[[W]], %[[S]])
      // CHECK-NEXT: kernel.launch @pack(%[[W]])
      %d = kernel.slot : !w
      kernel.launch @scale(%w, %s) outs(%d) on @team {op = "mul"} : (!w, !s) -> !w
      kernel.launch @pack(%d) outs(%p3) on @team {op = "pack"} : (!w) -> !p
      kernel.launch @pack(%w) outs(%p4) on @team {op = "pack"} : (!w) -> !p
      // CHECK-NOT: kernel.launch
      // CHECK: kernel.run
    }
    kernel.run () outs(%y "y": !s) {
      kernel.launch @zero() outs(%y) on @team : () -> !s
      kernel.return %y : !s
    }
  }
  // What is not launched any more is gone.
  // CHECK-NOT: @scale
  // CHECK-NOT: @widen
  // CHECK: kernel.func @pack_mul(!kernel.buffer<f32>, !kernel.buffer<f64>) outs(!kernel.buffer<f32>)
  // CHECK-NEXT: schedule(<"pack_gemm", shape = {n = 32, k = 8, strideN = 8, strideK = 1, prologueStride = [1]}, tune = {nr = 16}>) ties([])
  // CHECK-NEXT: lambda prologue(%[[X:.*]]: f32, %[[F:.*]]: f64) {
  // CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[X]]
  // CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[WIDE]], %[[F]]
  // CHECK: lambda prologue(%[[X:.*]]: f32, %[[F:.*]]: f64) {
  // CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[X]]
  // CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[F]], %[[WIDE]]
  // CHECK: kernel.func @pack_to_dtype(!kernel.buffer<bf16>) outs(!kernel.buffer<f32>)
  // CHECK-NEXT: shape = {n = 32, k = 8, strideN = 8, strideK = 1}
  // CHECK: kernel.func @pack(
  kernel.func @zero() outs(!d) schedule(<"fill", shape = {extent = [32]}, tune = {rank = 1}>) ties([])
  kernel.func @scale(!f, !d) outs(!f) schedule(<"pointwise", shape = {extent = [32, 8], stride = [[8, 1], [1, 0], [8, 1]]}, tune = {rank = 2, inputs = 2}>) ties([])
      lambda body(%x: f32, %s: f64) {
    %0 = arith.extf %x : f32 to f64
    %1 = arith.mulf %0, %s : f64
    %2 = arith.truncf %1 : f64 to f32
    kernel.yield %2 : f32
  }
  kernel.func @scale_turned(!d, !f) outs(!f) schedule(<"pointwise", shape = {extent = [32, 8], stride = [[1, 0], [8, 1], [8, 1]]}, tune = {rank = 2, inputs = 2}>) ties([])
      lambda body(%s: f64, %x: f32) {
    %0 = arith.extf %x : f32 to f64
    %1 = arith.mulf %s, %0 : f64
    %2 = arith.truncf %1 : f64 to f32
    kernel.yield %2 : f32
  }
  kernel.func @widen(!b) outs(!f) schedule(<"pointwise", shape = {extent = [256], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
      lambda body(%x: bf16) {
    %0 = arith.extf %x : bf16 to f32
    kernel.yield %0 : f32
  }
  kernel.func @pack(!f) outs(!f) schedule(<"pack_gemm", shape = {n = 32, k = 8, strideN = 8, strideK = 1}, tune = {nr = 16}>) ties([])
}

// -----

// Refused, one reason each.
!w = !kernel.buffer<32x8xf32>
!s = !kernel.buffer<32xf32>
!k = !kernel.buffer<8xf32>
!p = !kernel.buffer<2x8x16xf32>
!f = !kernel.buffer<f32>
// CHECK-LABEL: kernel.program @refused
module {
  kernel.program @refused target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %s = kernel.parameter "s" : !s
    %k = kernel.parameter "k" : !k
    %kept = kernel.prepared "kept" : !w
    %t = kernel.prepared "t" : !s
    %p0 = kernel.prepared "p0" : !p
    %p1 = kernel.prepared "p1" : !p
    // CHECK: kernel.prepare {
    kernel.prepare {
      %twice = kernel.slot : !w
      %inner = kernel.slot : !w
      %turned = kernel.slot : !w
      %many = kernel.slot : !w
      %stale = kernel.slot : !w
      %reduced = kernel.slot : !w
      %quads = kernel.slot : !w
      // Two packings read it.
      // CHECK: kernel.launch @scale(
      // CHECK-NEXT: kernel.launch @pack(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @scale(%w, %s) outs(%twice) on @team : (!w, !s) -> !w
      kernel.launch @pack(%twice) outs(%p0) on @team : (!w) -> !p
      kernel.launch @pack(%twice) outs(%p1) on @team : (!w) -> !p
      // It is kept for run.
      // CHECK-NEXT: kernel.launch @scale(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @scale(%w, %s) outs(%kept) on @team : (!w, !s) -> !w
      kernel.launch @pack(%kept) outs(%p0) on @team : (!w) -> !p
      // A factor for each input.
      // CHECK-NEXT: kernel.launch @scale_inputs(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @scale_inputs(%w, %k) outs(%inner) on @team : (!w, !k) -> !w
      kernel.launch @pack(%inner) outs(%p0) on @team : (!w) -> !p
      // No operand has its elements where the result has them.
      // CHECK-NEXT: kernel.launch @turn(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @turn(%w) outs(%turned) on @team : (!w) -> !w
      kernel.launch @pack(%turned) outs(%p0) on @team : (!w) -> !p
      // Five factors.
      // CHECK-NEXT: kernel.launch @scale_5(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @scale_5(%w, %s, %s, %s, %s, %s) outs(%many) on @team : (!w, !s, !s, !s, !s, !s) -> !w
      kernel.launch @pack(%many) outs(%p0) on @team : (!w) -> !p
      // The factor is another one when the weight is packed.
      // CHECK-NEXT: kernel.launch @scale(
      // CHECK-NEXT: kernel.launch @zero(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @scale(%w, %t) outs(%stale) on @team : (!w, !s) -> !w
      kernel.launch @zero() outs(%t) on @team : () -> !s
      kernel.launch @pack(%stale) outs(%p0) on @team : (!w) -> !p
      // It is no elementwise kernel.
      // CHECK-NEXT: kernel.launch @softmax(
      // CHECK-NEXT: kernel.launch @pack(
      kernel.launch @softmax(%w) outs(%reduced) on @team : (!w) -> !w
      kernel.launch @pack(%reduced) outs(%p0) on @team : (!w) -> !p
      // The kernel takes no prologue.
      // CHECK-NEXT: kernel.launch @scale(
      // CHECK-NEXT: kernel.launch @pack_int8(
      kernel.launch @scale(%w, %s) outs(%quads) on @team : (!w, !s) -> !w
      kernel.launch @pack_int8(%quads) outs(%p0) on @team : (!w) -> !p
    }
    // In run: weights that are computed by each call are small or rare.
    // CHECK: kernel.run
    // CHECK: kernel.launch @scale(
    // CHECK-NEXT: kernel.launch @pack(
    kernel.run (%x "x": !w) outs(%y "y": !p) {
      %r = kernel.slot : !w
      kernel.launch @scale(%x, %s) outs(%r) on @team : (!w, !s) -> !w
      kernel.launch @pack(%r) outs(%y) on @team : (!w) -> !p
      kernel.return %y : !p
    }
  }
  kernel.func @scale(!f, !f) outs(!f) schedule(<"pointwise", shape = {extent = [32, 8], stride = [[8, 1], [1, 0], [8, 1]]}, tune = {rank = 2, inputs = 2}>) ties([])
      lambda body(%x: f32, %s: f32) {
    %0 = arith.mulf %x, %s : f32
    kernel.yield %0 : f32
  }
  kernel.func @scale_inputs(!f, !f) outs(!f) schedule(<"pointwise", shape = {extent = [32, 8], stride = [[8, 1], [0, 1], [8, 1]]}, tune = {rank = 2, inputs = 2}>) ties([])
      lambda body(%x: f32, %s: f32) {
    %0 = arith.mulf %x, %s : f32
    kernel.yield %0 : f32
  }
  kernel.func @turn(!f) outs(!f) schedule(<"pointwise", shape = {extent = [32, 8], stride = [[1, 32], [8, 1]]}, tune = {rank = 2, inputs = 1}>) ties([])
      lambda body(%x: f32) {
    kernel.yield %x : f32
  }
  kernel.func @scale_5(!f, !f, !f, !f, !f, !f) outs(!f) schedule(<"pointwise", shape = {extent = [32, 8], stride = [[8, 1], [1, 0], [1, 0], [1, 0], [1, 0], [1, 0], [8, 1]]}, tune = {rank = 2, inputs = 6}>) ties([])
      lambda body(%x: f32, %a: f32, %b: f32, %c: f32, %d: f32, %e: f32) {
    %0 = arith.mulf %x, %a : f32
    kernel.yield %0 : f32
  }
  kernel.func @zero() outs(!f) schedule(<"fill", shape = {extent = [32]}, tune = {rank = 1}>) ties([])
  kernel.func @softmax(!f) outs(!f) schedule(<"row_reduction", shape = {}, tune = {}>) ties([])
  kernel.func @pack(!f) outs(!f) schedule(<"pack_gemm", shape = {n = 32, k = 8, strideN = 8, strideK = 1}, tune = {nr = 16}>) ties([])
  kernel.func @pack_int8(!f) outs(!f) schedule(<"pack_gemm_int8", shape = {n = 32, k = 8, strideN = 8, strideK = 1}, tune = {nr = 16}>) ties([])
}
