// RUN: straightline-opt %s --verify-op-level --split-input-file --verify-diagnostics --allow-unregistered-dialect

func.func @foreign(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.relu' is no op of the op level: capture must write op.* only}}
  %y = "aten.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{extent 'b' of 'tensor<?xf32, #op.dims<[b]>>' has no op.symbol}}
func.func @no_symbol(%x: tensor<?xf32, #op.dims<[b]>>) {
  return
}

// -----

func.func @no_symbol_of_an_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{extent 'n' of the attribute sizes has no op.symbol}}
  %y = op.aten "aten::roll.default"(%x) {arguments = "self=%0, shifts=[$0]", door = "dispatcher", outcome = "@0", schema = "aten::roll", sizes = #op.dims<[n]>, torch = "2.13.0", why = ""} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{type 'memref<4xf32>' is no tensor of static rank, known elements and named extents}}
func.func @no_tensor(%x: memref<4xf32>) {
  return
}

// -----

// expected-error @+1 {{two inputs have the name "x"}}
func.func @names(%x: tensor<4xf32> {op.name = "x"}, %y: tensor<4xf32> {op.name = "x"}) {
  return
}

// -----

func.func @parameters() {
  %a = op.parameter "w" : tensor<4xf32>
  // expected-error @+1 {{"w" is read as 'tensor<5xf32>' and as 'tensor<4xf32>'}}
  %b = op.parameter "w" : tensor<5xf32>
  return
}

// -----

// expected-error @+1 {{'tensor<1x1x1x1x1x1x1x1x1xf32>' has rank 9; the nearest supported form has rank 8}}
func.func @rank(%x: tensor<1x1x1x1x1x1x1x1x1xf32>) {
  return
}

// -----

func.func @size(%x: tensor<1x1xf32>) {
  // expected-error @+1 {{'tensor<4611686018427387904x8xf32>' is larger than any memory}}
  %y = op.expand %x : (tensor<1x1xf32>) -> tensor<4611686018427387904x8xf32>
  return
}

// -----

func.func @nothing(%x: tensor<0x3xf32>) {
  // expected-error @+1 {{'op.amax' over dim 0 of 'tensor<0x3xf32>', which has size 0, has no result}}
  %y = op.amax %x {dims = array<i64: 0>, keepdim = false} : (tensor<0x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @reads_a_run(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'op.neg' is marked op.prepare but reads what only a run has}}
  %y = op.neg %x {op.prepare} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @reads_what_a_run_makes() -> tensor<4xf32> {
  %w = op.parameter "w" : tensor<4xf32>
  %x = op.exp %w : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{'op.neg' is marked op.prepare but reads what only a run has}}
  %y = op.neg %x {op.prepare} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @within_a_branch(%c: tensor<i1>) -> tensor<4xf32> {
  %w = op.parameter "w" : tensor<4xf32>
  %y = op.if %c -> (tensor<4xf32>) {
    // expected-error @+1 {{'op.neg' is marked op.prepare but stands within a loop, a branch or a fusion}}
    %n = op.neg %w {op.prepare} : (tensor<4xf32>) -> tensor<4xf32>
    op.yield %n : tensor<4xf32>
  } else {
    op.yield %w : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// expected-error @+1 {{has target 'abacus', expected one of cpu, cuda}}
module attributes {op.target = #kernel.target<"abacus", "beads">} {
  func.func @no_target(%x: tensor<4xf32>) {
    return
  }
}

// -----

func.func @float8_conversion(%x: tensor<4xf8E4M3FN>) {
  // expected-error @+1 {{to_dtype of 'f8E4M3FN', of which programs move elements and compute nothing; the nearest supported form: their bits, by to_dtype to ui8, or floats of 16 bits}}
  %y = op.to_dtype %x : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
  return
}

// -----

func.func @float8_arithmetic(%x: tensor<4xf8E5M2>) {
  // expected-error @+1 {{add of 'f8E5M2', of which programs move elements and compute nothing}}
  %y = op.add %x, %x : (tensor<4xf8E5M2>, tensor<4xf8E5M2>) -> tensor<4xf8E5M2>
  return
}

// -----

func.func @float8_sum(%x: tensor<4xf8E5M2>) {
  // expected-error @+1 {{sum of 'f8E5M2', of which programs move elements and compute nothing}}
  %y = "op.sum"(%x) {dims = array<i64: 0>, keepdim = false} : (tensor<4xf8E5M2>) -> tensor<f8E5M2>
  return
}

// -----

func.func @float8_number() {
  // expected-error @+1 {{full of 'f8E4M3FN', of which programs move elements and compute nothing}}
  %y = "op.full"() {value = 1.5 : f64} : () -> tensor<4xf8E4M3FN>
  return
}
