// RUN: straightline-opt %s --decompose-ops | FileCheck %s
// RUN: straightline-opt %s --decompose-ops -o %t.once && straightline-opt %t.once --decompose-ops -o %t.twice && diff %t.once %t.twice

// CHECK-LABEL: func.func @select
func.func @select(%x: tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8xf32> {
  // CHECK: %[[S:.*]] = op.slice %{{.*}} {dim = 0 : i64, end = 9223372036854775807 : i64, start = -1 : i64, step = 1 : i64}
  // CHECK-NEXT: op.reshape %[[S]] : (tensor<1x8xf32>) -> tensor<8xf32>
  %y = op.select %x {dim = 0 : i64, index = -1 : i64} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK-LABEL: func.func @select_scatter
func.func @select_scatter(%x: tensor<4x8xf32>, %s: tensor<4xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[R:.*]] = op.reshape %{{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: op.slice_scatter %{{.*}}, %[[R]] {dim = 1 : i64, end = 3 : i64, start = 2 : i64, step = 1 : i64}
  %y = op.select_scatter %x, %s {dim = 1 : i64, index = 2 : i64} : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @group_norm
func.func @group_norm(%x: tensor<?x8x5xf32, #op.dims<[b, 8, 5]>>, %w: tensor<8xf32>)
    -> tensor<?x8x5xf32, #op.dims<[b, 8, 5]>> {
  // CHECK: %[[G:.*]] = op.reshape %{{.*}} -> tensor<?x4x10xf32, #op.dims<[b, 4, 10]>>
  // CHECK: %[[N:.*]] = op.layer_norm %[[G]] {eps = 1.250000e-01 : f64, normalized_rank = 1 : i64}
  // CHECK: op.reshape %[[N]]
  // CHECK: op.mul
  %y = op.group_norm %x weight %w {eps = 0.125 : f64, groups = 4 : i64}
      : (tensor<?x8x5xf32, #op.dims<[b, 8, 5]>>, tensor<8xf32>) -> tensor<?x8x5xf32, #op.dims<[b, 8, 5]>>
  return %y : tensor<?x8x5xf32, #op.dims<[b, 8, 5]>>
}

// CHECK-LABEL: func.func @adaptive
func.func @adaptive(%x: tensor<2x3x6x6xf32>) -> (tensor<2x3x1x1xf32>, tensor<2x3x2x3xf32>) {
  // CHECK: op.mean %{{.*}} {dims = array<i64: 2, 3>, keepdim = true}
  // CHECK: op.avg_pool2d %{{.*}} {{.*}}kernel_size = array<i64: 3, 2>{{.*}}stride = array<i64: 3, 2>
  %a = op.adaptive_avg_pool2d %x {output_size = array<i64: 1, 1>} : (tensor<2x3x6x6xf32>) -> tensor<2x3x1x1xf32>
  %b = op.adaptive_avg_pool2d %x {output_size = array<i64: 2, 3>} : (tensor<2x3x6x6xf32>) -> tensor<2x3x2x3xf32>
  return %a, %b : tensor<2x3x1x1xf32>, tensor<2x3x2x3xf32>
}

// A reduction over leading dims becomes one over trailing dims of a view; over trailing dims it stays.
// CHECK-LABEL: func.func @trailing
func.func @trailing(%x: tensor<4x8x2xf32>) -> (tensor<1x8x1xf32>, tensor<4x8x2xf32>, tensor<4x8xf32>) {
  // CHECK: %[[P:.*]] = op.permute %{{.*}} {dims = array<i64: 1, 0, 2>}
  // CHECK: %[[S:.*]] = op.sum %[[P]] {dims = array<i64: 1, 2>, keepdim = true} {{.*}} -> tensor<8x1x1xf32>
  // CHECK: op.reshape %[[S]] {{.*}} -> tensor<1x8x1xf32>
  // CHECK: %[[Q:.*]] = op.permute %{{.*}} {dims = array<i64: 0, 2, 1>}
  // CHECK: %[[M:.*]] = op.softmax %[[Q]] {dim = 2 : i64}
  // CHECK: op.permute %[[M]] {dims = array<i64: 0, 2, 1>}
  // CHECK: op.sum %{{.*}} {dims = array<i64: 2>, keepdim = false} : (tensor<4x8x2xf32>)
  %a = op.sum %x {dims = array<i64: 0, 2>, keepdim = true} : (tensor<4x8x2xf32>) -> tensor<1x8x1xf32>
  %b = op.softmax %x {dim = 1 : i64} : (tensor<4x8x2xf32>) -> tensor<4x8x2xf32>
  %c = op.sum %x {dims = array<i64: 2>, keepdim = false} : (tensor<4x8x2xf32>) -> tensor<4x8xf32>
  return %a, %b, %c : tensor<1x8x1xf32>, tensor<4x8x2xf32>, tensor<4x8xf32>
}

// Grouped queries: keys and values are repeated; the causal mask is a comparison of positions.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x5x16xf32>, %k: tensor<2x2x5x16xf32>) -> tensor<2x4x5x16xf32> {
  // CHECK: op.expand %{{.*}} : (tensor<2x2x1x5x16xf32>) -> tensor<2x2x2x5x16xf32>
  // CHECK: op.permute %{{.*}} {dims = array<i64: 0, 1, 3, 2>}
  // CHECK: op.matmul
  // CHECK: op.full {value = 2.500000e-01 : f64}
  // CHECK: op.le
  // CHECK: op.where
  // CHECK: op.softmax %{{.*}} {dim = 3 : i64}
  // CHECK: op.matmul
  %y = op.scaled_dot_product_attention %q, %k, %k {is_causal = true}
      : (tensor<2x4x5x16xf32>, tensor<2x2x5x16xf32>, tensor<2x2x5x16xf32>) -> tensor<2x4x5x16xf32>
  return %y : tensor<2x4x5x16xf32>
}

// A mask of 3 images for 6 is added to scores seen as [2, 3, ..]. A row that it leaves nothing of is NaN, as a softmax makes it.
// CHECK-LABEL: func.func @attention_by_turns
func.func @attention_by_turns(%q: tensor<6x4x5x16xf32>, %m: tensor<3x1x5x5xf32>) -> tensor<6x4x5x16xf32> {
  // CHECK: op.reshape %{{.*}} : (tensor<6x4x5x5xf32>) -> tensor<2x3x4x5x5xf32>
  // CHECK: op.expand %{{.*}} : (tensor<3x1x5x5xf32>) -> tensor<2x3x4x5x5xf32>
  // CHECK: op.add
  // CHECK: op.reshape %{{.*}} : (tensor<2x3x4x5x5xf32>) -> tensor<6x4x5x5xf32>
  // CHECK-NEXT: op.softmax
  %y = op.scaled_dot_product_attention %q, %q, %q mask %m {empty_is_nan, is_causal = false}
      : (tensor<6x4x5x16xf32>, tensor<6x4x5x16xf32>, tensor<6x4x5x16xf32>, tensor<3x1x5x5xf32>) -> tensor<6x4x5x16xf32>
  return %y : tensor<6x4x5x16xf32>
}

// Floats of 16 bits: computed in f32, rounded once; what only moves them stays.
// CHECK-LABEL: func.func @half
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3xbf16>
func.func @half(%x: tensor<2x3xbf16>) -> (tensor<2x3xbf16>, tensor<2xbf16>, tensor<3x2xbf16>) {
  // CHECK: %[[W:.*]] = op.to_dtype %[[X]] : (tensor<2x3xbf16>) -> tensor<2x3xf32>
  // CHECK-NEXT: %[[E:.*]] = op.exp %[[W]] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %[[R:.*]] = op.to_dtype %[[E]] : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  // CHECK: %[[S:.*]] = op.sum %{{.*}} -> tensor<2xf32>
  // CHECK-NEXT: op.to_dtype %[[S]] : (tensor<2xf32>) -> tensor<2xbf16>
  // CHECK-NEXT: op.permute %[[X]] {{.*}} -> tensor<3x2xbf16>
  %e = op.exp %x : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
  %s = op.sum %x {dims = array<i64: 1>, keepdim = false} : (tensor<2x3xbf16>) -> tensor<2xbf16>
  %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
  return %e, %s, %t : tensor<2x3xbf16>, tensor<2xbf16>, tensor<3x2xbf16>
}

// A 16-bit float is compared with zero as an f32.
// CHECK-LABEL: func.func @half_to_bool
func.func @half_to_bool(%x: tensor<4xbf16>) -> tensor<4xi1> {
  // CHECK: %[[W:.*]] = op.to_dtype %{{.*}} : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK-NEXT: op.to_dtype %[[W]] : (tensor<4xf32>) -> tensor<4xi1>
  %b = op.to_dtype %x : (tensor<4xbf16>) -> tensor<4xi1>
  return %b : tensor<4xi1>
}

// A transposed convolution: each phase of the stride becomes channels of an ordinary one, with taps in reverse order; the result is
// interleaved and cropped. In one dim that is a view of channels-last memory.
// CHECK-LABEL: func.func @transposed_convolution
func.func @transposed_convolution(%x: tensor<1x3x5xf32>) -> tensor<1x2x9xf32> {
  // CHECK: %[[PADDED:.*]] = op.constant_pad_nd %{{.*}} {pad = array<i64: 0, 1>, value = 0.000000e+00 : f64} : (tensor<3x2x3xf32>) -> tensor<3x2x4xf32>
  // CHECK: %[[SPLIT:.*]] = op.reshape %[[PADDED]] {{.*}} -> tensor<3x2x2x2xf32>
  // CHECK: %[[REVERSED:.*]] = op.flip %[[SPLIT]] {dims = array<i64: 2>}
  // CHECK: %[[ORDERED:.*]] = op.permute %[[REVERSED]] {dims = array<i64: 3, 1, 0, 2>}
  // CHECK: %[[PHASES:.*]] = op.reshape %[[ORDERED]] {{.*}} -> tensor<4x3x2xf32>
  // CHECK: %[[Y:.*]] = op.convolution %{{.*}}, %[[PHASES]] {{.*}}padding = array<i64: 1>, stride = array<i64: 1>, transposed = false} {{.*}} -> tensor<1x4x6xf32>
  // CHECK: %[[LAST:.*]] = op.permute %[[Y]] {dims = array<i64: 0, 2, 1>}
  // CHECK: %[[JOINED:.*]] = op.reshape %[[LAST]] {{.*}} -> tensor<1x12x2xf32>
  // CHECK: %[[CROPPED:.*]] = op.slice %[[JOINED]] {dim = 1 : i64, end = 10 : i64, start = 1 : i64, step = 1 : i64}
  // CHECK: op.permute %[[CROPPED]] {dims = array<i64: 0, 2, 1>}
  %w = op.parameter "w" : tensor<3x2x3xf32>
  %y = op.convolution %x, %w {dilation = array<i64: 1>, groups = 1 : i64, output_padding = array<i64: 0>, padding = array<i64: 1>, stride = array<i64: 2>, transposed = true}
      : (tensor<1x3x5xf32>, tensor<3x2x3xf32>) -> tensor<1x2x9xf32>
  return %y : tensor<1x2x9xf32>
}

// Groups, a dilation, a size of the call: it keeps its kernel.
// CHECK-LABEL: func.func @transposed_convolution_as_it_is
func.func @transposed_convolution_as_it_is(%x: tensor<1x4x5xf32>) -> (tensor<1x2x11xf32>, tensor<1x2x13xf32>) {
  // CHECK-COUNT-2: op.convolution {{.*}}transposed = true
  %w = op.parameter "w" : tensor<4x1x3xf32>
  %v = op.parameter "v" : tensor<4x2x3xf32>
  %y = op.convolution %x, %w {dilation = array<i64: 1>, groups = 2 : i64, output_padding = array<i64: 0>, padding = array<i64: 0>, stride = array<i64: 2>, transposed = true}
      : (tensor<1x4x5xf32>, tensor<4x1x3xf32>) -> tensor<1x2x11xf32>
  %z = op.convolution %x, %v {dilation = array<i64: 2>, groups = 1 : i64, output_padding = array<i64: 0>, padding = array<i64: 0>, stride = array<i64: 2>, transposed = true}
      : (tensor<1x4x5xf32>, tensor<4x2x3xf32>) -> tensor<1x2x13xf32>
  return %y, %z : tensor<1x2x11xf32>, tensor<1x2x13xf32>
}

op.symbol @h {max = 64 : i64, min = 2 : i64}

// The number of elements is made of the extent; over static dims the reduction stays.
// CHECK-LABEL: func.func @averages
func.func @averages(%x: tensor<4x?xf32, #op.dims<[4, h]>>, %s: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[I:.*]] = op.iota {{.*}} : tensor<?xi64, #op.dims<[h + 1]>>
  // CHECK: %[[L:.*]] = op.slice %[[I]] {dim = 0 : i64, end = 9223372036854775807 : i64, start = -1 : i64, step = 1 : i64}
  // CHECK: %[[C:.*]] = op.reshape %[[L]] : (tensor<1xi64>) -> tensor<i64>
  // CHECK: %[[N:.*]] = op.to_dtype %[[C]] : (tensor<i64>) -> tensor<f32>
  // CHECK: %[[S:.*]] = op.sum %{{.*}} {dims = array<i64: 1>, keepdim = true}
  // CHECK: %[[E:.*]] = op.expand %[[N]]
  // CHECK: op.div %[[S]], %[[E]]
  // CHECK: op.mean %{{.*}} : (tensor<4x8xf32>)
  %m = op.mean %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x?xf32, #op.dims<[4, h]>>) -> tensor<4xf32>
  %k = op.mean %s {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %m, %k : tensor<4xf32>, tensor<4xf32>
}

// Less the correction, not below nothing.
// CHECK-LABEL: func.func @deviations
func.func @deviations(%x: tensor<4x?xf32, #op.dims<[4, h]>>) -> tensor<4xf32> {
  // CHECK: op.sub
  // CHECK: op.mul
  // CHECK: %[[S:.*]] = op.sub {{.*}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: op.maximum %[[S]]
  // CHECK-NOT: op.var
  %v = op.var %x {correction = 1.0 : f64, dims = array<i64: 1>, keepdim = false} : (tensor<4x?xf32, #op.dims<[4, h]>>) -> tensor<4xf32>
  return %v : tensor<4xf32>
}

// Products of no elements, or over none, are constants; a batch of a named size keeps its name.
// CHECK-LABEL: func.func @empty_products
func.func @empty_products(%x: tensor<?x0xf32, #op.dims<[b, 0]>>, %w: tensor<3x0xf32>, %bias: tensor<3xf32>, %none: tensor<0x3xf32>)
    -> (tensor<?x3xf32, #op.dims<[b, 3]>>, tensor<?x3xf32, #op.dims<[b, 3]>>, tensor<0x0xf32>, tensor<3x3xf32>) {
  // CHECK-NOT: op.linear
  // CHECK: %[[B:.*]] = op.expand %{{.*}} : (tensor<3xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  // CHECK: %[[Z:.*]] = op.full {{.*}}0.0{{.*}} tensor<?x3xf32, #op.dims<[b, 3]>>
  // CHECK: %[[E:.*]] = op.full {{.*}} tensor<0x0xf32>
  // CHECK: %[[S:.*]] = op.full {{.*}} tensor<3x3xf32>
  // CHECK: return %[[B]], %[[Z]], %[[E]], %[[S]]
  %a = op.linear %x, %w, %bias : (tensor<?x0xf32, #op.dims<[b, 0]>>, tensor<3x0xf32>, tensor<3xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  %c = op.linear %x, %w : (tensor<?x0xf32, #op.dims<[b, 0]>>, tensor<3x0xf32>) -> tensor<?x3xf32, #op.dims<[b, 3]>>
  %d = op.matmul %none, %w : (tensor<0x3xf32>, tensor<3x0xf32>) -> tensor<0x0xf32>
  %e = op.matmul %w, %none : (tensor<3x0xf32>, tensor<0x3xf32>) -> tensor<3x3xf32>
  return %a, %c, %d, %e : tensor<?x3xf32, #op.dims<[b, 3]>>, tensor<?x3xf32, #op.dims<[b, 3]>>, tensor<0x0xf32>, tensor<3x3xf32>
}

// Attention to no key is zero.
// CHECK-LABEL: func.func @attention_to_nothing
func.func @attention_to_nothing(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x0x8xf32>) -> tensor<1x2x4x8xf32> {
  // CHECK-NOT: op.scaled_dot_product_attention
  // CHECK: %[[Z:.*]] = op.full {{.*}} tensor<1x2x4x8xf32>
  // CHECK: return %[[Z]]
  %y = op.scaled_dot_product_attention %q, %k, %k {is_causal = false, scale = 1.0 : f64}
      : (tensor<1x2x4x8xf32>, tensor<1x2x0x8xf32>, tensor<1x2x0x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// Windows of an image without elements or channels, or of its border alone, sum nothing.
// CHECK-LABEL: func.func @empty_convolutions
func.func @empty_convolutions(%x: tensor<2x4x5x0xf32>, %w: tensor<3x4x2x2xf32>, %bias: tensor<3xf32>, %n: tensor<2x0x5x5xf32>, %v: tensor<3x0x2x2xf32>)
    -> (tensor<2x3x6x1xf32>, tensor<2x3x4x4xf32>) {
  // CHECK-NOT: op.convolution
  // CHECK: %[[B:.*]] = op.expand %{{.*}} : (tensor<3x1x1xf32>) -> tensor<2x3x6x1xf32>
  // CHECK: %[[Z:.*]] = op.full {{.*}}0.0{{.*}} tensor<2x3x4x4xf32>
  // CHECK: return %[[B]], %[[Z]]
  %a = op.convolution %x, %w, %bias {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<2x4x5x0xf32>, tensor<3x4x2x2xf32>, tensor<3xf32>) -> tensor<2x3x6x1xf32>
  %b = op.convolution %n, %v {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
      : (tensor<2x0x5x5xf32>, tensor<3x0x2x2xf32>) -> tensor<2x3x4x4xf32>
  return %a, %b : tensor<2x3x6x1xf32>, tensor<2x3x4x4xf32>
}
