// RUN: straightline-opt %s --plan-memory --verify-planned-level | FileCheck %s

// A workspace that a kernel writes before the kernels ahead have ended (it waits in its template) has its place to itself; that of a
// kernel that waits at its entry takes the place of what is dead.
!x = !kernel.buffer<16xf32>
!w = !kernel.buffer<64xi8>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.run (%x "x": !x) outs(%y "y": !x) {
      // CHECK: kernel.slot offset([[#AT:]])
      // CHECK-NEXT: kernel.slot offset([[#AT]])
      // CHECK-NEXT: kernel.slot offset([[#64 - AT]])
      %s = kernel.slot : !x
      %late = kernel.slot : !w
      %early = kernel.slot : !w
      kernel.copy %x to %s on @team : !x to !x
      kernel.copy %s to %y on @team : !x to !x
      kernel.launch @at_entry(%x) outs(%y) workspace(%late : !w) on @team : (!x) -> !x
      kernel.launch @in_template(%x) outs(%y) workspace(%early : !w) on @team : (!x) -> !x
      kernel.return %y : !x
    }
  }
  kernel.func @at_entry(!x) outs(!x) workspace(!w) schedule(<"matmul", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "at_entry"}
  kernel.func @in_template(!x) outs(!x) workspace(!w) schedule(<"matmul", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "in_template"}
}
