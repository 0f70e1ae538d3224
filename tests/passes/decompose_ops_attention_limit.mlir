// RUN: straightline-opt %s --pass-pipeline='builtin.module(func.func(decompose-ops{keep-attention=true largest-attention=100000 keep-half-products=true}))' | FileCheck %s

// With a limit attention of float32 stays whole where there are few queries or little work; of 16-bit floats always, and then
// it is not widened; of float64 never.

// CHECK-LABEL: func.func @one_token
// CHECK-NEXT: op.scaled_dot_product_attention
// CHECK-NEXT: return
func.func @one_token(%q: tensor<1x8x2x128xf32>, %k: tensor<1x1x4096x128xf32>) -> tensor<1x8x2x128xf32> {
  %y = op.scaled_dot_product_attention %q, %k, %k {is_causal = false, scale = 0.1 : f64} : (tensor<1x8x2x128xf32>, tensor<1x1x4096x128xf32>, tensor<1x1x4096x128xf32>) -> tensor<1x8x2x128xf32>
  return %y : tensor<1x8x2x128xf32>
}

// CHECK-LABEL: func.func @little_work
// CHECK-NEXT: op.scaled_dot_product_attention
func.func @little_work(%q: tensor<1x1x40x16xf32>) -> tensor<1x1x40x16xf32> {
  %y = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.1 : f64} : (tensor<1x1x40x16xf32>, tensor<1x1x40x16xf32>, tensor<1x1x40x16xf32>) -> tensor<1x1x40x16xf32>
  return %y : tensor<1x1x40x16xf32>
}

// CHECK-LABEL: func.func @much_work
// CHECK-NOT: op.scaled_dot_product_attention
// CHECK: op.matmul
// CHECK: op.softmax
// CHECK: op.matmul
func.func @much_work(%q: tensor<1x1x80x16xf32>) -> tensor<1x1x80x16xf32> {
  %y = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.1 : f64} : (tensor<1x1x80x16xf32>, tensor<1x1x80x16xf32>, tensor<1x1x80x16xf32>) -> tensor<1x1x80x16xf32>
  return %y : tensor<1x1x80x16xf32>
}

// CHECK-LABEL: func.func @half
// CHECK-NOT: op.to_dtype
// CHECK: op.scaled_dot_product_attention {{.*}}bf16
func.func @half(%q: tensor<1x1x80x16xbf16>) -> tensor<1x1x80x16xbf16> {
  %y = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.1 : f64} : (tensor<1x1x80x16xbf16>, tensor<1x1x80x16xbf16>, tensor<1x1x80x16xbf16>) -> tensor<1x1x80x16xbf16>
  return %y : tensor<1x1x80x16xbf16>
}

// A head that the kernel does not take: widened, then products.
// CHECK-LABEL: func.func @large_head
// CHECK: op.to_dtype
// CHECK: op.matmul {{.*}}f32
func.func @large_head(%q: tensor<1x1x2x512xbf16>) -> tensor<1x1x2x512xbf16> {
  %y = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.1 : f64} : (tensor<1x1x2x512xbf16>, tensor<1x1x2x512xbf16>, tensor<1x1x2x512xbf16>) -> tensor<1x1x2x512xbf16>
  return %y : tensor<1x1x2x512xbf16>
}

// CHECK-LABEL: func.func @double
// CHECK-NOT: op.scaled_dot_product_attention
// CHECK: return
func.func @double(%q: tensor<1x1x2x16xf64>) -> tensor<1x1x2x16xf64> {
  %y = op.scaled_dot_product_attention %q, %q, %q {is_causal = false, scale = 0.1 : f64} : (tensor<1x1x2x16xf64>, tensor<1x1x2x16xf64>, tensor<1x1x2x16xf64>) -> tensor<1x1x2x16xf64>
  return %y : tensor<1x1x2x16xf64>
}

// Values of another size than keys.
// CHECK-LABEL: func.func @two_sizes
// CHECK-NOT: op.scaled_dot_product_attention
// CHECK: return
func.func @two_sizes(%q: tensor<1x1x2x16xbf16>, %v: tensor<1x1x2x32xbf16>) -> tensor<1x1x2x32xbf16> {
  %y = op.scaled_dot_product_attention %q, %q, %v {is_causal = false, scale = 0.1 : f64} : (tensor<1x1x2x16xbf16>, tensor<1x1x2x16xbf16>, tensor<1x1x2x32xbf16>) -> tensor<1x1x2x32xbf16>
  return %y : tensor<1x1x2x32xbf16>
}
