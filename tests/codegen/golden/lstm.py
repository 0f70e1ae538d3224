# Program forward for cpu x86-64-v3, threads: 1.
from straightline.kernels import native


def prepare(io):
    alone = io.alone
    buffers = io.buffers
    lstm_weight_ih_l0 = buffers[1]  # parameter "lstm.weight_ih_l0": float32[64, 8]
    lstm_weight_ih_l0_packed = buffers[2]  # prepared "lstm.weight_ih_l0.packed": float32[4, 8, 16]
    lstm_weight_hh_l0 = buffers[4]  # parameter "lstm.weight_hh_l0": float32[64, 16]
    lstm_weight_hh_l0_packed = buffers[5]  # prepared "lstm.weight_hh_l0.packed": float32[2, 16, 32]
    fc_weight = buffers[7]  # parameter "fc.weight": float32[5, 16]
    fc_weight_packed = buffers[8]  # prepared "fc.weight.packed": float32[1, 16, 8]
    # pack: lstm (lstm.py:25)
    native.pack_gemm_64x8(alone, lstm_weight_ih_l0, lstm_weight_ih_l0_packed)
    # pack: lstm (lstm.py:25)
    native.pack_gemm_64x16(alone, lstm_weight_hh_l0, lstm_weight_hh_l0_packed)
    # pack: fc (lstm.py:26)
    native.pack_gemm_5x16(alone, fc_weight, fc_weight_packed)


def run(io):
    alone = io.alone
    buffers = io.buffers
    lstm_bias_ih_l0 = buffers[0]  # parameter "lstm.bias_ih_l0": float32[64]
    lstm_weight_ih_l0_packed = buffers[2]  # prepared "lstm.weight_ih_l0.packed": float32[4, 8, 16]
    lstm_bias_hh_l0 = buffers[3]  # parameter "lstm.bias_hh_l0": float32[64]
    lstm_weight_hh_l0_packed = buffers[5]  # prepared "lstm.weight_hh_l0.packed": float32[2, 16, 32]
    fc_bias = buffers[6]  # parameter "fc.bias": float32[5]
    fc_weight_packed = buffers[8]  # prepared "fc.weight.packed": float32[1, 16, 8]
    linear = buffers[10]  # output "linear": float32[2, 50, 5]
    t = buffers[12]  # arena: float32[2, 50, 16]
    t_1 = buffers[13]  # arena: float32[2, 64]
    t_2 = buffers[14]  # arena: float32[50, 2, 16]
    t_3 = buffers[15]  # arena: float32[2, 16]
    t_4 = buffers[16]  # arena: float32[50, 2, 64]
    t_5 = buffers[17]  # arena: float32[50, 2, 8]
    x_view = buffers[18]  # x: float32[50, 2, 8]
    # copy: lstm (lstm.py:25)
    native.copy_50x2x8(alone, x_view, t_5)
    # linear: lstm (lstm.py:25)
    native.gemm_100x64x8_bias(alone, t_5, lstm_weight_ih_l0_packed, lstm_bias_ih_l0, t_4)
    getitem_1_view = buffers[19]  # getitem_1: float32[2, 16]
    # full: lstm (lstm.py:25)
    native.fill_32(alone, getitem_1_view)
    # full: lstm (lstm.py:25)
    native.fill_32(alone, t_3)
    n = 0
    n_1 = 50
    n_2 = 1
    # for: lstm (lstm.py:25)
    for i in range(n, n_1, n_2):
        t_4_view = t_4.view(20, i * 128)  # float32[1, 2, 64]
        t_4_view_view = t_4_view.view(21, 0)  # float32[2, 64]
        # linear, add: lstm (lstm.py:25)
        native.gemm_2x64x16_bias_add(alone, getitem_1_view, lstm_weight_hh_l0_packed,
            lstm_bias_hh_l0, t_4_view_view, t_1)
        t_1_view = buffers[22]  # t_1: float32[2, 16]
        t_1_view_1 = buffers[23]  # t_1 + 16: float32[2, 16]
        t_1_view_2 = buffers[24]  # t_1 + 32: float32[2, 16]
        t_1_view_3 = buffers[25]  # t_1 + 48: float32[2, 16]
        t_2_view = t_2.view(26, i * 32)  # float32[1, 2, 16]
        t_2_view_view = t_2_view.view(27, 0)  # float32[2, 16]
        # sigmoid, lt, where, sigmoid, lt, where, tanh, sigmoid, lt, where, mul, mul, add, tanh, mul, abs, lt, where, abs, lt, where: lstm (lstm.py:25)
        native.pointwise_sigmoid_2x16(alone, t_1_view_3, t_1_view_1, t_3, t_1_view, t_1_view_2,
            getitem_1_view, t_3, t_2_view_view)
        io.back_edge(10)
    t_2_view_1 = buffers[30]  # t_2: float32[2, 50, 16]
    # copy: fc (lstm.py:26)
    native.copy_2x50x16(alone, t_2_view_1, t)
    # linear: fc (lstm.py:26)
    native.gemm_100x5x16_bias(alone, t, fc_weight_packed, fc_bias, linear)

