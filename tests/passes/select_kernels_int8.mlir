// RUN: straightline-opt %s --split-prepare --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --split-prepare --fuse-contractions --select-kernels --lower-to-kernel | FileCheck %s --check-prefix=KERNEL

// Scales behind sums of 32 bits stand in the epilogue, whatever their type.
// CHECK-LABEL: func.func @forward
// CHECK: key = "linear(8x63:i8,32x63:i8c)->8x32:i32,weight:i8+to_dtype+expand+mul@1", kernel = "native.gemm_int8"
// CHECK: key = "linear(8x32:i8,40x32:i8)->8x40:i32,weight:i8@1", kernel = "native.gemm_int8"

// Packed once, or on each call.
// KERNEL: kernel.prepare
// KERNEL: kernel.launch @pack_gemm_int8_32x63({{.*}} -> !kernel.buffer<1x64x32xi8>
// KERNEL: kernel.run
// KERNEL: kernel.launch @gemm_int8_8x32x63_to_dtype_mul(
// KERNEL: kernel.launch @pack_gemm_int8_40x32({{.*}}why = "the weight is computed while running, so it is packed on each call"
// KERNEL: kernel.launch @gemm_int8_8x40x32(
// KERNEL: schedule(<"pack_gemm_int8", shape = {n = 32, k = 63, strideN = 63, strideK = 1}
// KERNEL: schedule(<"gemm_int8", shape = {m = 8, n = 32, k = 63, lda = 63, ldc = 32, epilogueStride = {{\[\[}}0, 1]]}
func.func @forward(%x: tensor<8x63xi8> {op.name = "x"}, %a: tensor<8x32xi8> {op.name = "a"}, %b: tensor<40x32xi8> {op.name = "b"}) -> (tensor<8x32xf32> {op.name = "y"}, tensor<8x40xi32> {op.name = "z"}) {
  %w = op.parameter "w" : tensor<32x63xi8>
  %s = op.parameter "s" : tensor<32xf32>
  %y = op.linear %x, %w : (tensor<8x63xi8>, tensor<32x63xi8>) -> tensor<8x32xi32>
  %f = op.to_dtype %y : (tensor<8x32xi32>) -> tensor<8x32xf32>
  %e = op.expand %s : (tensor<32xf32>) -> tensor<8x32xf32>
  %r = op.mul %f, %e : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %z = op.linear %a, %b : (tensor<8x32xi8>, tensor<40x32xi8>) -> tensor<8x40xi32>
  return %r, %z : tensor<8x32xf32>, tensor<8x40xi32>
}
