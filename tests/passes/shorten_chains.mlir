// RUN: straightline-opt %s -split-input-file --shorten-chains --canonicalize --cse | FileCheck %s
// RUN: straightline-opt %s -split-input-file --shorten-chains --canonicalize --cse -o %t.once && straightline-opt %t.once -split-input-file --shorten-chains --canonicalize --cse | diff %t.once -

// The table of a rotary embedding: both halves are one value, of the frequencies' shape, and what is the same for all heads is done once.
// CHECK-LABEL: func.func @table
// CHECK-SAME: (%[[AT:.*]]: tensor<1xi64>, %[[F:.*]]: tensor<64xf32>, %[[Q:.*]]: tensor<16x64xf32>, %[[K:.*]]: tensor<8x64xf32>)
// CHECK-NEXT: %[[ATS:.*]] = op.expand %[[AT]] : (tensor<1xi64>) -> tensor<64xi64>
// CHECK-NEXT: %[[POS:.*]] = op.to_dtype %[[ATS]] : (tensor<64xi64>) -> tensor<64xf32>
// CHECK-NEXT: %[[ANGLE:.*]] = op.mul %[[POS]], %[[F]]
// CHECK-NEXT: %[[COS:.*]] = op.cos %[[ANGLE]] : (tensor<64xf32>) -> tensor<64xf32>
// CHECK-NEXT: %[[HALF:.*]] = op.to_dtype %[[COS]] : (tensor<64xf32>) -> tensor<64xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = op.to_dtype %[[HALF]] : (tensor<64xbf16>) -> tensor<64xf32>
// CHECK-NEXT: %[[ROW:.*]] = op.reshape %[[WIDE]] : (tensor<64xf32>) -> tensor<1x64xf32>
// CHECK-NEXT: %[[OFQ:.*]] = op.expand %[[ROW]] : (tensor<1x64xf32>) -> tensor<16x64xf32>
// CHECK-NEXT: %[[OFK:.*]] = op.expand %[[ROW]] : (tensor<1x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: op.mul %[[Q]], %[[OFQ]]
// CHECK-NEXT: op.add %{{.*}}, %[[OFQ]]
// CHECK-NEXT: op.mul %[[K]], %[[OFK]]
// CHECK-NEXT: op.add %{{.*}}, %[[OFK]]
// CHECK-NEXT: return
func.func @table(%at: tensor<1xi64>, %f: tensor<64xf32>, %q: tensor<16x64xf32>, %k: tensor<8x64xf32>) -> (tensor<16x64xf32>, tensor<8x64xf32>) {
  %position = op.to_dtype %at : (tensor<1xi64>) -> tensor<1xf32>
  %positions = op.expand %position : (tensor<1xf32>) -> tensor<64xf32>
  %angle = op.mul %positions, %f : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %both = op.cat %angle, %angle {dim = 0 : i64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %cos = op.cos %both : (tensor<128xf32>) -> tensor<128xf32>
  %half = op.to_dtype %cos : (tensor<128xf32>) -> tensor<128xbf16>
  %row = op.reshape %half : (tensor<128xbf16>) -> tensor<1x128xbf16>
  %of_q = op.expand %row : (tensor<1x128xbf16>) -> tensor<16x128xbf16>
  %wide_q = op.to_dtype %of_q : (tensor<16x128xbf16>) -> tensor<16x128xf32>
  %q0 = op.slice %wide_q {dim = 1 : i64, start = 0 : i64, end = 64 : i64, step = 1 : i64} : (tensor<16x128xf32>) -> tensor<16x64xf32>
  %q1 = op.slice %wide_q {dim = 1 : i64, start = -64 : i64, end = 9223372036854775807 : i64, step = 1 : i64} : (tensor<16x128xf32>) -> tensor<16x64xf32>
  %of_k = op.expand %row : (tensor<1x128xbf16>) -> tensor<8x128xbf16>
  %wide_k = op.to_dtype %of_k : (tensor<8x128xbf16>) -> tensor<8x128xf32>
  %k0 = op.slice %wide_k {dim = 1 : i64, start = 0 : i64, end = 64 : i64, step = 1 : i64} : (tensor<8x128xf32>) -> tensor<8x64xf32>
  %k1 = op.slice %wide_k {dim = 1 : i64, start = 64 : i64, end = 128 : i64, step = 1 : i64} : (tensor<8x128xf32>) -> tensor<8x64xf32>
  %a = op.mul %q, %q0 : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  %b = op.add %a, %q1 : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = op.mul %k, %k0 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %d = op.add %c, %k1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %b, %d : tensor<16x64xf32>, tensor<8x64xf32>
}

// -----

// An iota that the run reads is written by prepare; one that is returned belongs to the caller.
// CHECK-LABEL: func.func @mask
// CHECK: op.iota {op.prepare, start = 0 : i64, step = 1 : i64} : tensor<40xi64>
// CHECK: op.iota {start = 1 : i64, step = 1 : i64} : tensor<40xi64>
func.func @mask(%at: tensor<1xi64>) -> (tensor<40xi1>, tensor<40xi64>) {
  %keys = op.iota {start = 0 : i64, step = 1 : i64} : tensor<40xi64>
  %query = op.expand %at : (tensor<1xi64>) -> tensor<40xi64>
  %seen = op.le %keys, %query : (tensor<40xi64>, tensor<40xi64>) -> tensor<40xi1>
  %own = op.iota {start = 1 : i64, step = 1 : i64} : tensor<40xi64>
  return %seen, %own : tensor<40xi1>, tensor<40xi64>
}

// -----

// The number of a row stands before what makes the row: right behind what it is made of.
// CHECK-LABEL: func.func @number
// CHECK-NEXT: op.full
// CHECK-NEXT: op.state "length"
// CHECK-NEXT: op.add
// CHECK-NEXT: op.reshape
// CHECK: op.exp
// CHECK: op.index_copy
func.func @number(%x: tensor<1x4xf32>, %keys: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %length = op.state "length" : tensor<i64>
  %k = op.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %one = op.full {value = 1 : i64} : tensor<i64>
  %next = op.add %length, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %at = op.reshape %next : (tensor<i64>) -> tensor<1xi64>
  %new = op.index_copy %keys, %at, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
  return %new : tensor<9x4xf32>
}

// -----

// A number that every step reads twice: a step each, not two for each step behind it.
// CHECK-LABEL: func.func @squares
// CHECK-COUNT-24: op.mul {{.*}} tensor<8xf32>
// CHECK-NOT: op.mul {{.*}} tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: op.add
func.func @squares(%x0: tensor<1xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %x1 = op.mul %x0, %x0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x2 = op.mul %x1, %x1 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x3 = op.mul %x2, %x2 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x4 = op.mul %x3, %x3 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x5 = op.mul %x4, %x4 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x6 = op.mul %x5, %x5 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x7 = op.mul %x6, %x6 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x8 = op.mul %x7, %x7 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x9 = op.mul %x8, %x8 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x10 = op.mul %x9, %x9 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x11 = op.mul %x10, %x10 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x12 = op.mul %x11, %x11 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x13 = op.mul %x12, %x12 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x14 = op.mul %x13, %x13 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x15 = op.mul %x14, %x14 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x16 = op.mul %x15, %x15 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x17 = op.mul %x16, %x16 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x18 = op.mul %x17, %x17 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x19 = op.mul %x18, %x18 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x20 = op.mul %x19, %x19 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x21 = op.mul %x20, %x20 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x22 = op.mul %x21, %x21 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x23 = op.mul %x22, %x22 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %x24 = op.mul %x23, %x23 : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %e = op.expand %x24 : (tensor<1xf32>) -> tensor<8xf32>
  %z = op.add %e, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
