// RUN: straightline-opt %s --share-kernels | FileCheck %s
// RUN: straightline-opt %s --share-kernels -o %t.once && straightline-opt %t.once --share-kernels -o %t.twice && diff %t.once %t.twice

!a = !kernel.buffer<4x3xf32>
!b = !kernel.buffer<5x3xf32>
!c = !kernel.buffer<6x3xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %wa = kernel.parameter "wa" : !a
    %wb = kernel.parameter "wb" : !b
    %wc = kernel.parameter "wc" : !c
    %pa = kernel.prepared "pa" : !a
    %pb = kernel.prepared "pb" : !b
    %pc = kernel.prepared "pc" : !c
    // CHECK: kernel.prepare
    kernel.prepare {
      // Numbers that are equal in all stay; columns that are equal to each other are one scalar: n0 is
      // 4, 5, 6 (extent and outer stride of the output), n1 is 12, 15, 18.
      // CHECK: kernel.launch @scale_sized({{.*}}) outs({{.*}}) sizes([4, 12]) on @team
      // CHECK-NEXT: kernel.launch @scale_sized({{.*}}) outs({{.*}}) sizes([5, 15]) on @team
      // CHECK-NEXT: kernel.launch @scale_sized({{.*}}) outs({{.*}}) sizes([6, 18]) on @team
      // CHECK-NEXT: kernel.launch @scale_sized({{.*}}) outs({{.*}}) sizes([4, 12]) on @team
      kernel.launch @scale_4x3(%wa) outs(%pa) on @team : (!a) -> !a
      kernel.launch @scale_5x3(%wb) outs(%pb) on @team : (!b) -> !b
      kernel.launch @scale_6x3(%wc) outs(%pc) on @team : (!c) -> !c
      kernel.launch @scale_4x3(%pa) outs(%pa) on @team : (!a) -> !a
      // Two are fewer than three.
      // CHECK-NEXT: kernel.launch @pair_4(
      // CHECK-NEXT: kernel.launch @pair_5(
      kernel.launch @pair_4(%wa) outs(%pa) on @team : (!a) -> !a
      kernel.launch @pair_5(%wb) outs(%pb) on @team : (!b) -> !b
      // Run launches the last of these too, which leaves two.
      // CHECK-NEXT: kernel.launch @also_4(
      // CHECK-NEXT: kernel.launch @also_5(
      // CHECK-NEXT: kernel.launch @also_6(
      kernel.launch @also_4(%wa) outs(%pa) on @team : (!a) -> !a
      kernel.launch @also_5(%wb) outs(%pb) on @team : (!b) -> !b
      kernel.launch @also_6(%wc) outs(%pc) on @team : (!c) -> !c
      // A tunable is a constant of the template: the third is another kernel.
      // CHECK-NEXT: kernel.launch @tuned_4(
      // CHECK-NEXT: kernel.launch @tuned_5(
      // CHECK-NEXT: kernel.launch @tuned_6(
      kernel.launch @tuned_4(%wa) outs(%pa) on @team : (!a) -> !a
      kernel.launch @tuned_5(%wb) outs(%pb) on @team : (!b) -> !b
      kernel.launch @tuned_6(%wc) outs(%pc) on @team : (!c) -> !c
      // Names that have nothing in common give way to the family's.
      // CHECK-NEXT: kernel.launch @iota_sized({{.*}}) outs({{.*}}) sizes([4])
      // CHECK-NEXT: kernel.launch @iota_sized({{.*}}) outs({{.*}}) sizes([0])
      // CHECK-NEXT: kernel.launch @iota_sized({{.*}}) outs({{.*}}) sizes([-6])
      kernel.launch @down() outs(%pa) on @team : () -> !a
      kernel.launch @zero() outs(%pb) on @team : () -> !b
      kernel.launch @up() outs(%pc) on @team : () -> !c
    }
    kernel.run (%x "x": !c) outs(%y "y": !c) {
      // CHECK: kernel.launch @also_6(
      kernel.launch @also_6(%x) outs(%y) on @team : (!c) -> !c
      kernel.return %y : !c
    }
  }
  // CHECK-NOT: kernel.func @scale_4x3
  // CHECK: kernel.func @scale_sized
  // CHECK-NEXT: shape = {extent = [n0, 3], stride = {{\[\[}}n1, 1], [n0, 1{{\]\]}}}
  // CHECK-NOT: kernel.func @scale_5x3
  kernel.func @scale_4x3(!f) outs(!f) schedule(<"pointwise", shape = {extent = [4, 3], stride = [[12, 1], [4, 1]]}, tune = {rank = 2, inputs = 1}>) ties([0 -> 0])
  kernel.func @scale_5x3(!f) outs(!f) schedule(<"pointwise", shape = {extent = [5, 3], stride = [[15, 1], [5, 1]]}, tune = {rank = 2, inputs = 1}>) ties([0 -> 0])
  kernel.func @scale_6x3(!f) outs(!f) schedule(<"pointwise", shape = {extent = [6, 3], stride = [[18, 1], [6, 1]]}, tune = {rank = 2, inputs = 1}>) ties([0 -> 0])
  kernel.func @pair_4(!f) outs(!f) schedule(<"pointwise", shape = {extent = [4]}, tune = {rank = 1}>) ties([0 -> 0])
  kernel.func @pair_5(!f) outs(!f) schedule(<"pointwise", shape = {extent = [5]}, tune = {rank = 1}>) ties([0 -> 0])
  kernel.func @also_4(!f) outs(!f) schedule(<"fill", shape = {extent = [4]}, tune = {rank = 1}>) ties([])
  kernel.func @also_5(!f) outs(!f) schedule(<"fill", shape = {extent = [5]}, tune = {rank = 1}>) ties([])
  kernel.func @also_6(!f) outs(!f) schedule(<"fill", shape = {extent = [6]}, tune = {rank = 1}>) ties([])
  kernel.func @tuned_4(!f) outs(!f) schedule(<"pack_gemm", shape = {n = 4}, tune = {nr = 16}>) ties([])
  kernel.func @tuned_5(!f) outs(!f) schedule(<"pack_gemm", shape = {n = 5}, tune = {nr = 16}>) ties([])
  kernel.func @tuned_6(!f) outs(!f) schedule(<"pack_gemm", shape = {n = 6}, tune = {nr = 8}>) ties([])
  kernel.func @down() outs(!f) schedule(<"iota", shape = {n = 4}, tune = {}>) ties([])
  kernel.func @zero() outs(!f) schedule(<"iota", shape = {n = 0}, tune = {}>) ties([])
  kernel.func @up() outs(!f) schedule(<"iota", shape = {n = -6}, tune = {}>) ties([])
}
