// RUN: straightline-opt %s -split-input-file -verify-diagnostics --place-on-device="backend=late space=far" --verify-kernel-level --plan-memory --insert-barriers --verify-planned-level | FileCheck %s

// A parameter that prepare packs is copied to scratch there; one that run reads is prepared data. Inputs come in at the
// start of run, results go out at its end, and the team waits for them.

// CHECK-LABEL: kernel.program @linear
// CHECK: kernel.queue @team backend("cpu")
// CHECK-NEXT: kernel.queue @device backend("late")
// CHECK: %[[W:.*]] = kernel.parameter "w" : !kernel.buffer<4x8xf32>
// CHECK: %[[B:.*]] = kernel.parameter "b" : !kernel.buffer<4xf32>
// CHECK: %[[PACKED:.*]] = kernel.prepared "w.packed" offset(0) : !kernel.buffer<8x4xf32, space "far">
// CHECK: %[[BIAS:.*]] = kernel.prepared "b.device" offset(128) : !kernel.buffer<4xf32, space "far">
// CHECK: kernel.prepare {
// CHECK:   %[[SCRATCH:.*]] = kernel.slot offset(0) : !kernel.buffer<4x8xf32, space "far">
// CHECK:   kernel.copy %[[W]] to %[[SCRATCH]] on @device
// CHECK:   kernel.copy %[[B]] to %[[BIAS]] on @device
// CHECK:   kernel.launch @pack(%[[SCRATCH]]) outs(%[[PACKED]]) on @device
// CHECK:   %[[READY:.*]] = kernel.record on @device
// CHECK:   kernel.wait %[[READY]] on @team
// CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<[b, 8] x f32>) outs(%[[Y:.*]] "y": !kernel.buffer<[b, 4] x f32>) {
// CHECK:   kernel.copy %[[X]] to %[[FAR_X:.*]] on @device
// CHECK-NOT: kernel.barrier
// CHECK:   kernel.launch @gemm(%[[FAR_X]], %[[PACKED]], %[[BIAS]]) outs(%[[T:.*]]) on @device
// CHECK:   %[[FLAT:.*]] = kernel.view %[[T]] offset(0) : !kernel.buffer<[b, 4] x f32, space "far">
// CHECK:   kernel.launch @relu(%[[FLAT]]) outs(%[[FAR_Y:.*]]) on @device
// CHECK:   kernel.copy %{{.*}} to %[[Y]] on @device
// CHECK-NEXT: %[[DONE:.*]] = kernel.record on @device
// CHECK-NEXT: kernel.wait %[[DONE]] on @team
// CHECK-NEXT: kernel.return %[[Y]], %[[X]]
!x = !kernel.buffer<[b, 8] x f32>
!y = !kernel.buffer<[b, 4] x f32>
!flat = !kernel.buffer<[b * 4] x f32>
!w = !kernel.buffer<4x8xf32>
!p = !kernel.buffer<8x4xf32>
!b = !kernel.buffer<4xf32>
kernel.program @linear target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(16)
  %w = kernel.parameter "w" : !w
  %b = kernel.parameter "b" : !b
  %p = kernel.prepared "w.packed" : !p
  kernel.prepare {
    kernel.launch @pack(%w) outs(%p) on @team : (!w) -> !p
  }
  kernel.run (%x "x": !x) outs(%y "y": !y) {
    %t = kernel.slot : !y
    kernel.launch @gemm(%x, %p, %b) outs(%t) on @team : (!x, !p, !b) -> !y
    %flat = kernel.view %t offset(0) : !y -> !flat
    %out = kernel.view %y offset(0) : !y -> !flat
    kernel.launch @relu(%flat) outs(%out) on @team {team = 1 : i64} : (!flat) -> !flat
    kernel.return %y, %x : !y, !x
  }
}
kernel.func @pack(!w) outs(!p) schedule(<"any", shape = {}, tune = {}>) ties([])
kernel.func @gemm(!x, !p, !b) outs(!y) schedule(<"any", shape = {m = #kernel.extent<b>}, tune = {}>) ties([])
kernel.func @relu(!flat) outs(!flat) schedule(<"any", shape = {n = #kernel.extent<b * 4>}, tune = {}>) ties([0 -> 0])

// -----

!t = !kernel.buffer<8xf32>
kernel.program @in_place target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{updates the input "x" in place; that on a device with its own memory}}
  kernel.run (%x "x" readwrite: !t) outs() {
    kernel.return
  }
}

// -----

!t = !kernel.buffer<[8, 4] x f32, strides [1, 8]>
kernel.program @strided target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{has an argument of type '!kernel.buffer<8x4xf32, strides [1, 8]>'; copying other than dense rows to a device}}
  kernel.run (%x "x": !t) outs() {
    kernel.return
  }
}

// -----

!t = !kernel.buffer<i64>
kernel.program @scalar target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !t) outs() {
    // expected-error@+1 {{cannot be placed; this statement on the device 'late'}}
    %n = kernel.load %x[] : !t -> i64
    kernel.return
  }
}
