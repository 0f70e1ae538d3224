// RUN: straightline-opt %s -split-input-file --shorten-chains -o %t && straightline-opt %s -split-input-file | diff - %t
// Nothing changes.

// A reader of the whole, a slice over two parts, and slices of prepare.
func.func @whole(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>) {
  %both = op.cat %x, %y {dim = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %cos = op.cos %both : (tensor<16xf32>) -> tensor<16xf32>
  %part = op.slice %cos {dim = 0 : i64, start = 0 : i64, end = 8 : i64, step = 1 : i64} : (tensor<16xf32>) -> tensor<8xf32>
  %a = op.exp %part : (tensor<8xf32>) -> tensor<8xf32>
  %b = op.exp %cos : (tensor<16xf32>) -> tensor<16xf32>
  return %b, %a : tensor<16xf32>, tensor<8xf32>
}
func.func @across(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %both = op.cat %x, %y {dim = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %part = op.slice %both {dim = 0 : i64, start = 4 : i64, end = 12 : i64, step = 1 : i64} : (tensor<16xf32>) -> tensor<8xf32>
  %a = op.exp %part : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}
func.func @steps(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %both = op.cat %x, %y {dim = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %part = op.slice %both {dim = 0 : i64, start = 0 : i64, end = 16 : i64, step = 2 : i64} : (tensor<16xf32>) -> tensor<8xf32>
  %a = op.exp %part : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// A slice that the caller gets.
func.func @returned(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %both = op.cat %x, %y {dim = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %part = op.slice %both {dim = 0 : i64, start = 0 : i64, end = 8 : i64, step = 1 : i64} : (tensor<16xf32>) -> tensor<8xf32>
  return %part : tensor<8xf32>
}

// -----

// An op with one reader is part of it; so is one whose operand no elementwise op made, or that expands nothing; many elements.
func.func @before_expand(%x: tensor<1x8xf32>, %m: tensor<1x65537xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x65537xf32>) {
  %e = op.exp %x : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %w = op.expand %e : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %one = op.cos %w : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = op.mul %one, %w : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %given = op.expand %x : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %two = op.sin %given : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = op.mul %two, %w : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = op.add %two, %w : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %flat = op.reshape %e : (tensor<1x8xf32>) -> tensor<8xf32>
  %three = op.tanh %flat : (tensor<8xf32>) -> tensor<8xf32>
  %d = op.mul %three, %three : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %l = op.exp %m : (tensor<1x65537xf32>) -> tensor<1x65537xf32>
  %n = op.expand %l : (tensor<1x65537xf32>) -> tensor<4x65537xf32>
  %four = op.cos %n : (tensor<4x65537xf32>) -> tensor<4x65537xf32>
  %f = op.mul %four, %four : (tensor<4x65537xf32>, tensor<4x65537xf32>) -> tensor<4x65537xf32>
  return %a, %b, %c, %d, %f : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x65537xf32>
}

// -----

// A number with another reader, one that a reduction made, one that is read by many elements; two numbers.
func.func @numbers(%n: tensor<1xi64>, %x: tensor<8xf32>, %m: tensor<65537xf32>, %two: tensor<2x1xf32>) -> (tensor<1xf32>, tensor<8xf32>, tensor<8xf32>, tensor<65537xf32>, tensor<2x8xf32>) {
  %a = op.to_dtype %n : (tensor<1xi64>) -> tensor<1xf32>
  %b = op.expand %a : (tensor<1xf32>) -> tensor<8xf32>
  %c = op.mul %b, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = op.sum %x {dims = array<i64: 0>, keepdim = true} : (tensor<8xf32>) -> tensor<1xf32>
  %r = op.rsqrt %s : (tensor<1xf32>) -> tensor<1xf32>
  %d = op.expand %r : (tensor<1xf32>) -> tensor<8xf32>
  %e = op.mul %d, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %p = op.neg %n : (tensor<1xi64>) -> tensor<1xi64>
  %q = op.expand %p : (tensor<1xi64>) -> tensor<65537xi64>
  %t = op.to_dtype %q : (tensor<65537xi64>) -> tensor<65537xf32>
  %u = op.mul %t, %m : (tensor<65537xf32>, tensor<65537xf32>) -> tensor<65537xf32>
  %v = op.exp %two : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %w = op.expand %v : (tensor<2x1xf32>) -> tensor<2x8xf32>
  %z = op.neg %w : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %a, %c, %e, %u, %z : tensor<1xf32>, tensor<8xf32>, tensor<8xf32>, tensor<65537xf32>, tensor<2x8xf32>
}

// -----

// An iota of more elements than are kept.
func.func @many(%x: tensor<65537xi64>) -> tensor<65537xi64> {
  %i = op.iota {start = 0 : i64, step = 1 : i64} : tensor<65537xi64>
  %a = op.add %i, %x : (tensor<65537xi64>, tensor<65537xi64>) -> tensor<65537xi64>
  return %a : tensor<65537xi64>
}

// -----

// Numbers of two rows, and one that a kernel of its own makes.
func.func @rows(%x: tensor<2x4xf32>, %keys: tensor<9x4xf32>, %n: tensor<2xi64>) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
  %k = op.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %at = op.neg %n : (tensor<2xi64>) -> tensor<2xi64>
  %new = op.index_copy %keys, %at, %k {dim = 0 : i64} : (tensor<9x4xf32>, tensor<2xi64>, tensor<2x4xf32>) -> tensor<9x4xf32>
  %row = op.slice %k {dim = 0 : i64, start = 0 : i64, end = 1 : i64, step = 1 : i64} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %best = op.argmax %n {dim = 0 : i64, keepdim = true} : (tensor<2xi64>) -> tensor<1xi64>
  %other = op.index_copy %keys, %best, %row {dim = 0 : i64} : (tensor<9x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<9x4xf32>
  return %new, %other : tensor<9x4xf32>, tensor<9x4xf32>
}
