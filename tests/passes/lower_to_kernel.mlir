// RUN: straightline-opt %s --split-input-file --fuse-contractions --fuse-pointwise --select-kernels --lower-to-kernel | FileCheck %s
// RUN: straightline-opt %s --split-input-file --fuse-contractions --fuse-pointwise --select-kernels --lower-to-kernel --verify-kernel-level -o /dev/null

// Views cost nothing; a value that is returned is written where the caller wants it; equal kernels are one function.
module {
  // CHECK-LABEL: kernel.program @forward
  // CHECK: kernel.extent @b min(1) max(64)
  // CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<[b, 8] x f32>) outs(%[[Y:.*]] "y": !kernel.buffer<[8, b] x f32>)
  // CHECK-NEXT: %[[S:.*]] = kernel.slot
  // CHECK-NEXT: %[[V:.*]] = kernel.view %[[X]] offset(0) : {{.*}} -> !kernel.buffer<[8, b] x f32, strides [1, 8]>
  // CHECK-NEXT: kernel.launch @[[K:[a-z0-9_]+]](%[[V]]) outs(%[[S]])
  // CHECK-NEXT: %[[F:.*]] = kernel.view %[[S]] offset(b * 7) : {{.*}} -> !kernel.buffer<[8, b] x f32, strides [b * -1, 1]>
  // CHECK-NEXT: kernel.launch @{{[a-z0-9_]+}}(%[[F]]) outs(%[[Y]])
  // CHECK-NEXT: kernel.return %[[Y]]
  // CHECK: kernel.func @[[K]]
  // CHECK: math.exp
  // CHECK-NOT: func.func
  // CHECK-NOT: tensor
  op.symbol @b {max = 64 : i64, min = 1 : i64}
  func.func @forward(%x: tensor<?x8xf32, #op.dims<[b, 8]>> {op.name = "x"}) -> (tensor<8x?xf32, #op.dims<[8, b]>> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
    %e = op.exp %t : (tensor<8x?xf32, #op.dims<[8, b]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
    %f = op.flip %e {dims = array<i64: 0>} : (tensor<8x?xf32, #op.dims<[8, b]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
    return %f : tensor<8x?xf32, #op.dims<[8, b]>>
  }
}

// -----

// Buffers of other sizes are no reason for another function where the loops are the same: both are 16 elements in a row. Eight are others.
module {
  // CHECK-LABEL: kernel.program @forward
  // CHECK: kernel.launch @[[K:[a-z0-9_]+]]({{.*}}) outs({{.*}}) on @team {{.*}} : (!kernel.buffer<2x8xf32>) -> !kernel.buffer<2x8xf32>
  // CHECK-NEXT: kernel.launch @[[K]]({{.*}}) outs({{.*}}) on @team {{.*}} : (!kernel.buffer<4x4xf32>) -> !kernel.buffer<4x4xf32>
  // CHECK-NEXT: kernel.launch @[[L:[a-z0-9_]+]]({{.*}}) outs({{.*}}) on @team {{.*}} : (!kernel.buffer<8xf32>) -> !kernel.buffer<8xf32>
  // CHECK: kernel.func @[[K]](!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
  // CHECK: kernel.func @[[L]](!kernel.buffer<f32>) outs(!kernel.buffer<f32>)
  // CHECK-NOT: kernel.func
  func.func @forward(%x: tensor<2x8xf32> {op.name = "x"}, %y: tensor<4x4xf32> {op.name = "y"}, %z: tensor<8xf32> {op.name = "z"})
      -> (tensor<2x8xf32> {op.name = "a"}, tensor<4x4xf32> {op.name = "b"}, tensor<8xf32> {op.name = "c"}) {
    %a = op.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %b = op.exp %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = op.exp %z : (tensor<8xf32>) -> tensor<8xf32>
    return %a, %b, %c : tensor<2x8xf32>, tensor<4x4xf32>, tensor<8xf32>
  }
}

// -----

// A result that is a view of what is overwritten is a view of that input; the same value without op.alias is a fresh output.
module {
  // CHECK-LABEL: kernel.program @forward
  // CHECK: kernel.run (%[[X:.*]] "x" readwrite: !kernel.buffer<2x3xf32>) outs(%[[F:.*]] "fresh": !kernel.buffer<2x3xf32>) {
  // CHECK: kernel.launch @{{[a-z0-9_]+}}(%[[X]]) outs(%[[F]])
  // CHECK: kernel.launch @{{[a-z0-9_]+}}(%[[F]]) outs(%[[X]])
  // CHECK: %[[V:.*]] = kernel.view %[[X]] offset(3) : !kernel.buffer<2x3xf32> -> !kernel.buffer<3xf32>
  // CHECK: kernel.return %[[X]], %[[V]], %[[F]]
  func.func @forward(%x: tensor<2x3xf32> {op.name = "x"}) -> (tensor<2x3xf32> {op.alias, op.name = "same"}, tensor<3xf32> {op.alias, op.name = "row"},
      tensor<2x3xf32> {op.name = "fresh"}, tensor<2x3xf32> {op.tie = "input:x"}) {
    %e = op.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %r = op.select %e {dim = 0 : i64, index = 1 : i64} : (tensor<2x3xf32>) -> tensor<3xf32>
    return %e, %r, %e, %e : tensor<2x3xf32>, tensor<3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
}

// -----

// Attention reads keys and values in the two parts of which they consist, nothing is copied; the heads of one query that share keys are queries
// of one head.
module {
  // CHECK-LABEL: kernel.program @grow
  // CHECK: kernel.run (%[[Q:.*]] "q": {{.*}}, %[[K:.*]] "k": {{.*}}, %[[V:.*]] "v": {{.*}}, %[[N:.*]] "n": {{.*}}, %[[W:.*]] "w": {{[^)]*}}) outs
  // CHECK-NOT: kernel.copy
  // CHECK: kernel.launch @attention_1x2x2x21x16(%[[Q]], %[[K]], %[[V]], %[[N]], %[[W]])
  // CHECK-NOT: kernel.launch
  // CHECK: kernel.func @attention_1x2x2x21x16
  // CHECK-NEXT: qStride = [64, 32, 16]{{.*}} split = 20, {{.*}} parts = 2
  func.func @grow(%q: tensor<1x4x1x16xf32> {op.name = "q"}, %k: tensor<1x2x20x16xf32> {op.name = "k"},
                  %v: tensor<1x2x20x16xf32> {op.name = "v"}, %n: tensor<1x2x1x16xf32> {op.name = "n"},
                  %w: tensor<1x2x1x16xf32> {op.name = "w"}) -> (tensor<1x4x1x16xf32> {op.name = "y"}) {
    %keys = op.cat %k, %n {dim = 2 : i64} : (tensor<1x2x20x16xf32>, tensor<1x2x1x16xf32>) -> tensor<1x2x21x16xf32>
    %values = op.cat %v, %w {dim = 2 : i64} : (tensor<1x2x20x16xf32>, tensor<1x2x1x16xf32>) -> tensor<1x2x21x16xf32>
    %y = op.scaled_dot_product_attention %q, %keys, %values {is_causal = false}
        : (tensor<1x4x1x16xf32>, tensor<1x2x21x16xf32>, tensor<1x2x21x16xf32>) -> tensor<1x4x1x16xf32>
    return %y : tensor<1x4x1x16xf32>
  }
}

// -----

// Keys that are a result have to be in one place.
module {
  // CHECK-LABEL: kernel.program @keep
  // CHECK-COUNT-4: kernel.launch @copy
  // CHECK: kernel.launch @attention
  func.func @keep(%q: tensor<1x2x1x16xf32> {op.name = "q"}, %k: tensor<1x2x20x16xf32> {op.name = "k"},
                  %n: tensor<1x2x1x16xf32> {op.name = "n"})
      -> (tensor<1x2x1x16xf32> {op.name = "y"}, tensor<1x2x21x16xf32> {op.name = "keys"}) {
    %keys = op.cat %k, %n {dim = 2 : i64} : (tensor<1x2x20x16xf32>, tensor<1x2x1x16xf32>) -> tensor<1x2x21x16xf32>
    %values = op.cat %n, %k {dim = 2 : i64} : (tensor<1x2x1x16xf32>, tensor<1x2x20x16xf32>) -> tensor<1x2x21x16xf32>
    %y = op.scaled_dot_product_attention %q, %keys, %values {is_causal = false}
        : (tensor<1x2x1x16xf32>, tensor<1x2x21x16xf32>, tensor<1x2x21x16xf32>) -> tensor<1x2x1x16xf32>
    return %y, %keys : tensor<1x2x1x16xf32>, tensor<1x2x21x16xf32>
  }
}

// -----

// A view that prepare has, read by a run as well: each has its own.
// CHECK-LABEL: kernel.program @prepared_view
func.func @prepared_view() -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  // CHECK: %[[W:.*]] = kernel.parameter "w"
  // CHECK: kernel.prepare {
  // CHECK-NEXT: %[[V:.*]] = kernel.view %[[W]]
  // CHECK-NEXT: kernel.launch @{{.*}}(%[[V]])
  // CHECK: kernel.run
  // CHECK: %[[OWN:.*]] = kernel.view %[[W]]
  // CHECK: kernel.launch @{{.*}}(%[[OWN]])
  %w = op.parameter "w" : tensor<2x3xf32>
  %v = op.permute %w {dims = array<i64: 1, 0>, op.prepare} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %c = op.clone %v {op.prepare} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %d = op.clone %v : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %f = op.flip %c {dims = array<i64: 0>} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %d, %f : tensor<3x2xf32>, tensor<3x2xf32>
}
