# Program chain for cpu x86-64-v3, threads: 2.
from straightline.kernels import native


def run(io):
    team = io.team
    b = io.extents[0]
    buffers = io.buffers
    constant = buffers[0]  # constant: float32[4]
    input_0 = buffers[1]  # input "input.0": float32[b, 64]
    class_1 = buffers[2]  # input "class": int32[b, 64]
    out = buffers[3]  # output "out": float32[b, 64]
    mask = buffers[4]  # output "mask": bool[b, 64]
    t = buffers[5]  # arena: bfloat16[b, 64]
    t_1 = buffers[6]  # arena: int32[b, 64]
    t_2 = buffers[7]  # arena: float32[b, 64]
    # to_dtype: layers.0.act (model.py:7)
    native.narrow(team, input_0, t, b)
    # remainder: layers.0.act (model.py:8)
    native.ints(team, class_1, t_1, b)
    # mul, gt: symbolic_pointwise.mlir:18
    native.widen(team, t, t_1, t_2, mask, b)
    # mul: symbolic_pointwise.mlir:20
    native.scaled(team, t_2, constant, out, b)

