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
