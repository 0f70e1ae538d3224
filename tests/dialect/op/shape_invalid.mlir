// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @expand_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{expand: an operand has elements 'f32' but 'f64' are needed (expand_c1)}}
  %z = op.expand %x : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @expand_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{expand: x has rank 2 but the result 1 (expand_c2)}}
  %z = op.expand %x : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @expand_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{expand: x has extents [4, 8], which do not expand to [3, 4, 9] (expand_c3)}}
  %z = op.expand %x : (tensor<4x8xf32>) -> tensor<3x4x9xf32>
  return
}

// -----

func.func @reshape_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{reshape: an operand has elements 'f32' but 'f64' are needed (reshape_c1)}}
  %z = op.reshape %x : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @reshape_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{reshape: x has extents [4, 8] but the result [33]: not equally many elements (reshape_c2)}}
  %z = op.reshape %x : (tensor<4x8xf32>) -> tensor<33xf32>
  return
}

// -----

func.func @reshape_c2_named(%x: tensor<?x8xf32, #op.dims<[b, 8]>>) {
  // expected-error @+1 {{reshape: x has extents [b, 8] but the result [c * 8]: not equally many elements (reshape_c2)}}
  %z = op.reshape %x : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?xf32, #op.dims<[c * 8]>>
  return
}

// -----

func.func @permute_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{permute: an operand has elements 'f32' but 'f64' are needed (permute_c1)}}
  %z = op.permute %x {dims = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf64>
  return
}

// -----

func.func @permute_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{permute: dim 1 stands twice in [1, 1] (permute_c2)}}
  %z = op.permute %x {dims = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @permute_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{permute: the result has extents [4, 8] but [8, 4] are needed (permute_c3)}}
  %z = op.permute %x {dims = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice: an operand has elements 'f32' but 'f64' are needed (slice_c1)}}
  %z = op.slice %x {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf64>
  return
}

// -----

func.func @slice_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice: dim 2 is outside a tensor of rank 2 (slice_c2)}}
  %z = op.slice %x {dim = 2 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @slice_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice: step is 0 but must be at least 1 (slice_c3)}}
  %z = op.slice %x {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 0 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @slice_c5_ends_behind(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{slice: a slice whose end its type says begins at 3 with step 1 and has 2 elements, but must begin at 0 or later, with step 1, and end within the dim (slice_c5)}}
  %z = op.slice %x {dim = 0 : i64, start = 3 : i64, end = -9223372036854775808 : i64, step = 1 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @slice_c5_step(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{begins at 0 with step 2 and has 2 elements}}
  %z = op.slice %x {dim = 0 : i64, start = 0 : i64, end = -9223372036854775808 : i64, step = 2 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @slice_scatter_c5_ends_behind(%x: tensor<4x8xf32>, %s: tensor<2x8xf32>) {
  // expected-error @+1 {{begins at 3 with step 1 and has 2 elements}}
  %z = op.slice_scatter %x, %s {dim = 0 : i64, start = 3 : i64, end = -9223372036854775808 : i64, step = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_c4(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice: the result has extents [4, 8] but [2, 8] are needed (slice_c4)}}
  %z = op.slice %x {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select: an operand has elements 'f32' but 'f64' are needed (select_c1)}}
  %z = op.select %x {dim = 0 : i64, index = 0 : i64} : (tensor<4x8xf32>) -> tensor<8xf64>
  return
}

// -----

func.func @select_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select: dim 2 is outside a tensor of rank 2 (select_c2)}}
  %z = op.select %x {dim = 2 : i64, index = 0 : i64} : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @select_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select: index 4 is outside extent 4 (select_c3)}}
  %z = op.select %x {dim = 0 : i64, index = 4 : i64} : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @select_c4(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select: the result has extents [4] but [8] are needed (select_c4)}}
  %z = op.select %x {dim = 0 : i64, index = 0 : i64} : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @cat_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{cat: an operand has elements 'f32' but 'f64' are needed (cat_c1)}}
  %z = op.cat %x, %s {dim = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf64>
  return
}

// -----

