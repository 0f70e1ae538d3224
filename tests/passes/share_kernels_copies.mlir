// RUN: straightline-opt %s --share-kernels=copies | FileCheck %s
// RUN: straightline-opt %s --share-kernels=copies -o %t.once && straightline-opt %t.once --share-kernels=copies -o %t.twice && diff %t.once %t.twice

// Sixteen copies of run are one. What computes keeps its constants, and kernels of prepare are left alone.
!b = !kernel.buffer<64xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !b
    %p = kernel.prepared "p" : !b
    kernel.prepare {
      // CHECK: kernel.launch @early_4(
      // CHECK-NEXT: kernel.launch @early_5(
      // CHECK-NEXT: kernel.launch @early_6(
      kernel.launch @early_4(%w) outs(%p) on @team : (!b) -> !b
      kernel.launch @early_5(%w) outs(%p) on @team : (!b) -> !b
      kernel.launch @early_6(%w) outs(%p) on @team : (!b) -> !b
    }
    kernel.run (%x "x": !b) outs(%y "y": !b) {
      // CHECK: kernel.launch @copy_sized({{.*}}) outs({{.*}}) sizes([1])
      // CHECK-NEXT: kernel.launch @copy_sized({{.*}}) outs({{.*}}) sizes([2])
      // CHECK-COUNT-14: kernel.launch @copy_sized(
      // CHECK-NEXT: kernel.launch @twice_1(
      // CHECK-COUNT-15: kernel.launch @twice_
      kernel.launch @copy_1(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_2(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_3(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_4(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_5(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_6(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_7(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_8(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_9(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_10(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_11(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_12(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_13(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_14(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_15(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @copy_16(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_1(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_2(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_3(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_4(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_5(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_6(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_7(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_8(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_9(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_10(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_11(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_12(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_13(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_14(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_15(%x) outs(%y) on @team : (!b) -> !b
      kernel.launch @twice_16(%x) outs(%y) on @team : (!b) -> !b
      kernel.return %y : !b
    }
  }
  // CHECK: kernel.func @copy_sized
  // CHECK-NEXT: shape = {extent = [n0], stride = {{\[\[}}1], [1{{\]\]}}}
  // CHECK-NOT: kernel.func @copy_
  kernel.func @copy_1(!f) outs(!f) schedule(<"pointwise", shape = {extent = [1], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_2(!f) outs(!f) schedule(<"pointwise", shape = {extent = [2], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_3(!f) outs(!f) schedule(<"pointwise", shape = {extent = [3], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_4(!f) outs(!f) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_5(!f) outs(!f) schedule(<"pointwise", shape = {extent = [5], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_6(!f) outs(!f) schedule(<"pointwise", shape = {extent = [6], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_7(!f) outs(!f) schedule(<"pointwise", shape = {extent = [7], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_8(!f) outs(!f) schedule(<"pointwise", shape = {extent = [8], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_9(!f) outs(!f) schedule(<"pointwise", shape = {extent = [9], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_10(!f) outs(!f) schedule(<"pointwise", shape = {extent = [10], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_11(!f) outs(!f) schedule(<"pointwise", shape = {extent = [11], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_12(!f) outs(!f) schedule(<"pointwise", shape = {extent = [12], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_13(!f) outs(!f) schedule(<"pointwise", shape = {extent = [13], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_14(!f) outs(!f) schedule(<"pointwise", shape = {extent = [14], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_15(!f) outs(!f) schedule(<"pointwise", shape = {extent = [15], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @copy_16(!f) outs(!f) schedule(<"pointwise", shape = {extent = [16], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @twice_1(!f) outs(!f) schedule(<"pointwise", shape = {extent = [1], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_2(!f) outs(!f) schedule(<"pointwise", shape = {extent = [2], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_3(!f) outs(!f) schedule(<"pointwise", shape = {extent = [3], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_4(!f) outs(!f) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_5(!f) outs(!f) schedule(<"pointwise", shape = {extent = [5], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_6(!f) outs(!f) schedule(<"pointwise", shape = {extent = [6], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_7(!f) outs(!f) schedule(<"pointwise", shape = {extent = [7], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_8(!f) outs(!f) schedule(<"pointwise", shape = {extent = [8], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_9(!f) outs(!f) schedule(<"pointwise", shape = {extent = [9], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_10(!f) outs(!f) schedule(<"pointwise", shape = {extent = [10], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_11(!f) outs(!f) schedule(<"pointwise", shape = {extent = [11], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_12(!f) outs(!f) schedule(<"pointwise", shape = {extent = [12], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_13(!f) outs(!f) schedule(<"pointwise", shape = {extent = [13], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_14(!f) outs(!f) schedule(<"pointwise", shape = {extent = [14], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_15(!f) outs(!f) schedule(<"pointwise", shape = {extent = [15], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @twice_16(!f) outs(!f) schedule(<"pointwise", shape = {extent = [16], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  }
  kernel.func @early_4(!f) outs(!f) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @early_5(!f) outs(!f) schedule(<"pointwise", shape = {extent = [5], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  kernel.func @early_6(!f) outs(!f) schedule(<"pointwise", shape = {extent = [6], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([]) lambda body(%a: f32) {
    kernel.yield %a : f32
  }
}
