// A program for a CUDA device before it is placed there: a literal, a named extent, both families.
!x = !kernel.buffer<[b, 1024] x f32>
!w = !kernel.buffer<1024xf32>
!one = !kernel.buffer<1xf32>
kernel.program @rows target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(1000000)
  %w = kernel.parameter "w" : !w
  %table = kernel.constant dense<2.0> : tensor<1xf32> : !one
  kernel.run (%x "x": !x) outs(%y "y": !x) {
    %t = kernel.slot : !x
    kernel.launch @scale(%x, %w, %table) outs(%t) on @team {team = 1 : i64} : (!x, !w, !one) -> !x
    kernel.launch @mean(%t) outs(%y) on @team : (!x) -> !x
    kernel.return %y : !x
  }
}
kernel.func @scale(!x, !w, !one) outs(!x)
    schedule(<"pointwise", shape = {extent = [b, 1024], stride = [[1024, 1], [0, 1], [0, 0], [1024, 1]]}, tune = {rank = 2, inputs = 3}>) ties([])
    lambda body(%a: f32, %b: f32, %c: f32) {
  %0 = arith.mulf %a, %b : f32
  %1 = arith.addf %0, %c : f32
  kernel.yield %1 : f32
}
kernel.func @mean(!x) outs(!x)
    schedule(<"row_reduction", shape = {outer = [b], inner = [1024], stride = [[[1024], [1]], [[1024], [1]]]},
              tune = {outerRank = 1, innerRank = 1, inputs = 1, rowOutputs = 0, elementOutputs = 1, kept = 0, keptStage = 0, stages = 1, combine = ["sum"]}>) ties([])
    lambda stage0(%a: f32) {
  kernel.yield %a : f32
}
    lambda element(%a: f32, %r: f32) {
  %0 = arith.subf %a, %r : f32
  kernel.yield %0 : f32
}
