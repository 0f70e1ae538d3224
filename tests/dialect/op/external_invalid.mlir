// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @external_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{external: the name is "relo", expected that of an op of this dialect (external_c1)}}
  %0 = op.external "relo"(%x) told {} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "a", why = "b">} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @external_c2(%x: tensor<4xf32>) {
  // expected-error @+1 {{external: "relu" has no result, expected one (external_c2)}}
  op.external "relu"(%x) told {} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "a", why = "b">} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @external_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{external: told "dims" is array<i64: 0>, expected an integer, a float or a string (external_c3)}}
  %0 = op.external "relu"(%x) told {dims = array<i64: 0>} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "a", why = "b">} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @external_c4(%x: tensor<4xf32>) {
  // expected-error @+1 {{external: roles are [1, 0] of 2 inputs, expected a number for each, ascending from 0 on (external_c4)}}
  %0 = op.external "add"(%x, %x) told {} {roles = array<i64: 1, 0>, op.kernel = #op.kernel_choice<kernel = "a", why = "b">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @external_c4(%x: tensor<4xf32>) {
  // expected-error @+1 {{external: roles are [0] of 2 inputs, expected a number for each, ascending from 0 on (external_c4)}}
  %0 = op.external "add"(%x, %x) told {} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<kernel = "a", why = "b">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @external_c5(%x: tensor<4xf32>) {
  // expected-error @+1 {{external: "relu" has no op.kernel, expected #op.kernel_choice (external_c5)}}
  %0 = op.external "relu"(%x) told {} {roles = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
