// RUN: straightline-opt %s --fuse-contractions --split-prepare --fuse-pointwise --select-kernels -split-input-file | FileCheck %s

// The bytes of all weights that a call reads are counted once, each weight once, and no weight of prepare.
// CHECK: module attributes {op.resident_bytes = 8392704 : i64
module attributes {op.target = #kernel.target<"cpu", "sapphirerapids", vector_bytes = 64, l2 = 2097152, fma_bytes = 128>} {
  func.func @layers(%x: tensor<16x1024xf32>) -> tensor<16x1024xf32> {
    %w = op.parameter "w" : tensor<1024x1024xf32>
    %v = op.parameter "v" : tensor<1024x1024xf32>
    %b = op.parameter "b" : tensor<1024xf32>
    %1 = op.linear %x, %w, %b : (tensor<16x1024xf32>, tensor<1024x1024xf32>, tensor<1024xf32>) -> tensor<16x1024xf32>
    %2 = op.linear %1, %v, %b : (tensor<16x1024xf32>, tensor<1024x1024xf32>, tensor<1024xf32>) -> tensor<16x1024xf32>
    %3 = op.linear %2, %w, %b : (tensor<16x1024xf32>, tensor<1024x1024xf32>, tensor<1024xf32>) -> tensor<16x1024xf32>
    return %3 : tensor<16x1024xf32>
  }
}

// -----

// What a module says already stays: a layer that is measured by itself has the bytes of its model.
// CHECK: module attributes {op.resident_bytes = 12 : i64
module attributes {op.resident_bytes = 12 : i64} {
  func.func @one(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
    %w = op.parameter "w" : tensor<8x8xf32>
    %1 = op.linear %x, %w : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}
