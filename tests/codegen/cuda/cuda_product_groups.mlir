// Products of the same many rows by warpgroups, before they are placed on a device: a bias and a residual for one, nothing for the
// other; then two weights of one result (SwiGLU without its roundings).
!x = !kernel.buffer<128x256xbf16>
!wq = !kernel.buffer<200x256xbf16>
!wk = !kernel.buffer<72x256xbf16>
!b = !kernel.buffer<200xbf16>
!q = !kernel.buffer<128x200xbf16>
!k = !kernel.buffer<128x72xbf16>
!wg = !kernel.buffer<96x200xbf16>
!y = !kernel.buffer<128x96xbf16>
!maps = !kernel.buffer<3200xi8>
!more_maps = !kernel.buffer<1664xi8>
kernel.program @groups target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  %wq = kernel.parameter "q" : !wq
  %bias = kernel.parameter "b" : !b
  %wk = kernel.parameter "k" : !wk
  %wg = kernel.parameter "g" : !wg
  %wu = kernel.parameter "u" : !wg
  kernel.run (%x "x": !x, %r "r": !q) outs(%y "y": !y, %k "k": !k) {
    %q = kernel.slot : !q
    %maps = kernel.slot : !maps
    %more = kernel.slot : !more_maps
    kernel.launch @products_200_72x256(%x, %wq, %wk, %bias, %r) outs(%q, %k) workspace(%maps : !maps) on @team {op = "linear"} : (!x, !wq, !wk, !b, !q) -> (!q, !k)
    kernel.launch @products_96x200(%q, %wg, %wu) outs(%y) workspace(%more : !more_maps) on @team {op = "linear"} : (!q, !wg, !wg) -> !y
    kernel.return %y, %k : !y, !k
  }
}
kernel.func @products_200_72x256(!x, !wq, !wk, !b, !q) outs(!q, !k) workspace(!maps)
    schedule(<"matmul_group", shape = {m = 128, k = 256, aRow = 256, aCol = 1, n = [200, 72], ldw = [[256], [256]], ldc = [200, 72],
                                       epilogueStride = [[[0, 1], [200, 1]], []]},
              tune = {rows = 64, columns = 64, threads = 160, stages = 4, tf32 = 0, early = 2, parts = 2, weights = 1, operands = [2, 0]}>) ties([])
    lambda epilogue0(%acc: f32, %bias: bf16, %residual: bf16) {
  %0 = arith.extf %bias : bf16 to f32
  %1 = arith.addf %acc, %0 : f32
  %2 = arith.extf %residual : bf16 to f32
  %3 = arith.addf %1, %2 : f32
  %4 = arith.truncf %3 : f32 to bf16
  kernel.yield %4 : bf16
}
    lambda epilogue1(%acc: f32) {
  %0 = arith.truncf %acc : f32 to bf16
  kernel.yield %0 : bf16
}
kernel.func @products_96x200(!q, !wg, !wg) outs(!y) workspace(!more_maps)
    schedule(<"matmul_group", shape = {m = 128, k = 200, aRow = 200, aCol = 1, n = [96], ldw = [[200, 200]], ldc = [96], epilogueStride = [[]]},
              tune = {rows = 64, columns = 64, threads = 160, stages = 4, tf32 = 0, early = 2, parts = 1, weights = 2, operands = [0]}>) ties([])
    lambda epilogue0(%gate: f32, %up: f32) {
  %one = arith.constant 1.000000e+00 : f32
  %0 = arith.negf %gate : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %one, %1 : f32
  %3 = arith.divf %gate, %2 : f32
  %4 = arith.mulf %3, %up : f32
  %5 = arith.truncf %4 : f32 to bf16
  kernel.yield %5 : bf16
}
