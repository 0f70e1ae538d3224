// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @grouped_matmul_c1(%a: tensor<9x8xf32>, %b: tensor<5xf32>, %e: tensor<3xi32>) {
  // expected-error @+1 {{grouped_matmul: a has rank 2, b 1 and ends 1 but 2, 2 or 3, and 1 are needed (grouped_matmul_c1)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<5xf32>, tensor<3xi32>) -> tensor<9x5xf32>
  return
}

// -----

func.func @grouped_matmul_c2(%a: tensor<9x8xf32>, %b: tensor<3x7x5xf32>, %e: tensor<3xi32>) {
  // expected-error @+1 {{grouped_matmul: a has k = 8 but b has k = 7 (grouped_matmul_c2)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<3x7x5xf32>, tensor<3xi32>) -> tensor<9x5xf32>
  return
}

// -----

func.func @grouped_matmul_terms_c2(%a: tensor<9x8xf32>, %b: tensor<7x5xf32>, %e: tensor<3xi32>) {
  // expected-error @+1 {{grouped_matmul: a has k = 8 but b has k = 7 (grouped_matmul_c2)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<7x5xf32>, tensor<3xi32>) -> tensor<3x9x5xf32>
  return
}

// -----

func.func @grouped_matmul_terms_c4(%a: tensor<9x8xf32>, %b: tensor<8x5xf32>, %e: tensor<3xi32>) {
  // expected-error @+1 {{grouped_matmul: the result has extents [9, 5] but [3, 9, 5] are needed (grouped_matmul_c4)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<8x5xf32>, tensor<3xi32>) -> tensor<9x5xf32>
  return
}

// -----

func.func @grouped_matmul_c3(%a: tensor<9x8xf32>, %b: tensor<3x8x5xf32>, %e: tensor<4xi32>) {
  // expected-error @+1 {{grouped_matmul: ends has extents [4] but [3] are needed (grouped_matmul_c3)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<3x8x5xf32>, tensor<4xi32>) -> tensor<9x5xf32>
  return
}

// -----

func.func @grouped_matmul_c4(%a: tensor<9x8xf32>, %b: tensor<3x8x5xf32>, %e: tensor<3xi32>) {
  // expected-error @+1 {{grouped_matmul: the result has extents [9, 8] but [9, 5] are needed (grouped_matmul_c4)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<3x8x5xf32>, tensor<3xi32>) -> tensor<9x8xf32>
  return
}

// -----

func.func @grouped_matmul_c5(%a: tensor<9x8xf32>, %b: tensor<3x8x5xbf16>, %e: tensor<3xi32>) {
  // expected-error @+1 {{grouped_matmul: b has elements 'bf16' but 'f32' are needed (grouped_matmul_c5)}}
  %y = op.grouped_matmul %a, %b, %e : (tensor<9x8xf32>, tensor<3x8x5xbf16>, tensor<3xi32>) -> tensor<9x5xf32>
  return
}

// -----

func.func @linear_c1(%x: tensor<1x64xf32>, %w: tensor<10x32xf32>) {
  // expected-error @+1 {{linear: x has 64 features but weight has 32 (linear_c1)}}
  %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x32xf32>) -> tensor<1x10xf32>
  return
}

// -----

