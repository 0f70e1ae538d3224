// RUN: straightline-opt %s -split-input-file -verify-diagnostics --verify-kernel-level

// A device reads what the team wrote only after a record and a wait.
!host = !kernel.buffer<8xf32>
!dev = !kernel.buffer<8xf32, space "late">
kernel.program @ordered target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.run (%x "x": !host) outs(%y "y": !host) {
    %h = kernel.slot : !host
    %d = kernel.slot : !dev
    kernel.copy %x to %h on @team : !host to !host
    %ready = kernel.record on @team
    kernel.wait %ready on @device
    kernel.copy %h to %d on @device : !host to !dev
    kernel.copy %d to %y on @device : !dev to !host
    kernel.return %y : !host
  }
}

// -----

!host = !kernel.buffer<8xf32>
!dev = !kernel.buffer<8xf32, space "late">
kernel.program @unordered target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.run (%x "x": !host) outs(%y "y": !host) {
    %h = kernel.slot : !host
    %d = kernel.slot : !dev
    // expected-note@+1 {{the other statement}}
    kernel.copy %x to %h on @team : !host to !host
    // Contract: E12.
    // expected-error@+1 {{reads on @device what a statement writes on @team, without a record and a wait between (kernel_level_c6)}}
    kernel.copy %h to %d on @device : !host to !dev
    kernel.return %y : !host
  }
}

// -----

// The second iteration overwrites what the device may still be reading from the first.
!host = !kernel.buffer<8xf32>
!dev = !kernel.buffer<8xf32, space "late">
kernel.program @loop target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.run (%x "x": !host) outs(%y "y": !host) {
    %h = kernel.slot : !host
    %d = kernel.slot : !dev
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    kernel.for %i = %zero to %two step %one {
      // expected-error@+1 {{writes on @team what a statement reads on @device, without a record and a wait between (kernel_level_c6)}}
      kernel.copy %x to %h on @team : !host to !host
      %ready = kernel.record on @team
      kernel.wait %ready on @device
      // expected-note@+1 {{the other statement}}
      kernel.copy %h to %d on @device : !host to !dev
    }
    kernel.return %y : !host
  }
}

// -----

// Only one way through the if waits.
!host = !kernel.buffer<8xf32>
!dev = !kernel.buffer<8xf32, space "late">
!flag = !kernel.buffer<i1>
kernel.program @branch target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.run (%x "x": !host, %go "go": !flag) outs(%y "y": !host) {
    %h = kernel.slot : !host
    %d = kernel.slot : !dev
    // expected-note@+1 {{the other statement}}
    kernel.copy %x to %h on @team : !host to !host
    %ready = kernel.record on @team
    %flag = kernel.load %go[] : !flag -> i1
    kernel.if %flag {
      kernel.wait %ready on @device
    }
    // expected-error@+1 {{reads on @device what a statement writes on @team}}
    kernel.copy %h to %d on @device : !host to !dev
    kernel.return %y : !host
  }
}

// -----

// expected-error@+1 {{has 0 kernel.program, expected 1 (kernel_level_c1)}}
module {
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() {
    kernel.return
  }
}
// expected-error@+1 {{is left at kernel level, expected ops of kernel, arith and math, and op.scalar_special (kernel_level_c2)}}
func.func private @left()

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() {
    // expected-error@+1 {{with the extent "b", which the program does not declare (kernel_level_c3)}}
    %t = kernel.slot : !kernel.buffer<[b] x f32>
    kernel.return
  }
}

// -----

!x = !kernel.buffer<8xf32>
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "fc" destroy("destroy")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error@+1 {{uses the handle "fc", which no plan makes (kernel_level_c4)}}
    kernel.call @d(%x) outs(%y) handle(%h) on @team : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("p", {}) run("run") plan("plan")

// -----

!x = !kernel.buffer<8xf32>
kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "fc" destroy("destroy")
  kernel.prepare {
    kernel.plan @e() outs(%h) on @team
  }
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error@+1 {{is of @d but its handle "fc" was planned for @e (kernel_level_c5)}}
    kernel.call @d(%x) outs(%y) handle(%h) on @team : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("p", {}) run("run") plan("plan")
kernel.decl @e(!x) outs(!x) problem("p", {}) run("run") plan("plan")

// -----

!x = !kernel.buffer<8xf32>
// expected-error@+1 {{has target 'abacus', expected one of cpu, cuda}}
kernel.program @p target(<"abacus", "beads">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    kernel.return %y : !x
  }
}
