// RUN: straightline-opt %s --split-input-file --split-prepare --fuse-contractions --fuse-pointwise --select-kernels --lower-to-kernel | FileCheck %s

// A product with one column, or with one row, of tensors of the run: the matrix is read as it lies, nothing is packed.
// CHECK-LABEL: kernel.program @column
// CHECK: kernel.launch @matvec_1x64x1x32(%arg0, %{{.*}}) outs({{.*}}) on
// CHECK-SAME: why = "native.matvec: estimated {{.*}} us (native.matmul: estimated {{.*}} us)"
// CHECK: schedule(<"matvec", shape = {batch = [1, 1, 1], rows = 64, k = 32, mBatch = [0, 0, 0], mRow = 32, mCol = 1, {{.*}} outStep = 1
func.func @column(%a: tensor<64x32xf32>, %x: tensor<32x1xf32>) -> tensor<64x1xf32> {
  %y = op.matmul %a, %x : (tensor<64x32xf32>, tensor<32x1xf32>) -> tensor<64x1xf32>
  return %y : tensor<64x1xf32>
}

// -----

// CHECK-LABEL: kernel.program @row
// CHECK: kernel.launch @matvec_6x1x64x32(%arg1, %arg0)
// CHECK: schedule(<"matvec", shape = {batch = [1, 1, 6], rows = 64, k = 32, mBatch = [0, 0, 2048], mRow = 1, mCol = 64, xBatch = [0, 0, 32]
func.func @row(%x: tensor<6x1x32xf32>, %b: tensor<6x32x64xf32>) -> tensor<6x1x64xf32> {
  %y = op.matmul %x, %b : (tensor<6x1x32xf32>, tensor<6x32x64xf32>) -> tensor<6x1x64xf32>
  return %y : tensor<6x1x64xf32>
}

// -----

// A weight that is computed while running lies along its rows; the bias is one for each of them.
// CHECK-LABEL: kernel.program @linear
// CHECK: kernel.launch @matvec_1x1x64x32_bias(%arg1, %arg0, %arg2)
// CHECK: schedule(<"matvec", shape = {{.*}} mRow = 32, mCol = 1, {{.*}} epilogueStride = {{\[\[}}0, 0, 0, 1]]
func.func @linear(%x: tensor<1x32xf32>, %w: tensor<64x32xf32>, %b: tensor<64xf32>) -> tensor<1x64xf32> {
  %y = op.linear %x, %w, %b : (tensor<1x32xf32>, tensor<64x32xf32>, tensor<64xf32>) -> tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}

// -----

// Dense along neither side: copied first. A vector with gaps, too.
// CHECK-LABEL: kernel.program @gaps
// CHECK: the vector of a product is read densely
// CHECK: the matrix of a product is read along its rows or its columns
// CHECK: kernel.launch @matvec_1x64x1x32
func.func @gaps(%a: tensor<64x64xf32>, %x: tensor<32x2xf32>) -> tensor<64x1xf32> {
  %half = op.slice %a {dim = 1 : i64, start = 0 : i64, end = 64 : i64, step = 2 : i64} : (tensor<64x64xf32>) -> tensor<64x32xf32>
  %column = op.slice %x {dim = 1 : i64, start = 0 : i64, end = 1 : i64, step = 1 : i64} : (tensor<32x2xf32>) -> tensor<32x1xf32>
  %y = op.matmul %half, %column : (tensor<64x32xf32>, tensor<32x1xf32>) -> tensor<64x1xf32>
  return %y : tensor<64x1xf32>
}

// -----

// Several rows and columns are no question for it.
// CHECK-LABEL: kernel.program @several
// CHECK: kernel.launch @matmul_1x2x64x32
// CHECK-NOT: matvec
func.func @several(%x: tensor<2x32xf32>, %b: tensor<32x64xf32>) -> tensor<2x64xf32> {
  %y = op.matmul %x, %b : (tensor<2x32xf32>, tensor<32x64xf32>) -> tensor<2x64xf32>
  return %y : tensor<2x64xf32>
}
