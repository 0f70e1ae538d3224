# Program offload for cpu x86-64-v3, threads: 2.
from straightline.kernels import native


def prepare(io):
    team = io.team
    queue_1 = io.queues[1]
    buffers = io.buffers
    w = buffers[0]  # parameter "w": float32[8]
    w_device = buffers[1]  # prepared "w.device": float32[8]
    # copy: device_queue.mlir:14
    queue_1.copy(w_device, w, 32)
    # record: device_queue.mlir:15
    event = queue_1.record()
    # wait: device_queue.mlir:16
    team.wait(event)


def run(io):
    team = io.team
    queue_1 = io.queues[1]
    b = io.extents[0]
    buffers = io.buffers
    w_device = buffers[1]  # prepared "w.device": float32[8]
    x = buffers[2]  # input "x": float32[b, 8]
    y = buffers[3]  # output "y": float32[b, 8]
    t = buffers[4]  # arena: float32[b, 8]
    t_1 = buffers[5]  # arena: float32[b, 8]
    t_2 = buffers[6]  # arena: float32[b, 8]
    # mul: device_queue.mlir:22
    native.twice(team, x, t_2, b)
    # record: device_queue.mlir:24
    event_1 = team.record()
    # wait: device_queue.mlir:25
    queue_1.wait(event_1)
    # copy: device_queue.mlir:26
    queue_1.copy(t, t_2, b * 32)
    # mul: w (model.py:3)
    native.scale(queue_1, t, w_device, t_1, b)
    # copy: device_queue.mlir:28
    queue_1.copy(y, t_1, b * 32)
    # record: device_queue.mlir:29
    event_2 = queue_1.record()
    # wait: device_queue.mlir:30
    team.wait(event_2)

