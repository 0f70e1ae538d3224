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

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has machine, alignments, more_blocks, shared_bytes, waits or cooperative but no image (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, machine = "sm_90"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has machine, alignments, more_blocks, shared_bytes, waits or cooperative but no image (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, cooperative = true} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the image is no base64: Base64 encoded strings must be a multiple of 4 bytes in length (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, image = "AAA", machine = "sm_90", alignments = array<i64: 1, 1>, more_blocks = ["i:1", "i:1"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has an image, a source, the machine "" and 0 bytes of shared memory (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, image = "AAAA", alignments = array<i64: 1, 1>, more_blocks = ["i:1", "i:1"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has 2 alignments of 2 arguments, or one that is no power of two (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, image = "AAAA", machine = "sm_90", alignments = array<i64: 1, 12>, more_blocks = ["i:1", "i:1"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the argument "f:5.000000e-01" is no parameter of machine code (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "f:5.000000e-01", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, image = "AAAA", machine = "sm_90", alignments = array<i64: 1, 1, 1>, more_blocks = ["i:1", "i:1"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c8(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: has an image but no two numbers of blocks in more_blocks (own_kernel_c8)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "", blocks = "i:1", threads = 32 : i64, image = "AAAA", machine = "sm_90", alignments = array<i64: 1, 1>, more_blocks = ["i:1", "$0"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @own_kernel_c9(%x: tensor<4xi64>) {
  // expected-error @+1 {{own_kernel: the argument "h:@0" lies on the host but is updated, or one of a source (own_kernel_c9)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["h:@0"], updates = 1 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @own_kernel_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{own_kernel: the argument "h:i:5" is none of 1 inputs, 1 results, 0 sizes, and no constant (own_kernel_c3)}}
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "h:i:5", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
