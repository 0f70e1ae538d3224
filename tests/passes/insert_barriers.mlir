// RUN: straightline-opt %s --insert-barriers | FileCheck %s
// RUN: straightline-opt %s --insert-barriers -o %t.once && straightline-opt %t.once --insert-barriers -o %t.twice && diff %t.once %t.twice

!x = !kernel.buffer<1024xf32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3", threads = 2>) {
    kernel.queue @team backend("cpu")
    // CHECK: kernel.run (%[[X:.*]] "x": {{.*}}) outs(%[[Y:.*]] "y": {{.*}}, %[[Z:.*]] "z":
    kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x) {
      // CHECK: %[[S:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[T:.*]] = kernel.slot offset(4096)
      // CHECK-NEXT: %[[U:.*]] = kernel.slot offset(64)
      // CHECK-NEXT: kernel.launch @f(%[[X]]) outs(%[[S]])
      // Independent of the one before.
      // CHECK-NEXT: kernel.launch @f(%[[X]]) outs(%[[T]])
      // Reads what the first wrote.
      // CHECK-NEXT: kernel.barrier on @team
      // CHECK-NEXT: kernel.launch @f(%[[S]]) outs(%[[Y]])
      // Only the place in the arena is shared with the reader before.
      // CHECK-NEXT: kernel.barrier on @team
      // CHECK-NEXT: kernel.launch @f(%[[X]]) outs(%[[U]])
      // The barrier before it is of the program itself and is enough.
      // CHECK-NEXT: kernel.barrier on @team
      // CHECK-NEXT: kernel.launch @f(%[[U]]) outs(%[[Z]])
      // CHECK-NEXT: kernel.return
      %s = kernel.slot offset(0) : !x
      %t = kernel.slot offset(4096) : !x
      %u = kernel.slot offset(64) : !x
      kernel.launch @f(%x) outs(%s) on @team : (!x) -> !x
      kernel.launch @f(%x) outs(%t) on @team : (!x) -> !x
      kernel.launch @f(%s) outs(%y) on @team : (!x) -> !x
      kernel.launch @f(%x) outs(%u) on @team : (!x) -> !x
      kernel.barrier on @team
      kernel.launch @f(%u) outs(%z) on @team : (!x) -> !x
      kernel.return %y, %z : !x, !x
    }
  }
  kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
}
