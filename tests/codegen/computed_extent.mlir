// A size that the run computes: read, checked, told to the caller; a view behind it is a statement.
!x = !kernel.buffer<[b] x f32>
!u = !kernel.buffer<[u0] x f32>
!all = !kernel.buffer<[b + u0] x f32>

kernel.program @counted target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(64)
  kernel.extent @u0 min(0) max(64) bound(b)
  kernel.run (%x "x": !x, %n "n": !kernel.buffer<i64>) outs(%y "y": !all) {
    %t = kernel.slot offset(0) : !x
    kernel.launch @twice(%x) outs(%t) on @team {op = "mul"} : (!x) -> !x loc("scale"("model.py":3:0))
    %count = kernel.load %n[] : !kernel.buffer<i64> -> i64
    kernel.set_extent @u0 = %count loc("model.py":4:0)
    %first = kernel.view %x offset(0) : !x -> !u
    %head = kernel.view %y offset(0) : !all -> !u
    %tail = kernel.view %y offset(u0) : !all -> !x
    kernel.launch @twice(%first) outs(%head) sizes([u0]) on @team {op = "mul"} : (!u) -> !u loc("scale"("model.py":5:0))
    kernel.barrier on @team
    kernel.launch @twice(%t) outs(%tail) sizes([b]) on @team {op = "mul"} : (!x) -> !x loc("scale"("model.py":6:0))
    kernel.return %y : !all
  }
}

kernel.func @twice(!x) outs(!x)
    schedule(<"pointwise", shape = {extent = [#kernel.extent<b>], stride = [[1], [1]]},
              tune = {rank = 1, inputs = 1}>) ties([])
    lambda body(%v: f32) {
  %0 = arith.addf %v, %v : f32
  kernel.yield %0 : f32
}