func.func @linear_c1_named(%x: tensor<1x?xf32, #op.dims<[1, k]>>, %w: tensor<10x32xf32>) {
  // expected-error @+1 {{linear: x has k features but weight has 32 (linear_c1)}}
  %y = op.linear %x, %w : (tensor<1x?xf32, #op.dims<[1, k]>>, tensor<10x32xf32>) -> tensor<1x10xf32>
  return
}

// -----

func.func @linear_c2(%x: tensor<4x8xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{linear: x has rank 2 and weight rank 1 but at least 1 and 2 are needed (linear_c2)}}
  %y = op.linear %x, %w : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_c3(%x: tensor<4x8xf32>, %w: tensor<3x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{linear: bias has extents [8] but [3] are needed (linear_c3)}}
  %y = op.linear %x, %w, %b : (tensor<4x8xf32>, tensor<3x8xf32>, tensor<8xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @linear_c4(%x: tensor<4x8xf32>, %w: tensor<3x8xf32>) {
  // expected-error @+1 {{linear: the result has extents [4, 8] but [4, 3] are needed (linear_c4)}}
  %y = op.linear %x, %w : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_c5(%x: tensor<4x8xf32>, %w: tensor<3x8xf64>) {
  // expected-error @+1 {{linear: weight has elements 'f64' but 'f32' are needed (linear_c5)}}
  %y = op.linear %x, %w : (tensor<4x8xf32>, tensor<3x8xf64>) -> tensor<4x3xf32>
  return
}

// -----

func.func @linear_c5_bytes(%x: tensor<4x8xi8>, %w: tensor<3x8xi8>) {
  // expected-error @+1 {{linear: the result has elements 'i8' but 'i32' are needed (linear_c5)}}
  %y = op.linear %x, %w : (tensor<4x8xi8>, tensor<3x8xi8>) -> tensor<4x3xi8>
  return
}

// -----

func.func @linear_c5_bytes_and_floats(%x: tensor<4x8xi8>, %w: tensor<3x8xf32>) {
  // expected-error @+1 {{linear: weight has elements 'f32' but 'i8' are needed (linear_c5)}}
  %y = op.linear %x, %w : (tensor<4x8xi8>, tensor<3x8xf32>) -> tensor<4x3xi32>
  return
}

// -----

func.func @linear_c6(%x: tensor<4x8xi8>, %w: tensor<3x8xi8>, %b: tensor<3xi32>) {
  // expected-error @+1 {{linear: bias is of 'tensor<3xi32>' but x and weight of i8 have none (linear_c6)}}
  %y = op.linear %x, %w, %b : (tensor<4x8xi8>, tensor<3x8xi8>, tensor<3xi32>) -> tensor<4x3xi32>
  return
}

// -----

func.func @matmul_c1(%a: tensor<4x8xf32>, %b: tensor<3x8xf32>) {
  // expected-error @+1 {{matmul: a has k = 8 but b has k = 3 (matmul_c1)}}
  %y = op.matmul %a, %b : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @matmul_c2(%a: tensor<2x4x8xf32>, %b: tensor<3x8x5xf32>) {
  // expected-error @+1 {{matmul: a has extents [2, 4, 8] and b [3, 8, 5]: equal ranks of at least 2 and equal leading extents are needed (matmul_c2)}}
  %y = op.matmul %a, %b : (tensor<2x4x8xf32>, tensor<3x8x5xf32>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @matmul_c3(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>) {
  // expected-error @+1 {{matmul: the result has extents [4, 8] but [4, 3] are needed (matmul_c3)}}
  %y = op.matmul %a, %b : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @matmul_c4(%a: tensor<4x8xf32>, %b: tensor<8x3xf64>) {
  // expected-error @+1 {{matmul: b has elements 'f64' but 'f32' are needed (matmul_c4)}}
  %y = op.matmul %a, %b : (tensor<4x8xf32>, tensor<8x3xf64>) -> tensor<4x3xf32>
  return
}

// -----

func.func @scaled_dot_product_attention_c1(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x9xf32>, %v: tensor<2x4x7x8xf32>) {
  // expected-error @+1 {{scaled_dot_product_attention: q has e = 8 but k has e = 9 (scaled_dot_product_attention_c1)}}
  %z = op.scaled_dot_product_attention %q, %k, %v {is_causal = false} : (tensor<2x4x5x8xf32>, tensor<2x4x7x9xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32>
  return
}

// -----

func.func @scaled_dot_product_attention_c2(%q: tensor<2x4x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x8xf32>) {
  // expected-error @+1 {{scaled_dot_product_attention: q has extents [2, 4, 5, 8], k [2, 3, 7, 8], v [2, 3, 7, 8] (scaled_dot_product_attention_c2)}}
  %z = op.scaled_dot_product_attention %q, %k, %v {is_causal = false} : (tensor<2x4x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x8xf32>) -> tensor<2x4x5x8xf32>
  return
}

// -----

func.func @scaled_dot_product_attention_c3(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x6x8xf32>) {
  // expected-error @+1 {{scaled_dot_product_attention: k has s = 7 but v has s = 6 (scaled_dot_product_attention_c3)}}
  %z = op.scaled_dot_product_attention %q, %k, %v {is_causal = false} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x5x8xf32>
  return
}

// -----

func.func @scaled_dot_product_attention_c4(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x8xf32>, %m: tensor<5x6xi1>) {
  // expected-error @+1 {{scaled_dot_product_attention: mask has extents [5, 6] of 'i1' but the scores [2, 4, 5, 7] of 'f32' (scaled_dot_product_attention_c4)}}
  %z = op.scaled_dot_product_attention %q, %k, %v mask %m {is_causal = false} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf32>, tensor<5x6xi1>) -> tensor<2x4x5x8xf32>
  return
}

// -----

// Three images do not divide four.
func.func @scaled_dot_product_attention_c4_by_turns(%q: tensor<4x1x5x8xf32>, %m: tensor<3x1x5x5xf32>) {
  // expected-error @+1 {{scaled_dot_product_attention: mask has extents [3, 1, 5, 5] of 'f32' but the scores [4, 1, 5, 5] of 'f32' (scaled_dot_product_attention_c4)}}
  %z = op.scaled_dot_product_attention %q, %q, %q mask %m {is_causal = false} : (tensor<4x1x5x8xf32>, tensor<4x1x5x8xf32>, tensor<4x1x5x8xf32>, tensor<3x1x5x5xf32>) -> tensor<4x1x5x8xf32>
  return
}

// -----

func.func @scaled_dot_product_attention_c5(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x9xf32>) {
  // expected-error @+1 {{scaled_dot_product_attention: the result has extents [2, 4, 5, 8] but [2, 4, 5, 9] are needed (scaled_dot_product_attention_c5)}}
  %z = op.scaled_dot_product_attention %q, %k, %v {is_causal = false} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x9xf32>) -> tensor<2x4x5x8xf32>
  return
}

// -----

func.func @scaled_dot_product_attention_c6(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xf32>, %v: tensor<2x4x7x8xf64>) {
  // expected-error @+1 {{scaled_dot_product_attention: v has elements 'f64' but 'f32' are needed (scaled_dot_product_attention_c6)}}
  %z = op.scaled_dot_product_attention %q, %k, %v {is_causal = false} : (tensor<2x4x5x8xf32>, tensor<2x4x7x8xf32>, tensor<2x4x7x8xf64>) -> tensor<2x4x5x8xf32>
  return
}
