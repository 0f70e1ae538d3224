# Program counted for cpu x86-64-v3, threads: 2.
from straightline.kernels import native


def run(io):
    team = io.team
    b = io.extents[0]
    u0 = io.extents[1]
    buffers = io.buffers
    x = buffers[0]  # input "x": float32[b]
    n = buffers[1]  # input "n": int64[]
    y = buffers[2]  # output "y": float32[b + u0]
    t = buffers[3]  # arena: float32[b]
    # mul: scale (model.py:3)
    native.twice(team, x, t, b)
    # load: computed_extent.mlir:13
    n_1 = n[0]
    # set_extent: model.py:4
    u0 = io.set_extent(2, n_1)
    x_view = buffers[4]  # x: float32[u0]
    y_view = buffers[5]  # y: float32[u0]
    y_view_1 = y.view(6, u0)  # float32[b]
    # mul: scale (model.py:5)
    native.twice(team, x_view, y_view, u0)
    # mul: scale (model.py:6)
    native.twice(team, t, y_view_1, b)

