// RUN: straightline-opt %s -split-input-file -verify-diagnostics --place-on-cuda --verify-kernel-level --plan-memory --insert-barriers --verify-planned-level | FileCheck %s

// Numbers that a function gives and another one takes stay on the host; what else they have is on the device.

!x = !kernel.buffer<8xf32>
!n = !kernel.buffer<3xi64>
// CHECK-LABEL: kernel.program @numbers
// CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<8xf32, space "cuda">)
// CHECK-NEXT: %[[N:.*]] = kernel.slot offset(0) : !kernel.buffer<3xi64>
// CHECK-NEXT: kernel.call @plan(%[[X]]) outs(%[[N]]) on @stream
// CHECK-NEXT: kernel.call @run(%[[N]], %[[X]]) outs(%{{.*}}) on @stream
// CHECK: kernel.decl @plan(!kernel.buffer<8xf32, space "cuda">) outs(!kernel.buffer<3xi64>)
// CHECK: kernel.decl @run(!kernel.buffer<3xi64>, !kernel.buffer<8xf32, space "cuda">) outs(!kernel.buffer<8xf32, space "cuda">)
kernel.program @numbers target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %n = kernel.slot : !n
    kernel.call @plan(%x) outs(%n) on @team {op = "v.plan", team = 1 : i64} : (!x) -> !n
    kernel.call @run(%n, %x) outs(%y) on @team {op = "v.run", team = 1 : i64} : (!n, !x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @plan(!x) outs(!n) problem("v::plan", {})
    run("sl_own_0_plan") can_fail attributes {kernel.outside_graph, kernel.own_arguments = ["%0", "h:@0"], kernel.own_traits = "status stream device outside", kernel.runs_on = "cuda"}
kernel.decl @run(!n, !x) outs(!x) problem("v::run", {})
    run("sl_own_0_run") can_fail attributes {kernel.outside_graph, kernel.own_arguments = ["h:%0", "%1", "@0"], kernel.own_traits = "status stream device outside", kernel.runs_on = "cuda"}

// -----

// A kernel of the device cannot read them.

!n = !kernel.buffer<3xi64>
kernel.program @read target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !n) outs(%y "y": !n) {
    %n = kernel.slot : !n
    // expected-error @below {{v.plan has numbers on the host but negative has them on cuda; the nearest supported form is a result of a function that gives numbers, which only functions that take numbers read}}
    kernel.call @plan(%x) outs(%n) on @team {op = "v.plan", team = 1 : i64} : (!n) -> !n
    kernel.launch @negative(%n) outs(%y) on @team {op = "negative"} : (!n) -> !n
    kernel.return %y : !n
  }
}
kernel.decl @plan(!n) outs(!n) problem("v::plan", {})
    run("sl_own_0_plan") attributes {kernel.own_arguments = ["%0", "h:@0"], kernel.own_traits = "stream", kernel.runs_on = "cuda"}
kernel.func @negative(!n) outs(!n)
    schedule(<"pointwise", shape = {extent = [3], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    lambda body(%a: i64) {
  kernel.yield %a : i64
}

// -----

!n = !kernel.buffer<3xi64>
kernel.program @output target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !n) outs(%y "y": !n) {
    // expected-error @below {{v.plan has numbers on the host but they are an input, a parameter or an output of the program on cuda}}
    kernel.call @plan(%x) outs(%y) on @team {op = "v.plan", team = 1 : i64} : (!n) -> !n
    kernel.return %y : !n
  }
}
kernel.decl @plan(!n) outs(!n) problem("v::plan", {})
    run("sl_own_0_plan") attributes {kernel.own_arguments = ["%0", "h:@0"], kernel.own_traits = "stream", kernel.runs_on = "cuda"}

// -----

!n = !kernel.buffer<3xi64>
kernel.program @nobodys target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs(%y "y": !n) {
    %n = kernel.slot : !n
    // expected-error @below {{v.run has numbers that no function gives}}
    kernel.call @run(%n) outs(%y) on @team {op = "v.run", team = 1 : i64} : (!n) -> !n
    kernel.return %y : !n
  }
}
kernel.decl @run(!n) outs(!n) problem("v::run", {})
    run("sl_own_0_run") attributes {kernel.own_arguments = ["h:%0", "@0"], kernel.own_traits = "stream", kernel.runs_on = "cuda"}
