// RUN: straightline-opt %s --split-reductions | FileCheck %s
// RUN: straightline-opt %s --split-reductions=arch=sm_80 | FileCheck %s --check-prefix=OLD
// RUN: straightline-opt %s --split-reductions -o %t.once && straightline-opt %t.once --split-reductions -o %t.twice && diff %t.once %t.twice

// 264 blocks are wanted for 2 rows: 128 parts of 8192, a divisor. What makes x for the sum alone is done on the parts.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x1048576xf32>) -> tensor<2x1xf32> {
  // CHECK: %[[X:.*]] = op.reshape %{{.*}} : (tensor<2x1048576xf32>) -> tensor<2x128x8192xf32>
  // CHECK: %[[E:.*]] = op.exp %[[X]]
  // CHECK: %[[P:.*]] = op.sum %[[E]] {dims = array<i64: 2>, keepdim = false} : (tensor<2x128x8192xf32>) -> tensor<2x128xf32>
  // CHECK: %[[S:.*]] = op.sum %[[P]] {dims = array<i64: 1>, keepdim = false} : (tensor<2x128xf32>) -> tensor<2xf32>
  // CHECK: op.reshape %[[S]] : (tensor<2xf32>) -> tensor<2x1xf32>
  %e = op.exp %x : (tensor<2x1048576xf32>) -> tensor<2x1048576xf32>
  %s = op.sum %e {dims = array<i64: 1>, keepdim = true} : (tensor<2x1048576xf32>) -> tensor<2x1xf32>
  return %s : tensor<2x1xf32>
}

// 8 rows side by side of 65536: 65536 * 8 / 16 threads, so 4096 parts of 16 elements that are 4096 apart.
// CHECK-LABEL: func.func @columns
func.func @columns(%x: tensor<65536x8xf32>) -> tensor<8xf32> {
  // CHECK: %[[C:.*]] = op.reshape %{{.*}} : (tensor<65536x8xf32>) -> tensor<16x4096x8xf32>
  // CHECK: %[[X:.*]] = op.permute %[[C]] {dims = array<i64: 1, 2, 0>} : (tensor<16x4096x8xf32>) -> tensor<4096x8x16xf32>
  // CHECK: %[[P:.*]] = op.amax %[[X]] {dims = array<i64: 2>, keepdim = false} : (tensor<4096x8x16xf32>) -> tensor<4096x8xf32>
  // CHECK: %[[Q:.*]] = op.permute %[[P]] {dims = array<i64: 1, 0>} : (tensor<4096x8xf32>) -> tensor<8x4096xf32>
  // CHECK: op.amax %[[Q]] {dims = array<i64: 1>, keepdim = false} : (tensor<8x4096xf32>) -> tensor<8xf32>
  %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<65536x8xf32>) -> tensor<8x65536xf32>
  %s = op.amax %t {dims = array<i64: 1>, keepdim = false} : (tensor<8x65536xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// The first place of the largest of each part; then of the parts that have the largest of all, or a NaN.
// CHECK-LABEL: func.func @place
func.func @place(%x: tensor<1048576xf32>) -> tensor<i64> {
  // CHECK: %[[M:.*]] = op.amax %[[X:.*]] {dims = array<i64: 1>, keepdim = true} : (tensor<256x4096xf32>) -> tensor<256x1xf32>
  // CHECK: op.ne %[[X]], %[[X]]
  // CHECK: op.argmax {{.*}} : (tensor<256x4096xf32>) -> tensor<256xi64>
  // CHECK: op.constant dense<{{.*}}> : tensor<256xi64>
  // CHECK: op.amin {{.*}} : (tensor<1x256xi64>) -> tensor<1x1xi64>
  %s = op.argmax %x {dim = 0 : i64, keepdim = false} : (tensor<1048576xf32>) -> tensor<i64>
  return %s : tensor<i64>
}

// A softmax of one long row: its maximum, its sum, and what is left for each element.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<1x1048576xf32>) -> tensor<1x1048576xf32> {
  // CHECK: op.amax {{.*}} : (tensor<1x256x4096xf32>) -> tensor<1x256xf32>
  // CHECK: op.amax {{.*}} : (tensor<1x256xf32>) -> tensor<1xf32>
  // CHECK: op.sum {{.*}} : (tensor<1x256x4096xf32>) -> tensor<1x256xf32>
  // CHECK: op.sum {{.*}} : (tensor<1x256xf32>) -> tensor<1xf32>
  // CHECK: op.div {{.*}} -> tensor<1x1048576xf32>
  %s = op.softmax %x {dim = 1 : i64} : (tensor<1x1048576xf32>) -> tensor<1x1048576xf32>
  return %s : tensor<1x1048576xf32>
}

