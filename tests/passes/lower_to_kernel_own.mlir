// RUN: straightline-opt %s --split-input-file --fuse-pointwise --lower-to-kernel | FileCheck %s

// One call of the C function itself, by thread 0; a result is written where it is wanted.
module {
  // CHECK-LABEL: kernel.program @result
  // CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<4xf32>) outs(%[[Y:.*]] "y": !kernel.buffer<4xf32>)
  // CHECK-NEXT: kernel.call @own_scale(%[[X]]) outs(%[[Y]]) on @team {{.*}}op = "v.scale"{{.*}}team = 1
  // CHECK-NEXT: kernel.return %[[Y]]
  // CHECK: kernel.decl @own_scale(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>)
  // CHECK-NEXT: run("sl_own_0_scale") can_fail attributes {kernel.own_arguments = ["%0", "f:2.0", "@0"], kernel.own_traits = "status"}
  func.func @result(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    %y = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "f:2.0", "@0"], updates = 0 : i64, traits = "status"} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// Equal calls have one declaration; a workspace is memory of the call's own.
module {
  // CHECK-LABEL: kernel.program @twice
  // CHECK-COUNT-2: kernel.call @own_scale({{.*}}) workspace({{.*}} : !kernel.buffer<64xi8>)
  // CHECK: kernel.decl @own_scale(
  // CHECK-NOT: kernel.decl
  func.func @twice(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    %a = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64, workspace = 64 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %y = op.own_kernel "v::scale"(%a) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64, workspace = 64 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// Operands are row-major.
module {
  // CHECK-LABEL: kernel.program @rows
  // CHECK: kernel.launch @{{.*}}why = "a kernel of the user's reads rows"
  // CHECK: kernel.call @own_scale
  func.func @rows(%x: tensor<3x4xf32> {op.name = "x"}) -> (tensor<4x3xf32> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %y = op.own_kernel "v::scale"(%t) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
}

// -----

// An intermediate that nothing reads later is updated where it lies.
module {
  // CHECK-LABEL: kernel.program @intermediate
  // CHECK: kernel.launch @{{.*}} outs(%[[H:.*]]) on
  // CHECK-NEXT: kernel.call @own_step() outs(%[[H]])
  // CHECK-NEXT: kernel.launch
  // CHECK-NEXT: kernel.return
  // CHECK: kernel.decl @own_step() outs(!kernel.buffer<4xf32> readwrite)
  func.func @intermediate(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    %h = op.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    %n = op.own_kernel "v::step"(%h) {symbol = "sl_own_0_step", arguments = ["@0"], updates = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %y = op.exp %n : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// On a device a function that plans on the host is never part of a graph, and one for a device is called.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @plans
  // CHECK: kernel.decl @own_plan(!kernel.buffer<4xf32>) outs(!kernel.buffer<4xf32>)
  // CHECK-NEXT: run("sl_own_0_plan") can_fail attributes {kernel.outside_graph, kernel.own_arguments = ["%0", "@0"], kernel.own_traits = "status stream device outside", kernel.runs_on = "cuda"}
  // CHECK: kernel.decl @own_scale(
  // CHECK-NEXT: run("sl_own_0_scale") can_fail attributes {kernel.own_arguments
  func.func @plans(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    %a = op.own_kernel "v::plan"(%x) {symbol = "sl_own_0_plan", arguments = ["%0", "@0"], updates = 0 : i64, traits = "status stream device outside"} : (tensor<4xf32>) -> tensor<4xf32>
    %y = op.own_kernel "v::scale"(%a) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64, traits = "status stream device"} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// The workspace of a source is one more output, and its bytes an argument.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @scratch
  // CHECK: kernel.launch @own_scale(%{{.*}}) outs(%[[Y:.*]], %[[W:.*]] : {{.*}}!kernel.buffer<64xi8>)
  // CHECK: kernel.own_source = {arguments = ["%0", "[%0, %0]", "i:[3, 4]", "s:text", "@0", "@1", "i:64"]
  func.func @scratch(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}) {
    %y = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "[%0, %0]", "i:[3, 4]", "s:text", "@0"], updates = 0 : i64, workspace = 64 : i64, source = "__global__ void scale() {}", blocks = "i:1", threads = 32 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
