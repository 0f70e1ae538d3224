// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @embedding_c1(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>, %p: tensor<8xf32>) {
  // expected-error @+1 {{embedding: weight has rank 1 but 2 is needed (embedding_c1)}}
  %e = op.embedding %p, %i : (tensor<8xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  return
}

// -----

func.func @embedding_c2(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{embedding: the result has extents [2, 4] but [2, 3, 4] are needed (embedding_c2)}}
  %e = op.embedding %w, %i : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x4xf32>
  return
}

// -----

func.func @embedding_c3(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{embedding: the result has elements 'f64' but 'f32' are needed (embedding_c3)}}
  %e = op.embedding %w, %i : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf64>
  return
}

// -----

func.func @gather_c1(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{gather: x has rank 2 but index has rank 1 (gather_c1)}}
  %e = op.gather %w, %v {dim = 0 : i64} : (tensor<10x4xf32>, tensor<5xi64>) -> tensor<5xf32>
  return
}

// -----

func.func @gather_c2(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{gather: the result has extents [2, 4] but [2, 3] are needed (gather_c2)}}
  %e = op.gather %w, %i {dim = 0 : i64} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x4xf32>
  return
}

// -----

func.func @gather_c3(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{gather: the result has elements 'f64' but 'f32' are needed (gather_c3)}}
  %e = op.gather %w, %i {dim = 0 : i64} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf64>
  return
}

// -----

func.func @gather_c4(%w: tensor<10x2xf32>, %i: tensor<2x3xi64>) {
  // expected-error @+1 {{gather: index has 3 in dim 1 but x has 2 (gather_c4)}}
  %e = op.gather %w, %i {dim = 0 : i64} : (tensor<10x2xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  return
}

// -----

func.func @index_select_c1(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{index_select: dim 2 is outside a tensor of rank 2 (index_select_c1)}}
  %e = op.index_select %w, %v {dim = 2 : i64} : (tensor<10x4xf32>, tensor<5xi64>) -> tensor<10x5xf32>
  return
}

// -----

func.func @index_select_c2(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{index_select: index has rank 2 but 1 is needed (index_select_c2)}}
  %e = op.index_select %w, %i {dim = 1 : i64} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<10x5xf32>
  return
}

// -----

func.func @index_select_c3(%w: tensor<10x4xf32>, %i: tensor<2x3xi64>, %v: tensor<5xi64>) {
  // expected-error @+1 {{index_select: the result has extents [5, 4] but [10, 5] are needed (index_select_c3)}}
  %e = op.index_select %w, %v {dim = 1 : i64} : (tensor<10x4xf32>, tensor<5xi64>) -> tensor<5x4xf32>
  return
}

// -----

func.func @index_write_c1(%x: tensor<4x9xf32>, %p: tensor<2xi64>, %q: tensor<2x2xi64>, %src: tensor<4x2xf32>, %wide: tensor<4x3xf32>, %ints: tensor<4x2xi64>) {
  // expected-error @+1 {{index_copy: dim 2 is outside a tensor of rank 2 (index_write_c1)}}
  %y = op.index_copy %x, %p, %src {dim = 2 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_write_c2(%x: tensor<4x9xf32>, %p: tensor<2xi64>, %q: tensor<2x2xi64>, %src: tensor<4x2xf32>, %wide: tensor<4x3xf32>, %ints: tensor<4x2xi64>) {
  // expected-error @+1 {{index_copy: index has rank 2 but 1 is needed (index_write_c2)}}
  %y = op.index_copy %x, %q, %src {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2x2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_write_c3(%x: tensor<4x9xf32>, %p: tensor<2xi64>, %q: tensor<2x2xi64>, %src: tensor<4x2xf32>, %wide: tensor<4x3xf32>, %ints: tensor<4x2xi64>) {
  // expected-error @+1 {{index_copy: src has extents [4, 3] but [4, 2] are needed (index_write_c3)}}
  %y = op.index_copy %x, %p, %wide {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_write_c4(%x: tensor<4x9xf32>, %p: tensor<2xi64>, %q: tensor<2x2xi64>, %src: tensor<4x2xf32>, %wide: tensor<4x3xf32>, %ints: tensor<4x2xi64>) {
  // expected-error @+1 {{index_copy: src has elements}}
  %y = op.index_copy %x, %p, %ints {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xi64>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_write_c5(%x: tensor<4x9xf32>, %p: tensor<2xi64>, %q: tensor<2x2xi64>, %src: tensor<4x2xf32>, %wide: tensor<4x3xf32>, %ints: tensor<4x2xi64>) {
  // expected-error @+1 {{index_copy: the result has extents [4, 8] but [4, 9] are needed (index_write_c5)}}
  %y = op.index_copy %x, %p, %src {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2xi64>, tensor<4x2xf32>) -> tensor<4x8xf32>
  return
}
