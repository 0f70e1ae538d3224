// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @recurrent
func.func @recurrent(%x: tensor<7x2x3xf32>, %h: tensor<2x2x4xf32>, %wi: tensor<16x3xf32>, %wh: tensor<16x4xf32>, %b: tensor<16xf32>) {
  // CHECK: op.lstm{{.*}}{batch_first = false, bidirectional = true, has_biases = true, num_layers = 1 : i64}{{.*}} : (tensor<7x2x3xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh, %b, %b, %wi, %wh, %b, %b {batch_first = false, bidirectional = true, has_biases = true, num_layers = 1 : i64} : (tensor<7x2x3xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x3xf32>, tensor<16x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<7x2x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)
  return
}

