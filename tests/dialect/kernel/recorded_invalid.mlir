// RUN: straightline-opt %s --split-input-file --verify-diagnostics
// What passes record, by a name that there is not, on another op, or of another kind than the table of recorded.cpp says.

// expected-error @+1 {{attribute 'kernel.every_branches' of 'builtin.module' is not one that passes record; the nearest is 'kernel.every_branch' (recorded_c1)}}
module attributes {kernel.every_branches} {
}

// -----

// expected-error @+1 {{attribute 'kernel.block' of 'builtin.module' is not one that passes record; the nearest is 'kernel.blocks' (recorded_c1)}}
module attributes {kernel.block = 1 : i64} {
}

// -----

// expected-error @+1 {{attribute 'kernel.size_advice' stands on 'builtin.module', expected on a kernel.program (recorded_c2)}}
module attributes {kernel.size_advice = ["name it", "sizes="]} {
}

// -----

// expected-error @+1 {{attribute 'kernel.size_advice' of 'kernel.program' is ["name it"], expected an array of two strings (recorded_c3)}}
kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) attributes {kernel.size_advice = ["name it"]} {
}

// -----

// expected-error @+1 {{attribute 'kernel.cost_us' stands on 'builtin.module', expected on a statement (recorded_c2)}}
module attributes {kernel.cost_us = 1.0 : f64} {
}

// -----

// expected-error @+1 {{attribute 'kernel.step' stands on 'builtin.module', expected on a statement (recorded_c2)}}
module attributes {kernel.step = 0 : i64} {
}

// -----

// expected-error @+1 {{attribute 'kernel.after' stands on 'builtin.module', expected on a statement (recorded_c2)}}
module attributes {kernel.after = array<i64>} {
}

// -----

// expected-error @+1 {{attribute 'kernel.branch' stands on 'builtin.module', expected on a statement (recorded_c2)}}
module attributes {kernel.branch = 0 : i64} {
}

// -----

// expected-error @+1 {{attribute 'kernel.choice' stands on 'builtin.module', expected on a launch or a call (recorded_c2)}}
module attributes {kernel.choice = "key"} {
}

// -----

// expected-error @+1 {{attribute 'kernel.outside_graph' stands on 'builtin.module', expected on a kernel.decl (recorded_c2)}}
module attributes {kernel.outside_graph} {
}

// -----

// expected-error @+1 {{attribute 'kernel.runs_on' stands on 'builtin.module', expected on a kernel.decl (recorded_c2)}}
module attributes {kernel.runs_on = "cuda"} {
}

// -----

// expected-error @+1 {{attribute 'kernel.threads' stands on 'builtin.module', expected on a kernel.func (recorded_c2)}}
module attributes {kernel.threads = 128 : i64} {
}

// -----

// expected-error @+1 {{attribute 'kernel.every_branch' stands on 'func.func', expected on the module (recorded_c2)}}
func.func private @f() attributes {kernel.every_branch}

// -----

// expected-error @+1 {{attribute 'kernel.every_branch' of 'builtin.module' is true, expected a unit attribute (recorded_c3)}}
module attributes {kernel.every_branch = true} {
}

// -----

// expected-error @+1 {{attribute 'kernel.runs_on' of 'kernel.decl' is 1 : i64, expected a string (recorded_c3)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") attributes {kernel.runs_on = 1 : i64}

// -----

// expected-error @+1 {{attribute 'kernel.outside_graph' of 'kernel.decl' is "yes", expected a unit attribute (recorded_c3)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") attributes {kernel.outside_graph = "yes"}

// -----

// expected-error @+1 {{attribute 'kernel.exclusive_handle' stands on 'kernel.decl', expected on a kernel.decl with a plan (recorded_c2)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") attributes {kernel.exclusive_handle}

// -----

// expected-error @+1 {{attribute 'kernel.threads' stands on 'kernel.decl', expected on a kernel.func (recorded_c2)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") attributes {kernel.threads = 1 : i64}

// -----

// expected-error @+1 {{attribute 'kernel.runs_on' stands on argument #0 of 'func.func', expected on no argument (recorded_c4)}}
func.func private @f(f32 {kernel.runs_on = "cuda"})

// -----

