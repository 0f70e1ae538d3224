# Program forward for cpu x86-64-v3, threads: 2.
from straightline.kernels import native


def prepare(io):
    team = io.team
    alone = io.alone
    buffers = io.buffers
    norm1_weight = buffers[0]  # parameter "norm1.weight": float32[16]
    norm1_running_var = buffers[1]  # parameter "norm1.running_var": float32[16]
    conv1_bias = buffers[2]  # parameter "conv1.bias": float32[16]
    norm1_bias = buffers[3]  # parameter "norm1.bias": float32[16]
    norm1_running_mean = buffers[4]  # parameter "norm1.running_mean": float32[16]
    prepared_0 = buffers[5]  # prepared "prepared.0": float32[16]
    conv1_weight = buffers[6]  # parameter "conv1.weight": float32[16, 1, 3, 3]
    norm2_weight = buffers[7]  # parameter "norm2.weight": float32[32]
    norm2_running_var = buffers[8]  # parameter "norm2.running_var": float32[32]
    conv2_bias = buffers[9]  # parameter "conv2.bias": float32[32]
    norm2_bias = buffers[10]  # parameter "norm2.bias": float32[32]
    norm2_running_mean = buffers[11]  # parameter "norm2.running_mean": float32[32]
    prepared_2 = buffers[12]  # prepared "prepared.2": float32[32]
    conv2_weight = buffers[13]  # parameter "conv2.weight": float32[32, 16, 3, 3]
    conv1_weight_packed = buffers[14]  # prepared "conv1.weight.packed": float32[1, 3, 3, 1, 16]
    conv2_weight_packed = buffers[15]  # prepared "conv2.weight.packed": float32[1, 36, 2, 16, 16]
    fc_weight = buffers[17]  # parameter "fc.weight": float32[10, 128]
    fc_weight_packed = buffers[18]  # prepared "fc.weight.packed": float32[1, 128, 16]
    t = buffers[19]  # arena: float64[32]
    t_1 = buffers[20]  # arena: float64[16]
    # to_dtype, to_dtype, add, sqrt, to_dtype, div, mul, to_dtype, sub, to_dtype, mul, add, to_dtype: conv1 (demo_models.py:24), norm1 (demo_models.py:24)
    native.pointwise_to_dtype_16(alone, norm1_weight, norm1_running_var, conv1_bias, norm1_bias,
        norm1_running_mean, t_1, prepared_0)
    t_1_view = buffers[21]  # t_1: float64[16, 1, 1, 1]
    # to_dtype, to_dtype, add, sqrt, to_dtype, div, mul, to_dtype, sub, to_dtype, mul, add, to_dtype: conv2 (demo_models.py:25), norm2 (demo_models.py:25)
    native.pointwise_to_dtype_32(alone, norm2_weight, norm2_running_var, conv2_bias, norm2_bias,
        norm2_running_mean, t, prepared_2)
    t_view = buffers[22]  # t: float64[32, 1, 1, 1]
    # to_dtype, mul, to_dtype, pack: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
    native.pack_convolution_16x1x3x3_mul(team, conv1_weight, t_1_view, conv1_weight_packed)
    # to_dtype, mul, to_dtype, pack: conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25
    native.pack_winograd_32x16x3x3_mul(team, conv2_weight, t_view, conv2_weight_packed)
    # pack: fc (demo_models.py:26)
    native.pack_gemm_10x128(team, fc_weight, fc_weight_packed)


def run(io):
    team = io.team
    alone = io.alone
    buffers = io.buffers
    prepared_0 = buffers[5]  # prepared "prepared.0": float32[16]
    prepared_2 = buffers[12]  # prepared "prepared.2": float32[32]
    conv1_weight_packed = buffers[14]  # prepared "conv1.weight.packed": float32[1, 3, 3, 1, 16]
    conv2_weight_packed = buffers[15]  # prepared "conv2.weight.packed": float32[1, 36, 2, 16, 16]
    fc_bias = buffers[16]  # parameter "fc.bias": float32[10]
    fc_weight_packed = buffers[18]  # prepared "fc.weight.packed": float32[1, 128, 16]
    x = buffers[23]  # input "x": float32[4, 1, 8, 8]
    linear = buffers[24]  # output "linear": float32[4, 10]
    t_2 = buffers[25]  # arena: float32[4, 32, 2, 2]
    t_3 = buffers[26]  # arena: int8[124416]
    t_4 = buffers[27]  # arena: float32[4, 32, 4, 4]
    t_5 = buffers[28]  # arena: float32[4, 16, 4, 4]
    t_6 = buffers[29]  # arena: float32[4, 1, 8, 8]
    t_7 = buffers[30]  # arena: float32[4, 16, 8, 8]
    # zero border: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
    native.zero_border(alone, t_6)
    # reorder: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
    native.copy_4x8x8(alone, x, t_6)
    # convolution, relu: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
    native.convolution_4x1x8x8x16_3x3_bias_relu(team, t_6, conv1_weight_packed, prepared_0, t_7)
    # zero border: demo_models.py:24
    native.zero_border_2(alone, t_5)
    # max_pool2d: demo_models.py:24
    native.max_pool2d(alone, t_7, t_5)
    # convolution, relu: conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25
    native.winograd_4x16x4x4x32_3x3_bias_relu(team, t_5, conv2_weight_packed, prepared_2, t_4,
        t_3)
    # max_pool2d: demo_models.py:25
    native.max_pool2d_2(alone, t_4, t_2)
    t_2_view = buffers[31]  # t_2: float32[4, 128]
    # linear: fc (demo_models.py:26)
    native.gemm_4x10x128_bias(alone, t_2_view, fc_weight_packed, fc_bias, linear)

