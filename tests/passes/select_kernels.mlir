// RUN: straightline-opt %s --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --select-kernels -o %t.once && straightline-opt %t.once --select-kernels -o %t.twice && diff %t.once %t.twice

// A row times a matrix that is known early: gemv wins, and the reasons name the rival with its cost. The pass runs alone, on a
// module without a target.
// CHECK-LABEL: func.func @row
// CHECK: op.fusion{{.*}}family = "gemm"{{.*}}op.kernel = "native.gemv", op.why = "native.gemv: estimated {{.*}} us (native.gemm: estimated {{.*}} us)"
func.func @row(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
  %w = op.parameter "w" : tensor<10x64xf32>
  %b = op.parameter "b" : tensor<10xf32>
  %y = op.linear %x, %w, %b : (tensor<1x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<1x10xf32>
  %z = op.relu %y : (tensor<1x10xf32>) -> tensor<1x10xf32>
  return %z : tensor<1x10xf32>
}
