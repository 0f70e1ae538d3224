// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// Every attribute that passes record, where it may stand.
!x = !kernel.buffer<4xf32>

// CHECK: module attributes {kernel.every_branch}
module attributes {kernel.every_branch} {
  // CHECK: kernel.program @p target(<"cpu", "x86-64-v3">) attributes {kernel.size_advice = ["name it", "sizes="]}
  kernel.program @p target(<"cpu", "x86-64-v3", threads = 1>) attributes {kernel.size_advice = ["name it", "sizes="]} {
    kernel.queue @team backend("cpu")
    kernel.run (%x "x": !x) outs(%y "y": !x) {
      // CHECK: kernel.launch {{.*}} {kernel.after = array<i64>, kernel.branch = 1 : i64, kernel.choice = "key", kernel.cost_us = 1.500000e+00 : f64, kernel.step = 0 : i64}
      kernel.launch @k(%x) outs(%y) on @team {kernel.step = 0, kernel.after = array<i64>, kernel.branch = 1, kernel.choice = "key", kernel.cost_us = 1.5 : f64} : (!x) -> !x
      kernel.return %y : !x
    }
  }
  // CHECK: kernel.func @k
  // CHECK: attributes {kernel.blocks = #kernel.extent<4>, kernel.cluster = 2 : i64, kernel.resident = 1 : i64, kernel.shared = 65536 : i64, kernel.threads = 128 : i64
  kernel.func @k(!x) outs(!x) schedule(<"pointwise", shape = {extent = [4], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
      attributes {kernel.blocks = #kernel.extent<4>, kernel.threads = 128, kernel.cluster = 2, kernel.resident = 1, kernel.shared = 65536}
      lambda body(%a: f32) {
    kernel.yield %a : f32
  }
  // CHECK: kernel.func @two
  // CHECK: attributes {kernel.early_start = "at_entry", kernel.parts = [@k, @k]}
  kernel.func @two(!x, !x) outs(!x, !x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.early_start = "at_entry", kernel.parts = [@k, @k]}
  // CHECK: kernel.func @row
  // CHECK: attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 1>]}
  kernel.func @row(!x, !kernel.buffer<i64>) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 4, wrap = 1>]}
  // CHECK: kernel.decl @d
  // CHECK: run("v_run") attributes {kernel.outside_graph, kernel.runs_on = "cuda"}
  kernel.decl @d(!x) outs(!x) problem("relu", {}) run("v_run") attributes {kernel.outside_graph, kernel.runs_on = "cuda"}
  // CHECK: kernel.decl @e
  // CHECK: run("v_run") plan("v_plan") destroy("v_plan_destroy") attributes {kernel.exclusive_handle}
  kernel.decl @e(!x) outs(!x) problem("relu", {}) run("v_run") plan("v_plan") destroy("v_plan_destroy") attributes {kernel.exclusive_handle}
  // CHECK: kernel.decl @o
  // CHECK: run("sl_own_0_scale") attributes {kernel.own_arguments = ["%0", "[@0]"], kernel.own_traits = "status stream"}
  kernel.decl @o(!x) outs(!x) problem("v::scale", {}) run("sl_own_0_scale") attributes {kernel.own_arguments = ["%0", "[@0]"], kernel.own_traits = "status stream"}
  // CHECK: kernel.func @s
  // CHECK: attributes {kernel.own_source = {arguments = ["%0", "@0"], function = "f", source = "text", threads = 32 : i64}}
  kernel.func @s(!x) outs(!x) schedule(<"own", shape = {blocks = 1 : i64}, tune = {}>) ties([]) attributes {kernel.own_source = {arguments = ["%0", "@0"], function = "f", source = "text", threads = 32 : i64}}
}
