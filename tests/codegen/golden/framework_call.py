# Program framework for cpu x86-64-v3, threads: 1.
from straightline.kernels import aten


def prepare(io):
    alone = io.alone
    buffers = io.buffers
    aten_topk_handle = buffers[0]  # handle "aten_topk"
    # plan: model.py:5
    aten.aten_topk_plan(alone, aten_topk_handle)
    io.stop_if_failed(0)


def run(io):
    alone = io.alone
    b = io.extents[0]
    buffers = io.buffers
    aten_topk_handle = buffers[0]  # handle "aten_topk"
    x = buffers[1]  # input "x": float32[b, 6]
    values = buffers[2]  # output "values": float32[b, 2]
    places = buffers[3]  # output "places": int64[b, 2]
    # aten.topk.default: model.py:5
    aten.aten_topk(alone, aten_topk_handle, x, values, places, b)
    io.stop_if_failed(1)

