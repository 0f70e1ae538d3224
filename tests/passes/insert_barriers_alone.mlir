// RUN: straightline-opt %s --insert-barriers | FileCheck %s

// Thread 0 alone runs both statements (team = 1): no barrier, though the second reads what the first wrote; but one at the end
// of a loop's body, because the next round's statement of the whole team overwrites what this one's reads.
!x = !kernel.buffer<8xf32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3", threads = 2>) {
    kernel.queue @team backend("cpu")
    kernel.run (%x "x": !x) outs(%y "y": !x) {
      // CHECK: kernel.launch @f(%{{.*}}) outs(%[[S:.*]]) on @team
      // CHECK-NEXT: kernel.launch @f(%[[S]]) outs(%[[T:.*]]) on @team
      // CHECK-NOT: kernel.barrier
      // CHECK: arith.constant 1
      // CHECK: kernel.barrier on @team
      // CHECK-NEXT: kernel.for
      // CHECK-NEXT: kernel.launch @f(%[[T]])
      // CHECK-NEXT: kernel.barrier on @team
      // CHECK-NEXT: {{[}]}}
      // CHECK-NEXT: kernel.return
      %s = kernel.slot offset(0) : !x
      %t = kernel.slot offset(64) : !x
      kernel.launch @f(%x) outs(%s) on @team {team = 1} : (!x) -> !x
      kernel.launch @f(%s) outs(%t) on @team {team = 1} : (!x) -> !x
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      kernel.for %i = %zero to %one step %one {
        kernel.launch @f(%t) outs(%y) on @team : (!x) -> !x
      }
      kernel.return %y : !x
    }
  }
  kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
}
