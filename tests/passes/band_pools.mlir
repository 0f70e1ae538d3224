// RUN: straightline-opt %s --band-pools --split-input-file | FileCheck %s
// RUN: straightline-opt %s --band-pools --split-input-file -o %t.once && straightline-opt %t.once --band-pools --split-input-file -o %t.twice && diff %t.once %t.twice

// 3,211,264 bytes of image are 4 bands of 28 rows: 802,816 bytes, and the one row that windows share with the band before.
// Band i reads rows 56 i - 3 to 56 i + 57 of x: 56 with its border; writes rows 14 i to 14 i + 13 of y.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: %[[BAND:.*]] = kernel.slot : !kernel.buffer<1x64x29x112xf32, strides [207872, 1, 7168, 64]>
      // CHECK: %[[NEW:.*]] = kernel.view %[[BAND]] offset(7168)
      // CHECK-SAME: -> !kernel.buffer<1x64x28x112xf32, strides [207872, 1, 7168, 64]>
      // CHECK: %[[X:.*]] = kernel.view %{{.*}} offset(0)
      // CHECK-SAME: -> !kernel.buffer<1x3x56x224xf32, strides [157323, 1, 687, 3], border {{\[\[}}0, 0], [0, 0], [3, 2], [3, 2]]>
      // CHECK: kernel.launch @convolution_band(%[[X]], %{{[^)]*}}) outs(%[[NEW]]) on @team {kernel.cost_us = 1.000000e+02
      // CHECK: %[[Y:.*]] = kernel.view %{{.*}} offset(0)
      // CHECK-SAME: -> !kernel.buffer<1x64x14x56xf32, strides [200704, 3136, 56, 1]>
      // CHECK: kernel.launch @pool_first(%[[NEW]]) outs(%[[Y]]) on @team {kernel.cost_us = 2.000000e+01
      // CHECK: %[[LAST:.*]] = kernel.view %[[BAND]] offset(200704)
      // CHECK: %[[KEPT:.*]] = kernel.view %[[BAND]] offset(0)
      // CHECK: kernel.launch @band_rows(%[[LAST]]) outs(%[[KEPT]]) on @team
      // CHECK: %[[X1:.*]] = kernel.view %{{.*}} offset(38472)
      // CHECK: kernel.launch @convolution_band(%[[X1]], %{{[^)]*}}) outs(%[[NEW]])
      // CHECK: %[[Y1:.*]] = kernel.view %{{.*}} offset(784)
      // CHECK: kernel.launch @pool_band(%[[BAND]]) outs(%[[Y1]])
      // CHECK: kernel.launch @band_rows
      // CHECK: kernel.launch @convolution_band
      // CHECK: kernel.launch @pool_band
      // CHECK: kernel.launch @band_rows
      // CHECK: kernel.launch @convolution_band
      // CHECK: %[[Y3:.*]] = kernel.view %{{.*}} offset(2352)
      // CHECK: kernel.launch @pool_band(%[[BAND]]) outs(%[[Y3]])
      // CHECK-NEXT: kernel.return
      kernel.launch @convolution(%x, %w, %b) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w, !b) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = [[0, 0, 0, 1]]}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32, %c: f32) {
      %t = arith.addf %a, %c : f32
      kernel.yield %t : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}
// CHECK: kernel.func @convolution_band({{.*}}
// CHECK-NEXT: h = 56, w = 224, c = 3, k = 64, ho = 28, wo = 112
// CHECK: kernel.func @pool_first
// CHECK-NEXT: inH = 28, inW = 112, outH = 14, outW = 56, {{.*}} padH = 1
// CHECK: kernel.func @pool_band
// CHECK-NEXT: inH = 29, inW = 112, outH = 14, outW = 56, {{.*}} padH = 0
// CHECK: kernel.func @band_rows
// CHECK-NEXT: extent = [7168]

// -----

