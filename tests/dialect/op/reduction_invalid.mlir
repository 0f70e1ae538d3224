// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @reduce_c1(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{sum: dim 2 is outside a tensor of rank 2 (reduce_c1)}}
  %z = op.sum %x {dims = array<i64: 2>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reduce_c1_order(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{sum: dim 0 follows dim 1 in dims (reduce_c1)}}
  %z = op.sum %x {dims = array<i64: 1, 0>, keepdim = false} : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @reduce_c1_none(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{sum: no dims of 2 are named (reduce_c1)}}
  %z = op.sum %x {dims = array<i64>, keepdim = false} : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @reduce_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{mean: the result has extents [4] but [4, 1] are needed (reduce_c2)}}
  %z = op.mean %x {dims = array<i64: 1>, keepdim = true} : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reduce_c3(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{any: the result has elements 'f32' but 'i1' are needed (reduce_c3)}}
  %z = op.any %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reduce_c4(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{mean: x has elements 'i64' but floats are needed (reduce_c4)}}
  %z = op.mean %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @reduce_c3_arg(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{argmax: the result has elements 'i32' but 'i64' are needed (reduce_c3)}}
  %z = op.argmax %x {dim = 1 : i64, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @row_c1(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{softmax: dim 2 is outside a tensor of rank 2 (row_c1)}}
  %z = op.softmax %x {dim = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @row_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{cumsum: the result has extents [8, 4] but [4, 8] are needed (row_c2)}}
  %z = op.cumsum %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @topk_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{topk: dim 2 is outside a tensor of rank 2 (topk_c1)}}
  %v, %i = op.topk %x {dim = 2 : i64, k = 1 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return
}

// -----

func.func @topk_c2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{topk: k is 9 but x has 8 elements along dim 1 (topk_c2)}}
  %v, %i = op.topk %x {dim = 1 : i64, k = 9 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x9xf32>, tensor<4x9xi64>)
  return
}

// -----

op.symbol @n {min = 4 : i64, max = 64 : i64}
func.func @topk_c2_named(%x: tensor<4x?xf32, #op.dims<[4, n]>>) {
  // expected-error @+1 {{topk: k is 0 but x has n elements along dim 1 (topk_c2)}}
  %v, %i = op.topk %x {dim = 1 : i64, k = 0 : i64, largest = true} : (tensor<4x?xf32, #op.dims<[4, n]>>) -> (tensor<4x0xf32>, tensor<4x0xi64>)
  return
}

// -----

func.func @topk_c3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{topk: indices has extents [4, 3] but [4, 2] are needed (topk_c3)}}
  %v, %i = op.topk %x {dim = 1 : i64, k = 2 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x3xi64>)
  return
}

// -----

func.func @topk_c4(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{(topk_c4)}}
  %v, %i = op.topk %x {dim = 1 : i64, k = 2 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{layer_norm: normalized_rank is 3 but x has rank 2 (layer_norm_c1)}}
  %z = op.layer_norm %x {eps = 1.0e-5 : f64, normalized_rank = 3 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{layer_norm: weight has extents [3] but [8] are needed (layer_norm_c2)}}
  %z = op.layer_norm %x weight %v {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_norm_c3(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{layer_norm: the result has elements 'f64' but 'f32' are needed (layer_norm_c3)}}
  %z = op.layer_norm %x {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @rms_norm_c1(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{rms_norm: normalized_rank is 0 but x has rank 2 (rms_norm_c1)}}
  %z = op.rms_norm %x {eps = 1.0e-5 : f64, normalized_rank = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{rms_norm: weight has extents [3] but [8] are needed (rms_norm_c2)}}
  %z = op.rms_norm %x weight %v {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @rms_norm_c3(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{rms_norm: the result has extents [8, 4] but [4, 8] are needed (rms_norm_c3)}}
  %z = op.rms_norm %x {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @group_norm_c1(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{group_norm: x has 8 channels, which 3 groups do not divide (group_norm_c1)}}
  %z = op.group_norm %x {eps = 1.0e-5 : f64, groups = 3 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @group_norm_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{group_norm: bias has extents [3] but [8] are needed (group_norm_c2)}}
  %z = op.group_norm %x bias %v {eps = 1.0e-5 : f64, groups = 2 : i64} : (tensor<4x8xf32>, tensor<3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @group_norm_c3(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{group_norm: the result has extents [8, 4] but [4, 8] are needed (group_norm_c3)}}
  %z = op.group_norm %x {eps = 1.0e-5 : f64, groups = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @batch_norm_c1(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{batch_norm: x has rank 1 but at least 2 is needed (batch_norm_c1)}}
  %z = op.batch_norm %r mean %w var %w {eps = 1.0e-5 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @batch_norm_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{batch_norm: var has extents [3] but [8] are needed (batch_norm_c2)}}
  %z = op.batch_norm %x mean %w var %v {eps = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @batch_norm_c3(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %v: tensor<3xf32>, %r: tensor<8xf32>) {
  // expected-error @+1 {{batch_norm: the result has extents [8, 4] but [4, 8] are needed (batch_norm_c3)}}
  %z = op.batch_norm %x mean %w var %w {eps = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @scan_row_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{(row_c1)}}
  %z = op.scan %x {combine = "prod", dim = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scan_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{scan: combine is "sum" but prod, logcumsumexp, max, min, argmax or argmin is needed (scan_c1)}}
  %z = op.scan %x {combine = "sum", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scan_c2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{scan: the result has extents [8, 4] but [4, 8] are needed (scan_c2)}}
  %z = op.scan %x {combine = "prod", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @scan_c3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{scan: the result has elements 'f32' but 'i64' are needed (scan_c3)}}
  %z = op.scan %x {combine = "argmin", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scan_c4(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{scan: logcumsumexp of 'i64', which is no float (scan_c4)}}
  %z = op.scan %x {combine = "logcumsumexp", dim = 1 : i64} : (tensor<4x8xi64>) -> tensor<4x8xi64>
  return
}
