// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @linalg_c1(%x: tensor<3x4x5xf32>) {
  // expected-error @+1 {{cholesky: x has extents [3, 4, 5] of 'f32' but [.., n, n] of f32 or f64 is needed (linalg_c1)}}
  %f, %i = op.cholesky %x {upper = false} : (tensor<3x4x5xf32>) -> (tensor<3x4x5xf32>, tensor<3xi32>)
  return
}

// -----

func.func @linalg_c1_elements(%x: tensor<4x4xf16>, %b: tensor<4x2xf16>) {
  // expected-error @+1 {{triangular_solve: a has extents [4, 4] of 'f16' but [.., n, n] of f32 or f64 is needed (linalg_c1)}}
  %y = op.triangular_solve %x, %b {transpose = false, unit = false, upper = false} : (tensor<4x4xf16>, tensor<4x2xf16>) -> tensor<4x2xf16>
  return
}

// -----

func.func @cholesky_c1(%x: tensor<3x4x4xf32>) {
  // expected-error @+1 {{cholesky: info has extents [] but [3] are needed (cholesky_c1)}}
  %f, %i = op.cholesky %x {upper = false} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<i32>)
  return
}

// -----

func.func @lu_c1(%x: tensor<3x4x4xf32>) {
  // expected-error @+1 {{lu: permutation has extents [3] but [3, 4] are needed (lu_c1)}}
  %f, %p, %q, %i = op.lu %x : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4xi32>, tensor<3xi64>, tensor<3xi32>)
  return
}

// -----

func.func @triangular_solve_c1(%x: tensor<3x4x4xf32>, %b: tensor<3x5x2xf32>) {
  // expected-error @+1 {{triangular_solve: b has extents [3, 5, 2] but [3, 4, 2] are needed (triangular_solve_c1)}}
  %y = op.triangular_solve %x, %b {transpose = false, unit = false, upper = false} : (tensor<3x4x4xf32>, tensor<3x5x2xf32>) -> tensor<3x5x2xf32>
  return
}

// -----

func.func @triangular_solve_c1_rank(%x: tensor<4x4xf32>, %b: tensor<3x4x2xf32>) {
  // expected-error @+1 {{triangular_solve: b has extents [3, 4, 2] but a [4, 4] (triangular_solve_c1)}}
  %y = op.triangular_solve %x, %b {transpose = false, unit = false, upper = false} : (tensor<4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  return
}

// -----

func.func @geqrf_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{geqrf: x has extents [4] of 'f32' but [.., m, n] of f32 or f64 is needed (geqrf_c1)}}
  %f, %t = op.geqrf %x : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @geqrf_c2(%x: tensor<3x5x4xf32>) {
  // expected-error @+1 {{geqrf: taus has extents [3, 5] but [3, 4] are needed (geqrf_c2)}}
  %f, %t = op.geqrf %x : (tensor<3x5x4xf32>) -> (tensor<3x5x4xf32>, tensor<3x5xf32>)
  return
}

// -----

func.func @orgqr_c1(%x: tensor<4x5xf32>, %t: tensor<4xf32>) {
  // expected-error @+1 {{orgqr: x has extents [4, 5] of 'f32' and taus [4] but [.., m, n] of f32 or f64 and [.., k] with m >= n >= k are needed (orgqr_c1)}}
  %q = op.orgqr %x, %t : (tensor<4x5xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @orgqr_c2(%x: tensor<5x4xf32>, %t: tensor<4xf64>) {
  // expected-error @+1 {{orgqr: taus has elements 'f64' but 'f32' are needed (orgqr_c2)}}
  %q = op.orgqr %x, %t : (tensor<5x4xf32>, tensor<4xf64>) -> tensor<5x4xf32>
  return
}

// -----

func.func @eigh_c1(%x: tensor<3x4x4xf32>) {
  // expected-error @+1 {{eigh: values has extents [3] but [3, 4] are needed (eigh_c1)}}
  %v, %w, %i = op.eigh %x {upper = false} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xf32>, tensor<3xi32>)
  return
}

// -----

func.func @svd_c1(%x: tensor<5x4xf32>) {
  // expected-error @+1 {{svd: x has extents [5, 4] of 'f32' but [.., m, n] of f32 or f64 with static sizes m <= n is needed (svd_c1)}}
  %r, %s, %l, %i = op.svd %x : (tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<i32>)
  return
}

// -----

func.func @svd_c2(%x: tensor<4x5xf32>) {
  // expected-error @+1 {{svd: left has extents [4, 5] but [4, 4] are needed (svd_c2)}}
  %r, %s, %l, %i = op.svd %x : (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>, tensor<4x5xf32>, tensor<i32>)
  return
}
