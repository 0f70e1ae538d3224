// RUN: straightline-opt %s --plan-memory --verify-planned-level | FileCheck %s

// Sizes of n times something large are placed by that factor, as numbers are: the largest first, and where two others have ended
// one that is as large as both. What is a small multiple of n, or of another number, has a place of its own behind them.
!x = !kernel.buffer<[n, 512] x f32>
!y = !kernel.buffer<[n, 1024] x f32>
!z = !kernel.buffer<[n, 1, 300] x f32>
!few = !kernel.buffer<[n, 3] x f32>
!m = !kernel.buffer<[m, 512] x f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.extent @n min(0) max(9223372036854775807)
    kernel.extent @m min(0) max(9223372036854775807)
    kernel.run (%x "x": !x, %y "y": !y, %z "z": !z, %few "few": !few, %m "m": !m) outs(%ox "ox": !x, %oy "oy": !y, %oz "oz": !z, %ofew "ofew": !few, %om "om": !m) {
      // CHECK: %[[A:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[B:.*]] = kernel.slot offset(n * 2048)
      // CHECK-NEXT: %[[C:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[D:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[M:.*]] = kernel.slot offset(n * 4096)
      // CHECK-NEXT: %[[F:.*]] = kernel.slot offset(n * 4096 + m * 2048)
      %a = kernel.slot : !x
      %b = kernel.slot : !x
      %c = kernel.slot : !y
      %d = kernel.slot : !z
      %e = kernel.slot : !m
      %f = kernel.slot : !few
      kernel.copy %x to %a on @team : !x to !x
      kernel.copy %a to %b on @team : !x to !x
      kernel.copy %b to %ox on @team : !x to !x
      kernel.copy %y to %c on @team : !y to !y
      kernel.copy %c to %oy on @team : !y to !y
      kernel.copy %z to %d on @team : !z to !z
      kernel.copy %d to %oz on @team : !z to !z
      kernel.copy %m to %e on @team : !m to !m
      kernel.copy %e to %om on @team : !m to !m
      kernel.copy %few to %f on @team : !few to !few
      kernel.copy %f to %ofew on @team : !few to !few
      kernel.return %ox, %oy, %oz, %ofew, %om : !x, !y, !z, !few, !m
    }
  }
}
