// RUN: straightline-opt %s --split-input-file --quantized-linears | FileCheck %s

// Both bytes: the sums are exact, then zero point of x (a literal), scales, bias.
// CHECK-LABEL: func.func @both
// CHECK-DAG: %[[W:.*]] = op.parameter "w"
// CHECK: %[[ACC:.*]] = op.linear %arg0, %[[W]] : (tensor<4x8xi8>, tensor<3x8xi8>) -> tensor<4x3xi32>
// CHECK: op.sum {{.*}} : (tensor<3x8xi64>) -> tensor<3xi64>
// CHECK: op.sub %[[ACC]], {{.*}} : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi32>
// CHECK-NEXT: op.to_dtype {{.*}} -> tensor<4x3xf32>
// CHECK: op.mul
// CHECK: op.add
func.func @both(%q: tensor<4x8xi8>) -> tensor<4x3xf32> {
  %w = op.parameter "w" : tensor<3x8xi8>
  %s = op.parameter "s" : tensor<3x1xf32>
  %b = op.parameter "b" : tensor<3xf32>
  %zero = op.full {value = 5.0 : f64} : tensor<4x8xf32>
  %scale = op.full {value = 0.5 : f64} : tensor<4x8xf32>
  %qf = op.to_dtype %q : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %qz = op.sub %qf, %zero : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = op.mul %qz, %scale : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %wf = op.to_dtype %w : (tensor<3x8xi8>) -> tensor<3x8xf32>
  %sx = op.expand %s : (tensor<3x1xf32>) -> tensor<3x8xf32>
  %wd = op.mul %wf, %sx : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = op.linear %x, %wd, %b : (tensor<4x8xf32>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// The weight alone: it stays stored as bytes, the scale comes behind the sums.
// CHECK-LABEL: func.func @weight
// CHECK: %[[WIDE:.*]] = op.to_dtype %{{.*}} : (tensor<3x8xi8>) -> tensor<3x8xf32>
// CHECK: op.linear %arg0, %[[WIDE]] : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
// CHECK: op.mul
func.func @weight(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {
  %w = op.parameter "w" : tensor<3x8xi8>
  %s = op.parameter "s" : tensor<3x1xf32>
  %wf = op.to_dtype %w : (tensor<3x8xi8>) -> tensor<3x8xf32>
  %sx = op.expand %s : (tensor<3x1xf32>) -> tensor<3x8xf32>
  %wd = op.mul %wf, %sx : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = op.linear %x, %wd : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// A scale for each column of the weight is no factor of the sums.
// CHECK-LABEL: func.func @per_input
// CHECK: op.linear {{.*}} : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: return
func.func @per_input(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {
  %w = op.parameter "w" : tensor<3x8xi8>
  %s = op.parameter "s" : tensor<8xf32>
  %wf = op.to_dtype %w : (tensor<3x8xi8>) -> tensor<3x8xf32>
  %sx = op.expand %s : (tensor<8xf32>) -> tensor<3x8xf32>
  %wd = op.mul %wf, %sx : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = op.linear %x, %wd : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// A zero point that is no integer leaves no exact sum.
// CHECK-LABEL: func.func @half_a_zero_point
// CHECK-NOT: xi32>
func.func @half_a_zero_point(%q: tensor<4x8xi8>) -> tensor<4x3xf32> {
  %w = op.parameter "w" : tensor<3x8xi8>
  %zero = op.full {value = 0.5 : f64} : tensor<4x8xf32>
  %scale = op.full {value = 0.5 : f64} : tensor<4x8xf32>
  %qf = op.to_dtype %q : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %qz = op.sub %qf, %zero : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = op.mul %qz, %scale : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %wf = op.to_dtype %w : (tensor<3x8xi8>) -> tensor<3x8xf32>
  %sw = op.full {value = 0.25 : f64} : tensor<3x8xf32>
  %wd = op.mul %wf, %sw : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = op.linear %x, %wd : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// Bytes that are subtracted as bytes wrap around: the difference itself is what is multiplied.
// CHECK-LABEL: func.func @wraps
// CHECK: %[[D:.*]] = op.sub %arg0, {{.*}} -> tensor<4x8xi8>
// CHECK: op.linear %[[D]], {{.*}} -> tensor<4x3xi32>
func.func @wraps(%q: tensor<4x8xi8>) -> tensor<4x3xf32> {
  %w = op.parameter "w" : tensor<3x8xi8>
  %zero = op.full {value = 5 : i64} : tensor<4x8xi8>
  %scale = op.full {value = 0.5 : f64} : tensor<4x8xf32>
  %qz = op.sub %q, %zero : (tensor<4x8xi8>, tensor<4x8xi8>) -> tensor<4x8xi8>
  %qf = op.to_dtype %qz : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %x = op.mul %qf, %scale : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %wf = op.to_dtype %w : (tensor<3x8xi8>) -> tensor<3x8xf32>
  %sw = op.full {value = 0.25 : f64} : tensor<3x8xf32>
  %wd = op.mul %wf, %sw : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = op.linear %x, %wd : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// A device has no kernels for bytes.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: func.func @device
  // CHECK: op.linear {{.*}} : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: return
  func.func @device(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {
    %w = op.parameter "w" : tensor<3x8xi8>
    %sw = op.full {value = 0.25 : f64} : tensor<3x8xf32>
    %wf = op.to_dtype %w : (tensor<3x8xi8>) -> tensor<3x8xf32>
    %wd = op.mul %wf, %sw : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %y = op.linear %x, %wd : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
}

// -----

// Beside the image there are zeros: less 3 times the weights that meet it, a convolution of ones. Then the scales, and the bias.
// CHECK-LABEL: func.func @convolution
// CHECK-DAG: %[[W:.*]] = op.parameter "w"
// CHECK: %[[SUMS:.*]] = op.convolution %arg0, %[[W]] {{.*}} : (tensor<2x4x6x6xi8>, tensor<3x4x3x3xi8>) -> tensor<2x3x6x6xi32>
// CHECK: op.convolution %{{.*}}, %[[W]] {{.*}} : (tensor<1x4x6x6xi8>, tensor<3x4x3x3xi8>) -> tensor<1x3x6x6xi32>
// CHECK: op.sub %[[SUMS]]
// CHECK: op.to_dtype {{.*}} -> tensor<2x3x6x6xf32>
// CHECK: op.mul
// CHECK: op.add
func.func @convolution(%q: tensor<2x4x6x6xi8>) -> tensor<2x3x6x6xf32> {
  %w = op.parameter "w" : tensor<3x4x3x3xi8>
  %s = op.parameter "s" : tensor<3x1x1x1xf32>
  %b = op.parameter "b" : tensor<3xf32>
  %zero = op.full {value = 3.0 : f64} : tensor<2x4x6x6xf32>
  %scale = op.full {value = 0.5 : f64} : tensor<2x4x6x6xf32>
  %qf = op.to_dtype %q : (tensor<2x4x6x6xi8>) -> tensor<2x4x6x6xf32>
  %qz = op.sub %qf, %zero : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  %x = op.mul %qz, %scale : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  %wf = op.to_dtype %w : (tensor<3x4x3x3xi8>) -> tensor<3x4x3x3xf32>
  %sx = op.expand %s : (tensor<3x1x1x1xf32>) -> tensor<3x4x3x3xf32>
  %wd = op.mul %wf, %sx : (tensor<3x4x3x3xf32>, tensor<3x4x3x3xf32>) -> tensor<3x4x3x3xf32>
  %y = op.convolution %x, %wd, %b {stride = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x4x6x6xf32>, tensor<3x4x3x3xf32>, tensor<3xf32>) -> tensor<2x3x6x6xf32>
  return %y : tensor<2x3x6x6xf32>
}

// -----

// Groups of two outputs are too few for a kernel of bytes: a convolution of floats without scales, whose sums are exact.
// CHECK-LABEL: func.func @groups(
// CHECK: %[[X:.*]] = op.to_dtype %arg0 : (tensor<2x8x6x6xi8>) -> tensor<2x8x6x6xf32>
// CHECK: %[[SUMS:.*]] = op.convolution %[[X]], %{{.*}} {{.*}}groups = 2{{.*}} -> tensor<2x4x4x4xf32>
// CHECK: op.mul %[[SUMS]]
func.func @groups(%q: tensor<2x8x6x6xi8>) -> tensor<2x4x4x4xf32> {
  %w = op.parameter "w" : tensor<4x4x3x3xi8>
  %scale = op.full {value = 0.5 : f64} : tensor<2x8x6x6xf32>
  %qf = op.to_dtype %q : (tensor<2x8x6x6xi8>) -> tensor<2x8x6x6xf32>
  %x = op.mul %qf, %scale : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  %wf = op.to_dtype %w : (tensor<4x4x3x3xi8>) -> tensor<4x4x3x3xf32>
  %s = op.full {value = 0.25 : f64} : tensor<4x4x3x3xf32>
  %wd = op.mul %wf, %s : (tensor<4x4x3x3xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x3x3xf32>
  %y = op.convolution %x, %wd {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 2 : i64} : (tensor<2x8x6x6xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x4x4xf32>
  return %y : tensor<2x4x4x4xf32>
}

// -----

// Two groups of four and more channels are convolutions of bytes, side by side; six channels are padded to eight.
// CHECK-LABEL: func.func @groups_of_bytes
// CHECK: op.slice %arg0 {{.*}} -> tensor<2x6x6x6xi8>
// CHECK: op.constant_pad_nd {{.*}}pad = array<i64: 0, 0, 0, 0, 0, 2>{{.*}} -> tensor<2x8x6x6xi8>
// CHECK: op.convolution {{.*}} : (tensor<2x8x6x6xi8>, tensor<4x8x3x3xi8>) -> tensor<2x4x4x4xi32>
// CHECK: op.convolution {{.*}} : (tensor<2x8x6x6xi8>, tensor<4x8x3x3xi8>) -> tensor<2x4x4x4xi32>
// CHECK: op.cat
func.func @groups_of_bytes(%q: tensor<2x12x6x6xi8>) -> tensor<2x8x4x4xi32> {
  %w = op.parameter "w" : tensor<8x6x3x3xi8>
  %x = op.to_dtype %q : (tensor<2x12x6x6xi8>) -> tensor<2x12x6x6xf64>
  %wf = op.to_dtype %w : (tensor<8x6x3x3xi8>) -> tensor<8x6x3x3xf64>
  %y = op.convolution %x, %wf {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 2 : i64} : (tensor<2x12x6x6xf64>, tensor<8x6x3x3xf64>) -> tensor<2x8x4x4xf64>
  %z = op.to_dtype %y : (tensor<2x8x4x4xf64>) -> tensor<2x8x4x4xi32>
  return %z : tensor<2x8x4x4xi32>
}

// -----

// A signal is an image of one row, and unequal pads are zeros around its bytes.
// CHECK-LABEL: func.func @signal
// CHECK: op.constant_pad_nd %arg0 {{.*}} -> tensor<1x4x9xi8>
// CHECK: op.convolution {{.*}} : (tensor<1x4x1x9xi8>, tensor<5x4x1x3xi8>) -> tensor<1x5x1x7xi32>
// CHECK: op.reshape {{.*}} -> tensor<1x5x7xi32>
func.func @signal(%q: tensor<1x4x6xi8>) -> tensor<1x5x7xi32> {
  %w = op.parameter "w" : tensor<5x4x3xi8>
  %x = op.to_dtype %q : (tensor<1x4x6xi8>) -> tensor<1x4x6xf64>
  %p = op.constant_pad_nd %x {pad = array<i64: 1, 2>, value = 0.0 : f64} : (tensor<1x4x6xf64>) -> tensor<1x4x9xf64>
  %wf = op.to_dtype %w : (tensor<5x4x3xi8>) -> tensor<5x4x3xf64>
  %y = op.convolution %p, %wf {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, transposed = false, output_padding = array<i64: 0>, groups = 1 : i64} : (tensor<1x4x9xf64>, tensor<5x4x3xf64>) -> tensor<1x5x7xf64>
  %z = op.to_dtype %y : (tensor<1x5x7xf64>) -> tensor<1x5x7xi32>
  return %z : tensor<1x5x7xi32>
}

// -----

// 259 products of two unsigned bytes: neither a kernel of bytes for one channel a group, nor exact sums of f32.
// CHECK-LABEL: func.func @inexact
// CHECK: op.convolution {{.*}} -> tensor<1x2x1xf64>
func.func @inexact(%q: tensor<1x2x259xui8>) -> tensor<1x2x1xi32> {
  %w = op.parameter "w" : tensor<2x1x259xui8>
  %x = op.to_dtype %q : (tensor<1x2x259xui8>) -> tensor<1x2x259xf64>
  %wf = op.to_dtype %w : (tensor<2x1x259xui8>) -> tensor<2x1x259xf64>
  %y = op.convolution %x, %wf {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, transposed = false, output_padding = array<i64: 0>, groups = 2 : i64} : (tensor<1x2x259xf64>, tensor<2x1x259xf64>) -> tensor<1x2x1xf64>
  %z = op.to_dtype %y : (tensor<1x2x1xf64>) -> tensor<1x2x1xi32>
  return %z : tensor<1x2x1xi32>
}

// -----

// Kernels of bytes pack the weight, which an argument's elements are not there for.
// CHECK-LABEL: func.func @weight_of_the_run
// CHECK: op.convolution {{.*}} -> tensor<1x8x4x4xf64>
func.func @weight_of_the_run(%q: tensor<1x80x6x6xi8>, %w: tensor<8x80x3x3xi8>) -> tensor<1x8x4x4xi32> {
  %x = op.to_dtype %q : (tensor<1x80x6x6xi8>) -> tensor<1x80x6x6xf64>
  %wf = op.to_dtype %w : (tensor<8x80x3x3xi8>) -> tensor<8x80x3x3xf64>
  %y = op.convolution %x, %wf {stride = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, transposed = false, output_padding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x80x6x6xf64>, tensor<8x80x3x3xf64>) -> tensor<1x8x4x4xf64>
  %z = op.to_dtype %y : (tensor<1x8x4x4xf64>) -> tensor<1x8x4x4xi32>
  return %z : tensor<1x8x4x4xi32>
}
