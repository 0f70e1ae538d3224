// RUN: straightline-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{element type 'index' is neither integer nor float (buffer_c1)}}
kernel.decl @d(!kernel.buffer<[4] x index>) outs() problem("p", {}) run("r")

// -----

// expected-error@+1 {{buffer has 2 extents but 1 strides (buffer_c2)}}
kernel.decl @d(!kernel.buffer<4x4xf32, strides [1]>) outs() problem("p", {}) run("r")

// -----

// expected-error@+1 {{buffer has 2 extents but a border of 1 dims (buffer_c3)}}
kernel.decl @d(!kernel.buffer<4x4xf32, strides [4, 1], border [[1, 1]]>) outs() problem("p", {}) run("r")

// -----

// expected-error@+1 {{border width -1 is below 0 (buffer_c4)}}
kernel.decl @d(!kernel.buffer<4xf32, border [[-1, 1]]>) outs() problem("p", {}) run("r")

// -----

// expected-error@+1 {{extent -4 is below 0 (buffer_c5)}}
kernel.decl @d(!kernel.buffer<[-4] x f32>) outs() problem("p", {}) run("r")

// -----

// expected-error@+1 {{memory space is empty, expected a name such as "host" (buffer_c6)}}
kernel.decl @d(!kernel.buffer<4xf32, space "">) outs() problem("p", {}) run("r")

// -----

// expected-error@+1 {{unknown part 'colour' of a buffer type, expected strides, space or border}}
kernel.decl @d(!kernel.buffer<4xf32, colour "red">) outs() problem("p", {}) run("r")

// -----

// expected-error@+2 {{family is empty, expected the name of a kernel family (schedule_c1)}}
kernel.func @f() outs()
    schedule(<"", shape = {}, tune = {}>) ties([])

// -----

// expected-error@+2 {{value #kernel.extent<b> of "n" is not an i64, bool, f64, string or array (schedule_c2)}}
kernel.func @f() outs()
    schedule(<"pointwise", shape = {}, tune = {n = b}>) ties([])
