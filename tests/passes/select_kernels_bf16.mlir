// RUN: straightline-opt %s --split-input-file --split-prepare --fuse-contractions --fuse-pointwise --select-kernels | FileCheck %s
// RUN: straightline-opt %s --split-input-file --split-prepare --fuse-contractions --fuse-pointwise --select-kernels -o %t.once && straightline-opt %t.once --split-input-file --select-kernels | FileCheck %s --check-prefix=AGAIN

// AGAIN-COUNT-2: kernel = "native.gemm_bf16"

// A CPU with products of pairs of bfloat16: x and weight stay as they are stored.
module attributes {op.target = #kernel.target<"cpu", "znver4", vector_bytes = 64, dot_bf16 = 1>} {
  // CHECK-LABEL: func.func @plain
  // CHECK-NOT: op.to_dtype
  // CHECK: kernel = "native.gemm_bf16"
  // CHECK: op.linear {{.*}} : (tensor<8x64xbf16>, tensor<32x64xbf16>) -> tensor<8x32xf32>
  func.func @plain(%x: tensor<8x64xbf16>) -> tensor<8x32xf32> {
    %w = op.parameter "w" : tensor<32x64xbf16>
    %wide = op.to_dtype %w : (tensor<32x64xbf16>) -> tensor<32x64xf32>
    %xs = op.to_dtype %x : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %y = op.linear %xs, %wide : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}

// -----

// What its fusion rounds and widens again is kept as bfloat16.
module attributes {op.target = #kernel.target<"cpu", "znver4", vector_bytes = 64, dot_bf16 = 1>} {
  // CHECK-LABEL: func.func @rounded
  // CHECK: op.exp
  // CHECK-NEXT: %[[R:.*]] = op.to_dtype {{.*}} -> tensor<8x64xbf16>
  // CHECK-NEXT: op.yield %[[R]]
  // CHECK: kernel = "native.gemm_bf16"
  // CHECK: op.linear {{.*}} : (tensor<8x64xbf16>, tensor<32x64xbf16>) -> tensor<8x32xf32>
  func.func @rounded(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
    %w = op.parameter "w" : tensor<32x64xbf16>
    %wide = op.to_dtype %w : (tensor<32x64xbf16>) -> tensor<32x64xf32>
    %e = op.exp %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %r = op.to_dtype %e : (tensor<8x64xf32>) -> tensor<8x64xbf16>
    %xs = op.to_dtype %r : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %y = op.linear %xs, %wide : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}

// -----

// Somebody else reads the widened numbers: all who would take bfloat16 are given another kernel, which packs the weight as it is stored.
module attributes {op.target = #kernel.target<"cpu", "znver4", vector_bytes = 64, dot_bf16 = 1>} {
  // CHECK-LABEL: func.func @shared
  // CHECK: kernel = "native.gemm", why = "native.gemm: estimated {{.*}} us (native.gemm_bf16: not wanted
  // CHECK: op.linear {{.*}} : (tensor<8x64xf32>, tensor<32x64xbf16>) -> tensor<8x32xf32>
  func.func @shared(%x: tensor<8x64xf32>) -> (tensor<8x32xf32>, tensor<8x64xf32>) {
    %w = op.parameter "w" : tensor<32x64xbf16>
    %wide = op.to_dtype %w : (tensor<32x64xbf16>) -> tensor<32x64xf32>
    %e = op.exp %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %r = op.to_dtype %e : (tensor<8x64xf32>) -> tensor<8x64xbf16>
    %xs = op.to_dtype %r : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %y = op.linear %xs, %wide : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    return %y, %xs : tensor<8x32xf32>, tensor<8x64xf32>
  }
}

// -----

// An odd k, and a CPU without the instruction: said by name.
module attributes {op.target = #kernel.target<"cpu", "znver4", vector_bytes = 64, dot_bf16 = 1>} {
  // CHECK-LABEL: func.func @odd
  // CHECK: native.gemm_bf16: k=63, needs an even number
  func.func @odd(%x: tensor<8x63xbf16>) -> tensor<8x32xf32> {
    %w = op.parameter "w" : tensor<32x63xbf16>
    %wide = op.to_dtype %w : (tensor<32x63xbf16>) -> tensor<32x63xf32>
    %xs = op.to_dtype %x : (tensor<8x63xbf16>) -> tensor<8x63xf32>
    %y = op.linear %xs, %wide : (tensor<8x63xf32>, tensor<32x63xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}

// -----

module attributes {op.target = #kernel.target<"cpu", "x86-64-v4", vector_bytes = 64>} {
  // CHECK-LABEL: func.func @without
  // CHECK: native.gemm_bf16: the CPU has no products of bfloat16 (AVX512_BF16)
  func.func @without(%x: tensor<8x64xbf16>) -> tensor<8x32xf32> {
    %w = op.parameter "w" : tensor<32x64xbf16>
    %wide = op.to_dtype %w : (tensor<32x64xbf16>) -> tensor<32x64xf32>
    %xs = op.to_dtype %x : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %y = op.linear %xs, %wide : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}

// -----

// A product of tensors of the run takes what they are widened from, too.
module attributes {op.target = #kernel.target<"cpu", "znver4", vector_bytes = 64, dot_bf16 = 1>} {
  // CHECK-LABEL: func.func @product
  // CHECK-NOT: op.to_dtype
  // CHECK: kernel = "native.matmul_bf16"
  // CHECK: op.matmul {{.*}} : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xf32>
  func.func @product(%a: tensor<8x64xbf16>, %b: tensor<64x32xbf16>) -> tensor<8x32xf32> {
    %x = op.to_dtype %a : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %z = op.to_dtype %b : (tensor<64x32xbf16>) -> tensor<64x32xf32>
    %y = op.matmul %x, %z : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}

// -----

// One of them alone is not enough.
module attributes {op.target = #kernel.target<"cpu", "znver4", vector_bytes = 64, dot_bf16 = 1>} {
  // CHECK-LABEL: func.func @half
  // CHECK: kernel = "native.matmul"
  // CHECK: op.matmul {{.*}} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  func.func @half(%a: tensor<8x64xbf16>, %b: tensor<64x32xf32>) -> tensor<8x32xf32> {
    %x = op.to_dtype %a : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %y = op.matmul %x, %b : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}
