// A device with its own address space: copies, a launch through a thunk, events between the two queues.
!host = !kernel.buffer<[b, 8] x f32>
!dev = !kernel.buffer<[b, 8] x f32, space "late">
!weight = !kernel.buffer<8xf32>
!devweight = !kernel.buffer<8xf32, space "late">

kernel.program @offload target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  kernel.queue @device backend("late")
  kernel.extent @b min(1) max(32)
  %w = kernel.parameter "w" : !weight
  %p = kernel.prepared "w.device" offset(0) : !devweight
  kernel.prepare {
    kernel.copy %w to %p on @device : !weight to !devweight
    %done = kernel.record on @device
    kernel.wait %done on @team
  }
  kernel.run (%x "x": !host) outs(%y "y": !host) {
    %a = kernel.slot offset(0) : !dev
    %c = kernel.slot offset(b * 32) : !dev
    %t = kernel.slot offset(0) : !host
    kernel.launch @twice(%x) outs(%t) on @team {op = "mul"} : (!host) -> !host
    kernel.barrier on @team
    %ready = kernel.record on @team
    kernel.wait %ready on @device
    kernel.copy %t to %a on @device : !host to !dev
    kernel.launch @scale(%a, %p) outs(%c) on @device {op = "mul"} : (!dev, !devweight) -> !dev loc("w"("model.py":3:0))
    kernel.copy %c to %y on @device : !dev to !host
    %done = kernel.record on @device
    kernel.wait %done on @team
    kernel.barrier on @team
    kernel.return %y : !host
  }
}

kernel.func @twice(!host) outs(!host)
    schedule(<"pointwise", shape = {extent = [#kernel.extent<b * 8>], stride = [[1], [1]]},
              tune = {rank = 1, inputs = 1}>) ties([0 -> 0])
    lambda body(%a: f32) {
  %0 = arith.addf %a, %a : f32
  kernel.yield %0 : f32
}

kernel.func @scale(!dev, !devweight) outs(!dev)
    schedule(<"pointwise", shape = {extent = [b, 8], stride = [[8, 1], [0, 1], [8, 1]]},
              tune = {rank = 2, inputs = 2}>) ties([])
    lambda body(%a: f32, %b: f32) {
  %0 = arith.mulf %a, %b : f32
  kernel.yield %0 : f32
}
