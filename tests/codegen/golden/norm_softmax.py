# Program forward for cpu x86-64-v3, threads: 1.
from straightline.kernels import native


def run(io):
    alone = io.alone
    buffers = io.buffers
    norm_weight = buffers[0]  # parameter "norm.weight": float32[24]
    norm_bias = buffers[1]  # parameter "norm.bias": float32[24]
    x = buffers[2]  # input "x": float32[16, 24]
    softmax = buffers[3]  # output "softmax": float32[16, 24]
    t = buffers[4]  # arena: int8[128]
    # sum, div, sub, mul, sum, div, add, rsqrt, mul, mul, add, mul, add, amax, sub, exp, sum, div: norm (capture.py:37), capture.py:37
    native.rows_sum_sum_max_sum_16_by_24(alone, x, norm_weight, norm_bias, softmax, t)

