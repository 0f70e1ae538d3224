// RUN: straightline-opt %s --reuse-in-place | FileCheck %s
// RUN: straightline-opt %s --reuse-in-place -o %t.once && straightline-opt %t.once --reuse-in-place -o %t.twice && diff %t.once %t.twice

!x = !kernel.buffer<8xf32>
!other = !kernel.buffer<8xi32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    // CHECK: kernel.run (%[[X:.*]] "x": {{.*}}) outs(%[[Y:.*]] "y": {{.*}}, %[[Z:.*]] "z":
    kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !other) {
      // CHECK-NEXT: %[[A:.*]] = kernel.slot :
      // CHECK-NEXT: %[[C:.*]] = kernel.slot :
      // CHECK-NEXT: %[[D:.*]] = kernel.slot :
      // CHECK-NOT: kernel.slot
      %a = kernel.slot : !x
      %b = kernel.slot : !x
      %c = kernel.slot : !x
      %d = kernel.slot : !other
      // An input of the program is nobody's to overwrite.
      // CHECK: kernel.launch @tied(%[[X]]) outs(%[[A]])
      kernel.launch @tied(%x) outs(%a) on @team : (!x) -> !x
      // %a dies here: %b takes its place.
      // CHECK-NEXT: kernel.launch @tied(%[[A]]) outs(%[[A]])
      kernel.launch @tied(%a) outs(%b) on @team : (!x) -> !x
      // The kernel does not say that it may.
      // CHECK-NEXT: kernel.launch @untied(%[[A]]) outs(%[[C]])
      kernel.launch @untied(%b) outs(%c) on @team : (!x) -> !x
      // Another type of elements.
      // CHECK-NEXT: kernel.launch @convert(%[[C]]) outs(%[[D]])
      kernel.launch @convert(%c) outs(%d) on @team : (!x) -> !other
      // CHECK-NEXT: kernel.launch @tied(%[[C]]) outs(%[[Y]])
      kernel.launch @tied(%c) outs(%y) on @team : (!x) -> !x
      kernel.copy %d to %z on @team : !other to !other
      kernel.return %y, %z : !x, !other
    }
  }
  kernel.func @tied(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
  kernel.func @untied(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
  kernel.func @convert(!x) outs(!other) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
}
