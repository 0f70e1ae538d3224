// Products for a CUDA device before they are placed there: one token's rows, and rows of which there are many, shared by a
// cluster of blocks, both in bfloat16 with their epilogues.
!x = !kernel.buffer<1x512xbf16>
!w = !kernel.buffer<300x512xbf16>
!b = !kernel.buffer<300xbf16>
!y = !kernel.buffer<1x300xbf16>
!xs = !kernel.buffer<[b, 512] x bf16>
!ys = !kernel.buffer<[b, 300] x f32>
kernel.program @products target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(1000000)
  %w = kernel.parameter "w" : !w
  %bias = kernel.parameter "b" : !b
  kernel.run (%x "x": !x, %xs "xs": !xs) outs(%y "y": !y, %ys "ys": !ys) {
    kernel.launch @gemv_1x300x512_bias(%x, %w, %bias) outs(%y) on @team {op = "linear"} : (!x, !w, !b) -> !y
    kernel.launch @linear_nx300x512(%xs, %w) outs(%ys) on @team {op = "linear"} : (!xs, !w) -> !ys
    kernel.return %y, %ys : !y, !ys
  }
}
kernel.func @gemv_1x300x512_bias(!x, !w, !b) outs(!y)
    schedule(<"gemv", shape = {m = 1, n = 300, k = 512, lda = 512, ldw = 512, ldc = 300, epilogueStride = [[0, 1]]},
              tune = {rows = 1, mr = 1, lanes = 32, threads = 128, unroll = 2}>) ties([])
    lambda epilogue(%acc: f32, %bias: bf16) {
  %0 = arith.extf %bias : bf16 to f32
  %1 = arith.addf %acc, %0 : f32
  %2 = arith.truncf %1 : f32 to bf16
  kernel.yield %2 : bf16
}
kernel.func @linear_nx300x512(!xs, !w) outs(!ys)
    schedule(<"matmul", shape = {batch = [1, 1, 1], m = b, n = 300, k = 512, aRow = 512, aCol = 1, bRow = 1, bCol = 512, cRow = 300, epilogueStride = []},
              tune = {mr = 16, nr = 16, rows = 32, columns = 32, threads = 128, splits = 2}>) ties([])
    lambda epilogue(%acc: f32) {
  kernel.yield %acc : f32
}
