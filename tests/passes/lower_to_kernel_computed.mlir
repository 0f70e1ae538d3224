// Extents that the graph computes: the number is read and told; what uses it comes behind.
// RUN: straightline-opt %s --lower-to-kernel --split-input-file | FileCheck %s

module attributes {op.target = #kernel.target<"cpu", "x86-64-v3">} {
  op.symbol @b {min = 1 : i64, max = 64 : i64}
  op.symbol @u0 {min = 0 : i64, max = 64 : i64}
  // CHECK: kernel.extent @b min(1) max(64)
  // CHECK: kernel.extent @u0 min(0) max(64) bound(b)
  func.func @sliced(%x: tensor<?x4xf32, #op.dims<[b, 4]>> {op.name = "x"}, %n: tensor<i64> {op.name = "n"})
      -> (tensor<?xi64, #op.dims<[u0]>> {op.name = "range"}, tensor<?x4xf32, #op.dims<[b + u0, 4]>> {op.name = "all"}) {
    // The range stands behind the number, though no value of the graph says so.
    %range = op.iota {start = 0 : i64, step = 1 : i64} : tensor<?xi64, #op.dims<[u0]>>
    %zero = op.constant dense<0> : tensor<i64>
    // A part of a concatenation behind rows that are not counted yet has no place there.
    %doubled = op.fusion(%x) {family = "pointwise"} : (tensor<?x4xf32, #op.dims<[b, 4]>>) -> tensor<?x4xf32, #op.dims<[b, 4]>> {
    ^bb0(%a: tensor<?x4xf32, #op.dims<[b, 4]>>):
      %s = op.add %a, %a : (tensor<?x4xf32, #op.dims<[b, 4]>>, tensor<?x4xf32, #op.dims<[b, 4]>>) -> tensor<?x4xf32, #op.dims<[b, 4]>>
      op.yield %s : tensor<?x4xf32, #op.dims<[b, 4]>>
    }
    // CHECK: kernel.launch {{.*}} op = "add"
    // CHECK: %[[N:.*]] = kernel.load
    // CHECK: kernel.set_extent @u0 = %[[N]]
    // CHECK: op = "iota"
    op.set_extent %n {extent = "u0", bound = #op.dims<[b]>} : tensor<i64>
    %rows = op.dynamic_slice %x, %zero {dim = 0 : i64, length = -1 : i64} : (tensor<?x4xf32, #op.dims<[b, 4]>>, tensor<i64>) -> tensor<?x4xf32, #op.dims<[u0, 4]>>
    %all = op.cat %rows, %doubled {dim = 0 : i64} : (tensor<?x4xf32, #op.dims<[u0, 4]>>, tensor<?x4xf32, #op.dims<[b, 4]>>) -> tensor<?x4xf32, #op.dims<[b + u0, 4]>>
    // CHECK: offset(u0 * 4)
    return %range, %all : tensor<?xi64, #op.dims<[u0]>>, tensor<?x4xf32, #op.dims<[b + u0, 4]>>
  }
}
