# Program forward for cpu x86-64-v3, threads: 1.
from straightline.kernels import native


def prepare(io):
    alone = io.alone
    buffers = io.buffers
    layers_0_weight = buffers[1]  # parameter "layers.0.weight": float32[64, 64]
    layers_0_weight_packed = buffers[2]  # prepared "layers.0.weight.packed": float32[2, 64, 48]
    layers_1_weight = buffers[4]  # parameter "layers.1.weight": float32[64, 64]
    layers_1_weight_packed = buffers[5]  # prepared "layers.1.weight.packed": float32[2, 64, 48]
    layers_2_weight = buffers[7]  # parameter "layers.2.weight": float32[10, 64]
    layers_2_weight_packed = buffers[8]  # prepared "layers.2.weight.packed": float32[1, 64, 16]
    # pack: layers.0 (small.py:34), small.py:36
    native.pack_gemm_64x64(alone, layers_0_weight, layers_0_weight_packed)
    # pack: layers.1 (small.py:34), small.py:36
    native.pack_gemm_64x64(alone, layers_1_weight, layers_1_weight_packed)
    # pack: layers.2 (small.py:34)
    native.pack_gemm_10x64(alone, layers_2_weight, layers_2_weight_packed)


def run(io):
    alone = io.alone
    buffers = io.buffers
    layers_0_bias = buffers[0]  # parameter "layers.0.bias": float32[64]
    layers_0_weight_packed = buffers[2]  # prepared "layers.0.weight.packed": float32[2, 64, 48]
    layers_1_bias = buffers[3]  # parameter "layers.1.bias": float32[64]
    layers_1_weight_packed = buffers[5]  # prepared "layers.1.weight.packed": float32[2, 64, 48]
    layers_2_bias = buffers[6]  # parameter "layers.2.bias": float32[10]
    layers_2_weight_packed = buffers[8]  # prepared "layers.2.weight.packed": float32[1, 64, 16]
    x = buffers[9]  # input "x": float32[1, 64]
    linear_2 = buffers[10]  # output "linear_2": float32[1, 10]
    t = buffers[11]  # arena: float32[1, 64]
    t_1 = buffers[12]  # arena: float32[1, 64]
    # linear, relu: layers.0 (small.py:34), small.py:36
    native.gemm_1x64x64_bias_relu(alone, x, layers_0_weight_packed, layers_0_bias, t_1)
    # linear, relu: layers.1 (small.py:34), small.py:36
    native.gemm_1x64x64_bias_relu_2(alone, t_1, layers_1_weight_packed, layers_1_bias, t)
    # linear: layers.2 (small.py:34)
    native.gemm_1x10x64_bias(alone, t, layers_2_weight_packed, layers_2_bias, linear_2)

