// RUN: straightline-opt %s | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @f
// CHECK: op.own_kernel "v::scale"(%{{.*}}) {arguments = ["%0", "none", "i:-5", "i:[1, 2]", "f:5.000000e-01", "f:[inf, nan]", "s:a \22text\22", "d:2:32", "@0"], symbol = "sl_own_0_scale", updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = op.own_kernel "v::scale"(%x) {symbol = "sl_own_0_scale", arguments = ["%0", "none", "i:-5", "i:[1, 2]", "f:5.000000e-01", "f:[inf, nan]", "s:a \22text\22", "d:2:32", "@0"], updates = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @updates
// CHECK: op.own_kernel "v::step"(%{{.*}}, %{{.*}}) {arguments = ["[@0]", "%0", "$0"], effectful = true, sizes = #op.dims<[b]>, symbol = "sl_own_0_step", traits = "status stream", updates = 1 : i64, workspace = 64 : i64}
op.symbol @b {min = 1 : i64, max = 8 : i64}
func.func @updates(%x: tensor<4xf32>, %g: tensor<?xf32, #op.dims<[b]>>) -> tensor<4xf32> {
  %0 = op.own_kernel "v::step"(%g, %x) {symbol = "sl_own_0_step", arguments = ["[@0]", "%0", "$0"], updates = 1 : i64, sizes = #op.dims<[b]>, workspace = 64 : i64, traits = "status stream", effectful = true} : (tensor<?xf32, #op.dims<[b]>>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @source
// CHECK: blocks = "i:4"
// CHECK-SAME: source = "void scale(..) {}"
// CHECK-SAME: threads = 128 : i64
func.func @source(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "@0"], updates = 0 : i64, source = "void scale(..) {}", blocks = "i:4", threads = 128 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @image
// CHECK: alignments = array<i64: 16, 1, 16>
// CHECK-SAME: image = "AAAA"
// CHECK-SAME: machine = "sm_90"
// CHECK-SAME: more_blocks = ["$0", "i:1"]
// CHECK-SAME: note = "by hand"
// CHECK-SAME: shared_bytes = 64 : i64
func.func @image(%x: tensor<?xf32, #op.dims<[b]>>) -> tensor<?xf32, #op.dims<[b]>> {
  %0 = op.own_kernel "v::scale"(%x) {symbol = "scale", arguments = ["%0", "i:5", "@0"], updates = 0 : i64, source = "a cubin", blocks = "i:4", threads = 128 : i64, image = "AAAA", machine = "sm_90", alignments = array<i64: 16, 1, 16>, more_blocks = ["$0", "i:1"], shared_bytes = 64 : i64, note = "by hand", sizes = #op.dims<[b]>} : (tensor<?xf32, #op.dims<[b]>>) -> tensor<?xf32, #op.dims<[b]>>
  return %0 : tensor<?xf32, #op.dims<[b]>>
}
