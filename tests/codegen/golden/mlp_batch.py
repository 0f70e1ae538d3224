# Program forward for cpu x86-64-v3, threads: 2.
from straightline.kernels import native


def prepare(io):
    team = io.team
    buffers = io.buffers
    layers_0_weight = buffers[1]  # parameter "layers.0.weight": float32[256, 64]
    layers_0_weight_packed = buffers[2]  # prepared "layers.0.weight.packed": float32[16, 64, 16]
    layers_1_weight = buffers[4]  # parameter "layers.1.weight": float32[256, 256]
    layers_1_weight_packed = buffers[5]  # prepared "layers.1.weight.packed": float32[16, 256, 16]
    layers_2_weight = buffers[7]  # parameter "layers.2.weight": float32[10, 256]
    layers_2_weight_packed = buffers[8]  # prepared "layers.2.weight.packed": float32[1, 256, 16]
    # pack: layers.0 (small.py:34), small.py:36
    native.pack_gemm_sized(team, layers_0_weight, layers_0_weight_packed, 256, 64)
    # pack: layers.1 (small.py:34), small.py:36
    native.pack_gemm_sized(team, layers_1_weight, layers_1_weight_packed, 256, 256)
    # pack: layers.2 (small.py:34)
    native.pack_gemm_sized(team, layers_2_weight, layers_2_weight_packed, 10, 256)


def run(io):
    team = io.team
    buffers = io.buffers
    layers_0_bias = buffers[0]  # parameter "layers.0.bias": float32[256]
    layers_0_weight_packed = buffers[2]  # prepared "layers.0.weight.packed": float32[16, 64, 16]
    layers_1_bias = buffers[3]  # parameter "layers.1.bias": float32[256]
    layers_1_weight_packed = buffers[5]  # prepared "layers.1.weight.packed": float32[16, 256, 16]
    layers_2_bias = buffers[6]  # parameter "layers.2.bias": float32[10]
    layers_2_weight_packed = buffers[8]  # prepared "layers.2.weight.packed": float32[1, 256, 16]
    x = buffers[9]  # input "x": float32[32, 64]
    linear_2 = buffers[10]  # output "linear_2": float32[32, 10]
    t = buffers[11]  # arena: float32[32, 256]
    t_1 = buffers[12]  # arena: float32[32, 256]
    # linear, relu: layers.0 (small.py:34), small.py:36
    native.gemm_32x256x64_bias_relu(team, x, layers_0_weight_packed, layers_0_bias, t_1)
    # linear, relu: layers.1 (small.py:34), small.py:36
    native.gemm_32x256x256_bias_relu(team, t_1, layers_1_weight_packed, layers_1_bias, t)
    # linear: layers.2 (small.py:34)
    native.gemm_32x10x256_bias(team, t, layers_2_weight_packed, layers_2_bias, linear_2)

