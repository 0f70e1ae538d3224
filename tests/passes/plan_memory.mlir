// RUN: straightline-opt %s --plan-memory --verify-planned-level | FileCheck %s
// RUN: straightline-opt %s --plan-memory -o %t.once && straightline-opt %t.once --plan-memory -o %t.twice && diff %t.once %t.twice

!x = !kernel.buffer<100xf32>
!large = !kernel.buffer<200xf32>
!b = !kernel.buffer<[b, 16] x f32>
!n = !kernel.buffer<[n, 3] x f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.extent @b min(1) max(4)
    kernel.extent @n min(0) max(9223372036854775807)
    %w = kernel.parameter "w" : !x
    // Prepared data lie one after the other, each at a multiple of 64 bytes.
    // CHECK: kernel.prepared "p" offset(0)
    // CHECK-NEXT: kernel.prepared "q" offset(448)
    %p = kernel.prepared "p" : !x
    %q = kernel.prepared "q" : !x
    kernel.prepare {
      kernel.copy %w to %p on @team : !x to !x
      kernel.copy %w to %q on @team : !x to !x
    }
    kernel.run (%x "x": !x, %i "i": !b, %k "k": !n) outs(%y "y": !x, %j "j": !b, %m "m": !n) {
      // The largest is placed first; what is dead gives its place to %t; %u has no reader and goes, with its views.
      // CHECK: %[[S:.*]] = kernel.slot offset(832)
      // CHECK-NEXT: %[[L:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[T:.*]] = kernel.slot offset(0)
      // A named size counts at its bound.
      // CHECK-NEXT: %[[B:.*]] = kernel.slot offset(448)
      // Without a useful bound (here it is beyond 64 bits) it comes after all others; the second starts where the first ends.
      // CHECK-NEXT: %[[N:.*]] = kernel.slot offset(1280)
      // CHECK-NEXT: %[[O:.*]] = kernel.slot offset({{.*}}n * 12{{.*}})
      // CHECK-NEXT: kernel.launch
      %u = kernel.slot : !x
      %half = kernel.view %u offset(50) : !x -> !kernel.buffer<50xf32>
      %quarter = kernel.view %half offset(25) : !kernel.buffer<50xf32> -> !kernel.buffer<25xf32>
      %s = kernel.slot : !x
      %l = kernel.slot : !large
      %t = kernel.slot : !x
      %c = kernel.slot : !b
      %n1 = kernel.slot : !n
      %n2 = kernel.slot : !n
      kernel.launch @grow(%x) outs(%s, %l) on @team : (!x) -> (!x, !large)
      kernel.launch @shrink(%l) outs(%y) on @team : (!large) -> !x
      kernel.copy %s to %y on @team : !x to !x
      kernel.copy %x to %t on @team : !x to !x
      kernel.copy %i to %c on @team : !b to !b
      kernel.copy %t to %y on @team : !x to !x
      kernel.copy %c to %j on @team : !b to !b
      kernel.copy %k to %n1 on @team : !n to !n
      kernel.copy %n1 to %n2 on @team : !n to !n
      kernel.copy %n2 to %m on @team : !n to !n
      kernel.return %y, %j, %m : !x, !b, !n
    }
  }
  kernel.func @grow(!x) outs(!x, !large) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
  kernel.func @shrink(!large) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
}
