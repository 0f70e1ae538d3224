# SPDX-License-Identifier: Apache-2.0
"""What an op computes in terms of other ops, where programs have no kernel for it itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from straightline.capture.torch import backward_ops, fast_paths

aten = torch.ops.aten


def convolution(*arguments: Any) -> Any:
    """`convolution_overrideable`: torch's name for the convolution of devices like this one."""
    return aten.convolution(*arguments)


def adaptive_avg_pool2d_backward(grad: Any, x: Any) -> Any:
    """Where the results divide the image into equal windows."""
    made = backward_ops.adaptive_avg_pool2d_gradient(grad, x)
    if made is NotImplemented:
        raise NotImplementedError("_adaptive_avg_pool2d_backward of windows that overlap")
    return made


def lstm_cell(
    input_gates: Any, hidden_gates: Any, cx: Any, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, ...]:
    """`_thnn_fused_lstm_cell`, of which torch makes `nn.LSTM` on devices: gates [batch, 4 * hidden], cx [batch, hidden].

    Results: hy, cy, and for the gradient the four gates as they were used.
    """
    gates = input_gates + hidden_gates
    for bias in (input_bias, hidden_bias):
        gates = gates if bias is None else gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool
) -> tuple[Any, Any, Any]:
    """`_thnn_fused_lstm_cell_backward_impl`: the gradients of the gates, of cx and of either bias."""
    i, f, g, o = workspace.chunk(4, 1)
    shown = cy.tanh()
    of_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    of_cy = of_hy * o * (1 - shown * shown)
    of_cy = of_cy if grad_cy is None else of_cy + grad_cy
    gates = torch.cat(
        [
            of_cy * g * i * (1 - i),
            of_cy * cx * f * (1 - f),
            of_cy * i * (1 - g * g),
            of_hy * shown * o * (1 - o),
        ],
        1,
    )
    return gates, of_cy * f, gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any]:
    """`_thnn_fused_gru_cell`: gates [batch, 3 * hidden], hx [batch, hidden].

    Results: hy, and for the gradient [reset, update, new, hx, what reset multiplies].
    """
    ours = input_gates if input_bias is None else input_gates + input_bias
    theirs = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    (ir, iz, given), (hr, hz, kept) = ours.chunk(3, 1), theirs.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (given + r * kept).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, kept], 1)


def gru_cell_backward(grad: Any, workspace: Any, has_bias: bool) -> tuple[Any, ...]:
    """`_thnn_fused_gru_cell_backward`: the gradients of both gates, of hx and of both biases."""
    r, z, n, hx, kept = workspace.chunk(5, 1)
    of_new = grad * (1 - z) * (1 - n * n)
    of_r, of_z = of_new * kept * r * (1 - r), grad * (hx - n) * z * (1 - z)
    ours, theirs = torch.cat([of_r, of_z, of_new], 1), torch.cat([of_r, of_z, of_new * r], 1)
    biases = (ours.sum(0), theirs.sum(0)) if has_bias else (None, None)
    return ours, theirs, grad * z, *biases


_SUM, _MEAN, _MAX = range(3)  # modes of an embedding bag


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, ...]:
    """`_embedding_bag`: rows of weight [rows, dim] by indices [n], reduced bag by bag; a bag begins at each of offsets [bags].

    Results: [bags, dim], the bag of each index, the indices in each bag that count, and for a maximum the row that gave it
    (-1 where no index counts), else as many zeros as there are bags.
    """
    indices, offsets = indices.long(), offsets.long()
    bags, count = offsets.shape[0] - int(include_last_offset), indices.shape[0]
    # Counts where bags begin; an empty one begins with the next, so it gets no index.
    begins = torch.zeros(count + 1, dtype=torch.int64, device=weight.device)
    begins = begins.scatter_add(0, offsets.narrow(0, 0, bags), torch.ones_like(offsets.narrow(0, 0, bags)))
    bag = begins.cumsum(0).narrow(0, 0, count) - 1
    counts = (indices != padding_idx).long()
    sizes = torch.zeros(bags, dtype=torch.int64, device=weight.device).scatter_add(0, bag, counts)
    rows = weight.index_select(0, indices)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
    of_bag = bag.unsqueeze(1).expand(count, weight.shape[1])
    zeros = torch.zeros(bags, weight.shape[1], dtype=weight.dtype, device=weight.device)
    if mode != _MAX:
        out = zeros.scatter_add(0, of_bag, torch.where(counts.unsqueeze(1) > 0, rows, torch.zeros_like(rows)))
        if mode == _MEAN:
            out = out / sizes.clamp(min=1).unsqueeze(1).to(out.dtype)
        return out, bag, sizes, torch.zeros_like(sizes)
    low = torch.full_like(rows, float("-inf"))
    counted = torch.where(counts.unsqueeze(1) > 0, rows, low)
    most = torch.full_like(zeros, float("-inf")).scatter_reduce(0, of_bag, counted, "amax")
    # The first index of a bag that has its maximum.
    places = torch.arange(count, device=weight.device).unsqueeze(1).expand(count, weight.shape[1])
    places = torch.where((counted == most.index_select(0, bag)) & (counts.unsqueeze(1) > 0), places, count)
    first = torch.full_like(zeros, count, dtype=torch.int64).scatter_reduce(0, of_bag, places, "amin")
    padded = torch.cat([indices, torch.full_like(offsets.narrow(0, 0, 1), -1)])
    found = padded.index_select(0, first.flatten()).view(first.shape)
    return torch.where(found < 0, zeros, most), bag, sizes, found