func.func @cat_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{cat: dim 2 is outside a tensor of rank 2 (cat_c2)}}
  %z = op.cat %x {dim = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cat_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{cat: a tensor has extents [2, 8] but the result [4, 16] (cat_c3)}}
  %z = op.cat %x, %s {dim = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @cat_c4() {
  // expected-error @+1 {{cat: 0 tensors but at least 1 is needed (cat_c4)}}
  %z = op.cat {dim = 0 : i64} : () -> tensor<4x8xf32>
  return
}

// -----

func.func @flip_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{flip: an operand has elements 'f32' but 'f64' are needed (flip_c1)}}
  %z = op.flip %x {dims = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @flip_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{flip: dim 2 is outside a tensor of rank 2 (flip_c2)}}
  %z = op.flip %x {dims = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @flip_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{flip: the result has extents [8, 4] but [4, 8] are needed (flip_c3)}}
  %z = op.flip %x {dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @constant_pad_nd_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{constant_pad_nd: an operand has elements 'f32' but 'f64' are needed (constant_pad_nd_c1)}}
  %z = op.constant_pad_nd %x {pad = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @constant_pad_nd_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{constant_pad_nd: has 1 widths for rank 2 (constant_pad_nd_c2)}}
  %z = op.constant_pad_nd %x {pad = array<i64: 1>, value = 0.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @constant_pad_nd_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{constant_pad_nd: the result has extents [4, 8] but [4, 11] are needed (constant_pad_nd_c3)}}
  %z = op.constant_pad_nd %x {pad = array<i64: 1, 2>, value = 0.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @constant_pad_nd_c4(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{constant_pad_nd: value 0 : i64 does not suit elements 'f32' (constant_pad_nd_c4)}}
  %z = op.constant_pad_nd %x {pad = array<i64: 0, 0>, value = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @constant_pad_nd_c5(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{constant_pad_nd: cuts 9 elements off a dim of 8 (constant_pad_nd_c5)}}
  %z = op.constant_pad_nd %x {pad = array<i64: -9, 3>, value = 0.0 : f64} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @clone_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{clone: an operand has elements 'f32' but 'f64' are needed (clone_c1)}}
  %z = op.clone %x : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @clone_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{clone: the result has extents [8, 4] but [4, 8] are needed (clone_c2)}}
  %z = op.clone %x : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @slice_scatter_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice_scatter: an operand has elements 'f32' but 'f64' are needed (slice_scatter_c1)}}
  %z = op.slice_scatter %x, %s {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @slice_scatter_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice_scatter: dim 2 is outside a tensor of rank 2 (slice_scatter_c2)}}
  %z = op.slice_scatter %x, %s {dim = 2 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_scatter_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice_scatter: step is 0 but must be at least 1 (slice_scatter_c3)}}
  %z = op.slice_scatter %x, %s {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_scatter_c4(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice_scatter: src has extents [2, 8] but [4, 2] are needed (slice_scatter_c4)}}
  %z = op.slice_scatter %x, %s {dim = 1 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_scatter_c5(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{slice_scatter: the result has extents [2, 8] but [4, 8] are needed (slice_scatter_c5)}}
  %z = op.slice_scatter %x, %s {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @select_scatter_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select_scatter: an operand has elements 'f32' but 'f64' are needed (select_scatter_c1)}}
  %z = op.select_scatter %x, %r {dim = 0 : i64, index = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @select_scatter_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select_scatter: dim 2 is outside a tensor of rank 2 (select_scatter_c2)}}
  %z = op.select_scatter %x, %r {dim = 2 : i64, index = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_scatter_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select_scatter: index -5 is outside extent 4 (select_scatter_c3)}}
  %z = op.select_scatter %x, %r {dim = 0 : i64, index = -5 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_scatter_c4(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select_scatter: src has extents [8] but [4] are needed (select_scatter_c4)}}
  %z = op.select_scatter %x, %r {dim = 1 : i64, index = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_scatter_c5(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{select_scatter: the result has extents [2, 8] but [4, 8] are needed (select_scatter_c5)}}
  %z = op.select_scatter %x, %r {dim = 0 : i64, index = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @dynamic_slice_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_slice: an operand has elements 'f32' but 'f64' are needed (dynamic_slice_c1)}}
  %z = op.dynamic_slice %x, %i {dim = 0 : i64, length = 2 : i64} : (tensor<4x8xf32>, tensor<i64>) -> tensor<2x8xf64>
  return
}

// -----

func.func @dynamic_slice_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_slice: dim 2 is outside a tensor of rank 2 (dynamic_slice_c2)}}
  %z = op.dynamic_slice %x, %i {dim = 2 : i64, length = 2 : i64} : (tensor<4x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dynamic_slice_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_slice: the result has extents [4, 8] but [2, 8] are needed (dynamic_slice_c3)}}
  %z = op.dynamic_slice %x, %i {dim = 0 : i64, length = 2 : i64} : (tensor<4x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dynamic_update_slice_c1(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_update_slice: an operand has elements 'f32' but 'f64' are needed (dynamic_update_slice_c1)}}
  %z = op.dynamic_update_slice %x, %s, %i {dim = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i64>) -> tensor<4x8xf64>
  return
}

// -----

func.func @dynamic_update_slice_c2(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_update_slice: dim 2 is outside a tensor of rank 2 (dynamic_update_slice_c2)}}
  %z = op.dynamic_update_slice %x, %s, %i {dim = 2 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dynamic_update_slice_c3(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_update_slice: src has extents [2, 8] but [4, 8] are needed (dynamic_update_slice_c3)}}
  %z = op.dynamic_update_slice %x, %s, %i {dim = 1 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dynamic_update_slice_c4(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<2x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dynamic_update_slice: the result has extents [2, 8] but [4, 8] are needed (dynamic_update_slice_c4)}}
  %z = op.dynamic_update_slice %x, %s, %i {dim = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i64>) -> tensor<2x8xf32>
  return
}
