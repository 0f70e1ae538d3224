// RUN: straightline-opt %s -split-input-file -verify-diagnostics --verify-kernel-level

// Order of statements that a graph may run at once (kernel.step).

// What may run at once: the second step reads what the first one writes, and does not come behind it.
!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @unordered target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %s = kernel.slot : !x
    // expected-note@+1 {{the other statement}}
    kernel.copy %x to %s on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    // expected-error@+1 {{reads what a statement writes that may run at the same time: no chain of steps orders that one before this one (kernel_level_c7)}}
    kernel.copy %s to %y on @stream {kernel.step = 1, kernel.after = array<i64>} : !x to !x
    kernel.return %y : !x
  }
}

// -----

// The same in a loop, whose statements belong to its step.
!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @unordered_loop target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %s = kernel.slot : !x
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    // expected-note@+1 {{the other statement}}
    kernel.copy %x to %s on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    // expected-error@+1 {{(kernel_level_c7)}}
    kernel.for %i = %0 to %1 step %1 attributes {kernel.step = 1, kernel.after = array<i64>} {
      kernel.copy %s to %y on @stream : !x to !x
    }
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @behind_a_later_one target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error@+1 {{comes after step 1, expected a step below 0 (kernel_level_c7)}}
    kernel.copy %x to %y on @stream {kernel.step = 0, kernel.after = array<i64: 1>} : !x to !x
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @not_counted target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    kernel.copy %x to %y on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    // expected-error@+1 {{begins step 2 after step 0, expected steps numbered in order from 0, the step of the first statement (kernel_level_c7)}}
    kernel.copy %x to %y on @stream {kernel.step = 2, kernel.after = array<i64: 0>} : !x to !x
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @within_a_loop target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    // expected-error@+1 {{holds a statement that begins a step, expected steps in the block of run alone (kernel_level_c7)}}
    kernel.for %i = %0 to %1 step %1 {
      kernel.copy %x to %y on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
    }
    kernel.return %y : !x
  }
}

// -----

!x = !kernel.buffer<16xf32, space "cuda">
kernel.program @in_prepare target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %p = kernel.parameter "p" : !x
  %q = kernel.prepared "q" offset(0) : !x
  kernel.prepare {
    // expected-error@+1 {{begins a step in prepare, expected that in run (kernel_level_c7)}}
    kernel.copy %p to %q on @stream {kernel.step = 0, kernel.after = array<i64>} : !x to !x
  }
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    kernel.copy %x to %y on @stream : !x to !x
    kernel.return %y : !x
  }
}
