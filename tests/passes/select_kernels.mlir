// RUN: straightline-opt %s --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --select-kernels -o %t.once && straightline-opt %t.once --select-kernels -o %t.twice && diff %t.once %t.twice

// A row times a matrix that is known early and does not stay in L2: a packed copy comes faster from L3 and memory than rows on
// small pages, and the reasons name the rivals with their costs. The pass runs alone, on a module without a target.
// CHECK-LABEL: func.func @row
// CHECK: op.fusion{{.*}}family = "gemm"{{.*}}kernel = "native.gemm", why = "native.gemm: estimated {{.*}} us (native.gemv: estimated {{.*}} us; onednn.inner_product: estimated {{.*}} us)"
func.func @row(%x: tensor<1x1024xf32>) -> tensor<1x1024xf32> {
  %w = op.parameter "w" : tensor<1024x1024xf32>
  %b = op.parameter "b" : tensor<1024xf32>
  %y = op.linear %x, %w, %b : (tensor<1x1024xf32>, tensor<1024x1024xf32>, tensor<1024xf32>) -> tensor<1x1024xf32>
  %z = op.relu %y : (tensor<1x1024xf32>) -> tensor<1x1024xf32>
  return %z : tensor<1x1024xf32>
}

// A small matrix: sums across vectors would cost more than the rest, so it is packed.
// CHECK-LABEL: func.func @small_row
// CHECK: op.fusion{{.*}}family = "gemm"{{.*}}kernel = "native.gemm", why = "native.gemm: estimated {{.*}} us (native.gemv: estimated {{.*}} us)"
func.func @small_row(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
  %w = op.parameter "w" : tensor<10x64xf32>
  %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
  return %y : tensor<1x10xf32>
}

// A weight stored in 16 bits: gemm packs it as it is and widens it by itself, and no copy in float32 is made.
// CHECK-LABEL: func.func @stored_row
// CHECK: %[[W:.*]] = op.parameter "w" : tensor<1024x1024xbf16>
// CHECK-NOT: op.to_dtype
// CHECK: op.fusion{{.*}}%[[W]]{{.*}}kernel = "native.gemm"
func.func @stored_row(%x: tensor<1x1024xf32>) -> tensor<1x1024xf32> {
  %w = op.parameter "w" : tensor<1024x1024xbf16>
  %f = op.to_dtype %w {op.prepare} : (tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
  %y = op.linear %x, %f : (tensor<1x1024xf32>, tensor<1024x1024xf32>) -> tensor<1x1024xf32>
  return %y : tensor<1x1024xf32>
}

// The widened weight has another reader: it is kept for that one.
// CHECK-LABEL: func.func @widened_twice
// CHECK: %[[W2:.*]] = op.parameter "w" : tensor<1024x1024xf16>
// CHECK: %[[F2:.*]] = op.to_dtype %[[W2]]
// CHECK: op.fusion{{.*}}%[[W2]]{{.*}}kernel = "native.gemm"
// CHECK: op.relu %[[F2]]
func.func @widened_twice(%x: tensor<1x1024xf32>) -> (tensor<1x1024xf32>, tensor<1024x1024xf32>) {
  %w = op.parameter "w" : tensor<1024x1024xf16>
  %f = op.to_dtype %w {op.prepare} : (tensor<1024x1024xf16>) -> tensor<1024x1024xf32>
  %y = op.linear %x, %f : (tensor<1x1024xf32>, tensor<1024x1024xf32>) -> tensor<1x1024xf32>
  %v = op.relu %f : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %y, %v : tensor<1x1024xf32>, tensor<1024x1024xf32>
}
