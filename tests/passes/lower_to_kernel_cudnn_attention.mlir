// RUN: straightline-opt %s --split-input-file --verify-diagnostics --assign-layouts --lower-to-kernel | FileCheck %s

// Where queries are many the library takes it. It reads extents and strides of four dims from its operands; the scale is that of
// float32 (0.125 has the bits 0x3e000000). (Costs are fitted to an H200: bench/cuda_attention.py.)
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @many
  // CHECK: kernel.plan @cudnn_attention_0
  // CHECK: kernel.run (%[[Q:.*]] "q": {{.*}}, %[[K:.*]] "k": {{.*}}) outs(%[[Y:[a-z0-9]+]]
  // CHECK-NEXT: %[[W:.*]] = kernel.slot : !kernel.buffer<1048576xi8>
  // CHECK-NEXT: kernel.call @cudnn_attention_0(%[[Q]], %[[K]], %[[K]]) outs(%[[Y]]) handle({{.*}}) workspace(%[[W]] :
  // CHECK-SAME: cuda.attention: estimated
  // CHECK: kernel.decl @cudnn_attention_0(!kernel.buffer<4x8x512x64xbf16>, !kernel.buffer<4x2x512x64xbf16>, !kernel.buffer<4x2x512x64xbf16>)
  // CHECK-NEXT: problem("attention", {is_causal = 1 : i64, scale = 1.250000e-01 : f32}) run("sl_cudnn_attention_run") plan("sl_cudnn_attention_plan")
  func.func @many(%q: tensor<4x8x512x64xbf16> {op.name = "q"}, %k: tensor<4x2x512x64xbf16> {op.name = "k"}) -> tensor<4x8x512x64xbf16> {
    %y = op.scaled_dot_product_attention %q, %k, %k {is_causal = true} : (tensor<4x8x512x64xbf16>, tensor<4x2x512x64xbf16>, tensor<4x2x512x64xbf16>) -> tensor<4x8x512x64xbf16>
    return %y : tensor<4x8x512x64xbf16>
  }
}

// -----

// One query over a cache is ours, and so is little work.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @few
  // CHECK-NOT: kernel.call
  // CHECK: kernel.launch @attention{{.*}}cudnn.attention: estimated
  func.func @few(%q: tensor<1x16x1x128xbf16>, %k: tensor<1x8x4096x128xbf16>) -> tensor<1x16x1x128xbf16> {
    %y = op.scaled_dot_product_attention %q, %k, %k {is_causal = false} : (tensor<1x16x1x128xbf16>, tensor<1x8x4096x128xbf16>, tensor<1x8x4096x128xbf16>) -> tensor<1x16x1x128xbf16>
    return %y : tensor<1x16x1x128xbf16>
  }
}

// -----

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @little
  // CHECK-NOT: kernel.call
  // CHECK: kernel.launch @attention{{.*}}cudnn.attention: estimated
  func.func @little(%q: tensor<1x4x16x64xf16>) -> tensor<1x4x16x64xf16> {
    %y = op.scaled_dot_product_attention %q, %q, %q {is_causal = false} : (tensor<1x4x16x64xf16>, tensor<1x4x16x64xf16>, tensor<1x4x16x64xf16>) -> tensor<1x4x16x64xf16>
    return %y : tensor<1x4x16x64xf16>
  }
}

// -----

// Two dims are seen as four; a mask comes along.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "scaled_dot_product_attention", targets = ["cudnn"], by = "test">]>} {
  // CHECK-LABEL: kernel.program @plane
  // CHECK: kernel.call @cudnn_attention_0(
  // CHECK: kernel.decl @cudnn_attention_0(!kernel.buffer<1x1x16x64xf16, {{.*}}>, {{.*}}, {{.*}}, !kernel.buffer<1x1x16x16xf16
  // CHECK-SAME: outs(!kernel.buffer<1x1x16x64xf16
  func.func @plane(%q: tensor<16x64xf16>, %m: tensor<16x16xf16>) -> tensor<16x64xf16> {
    %y = op.scaled_dot_product_attention %q, %q, %q mask %m {is_causal = false} : (tensor<16x64xf16>, tensor<16x64xf16>, tensor<16x64xf16>, tensor<16x16xf16>) -> tensor<16x64xf16>
    return %y : tensor<16x64xf16>
  }
}

// -----

// A route that cannot be followed says why; without it another kernel takes such a mask.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "scaled_dot_product_attention", targets = ["cudnn"], by = "the test">]>} {
  func.func @refused(%q: tensor<1x4x16x64xf16>, %m: tensor<16x16xi1>) -> tensor<1x4x16x64xf16> {
    // expected-error @+1 {{scaled_dot_product_attention: route scaled_dot_product_attention = cudnn (the test) cannot be honoured: cudnn.attention: mask is bool8, needs float32 or the type of q}}
    %y = op.scaled_dot_product_attention %q, %q, %q mask %m {is_causal = false} : (tensor<1x4x16x64xf16>, tensor<1x4x16x64xf16>, tensor<1x4x16x64xf16>, tensor<16x16xi1>) -> tensor<1x4x16x64xf16>
    return %y : tensor<1x4x16x64xf16>
  }
}

