// A program for a CUDA device before it is placed there: kernels that find the row that they write, one of whose launches has another kernel beside it.
!q = !kernel.buffer<300xf32>
!k = !kernel.buffer<2x70xf32>
!c = !kernel.buffer<2x9x70xf32>
!h = !kernel.buffer<9x2x35xf32, strides [70, 630, 1]>
!i = !kernel.buffer<1xi64>
!j = !kernel.buffer<1xi32>
kernel.program @written_rows target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  %keys = kernel.state "keys" : !c
  %values = kernel.state "values" : !c
  kernel.run (%q "q": !q, %k "k": !k, %at "at": !i, %back "back": !j) outs(%y "y": !q, %z "z": !c) {
    kernel.launch @double(%q) outs(%y) on @team {op = "mul", why = "one pass"} : (!q) -> !q
    kernel.launch @row(%k, %at) outs(%keys) on @team {op = "relu, index_copy", why = "one pass"} : (!k, !i) -> !c
    %low = kernel.view %values offset(0) : !c -> !h
    %high = kernel.view %values offset(35) : !c -> !h
    kernel.launch @halves(%k, %back) outs(%low, %high) on @team {op = "relu, index_put", why = "one pass"} : (!k, !j) -> (!h, !h)
    kernel.launch @add(%keys, %values) outs(%z) on @team {op = "add", why = "one pass"} : (!c, !c) -> !c
    kernel.return %y, %z : !q, !c
  }
}
kernel.func @double(!q) outs(!q)
    schedule(<"pointwise", shape = {extent = [300], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([])
    lambda body(%a: f32) {
  %0 = arith.addf %a, %a : f32
  kernel.yield %0 : f32
}
kernel.func @row(!k, !i) outs(!c readwrite)
    schedule(<"pointwise", shape = {extent = [2, 70], stride = [[70, 1], [630, 1]]}, tune = {rank = 2, inputs = 1}>) ties([])
    attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 70, wrap = 0>]}
    lambda body(%a: f32) {
  %zero = arith.constant 0.0 : f32
  %0 = arith.maximumf %a, %zero : f32
  kernel.yield %0 : f32
}
kernel.func @halves(!k, !j) outs(!c readwrite, !c readwrite)
    schedule(<"pointwise", shape = {extent = [2, 35], stride = [[70, 1], [630, 1], [630, 1]]}, tune = {rank = 2, inputs = 1}>) ties([])
    attributes {kernel.rows = [#kernel.row<output = 0, index = 1, extent = 9, stride = 70, wrap = 1>, #kernel.row<output = 1, index = 1, extent = 9, stride = 70, wrap = 1>]}
    lambda body(%a: f32) {
  %zero = arith.constant 0.0 : f32
  %0 = arith.maximumf %a, %zero : f32
  %1 = arith.minimumf %a, %zero : f32
  kernel.yield %0, %1 : f32, f32
}
kernel.func @add(!c, !c) outs(!c)
    schedule(<"pointwise", shape = {extent = [1260], stride = [[1], [1], [1]]}, tune = {rank = 1, inputs = 2}>) ties([])
    lambda body(%a: f32, %b: f32) {
  %0 = arith.addf %a, %b : f32
  kernel.yield %0 : f32
}
