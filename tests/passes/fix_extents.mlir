// RUN: straightline-opt %s --fix-extents="sizes=b=3" --split-input-file | FileCheck %s
// RUN: straightline-opt %s --fix-extents="sizes=b=3,t=5" --split-input-file | FileCheck %s --check-prefix=BOTH
// RUN: not straightline-opt %s --fix-extents="sizes=c=3" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not straightline-opt %s --fix-extents="sizes=b=65" 2>&1 | FileCheck %s --check-prefix=BEYOND
// RUN: not straightline-opt %s --fix-extents="sizes=u0=2" 2>&1 | FileCheck %s --check-prefix=DATA
// RUN: not straightline-opt %s --fix-extents="sizes=b=x" 2>&1 | FileCheck %s --check-prefix=NUMBER

// MISSING: there is no named size 'c'; there are b, t, u0
// BEYOND: size b is 65 but must be from 2 to 64
// DATA: size u0 depends on data: it has no value before a call
// NUMBER: 'b=x' is no size; one is 'name=number'

// CHECK-NOT: op.symbol @b
// CHECK: op.symbol @t
// CHECK: op.symbol @u0
// BOTH-NOT: op.symbol @b
// BOTH-NOT: op.symbol @t
op.symbol @b {min = 2 : i64, max = 64 : i64}
op.symbol @t {min = 1 : i64, max = 9 : i64}
op.symbol @u0 {min = 0 : i64, max = 999 : i64}

// Types, strides of inputs and attributes; another name stays.
// CHECK-LABEL: func.func @forward(%arg0: tensor<3x?x4xf32, #op.dims<[3, t, 4]>>
// CHECK-SAME: op.strides = #op.dims<[1, 3, t * 3]>
// BOTH-LABEL: func.func @forward(%arg0: tensor<3x5x4xf32>
// BOTH-SAME: op.strides = #op.dims<[1, 3, 15]>
func.func @forward(%x: tensor<?x?x4xf32, #op.dims<[b, t, 4]>> {op.name = "x", op.strides = #op.dims<[1, b, b * t]>},
                   %count: tensor<i64> {op.name = "count"}) -> tensor<?xf32, #op.dims<[u0]>> {
  // CHECK: op.reshape {{.*}} -> tensor<?xf32, #op.dims<[t * 12]>>
  // BOTH: op.reshape {{.*}} -> tensor<60xf32>
  %flat = op.reshape %x : (tensor<?x?x4xf32, #op.dims<[b, t, 4]>>) -> tensor<?xf32, #op.dims<[b * t * 4]>>
  // CHECK: op.set_extent {{.*}}bound = #op.dims<[t * 12]>, extent = "u0"
  // BOTH: op.set_extent {{.*}}bound = #op.dims<[60]>, extent = "u0"
  op.set_extent %count {extent = "u0", bound = #op.dims<[b * t * 4]>} : tensor<i64>
  // CHECK: tensor<?xf32, #op.dims<[u0]>>
  // BOTH: tensor<?xf32, #op.dims<[u0]>>
  %part = op.iota {start = 0.0 : f64, step = 1.0 : f64} : tensor<?xf32, #op.dims<[u0]>>
  return %part : tensor<?xf32, #op.dims<[u0]>>
}
