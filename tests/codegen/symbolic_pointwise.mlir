// A chain over a named extent: run-time scalars, symbolic offsets in the arena, several types and constants in lambdas.
!x = !kernel.buffer<[b, 64] x f32>
!h = !kernel.buffer<[b, 64] x bf16>
!m = !kernel.buffer<[b, 64] x i1>
!n = !kernel.buffer<[b, 64] x i32>

kernel.program @chain target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(64)
  %scale = kernel.constant dense<[0.1, 0x7F800000, -1.0e-10, 3.0]> : tensor<4xf32> : !kernel.buffer<4xf32>
  kernel.run (%x "input.0": !x, %k "class": !n) outs(%y "out": !x, %m "mask": !m) {
    %t = kernel.slot offset(0) : !h
    %u = kernel.slot offset(b * 128) : !n
    %v = kernel.slot offset((b * 384 + 63) floordiv 64 * 64) : !x
    kernel.launch @narrow(%x) outs(%t) on @team {op = "to_dtype"} : (!x) -> !h loc("layers.0.act"("deep/model.py":7:0))
    kernel.launch @ints(%k) outs(%u) on @team {op = "remainder"} : (!n) -> !n loc("layers.0.act"("model.py":8:0))
    kernel.barrier on @team
    kernel.launch @widen(%t, %u) outs(%v, %m) on @team {op = "mul, gt"} : (!h, !n) -> (!x, !m)
    kernel.barrier on @team
    kernel.launch @scaled(%v, %scale) outs(%y) on @team {op = "mul"} : (!x, !kernel.buffer<4xf32>) -> !x
    kernel.return %y, %m, %k : !x, !m, !n
  }
}

kernel.func @narrow(!x) outs(!h)
    schedule(<"pointwise", shape = {extent = [#kernel.extent<b * 64>], stride = [[1], [1]]},
              tune = {rank = 1, inputs = 1}>) ties([])
    lambda body(%x: f32) {
  %limit = arith.constant 0x7F800000 : f32
  %0 = arith.minimumf %x, %limit : f32
  %1 = math.tanh %0 : f32
  %2 = arith.negf %1 : f32
  %3 = arith.truncf %2 : f32 to bf16
  kernel.yield %3 : bf16
}

kernel.func @ints(!n) outs(!n)
    schedule(<"pointwise", shape = {extent = [#kernel.extent<b * 64>], stride = [[1], [1]]},
              tune = {rank = 1, inputs = 1}>) ties([0 -> 0])
    lambda body(%k: i32) {
  %seven = arith.constant 7 : i32
  %0 = arith.floordivsi %k, %seven : i32
  %1 = arith.muli %0, %seven : i32
  %2 = arith.subi %k, %1 : i32
  %3 = arith.divui %2, %seven : i32
  %4 = arith.addi %3, %2 : i32
  kernel.yield %4 : i32
}

kernel.func @widen(!h, !n) outs(!x, !m)
    schedule(<"pointwise", shape = {extent = [b, 64], stride = [[64, 1], [64, 1], [64, 1], [64, 1]]},
              tune = {rank = 2, inputs = 2}>) ties([])
    lambda body(%h: bf16, %n: i32) {
  %0 = arith.extf %h : bf16 to f32
  %1 = arith.sitofp %n : i32 to f32
  %2 = arith.mulf %0, %1 : f32
  %half = arith.constant 0.5 : f32
  %3 = arith.cmpf ugt, %2, %half : f32
  %4 = arith.select %3, %2, %half : f32
  kernel.yield %4, %3 : f32, i1
}

kernel.func @scaled(!x, !kernel.buffer<4xf32>) outs(!x)
    schedule(<"pointwise", shape = {extent = [b, 16, 4], stride = [[64, 4, 1], [0, 0, 1], [64, 4, 1]]},
              tune = {rank = 3, inputs = 2}>) ties([])
    lambda body(%x: f32, %s: f32) {
  %0 = arith.mulf %x, %s : f32
  kernel.yield %0 : f32
}
