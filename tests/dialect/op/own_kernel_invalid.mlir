// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @own_kernel_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the name is "scale" but "namespace::name" is needed (own_kernel_c1)}}
  %0 = op.own_kernel "scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c2(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the symbol is "scale" but "sl_own_..." is needed (own_kernel_c2)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the argument "%1" is none of 1 inputs, 1 results, 0 sizes, and no constant (own_kernel_c3)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%1", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the argument "$0" is none of 1 inputs, 1 results, 0 sizes, and no constant (own_kernel_c3)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "$0", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the argument "f:half" is none of 1 inputs, 1 results, 0 sizes, and no constant (own_kernel_c3)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "f:half", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c4(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: updates 2 of 1 operands, with 1 results (own_kernel_c4)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["@0"], updates = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c4(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: result 0 is 'tensor<5xf32>' but the operand that it updates is 'tensor<4xf32>' (own_kernel_c4)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["@0"], updates = 1 : i64} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @own_kernel_c5(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: result 0 is no argument (own_kernel_c5)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c6(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the trait is "fast" but status, stream, device or outside is needed (own_kernel_c6)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64, traits = "status fast"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c6(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the workspace has -8 bytes (own_kernel_c6)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64, workspace = -8 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c7(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has a source, blocks "i:1" and 2048 threads (own_kernel_c7)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 2048 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c7(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has no source, blocks "i:1" and 32 threads (own_kernel_c7)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "@0"], updates = 0 : i64, blocks = "i:1", threads = 32 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
