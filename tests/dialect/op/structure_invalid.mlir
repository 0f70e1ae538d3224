// RUN: straightline-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{symbol: 'b' has min 3 and max 2 but 0 <= min <= max is needed (symbol_c1)}}
op.symbol @b {min = 3 : i64, max = 2 : i64}

// -----

func.func @parameter_c1() {
  // expected-error @+1 {{parameter: the name is "" (parameter_c1)}}
  %w = op.parameter "" : tensor<4xf32>
  return
}

// -----

func.func @state_c1() {
  // expected-error @+1 {{state: the name is "" (state_c1)}}
  %w = op.state "" : tensor<4xf32>
  return
}

// -----

func.func @full_c1() {
  // expected-error @+1 {{full: value 1 : i64 does not suit elements 'f32' (full_c1)}}
  %w = op.full {value = 1 : i64} : tensor<4xf32>
  return
}

// -----

func.func @iota_c1() {
  // expected-error @+1 {{iota: the result has rank 2 but 1 is needed (iota_c1)}}
  %w = op.iota {start = 0 : i64, step = 1 : i64} : tensor<4x8xi64>
  return
}

// -----

func.func @iota_c2() {
  // expected-error @+1 {{iota: start or step 1 : i64 does not suit elements 'f32' (iota_c2)}}
  %w = op.iota {start = 0.0 : f64, step = 1 : i64} : tensor<4xf32>
  return
}

// -----

func.func @fusion_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{fusion: family "attention" is none of}}
  %y = op.fusion(%x) {family = "attention"} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    op.yield %a : tensor<4x8xf32>
  }
  return
}

// -----

func.func @fusion_c2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{differ from inputs}}
  %y = op.fusion(%x) {family = "gemm"} : (tensor<4x8xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @fusion_c3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{differ from results}}
  %y = op.fusion(%x) {family = "gemm"} : (tensor<4x8xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    op.yield %a : tensor<4x8xf32>
  }
  return
}

// -----

func.func @isolated(%x: tensor<4xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %y = op.fusion() {family = "pointwise"} : () -> tensor<4xf32> {
    // expected-error @+1 {{'op.neg' op using value defined outside the region}}
    %n = op.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    op.yield %n : tensor<4xf32>
  }
  return
}

// -----

op.symbol @u0 {min = 0 : i64, max = 4 : i64}
func.func @set_extent_c1(%n: tensor<i64>) {
  // expected-error @+1 {{set_extent: has 2 bounds but one is needed (set_extent_c1)}}
  op.set_extent %n {extent = "u0", bound = #op.dims<[4, 5]>} : tensor<i64>
  return
}

// -----

op.symbol @u0 {min = 0 : i64, max = 4 : i64}
func.func @set_extent_c2(%n: tensor<i64>) {
  %r = op.fusion(%n) {family = "pointwise"} : (tensor<i64>) -> tensor<i64> {
  ^bb0(%a: tensor<i64>):
    // expected-error @+1 {{set_extent: stands in op.fusion but the body of a function, a branch or a loop is needed (set_extent_c2)}}
    op.set_extent %a {extent = "u0", bound = #op.dims<[4]>} : tensor<i64>
    op.yield %a : tensor<i64>
  }
  return
}

// -----

func.func @check_c1(%c: tensor<i1>) {
  // expected-error @+1 {{check: the message is "" (check_c1)}}
  op.check %c {message = ""} : tensor<i1>
  return
}
