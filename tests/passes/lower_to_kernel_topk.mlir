// RUN: straightline-opt %s -split-input-file -verify-diagnostics --lower-to-kernel | FileCheck %s

// On a CPU a row is put in order where its indices will be, so these are neighbours there and copied where they are wanted otherwise.
// CHECK-LABEL: kernel.program @on_cpu
// CHECK: kernel.launch @topk_2of8(
// CHECK: kernel.launch @copy
// CHECK: kernel.func @topk_2of8(
// CHECK: tune = {rank = 1, largest = 1}>
func.func @on_cpu(%x: tensor<8x5xf32> {op.name = "x"}) -> (tensor<2x5xf32> {op.name = "v"}, tensor<2x5xi64> {op.name = "i"}) {
  %v, %i = op.topk %x {dim = 0 : i64, k = 2 : i64, largest = true} : (tensor<8x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xi64>)
  return %v, %i : tensor<2x5xf32>, tensor<2x5xi64>
}

// -----

// Few of a short row: some lanes of a warp hold it.
// CHECK-LABEL: kernel.program @short
// CHECK: kernel.func @topk_8of64(
// CHECK: variant = 0, threads = 16, each = 4, word = 8
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @short(%x: tensor<9x64xf32> {op.name = "x"}) -> (tensor<9x8xf32> {op.name = "v"}, tensor<9x8xi64> {op.name = "i"}) {
    %v, %i = op.topk %x {dim = 1 : i64, k = 8 : i64, largest = true} : (tensor<9x64xf32>) -> (tensor<9x8xf32>, tensor<9x8xi64>)
    return %v, %i : tensor<9x8xf32>, tensor<9x8xi64>
  }
}

// -----

// A sort of 1,000 16-bit elements by a block; words have 4 bytes.
// CHECK-LABEL: kernel.program @sort
// CHECK: kernel.func @sort_1000of1000(
// CHECK: variant = 1, threads = 256, each = 4, word = 4
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @sort(%x: tensor<9x1000xbf16> {op.name = "x"}) -> (tensor<9x1000xbf16> {op.name = "v"}, tensor<9x1000xi64> {op.name = "i"}) {
    %v, %i = op.topk %x {dim = 1 : i64, k = 1000 : i64, largest = false} : (tensor<9x1000xbf16>) -> (tensor<9x1000xbf16>, tensor<9x1000xi64>)
    return %v, %i : tensor<9x1000xbf16>, tensor<9x1000xi64>
  }
}

// -----

// sqrt(151,936 / 50) = 55 parts, of each its 50 best, then the 50 best of 2,750.
// CHECK-LABEL: kernel.program @logits
// CHECK: %[[WORDS:.*]] = kernel.slot : !kernel.buffer<1x2750xi64>
// CHECK: kernel.launch @topk_parts_50of151936({{.*}}) outs(%[[WORDS]])
// CHECK: kernel.launch @topk_50of151936(%[[WORDS]], {{.*}})
// CHECK: parts = 55, kept = 50
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @logits(%x: tensor<1x151936xf32> {op.name = "x"}) -> (tensor<1x50xf32> {op.name = "v"}, tensor<1x50xi64> {op.name = "i"}) {
    %v, %i = op.topk %x {dim = 1 : i64, k = 50 : i64, largest = true} : (tensor<1x151936xf32>) -> (tensor<1x50xf32>, tensor<1x50xi64>)
    return %v, %i : tensor<1x50xf32>, tensor<1x50xi64>
  }
}

// -----

// Four parts of 2,048, sorted; a word of 64-bit elements is two numbers: 8,192 * 2.
// CHECK-LABEL: kernel.program @merged
// CHECK: kernel.slot : !kernel.buffer<1x16384xi64>
// CHECK: kernel.launch @sort_parts_8192of8192(
// CHECK: kernel.launch @sort_8192of8192(
// CHECK: variant = 3{{.*}}word = 16
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @merged(%x: tensor<1x8192xf64> {op.name = "x"}) -> (tensor<1x8192xf64> {op.name = "v"}, tensor<1x8192xi64> {op.name = "i"}) {
    %v, %i = op.topk %x {dim = 1 : i64, k = 8192 : i64, largest = true} : (tensor<1x8192xf64>) -> (tensor<1x8192xf64>, tensor<1x8192xi64>)
    return %v, %i : tensor<1x8192xf64>, tensor<1x8192xi64>
  }
}

// -----

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @refused(%x: tensor<300000xf32> {op.name = "x"}) -> (tensor<2000xf32> {op.name = "v"}, tensor<2000xi64> {op.name = "i"}) {
    // expected-error@+1 {{takes 2000 of 300000 elements of 'f32'; the nearest supported forms on a device are rows of at most 32768 elements, or k up to 1024}}
    %v, %i = op.topk %x {dim = 0 : i64, k = 2000 : i64, largest = true} : (tensor<300000xf32>) -> (tensor<2000xf32>, tensor<2000xi64>)
    return %v, %i : tensor<2000xf32>, tensor<2000xi64>
  }
}

// -----

// Of a row whose length only a call knows: all in their order, and the first two.
// CHECK-LABEL: kernel.program @named
// CHECK: kernel.launch @sort_nofn(
// CHECK: kernel.launch @topk_2ofn(
// CHECK: kernel.func @sort_nofn(
// CHECK: count = n, k = n,
op.symbol @n {min = 2 : i64, max = 64 : i64}
func.func @named(%x: tensor<4x?xf32, #op.dims<[4, n]>> {op.name = "x"}) -> (tensor<4x?xf32, #op.dims<[4, n]>> {op.name = "v"}, tensor<4x2xi64> {op.name = "i"}) {
  %v, %i = op.topk %x {dim = 1 : i64, k = -1 : i64, largest = true} : (tensor<4x?xf32, #op.dims<[4, n]>>) -> (tensor<4x?xf32, #op.dims<[4, n]>>, tensor<4x?xi64, #op.dims<[4, n]>>)
  %w, %j = op.topk %x {dim = 1 : i64, k = 2 : i64, largest = false} : (tensor<4x?xf32, #op.dims<[4, n]>>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return %v, %j : tensor<4x?xf32, #op.dims<[4, n]>>, tensor<4x2xi64>
}

// -----

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  op.symbol @n {min = 2 : i64, max = 64 : i64}
  func.func @named_on_a_device(%x: tensor<4x?xf32, #op.dims<[4, n]>> {op.name = "x"}) -> (tensor<4x2xf32> {op.name = "v"}, tensor<4x2xi64> {op.name = "i"}) {
    // expected-error@+1 {{takes 2 of n elements of 'f32'; the nearest supported forms on a device are rows of a fixed number of elements}}
    %v, %i = op.topk %x {dim = 1 : i64, k = 2 : i64, largest = true} : (tensor<4x?xf32, #op.dims<[4, n]>>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
    return %v, %i : tensor<4x2xf32>, tensor<4x2xi64>
  }
}
