// RUN: straightline-opt %s --split-input-file --verify-diagnostics --fuse-pointwise --lower-to-kernel | FileCheck %s
// Machine code of a user: a launch whose addresses are aligned, and whose architecture is the target's.

// A part of the program's own memory that begins elsewhere is copied; what a caller gives is not.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @parts
  // CHECK: kernel.run (%[[X:[^ ]*]] "x": !kernel.buffer<8xf32>)
  // CHECK: %[[PART:.*]] = kernel.view {{.*}} offset(1)
  // CHECK-NEXT: kernel.launch @{{.*}}(%[[PART]]) outs(%[[COPY:.*]]) on {{.*}}why = "the kernel's machine code takes it to begin at an aligned address"
  // CHECK-NEXT: kernel.launch @own_scale(%[[X]], %[[COPY]]) outs(%{{.*}}) on {{.*}}why = "own: a kernel of the user's; by hand"
  // CHECK: kernel.func @own_scale
  // CHECK-NEXT: schedule(<"own", shape = {blocks = 4, sizes = [], more_blocks = [2, 1]}, tune = {}>)
  // CHECK-SAME: kernel.own_source = {alignments = array<i64: 16, 16, 1, 16>, arguments = ["%0", "%1", "i:5", "@0"], function = "scale", image = "AAAA", shared_bytes = 64 : i64, source = "a cubin", threads = 128 : i64, waits}
  func.func @parts(%x: tensor<8xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    %h = op.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    %p = op.slice %h {dim = 0 : i64, start = 1 : i64, end = 5 : i64, step = 1 : i64} : (tensor<8xf32>) -> tensor<4xf32>
    %y = op.own_kernel "v::scale"(%x, %p) {symbol = "scale", arguments = ["%0", "%1", "i:5", "@0"], updates = 0 : i64, source = "a cubin", blocks = "i:4", threads = 128 : i64, image = "AAAA", machine = "sm_90a", alignments = array<i64: 16, 16, 1, 16>, more_blocks = ["i:2", "i:1"], shared_bytes = 64 : i64, waits = true, note = "by hand"} : (tensor<8xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @another(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    // expected-error @+1 {{v::scale is machine code for sm_80 but the program is for sm_90; the nearest supported form is a cubin for sm_90, or the kernel's source}}
    %y = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:4", threads = 128 : i64, image = "AAAA", machine = "sm_80", alignments = array<i64: 1, 1>, more_blocks = ["i:1", "i:1"]} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
