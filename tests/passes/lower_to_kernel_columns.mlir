// RUN: straightline-opt %s --split-input-file --fuse-reductions --fuse-pointwise --decompose-reductions --lower-to-kernel | FileCheck %s

// Rows whose elements are apart, while neighbouring rows are side by side: lanes go along rows, and what is kept is kept for all of them.
module {
  // CHECK-LABEL: kernel.program @columns
  // CHECK: kernel.slot : !kernel.buffer<12800xi8>
  // CHECK: kernel.func
  // CHECK: kept = 1, keptStage = 1, stages = 2, columns = 32
  func.func @columns(%x: tensor<100x256xf32> {op.name = "x"}) -> (tensor<100x256xf32> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<100x256xf32>) -> tensor<256x100xf32>
    %s = op.softmax %t {dim = 1 : i64} : (tensor<256x100xf32>) -> tensor<256x100xf32>
    %y = op.permute %s {dims = array<i64: 1, 0>} : (tensor<256x100xf32>) -> tensor<100x256xf32>
    return %y : tensor<100x256xf32>
  }
}

// -----

// Too few rows for that.
module {
  // CHECK-LABEL: kernel.program @few
  // CHECK: kernel.slot : !kernel.buffer<448xi8>
  // CHECK: kernel.func
  // CHECK: kept = 1, keptStage = 1, stages = 2, combine
  func.func @few(%x: tensor<100x5xf32> {op.name = "x"}) -> (tensor<100x5xf32> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<100x5xf32>) -> tensor<5x100xf32>
    %s = op.softmax %t {dim = 1 : i64} : (tensor<5x100xf32>) -> tensor<5x100xf32>
    %y = op.permute %s {dims = array<i64: 1, 0>} : (tensor<5x100xf32>) -> tensor<100x5xf32>
    return %y : tensor<100x5xf32>
  }
}

// -----

// No cache holds so many: they are computed again.
module {
  // CHECK-LABEL: kernel.program @many
  // CHECK-NOT: i8
  // CHECK: kernel.func
  // CHECK: kept = 0, keptStage = 0, stages = 2, columns = 32
  func.func @many(%x: tensor<40000x256xf32> {op.name = "x"}) -> (tensor<40000x256xf32> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<40000x256xf32>) -> tensor<256x40000xf32>
    %s = op.softmax %t {dim = 1 : i64} : (tensor<256x40000xf32>) -> tensor<256x40000xf32>
    %y = op.permute %s {dims = array<i64: 1, 0>} : (tensor<256x40000xf32>) -> tensor<40000x256xf32>
    return %y : tensor<40000x256xf32>
  }
}

// -----

// How many rows there are is known per call; the template looks.
module {
  // CHECK-LABEL: kernel.program @named
  // CHECK: kernel.slot : !kernel.buffer<6400xi8>
  // CHECK: kernel.func
  // CHECK: kept = 1, keptStage = 1, stages = 2, columns = 16
  op.symbol @b {max = 64 : i64, min = 1 : i64}
  func.func @named(%x: tensor<100x?xf32, #op.dims<[100, b]>> {op.name = "x"}) -> (tensor<100x?xf32, #op.dims<[100, b]>> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<100x?xf32, #op.dims<[100, b]>>) -> tensor<?x100xf32, #op.dims<[b, 100]>>
    %s = op.softmax %t {dim = 1 : i64} : (tensor<?x100xf32, #op.dims<[b, 100]>>) -> tensor<?x100xf32, #op.dims<[b, 100]>>
    %y = op.permute %s {dims = array<i64: 1, 0>} : (tensor<?x100xf32, #op.dims<[b, 100]>>) -> tensor<100x?xf32, #op.dims<[100, b]>>
    return %y : tensor<100x?xf32, #op.dims<[100, b]>>
  }
}

// -----

// What is permuted back is written in the order in which it was read.
module {
  // CHECK-LABEL: kernel.program @between
  // CHECK: %[[S:.*]] = kernel.slot : !kernel.buffer<256x100xf32, strides [1, 256]>
  // CHECK: kernel.launch @rows_max_sum_256_by_100(%{{.*}}) outs(%[[S]])
  // CHECK: %[[V:.*]] = kernel.view %[[S]] offset(0) : {{.*}} -> !kernel.buffer<100x256xf32>
  // CHECK: kernel.launch @{{[a-z0-9_]+}}(%[[V]])
  func.func @between(%x: tensor<100x256xf32> {op.name = "x"}) -> (tensor<100x256xf32> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<100x256xf32>) -> tensor<256x100xf32>
    %s = op.softmax %t {dim = 1 : i64} : (tensor<256x100xf32>) -> tensor<256x100xf32>
    %p = op.permute %s {dims = array<i64: 1, 0>} : (tensor<256x100xf32>) -> tensor<100x256xf32>
    %y = op.exp %p : (tensor<100x256xf32>) -> tensor<100x256xf32>
    return %y : tensor<100x256xf32>
  }
}

// -----

// Rows that are read one after the other are written so, whoever permutes them later.
module {
  // CHECK-LABEL: kernel.program @rows
  // CHECK: kernel.slot : !kernel.buffer<256x100xf32>
  // CHECK: kernel.launch @rows_max_sum_256_by_100
  func.func @rows(%x: tensor<256x100xf32> {op.name = "x"}) -> (tensor<100x256xf32> {op.name = "y"}) {
    %s = op.softmax %x {dim = 1 : i64} : (tensor<256x100xf32>) -> tensor<256x100xf32>
    %p = op.permute %s {dims = array<i64: 1, 0>} : (tensor<256x100xf32>) -> tensor<100x256xf32>
    %y = op.exp %p : (tensor<100x256xf32>) -> tensor<100x256xf32>
    return %y : tensor<100x256xf32>
  }
}
