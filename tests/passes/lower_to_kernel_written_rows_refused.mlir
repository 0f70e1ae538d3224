// RUN: straightline-opt %s -split-input-file --fuse-pointwise --lower-to-kernel --verify-kernel-level | FileCheck %s
// The row is made first and copied then.
// CHECK-NOT: kernel.rows

// The value has another reader.
// CHECK-LABEL: kernel.program @other_reader
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @other_reader(%x: tensor<1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}) -> (tensor<1x4xf32> {op.name = "y"}, tensor<9x4xf32> {op.tie = "state:keys"}) {
    %keys = op.state "keys" : tensor<9x4xf32>
    %k = op.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %new = op.index_copy %keys, %at, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    return %k, %new : tensor<1x4xf32>, tensor<9x4xf32>
  }
}

// -----

// The old rows are read by what makes the new one.
// CHECK-LABEL: kernel.program @reads_old
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @reads_old(%x: tensor<1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}) -> (tensor<9x4xf32> {op.tie = "state:keys"}) {
    %keys = op.state "keys" : tensor<9x4xf32>
    %last = op.slice %keys {dim = 0 : i64, start = 8 : i64, end = 9 : i64, step = 1 : i64} : (tensor<9x4xf32>) -> tensor<1x4xf32>
    %k = op.mul %x, %last : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %new = op.index_copy %keys, %at, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    return %new : tensor<9x4xf32>
  }
}

// -----

// Old rows are read between what makes the new one and what writes it.
// CHECK-LABEL: kernel.program @reads_old_later
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @reads_old_later(%x: tensor<1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}) -> (tensor<9x4xf32> {op.name = "y"}, tensor<9x4xf32> {op.tie = "state:keys"}) {
    %keys = op.state "keys" : tensor<9x4xf32>
    %k = op.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %y = op.tanh %keys : (tensor<9x4xf32>) -> tensor<9x4xf32>
    %new = op.index_copy %keys, %at, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    return %y, %new : tensor<9x4xf32>, tensor<9x4xf32>
  }
}

// -----

// The number is made behind the row.
// CHECK-LABEL: kernel.program @late_number
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @late_number(%x: tensor<1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}) -> (tensor<9x4xf32> {op.tie = "state:keys"}) {
    %keys = op.state "keys" : tensor<9x4xf32>
    %k = op.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %i = op.neg %at : (tensor<1xi64>) -> tensor<1xi64>
    %new = op.index_copy %keys, %i, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    return %new : tensor<9x4xf32>
  }
}

// -----

// Two rows; a row that is added; a buffer that the caller does not see change, of which a copy gets the row.
// CHECK-LABEL: kernel.program @others
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  func.func @others(%x: tensor<2x4xf32> {op.name = "x"}, %y: tensor<1x4xf32> {op.name = "y"}, %z: tensor<9x4xf32> {op.name = "z"}, %at: tensor<2xi64> {op.name = "at"}, %to: tensor<1xi64> {op.name = "to"})
      -> (tensor<9x4xf32> {op.tie = "state:two"}, tensor<9x4xf32> {op.tie = "state:sums"}, tensor<9x4xf32> {op.tie = "state:put"}, tensor<9x4xf32> {op.name = "w"}) {
    %two = op.state "two" : tensor<9x4xf32>
    %a = op.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %new = op.index_copy %two, %at, %a {dim = 0 : i64} : (tensor<9x4xf32>, tensor<2xi64>, tensor<2x4xf32>) -> tensor<9x4xf32>
    %sums = op.state "sums" : tensor<9x4xf32>
    %b = op.tanh %y : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %more = op.index_add %sums, %to, %b {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    %put = op.state "put" : tensor<9x4xf32>
    %c = op.sin %y : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %added = op.index_put %put, %to, %c {dims = array<i64: 0>, accumulate = true} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    %d = op.cos %y : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %copy = op.index_copy %z, %to, %d {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
    return %new, %more, %added, %copy : tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>
  }
}

// -----

// Named extents; a CPU, whose kernels write where they are told.
// CHECK-LABEL: kernel.program @named
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
#b = #op.dims<[b, 4]>
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  op.symbol @b {max = 9 : i64, min = 2 : i64}
  func.func @named(%x: tensor<1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}, %c: tensor<?x4xf32, #b> {op.name = "c"}) -> (tensor<?x4xf32, #b> {op.tie = "input:c"}) {
    %k = op.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %new = op.index_copy %c, %at, %k {dim = 0 : i64} : (tensor<?x4xf32, #b>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<?x4xf32, #b>
    return %new : tensor<?x4xf32, #b>
  }
}

// -----

// CHECK-LABEL: kernel.program @on_cpu
// CHECK: kernel.func @index_copy
// CHECK-NOT: kernel.rows
func.func @on_cpu(%x: tensor<1x4xf32> {op.name = "x"}, %at: tensor<1xi64> {op.name = "at"}) -> (tensor<9x4xf32> {op.tie = "state:keys"}) {
  %keys = op.state "keys" : tensor<9x4xf32>
  %k = op.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %new = op.index_copy %keys, %at, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
  return %new : tensor<9x4xf32>
}
