// RUN: straightline-opt %s --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --select-kernels -o %t.once && straightline-opt %t.once --select-kernels -o %t.twice && diff %t.once %t.twice
// RUN: straightline-opt %s --fuse-contractions --select-kernels=list=true | FileCheck %s --check-prefix=LIST

// Measured choices of the module come before the estimates where they are candidates, and only there.
// LIST: op.candidates = [
// LIST-SAME: #op.measurement<key = "linear(1x64:f32,10x64:f32c)->1x10:f32@1"
// LIST-SAME: module = "module {{[^"]*}}op.parameter
// LIST-SAME: candidates = ["native.gemm[mr:1,nr:16,kc:0,mc:96,prefetch:0,prefetchStreams:1]",
module attributes {op.options = #op.options<choices = {"linear(1x64:f32,10x64:f32c)->1x10:f32@1" = "native.gemv[rows:4,mr:1]",
                                 "linear(2x64:f32,10x64:f32c)->2x10:f32@1" = "native.magic[mr:1]",
                                 "linear(9x64:f32,10x64:f32c)->9x10:f32@1" = "native.gemv[rows:4,mr:1]"}>} {
  // CHECK-LABEL: func.func @measured
  // CHECK: op.fusion{{.*}}key = "linear(1x64:f32,10x64:f32c)->1x10:f32@1", estimated = "native.gemm", kernel = "native.gemv", variant = {{[1-9][0-9]*}}, why = "measured: native.gemv[rows:4,mr:1]; by the estimates native.gemm: estimated
  func.func @measured(%x: tensor<1x64xf32>) -> tensor<1x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<1x64xf32>, tensor<10x64xf32>) -> tensor<1x10xf32>
    return %y : tensor<1x10xf32>
  }

  // CHECK-LABEL: func.func @unknown
  // CHECK: op.fusion{{.*}}kernel = "native.gemm", why = "native.gemm: estimated {{.*}}; the measured native.magic[mr:1] is no candidate"
  func.func @unknown(%x: tensor<2x64xf32>) -> tensor<2x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<2x64xf32>, tensor<10x64xf32>) -> tensor<2x10xf32>
    return %y : tensor<2x10xf32>
  }

  // A kernel that exists and refuses: gemv takes up to four rows.
  // CHECK-LABEL: func.func @refused
  // CHECK: op.fusion{{.*}}kernel = "native.gemm", why = "native.gemm: estimated {{.*}}; the measured native.gemv[rows:4,mr:1] is no candidate"
  func.func @refused(%x: tensor<9x64xf32>) -> tensor<9x10xf32> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<9x64xf32>, tensor<10x64xf32>) -> tensor<9x10xf32>
    return %y : tensor<9x10xf32>
  }

  op.symbol @b {min = 1 : i64, max = 64 : i64}

  // Of sizes that are known per call nothing is measured.
  // CHECK-LABEL: func.func @dynamic
  // CHECK-NOT: key =
  func.func @dynamic(%x: tensor<?x64xf32, #op.dims<[b, 64]>>) -> tensor<?x10xf32, #op.dims<[b, 10]>> {
    %w = op.parameter "w" : tensor<10x64xf32>
    %y = op.linear %x, %w : (tensor<?x64xf32, #op.dims<[b, 64]>>, tensor<10x64xf32>) -> tensor<?x10xf32, #op.dims<[b, 10]>>
    return %y : tensor<?x10xf32, #op.dims<[b, 10]>>
  }
}
