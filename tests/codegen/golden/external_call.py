# Program library for cpu x86-64-v3, threads: 2.
from straightline.kernels import ip, native


def prepare(io):
    alone = io.alone
    buffers = io.buffers
    fc_weight = buffers[0]  # parameter "fc.weight": float32[10, 64]
    fc_handle = buffers[1]  # handle "fc"
    # plan: fc (model.py:5)
    ip.ip_plan(alone, fc_weight, fc_handle)
    io.stop_if_failed(0)


def run(io):
    team = io.team
    buffers = io.buffers
    fc_weight = buffers[0]  # parameter "fc.weight": float32[10, 64]
    fc_handle = buffers[1]  # handle "fc"
    x = buffers[2]  # input "x": float32[4, 64]
    k = buffers[3]  # input "k": int32[4, 10]
    y = buffers[4]  # output "y": float32[4, 10]
    j = buffers[5]  # output "j": int32[4, 10]
    t = buffers[6]  # arena: int8[256]
    t_2 = buffers[8]  # arena: float32[4, 10]
    # linear: fc (model.py:5)
    ip.ip(team, fc_handle, x, fc_weight, y, t)
    io.stop_if_failed(1)
    # clone: external_call.mlir:24
    native.place(team, y, t_2)
    n = 160
    # alloc: external_call.mlir:26
    allocated = io.alloc(9, n)  # int32[4, 10]
    io.stop_if_failed(5)
    # div: model.py:6
    native.divide(team, k, k, allocated)
    io.stop_if_failed(6)
    # copy: external_call.mlir:28
    team.copy(j, allocated, 160)
    del allocated

