// RUN: straightline-opt %s -split-input-file -verify-diagnostics --decompose-reductions

func.func @mean_of_a_named_extent(%x: tensor<2x?xf32, #op.dims<[2, b]>>) -> tensor<2xf32> {
  %y = op.fusion(%x) {family = "row_reduction"} : (tensor<2x?xf32, #op.dims<[2, b]>>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2x?xf32, #op.dims<[2, b]>>):
    // expected-error@+1 {{averages over a named extent; the nearest supported form averages over static dims}}
    %r = op.mean %a {dims = array<i64: 1>, keepdim = false} : (tensor<2x?xf32, #op.dims<[2, b]>>) -> tensor<2xf32>
    op.yield %r : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}
