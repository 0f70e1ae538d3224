// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @elementwise_c1(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) {
  // expected-error @+1 {{add: an operand has extents [8, 4] but the result [4, 8] (elementwise_c1)}}
  %z = op.add %x, %y : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @elementwise_c1_named(%x: tensor<?x8xf32, #op.dims<[b, 8]>>, %y: tensor<?x8xf32, #op.dims<[c, 8]>>) {
  // expected-error @+1 {{add: an operand has extents [c, 8] but the result [b, 8] (elementwise_c1)}}
  %z = op.add %x, %y : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<?x8xf32, #op.dims<[c, 8]>>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  return
}

// -----

func.func @elementwise_c2(%x: tensor<4x8xf32>, %y: tensor<4x8xi64>) {
  // expected-error @+1 {{add: one operand or result has elements 'f32' but another 'i64' (elementwise_c2)}}
  %z = op.add %x, %y : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @elementwise_c2_comparison(%x: tensor<4x8xf32>, %y: tensor<4x8xi64>) {
  // expected-error @+1 {{lt: one operand or result has elements 'f32' but another 'i64' (elementwise_c2)}}
  %z = op.lt %x, %y : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xi1>
  return
}

// -----

func.func @comparison_result(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{must be tensor of i1}}
  %z = op.lt %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @float_only(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{must be tensor of floats}}
  %z = op.exp %x : (tensor<4x8xi64>) -> tensor<4x8xi64>
  return
}

// -----

func.func @bitwise_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{bitwise_and: elements are 'f32' but must be integers or i1 (bitwise_c1)}}
  %z = op.bitwise_and %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @bitwise_not_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{bitwise_not: elements are 'f32' but must be integers or i1 (bitwise_c1)}}
  %z = op.bitwise_not %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @gelu_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{gelu: approximate is "erf" but none or tanh is needed (gelu_c1)}}
  %z = op.gelu %x {approximate = "erf"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @clamp_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{clamp: neither min nor max is given for 'f32' (clamp_c1)}}
  %z = op.clamp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @clamp_c2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{clamp: bound 1 : i64 does not suit elements 'f32' (clamp_c2)}}
  %z = op.clamp %x {min = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @where_c1(%x: tensor<4x8xf32>, %y: tensor<4x8xi64>, %c: tensor<4x8xi1>) {
  // expected-error @+1 {{where: y has elements 'i64' but 'f32' are needed (where_c1)}}
  %z = op.where %c, %x, %y : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @special_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{special: "gamma" is no special function (special_c1)}}
  %z = op.special %x {function = "gamma"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @special_c2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{special: igamma has 1 operands but takes 2 (special_c2)}}
  %z = op.special %x {function = "igamma"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @special_elementwise_c2(%x: tensor<4x8xf32>, %y: tensor<4x8xf64>) {
  // expected-error @+1 {{special: one operand or result has elements 'f32' but another 'f64' (elementwise_c2)}}
  %z = op.special %x, %y {function = "igamma"} : (tensor<4x8xf32>, tensor<4x8xf64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scalar_special_c1(%x: f32) {
  // expected-error @+1 {{scalar_special: "gamma" is no special function (special_c1)}}
  %z = op.scalar_special "gamma"(%x) : (f32) -> f32
  return
}

// -----

func.func @scalar_special_c2(%x: f32) {
  // expected-error @+1 {{scalar_special: lgamma has 2 operands but takes 1 (special_c2)}}
  %z = op.scalar_special "lgamma"(%x, %x) : (f32, f32) -> f32
  return
}

// -----

func.func @special_c3(%x: f64) {
  // expected-error @+1 {{scalar_special: an operand is 'f64' but the result 'f32' (special_c3)}}
  %z = op.scalar_special "lgamma"(%x) : (f64) -> f32
  return
}

// -----

func.func @bit_cast_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{bit_cast: the bits of 'f32' are asked for as 'i64' but two types of 32 or of 64 bits are needed (bit_cast_c1)}}
  %z = op.bit_cast %x : (tensor<4x8xf32>) -> tensor<4x8xi64>
  return
}

// -----

func.func @bit_cast_c1_narrow(%x: tensor<4x8xf16>) {
  // expected-error @+1 {{bit_cast: the bits of 'f16' are asked for as 'i16' but two types of 32 or of 64 bits are needed (bit_cast_c1)}}
  %z = op.bit_cast %x : (tensor<4x8xf16>) -> tensor<4x8xi16>
  return
}
