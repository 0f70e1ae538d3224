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

// -----

func.func @scatter_c1_index(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %v: tensor<3xi64>, %src: tensor<2x3xf32>, %ints: tensor<2x3xi64>) {
  // expected-error @+1 {{scatter: x has rank 2 but index has rank 1 (scatter_c1)}}
  %y = op.scatter %x, %v, %src {dim = 0 : i64} : (tensor<4x9xf32>, tensor<3xi64>, tensor<2x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @scatter_c1_dim(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %v: tensor<3xi64>, %src: tensor<2x3xf32>, %ints: tensor<2x3xi64>) {
  // expected-error @+1 {{scatter: dim 2 is outside a tensor of rank 2 (scatter_c1)}}
  %y = op.scatter %x, %i, %src {dim = 2 : i64} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @scatter_c2_src(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %src: tensor<2x2xf32>) {
  // expected-error @+1 {{scatter: index has 3 in dim 1 but src has 2 (scatter_c2)}}
  %y = op.scatter %x, %i, %src {dim = 1 : i64} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<2x2xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @scatter_c2_x(%x: tensor<4x2xf32>, %i: tensor<2x3xi64>, %src: tensor<2x3xf32>) {
  // expected-error @+1 {{scatter: index has 3 in dim 1 but x has 2 (scatter_c2)}}
  %y = op.scatter %x, %i, %src {dim = 0 : i64} : (tensor<4x2xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @scatter_c3(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %v: tensor<3xi64>, %src: tensor<2x3xf32>, %ints: tensor<2x3xi64>) {
  // expected-error @+1 {{scatter: src has elements}}
  %y = op.scatter %x, %i, %ints {dim = 0 : i64} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<4x9xf32>
  return
}

// -----

func.func @scatter_c4(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %v: tensor<3xi64>, %src: tensor<2x3xf32>, %ints: tensor<2x3xi64>) {
  // expected-error @+1 {{scatter: the result has extents [4, 8] but [4, 9] are needed (scatter_c4)}}
  %y = op.scatter %x, %i, %src {dim = 0 : i64} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_c5(%x: tensor<4x9xf32>, %i: tensor<2x3xi64>, %v: tensor<3xi64>, %src: tensor<2x3xf32>, %ints: tensor<2x3xi64>) {
  // expected-error @+1 {{scatter: reduce is "mean" but none, sum, prod, amin or amax is needed (scatter_c5)}}
  %y = op.scatter %x, %i, %src {dim = 0 : i64, reduce = "mean"} : (tensor<4x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_c1(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: 1 index tensors for 2 dims but one each is needed, of one dim at least (index_c1)}}
  %y = op.index %x, %i {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<5xf32>
  return
}

// -----

func.func @index_c1_none(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: 0 index tensors for 0 dims but one each is needed, of one dim at least (index_c1)}}
  %y = op.index %x {dims = array<i64>} : (tensor<4x9xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @index_c1_dim(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: dim 2 is outside a tensor of rank 2 (index_c1)}}
  %y = op.index %x, %i, %i {dims = array<i64: 0, 2>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xf32>
  return
}

// -----

func.func @index_c1_order(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: dims must be ascending (index_c1)}}
  %y = op.index %x, %i, %i {dims = array<i64: 1, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xf32>
  return
}

// -----

func.func @index_c2(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: an index tensor has type 'tensor<5xi32>' but the first has 'tensor<5xi64>' (index_c2)}}
  %y = op.index %x, %i, %j {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi32>) -> tensor<5xf32>
  return
}

// -----

func.func @index_put_c1(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: 1 index tensors for 2 dims but one each is needed, of one dim at least (index_put_c1)}}
  %y = op.index_put %x, %i, %v {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_put_c1_none(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: 0 index tensors for 0 dims but one each is needed, of one dim at least (index_put_c1)}}
  %y = op.index_put %x, %v {dims = array<i64>} : (tensor<4x9xf32>, tensor<5xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_put_c1_dim(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: dim 2 is outside a tensor of rank 2 (index_put_c1)}}
  %y = op.index_put %x, %i, %i, %v {dims = array<i64: 0, 2>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>, tensor<5xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_put_c1_order(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: dims must be ascending (index_put_c1)}}
  %y = op.index_put %x, %i, %i, %v {dims = array<i64: 1, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>, tensor<5xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_put_c2(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: an index tensor has type 'tensor<5xi32>' but the first has 'tensor<5xi64>' (index_put_c2)}}
  %y = op.index_put %x, %i, %j, %v {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi32>, tensor<5xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_c3(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: the result has extents [6] but [5] are needed (index_c3)}}
  %y = op.index %x, %i, %i {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<6xf32>
  return
}

// -----

func.func @index_c3_elements(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index: the result has elements}}
  %y = op.index %x, %i, %i {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
  return
}

// -----

func.func @index_put_c3(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: values has extents [6] but [5] are needed (index_put_c3)}}
  %y = op.index_put %x, %i, %i, %w {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>, tensor<6xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_put_c4_values(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: values has elements}}
  %y = op.index_put %x, %i, %i, %i {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>) -> tensor<4x9xf32>
  return
}

// -----

func.func @index_put_c4(%x: tensor<4x9xf32>, %i: tensor<5xi64>, %j: tensor<5xi32>, %v: tensor<5xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{index_put: the result has extents [4, 8] but [4, 9] are needed (index_put_c4)}}
  %y = op.index_put %x, %i, %i, %v {dims = array<i64: 0, 1>} : (tensor<4x9xf32>, tensor<5xi64>, tensor<5xi64>, tensor<5xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @tree_ensemble_c1(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: x has extents [4, 9] and nodes [7, 3] of 'i32' but [n, f] and [m, 2] of i32 or i64 are needed (tree_ensemble_c1)}}
  %y = op.tree_ensemble %x, %p, %w {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x3xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @tree_ensemble_c2(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: weights have extents [4, 3] of 'f32' but f32 or f64 [l, c] are needed, with i32 columns of rank 1 [l, 1] (tree_ensemble_c2)}}
  %y = op.tree_ensemble %x, %n, %w, %c {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>, tensor<2xi32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @tree_ensemble_c3(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: trees is 8 but there are 7 nodes (tree_ensemble_c3)}}
  %y = op.tree_ensemble %x, %n, %w {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 8 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @tree_ensemble_c4(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: decision is "above" and aggregate "sum" but at_most, below, equal or mixed, and sum, max or min are needed (tree_ensemble_c4)}}
  %y = op.tree_ensemble %x, %n, %w {aggregate = "sum", decision = "above", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @tree_ensemble_c5(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: feature_bits is 25 and depth 2 but 1 to 24, and no negative depth are needed (tree_ensemble_c5)}}
  %y = op.tree_ensemble %x, %n, %w {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 25 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @tree_ensemble_c6(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: the result has extents [4, 2] but [4, 3] are needed (tree_ensemble_c6)}}
  %y = op.tree_ensemble %x, %n, %w {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf32>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @tree_ensemble_c7(%x: tensor<4x9xf32>, %h: tensor<4x9xf16>, %n: tensor<7x2xi32>, %p: tensor<7x3xi32>, %w: tensor<4x3xf32>, %c: tensor<2xi32>) {
  // expected-error @+1 {{tree_ensemble: x has elements of 'f16' but f32 or f64 are needed (tree_ensemble_c7)}}
  %y = op.tree_ensemble %h, %n, %w {aggregate = "sum", decision = "at_most", depth = 2 : i64, feature_bits = 8 : i64, missing = false, trees = 1 : i64} : (tensor<4x9xf16>, tensor<7x2xi32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}
