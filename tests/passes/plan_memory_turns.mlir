// RUN: straightline-opt %s -split-input-file --plan-memory --verify-planned-level | FileCheck %s

// Images of named lines and columns, each half as wide and high as the one before and of more channels, take turns in two places:
// each is at most a known part of those before it. A place has sixteenths of its first member's size.
!x = !kernel.buffer<[1, 64, h, w] x f32>
!y = !kernel.buffer<[1, 96, (h + -1) floordiv 2 + 1, (w + -1) floordiv 2 + 1] x f32>
!z = !kernel.buffer<[1, 320, (h + -1) floordiv 4 + 1, (w + -1) floordiv 4 + 1] x f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.extent @h min(64) max(9223372036854775807)
    kernel.extent @w min(64) max(9223372036854775807)
    kernel.run (%x "x": !x, %y "y": !y, %z "z": !z) outs(%ox "ox": !x, %oy "oy": !y, %oz "oz": !z) {
      // CHECK: %[[A:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[B:.*]] = kernel.slot offset(h * w * 256)
      // CHECK-NEXT: %[[C:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[D:.*]] = kernel.slot offset(0)
      %a = kernel.slot : !x
      %b = kernel.slot : !x
      %c = kernel.slot : !y
      %d = kernel.slot : !z
      kernel.copy %x to %a on @team : !x to !x
      kernel.copy %a to %b on @team : !x to !x
      kernel.copy %b to %ox on @team : !x to !x
      kernel.copy %y to %c on @team : !y to !y
      kernel.copy %c to %oy on @team : !y to !y
      kernel.copy %z to %d on @team : !z to !z
      kernel.copy %d to %oz on @team : !z to !z
      kernel.return %ox, %oy, %oz : !x, !y, !z
    }
  }
}

// -----

// Halves of 65 lines and columns are 33: an image of four times as many channels is larger by a sixteenth, and so is the place.
!x = !kernel.buffer<[1, 64, h, w] x f32>
!y = !kernel.buffer<[1, 256, (h + -1) floordiv 2 + 1, (w + -1) floordiv 2 + 1] x f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.extent @h min(64) max(9223372036854775807)
    kernel.extent @w min(64) max(9223372036854775807)
    kernel.run (%x "x": !x, %y "y": !y) outs(%ox "ox": !x, %oy "oy": !y) {
      // CHECK: %[[A:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[B:.*]] = kernel.slot offset(0)
      // CHECK-NEXT: %[[C:.*]] = kernel.slot offset((h * w * 272 + 63) floordiv 64 * 64)
      %a = kernel.slot : !x
      %b = kernel.slot : !y
      %c = kernel.slot : !y
      kernel.copy %x to %a on @team : !x to !x
      kernel.copy %a to %ox on @team : !x to !x
      kernel.copy %y to %b on @team : !y to !y
      kernel.copy %b to %c on @team : !y to !y
      kernel.copy %c to %oy on @team : !y to !y
      kernel.return %ox, %oy : !x, !y
    }
  }
}
