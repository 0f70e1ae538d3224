// RUN: straightline-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{input 0 has type 'f32', expected a buffer (func_c1)}}
kernel.func @f(f32) outs() schedule(<"pointwise", shape = {}, tune = {}>) ties([])

// -----

// expected-error@+1 {{has the role "maybe", expected "write" or "readwrite" (func_c2)}}
"kernel.func"() <{sym_name = "f", inputs = [], outputs = [!kernel.buffer<8xf32>], output_roles = ["maybe"],
    workspace = [], schedule = #kernel.schedule<"pointwise", shape = {}, tune = {}>, ties = array<i64>, region_names = []}> : () -> ()

// -----

// expected-error@+1 {{ties input 1 to output 0 but has 1 inputs and 1 outputs (func_c3)}}
kernel.func @f(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>) schedule(<"pointwise", shape = {}, tune = {}>) ties([1 -> 0])

// -----

// expected-error@+1 {{expected equal element sizes and spaces (func_c4)}}
kernel.func @f(!kernel.buffer<8xf64>) outs(!kernel.buffer<8xf32>) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0])

// -----

// expected-error@+1 {{has two regions named "body" (func_c5)}}
kernel.func @f() outs() schedule(<"pointwise", shape = {}, tune = {}>) ties([])
    lambda body() {
  kernel.yield
}
    lambda body() {
  kernel.yield
}

// -----

// expected-error@+1 {{has a region argument of type 'tensor<4xf32>', expected a scalar (func_c6)}}
kernel.func @f() outs() schedule(<"pointwise", shape = {}, tune = {}>) ties([]) lambda body(%a: tensor<4xf32>) {
  kernel.yield
}

// -----

kernel.func @f() outs() schedule(<"pointwise", shape = {}, tune = {}>) ties([]) lambda body(%a: f32) {
  // expected-error@+1 {{block with no terminator}}
  %0 = arith.addf %a, %a : f32
}

// -----

kernel.func @f() outs() schedule(<"pointwise", shape = {}, tune = {}>) ties([]) lambda body(%a: f32) {
  // expected-error@+1 {{may not stand in a region of a kernel.func, expected arith, math and op.scalar_special on scalars (func_c8)}}
  %0 = kernel.size(4)
  kernel.yield
}

// -----

// expected-error@+1 {{workspace 0 has type 'f32', expected a buffer (decl_c1)}}
kernel.decl @d() outs() workspace(f32) problem("p", {}) run("r")

// -----

// expected-error@+1 {{has the role "maybe", expected "write" or "readwrite" (decl_c2)}}
"kernel.decl"() <{sym_name = "d", inputs = [], constants = array<i1>, outputs = [!kernel.buffer<8xf32>], output_roles = ["maybe"],
    workspace = [], op = "p", problem = {}, run = "r"}> : () -> ()

// -----

// expected-error@+1 {{has 0 inputs but says of 1 whether they are constant (decl_c3)}}
"kernel.decl"() <{sym_name = "d", inputs = [], constants = array<i1: true>, outputs = [], output_roles = [],
    workspace = [], op = "p", problem = {}, run = "r"}> : () -> ()

// -----

// expected-error@+1 {{has 2 workspace buffers, expected at most 1 (decl_c4)}}
kernel.decl @d() outs() workspace(!kernel.buffer<8xf32>, !kernel.buffer<8xf32>) problem("p", {}) run("r")

// -----

// expected-error@+1 {{has destroy "d" but no plan (decl_c5)}}
kernel.decl @d() outs() problem("p", {}) run("r") destroy("d")

// -----

// expected-error@+1 {{has the problem attribute "m" = unit, expected an integer, a float or a string, or #kernel.extent as sizes (decl_c6)}}
kernel.decl @d() outs() problem("p", {m = unit}) run("r")
