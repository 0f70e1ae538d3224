// RUN: straightline-opt %s --fuse-contractions "--select-kernels=allow=aten" --verify-diagnostics --split-input-file

// No backend that may be asked has a kernel: unsupported, with what was left out.
func.func @left_out(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
  %w = op.parameter "w" : tensor<10x64xf32>
  // expected-error-re @+1 {{linear has no kernel; {{.*}}native.gemm: not allowed}}
  %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
  return %y : tensor<1x10xf32>
}

// -----

// A route to one of them: the user's error, with the reasons of the routed kernel only.
module attributes {op.options = #op.options<routes = [#op.route<op = "linear", targets = ["native.gemv"], by = "the argument routes">]>} {
  func.func @routed(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    // expected-error-re @+1 {{linear: route linear = native.gemv (the argument routes) cannot be honoured: native.gemv: not allowed{{$}}}}
    %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
    return %y : tensor<1x10xf32>
  }
}
