// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<4x8xf32>) {
  // CHECK: op.sum{{.*}}{dims = array<i64: 1>, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
  %sum = op.sum %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: op.mean{{.*}}{dims = array<i64: 1>, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
  %mean = op.mean %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: op.amax{{.*}}{dims = array<i64: 1>, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
  %amax = op.amax %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: op.amin{{.*}}{dims = array<i64: 1>, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
  %amin = op.amin %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: op.prod{{.*}}{dims = array<i64: 1>, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
  %prod = op.prod %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: op.any{{.*}}{dims = array<i64: 0, 1>, keepdim = true}{{.*}} : (tensor<4x8xf32>) -> tensor<1x1xi1>
  %any = op.any %x {dims = array<i64: 0, 1>, keepdim = true} : (tensor<4x8xf32>) -> tensor<1x1xi1>
  // CHECK: op.all{{.*}}{dims = array<i64: 0, 1>, keepdim = true}{{.*}} : (tensor<4x8xf32>) -> tensor<1x1xi1>
  %all = op.all %x {dims = array<i64: 0, 1>, keepdim = true} : (tensor<4x8xf32>) -> tensor<1x1xi1>
  // CHECK: op.var{{.*}}{correction = 1.000000e+00 : f64, dims = array<i64: 1>, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
  %var = op.var %x {correction = 1.000000e+00 : f64, dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: op.argmax{{.*}}{dim = 1 : i64, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xi64>
  %argmax = op.argmax %x {dim = 1 : i64, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xi64>
  // CHECK: op.argmin{{.*}}{dim = 1 : i64, keepdim = false}{{.*}} : (tensor<4x8xf32>) -> tensor<4xi64>
  %argmin = op.argmin %x {dim = 1 : i64, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xi64>
  // CHECK: op.softmax{{.*}}{dim = 1 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %softmax = op.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.log_softmax{{.*}}{dim = 1 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log_softmax = op.log_softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.scan{{.*}}{combine = "prod", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %cumprod = op.scan %x {combine = "prod", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.scan{{.*}}{combine = "argmax", dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xi64>
  %places = op.scan %x {combine = "argmax", dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xi64>
  // CHECK: op.cumsum{{.*}}{dim = 1 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %cumsum = op.cumsum %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.topk{{.*}}{dim = 1 : i64, k = 3 : i64, largest = true}{{.*}} : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
  %values, %indices = op.topk %x {dim = 1 : i64, k = 3 : i64, largest = true} : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
  return
}

op.symbol @n {min = 4 : i64, max = 64 : i64}
// CHECK-LABEL: func.func @order_of_named
func.func @order_of_named(%x: tensor<4x?xf32, #op.dims<[4, n]>>) {
  // CHECK: op.topk{{.*}}{dim = 1 : i64, k = 3 : i64, largest = true}
  %values, %indices = op.topk %x {dim = 1 : i64, k = 3 : i64, largest = true} : (tensor<4x?xf32, #op.dims<[4, n]>>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
  // CHECK: op.topk{{.*}}{dim = 1 : i64, k = -1 : i64, largest = false}
  %all, %places = op.topk %x {dim = 1 : i64, k = -1 : i64, largest = false} : (tensor<4x?xf32, #op.dims<[4, n]>>) -> (tensor<4x?xf32, #op.dims<[4, n]>>, tensor<4x?xi64, #op.dims<[4, n]>>)
  return
}

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>, %i: tensor<2x8x5xf32>) {
  // CHECK: op.layer_norm{{.*}}{eps = 1.000000e-05 : f64, normalized_rank = 1 : i64}{{.*}} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %ln2 = op.layer_norm %x weight %w bias %b {eps = 1.000000e-05 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: op.layer_norm{{.*}}{eps = 1.000000e-05 : f64, normalized_rank = 1 : i64}{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %ln1 = op.layer_norm %x bias %b {eps = 1.000000e-05 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: op.layer_norm{{.*}}{eps = 1.000000e-05 : f64, normalized_rank = 2 : i64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %ln0 = op.layer_norm %x {eps = 1.000000e-05 : f64, normalized_rank = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.rms_norm{{.*}}{eps = 1.250000e-01 : f64, normalized_rank = 1 : i64}{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %rms = op.rms_norm %x weight %w {eps = 1.250000e-01 : f64, normalized_rank = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: op.group_norm{{.*}}{eps = 1.000000e-05 : f64, groups = 4 : i64}{{.*}} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  %gn = op.group_norm %i weight %w bias %b {eps = 1.000000e-05 : f64, groups = 4 : i64} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  // CHECK: op.batch_norm{{.*}}{eps = 1.000000e-05 : f64}{{.*}} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  %bn = op.batch_norm %i weight %w bias %b mean %w var %b {eps = 1.000000e-05 : f64} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  // CHECK: op.batch_norm{{.*}}{eps = 1.000000e-05 : f64}{{.*}} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  %bn0 = op.batch_norm %i mean %w var %b {eps = 1.000000e-05 : f64} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  return
}

