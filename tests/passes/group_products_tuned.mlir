// RUN: straightline-opt %s -split-input-file --fuse-contractions --fuse-reductions --fuse-pointwise --decompose-reductions --select-kernels --group-products | FileCheck %s
// RUN: straightline-opt %s -split-input-file --fuse-contractions --fuse-reductions --fuse-pointwise --decompose-reductions --select-kernels=list=true --group-products | FileCheck %s --check-prefix=LIST
// RUN: straightline-opt %s -split-input-file --fuse-contractions --fuse-reductions --fuse-pointwise --decompose-reductions --select-kernels | FileCheck %s --check-prefix=APART

// What was measured for products one by one does not keep them from a kernel that they share; it counts where one stays by itself,
// and that one alone is worth measuring.

// LIST: op.candidates = [
// LIST-SAME: key = "linear(40x96:f32,64x96:f32c)->40x64:f32,edge@sm_90"
// LIST-NOT: key =
// LIST-LABEL: func.func @projections

// APART-COUNT-3: variant = 3

// CHECK-LABEL: func.func @projections
// CHECK: %{{.*}}:2 = op.fusion(%arg0, %{{.*}}, %{{.*}}) {family = "product_group"
// CHECK-NOT: key =
// CHECK-SAME: kernel = "cuda.gemv_group"
// CHECK-SAME: why = "cuda.gemv_group: 2 products of the same rows
// CHECK: op.fusion(%arg1, %{{.*}}) {{.*}}kernel = "cublaslt.linear", variant = 3
// CHECK-SAME: why = "measured: cublaslt.linear[variant:3]; by the estimates cuda.linear
module attributes {op.target = #kernel.target<"cuda", "sm_90">,
                   op.options = #op.options<choices = {"linear(2x64:f32,48x64:f32c)->2x48:f32,edge@sm_90" = "cublaslt.linear[variant:3]",
                                 "linear(2x64:f32,16x64:f32c)->2x16:f32,edge@sm_90" = "cublaslt.linear[variant:3]",
                                 "linear(40x96:f32,64x96:f32c)->40x64:f32,edge@sm_90" = "cublaslt.linear[variant:3]"}>} {
  func.func @projections(%x: tensor<2x64xf32> {op.name = "x"}, %z: tensor<40x96xf32> {op.name = "z"})
      -> (tensor<2x48xf32> {op.name = "q"}, tensor<2x16xf32> {op.name = "k"}, tensor<40x64xf32> {op.name = "y"}) {
    %wq = op.parameter "q" : tensor<48x64xf32>
    %wk = op.parameter "k" : tensor<16x64xf32>
    %wy = op.parameter "y" : tensor<64x96xf32>
    %n = op.rms_norm %x {normalized_rank = 1 : i64, eps = 1.0e-6 : f64} : (tensor<2x64xf32>) -> tensor<2x64xf32>
    %q = op.linear %n, %wq : (tensor<2x64xf32>, tensor<48x64xf32>) -> tensor<2x48xf32>
    %k = op.linear %n, %wk : (tensor<2x64xf32>, tensor<16x64xf32>) -> tensor<2x16xf32>
    %y = op.linear %z, %wy : (tensor<40x96xf32>, tensor<64x96xf32>) -> tensor<40x64xf32>
    return %q, %k, %y : tensor<2x48xf32>, tensor<2x16xf32>, tensor<40x64xf32>
  }
}
