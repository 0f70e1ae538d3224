// RUN: straightline-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{declares no queue, expected the caller's team first (program_c1)}}
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.run () outs() {
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  // Contract: E11.
  // expected-error@+1 {{is the first queue but its backend is "late", expected "cpu" (program_c1)}}
  kernel.queue @q backend("late")
  kernel.run () outs() {
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{may not stand in the body of a kernel.program (program_c2)}}
  %t = kernel.slot : !kernel.buffer<8xf32>
  kernel.run () outs() {
    kernel.return
  }
}

// -----

// expected-error@+1 {{has 0 kernel.prepare and 0 kernel.run, expected at most one and exactly one (program_c3)}}
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{has min 8 and max 4, expected 0 <= min <= max (extent_c1)}}
  kernel.extent @b min(8) max(4)
  kernel.run () outs() {
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{expected a static row-major host buffer without a border (constant_c1)}}
  %c = kernel.constant dense<0.0> : tensor<8xf32> : !kernel.buffer<8xf32, strides [2]>
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{but a buffer of type '!kernel.buffer<4xf32>' (constant_c2)}}
  %c = kernel.constant dense<0.0> : tensor<8xf32> : !kernel.buffer<4xf32>
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{has 1 arguments but 0 names (run_c1)}}
  "kernel.run"() <{input_names = [], output_names = [], mutated_inputs = array<i1>}> ({
    ^entry(%x: !kernel.buffer<8xf32>):
    "kernel.return"() : () -> ()
  }) : () -> ()
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{has an argument of type 'f32', expected a buffer (run_c2)}}
  kernel.run (%x "x": f32) outs() {
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() {
    // expected-error@+1 {{block with no terminator}}
    kernel.barrier on @team
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %t = kernel.slot : !kernel.buffer<8xf32>
    // expected-error@+1 {{result 0 is neither a fresh output nor rooted at an input, parameter or state (run_c4)}}
    kernel.return %t : !kernel.buffer<8xf32>
  }
}
