// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<?x8xf32, #op.dims<[b, 8]>>, %w: tensor<3x8xf32>, %b: tensor<3xf32>, %m: tensor<2x4x8xf32>, %n: tensor<2x8x5xf32>, %q: tensor<2x4x5x8xf32>, %k: tensor<2x2x7x8xf32>, %mask: tensor<5x7xi1>, %images: tensor<4x1x5x8xf32>, %ofTwo: tensor<2x1x1x5xf32>) {
  // CHECK: op.linear{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  %biased = op.linear %x, %w, %b : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  // CHECK: op.linear{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<3x8xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  %plain = op.linear %x, %w : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<3x8xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  // CHECK: op.matmul{{.*}} : (tensor<2x4x8xf32>, tensor<2x8x5xf32>) -> tensor<2x4x5xf32>
  %mm = op.matmul %m, %n : (tensor<2x4x8xf32>, tensor<2x8x5xf32>) -> tensor<2x4x5xf32>
  // CHECK: op.scaled_dot_product_attention{{.*}}{is_causal = false, scale = 1.250000e-01 : f64}{{.*}} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<5x7xi1>) -> tensor<2x4x5x8xf32>
  %masked = op.scaled_dot_product_attention %q, %k, %k mask %mask {is_causal = false, scale = 1.250000e-01 : f64} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<5x7xi1>) -> tensor<2x4x5x8xf32>
  // CHECK: op.scaled_dot_product_attention{{.*}}{is_causal = true}{{.*}} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>) -> tensor<2x4x5x8xf32>
  %sdpa = op.scaled_dot_product_attention %q, %k, %k {is_causal = true} : (tensor<2x4x5x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>) -> tensor<2x4x5x8xf32>
  // A mask of 2 images for 4: by turns.
  // CHECK: op.scaled_dot_product_attention{{.*}} {empty_is_nan, is_causal = false} : (tensor<4x1x5x8xf32>, tensor<4x1x5x8xf32>, tensor<4x1x5x8xf32>, tensor<2x1x1x5xf32>) -> tensor<4x1x5x8xf32>
  %turns = op.scaled_dot_product_attention %images, %images, %images mask %ofTwo {empty_is_nan, is_causal = false} : (tensor<4x1x5x8xf32>, tensor<4x1x5x8xf32>, tensor<4x1x5x8xf32>, tensor<2x1x1x5xf32>) -> tensor<4x1x5x8xf32>
  return
}

// CHECK-LABEL: func.func @groups
func.func @groups(%a: tensor<?x8xf32, #op.dims<[b, 8]>>, %w: tensor<3x8x5xf32>, %e: tensor<3xi64>) -> tensor<?x5xf32, #op.dims<[b, 5]>> {
  // CHECK: op.grouped_matmul{{.*}} : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<3x8x5xf32>, tensor<3xi64>) -> tensor<?x5xf32, #op.dims<[b, 5]>>
  %y = op.grouped_matmul %a, %w, %e : (tensor<?x8xf32, #op.dims<[b, 8]>>, tensor<3x8x5xf32>, tensor<3xi64>) -> tensor<?x5xf32, #op.dims<[b, 5]>>
  return %y : tensor<?x5xf32, #op.dims<[b, 5]>>
}

// CHECK-LABEL: func.func @groups_of_terms
func.func @groups_of_terms(%a: tensor<9x?xf32, #op.dims<[9, b]>>, %w: tensor<?x5xf32, #op.dims<[b, 5]>>, %e: tensor<3xi64>) -> tensor<3x9x5xf32> {
  // CHECK: op.grouped_matmul{{.*}} : (tensor<9x?xf32, #op.dims<[9, b]>>, tensor<?x5xf32, #op.dims<[b, 5]>>, tensor<3xi64>) -> tensor<3x9x5xf32>
  %y = op.grouped_matmul %a, %w, %e : (tensor<9x?xf32, #op.dims<[9, b]>>, tensor<?x5xf32, #op.dims<[b, 5]>>, tensor<3xi64>) -> tensor<3x9x5xf32>
  return %y : tensor<3x9x5xf32>
}

// CHECK-LABEL: func.func @bytes
func.func @bytes(%x: tensor<?x8xi8, #op.dims<[b, 8]>>, %w: tensor<3x8xi8>) -> tensor<?x3xi32, #op.dims<[b, 3]>> {
  // CHECK: op.linear{{.*}} : (tensor<?x8xi8, #op.dims<[b, 8]>>, tensor<3x8xi8>) -> tensor<?x3xi32, #op.dims<[b, 3]>>
  %y = op.linear %x, %w : (tensor<?x8xi8, #op.dims<[b, 8]>>, tensor<3x8xi8>) -> tensor<?x3xi32, #op.dims<[b, 3]>>
  return %y : tensor<?x3xi32, #op.dims<[b, 3]>>
}

