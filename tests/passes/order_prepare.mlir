// RUN: straightline-opt %s --order-prepare | FileCheck %s
// RUN: straightline-opt %s --order-prepare -o %t.once && straightline-opt %t.once --order-prepare -o %t.twice && diff %t.once %t.twice

!x = !kernel.buffer<8xf32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w0 = kernel.parameter "w0" : !x
    %w1 = kernel.parameter "w1" : !x
    // CHECK: %[[P0:.*]] = kernel.prepared "p0"
    %p0 = kernel.prepared "p0" : !x
    // CHECK: %[[P1:.*]] = kernel.prepared "p1"
    %p1 = kernel.prepared "p1" : !x
    // CHECK: %[[P2:.*]] = kernel.prepared "p2"
    %p2 = kernel.prepared "p2" : !x
    // CHECK: kernel.prepare
    kernel.prepare {
      // CHECK: %[[A:.*]] = kernel.slot
      // CHECK: %[[B:.*]] = kernel.slot
      // CHECK: %[[C:.*]] = kernel.slot
      %a = kernel.slot : !x
      %b = kernel.slot : !x
      %c = kernel.slot : !x
      // CHECK-NOT: kernel.launch
      // CHECK: kernel.launch @first({{.*}}) outs(%[[A]])
      // CHECK-NEXT: kernel.launch @pack(%[[A]]) outs(%[[P0]])
      // A chain follows its end; what reads the same storage follows too.
      // CHECK-NEXT: kernel.launch @second({{.*}}) outs(%[[B]])
      // CHECK-NEXT: kernel.launch @third(%[[B]]) outs(%[[C]])
      // CHECK-NEXT: kernel.launch @pack(%[[C]]) outs(%[[P1]])
      // Prepared data stays where it is made, and its place is not passed by who reads it.
      // CHECK-NEXT: kernel.launch @pack(%[[B]]) outs(%[[P2]])
      kernel.launch @second(%w1) outs(%b) on @team : (!x) -> !x
      kernel.launch @third(%b) outs(%c) on @team : (!x) -> !x
      kernel.launch @first(%w0) outs(%a) on @team : (!x) -> !x
      kernel.launch @pack(%a) outs(%p0) on @team : (!x) -> !x
      kernel.launch @pack(%c) outs(%p1) on @team : (!x) -> !x
      kernel.launch @pack(%b) outs(%p2) on @team : (!x) -> !x
    }
    // The order of run is the program's.
    // CHECK: kernel.run (%[[X:.*]] "x": {{.*}}) outs(%[[Y:.*]] "y"
    // CHECK: kernel.launch @first(%[[X]]) outs(%[[S:.*]]) on
    // CHECK-NEXT: kernel.launch @second
    // CHECK-NEXT: kernel.launch @third(%[[S]])
    kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x) {
      %s = kernel.slot : !x
      kernel.launch @first(%x) outs(%s) on @team : (!x) -> !x
      kernel.launch @second(%p0) outs(%z) on @team : (!x) -> !x
      kernel.launch @third(%s) outs(%y) on @team : (!x) -> !x
      kernel.return %y, %z : !x, !x
    }
  }
  kernel.func @first(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
  kernel.func @second(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
  kernel.func @third(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
  kernel.func @pack(!x) outs(!x) schedule(<"pack_gemm", shape = {}, tune = {}>) ties([])
}
