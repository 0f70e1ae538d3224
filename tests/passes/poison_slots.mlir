// RUN: straightline-opt %s --poison-slots --verify-kernel-level | FileCheck %s

// Each slot is filled once, before the first statement that touches it; its border too. The slot that a loop carries is
// filled before the loop, the one that only a branch uses inside the branch, and bool and device memory not at all.
// CHECK-LABEL: kernel.program @forward
kernel.program @forward target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(8)
  // CHECK: kernel.run
  kernel.run (%x "x": !kernel.buffer<[b, 4] x f32>, %go "go": !kernel.buffer<1xi1>)
      outs(%y "y": !kernel.buffer<[b, 4] x f32>) {
    // CHECK: %[[A:.*]] = kernel.slot offset(0)
    // CHECK: %[[B:.*]] = kernel.slot offset(1024)
    %a = kernel.slot offset(0) : !kernel.buffer<[b, 4] x f32, border [[0, 0], [1, 2]]>
    %carried = kernel.slot offset(1024) : !kernel.buffer<[b, 4] x f32>
    // 4 columns and a border of 3; one element of the border stands before element 0.
    // CHECK: %[[V:.*]] = kernel.view %[[A]] offset(-1) : {{.*}} -> !kernel.buffer<[b * 7] x f32>
    // CHECK-NEXT: kernel.launch @poison_1() outs(%[[V]]) on @team {{{.*}}team = 1
    // CHECK-NEXT: kernel.launch @widen
    kernel.launch @widen(%x) outs(%a) on @team
        : (!kernel.buffer<[b, 4] x f32>) -> !kernel.buffer<[b, 4] x f32, border [[0, 0], [1, 2]]>
    %lower = arith.constant 0 : index
    %upper = arith.constant 3 : index
    %step = arith.constant 1 : index
    // CHECK: kernel.view %[[B]] offset(0)
    // CHECK-NEXT: kernel.launch @poison_2()
    // CHECK-NEXT: kernel.for
    kernel.for %i = %lower to %upper step %step {
      // CHECK-NEXT: kernel.launch @copy
      kernel.launch @copy(%x) outs(%carried) on @team
          : (!kernel.buffer<[b, 4] x f32>) -> !kernel.buffer<[b, 4] x f32>
    }
    %zero = arith.constant 0 : index
    %c = kernel.load %go[%zero] : !kernel.buffer<1xi1> -> i1
    // CHECK: kernel.if
    kernel.if %c {
      // CHECK: %[[T:.*]] = kernel.slot offset(2048)
      // CHECK-NEXT: kernel.view %[[T]]
      // CHECK-NEXT: kernel.launch @poison_2()
      // CHECK-NEXT: kernel.launch @copy
      // CHECK-NEXT: kernel.launch @copy
      %t = kernel.slot offset(2048) : !kernel.buffer<[b, 4] x f32>
      kernel.launch @copy(%carried) outs(%t) on @team
          : (!kernel.buffer<[b, 4] x f32>) -> !kernel.buffer<[b, 4] x f32>
      kernel.launch @copy(%t) outs(%y) on @team
          : (!kernel.buffer<[b, 4] x f32>) -> !kernel.buffer<[b, 4] x f32>
    }
    // CHECK-NOT: @poison
    // CHECK: kernel.return
    %flags = kernel.slot offset(4096) : !kernel.buffer<4xi1>
    kernel.launch @flag() outs(%flags) on @team : () -> !kernel.buffer<4xi1>
    kernel.return %y : !kernel.buffer<[b, 4] x f32>
  }
}
kernel.func @widen(!kernel.buffer<[b, 4] x f32>) outs(!kernel.buffer<[b, 4] x f32, border [[0, 0], [1, 2]]>)
    schedule(<"pointwise", shape = {n = b * 4}, tune = {}>) ties([])
kernel.func @copy(!kernel.buffer<[b, 4] x f32>) outs(!kernel.buffer<[b, 4] x f32>)
    schedule(<"pointwise", shape = {n = b * 4}, tune = {}>) ties([])
kernel.func @flag() outs(!kernel.buffer<4xi1>) schedule(<"fill", shape = {extent = [4], stride = [1]}, tune = {rank = 1}>) ties([])
// CHECK: kernel.func @poison_1() outs(!kernel.buffer<f32>)
// CHECK-NEXT: schedule(<"fill", shape = {extent = [b * 7], stride = [1]}, tune = {rank = 1}>) ties([])
// CHECK-NEXT: lambda body() {
// CHECK-NEXT: %[[NAN:.*]] = arith.constant 0x7FC00000 : f32
// CHECK-NEXT: kernel.yield %[[NAN]] : f32
