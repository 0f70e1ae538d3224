# Program loops for cpu x86-64-v3, threads: 2.
from straightline.kernels import native, scalar


def run(io):
    team = io.team
    alone = io.alone
    s = io.extents[0]
    buffers = io.buffers
    steps = buffers[0]  # state "steps": int64[]
    cell_bias = buffers[1]  # parameter "cell.bias": float32[64]
    x = buffers[2]  # input "x": float32[50, 64]
    go = buffers[3]  # input "go": bool[]
    cache = buffers[4]  # input "cache": float32[64]
    y = buffers[5]  # output "y": float32[64]
    t = buffers[6]  # arena: float32[64]
    n = s
    # add: control_flow.mlir:18
    native.step(team, cache, cell_bias, t)
    # for: control_flow.mlir:20
    for i in range(0, n, 1):
        x_view = x.view(7, i * 64)  # float32[64]
        # lstm: lstm (model.py:4)
        native.step(team, x_view, t, t)
        io.back_edge(3)
    # load: control_flow.mlir:24
    n_1 = go[0]
    # if: control_flow.mlir:25
    if n_1:
        # add: control_flow.mlir:26
        native.step(team, t, cell_bias, y)
    else:
        # copy: control_flow.mlir:28
        team.copy(y, t, 256)
    # while: control_flow.mlir:31
    while True:
        # load: control_flow.mlir:32
        n_2 = steps[0]
        n_3 = scalar.muli_i64(n_2, 10)
        n_4 = scalar.cmpi_slt_i64(n_3, 10)
        if not n_4:
            break
        # add_: steps (model.py:9)
        native.increment(alone, steps, steps)
        io.back_edge(14)
    # load: control_flow.mlir:40
    n_5 = x[1 * 64 + 0]
    n_6 = scalar.cmpf_olt_f32(n_5, 1e+06)
    # check: model.py:10
    if not n_6:  # "x[1, 0] is \"too large\""
        io.check_failed(24)
    # copy_: control_flow.mlir:44
    native.step(team, y, cell_bias, cache)

