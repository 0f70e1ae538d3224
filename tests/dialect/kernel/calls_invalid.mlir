// RUN: straightline-opt %s -split-input-file -verify-diagnostics

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // Contract: E11.
    // expected-error@+1 {{names the queue @other, which the program @p does not declare (statement_c2)}}
    kernel.launch @f(%x) outs(%y) on @other : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{uses the extent "b", which the program @p does not declare (statement_c3)}}
    %n = kernel.size(b * 2)
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has 2 input operands but @f has 1 (launch_c1)}}
    kernel.launch @f(%x, %x) outs(%y) on @team : (!kernel.buffer<8xf32>, !kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<4xf64>) {
    // Sizes may differ, element types may not.
    // expected-error@+1 {{output 0 has type '!kernel.buffer<4xf64>' but @f has '!kernel.buffer<f32>' (launch_c1)}}
    kernel.launch @f(%x) outs(%y) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<4xf64>
    kernel.return %y : !kernel.buffer<4xf64>
  }
}
kernel.func @f(!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has 2 sizes but @f has 1 run-time scalars (launch_c4)}}
    kernel.launch @f(%x) outs(%y) sizes([8, 8]) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
    schedule(<"pointwise", shape = {n = n0}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has sizes but @f runs on a device, whose grid is counted from named extents (launch_c5)}}
    kernel.launch @f(%x) outs(%y) sizes([8]) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
    schedule(<"pointwise", shape = {n = n0}, tune = {}>) ties([])
    attributes {kernel.blocks = #kernel.extent<1>, kernel.threads = 32 : i64} lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // Without sizes the function's names are those of the program.
    // expected-error@+1 {{uses the extent "n0", which the program @p does not declare (statement_c3)}}
    kernel.launch @f(%x) outs(%y) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
    schedule(<"pointwise", shape = {n = n0}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{names @g, which is no kernel.func of this module (launch_c2)}}
    kernel.launch @g(%x) outs(%y) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has team = 3, expected 1 or none (launch_c3)}}
    kernel.launch @f(%x) outs(%y) on @team {team = 3} : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %w = kernel.parameter "w" : !kernel.buffer<8xf32>
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // Contract: E5, E18.
    // expected-error@+1 {{writes the parameter "w", which is read only (write_c1)}}
    kernel.launch @f(%x) outs(%w) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %w = kernel.constant dense<0.0> : tensor<8xf32> : !kernel.buffer<8xf32>
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // Contract: E18.
    // expected-error@+1 {{writes a kernel.constant, which is read only (write_c2)}}
    kernel.launch @f(%x) outs(%w) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %w = kernel.prepared "w" : !kernel.buffer<8xf32>
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // Contract: E5.
    // expected-error@+1 {{writes the prepared buffer "w" in kernel.run, expected only in kernel.prepare (write_c3)}}
    kernel.launch @f(%x) outs(%w) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %s = kernel.state "s" : !kernel.buffer<8xf32>
  %w = kernel.parameter "w" : !kernel.buffer<8xf32>
  kernel.prepare {
    // expected-error@+1 {{writes the state "s" in kernel.prepare, expected only in kernel.run (write_c4)}}
    kernel.launch @f(%w) outs(%s) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
  }
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // Contract: E18.
    // expected-error@+1 {{writes the input "x", which is not marked readwrite (write_c5)}}
    kernel.launch @f(%y) outs(%x) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "h" destroy("lib_destroy")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{has no handle but @d has plan "plan" (call_c4)}}
    kernel.call @d(%x) outs(%y) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.decl @d(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>) problem("p", {}) run("run") plan("plan")

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "h" destroy("lib_destroy")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{names @f, which is no kernel.decl of this module (call_c2)}}
    kernel.call @f(%x) outs(%y) on @team : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
    schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([]) lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "h" destroy("lib_destroy")
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    // expected-error@+1 {{stands outside of kernel.prepare (plan_c1)}}
    kernel.plan @d() outs(%h) on @team
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.decl @d() outs() problem("p", {}) run("run") plan("plan")

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "h" destroy("lib_destroy")
  kernel.prepare {
    // expected-error@+1 {{names @d, which is no kernel.decl with a plan of this module (plan_c2)}}
    kernel.plan @d() outs(%h) on @team
  }
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.decl @d() outs() problem("p", {}) run("run")

// -----

kernel.program @p target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  %h = kernel.handle "h" destroy("lib_destroy")
  kernel.prepare {
    // expected-error@+1 {{has constants of types () but @d has ('!kernel.buffer<8xf32>') (plan_c3)}}
    kernel.plan @d() outs(%h) on @team
  }
  kernel.run (%x "x": !kernel.buffer<8xf32>) outs(%y "y": !kernel.buffer<8xf32>) {
    kernel.return %y : !kernel.buffer<8xf32>
  }
}
kernel.decl @d(constant !kernel.buffer<8xf32>) outs() problem("p", {}) run("run") plan("plan")
