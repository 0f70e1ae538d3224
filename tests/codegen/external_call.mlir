// An external library entry with a handle and workspace, memory of run-time size, a border, a checked division.
!x = !kernel.buffer<4x64xf32>
!w = !kernel.buffer<10x64xf32>
!y = !kernel.buffer<4x10xf32>
!scratch = !kernel.buffer<256xi8>
!cell = !kernel.buffer<i64>
!i = !kernel.buffer<4x10xi32>
!bordered = !kernel.buffer<4x10xf32, border [[1, 1], [0, 6]]>

kernel.program @library target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  %w = kernel.parameter "fc.weight" : !w
  %h = kernel.handle "fc" destroy("example_ip_destroy")
  kernel.prepare {
    kernel.plan @ip(%w) outs(%h) on @team : !w loc("fc"("model.py":5:0))
  }
  kernel.run (%x "x": !x, %k "k": !i) outs(%y "y": !y, %j "j": !i) {
    %scratch = kernel.slot offset(0) : !scratch
    %cell = kernel.slot offset(256) : !cell
    %pad = kernel.slot offset(320) : !bordered
    kernel.call @ip(%x, %w) outs(%y) handle(%h) workspace(%scratch : !scratch) on @team {op = "linear"}
        : (!x, !w) -> !y loc("fc"("model.py":5:0))
    kernel.barrier on @team
    kernel.launch @place(%y) outs(%pad) on @team {op = "clone"} : (!y) -> !bordered
    %bytes = kernel.size(160)
    %memory = kernel.alloc(%bytes) cell(%cell : !cell) : !i
    kernel.launch @divide(%k, %k) outs(%memory) on @team {op = "div"} : (!i, !i) -> !i loc("model.py":6:0)
    kernel.copy %memory to %j on @team : !i to !i
    kernel.return %y, %j : !y, !i
  }
}

kernel.decl @ip(!x, constant !w) outs(!y) workspace(!scratch)
    problem("inner_product", {transposed = 1 : i64}) run("example_ip_run") plan("example_ip_plan")
    destroy("example_ip_destroy") can_fail

kernel.func @place(!y) outs(!bordered)
    schedule(<"pointwise", shape = {extent = [4, 10], stride = [[10, 1], [16, 1]]}, tune = {rank = 2, inputs = 1}>)
    ties([])
    lambda body(%a: f32) {
  kernel.yield %a : f32
}

kernel.func @divide(!i, !i) outs(!i)
    schedule(<"pointwise", shape = {extent = [40], stride = [[1], [1], [1]]}, tune = {rank = 1, inputs = 2}>)
    ties([0 -> 0, 1 -> 0]) can_fail
    lambda body(%a: i32, %b: i32) {
  %0 = arith.divsi %a, %b : i32
  %three = arith.constant 3 : i32
  %1 = arith.floordivsi %0, %three : i32
  kernel.yield %1 : i32
}
