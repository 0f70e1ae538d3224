// RUN: straightline-opt %s --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --select-kernels=avoid=transforms_inputs | FileCheck %s --check-prefix=AVOID
// RUN: straightline-opt %s --fuse-contractions --select-kernels=avoid=narrow_inputs+transforms_inputs | FileCheck %s --check-prefix=AVOID
// RUN: not straightline-opt %s --fuse-contractions --select-kernels=avoid=native.winograd 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// Kernels are avoided by a property of theirs, not by name.
// CHECK: kernel = "native.winograd"
// AVOID: kernel = "native.convolution"{{.*}}native.winograd: not wanted
// UNKNOWN: select-kernels: avoid is 'native.winograd', valid are transforms_inputs and narrow_inputs
func.func @forward(%x: tensor<1x64x56x56xf32> {op.name = "x"}) -> (tensor<1x64x56x56xf32> {op.name = "y"}) {
  %w = op.parameter "w" : tensor<64x64x3x3xf32>
  %y = op.convolution %x, %w {stride = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, transposed = false, output_padding = array<i64: 0, 0>} : (tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x56x56xf32>
  return %y : tensor<1x64x56x56xf32>
}
