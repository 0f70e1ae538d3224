// RUN: straightline-opt %s -split-input-file -verify-diagnostics --verify-planned-level

// Memory of statements that a graph may run at once (kernel.step).

// Two statements that may run at once, in slots that share bytes: their lives in the order of the text do not meet.
!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @at_once target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x) {
    %s = kernel.slot offset(0) : !x
    %t = kernel.slot offset(0) : !x
    // expected-note@+1 {{the other statement}}
    kernel.copy %x to %s on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    kernel.copy %s to %y on @stream : !x to !x
    // expected-error@+1 {{writes what a statement writes that may run at the same time: no chain of steps orders that one before this one (planned_c6)}}
    kernel.copy %x to %t on @stream {kernel.step = 1, kernel.after = array<i64>} : !x to !x
    kernel.copy %t to %z on @stream : !x to !x
    kernel.return %y, %z : !x, !x
  }
}

// -----

// A way of steps leads from the first to the second, over a third.
!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @by_a_way target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x, %u "u": !x) {
    %s = kernel.slot offset(0) : !x
    %t = kernel.slot offset(0) : !x
    kernel.copy %x to %s on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    kernel.copy %s to %y on @stream : !x to !x
    kernel.copy %x to %u on @stream {kernel.step = 1, kernel.after = array<i64: 0>} : !x to !x
    kernel.copy %x to %t on @stream {kernel.step = 2, kernel.after = array<i64: 1>} : !x to !x
    kernel.copy %t to %z on @stream : !x to !x
    kernel.return %y, %z, %u : !x, !x, !x
  }
}

// -----

// A workspace in the place of what another step reads.
!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @workspace target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x) {
    %s = kernel.slot offset(0) : !x
    %w = kernel.slot offset(0) : !x
    // expected-note@+1 {{the other statement}}
    kernel.copy %x to %s on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    kernel.copy %s to %y on @stream : !x to !x
    // expected-error@+1 {{(planned_c6)}}
    kernel.call @d(%x) outs(%z) workspace(%w : !x) on @stream {kernel.step = 1, kernel.after = array<i64>} : (!x) -> !x
    kernel.return %y, %z : !x, !x
  }
}
kernel.decl @d(!x) outs(!x) workspace(!x) problem("p", {}) run("run")
