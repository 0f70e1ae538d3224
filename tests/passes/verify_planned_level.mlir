// RUN: straightline-opt %s -split-input-file -verify-diagnostics --verify-planned-level

// A slot may take the place of one that is dead; symbolic places are compared for every value of the extent.
!x = !kernel.buffer<[b, 16] x f32>
kernel.program @reused target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(64)
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %s = kernel.slot offset(0) : !x
    %t = kernel.slot offset(b * 64) : !x
    %u = kernel.slot offset(0) : !x
    kernel.copy %x to %s on @team : !x to !x
    kernel.copy %s to %t on @team : !x to !x
    kernel.copy %t to %u on @team : !x to !x
    kernel.copy %u to %y on @team : !x to !x
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<[b, 16] x f32>
kernel.program @overlapping target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(64)
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-note@+1 {{the other slot}}
    %s = kernel.slot offset(0) : !x
    // 63 rows of place: wrong only for b = 64.
    // expected-error@+1 {{at #kernel.extent<4032> overlaps a slot at #kernel.extent<0> that is live at the same time (planned_c3)}}
    %t = kernel.slot offset(4032) : !x
    kernel.copy %x to %s on @team : !x to !x
    kernel.copy %s to %t on @team : !x to !x
    kernel.copy %t to %y on @team : !x to !x
    kernel.return %y : !x
  }
}

// -----

// At the highest values of three extents addresses exceed 64 bits: no overlap.
!x = !kernel.buffer<[b, c, d, 16] x f32>
kernel.program @huge target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(2147483647)
  kernel.extent @c min(1) max(2147483647)
  kernel.extent @d min(1) max(2147483647)
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %s = kernel.slot offset(0) : !x
    %t = kernel.slot offset(b * c * d * 64) : !x
    kernel.copy %x to %s on @team : !x to !x
    kernel.copy %s to %t on @team : !x to !x
    kernel.copy %t to %y on @team : !x to !x
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<[b, c, d, 16] x f32>
kernel.program @huge_and_overlapping target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(2147483647)
  kernel.extent @c min(1) max(2147483647)
  kernel.extent @d min(1) max(2147483647)
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-note@+1 {{the other slot}}
    %s = kernel.slot offset(0) : !x
    // expected-error@+1 {{(planned_c3)}}
    %t = kernel.slot offset(b * c * 64) : !x
    kernel.copy %x to %s on @team : !x to !x
    kernel.copy %s to %t on @team : !x to !x
    kernel.copy %t to %y on @team : !x to !x
    kernel.return %y : !x
  }
}

// -----

// The border of the second slot reaches into the first.
!x = !kernel.buffer<16xf32>
!b = !kernel.buffer<16xf32, border [[16, 0]]>
kernel.program @border target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-note@+1 {{the other slot}}
    %t = kernel.slot offset(0) : !b
    // expected-error@+1 {{(planned_c3)}}
    %s = kernel.slot offset(64) : !x
    kernel.launch @f(%x) outs(%t) on @team : (!x) -> !b
    kernel.copy %x to %s on @team : !x to !x
    kernel.launch @g(%t) outs(%y) on @team : (!b) -> !x
    kernel.copy %s to %y on @team : !x to !x
    kernel.return %y : !x
  }
}
kernel.func @f(!x) outs(!b) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
kernel.func @g(!b) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])

// -----

// The border of a slot without elements reaches into the other.
!x = !kernel.buffer<16xf32>
!b = !kernel.buffer<0xf32, border [[16, 16]]>
kernel.program @empty target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-note@+1 {{the other slot}}
    %t = kernel.slot offset(0) : !b
    // expected-error@+1 {{(planned_c3)}}
    %s = kernel.slot offset(64) : !x
    kernel.launch @f(%x) outs(%t) on @team : (!x) -> !b
    kernel.copy %x to %s on @team : !x to !x
    kernel.launch @g(%t) outs(%y) on @team : (!b) -> !x
    kernel.copy %s to %y on @team : !x to !x
    kernel.return %y : !x
  }
}
kernel.func @f(!x) outs(!b) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
kernel.func @g(!b) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])

// -----

// What a loop reads from outside is live through all of it, also after its last use in the text.
!x = !kernel.buffer<16xf32>
kernel.program @loop target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-note@+1 {{the other slot}}
    %s = kernel.slot offset(0) : !x
    // expected-error@+1 {{(planned_c3)}}
    %t = kernel.slot offset(0) : !x
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    kernel.copy %x to %s on @team : !x to !x
    kernel.for %i = %zero to %two step %one {
      kernel.copy %s to %y on @team : !x to !x
      kernel.copy %x to %t on @team : !x to !x
      kernel.copy %t to %y on @team : !x to !x
    }
    kernel.return %y : !x
  }
}

// -----

// Dead in the order of the text, but the device may still be reading.
!x = !kernel.buffer<16xf32>
!d = !kernel.buffer<16xf32, space "late">
kernel.program @late target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %s = kernel.slot offset(0) : !x
    %t = kernel.slot offset(0) : !x
    %d = kernel.slot offset(0) : !d
    kernel.copy %x to %s on @team : !x to !x
    %ready = kernel.record on @team
    kernel.wait %ready on @device
    // expected-note@+1 {{the other statement}}
    kernel.copy %s to %d on @device : !x to !d
    // expected-error@+1 {{writes on @team what a statement reads on @device, without a record and a wait between (planned_c4)}}
    kernel.copy %x to %t on @team : !x to !x
    kernel.copy %t to %y on @team : !x to !x
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<16xf32>
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs() {
    // expected-error@+1 {{has no offset (planned_c1)}}
    %s = kernel.slot : !x
    kernel.return
  }
}

// -----

!x = !kernel.buffer<16xf32>
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs() {
    // expected-error@+1 {{has offset #kernel.extent<32>, expected a multiple of 64 (planned_c2)}}
    %s = kernel.slot offset(32) : !x
    kernel.return
  }
}

// -----

!x = !kernel.buffer<16xf32>
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %a = kernel.prepared "a" offset(0) : !x
  // expected-error@+1 {{at #kernel.extent<0> overlaps the prepared buffer "a" at #kernel.extent<0> (planned_c5)}}
  %b = kernel.prepared "b" offset(0) : !x
  kernel.run () outs() {
    kernel.return
  }
}

// -----

// A kernel that waits in its template writes its workspace early: no other slot has that place, not even a dead one.
!x = !kernel.buffer<16xf32>
!w = !kernel.buffer<64xi8>
module {
  kernel.program @early target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    kernel.run (%x "x": !x) outs(%y "y": !x) {
      // expected-note@+1 {{the other slot}}
      %s = kernel.slot offset(0) : !x
      // expected-error@+1 {{at #kernel.extent<0> overlaps a slot at #kernel.extent<0> that is live at the same time (planned_c3)}}
      %w = kernel.slot offset(0) : !w
      kernel.copy %x to %s on @team : !x to !x
      kernel.copy %s to %y on @team : !x to !x
      kernel.launch @early_product(%x) outs(%y) workspace(%w : !w) on @team : (!x) -> !x
      kernel.return %y : !x
    }
  }
  kernel.func @early_product(!x) outs(!x) workspace(!w) schedule(<"matmul", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "in_template"}
}
