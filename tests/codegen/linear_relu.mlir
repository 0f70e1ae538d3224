// A linear layer with ReLU on one thread: weights packed in prepare, bias and ReLU in the GEMM's epilogue.
!x = !kernel.buffer<1x64xf32>
!w = !kernel.buffer<10x64xf32>
!packed = !kernel.buffer<1x64x16xf32>
!bias = !kernel.buffer<10xf32>
!z = !kernel.buffer<1x10xf32>

kernel.program @forward target(<"cpu", "x86-64-v3", threads = 1>) {
  kernel.queue @team backend("cpu")
  %w = kernel.parameter "fc.weight" : !w
  %bias = kernel.parameter "fc.bias" : !bias
  %p = kernel.prepared "fc.weight.packed" offset(0) : !packed
  kernel.prepare {
    kernel.launch @pack_10x64(%w) outs(%p) on @team {op = "pack"} : (!w) -> !packed loc("fc"("model.py":12:0))
  }
  kernel.run (%x "x": !x) outs(%z "z": !z) {
    kernel.launch @gemm_1x10x64_bias_relu(%x, %p, %bias) outs(%z) on @team {op = "linear, relu"}
        : (!x, !packed, !bias) -> !z loc(fused["fc"("model.py":12:0), "model.py":13:0])
    kernel.return %z : !z
  }
}

kernel.func @pack_10x64(!w) outs(!packed)
    schedule(<"pack_gemm", shape = {n = 10, k = 64, strideN = 64, strideK = 1}, tune = {nr = 16}>) ties([])

kernel.func @gemm_1x10x64_bias_relu(!x, !packed, !bias) outs(!z)
    schedule(<"gemm", shape = {m = 1, n = 10, k = 64, lda = 64, ldc = 10, epilogueStride = [[0, 1]]},
              tune = {mr = 1, nr = 16, kc = 0, mc = 96, prefetch = 0}>) ties([])
    lambda epilogue(%acc: f32, %bias: f32) {
  %zero = arith.constant 0.0 : f32
  %0 = arith.addf %acc, %bias : f32
  %1 = arith.maximumf %0, %zero : f32
  kernel.yield %1 : f32
}
