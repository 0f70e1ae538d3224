// RUN: straightline-opt %s --reuse-in-place -o %t && straightline-opt %s | diff - %t

// Nothing changes: an operand that is read again, by a later statement, by the next round of a loop, through a view, or by the
// same statement at another place.
!x = !kernel.buffer<8xf32>
!v = !kernel.buffer<4xf32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x, %w "w": !v) {
      %a = kernel.slot : !x
      %b = kernel.slot : !x
      %c = kernel.slot : !x
      %d = kernel.slot : !x
      %e = kernel.slot : !x
      kernel.copy %x to %a on @team : !x to !x
      kernel.launch @tied(%a) outs(%b) on @team : (!x) -> !x
      kernel.launch @two(%b, %b) outs(%c) on @team : (!x, !x) -> !x
      kernel.launch @two(%a, %c) outs(%y) on @team : (!x, !x) -> !x
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      kernel.for %i = %zero to %one step %one {
        kernel.launch @tied(%c) outs(%d) on @team : (!x) -> !x
        kernel.launch @two(%d, %x) outs(%z) on @team : (!x, !x) -> !x
      }
      %half = kernel.view %d offset(4) : !x -> !v
      kernel.launch @tied(%d) outs(%e) on @team : (!x) -> !x
      kernel.copy %half to %w on @team : !v to !v
      kernel.copy %e to %y on @team : !x to !x
      kernel.return %y, %z, %w : !x, !x, !v
    }
  }
  kernel.func @tied(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
  kernel.func @two(!x, !x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])
}
