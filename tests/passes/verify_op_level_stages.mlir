// RUN: not straightline-opt %s --verify-op-level="stage=decomposed" 2>&1 | FileCheck %s --check-prefix=DECOMPOSED
// RUN: not straightline-opt %s --verify-op-level="stage=fused" 2>&1 | FileCheck %s --check-prefix=FUSED
// RUN: not straightline-opt %s --verify-op-level="stage=planned" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: straightline-opt %s --decompose-ops --fuse-contractions --fuse-reductions --fuse-pointwise --verify-op-level="stage=fused"

// STAGE: verify-op-level: stage is "planned" but captured, decomposed or fused is needed
func.func @forward(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // FUSED: 'op.relu' stands outside a fusion at stage fused: is fuse-pointwise missing?
  %y = op.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // DECOMPOSED: 'op.select' is left at stage decomposed: is decompose-ops missing?
  // FUSED: 'op.select' is left at stage fused: is decompose-ops missing?
  %z = op.select %y {dim = 0 : i64, index = 0 : i64} : (tensor<4x8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
