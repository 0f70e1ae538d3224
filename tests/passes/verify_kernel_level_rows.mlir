// RUN: straightline-opt %s -split-input-file -verify-diagnostics --verify-kernel-level
// Rows that kernels of a device find when they run (kernel.rows).

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
!v = !kernel.buffer<2x4xf32, space "cuda">
!i = !kernel.buffer<1xi64, space "cuda">
!c = !kernel.buffer<2x9x4xf32, space "cuda">
kernel.program @right target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %c = kernel.state "c" : !c
  kernel.run (%x "x": !v, %i "i": !i) outs(%y "y": !v) {
    kernel.launch @f(%x, %i) outs(%y, %c) on @stream : (!v, !i) -> (!v, !c)
    kernel.return %y : !v
  }
}
kernel.func @f(!x, !n) outs(!x, !x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64, kernel.rows = [#kernel.row<output = 1, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
!v = !kernel.buffer<2x4xf32, space "cuda">
!i = !kernel.buffer<1xi64, space "cuda">
!c = !kernel.buffer<2x8x4xf32, space "cuda">
kernel.program @other_buffer target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %c = kernel.state "c" : !c
  kernel.run (%x "x": !v, %i "i": !i) outs() {
    // expected-error@+1 {{has the output '!kernel.buffer<2x8x4xf32, space "cuda">', expected a dim of 9 rows, 4 elements apart (kernel_level_c9)}}
    kernel.launch @f(%x, %i) outs(%c) on @stream : (!v, !i) -> !c
    kernel.return
  }
}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32>
!n = !kernel.buffer<i64>
kernel.program @host target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has kernel.rows, expected on a kernel of a device that waits before it begins (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @reads_before_it_waits target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has kernel.rows, expected on a kernel of a device that waits before it begins (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"gemv_group", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "in_template", kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @missing target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has the row of output 1 at input 1, expected below 1 and 2 (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 1, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @twice target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has two rows of output 0 (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>, #kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @not_last target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has the number of a row as input 0, expected behind the 1 that its family takes (kernel_level_c9)}}
kernel.func @f(!n, !x) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 0, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
kernel.program @no_number target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has a number of a row of type f32, expected i32 or i64 (kernel_level_c9)}}
kernel.func @f(!x, !x) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @no_rows target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has one of 0 rows with wrap = 2, expected of one or more, 0 or 1 (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 0, stride = 4, wrap = 2>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @role target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{writes a row of output 0, expected the role "readwrite": its other rows stay (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @tie target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has a tie of output 0, of which it writes a row (kernel_level_c9)}}
kernel.func @f(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([0 -> 0]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 0>]}

// -----

!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @of_parts target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
// expected-error@+1 {{has kernel.rows, expected them on its parts (kernel_level_c8)}}
kernel.func @two(!x, !x) outs(!x, !x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.early_start = "at_entry", kernel.parts = [@f, @f], kernel.threads = 64, kernel.rows = [#kernel.row<output = 1, index = 1, extent = 9, stride = 4, wrap = 0>]}
