// RUN: straightline-opt %s -split-input-file -verify-diagnostics --place-on-device="backend=late space=late" --verify-kernel-level --plan-memory --insert-barriers --verify-planned-level | FileCheck %s
// RUN: not straightline-opt %s -split-input-file --place-on-device 2>&1 | FileCheck %s --check-prefix=NO

// NO: place-on-device needs a backend and its memory space, which has the same name, but has '' and ''

// A parameter that prepare packs is copied to scratch there; one that run reads is prepared data. Inputs come in at the
// start of run, results go out at its end, and the team waits for them.

// CHECK-LABEL: kernel.program @linear
// CHECK: kernel.queue @team backend("cpu")
// CHECK-NEXT: kernel.queue @stream backend("late")
// CHECK: %[[W:.*]] = kernel.parameter "w" : !kernel.buffer<4x8xf32>
// CHECK: %[[B:.*]] = kernel.parameter "b" : !kernel.buffer<4xf32>
// CHECK: %[[PACKED:.*]] = kernel.prepared "w.packed" offset(0) : !kernel.buffer<8x4xf32, space "late">
// CHECK: %[[BIAS:.*]] = kernel.prepared "b.device" offset(128) : !kernel.buffer<4xf32, space "late">
// CHECK: kernel.prepare {
// CHECK-DAG:   %[[SCRATCH:.*]] = kernel.slot offset(0) : !kernel.buffer<4x8xf32, space "late">
// CHECK-DAG:   kernel.copy %[[W]] to %[[SCRATCH]] on @stream
// CHECK-DAG:   kernel.copy %[[B]] to %[[BIAS]] on @stream
// CHECK:   kernel.launch @pack(%[[SCRATCH]]) outs(%[[PACKED]]) on @stream
// CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<[b, 8] x f32>) outs(%[[Y:.*]] "y": !kernel.buffer<[b, 4] x f32>) {
// CHECK:   kernel.copy %[[X]] to %[[FAR_X:.*]] on @stream
// CHECK-NOT: kernel.barrier
// CHECK:   kernel.launch @gemm(%[[FAR_X]], %[[PACKED]], %[[BIAS]]) outs(%[[T:.*]]) on @stream
// CHECK:   %[[FLAT:.*]] = kernel.view %[[T]] offset(0) : !kernel.buffer<[b, 4] x f32, space "late">
// CHECK:   kernel.launch @relu(%[[FLAT]]) outs(%[[FAR_Y:.*]]) on @stream
// CHECK:   kernel.copy %{{.*}} to %[[Y]] on @stream
// CHECK-NEXT: %[[DONE:.*]] = kernel.record on @stream
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

// An input that is updated in place, and a number that the host reads: as on any device.

// CHECK-LABEL: kernel.program @in_place
// CHECK: kernel.run (%[[X:.*]] "x" readwrite: !kernel.buffer<8xf32>, %[[N:.*]] "n": !kernel.buffer<i64>) outs() {
// CHECK:   kernel.copy %[[X]] to %[[FAR:.*]] on @stream
// CHECK:   kernel.copy %[[N]] to %[[FAR_N:.*]] on @stream
// CHECK:   kernel.copy %[[FAR_N]] to %[[READ:.*]] on @stream
// CHECK:   kernel.load %[[READ]]
// CHECK:   kernel.launch @relu(%[[FAR]]) outs(%[[FAR]]) on @stream
// CHECK:   kernel.copy %[[FAR]] to %[[X]] on @stream
!t = !kernel.buffer<8xf32>
!n = !kernel.buffer<i64>
kernel.program @in_place target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x" readwrite: !t, %n "n": !n) outs() {
    %count = kernel.load %n[] : !n -> i64
    kernel.launch @relu(%x) outs(%x) on @team : (!t) -> !t
    kernel.return
  }
}
kernel.func @relu(!t) outs(!t) schedule(<"any", shape = {n = #kernel.extent<8>}, tune = {}>) ties([0 -> 0])
