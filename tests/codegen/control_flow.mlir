// for, if, while, check, load, size, scalars, state that is updated in place, an alias as a result.
!rows = !kernel.buffer<50x64xf32>
!row = !kernel.buffer<64xf32>
!count = !kernel.buffer<i64>
!flag = !kernel.buffer<i1>

kernel.program @loops target(<"cpu", "x86-64-v3", threads = 2>) {
  kernel.queue @team backend("cpu")
  kernel.extent @s min(1) max(50)
  %steps = kernel.state "steps" : !count
  %bias = kernel.parameter "cell.bias" : !row
  kernel.run (%x "x": !rows, %go "go": !flag, %cache "cache" readwrite: !row) outs(%y "y": !row) {
    %h = kernel.slot offset(0) : !row
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %ten = arith.constant 10 : i64
    %n = kernel.size(s)
    kernel.launch @step(%cache, %bias) outs(%h) on @team {op = "add"} : (!row, !row) -> !row
    kernel.barrier on @team
    kernel.for %i = %zero to %n step %one {
      %row = kernel.view %x offset(i * 64) [i = %i] : !rows -> !row
      kernel.launch @step(%row, %h) outs(%h) on @team {op = "lstm"} : (!row, !row) -> !row loc("lstm"("model.py":4:0))
    }
    %flag = kernel.load %go[] : !flag -> i1
    kernel.if %flag {
      kernel.launch @step(%h, %bias) outs(%y) on @team {op = "add"} : (!row, !row) -> !row
    } else {
      kernel.copy %h to %y on @team : !row to !row
    }
    kernel.barrier on @team
    kernel.while {
      %now = kernel.load %steps[] : !count -> i64
      %twice = arith.muli %now, %ten : i64
      %more = arith.cmpi slt, %twice, %ten : i64
      kernel.barrier on @team
      kernel.condition %more
    } do {
      kernel.launch @increment(%steps) outs(%steps) on @team {team = 1, op = "add_"} : (!count) -> !count loc("steps"("model.py":9:0))
    }
    %first = kernel.load %x[%one, %zero] : !rows -> f32
    %limit = arith.constant 1.0e6 : f32
    %small = arith.cmpf olt, %first, %limit : f32
    kernel.check %small, "x[1, 0] is \"too large\"" loc("model.py":10:0)
    kernel.launch @step(%y, %bias) outs(%cache) on @team {op = "copy_"} : (!row, !row) -> !row
    %head = kernel.view %x offset(64) : !rows -> !row
    kernel.return %y, %head : !row, !row
  }
}

kernel.func @step(!row, !row) outs(!row)
    schedule(<"pointwise", shape = {extent = [64], stride = [[1], [1], [1]]}, tune = {rank = 1, inputs = 2}>)
    ties([0 -> 0, 1 -> 0])
    lambda body(%a: f32, %b: f32) {
  %0 = arith.addf %a, %b : f32
  kernel.yield %0 : f32
}

kernel.func @increment(!count) outs(!count)
    schedule(<"pointwise", shape = {extent = [1], stride = [[1], [1]]}, tune = {rank = 1, inputs = 1}>) ties([0 -> 0])
    lambda body(%a: i64) {
  %0 = arith.constant 1 : i64
  %1 = arith.addi %a, %0 : i64
  kernel.yield %1 : i64
}
