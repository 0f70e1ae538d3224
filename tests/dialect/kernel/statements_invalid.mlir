// RUN: straightline-opt %s -split-input-file -verify-diagnostics

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has a base in space "host" but a result in "late" (view_c2)}}
    %v = kernel.view %x offset(0) : !kernel.buffer<8xf32> -> !kernel.buffer<8xf32, space "late">
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has a base of 4-byte elements but a result of 8-byte elements (view_c3)}}
    %v = kernel.view %x offset(0) : !kernel.buffer<8xf32> -> !kernel.buffer<4xf64>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @i min(1) max(2)
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %zero = arith.constant 0 : index
    // expected-error@+1 {{binds the index name "i", which is also a named extent (view_c4)}}
    %v = kernel.view %x offset(i) [i = %zero] : !kernel.buffer<8xf32> -> !kernel.buffer<4xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has a cell of type '!kernel.buffer<8xf32>', expected one i64 in host memory (alloc_c1)}}
    %a = kernel.alloc cell(%y : !kernel.buffer<8xf32>) : !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %t = kernel.slot : !kernel.buffer<4xf32>
    // expected-error@+1 {{expected equal element types and counts (copy_c1)}}
    kernel.copy %x to %t on @team : !kernel.buffer<8xf32> to !kernel.buffer<4xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %t = kernel.slot : !kernel.buffer<8xf32, strides [2]>
    // expected-error@+1 {{expected row-major buffers without a border (copy_c2)}}
    kernel.copy %x to %t on @team : !kernel.buffer<8xf32> to !kernel.buffer<8xf32, strides [2]>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %t = kernel.slot : !kernel.buffer<8xf32, space "late">
    // expected-error@+1 {{copies from space "host" to "late" on a cpu queue, expected the queue of a device (copy_c3)}}
    kernel.copy %x to %t on @team : !kernel.buffer<8xf32> to !kernel.buffer<8xf32, space "late">
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{stands on @device with backend "late", expected "cpu": a device's queue is in order (barrier_c1)}}
    kernel.barrier on @device
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has 0 indices but a buffer of rank 1 (load_c1)}}
    %s = kernel.load %x[] : !kernel.buffer<8xf32> -> f32
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %zero = arith.constant 0 : index
    // expected-error@+1 {{gives 'i32' but the buffer holds 'f32' (load_c2)}}
    %s = kernel.load %x[%zero] : !kernel.buffer<8xf32> -> i32
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %t = kernel.slot : !kernel.buffer<8xf32, space "late">
    %zero = arith.constant 0 : index
    // expected-error@+1 {{reads a buffer in space "late", expected "host" (load_c3)}}
    %s = kernel.load %t[%zero] : !kernel.buffer<8xf32, space "late"> -> f32
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    %one = arith.constant 1 : index
    // expected-error@+1 {{has a body with 0 arguments, expected one index (for_c1)}}
    "kernel.for"(%one, %one, %one) ({
    ^entry:
      kernel.barrier on @team
    }) : (index, index, index) -> ()
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has a first region that does not end in kernel.condition (while_c1)}}
    kernel.while {
      kernel.barrier on @team
    } do {
      kernel.barrier on @team
    }
    kernel.return %y : !kernel.buffer<8xf32>
  }
}

// -----

kernel.queue @team backend("cpu") // expected-error {{expects parent op 'kernel.program'}}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  // expected-error@+1 {{has a bound over "b", which is no extent of the program that a caller gives (extent_c2)}}
  kernel.extent @u0 min(0) max(8) bound(b)
  kernel.run () outs() {
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @u0 min(0) max(8) bound(8)
  kernel.prepare {
    %n = arith.constant 3 : i64
    // expected-error@+1 {{stands in kernel.prepare, expected kernel.run, or a branch or a loop there (set_extent_c1)}}
    kernel.set_extent @u0 = %n
  }
  kernel.run () outs() {
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(0) max(8)
  kernel.run () outs() {
    %n = arith.constant 3 : i64
    // expected-error@+1 {{sets @b, which the program does not declare with a bound (set_extent_c2)}}
    kernel.set_extent @b = %n
    kernel.return
  }
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @u0 min(0) max(8) bound(8)
  kernel.run () outs() {
    %n = arith.constant 3 : i64
    // expected-error@+1 {{sets @u0 a second time (set_extent_c3)}}
    kernel.set_extent @u0 = %n
    kernel.set_extent @u0 = %n
    kernel.return
  }
}