// -----

// Keys that come in two parts are read where they are, by our kernel, unless queries are many: those are worth a copy.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @parts
  // CHECK-NOT: kernel.call
  // CHECK: kernel.launch @attention{{.*}}cudnn.attention: keys and values come in 2 parts, needs one
  func.func @parts(%q: tensor<1x8x16x64xf16>, %k: tensor<1x8x256x64xf16>) -> tensor<1x8x16x64xf16> {
    %a = op.cat %k, %k {dim = 2 : i64} : (tensor<1x8x256x64xf16>, tensor<1x8x256x64xf16>) -> tensor<1x8x512x64xf16>
    %b = op.cat %k, %k {dim = 2 : i64} : (tensor<1x8x256x64xf16>, tensor<1x8x256x64xf16>) -> tensor<1x8x512x64xf16>
    %y = op.scaled_dot_product_attention %q, %a, %b {is_causal = false} : (tensor<1x8x16x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>) -> tensor<1x8x16x64xf16>
    return %y : tensor<1x8x16x64xf16>
  }
}

// -----

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @copied
  // CHECK: kernel.call @cudnn_attention_0(
  // CHECK: kernel.decl @cudnn_attention_0(!kernel.buffer<1x8x512x64xf16>, !kernel.buffer<1x8x512x64xf16>, !kernel.buffer<1x8x512x64xf16>)
  func.func @copied(%q: tensor<1x8x512x64xf16>, %k: tensor<1x8x256x64xf16>) -> tensor<1x8x512x64xf16> {
    %a = op.cat %k, %k {dim = 2 : i64} : (tensor<1x8x256x64xf16>, tensor<1x8x256x64xf16>) -> tensor<1x8x512x64xf16>
    %b = op.cat %k, %k {dim = 2 : i64} : (tensor<1x8x256x64xf16>, tensor<1x8x256x64xf16>) -> tensor<1x8x512x64xf16>
    %y = op.scaled_dot_product_attention %q, %a, %b {is_causal = false} : (tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>) -> tensor<1x8x512x64xf16>
    return %y : tensor<1x8x512x64xf16>
  }
}

// -----

// Our kernel has one head size; the library may have two.
module attributes {op.target = #kernel.target<"cuda", "sm_90">, op.options = #op.options<routes = [#op.route<op = "scaled_dot_product_attention", targets = ["cuda"], by = "the test">]>} {
  func.func @two_sizes(%q: tensor<1x1x2x16xbf16>, %v: tensor<1x1x2x32xbf16>) -> tensor<1x1x2x32xbf16> {
    // expected-error @+1 {{cuda.attention: head size of operand 2 is 32, needs that of q, 16}}
    %y = op.scaled_dot_product_attention %q, %q, %v {is_causal = false} : (tensor<1x1x2x16xbf16>, tensor<1x1x2x16xbf16>, tensor<1x1x2x32xbf16>) -> tensor<1x1x2x32xbf16>
    return %y : tensor<1x1x2x32xbf16>
  }
}

// -----

// The library has no masks by turns (2 images for 4) and no NaN for queries whose mask keeps nothing: what it would take is ours.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @by_turns
  // CHECK-NOT: kernel.call
  // CHECK: kernel.launch @attention{{.*}}the mask has 2 images, needs one or those of q
  // CHECK: maskImages = 2
  // CHECK-NOT: nan = 1
  func.func @by_turns(%q: tensor<4x8x512x64xbf16>, %m: tensor<2x8x512x512xbf16>) -> tensor<4x8x512x64xbf16> {
    %y = op.scaled_dot_product_attention %q, %q, %q mask %m {is_causal = false}
      : (tensor<4x8x512x64xbf16>, tensor<4x8x512x64xbf16>, tensor<4x8x512x64xbf16>, tensor<2x8x512x512xbf16>) -> tensor<4x8x512x64xbf16>
    return %y : tensor<4x8x512x64xbf16>
  }
}

// -----

module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @empty_is_nan
  // CHECK-NOT: kernel.call
  // CHECK: kernel.launch @attention{{.*}}a query whose mask keeps no key is NaN, needs zeros
  // CHECK: causal = 0, nan = 1
  func.func @empty_is_nan(%q: tensor<4x8x512x64xbf16>, %m: tensor<4x8x512x512xbf16>) -> tensor<4x8x512x64xbf16> {
    %y = op.scaled_dot_product_attention %q, %q, %q mask %m {empty_is_nan, is_causal = false}
      : (tensor<4x8x512x64xbf16>, tensor<4x8x512x64xbf16>, tensor<4x8x512x64xbf16>, tensor<4x8x512x512xbf16>) -> tensor<4x8x512x64xbf16>
    return %y : tensor<4x8x512x64xbf16>
  }
}
