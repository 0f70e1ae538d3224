// RUN: straightline-opt %s -split-input-file --group-launches -o %t && straightline-opt %s -split-input-file | diff - %t

// Nothing changes where the second kernel reads what the first writes, writes what it reads, or writes the same.
!v = !kernel.buffer<64xf32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @needs target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %s = kernel.state "s" : !v
  kernel.run (%x "x": !v) outs(%y "y": !v, %z "z": !v) {
    kernel.launch @f(%x) outs(%y) on @stream : (!v) -> !v
    kernel.launch @f(%y) outs(%s) on @stream : (!v) -> !v
    kernel.launch @f(%s) outs(%z) on @stream : (!v) -> !v
    kernel.launch @f(%z) outs(%s) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%s) on @stream : (!v) -> !v
    kernel.return %y, %z : !v, !v
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}

// -----

// Nor does a kernel pass one that it needs, or, where it needs what the run makes, a statement that is no launch.
!v = !kernel.buffer<64xf32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @between target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v, %z "z": !v, %w "w": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    kernel.launch @other(%x) outs(%a) on @stream : (!v) -> !v
    kernel.launch @f(%a) outs(%y) on @stream : (!v) -> !v
    kernel.launch @other(%y) outs(%b) on @stream : (!v) -> !v
    kernel.launch @f(%b) outs(%z) on @stream : (!v) -> !v
    kernel.copy %x to %b on @stream : !v to !v
    kernel.launch @f(%a) outs(%w) on @stream : (!v) -> !v
    kernel.return %y, %z, %w : !v, !v, !v
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @other(!x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}

// -----

// Two branches: the second begins beside the first, and does not wait for 6 us of it.
!v = !kernel.buffer<64xf32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @branches target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v, %z "z": !v) {
    %a = kernel.slot : !v
    kernel.launch @long(%x) outs(%a) on @stream {kernel.cost_us = 6.0 : f64} : (!v) -> !v
    kernel.launch @f(%a) outs(%y) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%z) on @stream : (!v) -> !v
    kernel.return %y, %z : !v, !v
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @long(!x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}

// -----

// Families of which no kernel may be a part; kernels above 4 us, with a measured choice, of clusters, of bounded
// registers, of blocks that are counted in the call, that wait elsewhere or not at all; rows of 64 threads beside rows of 128; more blocks
// together than the device has processors (132).
!v = !kernel.buffer<64xf32, space "cuda">
!d = !kernel.buffer<[b] x f32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @alone target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.extent @b min(1) max(64)
  kernel.run (%x "x": !v, %e "e": !d) outs(%a "a": !v, %b "b": !v, %c "c": !v, %d "d": !v, %f "f": !v, %g "g": !v, %h "h": !v, %i "i": !v, %j "j": !v, %k "k": !v, %l "l": !v, %m "m": !d) {
    kernel.launch @transposes(%x) outs(%a) on @stream : (!v) -> !v
    kernel.launch @rows_64(%x) outs(%b) on @stream : (!v) -> !v
    kernel.launch @rows_128(%x) outs(%c) on @stream : (!v) -> !v
    kernel.launch @transposes(%x) outs(%d) on @stream : (!v) -> !v
    kernel.launch @transposes(%x) outs(%f) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%g) on @stream {kernel.cost_us = 5.0 : f64} : (!v) -> !v
    kernel.launch @f(%x) outs(%h) on @stream {kernel.choice = "key"} : (!v) -> !v
    kernel.launch @cluster(%x) outs(%i) on @stream : (!v) -> !v
    kernel.launch @resident(%x) outs(%j) on @stream : (!v) -> !v
    kernel.launch @many(%x) outs(%k) on @stream : (!v) -> !v
    kernel.launch @waits_not(%x) outs(%l) on @stream : (!v) -> !v
    kernel.launch @named(%e) outs(%m) on @stream : (!d) -> !d
    kernel.return %a, %b, %c, %d, %f, %g, %h, %i, %j, %k, %l, %m : !v, !v, !v, !v, !v, !v, !v, !v, !v, !v, !v, !d
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @rows_64(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 64}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @rows_128(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 128}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 128}
kernel.func @transposes(!x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @cluster(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 64}>) ties([]) attributes {kernel.blocks = #kernel.extent<2>, kernel.cluster = 2, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @resident(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.resident = 2, kernel.threads = 64}
kernel.func @many(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<300>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @waits_not(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.threads = 64}
kernel.func @named(!x) outs(!x) schedule(<"pointwise", shape = {n = b}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<b>, kernel.early_start = "at_entry", kernel.threads = 64}

// -----

// A kernel made for blocks of 128 threads counts on more registers than threads of a block of 1,024 have.
!v = !kernel.buffer<64xf32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @registers target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%x "x": !v) outs(%y "y": !v, %z "z": !v) {
    kernel.launch @long(%x) outs(%y) on @stream : (!v) -> !v
    kernel.launch @short(%x) outs(%z) on @stream : (!v) -> !v
    kernel.return %y, %z : !v, !v
  }
}
kernel.func @long(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 1024}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 1024}
kernel.func @short(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 16}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 128}