def embedding_bag_backward(
    grad: Any,
    indices: Any,
    offset2bag: Any,
    bag_size: Any,
    maximum_indices: Any,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:
    """`_embedding_bag_dense_backward`: each gradient is added to the rows that its bag read."""
    made = torch.zeros(num_weights, grad.shape[1], dtype=grad.dtype, device=grad.device)
    if mode == _MAX:
        kept = torch.where(maximum_indices >= 0, grad, torch.zeros_like(grad))
        return made.scatter_add(0, maximum_indices.clamp(min=0), kept)
    indices, bag = indices.long(), offset2bag.long()
    if mode == _MEAN:
        grad = grad / bag_size.clamp(min=1).unsqueeze(1).to(grad.dtype)
    rows = grad.index_select(0, bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        times = torch.zeros(num_weights, dtype=torch.int64, device=grad.device)
        times = times.scatter_add(0, indices, torch.ones_like(indices)).index_select(0, indices)
        rows = rows / times.unsqueeze(1).to(rows.dtype)
    rows = torch.where(indices.unsqueeze(1) != padding_idx, rows, torch.zeros_like(rows))
    return made.scatter_add(0, indices.unsqueeze(1).expand(rows.shape), rows)


def embedding_bag_any_backward(
    grad: Any, indices: Any, offsets: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """`_embedding_bag_backward`, as a dense gradient."""
    if sparse:
        raise NotImplementedError("_embedding_bag_backward with sparse=True")
    return embedding_bag_backward(
        grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
        padding_idx,
    )  # fmt: skip


def embedding_bag_weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    """`_embedding_bag_per_sample_weights_backward` [n]."""
    rows = weight.index_select(0, indices.long()) * grad.index_select(0, offset2bag.long())
    return torch.where(indices != padding_idx, rows.sum(1), torch.zeros_like(rows.sum(1)))


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    """`_index_put_impl`."""
    return aten.index_put(x, indices, values, accumulate)


def _power(x: Any, by: int) -> int:
    most = torch.iinfo(x.dtype).bits - 2
    if not 0 <= by <= most:
        raise NotImplementedError(f"a shift of {x.dtype} by {by}, it takes 0 to {most}")
    return 1 << by


def left_shift(x: Any, by: int) -> Any:
    """`x << by`."""
    return x * _power(x, by)


def right_shift(x: Any, by: int) -> Any:
    """`x >> by`."""
    return torch.div(x, _power(x, by), rounding_mode="floor")


def _kept(found_inf: Any, before: Any, after: Any) -> Any:
    """A step of a fused optimizer does nothing where a gradient was infinite."""
    return after if found_inf is None else torch.where(found_inf.reshape(()) != 0, before, after)


def _gradient(grad: Any, grad_scale: Any, maximize: bool) -> tuple[Any, Any]:
    """A gradient without its scale as it is kept, and as the step takes it, in float32 or wider."""
    wide = grad if grad.dtype == torch.float64 else grad.float()
    wide = wide if grad_scale is None else wide / grad_scale.reshape(()).to(wide.dtype)
    return wide.to(grad.dtype), -wide if maximize else wide


def _adam(decoupled: bool) -> Callable[..., Any]:
    def step(
        params: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any, max_exp_avg_sqs: Any, state_steps: Any, *, lr: Any,
        beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
        grad_scale: Any = None, found_inf: Any = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """`_fused_adam` and `_fused_adamw` of one parameter."""
        kept, grad = _gradient(grads[0], grad_scale, maximize)
        param, average, square = (one[0].to(grad.dtype) for one in (params, exp_avgs, exp_avg_sqs))
        if weight_decay and decoupled:
            param = param - lr * weight_decay * param
        elif weight_decay:
            grad = grad + weight_decay * param
        average = average + (1 - beta1) * (grad - average)
        square = beta2 * square + (1 - beta2) * grad * grad
        most = torch.maximum(max_exp_avg_sqs[0].to(grad.dtype), square) if amsgrad else square
        count = state_steps[0].double()  # 1 - beta ** step of few steps has few digits of float32
        first, second = (1 - torch.pow(beta, count) for beta in (beta1, beta2))
        size, root = (lr / first).to(grad.dtype), second.sqrt().to(grad.dtype)
        param = param - size * average / (most.sqrt() / root + eps)
        olds = [params[0], exp_avgs[0], exp_avg_sqs[0], *max_exp_avg_sqs]
        news = [param, average, square, *([most] if amsgrad else max_exp_avg_sqs)]
        made = [_kept(found_inf, old, new.to(old.dtype)) for old, new in zip(olds, news, strict=True)]
        return made[:1], [] if grad_scale is None else [kept], made[1:2], made[2:3], made[3:]

    return step


def fused_sgd(
    params: Any, grads: Any, momentum_buffers: Any, *, weight_decay: float, momentum: float, lr: Any, dampening: float,
    nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: Any = None, found_inf: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """`_fused_sgd` of one parameter."""
    kept, grad = _gradient(grads[0], grad_scale, maximize)
    param = params[0].to(grad.dtype)
    if weight_decay:
        grad = grad + weight_decay * param
    made: list[Any] = []
    if momentum and momentum_buffers:
        old = momentum_buffers[0]
        buffer = grad if is_first_step else momentum * old.to(grad.dtype) + (1 - dampening) * grad
        grad = grad + momentum * buffer if nesterov else buffer
        made = [_kept(found_inf, old, buffer.to(old.dtype))]
    param = _kept(found_inf, params[0], (param - lr * grad).to(params[0].dtype))
    return [param], [] if grad_scale is None else [kept], made


def fused_adagrad(
    params: Any, grads: Any, state_sums: Any, state_steps: Any, *, lr: Any, lr_decay: float, weight_decay: float,
    eps: float, maximize: bool, grad_scale: Any = None, found_inf: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """`_fused_adagrad` of one parameter."""
    kept, grad = _gradient(grads[0], grad_scale, maximize)
    param = params[0].to(grad.dtype)
    if weight_decay:
        grad = grad + weight_decay * param
    total = state_sums[0].to(grad.dtype) + grad * grad
    rate = (lr / (1 + (state_steps[0] - 1) * lr_decay)).to(grad.dtype)
    param = param - rate * grad / (total.sqrt() + eps)
    made = [_kept(found_inf, old, new.to(old.dtype)) for old, new in ((params[0], param), (state_sums[0], total))]
    return made[:1], [] if grad_scale is None else [kept], made[1:]


#: Ops with a number that changes from call to call: what they compute of it as a tensor of no dims.
BY_TENSOR: dict[str, Callable[..., Any]] = {
    "aten::addcdiv": lambda x, a, b, *, value: (x + value * (a / b)).to(x.dtype),
    "aten::addcmul": lambda x, a, b, *, value: (x + value * (a * b)).to(x.dtype),
    "aten::lerp.Scalar": lambda x, end, weight: (x + weight * (end - x)).to(x.dtype),
}

#: By the name of the op.
_OWN: dict[str, Callable[..., Any]] = {
    "aten::convolution_overrideable": convolution,
    "aten::convolution_backward_overrideable": backward_ops.convolution_gradients,
    "aten::max_pool2d_with_indices_backward": backward_ops.max_pool2d_gradient,
    "aten::avg_pool2d_backward": backward_ops.avg_pool2d_gradient,
    "aten::_adaptive_avg_pool2d_backward": adaptive_avg_pool2d_backward,
    "aten::_index_put_impl": index_put,
    "aten::_embedding_bag": embedding_bag,
    "aten::_embedding_bag_forward_only": embedding_bag,
    "aten::_embedding_bag_backward": embedding_bag_any_backward,
    "aten::_embedding_bag_dense_backward": embedding_bag_backward,
    "aten::_embedding_bag_per_sample_weights_backward": embedding_bag_weights_backward,
    "aten::_native_multi_head_attention": fast_paths.multi_head_attention,
    "aten::_transformer_encoder_layer_fwd": fast_paths.encoder_layer,
    "aten::_thnn_fused_lstm_cell": lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "aten::_thnn_fused_gru_cell": gru_cell,
    "aten::_thnn_fused_gru_cell_backward": gru_cell_backward,
    "aten::_fused_adam.tensor_lr": _adam(decoupled=False),
    "aten::_fused_adamw.tensor_lr": _adam(decoupled=True),
    "aten::_fused_sgd.tensor_lr": fused_sgd,
    "aten::_fused_adagrad.tensor_lr": fused_adagrad,
    "aten::__lshift__.Scalar": left_shift,
    "aten::__rshift__.Scalar": right_shift,
    "aten::bitwise_left_shift.Tensor_Scalar": left_shift,
    "aten::bitwise_right_shift.Tensor_Scalar": right_shift,
}
#: A step of an optimizer for a parameter.
FUSED = tuple(f"aten::_fused_{name}.tensor_lr" for name in ("adam", "adamw", "sgd", "adagrad"))
#: Names under which a device like this one gets another op's calls, and ops that torch cannot trace.
ALIASES = (
    "aten::convolution_overrideable",
    "aten::convolution_backward_overrideable",
    "aten::_index_put_impl",
    "aten::_thnn_fused_gru_cell",
    "aten::_thnn_fused_gru_cell_backward",
    *FUSED,
)


def of(name: str, op: Any) -> Callable[..., Any] | None:
    """What computes the same in other ops: ours, or torch's own; None: nothing is known."""
    from torch._decomp import decomposition_table

    return _OWN.get(name) or decomposition_table.get(op)
