// RUN: straightline-opt %s --split-reductions | FileCheck %s
// RUN: straightline-opt %s --split-reductions -o %t.once && straightline-opt %t.once --split-reductions -o %t.twice && diff %t.once %t.twice

// 264 blocks are wanted. As one dim of 4096 * 512 elements, y and z would be copied: 256 parts of 16 rows. z is the same for all parts.
// CHECK-LABEL: func.func @repeated
// CHECK-SAME: %[[X:.*]]: tensor<4096x512xf32>, %[[Y:.*]]: tensor<4096x1xf32>, %[[Z:.*]]: tensor<512xf32>
func.func @repeated(%x: tensor<4096x512xf32>, %y: tensor<4096x1xf32>, %z: tensor<512xf32>) -> tensor<f32> {
  // CHECK: %[[XP:.*]] = op.reshape %[[X]] : (tensor<4096x512xf32>) -> tensor<256x16x512xf32>
  // CHECK: %[[YR:.*]] = op.reshape %[[Y]] : (tensor<4096x1xf32>) -> tensor<256x16x1xf32>
  // CHECK: %[[YP:.*]] = op.expand %[[YR]] : (tensor<256x16x1xf32>) -> tensor<256x16x512xf32>
  // CHECK: %[[A:.*]] = op.add %[[XP]], %[[YP]]
  // CHECK: %[[ZR:.*]] = op.reshape %[[Z]] : (tensor<512xf32>) -> tensor<1x1x512xf32>
  // CHECK: %[[ZP:.*]] = op.expand %[[ZR]] : (tensor<1x1x512xf32>) -> tensor<256x16x512xf32>
  // CHECK: %[[M:.*]] = op.mul %[[A]], %[[ZP]]
  // CHECK: %[[P:.*]] = op.sum %[[M]] {dims = array<i64: 1, 2>, keepdim = false} : (tensor<256x16x512xf32>) -> tensor<256xf32>
  // CHECK: op.sum %[[P]] {dims = array<i64: 0>, keepdim = false} : (tensor<256xf32>) -> tensor<f32>
  %0 = op.expand %y : (tensor<4096x1xf32>) -> tensor<4096x512xf32>
  %1 = op.add %x, %0 : (tensor<4096x512xf32>, tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %2 = op.expand %z : (tensor<512xf32>) -> tensor<4096x512xf32>
  %3 = op.mul %1, %2 : (tensor<4096x512xf32>, tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %4 = op.sum %3 {dims = array<i64: 0, 1>, keepdim = false} : (tensor<4096x512xf32>) -> tensor<f32>
  return %4 : tensor<f32>
}

// The same square as it is and turned, in the order in which the turned one lies.
// CHECK-LABEL: func.func @turned
// CHECK-SAME: %[[X:.*]]: tensor<1024x1024xf32>
func.func @turned(%x: tensor<1024x1024xf32>) -> tensor<f32> {
  // CHECK: op.sub
  // CHECK: %[[T:.*]] = op.permute %[[X]] {dims = array<i64: 1, 0>}
  // CHECK: %[[A:.*]] = op.reshape %[[T]] : (tensor<1024x1024xf32>) -> tensor<256x4x1024xf32>
  // CHECK: %[[B:.*]] = op.reshape %[[X]] : (tensor<1024x1024xf32>) -> tensor<256x4x1024xf32>
  // CHECK: op.sub %[[A]], %[[B]]
  %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %0 = op.sub %x, %t : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = op.amax %0 {dims = array<i64: 0, 1>, keepdim = false} : (tensor<1024x1024xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// A row of a square and of the turned one are not the same elements.
// CHECK-LABEL: func.func @both_ways
// CHECK-SAME: %[[X:.*]]: tensor<1024x1024xf32>
func.func @both_ways(%x: tensor<1024x1024xf32>) -> tensor<1024xf32> {
  // CHECK: op.sub
  // CHECK: %[[T:.*]] = op.permute %[[X]] {dims = array<i64: 1, 0>}
  // CHECK: %[[TR:.*]] = op.reshape %[[T]]
  // CHECK: %[[A:.*]] = op.permute %[[TR]]
  // CHECK: %[[XR:.*]] = op.reshape %[[X]]
  // CHECK: %[[B:.*]] = op.permute %[[XR]]
  // CHECK: op.sub %[[A]], %[[B]]
  %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %0 = op.sub %x, %t : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = op.sum %0 {dims = array<i64: 1>, keepdim = false} : (tensor<1024x1024xf32>) -> tensor<1024xf32>
  return %1 : tensor<1024xf32>
}

// 8 rows side by side, of which 16,896 parts are wanted: every 16th plane, each of its 1024 lines.
// CHECK-LABEL: func.func @columns
func.func @columns(%x: tensor<1024x1024x8xf32>, %y: tensor<1024x1x1xf32>) -> tensor<8xf32> {
  // CHECK: op.reshape %{{.*}} : (tensor<1024x1024x8xf32>) -> tensor<64x16x1024x8xf32>
  // CHECK: op.reshape %{{.*}} : (tensor<1024x1x1xf32>) -> tensor<64x16x1x1xf32>
  // CHECK: op.sum %{{.*}} {dims = array<i64: 3>, keepdim = false} : (tensor<16x1024x8x64xf32>) -> tensor<16x1024x8xf32>
  // CHECK: op.reshape %{{.*}} : (tensor<16x1024x8xf32>) -> tensor<16384x8xf32>
  %0 = op.expand %y : (tensor<1024x1x1xf32>) -> tensor<1024x1024x8xf32>
  %1 = op.mul %x, %0 : (tensor<1024x1024x8xf32>, tensor<1024x1024x8xf32>) -> tensor<1024x1024x8xf32>
  %2 = op.permute %1 {dims = array<i64: 2, 0, 1>} : (tensor<1024x1024x8xf32>) -> tensor<8x1024x1024xf32>
  %3 = op.sum %2 {dims = array<i64: 1, 2>, keepdim = false} : (tensor<8x1024x1024xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Given with strides of their own, or a slice, rows are not one dim; but what is left of a first dim is.
// CHECK-LABEL: func.func @strided
func.func @strided(%x: tensor<512x640xf32> {op.strides = #op.dims<[768, 1]>}, %y: tensor<512x768xf32>, %z: tensor<768x640xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  // CHECK: op.reshape %{{.*}} : (tensor<512x640xf32>) -> tensor<256x2x640xf32>
  // CHECK: op.reshape %{{.*}} : (tensor<512x640xf32>) -> tensor<256x2x640xf32>
  // CHECK: op.reshape %{{.*}} : (tensor<512x640xf32>) -> tensor<256x1280xf32>
  %0 = op.slice %y {dim = 1 : i64, start = 64 : i64, end = 704 : i64, step = 1 : i64} : (tensor<512x768xf32>) -> tensor<512x640xf32>
  %1 = op.slice %z {dim = 0 : i64, start = 64 : i64, end = 576 : i64, step = 1 : i64} : (tensor<768x640xf32>) -> tensor<512x640xf32>
  %2 = op.sum %x {dims = array<i64: 0, 1>, keepdim = false} : (tensor<512x640xf32>) -> tensor<f32>
  %3 = op.sum %0 {dims = array<i64: 0, 1>, keepdim = false} : (tensor<512x640xf32>) -> tensor<f32>
  %4 = op.sum %1 {dims = array<i64: 0, 1>, keepdim = false} : (tensor<512x640xf32>) -> tensor<f32>
  return %2, %3, %4 : tensor<f32>, tensor<f32>, tensor<f32>
}

// Refused: as one dim they have divisors near 264, but 21, 12007 (a prime) and 22 have none, alone or together; dims with another between.
// CHECK-LABEL: func.func @stays
func.func @stays(%x: tensor<21x12007x22xf32>, %y: tensor<22xf32>, %z: tensor<512x3x640xf32>) -> (tensor<f32>, tensor<3xf32>) {
  // CHECK-NOT: op.reshape
  // CHECK-COUNT-2: op.sum
  // CHECK-NOT: op.sum
  // CHECK: return
  %0 = op.expand %y : (tensor<22xf32>) -> tensor<21x12007x22xf32>
  %1 = op.add %x, %0 : (tensor<21x12007x22xf32>, tensor<21x12007x22xf32>) -> tensor<21x12007x22xf32>
  %2 = op.sum %1 {dims = array<i64: 0, 1, 2>, keepdim = false} : (tensor<21x12007x22xf32>) -> tensor<f32>
  %3 = op.permute %z {dims = array<i64: 1, 0, 2>} : (tensor<512x3x640xf32>) -> tensor<3x512x640xf32>
  %4 = op.sum %3 {dims = array<i64: 1, 2>, keepdim = false} : (tensor<3x512x640xf32>) -> tensor<3xf32>
  return %2, %4 : tensor<f32>, tensor<3xf32>
}
