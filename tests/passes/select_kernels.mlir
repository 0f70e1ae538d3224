// RUN: straightline-opt %s --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --select-kernels -o %t.once && straightline-opt %t.once --select-kernels -o %t.twice && diff %t.once %t.twice

// A row times a matrix: gemv wins, and the reasons name the rival with its cost. The pass runs alone, on a module without a target.
// CHECK-LABEL: func.func @row
// CHECK: op.fusion{{.*}}family = "gemm"{{.*}}op.kernel = "native.gemv", op.why = "native.gemv: estimated {{.*}} us (native.gemm: estimated {{.*}} us)"
func.func @row(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
  %w = op.parameter "w" : tensor<10x64xf32>
  %b = op.parameter "b" : tensor<10xf32>
  %y = op.linear %x, %w, %b : (tensor<1x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<1x10xf32>
  %z = op.relu %y : (tensor<1x10xf32>) -> tensor<1x10xf32>
  return %z : tensor<1x10xf32>
}

// The choice and the reasons against its rivals.
// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<32x64xf32>) -> tensor<32x16xf32> {
  // CHECK: op.fusion({{.*}}) {family = "gemm", op.kernel = "native.gemm", op.why = "native.gemm: estimated {{.*}} us (
  %w = op.parameter "w" : tensor<16x64xf32>
  %y = op.linear %x, %w : (tensor<32x64xf32>, tensor<16x64xf32>) -> tensor<32x16xf32>
  return %y : tensor<32x16xf32>
}

// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<1x8x14x14xf32>) -> tensor<1x16x14x14xf32> {
  // CHECK: op.fusion({{.*}}) {family = "convolution", op.kernel = "native.{{convolution|winograd}}", op.why = "
  %w = op.parameter "w" : tensor<16x8x3x3xf32>
  %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x8x14x14xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x14x14xf32>
  return %y : tensor<1x16x14x14xf32>
}

// Nothing to choose outside of contractions.
// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: op.kernel
  %y = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
