// An op of a framework: its text goes to plan, and the sizes that are known per call stand behind its inputs.
!x = !kernel.buffer<[b, 6] x f32, strides [6, 1]>
!v = !kernel.buffer<[b, 2] x f32, strides [2, 1]>
!i = !kernel.buffer<[b, 2] x i64, strides [2, 1]>

kernel.program @framework target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(64)
  %h = kernel.handle "aten_topk" destroy("sl_aten_call_plan_destroy")
  kernel.prepare {
    kernel.plan @aten_topk() outs(%h) on @team loc("model.py":5:0)
  }
  kernel.run (%x "x": !x) outs(%v "values": !v, %i "places": !i) {
    kernel.call @aten_topk(%x) outs(%v, %i) handle(%h) on @team {op = "aten.topk.default", team = 1 : i64}
        : (!x) -> (!v, !i) loc("model.py":5:0)
    kernel.return %v, %i : !v, !i
  }
}

kernel.decl @aten_topk(!x) outs(!v, !i)
    problem("aten", {sizes = [#kernel.extent<b>, #kernel.extent<b>, #kernel.extent<b>, #kernel.extent<b * 2>],
      text = "aten::topk\0A\0A2.13.0\0Adispatcher\0Aaten::topk(Tensor self, SymInt k)\0Aself=%0, k=2\0A@0, @1"})
    run("sl_aten_call_run") plan("sl_aten_call_plan") destroy("sl_aten_call_plan_destroy") can_fail
