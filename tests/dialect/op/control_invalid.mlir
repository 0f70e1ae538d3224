// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @if_c2(%c: tensor<i1>, %x: tensor<f32>, %y: tensor<2xf32>) {
  // expected-error @+1 {{if: the else branch yields ('tensor<2xf32>') but ('tensor<f32>') are needed (if_c2)}}
  %r = op.if %c -> (tensor<f32>) {
    op.yield %x : tensor<f32>
  } else {
    op.yield %y : tensor<2xf32>
  }
  return
}

// -----

func.func @if_c1(%c: tensor<i1>) {
  // expected-error @+1 {{if: the then branch takes ('tensor<f32>') but () are needed (if_c1)}}
  "op.if"(%c) ({
  ^bb0(%a: tensor<f32>):
    "op.yield"() : () -> ()
  }, {
    "op.yield"() : () -> ()
  }) : (tensor<i1>) -> ()
  return
}

// -----

func.func @for_c1() {
  // expected-error @+1 {{for: step is 0 but must be at least 1 (for_c1)}}
  op.for %i = 0 to 4 step 0 iter() : () {
    op.yield
  }
  return
}

// -----

func.func @for_c1_bounds() {
  // expected-error @+1 {{for: has 2 bounds but lower, upper and step are needed (for_c1)}}
  "op.for"() <{bounds = #op.dims<[0, 4]>}> ({
  ^bb0(%i: tensor<i64>):
    "op.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @for_c2() {
  // expected-error @+1 {{for: the body takes () but ('tensor<i64>') are needed (for_c2)}}
  "op.for"() <{bounds = #op.dims<[0, 4, 1]>}> ({
    "op.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @for_c3(%x: tensor<f32>) {
  // expected-error @+1 {{for: the body yields () but ('tensor<f32>') are needed (for_c3)}}
  %r = op.for %i = 0 to 4 step 1 iter(%a = %x) : (tensor<f32>) {
    op.yield
  }
  return
}

// -----

func.func @while_c1(%x: tensor<f32>) {
  // expected-error @+1 {{while: the condition takes () but ('tensor<f32>') are needed (while_c1)}}
  %r = op.while iter(%x) : (tensor<f32>) -> tensor<f32> {
    op.yield
  } do {
  ^bb0(%a: tensor<f32>):
    op.yield %a : tensor<f32>
  }
  return
}

// -----

func.func @while_c2(%x: tensor<f32>) {
  // expected-error @+1 {{while: the condition yields ('tensor<f32>') but tensor<i1> is needed (while_c2)}}
  %r = op.while iter(%x) : (tensor<f32>) -> tensor<f32> {
  ^bb0(%a: tensor<f32>):
    op.yield %a : tensor<f32>
  } do {
  ^bb0(%a: tensor<f32>):
    op.yield %a : tensor<f32>
  }
  return
}

// -----

func.func @while_c3(%x: tensor<f32>) {
  // expected-error @+1 {{while: carries ('tensor<f32>') but gives () (while_c3)}}
  op.while iter(%x) : (tensor<f32>) -> () {
  ^bb0(%a: tensor<f32>):
    %c = op.isnan %a : (tensor<f32>) -> tensor<i1>
    op.yield %c : tensor<i1>
  } do {
  ^bb0(%a: tensor<f32>):
    op.yield %a : tensor<f32>
  }
  return
}