// Refused: rows for all processors; a prime length; a named extent.
// CHECK-LABEL: func.func @stays
func.func @stays(%a: tensor<40x1048576xf32>, %b: tensor<1x1048583xf32>, %c: tensor<?x8xf32, #op.dims<[n, 8]>>)
    -> (tensor<40xf32>, tensor<1xf32>, tensor<8xf32>) {
  // CHECK-COUNT-3: op.sum
  // CHECK-NOT: op.sum
  // CHECK: return
  %0 = op.sum %a {dims = array<i64: 1>, keepdim = false} : (tensor<40x1048576xf32>) -> tensor<40xf32>
  %1 = op.sum %b {dims = array<i64: 1>, keepdim = false} : (tensor<1x1048583xf32>) -> tensor<1xf32>
  %t = op.permute %c {dims = array<i64: 1, 0>} : (tensor<?x8xf32, #op.dims<[n, 8]>>) -> tensor<8x?xf32, #op.dims<[8, n]>>
  %2 = op.sum %t {dims = array<i64: 1>, keepdim = false} : (tensor<8x?xf32, #op.dims<[8, n]>>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<40xf32>, tensor<1xf32>, tensor<8xf32>
}

// What a cluster holds is left to one kernel, with all stages; a block alone holds less.
// CHECK-LABEL: func.func @held
// OLD-LABEL: func.func @held
func.func @held(%d: tensor<2x131072xf32>) -> tensor<2x131072xf32> {
  // CHECK: op.softmax
  // OLD-NOT: op.softmax
  %0 = op.softmax %d {dim = 1 : i64} : (tensor<2x131072xf32>) -> tensor<2x131072xf32>
  return %0 : tensor<2x131072xf32>
}

// sqrt(20000) = 141 parts are wanted: 160 or 125, of the rest each. What the parts before have is shifted by one.
// CHECK-LABEL: func.func @running
// CHECK: %[[X:.*]] = op.reshape %{{.*}} : (tensor<2x20000xf32>) -> tensor<2x[[PARTS:[0-9]+]]x[[EACH:[0-9]+]]xf32>
// CHECK: %[[OWN:.*]] = op.cumsum %[[X]] {dim = 2 : i64}
// CHECK: %[[LAST:.*]] = op.slice %[[OWN]]
// CHECK: %[[TOTALS:.*]] = op.reshape %[[LAST]] : (tensor<2x[[PARTS]]x1xf32>) -> tensor<2x[[PARTS]]xf32>
// CHECK: %[[UPTO:.*]] = op.cumsum %[[TOTALS]] {dim = 1 : i64}
// CHECK: %[[SHIFTED:.*]] = op.slice %[[UPTO]]
// CHECK: op.cat %{{.*}}, %[[SHIFTED]] {dim = 1 : i64}
// CHECK: op.add %[[OWN]]
func.func @running(%x: tensor<2x20000xf32>) -> tensor<2x20000xf32> {
  %y = op.cumsum %x {dim = 1 : i64} : (tensor<2x20000xf32>) -> tensor<2x20000xf32>
  return %y : tensor<2x20000xf32>
}

// A prime, a dim that is not the last, rows enough, and a short row stay whole.
// CHECK-LABEL: func.func @whole_running
// CHECK-NOT: op.reshape
// CHECK-COUNT-4: op.cumsum
// CHECK-NOT: op.cumsum
// CHECK: return
func.func @whole_running(%a: tensor<16411xf32>, %b: tensor<20000x1xf32>, %c: tensor<17x20000xf32>, %d: tensor<4000xi64>) -> (tensor<16411xf32>, tensor<20000x1xf32>, tensor<17x20000xf32>, tensor<4000xi64>) {
  %e = op.cumsum %a {dim = 0 : i64} : (tensor<16411xf32>) -> tensor<16411xf32>
  %f = op.cumsum %b {dim = 0 : i64} : (tensor<20000x1xf32>) -> tensor<20000x1xf32>
  %g = op.cumsum %c {dim = 1 : i64} : (tensor<17x20000xf32>) -> tensor<17x20000xf32>
  %h = op.cumsum %d {dim = 0 : i64} : (tensor<4000xi64>) -> tensor<4000xi64>
  return %e, %f, %g, %h : tensor<16411xf32>, tensor<20000x1xf32>, tensor<17x20000xf32>, tensor<4000xi64>
}

// Rows of the channels of an image that will lie channels last are no columns, though the image is permuted; those of one that comes
// in row-major are.
// CHECK-LABEL: func.func @channels
// CHECK: op.amax %{{.*}} {dims = array<i64: 3>{{.*}} : (tensor<8x32x32x128xf32>)
// CHECK: op.amax %{{.*}} {{.*}}: (tensor<8x8x32x32x16xf32>) -> tensor<8x8x32x32xf32>
func.func @channels(%x: tensor<8x128x32x32xf32>) -> (tensor<8x32x32xf32>, tensor<8x32x32xf32>) {
  %w = op.parameter "w" : tensor<128x1x3x3xf32>
  %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 128 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<8x128x32x32xf32>, tensor<128x1x3x3xf32>) -> tensor<8x128x32x32xf32>
  %last = op.permute %y {dims = array<i64: 0, 2, 3, 1>} : (tensor<8x128x32x32xf32>) -> tensor<8x32x32x128xf32>
  %a = op.amax %last {dims = array<i64: 3>, keepdim = false} : (tensor<8x32x32x128xf32>) -> tensor<8x32x32xf32>
  %first = op.permute %x {dims = array<i64: 0, 2, 3, 1>} : (tensor<8x128x32x32xf32>) -> tensor<8x32x32x128xf32>
  %b = op.amax %first {dims = array<i64: 3>, keepdim = false} : (tensor<8x32x32x128xf32>) -> tensor<8x32x32xf32>
  return %a, %b : tensor<8x32x32xf32>, tensor<8x32x32xf32>
}

// The pass looks at each op once, though 2^40 paths lead from each reduction to the argument: the guess where an image
// lies (amax), the search for a permute and the test whether the reduced dims are one dim (sum).
// CHECK-LABEL: func.func @many_paths
// CHECK: op.amax
// CHECK: op.sum
func.func @many_paths(%x: tensor<8x8x4x4xf32>) -> (tensor<8x4x4xf32>, tensor<8x8xf32>) {
  %y1 = op.mul %x, %x : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y2 = op.mul %y1, %y1 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y3 = op.mul %y2, %y2 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y4 = op.mul %y3, %y3 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y5 = op.mul %y4, %y4 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y6 = op.mul %y5, %y5 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y7 = op.mul %y6, %y6 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y8 = op.mul %y7, %y7 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y9 = op.mul %y8, %y8 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y10 = op.mul %y9, %y9 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y11 = op.mul %y10, %y10 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y12 = op.mul %y11, %y11 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y13 = op.mul %y12, %y12 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y14 = op.mul %y13, %y13 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y15 = op.mul %y14, %y14 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y16 = op.mul %y15, %y15 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y17 = op.mul %y16, %y16 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y18 = op.mul %y17, %y17 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y19 = op.mul %y18, %y18 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y20 = op.mul %y19, %y19 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y21 = op.mul %y20, %y20 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y22 = op.mul %y21, %y21 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y23 = op.mul %y22, %y22 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y24 = op.mul %y23, %y23 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y25 = op.mul %y24, %y24 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y26 = op.mul %y25, %y25 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y27 = op.mul %y26, %y26 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y28 = op.mul %y27, %y27 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y29 = op.mul %y28, %y28 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y30 = op.mul %y29, %y29 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y31 = op.mul %y30, %y30 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y32 = op.mul %y31, %y31 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y33 = op.mul %y32, %y32 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y34 = op.mul %y33, %y33 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y35 = op.mul %y34, %y34 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y36 = op.mul %y35, %y35 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y37 = op.mul %y36, %y36 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y38 = op.mul %y37, %y37 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y39 = op.mul %y38, %y38 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %y40 = op.mul %y39, %y39 : (tensor<8x8x4x4xf32>, tensor<8x8x4x4xf32>) -> tensor<8x8x4x4xf32>
  %last = op.permute %y40 {dims = array<i64: 0, 2, 3, 1>} : (tensor<8x8x4x4xf32>) -> tensor<8x4x4x8xf32>
  %a = op.amax %last {dims = array<i64: 3>, keepdim = false} : (tensor<8x4x4x8xf32>) -> tensor<8x4x4xf32>
  %b = op.sum %y40 {dims = array<i64: 2, 3>, keepdim = false} : (tensor<8x8x4x4xf32>) -> tensor<8x8xf32>
  return %a, %b : tensor<8x4x4xf32>, tensor<8x8xf32>
}
