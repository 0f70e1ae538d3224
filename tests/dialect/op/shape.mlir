// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @views
func.func @views(%x: tensor<4x8xf32>, %n: tensor<?x8xf32, #op.dims<[b, 8]>>, %v: tensor<8xf32>) {
  // CHECK: op.expand{{.*}} : (tensor<8xf32>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  %expand = op.expand %v : (tensor<8xf32>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  // CHECK: op.reshape{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?xf32, #op.dims<[b * 8]>>
  %reshape = op.reshape %n : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?xf32, #op.dims<[b * 8]>>
  // CHECK: op.permute{{.*}}{dims = array<i64: 1, 0>}{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
  %permute = op.permute %n {dims = array<i64: 1, 0>} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
  // CHECK: op.slice{{.*}}{dim = 1 : i64, end = 9223372036854775807 : i64, start = 1 : i64, step = 2 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %slice = op.slice %x {dim = 1 : i64, end = 9223372036854775807 : i64, start = 1 : i64, step = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  // CHECK: op.slice{{.*}}{dim = 0 : i64, end = 9223372036854775807 : i64, start = -1 : i64, step = 1 : i64}{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<1x8xf32>
  %tail = op.slice %n {dim = 0 : i64, end = 9223372036854775807 : i64, start = -1 : i64, step = 1 : i64} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<1x8xf32>
  // CHECK: op.slice{{.*}}{dim = 0 : i64, end = 9223372036854775807 : i64, start = 1 : i64, step = 1 : i64}{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b + -1, 8]>>
  %rest = op.slice %n {dim = 0 : i64, end = 9223372036854775807 : i64, start = 1 : i64, step = 1 : i64} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<?x8xf32, #op.dims<[b + -1, 8]>>
  // CHECK: op.select{{.*}}{dim = 0 : i64, index = -1 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<8xf32>
  %select = op.select %x {dim = 0 : i64, index = -1 : i64} : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @moves
func.func @moves(%x: tensor<4x8xf32>, %n: tensor<?x8xf32, #op.dims<[b, 8]>>, %i: tensor<i64>, %r: tensor<8xf32>, %s: tensor<2x8xf32>) {
  // CHECK: op.cat{{.*}}{dim = 0 : i64}{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<4x8xf32>) -> tensor<?x8xf32, #op.dims<[b + 4, 8]>>
  %cat = op.cat %n, %x {dim = 0 : i64} : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<4x8xf32>) -> tensor<?x8xf32, #op.dims<[b + 4, 8]>>
  // CHECK: op.flip{{.*}}{dims = array<i64: 0>}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %flip = op.flip %x {dims = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.constant_pad_nd{{.*}}{pad = array<i64: 1, 2, 3, -4>, value = 0.000000e+00 : f64}{{.*}} : (tensor<4x8xf32>) -> tensor<3x11xf32>
  %constant_pad_nd = op.constant_pad_nd %x {pad = array<i64: 1, 2, 3, -4>, value = 0.000000e+00 : f64} : (tensor<4x8xf32>) -> tensor<3x11xf32>
  // CHECK: op.clone{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %clone = op.clone %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.slice{{.*}}{dim = 0 : i64, end = -9223372036854775808 : i64, start = 1 : i64, step = 1 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  %named = op.slice %x {dim = 0 : i64, end = -9223372036854775808 : i64, start = 1 : i64, step = 1 : i64} : (tensor<4x8xf32>) -> tensor<?x8xf32, #op.dims<[b, 8]>>
  // CHECK: op.slice_scatter{{.*}}{dim = 0 : i64, end = 4 : i64, start = 0 : i64, step = 2 : i64}{{.*}} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %slice_scatter = op.slice_scatter %x, %s {dim = 0 : i64, end = 4 : i64, start = 0 : i64, step = 2 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.select_scatter{{.*}}{dim = 0 : i64, index = 3 : i64}{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %select_scatter = op.select_scatter %x, %r {dim = 0 : i64, index = 3 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: op.dynamic_slice{{.*}}{dim = 0 : i64, length = 2 : i64}{{.*}} : (tensor<4x8xf32>, tensor<i64>) -> tensor<2x8xf32>
  %dynamic_slice = op.dynamic_slice %x, %i {dim = 0 : i64, length = 2 : i64} : (tensor<4x8xf32>, tensor<i64>) -> tensor<2x8xf32>
  // CHECK: op.dynamic_update_slice{{.*}}{dim = 0 : i64}{{.*}} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  %dynamic_update_slice = op.dynamic_update_slice %x, %s, %i {dim = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  return
}