// Windows that do not overlap: no rows are kept, and one pool serves all bands.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.slot : !kernel.buffer<1x64x28x112xf32, strides [200704, 1, 7168, 64]>
      // CHECK-NOT: band_rows
      // CHECK-COUNT-4: kernel.launch @pool_first(
      // CHECK-NOT: band_rows
      // CHECK: kernel.return
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 2, kernelW = 2, strideH = 2, strideW = 2, padH = 0, padW = 0, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// An average.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "avg", channelsLast = 0}>) ties([])
}

// -----

// A window that overlaps by one row, where nothing is padded: rows of the image remain.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x55x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 55, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 0, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// A dilated window.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 2, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// An epilogue that adds another image.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w, %b) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w, !b) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = [[802816, 7168, 64, 1]]}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32, %c: f32) {
      %t = arith.addf %a, %c : f32
      kernel.yield %t : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// Another family of convolution.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution_direct", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// Another reader of the image.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.launch @pool(%image) outs(%y) on @team : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// A statement between the two.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [802816, 1, 7168, 64]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %s = kernel.slot : !b
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @other(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @other(%b) outs(%s) on @team : (!b) -> !b
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
  kernel.func @other(!f) outs(!f)
    schedule(<"pointwise", shape = {extent = [64], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([0 -> 0])
    lambda body(%a: f32) {
      kernel.yield %a : f32
    }
}

// -----

// An image that is not dense.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x112x112xf32, strides [1605632, 1, 14336, 128]>
!y = !kernel.buffer<1x64x56x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 112, inW = 112, outH = 56, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// 64 x 64 x 64 elements are 1 MiB.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x64x64xf32, strides [262144, 1, 4096, 64]>
!y = !kernel.buffer<1x64x32x32xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 64, inW = 64, outH = 32, outW = 32, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}

// -----

// 118 rows of the pool: 59 is prime, and 2 bands are larger than 1 MiB.
!x = !kernel.buffer<1x3x224x224xf32, strides [157323, 1, 687, 3], border [[0, 0], [0, 0], [3, 2], [3, 2]]>
!w = !kernel.buffer<4x7x7x3x16xf32>
!b = !kernel.buffer<64xf32>
!i = !kernel.buffer<1x64x236x112xf32, strides [1691648, 1, 7168, 64]>
!y = !kernel.buffer<1x64x118x56xf32>
!f = !kernel.buffer<f32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !w
    %b = kernel.parameter "b" : !b
    kernel.run (%x "x": !x) outs(%y "y": !y) {
      %image = kernel.slot : !i
      // CHECK: kernel.launch @convolution(
      // CHECK-NEXT: kernel.launch @pool(
      kernel.launch @convolution(%x, %w) outs(%image) on @team {kernel.cost_us = 400.0 : f64} : (!x, !w) -> !i
      kernel.launch @pool(%image) outs(%y) on @team {kernel.cost_us = 80.0 : f64} : (!i) -> !y
      kernel.return %y : !y
    }
  }
  kernel.func @convolution(!f, !f) outs(!f)
    schedule(<"convolution", shape = {n = 1, h = 224, w = 224, c = 3, k = 64, ho = 112, wo = 112, strideH = 2, strideW = 2, padH = 3, padW = 3, dilationH = 1, dilationW = 1, inStride = [157323, 687, 3], outStride = [802816, 7168, 64], epilogueStride = []}, tune = {mr = 6, nr = 16, kh = 7, kw = 7, mc = 96, prefetch = 0, prefetchStreams = 1}>) ties([])
    lambda epilogue(%a: f32) {
      kernel.yield %a : f32
    }
  kernel.func @pool(!f) outs(!f)
    schedule(<"pool", shape = {batch = 1, channels = 64, inH = 236, inW = 112, outH = 118, outW = 56, kernelH = 3, kernelW = 3, strideH = 2, strideW = 2, padH = 1, padW = 1, dilationH = 1, dilationW = 1, includePad = 0, divisor = 0, inStride = [802816, 1, 7168, 64], outStride = [200704, 3136, 56, 1]}, tune = {kind = "max", channelsLast = 0}>) ties([])
}
