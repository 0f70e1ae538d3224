// RUN: straightline-opt %s --split-input-file --fuse-contractions --select-kernels | FileCheck %s
// RUN: straightline-opt %s --split-input-file --fuse-contractions --select-kernels -o %t.once && straightline-opt %t.once --split-input-file --select-kernels -o %t.twice && diff %t.once %t.twice
// RUN: straightline-opt %s --split-input-file --fuse-contractions --select-kernels --lower-to-kernel | FileCheck %s --check-prefix=LOWERED

// A convolution of image sizes that a call decides about: with few pixels the weight decides, with many the multiplications.
module attributes {op.target = #kernel.target<"cpu", "x86-64-v4", vector_bytes = 64, l1 = 32768, l2 = 1048576>} {
  op.symbol @h {max = 512 : i64, min = 1 : i64}
  op.symbol @w {max = 512 : i64, min = 1 : i64}

  // CHECK-LABEL: func.func @many_channels
  // CHECK: op.fusion{{.*}}kernel = "native.winograd", {{.*}}; below [[FEW:[0-9]+]] pixels native.convolution; below [[MORE:[0-9]+]] pixels native.winograd"
  // CHECK-SAME: op.small_images = [#op.small_images<kernel = "native.convolution", why = "native.convolution: estimated {{.*}} us for 1 x {{.*}} pixels", below = [[FEW]], images = 1, height = {{.*}}, width = {{.*}}>, #op.small_images<kernel = "native.winograd", why = "{{.*}}", below = [[MORE]], images = 1,
  // LOWERED-LABEL: kernel.program @many_channels
  // LOWERED: kernel.run
  // LOWERED: %[[PIXELS:.*]] = kernel.size(h * w)
  // LOWERED: %[[FEW:.*]] = arith.cmpi slt, %[[PIXELS]], %
  // LOWERED: kernel.if %[[FEW]]
  // LOWERED: kernel.launch @convolution_
  // LOWERED: } else {
  // LOWERED: kernel.if
  // LOWERED: kernel.launch @winograd_
  // LOWERED: } else {
  // LOWERED: kernel.launch @winograd_
  func.func @many_channels(%x: tensor<1x256x?x?xf32, #op.dims<[1, 256, h, w]>>) -> tensor<1x256x?x?xf32, #op.dims<[1, 256, h, w]>> {
    %w = op.parameter "w" : tensor<256x256x3x3xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x256x?x?xf32, #op.dims<[1, 256, h, w]>>, tensor<256x256x3x3xf32>) -> tensor<1x256x?x?xf32, #op.dims<[1, 256, h, w]>>
    return %y : tensor<1x256x?x?xf32, #op.dims<[1, 256, h, w]>>
  }

}

// -----

module attributes {op.target = #kernel.target<"cpu", "x86-64-v4", vector_bytes = 64, l1 = 32768, l2 = 1048576>} {
  op.symbol @h {max = 512 : i64, min = 1 : i64}
  op.symbol @w {max = 512 : i64, min = 1 : i64}

  // The weight of few channels is small whatever its form, and a kernel of one tap has one form.
  // CHECK-LABEL: func.func @few_channels
  // CHECK-NOT: op.small_images
  func.func @few_channels(%x: tensor<1x16x?x?xf32, #op.dims<[1, 16, h, w]>>) -> tensor<1x16x?x?xf32, #op.dims<[1, 16, h, w]>> {
    %w = op.parameter "w" : tensor<16x16x1x1xf32>
    %y = op.convolution %x, %w {dilation = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, padding = array<i64: 0, 0>, stride = array<i64: 1, 1>, transposed = false}
        : (tensor<1x16x?x?xf32, #op.dims<[1, 16, h, w]>>, tensor<16x16x1x1xf32>) -> tensor<1x16x?x?xf32, #op.dims<[1, 16, h, w]>>
    return %y : tensor<1x16x?x?xf32, #op.dims<[1, 16, h, w]>>
  }
}
