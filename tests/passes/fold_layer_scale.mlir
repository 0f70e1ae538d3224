// RUN: straightline-opt %s --split-input-file --fold-layer-scale --canonicalize --cse | FileCheck %s
// RUN: straightline-opt %s --split-input-file --fold-layer-scale=freeze=false --canonicalize --cse | FileCheck %s --check-prefix=LIVE

// The scale goes into weight and bias, the residual before the permute: what is left is a linear and an addition.
// CHECK-LABEL: func.func @block
// CHECK: %[[W:.*]] = op.parameter "w"
// CHECK: %[[R:.*]] = op.convolution
// CHECK: %[[WIDE:.*]] = op.to_dtype %[[W]] : (tensor<8x16xf32>) -> tensor<8x16xf64>
// CHECK: %[[SCALED:.*]] = op.mul %[[WIDE]], {{.*}} -> tensor<8x16xf64>
// CHECK: %[[WS:.*]] = op.to_dtype %[[SCALED]]
// CHECK: %[[Y:.*]] = op.linear %arg0, %[[WS]], %{{.*}} -> tensor<1x5x7x8xf32>
// CHECK: %[[IN:.*]] = op.permute %[[R]] {dims = array<i64: 0, 2, 3, 1>}
// CHECK: %[[S:.*]] = op.add %[[IN]], %[[Y]] : (tensor<1x5x7x8xf32>, tensor<1x5x7x8xf32>)
// CHECK: op.permute %[[S]] {dims = array<i64: 0, 3, 1, 2>}
// LIVE-LABEL: func.func @block
// LIVE: %[[Y:.*]] = op.linear %arg0, %{{[0-9]+}}, %{{[0-9]+}} :
// LIVE: op.mul {{.*}} -> tensor<1x8x5x7xf32>
func.func @block(%x: tensor<1x5x7x16xf32>, %image: tensor<1x3x7x9xf32>, %k: tensor<8x3x3x3xf32>) -> tensor<1x8x5x7xf32> {
  %w = op.parameter "w" : tensor<8x16xf32>
  %b = op.parameter "b" : tensor<8xf32>
  %g = op.parameter "g" : tensor<8x1x1xf32>
  %r = op.convolution %image, %k {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<1x3x7x9xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x5x7xf32>
  %y = op.linear %x, %w, %b : (tensor<1x5x7x16xf32>, tensor<8x16xf32>, tensor<8xf32>) -> tensor<1x5x7x8xf32>
  %p = op.permute %y {dims = array<i64: 0, 3, 1, 2>} : (tensor<1x5x7x8xf32>) -> tensor<1x8x5x7xf32>
  %e = op.expand %g : (tensor<8x1x1xf32>) -> tensor<1x8x5x7xf32>
  %m = op.mul %e, %p : (tensor<1x8x5x7xf32>, tensor<1x8x5x7xf32>) -> tensor<1x8x5x7xf32>
  %s = op.add %r, %m : (tensor<1x8x5x7xf32>, tensor<1x8x5x7xf32>) -> tensor<1x8x5x7xf32>
  return %s : tensor<1x8x5x7xf32>
}

// -----

// A linear without bias and permute, as in vision transformers.
// CHECK-LABEL: func.func @rows
// CHECK: op.linear %arg0, %{{[0-9]+}} : (tensor<5x16xf32>, tensor<8x16xf32>)
// CHECK-NOT: op.mul {{.*}}xf32>
// CHECK: return
// LIVE-LABEL: func.func @rows
// LIVE: op.mul
func.func @rows(%x: tensor<5x16xf32>) -> tensor<5x8xf32> {
  %w = op.parameter "w" : tensor<8x16xf32>
  %g = op.parameter "g" : tensor<8xf32>
  %y = op.linear %x, %w : (tensor<5x16xf32>, tensor<8x16xf32>) -> tensor<5x8xf32>
  %e = op.expand %g : (tensor<8xf32>) -> tensor<5x8xf32>
  %m = op.mul %y, %e : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
  return %m : tensor<5x8xf32>
}

// -----

// A factor for each row, one that is an input, a linear that others read, 16-bit floats: refused.
// CHECK-LABEL: func.func @refused
// CHECK-COUNT-4: op.linear
// CHECK-COUNT-3: op.mul {{.*}} -> tensor<8x8xf32>
// CHECK: op.mul {{.*}} -> tensor<8x8xf16>
func.func @refused(%x: tensor<8x16xf32>, %in: tensor<8xf32>, %h: tensor<8x16xf16>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf16>) {
  %w = op.parameter "w" : tensor<8x16xf32>
  %v = op.parameter "v" : tensor<8x16xf32>
  %u = op.parameter "u" : tensor<8x16xf32>
  %wh = op.parameter "wh" : tensor<8x16xf16>
  %rows = op.parameter "rows" : tensor<8x1xf32>
  %g = op.parameter "g" : tensor<8xf32>
  %gh = op.parameter "gh" : tensor<8xf16>
  %a = op.linear %x, %w : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %b = op.linear %x, %v : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %c = op.linear %x, %u : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %d = op.linear %h, %wh : (tensor<8x16xf16>, tensor<8x16xf16>) -> tensor<8x8xf16>
  %er = op.expand %rows : (tensor<8x1xf32>) -> tensor<8x8xf32>
  %ei = op.expand %in : (tensor<8xf32>) -> tensor<8x8xf32>
  %eg = op.expand %g : (tensor<8xf32>) -> tensor<8x8xf32>
  %eh = op.expand %gh : (tensor<8xf16>) -> tensor<8x8xf16>
  %ma = op.mul %a, %er : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %mb = op.mul %b, %ei : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %mc = op.mul %c, %eg : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %md = op.mul %d, %eh : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>
  return %ma, %mb, %mc, %c, %md : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf16>
}

// -----

// A residual that lies row-major, or is permuted in another way: the permute stays where it is.
// CHECK-LABEL: func.func @elsewhere
// CHECK-COUNT-2: op.add {{.*}} -> tensor<1x8x5x7xf32>
func.func @elsewhere(%x: tensor<1x5x7x16xf32>, %r: tensor<1x8x5x7xf32>, %q: tensor<5x7x8x1xf32>) -> (tensor<1x8x5x7xf32>, tensor<1x8x5x7xf32>) {
  %w = op.parameter "w" : tensor<8x16xf32>
  %v = op.parameter "v" : tensor<8x16xf32>
  %y = op.linear %x, %w : (tensor<1x5x7x16xf32>, tensor<8x16xf32>) -> tensor<1x5x7x8xf32>
  %z = op.linear %x, %v : (tensor<1x5x7x16xf32>, tensor<8x16xf32>) -> tensor<1x5x7x8xf32>
  %p = op.permute %y {dims = array<i64: 0, 3, 1, 2>} : (tensor<1x5x7x8xf32>) -> tensor<1x8x5x7xf32>
  %o = op.permute %z {dims = array<i64: 0, 3, 1, 2>} : (tensor<1x5x7x8xf32>) -> tensor<1x8x5x7xf32>
  %t = op.permute %q {dims = array<i64: 3, 2, 0, 1>} : (tensor<5x7x8x1xf32>) -> tensor<1x8x5x7xf32>
  %s = op.add %r, %p : (tensor<1x8x5x7xf32>, tensor<1x8x5x7xf32>) -> tensor<1x8x5x7xf32>
  %u = op.add %o, %t : (tensor<1x8x5x7xf32>, tensor<1x8x5x7xf32>) -> tensor<1x8x5x7xf32>
  return %s, %u : tensor<1x8x5x7xf32>, tensor<1x8x5x7xf32>
}
