// RUN: straightline-opt %s -split-input-file -verify-diagnostics --verify-kernel-level
// A kernel of several parts (kernel.parts) and its parts.

!x = !kernel.buffer<f32, space "cuda">
!v = !kernel.buffer<64xf32, space "cuda">
kernel.program @right target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v, %z "z": !v) {
    kernel.launch @two(%x, %x) outs(%y, %z) on @stream : (!v, !v) -> (!v, !v)
    kernel.return %y, %z : !v, !v
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @two(!x, !x) outs(!x, !x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.early_start = "at_entry", kernel.parts = [@f, @f], kernel.threads = 64}

// -----

!x = !kernel.buffer<f32, space "cuda">
kernel.program @missing target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
// expected-error@+1 {{has a part that is no kernel.func of this module, or that has parts itself (kernel_level_c8)}}
kernel.func @two(!x, !x) outs(!x, !x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.early_start = "at_entry", kernel.parts = [@f, @f], kernel.threads = 64}

// -----

!x = !kernel.buffer<f32, space "cuda">
kernel.program @family target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
// expected-error@+1 {{is of family 'iota', expected that of its first part, 'pointwise' (kernel_level_c8)}}
kernel.func @two(!x, !x) outs(!x, !x) schedule(<"iota", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.early_start = "at_entry", kernel.parts = [@f, @f], kernel.threads = 64}

// -----

!x = !kernel.buffer<f32, space "cuda">
kernel.program @threads target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @g(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 32}
// expected-error@+1 {{has the part @g, expected one of a known number of blocks, without clusters, of as many threads, which waits at its entry (kernel_level_c8)}}
kernel.func @two(!x, !x) outs(!x, !x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.early_start = "at_entry", kernel.parts = [@f, @g], kernel.threads = 64}

// -----

!x = !kernel.buffer<f32, space "cuda">
kernel.program @blocks target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<3>, kernel.early_start = "at_entry", kernel.threads = 64}
// expected-error@+1 {{has 4 blocks and parts of 6, expected as many, and a wait at its entry (kernel_level_c8)}}
kernel.func @two(!x, !x) outs(!x, !x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<4>, kernel.early_start = "at_entry", kernel.parts = [@f, @f], kernel.threads = 64}

// -----

!x = !kernel.buffer<f32, space "cuda">
kernel.program @operands target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.run () outs() { kernel.return }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
// expected-error@+1 {{has other operands than its parts one after the other (kernel_level_c8)}}
kernel.func @two(!x) outs(!x, !x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.early_start = "at_entry", kernel.parts = [@f, @f], kernel.threads = 64}
