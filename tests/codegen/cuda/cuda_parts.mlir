// A program for a CUDA device before it is placed there: two small kernels that become one launch, a third that needs one of them.
!q = !kernel.buffer<300xf32>
!k = !kernel.buffer<70xf32>
!c = !kernel.buffer<9x70xf32>
!i = !kernel.buffer<1xi64>
kernel.program @parts target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  %cache = kernel.state "cache" : !c
  kernel.run (%q "q": !q, %k "k": !k, %at "at": !i) outs(%y "y": !q) {
    %row = kernel.slot : !k
    kernel.launch @double(%q) outs(%y) on @team {op = "mul", why = "one pass"} : (!q) -> !q
    kernel.launch @relu(%k) outs(%row) on @team {op = "relu", why = "one pass"} : (!k) -> !k
    kernel.launch @put(%at, %row) outs(%cache) on @team {op = "index_copy", why = "whole rows"} : (!i, !k) -> !c
    kernel.return %y : !q
  }
}
kernel.func @double(!q) outs(!q)
    schedule(<"pointwise", shape = {extent = [300], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    lambda body(%a: f32) {
  %0 = arith.addf %a, %a : f32
  kernel.yield %0 : f32
}
kernel.func @relu(!k) outs(!k)
    schedule(<"pointwise", shape = {extent = [70], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    lambda body(%a: f32) {
  %zero = arith.constant 0.0 : f32
  %0 = arith.maximumf %a, %zero : f32
  kernel.yield %0 : f32
}
kernel.func @put(!i, !k) outs(!c readwrite)
    schedule(<"scatter_rows", shape = {outer = 1, count = 1, run = 70, extent = 9, srcOuter = 70, srcRow = 70, outOuter = 630, outRow = 70}, tune = {add = 0}>) ties([])