// expected-error @+1 {{attribute 'kernel.runs_on' stands on result #0 of 'func.func', expected on no result (recorded_c4)}}
func.func private @f() -> (f32 {kernel.runs_on = "cuda"})

// -----

!x = !kernel.buffer<4xf32>
kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error @+1 {{attribute 'kernel.cost_us' of 'kernel.call' is 1 : i64, expected an f64 (recorded_c3)}}
    kernel.call @d(%x) outs(%y) on @team {kernel.cost_us = 1 : i64} : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("relu", {}) run("v_run")

// -----

!x = !kernel.buffer<4xf32>
kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error @+1 {{attribute 'kernel.choice' of 'kernel.call' is 1 : i64, expected a string (recorded_c3)}}
    kernel.call @d(%x) outs(%y) on @team {kernel.choice = 1 : i64} : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("relu", {}) run("v_run")

// -----

!x = !kernel.buffer<4xf32>
kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error @+1 {{attribute 'kernel.step' of 'kernel.call' is -1 : i64, expected an i64 of at least 0 (recorded_c3)}}
    kernel.call @d(%x) outs(%y) on @team {kernel.step = -1 : i64} : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("relu", {}) run("v_run")

// -----

!x = !kernel.buffer<4xf32>
kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error @+1 {{attribute 'kernel.after' of 'kernel.call' is [], expected an array<i64> (recorded_c3)}}
    kernel.call @d(%x) outs(%y) on @team {kernel.after = []} : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("relu", {}) run("v_run")

// -----

!x = !kernel.buffer<4xf32>
kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) {
  kernel.queue @team backend("cpu")
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    // expected-error @+1 {{attribute 'kernel.branch' of 'kernel.call' is "a", expected an i64 of at least 0 (recorded_c3)}}
    kernel.call @d(%x) outs(%y) on @team {kernel.branch = "a"} : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.decl @d(!x) outs(!x) problem("relu", {}) run("v_run")

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.blocks' of 'kernel.func' is 4 : i64, expected a #kernel.extent (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.blocks = 4 : i64}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.threads' of 'kernel.func' is 128 : i32, expected an i64 of at least 0 (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.threads = 128 : i32}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.cluster' of 'kernel.func' is "2", expected an i64 of at least 0 (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.cluster = "2"}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.shared' of 'kernel.func' is "64", expected an i64 of at least 0 (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.shared = "64"}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.resident' of 'kernel.func' is -1 : i64, expected an i64 of at least 0 (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.resident = -1 : i64}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.early_start' of 'kernel.func' is "at_exit", expected "at_entry" or "in_template" (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.early_start = "at_exit"}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.parts' of 'kernel.func' is [@k], expected an array of two or more symbols (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    attributes {kernel.parts = [@k]}
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

// -----

// expected-error @+1 {{attribute 'kernel.parts' stands on 'builtin.module', expected on a kernel.func (recorded_c2)}}
module attributes {kernel.parts = [@k, @k]} {
}

// -----

!x = !kernel.buffer<4xf32>
// expected-error @+1 {{attribute 'kernel.rows' of 'kernel.func' is [], expected an array of #kernel.row (recorded_c3)}}
kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = []}

// -----

// expected-error @+1 {{attribute 'kernel.rows' stands on 'builtin.module', expected on a kernel.func (recorded_c2)}}
module attributes {kernel.rows = []} {
}

// -----

// expected-error @+1 {{attribute 'kernel.own_arguments' stands on 'kernel.decl', expected on a kernel.decl without a plan (recorded_c2)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") plan("v_plan") attributes {kernel.own_arguments = ["%0"]}

// -----

// expected-error @+1 {{attribute 'kernel.own_arguments' of 'kernel.decl' is ["x"], expected an array of arguments (recorded_c3)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") attributes {kernel.own_arguments = ["x"]}

// -----

// expected-error @+1 {{attribute 'kernel.own_traits' of 'kernel.decl' is "fast", expected status, stream, device or outside (recorded_c3)}}
kernel.decl @d(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) problem("relu", {}) run("v_run") attributes {kernel.own_traits = "fast"}

// -----

// expected-error @+1 {{attribute 'kernel.own_source' of 'kernel.func' is {}, expected a source with function, threads and arguments (recorded_c3)}}
kernel.func @k(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>) schedule(<"own", shape = {}, tune = {}>) ties([]) attributes {kernel.own_source = {}}
