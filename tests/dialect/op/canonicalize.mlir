// RUN: straightline-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @identities
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
func.func @identities(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = op.exp %[[X]]
  // CHECK-NEXT: return %[[Y]]
  %zero = op.full {value = 0.0 : f64} : tensor<4xf32>
  %one = op.constant dense<1.0> : tensor<4xf32>
  %scalar = op.full {value = 1.0 : f64} : tensor<f32>
  %ones = op.expand %scalar : (tensor<f32>) -> tensor<4xf32>
  %a = op.add %x, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = op.mul %one, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = op.div %b, %ones : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = op.neg %c : (tensor<4xf32>) -> tensor<4xf32>
  %e = op.neg %d : (tensor<4xf32>) -> tensor<4xf32>
  %f = op.to_dtype %e : (tensor<4xf32>) -> tensor<4xf32>
  %y = op.exp %f : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Zero times a float is no zero (NaN), zero times an integer is.
// CHECK-LABEL: func.func @times_zero
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>, %[[I:[^:]*]]: tensor<4xi64>
func.func @times_zero(%x: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  // CHECK: %[[ZERO:.*]] = op.full {value = 0 : i64} : tensor<4xi64>
  // CHECK: op.mul %[[X]]
  // CHECK: op.sub %[[ZERO]], %[[I]]
  %zero = op.full {value = 0.0 : f64} : tensor<4xf32>
  %none = op.full {value = 0 : i64} : tensor<4xi64>
  %y = op.mul %x, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %j = op.mul %i, %none : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %k = op.add %j, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %n = op.sub %j, %k : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return %y, %n : tensor<4xf32>, tensor<4xi64>
}

// -----

// Eager returns new tensors: neither x + 0 nor a clone of an input or a parameter becomes an alias.
// CHECK-LABEL: func.func @no_alias
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
func.func @no_alias(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = op.add %[[X]]
  // CHECK: %[[B:.*]] = op.clone %[[X]]
  // CHECK: %[[C:.*]] = op.clone %{{.*}}
  // CHECK: return %[[A]], %[[B]], %[[C]]
  %zero = op.full {value = 0.0 : f64} : tensor<4xf32>
  %w = op.parameter "w" : tensor<4xf32>
  %a = op.add %x, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = op.clone %x : (tensor<4xf32>) -> tensor<4xf32>
  %c = op.clone %w : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A clone that is no result goes, whatever it copies, also when only a view of it is read.
// CHECK-LABEL: func.func @inner_clone
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
func.func @inner_clone(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK: op.exp %[[X]]
  // CHECK: %[[C:.*]] = op.clone %[[X]]
  // CHECK: op.reshape %[[C]]
  %c = op.clone %x : (tensor<4xf32>) -> tensor<4xf32>
  %e = op.exp %c : (tensor<4xf32>) -> tensor<4xf32>
  %v = op.reshape %e : (tensor<4xf32>) -> tensor<2x2xf32>
  %d = op.clone %x : (tensor<4xf32>) -> tensor<4xf32>
  %w = op.reshape %d : (tensor<4xf32>) -> tensor<2x2xf32>
  return %v, %w : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A clone of a fresh value goes, unless the value is a result as well.
// CHECK-LABEL: func.func @clones
func.func @clones(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[E:.*]] = op.exp
  // CHECK: %[[S:.*]] = op.sin
  // CHECK: %[[K:.*]] = op.clone %[[S]]
  // CHECK: return %[[E]], %[[S]], %[[K]]
  %e = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %c = op.clone %e : (tensor<4xf32>) -> tensor<4xf32>
  %s = op.sin %x : (tensor<4xf32>) -> tensor<4xf32>
  %k = op.clone %s : (tensor<4xf32>) -> tensor<4xf32>
  return %c, %s, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A clone of a reshaped fresh value goes, too, unless the value is a result in another shape; of an input it stays.
// CHECK-LABEL: func.func @clones_of_reshapes
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
func.func @clones_of_reshapes(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK: %[[E:.*]] = op.exp
  // CHECK: %[[V:.*]] = op.reshape %[[E]]
  // CHECK: %[[S:.*]] = op.sin
  // CHECK: %[[W:.*]] = op.reshape %[[S]]
  // CHECK: %[[K:.*]] = op.clone %[[W]]
  // CHECK: %[[Y:.*]] = op.reshape %[[X]]
  // CHECK: %[[L:.*]] = op.clone %[[Y]]
  // CHECK: return %[[V]], %[[S]], %[[K]], %[[L]]
  %e = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %v = op.reshape %e : (tensor<4xf32>) -> tensor<2x2xf32>
  %c = op.clone %v : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = op.sin %x : (tensor<4xf32>) -> tensor<4xf32>
  %w = op.reshape %s : (tensor<4xf32>) -> tensor<2x2xf32>
  %k = op.clone %w : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = op.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
  %l = op.clone %y : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %c, %s, %k, %l : tensor<2x2xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// What a turned tensor is reshaped to is copied once: the copy stands before the reshape.
// CHECK-LABEL: func.func @clone_of_turned
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3xf32>
func.func @clone_of_turned(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  // CHECK: %[[P:.*]] = op.permute %[[X]]
  // CHECK: %[[C:.*]] = op.clone %[[P]]
  // CHECK: %[[R:.*]] = op.reshape %[[C]]
  // CHECK: return %[[R]]
  %p = op.permute %x {dims = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r = op.reshape %p : (tensor<3x2xf32>) -> tensor<6xf32>
  %c = op.clone %r : (tensor<6xf32>) -> tensor<6xf32>
  return %c : tensor<6xf32>
}

// -----

// A choice by a literal is what it takes; an input that is a result stays no alias.
// CHECK-LABEL: func.func @known_choices
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
func.func @known_choices(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[E:.*]] = op.exp
  // CHECK: %[[S:.*]] = op.sin
  // CHECK: %[[W:.*]] = op.where %{{.*}}, %[[X]]
  // CHECK: return %[[E]], %[[S]], %[[W]]
  %yes = op.full {value = 1 : i64} : tensor<i1>
  %no = op.full {value = 0 : i64} : tensor<4xi1>
  %all = op.expand %yes : (tensor<i1>) -> tensor<4xi1>
  %e = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %s = op.sin %x : (tensor<4xf32>) -> tensor<4xf32>
  %a = op.where %all, %e, %s : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = op.where %no, %e, %s : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = op.where %all, %x, %e : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @views
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x1x8xf32>, %[[T:[^:]*]]: tensor<2x3x4xf32>
func.func @views(%x: tensor<4x1x8xf32>, %t: tensor<2x3x4xf32>) -> (tensor<8x4xf32>, tensor<4x1x8xf32>, tensor<4x3x2xf32>, tensor<4x8xf32>, tensor<4x1x8xf32>) {
  // CHECK-DAG: %[[A:.*]] = op.reshape %[[X]] : (tensor<4x1x8xf32>) -> tensor<8x4xf32>
  // CHECK-DAG: %[[B:.*]] = op.permute %[[T]] {dims = array<i64: 2, 1, 0>}
  // CHECK-DAG: %[[C:.*]] = op.reshape %[[X]] : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  // CHECK: return %[[A]], %[[X]], %[[B]], %[[C]], %[[X]]
  %r = op.reshape %x : (tensor<4x1x8xf32>) -> tensor<32xf32>
  %a = op.reshape %r : (tensor<32xf32>) -> tensor<8x4xf32>
  %i = op.reshape %r : (tensor<32xf32>) -> tensor<4x1x8xf32>
  %p = op.permute %x {dims = array<i64: 1, 0, 2>} : (tensor<4x1x8xf32>) -> tensor<1x4x8xf32>
  %u = op.permute %t {dims = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %q = op.permute %u {dims = array<i64: 2, 0, 1>} : (tensor<3x2x4xf32>) -> tensor<4x3x2xf32>
  %s = op.reshape %p : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
  %w = op.slice %x {dim = 0 : i64, start = 0 : i64, end = 9223372036854775807 : i64, step = 1 : i64}
      : (tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  %e = op.expand %w : (tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  return %a, %i, %q, %s, %e : tensor<8x4xf32>, tensor<4x1x8xf32>, tensor<4x3x2xf32>, tensor<4x8xf32>, tensor<4x1x8xf32>
}

// -----

// Literals are evaluated through the ops' scalar meaning, splats of any shape at once.
// CHECK-LABEL: func.func @literals
func.func @literals() -> (tensor<?xf32, #op.dims<[b]>>, tensor<3xf32>, tensor<2xi1>, tensor<ui8>, tensor<2xi64>, tensor<i64>) {
  // CHECK-DAG: op.full {value = 6.000000e+00 : f64} : tensor<?xf32, #op.dims<[b]>>
  // CHECK-DAG: op.constant dense<[0.000000e+00, 2.000000e+00, 0x7FC00000]> : tensor<3xf32>
  // CHECK-DAG: op.constant dense<[false, true]> : tensor<2xi1>
  // CHECK-DAG: op.full {value = 251 : i64} : tensor<ui8>
  // CHECK-DAG: op.constant dense<[2, -1]> : tensor<2xi64>
  // CHECK-DAG: op.full {value = -4 : i64} : tensor<i64>
  %two = op.full {value = 2.0 : f64} : tensor<?xf32, #op.dims<[b]>>
  %three = op.full {value = 3.0 : f64} : tensor<?xf32, #op.dims<[b]>>
  %six = op.mul %two, %three
      : (tensor<?xf32, #op.dims<[b]>>, tensor<?xf32, #op.dims<[b]>>) -> tensor<?xf32, #op.dims<[b]>>
  %v = op.constant dense<[-1.0, 2.0, 0x7FC00000]> : tensor<3xf32>
  %relu = op.relu %v : (tensor<3xf32>) -> tensor<3xf32>
  %p = op.constant dense<[0.0, 0x7FC00000]> : tensor<2xf32>
  %nan = op.isnan %p : (tensor<2xf32>) -> tensor<2xi1>
  %big = op.full {value = 250 : i64} : tensor<ui8>
  %byte = op.full {value = 1 : i64} : tensor<ui8>
  %sum = op.add %big, %byte : (tensor<ui8>, tensor<ui8>) -> tensor<ui8>
  %m = op.constant dense<[-7, 7]> : tensor<2xi64>
  %d = op.constant dense<[3, -4]> : tensor<2xi64>
  %rem = op.remainder %m, %d : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %minus = op.full {value = -7 : i64} : tensor<i64>
  %divisor = op.full {value = 2 : i64} : tensor<i64>
  %floor = op.floor_divide %minus, %divisor : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return %six, %relu, %nan, %sum, %rem, %floor
      : tensor<?xf32, #op.dims<[b]>>, tensor<3xf32>, tensor<2xi1>, tensor<ui8>, tensor<2xi64>, tensor<i64>
}

// -----

// CHECK-LABEL: func.func @branches
// CHECK-SAME: %[[C:[^:]*]]: tensor<i1>, %[[X:[^:]*]]: tensor<4xf32>
func.func @branches(%c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[E:.*]] = op.exp %[[X]]
  // CHECK-NEXT: %[[S:.*]] = op.sin %[[E]]
  // CHECK-NEXT: %[[Q:.*]] = op.mul %[[S]], %[[S]]
  // CHECK-NEXT: return %[[S]], %[[Q]]
  %e = op.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %wide = op.expand %c : (tensor<i1>) -> tensor<4xi1>
  %same = op.where %wide, %e, %e : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %branch = op.if %c -> (tensor<4xf32>) {
    op.yield %same : tensor<4xf32>
  } else {
    op.yield %same : tensor<4xf32>
  }
  %alone = op.cat %branch {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %dead = op.cos %alone : (tensor<4xf32>) -> tensor<4xf32>
  %s = op.sin %alone : (tensor<4xf32>) -> tensor<4xf32>
  %two = op.full {value = 2.0 : f64} : tensor<4xf32>
  %q = op.pow %s, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s, %q : tensor<4xf32>, tensor<4xf32>
}

// -----

// Attention reads keys and values whose heads were repeated as they were before; not where heads alternate, or only the keys' were.
// CHECK-LABEL: func.func @repeated_heads
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x6x4x8xf32>, %[[K:[^:]*]]: tensor<2x2x5x8xf32>, %[[V:[^:]*]]: tensor<2x2x5x8xf32>
func.func @repeated_heads(%q: tensor<2x6x4x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x8xf32>)
    -> (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>) {
  %k1 = op.reshape %k : (tensor<2x2x5x8xf32>) -> tensor<2x2x1x5x8xf32>
  %k3 = op.expand %k1 : (tensor<2x2x1x5x8xf32>) -> tensor<2x2x3x5x8xf32>
  %k6 = op.reshape %k3 : (tensor<2x2x3x5x8xf32>) -> tensor<2x6x5x8xf32>
  %v1 = op.reshape %v : (tensor<2x2x5x8xf32>) -> tensor<2x2x1x5x8xf32>
  %v3 = op.expand %v1 : (tensor<2x2x1x5x8xf32>) -> tensor<2x2x3x5x8xf32>
  %v6 = op.reshape %v3 : (tensor<2x2x3x5x8xf32>) -> tensor<2x6x5x8xf32>
  // CHECK: op.scaled_dot_product_attention %[[Q]], %[[K]], %[[V]] {
  %y = op.scaled_dot_product_attention %q, %k6, %v6 {is_causal = false} : (tensor<2x6x4x8xf32>, tensor<2x6x5x8xf32>, tensor<2x6x5x8xf32>) -> tensor<2x6x4x8xf32>
  %o1 = op.reshape %v : (tensor<2x2x5x8xf32>) -> tensor<2x1x2x5x8xf32>
  %o3 = op.expand %o1 : (tensor<2x1x2x5x8xf32>) -> tensor<2x3x2x5x8xf32>
  // CHECK: %[[O:.*]] = op.reshape %{{.*}} : (tensor<2x3x2x5x8xf32>) -> tensor<2x6x5x8xf32>
  %o6 = op.reshape %o3 : (tensor<2x3x2x5x8xf32>) -> tensor<2x6x5x8xf32>
  // CHECK: op.scaled_dot_product_attention %[[Q]], %{{.*}}, %[[O]] {
  %z = op.scaled_dot_product_attention %q, %k6, %o6 {is_causal = false} : (tensor<2x6x4x8xf32>, tensor<2x6x5x8xf32>, tensor<2x6x5x8xf32>) -> tensor<2x6x4x8xf32>
  // CHECK: op.scaled_dot_product_attention %[[Q]], %[[O]], %[[O]] {
  %w = op.scaled_dot_product_attention %q, %o6, %o6 {is_causal = true} : (tensor<2x6x4x8xf32>, tensor<2x6x5x8xf32>, tensor<2x6x5x8xf32>) -> tensor<2x6x4x8xf32>
  return %y, %z, %w : tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>
}

// -----

// Dims that one reshape joins and another takes apart again are never joined; not where the last reshape joins, too, or a dim stays joined.
// CHECK-LABEL: func.func @nothing_joined
// CHECK-SAME: %[[X:[^:]*]]: tensor<5x1x3x8xf32>
func.func @nothing_joined(%x: tensor<5x1x3x8xf32>) -> (tensor<3x2x1x5x4xf32>, tensor<6x20xf32>, tensor<2x12x5xf32>) {
  // CHECK-DAG: %[[A:.*]] = op.reshape %[[X]] : (tensor<5x1x3x8xf32>) -> tensor<5x3x2x4xf32>
  // CHECK-DAG: %[[P:.*]] = op.permute %[[A]] {dims = array<i64: 1, 2, 0, 3>} : (tensor<5x3x2x4xf32>) -> tensor<3x2x5x4xf32>
  // CHECK-DAG: %[[Y:.*]] = op.reshape %[[P]] : (tensor<3x2x5x4xf32>) -> tensor<3x2x1x5x4xf32>
  %joined = op.reshape %x : (tensor<5x1x3x8xf32>) -> tensor<5x6x4xf32>
  %moved = op.permute %joined {dims = array<i64: 1, 0, 2>} : (tensor<5x6x4xf32>) -> tensor<6x5x4xf32>
  %y = op.reshape %moved : (tensor<6x5x4xf32>) -> tensor<3x2x1x5x4xf32>
  // CHECK-DAG: %[[J:.*]] = op.reshape %[[X]] : (tensor<5x1x3x8xf32>) -> tensor<5x6x4xf32>
  // CHECK-DAG: %[[M:.*]] = op.permute %[[J]]
  // CHECK-DAG: op.reshape %[[M]] : (tensor<6x5x4xf32>) -> tensor<6x20xf32>
  %z = op.reshape %moved : (tensor<6x5x4xf32>) -> tensor<6x20xf32>
  %all = op.reshape %x : (tensor<5x1x3x8xf32>) -> tensor<5x24xf32>
  // CHECK-DAG: %[[T:.*]] = op.permute %{{.*}} {dims = array<i64: 1, 0>} : (tensor<5x24xf32>) -> tensor<24x5xf32>
  // CHECK-DAG: op.reshape %[[T]] : (tensor<24x5xf32>) -> tensor<2x12x5xf32>
  %turned = op.permute %all {dims = array<i64: 1, 0>} : (tensor<5x24xf32>) -> tensor<24x5xf32>
  %w = op.reshape %turned : (tensor<24x5xf32>) -> tensor<2x12x5xf32>
  return %y, %z, %w : tensor<3x2x1x5x4xf32>, tensor<6x20xf32>, tensor<2x12x5xf32>
}
