# Program scalars for cpu x86-64-v3, threads: 1.
from straightline.kernels import native, scalar


def run(io):
    team = io.team
    buffers = io.buffers
    a = buffers[0]  # input "a": float32[64]
    b = buffers[1]  # input "b": float32[64]
    k = buffers[2]  # input "k": int32[64]
    m = buffers[3]  # input "m": bool[64]
    x = buffers[4]  # output "x": float32[64]
    y = buffers[5]  # output "y": int32[64]
    z = buffers[6]  # output "z": bool[64]
    # launch: scalar_ops.mlir:9
    native.all(team, a, b, k, m, x, y, z)
    io.stop_if_failed(0)
    # load: scalar_ops.mlir:11
    n = k[0]
    n_1 = scalar.extsi_i32_i64(n)
    n_2 = scalar.index_cast_i64_index(n_1)
    n_3 = scalar.minsi_index(n_2, 60)
    n_4 = scalar.maxsi_index(n_3, 0)
    a_view = a.view(7, n_4)  # float32[4]
    x_view = x.view(8, n_4)  # float32[4]
    # copy: scalar_ops.mlir:19
    team.copy(x_view, a_view, 16)

