# Program forward for cpu x86-64-v3, threads: 1.
from straightline.kernels import native


def prepare(io):
    team = io.team
    buffers = io.buffers
    fc_weight = buffers[0]  # parameter "fc.weight": float32[10, 64]
    fc_weight_packed = buffers[2]  # prepared "fc.weight.packed": float32[1, 64, 16]
    # pack: fc (model.py:12)
    native.pack_10x64(team, fc_weight, fc_weight_packed)


def run(io):
    team = io.team
    buffers = io.buffers
    fc_bias = buffers[1]  # parameter "fc.bias": float32[10]
    fc_weight_packed = buffers[2]  # prepared "fc.weight.packed": float32[1, 64, 16]
    x = buffers[3]  # input "x": float32[1, 64]
    z = buffers[4]  # output "z": float32[1, 10]
    # linear, relu: fc (model.py:12), model.py:13
    native.gemm_1x10x64_bias_relu(team, x, fc_weight_packed, fc_bias, z)

