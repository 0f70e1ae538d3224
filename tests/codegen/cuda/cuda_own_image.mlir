// Machine code of a user: its parameters in its order, a grid of two dims, a named size in both, addresses that are aligned.
!x = !kernel.buffer<[b, 64] x f32>
!y = !kernel.buffer<[b] x f32>
kernel.program @sums target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(1000)
  kernel.run (%x "x": !x) outs(%y "y": !y) {
    kernel.launch @own_sums(%x) outs(%y) on @team {team = 1 : i64, op = "v.sums", why = "own"} : (!x) -> !y
    kernel.return %y : !y
  }
}
kernel.func @own_sums(!x) outs(!y)
    schedule(<"own", shape = {blocks = #kernel.extent<(b + 3) floordiv 4>, sizes = [#kernel.extent<b * 64>], more_blocks = [2 : i64, #kernel.extent<b>]}, tune = {}>) ties([])
    attributes {kernel.own_source = {alignments = array<i64: 16, 1, 1, 16, 1>, arguments = ["@0", "$0", "i:1075838976", "%0", "none"],
                                     function = "sums_kernel", image = "f0VMRgIBATMHAAAA", shared_bytes = 2048 : i64,
                                     source = "def sums_kernel(out, n, a, x):\n    ...", threads = 64 : i64, waits}}
