# SPDX-License-Identifier: Apache-2.0
"""Ops of Paddle, form by form, against Paddle: samples, which are run, and the table of docs/frameworks/paddle.md.

`straightline coverage paddle` prints it. A sample is a function of tensors that gives many results; it becomes one program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import paddle
from paddle.nn import functional as F

from straightline.capture.paddle import CONVERTERS, FORMS, pir
from straightline.capture.paddle.live_program import LiveReader
from straightline.paddle_model import compile_paddle

_M, _X, _V = ([3, 6], "float32"), ([2, 4, 8, 8], "float32"), ([6], "float32")
_I, _B, _N = ([3, 6], "int64"), ([3, 6], "bool"), ([5], "int64")

#: Name: (inputs, function).
SAMPLES: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "arithmetic": ([_M, _M, _V], lambda x, y, v: [
        x + y, x - v, x * v, x / y, x * 2 + 1, 1 - x, 2 / y, x / 3, x**2, paddle.pow(paddle.abs(x), y), -x,
        paddle.maximum(x, v), paddle.minimum(x, y), paddle.fmax(x, y), paddle.fmin(x, v), paddle.lerp(x, y, 0.3),
        paddle.atan2(x, y), paddle.scale(x, 2.0, 3.0, False), x.pow(0.5 + 0.0).isnan(), x // y, x % y]),
    "integers": ([_I, _I], lambda x, y: [
        x + y, x - y, x * y, x * 3 + 2, x // (y + 1), x % (y + 1), paddle.maximum(x, y), -x, x & y, x | y, x ^ y, ~x,
        x.abs(), x.sum(), x.max(1), x.prod(0), x.astype("float32") / 2, x == y, x >= 1, paddle.clip(x, 1, 2),
        (x - 2) // (y + 1), (x - 2) % (y + 1), x // (-1 - y), x % (-1 - y),
        paddle.bitwise_left_shift(x - 2, y * 9), paddle.bitwise_right_shift(x * 99 - 150, y * 9)]),
    "unary": ([_M], lambda x: [
        f(x) for f in (paddle.abs, paddle.exp, paddle.expm1, paddle.sin, paddle.cos, paddle.tan, paddle.tanh, F.sigmoid,
                       F.relu, paddle.erf, F.silu, F.swish, paddle.floor, paddle.ceil, paddle.trunc, paddle.sign,
                       paddle.isnan, paddle.isinf, paddle.isfinite, paddle.square, paddle.round, F.gelu, F.mish,
                       F.softsign, F.log_sigmoid, F.tanhshrink, F.relu6, F.hardswish, F.hardsigmoid, F.hardtanh, F.selu,
                       F.celu, F.elu, F.leaky_relu, F.softplus)]
        + [F.gelu(x, True), F.elu(x, 0.3), F.celu(x, 0.7), F.leaky_relu(x, 0.2), F.softplus(x, 2.0, 3.0)]),
    "positive": ([_M], lambda x: [f(paddle.abs(x) + 0.1) for f in (
        paddle.log, paddle.log1p, paddle.log2, paddle.log10, paddle.sqrt, paddle.rsqrt, paddle.reciprocal)]),
    "comparisons": ([_M, _M, _B], lambda x, y, b: [
        x > y, x >= 0, x < y, x <= y, x == y, x != y, paddle.logical_and(x > 0, b), paddle.logical_or(b, x > y),
        paddle.logical_xor(b, x > 0), paddle.logical_not(b), b & (x > 0), ~b, paddle.where(b, x, y),
        paddle.where(x > 0, x, paddle.zeros_like(x)), paddle.masked_fill(x, b, 2.0), paddle.any(b, 1), paddle.all(b),
        paddle.clip(x, -0.5, 0.5)]),
    "sizes of data": ([_M, _B], lambda x, b: [
        paddle.nonzero(x > 0), paddle.masked_select(x, b), *paddle.nonzero(x, as_tuple=True), x[x > 5].sum(),
        paddle.index_put(x, (b,), paddle.to_tensor(2.0)), paddle.index_put(x, (b,), paddle.to_tensor(2.0), True)]),
    "places of pools": ([_X, ([2, 3, 4, 6, 4], "float32")], lambda x, v: [
        *F.max_pool2d(x, 2, return_mask=True), *F.max_pool2d(x, 3, 2, 1, True, True),
        *F.max_pool2d(x, 3, [1, 2], return_mask=True),
        *F.max_pool1d(x[:, :, 0], 3, 2, 1, True), *F.max_pool3d(v, 2, return_mask=True), *F.max_pool3d(v, 3, 1, 1, True),
        *F.adaptive_max_pool2d(x, 4, True), *F.adaptive_max_pool2d(x, 3, True), *F.adaptive_max_pool3d(v, [3, 3, 2], True),
        F.max_unpool2d(*F.max_pool2d(x, 2, return_mask=True), 2), F.max_unpool3d(*F.max_pool3d(v, 2, return_mask=True), 2),
        F.max_unpool2d(*F.max_pool2d(x, 2, return_mask=True), 2, output_size=[9, 8]), F.lp_pool2d(x, 2.0, 3, 2, 1),
        F.max_unpool1d(*F.max_pool1d(x[:, :, 0], 2, return_mask=True), 2), F.lp_pool2d(x, 4.0, 3, ceil_mode=True),
        F.lp_pool1d(x[:, :, 0], 2.0, 2), F.lp_pool2d(x.abs(), 3.0, [2, 1], data_format="NHWC")]),
    "products of integers": ([_I, ([6, 4], "int64"), ([3, 6], "int32")], lambda x, w, i: [
        x @ w, paddle.matmul(x, x, transpose_y=True), paddle.matmul(w, x, True, True), paddle.matmul(i, i, False, True),
        x @ w[:, 0], x[0] @ w, paddle.dot(x, x), x @ w + x[:, :1]]),
    "volumes transposed": ([([2, 4, 3, 4, 5], "float32"), ([4, 3, 3, 2, 3], "float32"), ([3], "float32"), _X],
                           lambda x, w, b, i: [
        F.conv3d_transpose(x, w), F.conv3d_transpose(x, w, b, 2, 1, 1), F.conv3d_transpose(x, w[:, :2], None, 1, 1, 0, 2),
        F.conv3d_transpose(x, w, None, [2, 1, 3], [1, 0, 0, 1, 1, 0], dilation=2),
        F.conv3d_transpose(x, w, None, 2, output_size=[8, 8, 12]), F.conv2d_transpose(i, w[:, :, 0], b, 2, [1, 0, 2, 1]),
        F.conv3d_transpose(x.transpose([0, 2, 3, 4, 1]), w, data_format="NDHWC"),
        F.conv2d_transpose(i, w[:, :, 0], None, 2, "SAME")]),
    "graphs": ([_M, ([5, 6], "float32"), _N, _N], lambda x, e, s, d: [
        *(paddle.geometric.send_u_recv(x, s, d, how) for how in ("sum", "mean", "min", "max")),
        paddle.geometric.send_u_recv(x, s, d, "max", 5), paddle.geometric.send_ue_recv(x, e, s, d, "add", "mean"),
        paddle.geometric.send_ue_recv(x, e, s, d, "mul", "max"), paddle.geometric.send_uv(x, x, s, d, "sub"),
        paddle.geometric.send_uv(x, x, s, d, "mul")]),
    "further functions": ([_M, _M, _I, ([4, 3], "float32"), ([2, 3, 3], "float32")], lambda x, y, i, c, m: [
        paddle.round(x, decimals=2), paddle.round(x * 100, decimals=-1), paddle.stanh(x), paddle.copysign(x, y),
        paddle.nextafter(x, y),
        paddle.angle(x),
        paddle.signbit(y), paddle.isposinf(x / paddle.zeros_like(y)),
        paddle.isneginf(x / paddle.zeros_like(y)),
        paddle.linalg.vecdot(x, y), paddle.linalg.cov(x), paddle.linalg.corrcoef(x), paddle.equal_all(x, y), paddle.is_empty(x),
        paddle.equal_all(x, x), paddle.equal_all(i, i), paddle.add_n([x, y, x]), paddle.reduce_as(x, y[:1]),
        paddle.reduce_as(x, y[0]), paddle.exp(i), paddle.log1p(i), paddle.atan2(i, i + 1), paddle.allclose(i, i),
        paddle.cross(c, c * 2 + 1), paddle.cross(m, m * m - 1, 2), paddle.linalg.slogdet(m),
        *paddle.linalg.lu(m), *paddle.linalg.lu(m[0], get_infos=True), paddle.baddbmm(m, m, m + 1, 0.5, 2.0), paddle.vander(x[0]),
        paddle.linalg.matrix_norm(x), paddle.renorm(x, 2.0, 0, 1.0), paddle.norm(i.astype("float32"), 0, 1),
        paddle.norm(x, float("-inf"), 1), paddle.norm(x, -2.0, 1), F.label_smooth(x, F.softmax(y[:1])),
        F.log_loss(F.sigmoid(x[:, :1]), F.sigmoid(y[:, :1])), paddle.incubate.softmax_mask_fuse(m[None], m[None, :1]),
        paddle.index_select(x, i[:2, :1]), paddle.bucketize(i, paddle.to_tensor([0.5, 1.5]))]),
    "positives": ([_M, _M], lambda x, y: [
        F.binary_cross_entropy_with_logits(x, F.sigmoid(y), pos_weight=paddle.full([x.shape[1]], 3.0), reduction=how)
        for how in ("none", "mean")]),
    "casts": ([_M, _I, _B], lambda x, i, b: [
        x.astype("float64"), x.astype("int64"), x.astype("bool"), i.astype("float32"), b.astype("float32"),
        b.astype("int32"), x.astype("bfloat16").astype("float32"), x.astype("float16"), i.astype("int8"), i.astype("uint8")]),
    "products": ([_M, ([6, 4], "float32"), ([2, 3, 6], "float32"), _V], lambda x, w, t, v: [
        x @ w, paddle.matmul(x, x, transpose_y=True), paddle.matmul(w, x, transpose_x=True, transpose_y=True), t @ w,
        paddle.bmm(t, t.transpose([0, 2, 1])), paddle.mv(x, v), paddle.dot(v, v), paddle.addmm(x @ w, x, w, 0.5, 2.0),
        t @ v, v @ w, F.linear(x, w, v[:4]), paddle.outer(v, v)]),
    "constant weights": ([_M], lambda x: [
        F.linear(x, paddle.ones([6, 2]) * 0.5, paddle.ones([2])), x @ paddle.full([6, 3], 0.25)]),
    "shapes": ([_X, _M], lambda x, m: [
        x.reshape([2, -1]), x.reshape([0, 4, 64]), x.flatten(1, 2), paddle.flatten(x), m.transpose([1, 0]), m.T,
        x.unsqueeze(0), paddle.unsqueeze(m, [0, 2]), m[0:1].squeeze(0), m.unsqueeze(-1).squeeze(), paddle.moveaxis(x, 0, 1),
        paddle.expand(m[0:1], [4, 6]), m[:, 0:1].expand([-1, 5]), m[0:1].expand_as(m), paddle.tile(m, [2, 1]),
        paddle.tile(m, [2, 1, 3]), paddle.flip(m, [0, 1]), paddle.roll(m, 2, 1), paddle.roll(m, 1), paddle.rot90(m)]),
    "slices": ([_X, _M], lambda x, m: [
        x[0], x[:, 1:3, ::2, -1], x[..., None], x[:, -1], x[:, :, 2:-1], m[::-1], m[:, ::2], m[1:3, ::-2],
        paddle.slice(x, [1, 2], [0, 1], [2, 5]), paddle.strided_slice(x, [2], [0], [8], [3]), paddle.crop(m, [2, 3], [1, 2])]),
    "parts": ([_X, _M], lambda x, m: [
        *paddle.split(x, 2, 1), *paddle.split(x, [1, 3], 1), *paddle.split(x, [1, -1], 1), *paddle.chunk(x, 4, -1),
        *paddle.unbind(m, 0), *paddle.unstack(m, 1), paddle.concat([m, m * 2], 1), paddle.concat([m, m], -2),
        paddle.stack([m, m + 1], 1), paddle.stack([m, m], -1), F.glu(m)]),
    "constants": ([_M], lambda m: [
        m + paddle.full([6], 2.0), m * paddle.arange(6).astype("float32"), m + paddle.to_tensor([1.0, 2, 3, 4, 5, 6]),
        paddle.full_like(m, 3.0) + m, paddle.ones_like(m) * m, m + paddle.linspace(0, 1, 6), m + paddle.eye(3, 6),
        paddle.arange(0, 200, 3) + m[0, 0].astype("int64"), m + paddle.zeros([3, 1])]),
    "reductions": ([_X, _M], lambda x, m: [
        m.sum(), m.sum(1), x.mean([2, 3]), x.mean(-1, True), x.max(1), x.min(), paddle.amax(x, [0, 1]), paddle.amin(x, 3, True),
        m.prod(1), paddle.logsumexp(m, 1), paddle.logsumexp(x, [1, 2], True), paddle.norm(m), paddle.norm(m, 2, 1),
        paddle.norm(m, 1, 0), paddle.norm(m, float("inf"), 1), F.normalize(m), paddle.var(m, 1), paddle.std(m),
        paddle.cumsum(m, 1), paddle.cumsum(m), F.cosine_similarity(m, m * 2 + 1)]),
    "order": ([_M], lambda m: [
        paddle.argmax(m, 1), paddle.argmax(m), paddle.argmin(m, 0, True), paddle.argmax(m, 0, dtype="int32"),
        *paddle.topk(m, 2), *paddle.topk(m, 2, 0, False), paddle.argsort(m), paddle.sort(m, 1, True), paddle.argsort(m, 0)]),
    "norms": ([_X, _M, _V, _V], lambda x, m, w, b: [
        F.softmax(m), F.softmax(x, 1), F.log_softmax(m, 0), F.layer_norm(m, [6]), F.layer_norm(m, [6], w, b),
        F.layer_norm(x, [4, 8, 8]), F.group_norm(x, 2), F.instance_norm(x),
        F.batch_norm(m, w, b * b, w, b), F.batch_norm(x, w[:4], b[:4] ** 2, w[:4], b[:4], epsilon=1e-3)]),
    "indexing": ([_M, ([3, 4], "int64"), _N, ([4, 3, 2], "int64")], lambda m, i, n, c: [
        paddle.gather(m, n), paddle.gather(m, n, 1), paddle.index_select(m, n, 1), m[n], m[:, n], m[n, n],
        paddle.gather_nd(m, c), paddle.take_along_axis(m, i, 1), paddle.index_sample(m, i), F.one_hot(n, 4),
        F.embedding(n, m), F.embedding(i, m, padding_idx=1), paddle.tril(m), paddle.triu(m, 1),
        paddle.put_along_axis(m, i[:, 0:1], 2.0, 1), paddle.put_along_axis(m, i[:, 0:1], m[:, 0:1], 1, "add"),
        paddle.scatter(m, n[:1], m[:1] * 2), paddle.diag(m[0]), paddle.diag(m)]),
    "pools": ([_X], lambda x: [
        F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2),
        F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, exclusive=False), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, 3), F.adaptive_avg_pool2d(x, [2, None]),
        F.adaptive_max_pool2d(x, 2), F.max_pool2d(x, 2, data_format="NHWC"), F.max_pool1d(x[:, :, 0], 2),
        F.avg_pool1d(x[:, :, 0], 3, 1, 1), F.max_pool2d(x, 3, 2, "SAME"), F.avg_pool2d(x, 3, 2, "SAME"),
        F.avg_pool2d(x, 3, 2, "SAME", exclusive=False), F.avg_pool2d(x, 4, 1, [1, 2, 0, 3]),
        F.avg_pool2d(x, 4, 1, [2, 1, 0, 3], exclusive=False)]),
    "images": ([_X], lambda x: [
        F.pixel_shuffle(x, 2), F.channel_shuffle(x, 2), F.pad(x, [1, 2, 0, 1]), F.pad(x, [1, 1, 1, 1], "reflect"),
        F.pad(x, [1, 2, 2, 1], "replicate"), F.pad(x, [1, 2, 2, 1], "circular"), F.pad(x[0, 0], [1, 0, 0, 1], value=2.0),
        F.interpolate(x, scale_factor=2, mode="nearest"), F.interpolate(x, [5, 11], mode="nearest"),
        F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, [5, 11], mode="bilinear"),
        F.interpolate(x, [5, 11], mode="bilinear", align_corners=True),
        F.interpolate(x, [16, 3], mode="bilinear", align_mode=1), F.prelu(x, paddle.full([4], 0.2)),
        F.prelu(x, paddle.full([1], 0.2))]),
    "convolutions": ([_X, ([6, 4, 3, 3], "float32"), ([8, 1, 3, 3], "float32"), ([4, 5, 3, 3], "float32"), _V],
                     lambda x, w, d, t, b: [
        F.conv2d(x, w), F.conv2d(x, w, b, 2, 1), F.conv2d(x, w, padding="SAME"), F.conv2d(x, w, None, 2, "SAME"),
        F.conv2d(x, w, None, 1, [1, 2], 2), F.conv2d(x, w, padding=[1, 0, 2, 1]), F.conv2d(x, d, groups=4),
        F.conv2d(x, w[:, :2], None, 1, 1, 1, 2), F.conv2d(x.transpose([0, 2, 3, 1]), w, b, data_format="NHWC"),
        F.conv2d_transpose(x, t), F.conv2d_transpose(x, t, None, 2, 1, 1),
        F.conv2d_transpose(x, t, None, 2, output_size=[18, 17]),
        F.conv1d(x[:, :, 0], w[:, :, 0], b)]),
    "attention": ([([2, 5, 2, 8], "float32"), ([2, 7, 2, 8], "float32"), ([2, 1, 5, 7], "float32")], lambda q, k, mask: [
        F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, mask),
        F.scaled_dot_product_attention(q, q, q, is_causal=True)]),
    "dropout": ([_M], lambda m: [
        F.dropout(m, 0.5, training=False), F.dropout(m, 0.5, training=False, mode="downscale_in_infer")]),
    "sizes": ([_X, _M], lambda x, m: [
        paddle.shape(x), paddle.numel(m), m.reshape([paddle.shape(m)[0] * 2, 3]), x.reshape([x.shape[0], -1]),
        m + paddle.shape(x)[1].astype("float32"), paddle.zeros(paddle.shape(m)) + m]),
    "writes": ([_M], lambda m: [_written(m.clone()), _written_tensor(m.clone())]),
    "doubles": ([([3, 6], "float64")], lambda m: [
        m @ m.T, F.softmax(m), F.gelu(m), m.mean(0), F.layer_norm(m, [6]), m * 2 + 1, paddle.exp(m)]),
    "bfloat16": ([_M], lambda m: [
        (m.astype("bfloat16") * 2).astype("float32"), (m.astype("bfloat16") * 0.5 + 1).T.astype("float32")]),
    "rare": ([_X, _M, ([2, 3, 5, 2], "float32"), _N, ([4, 1, 3, 3], "float32")], lambda x, m, grid, n, w: [
        F.conv3d(x.reshape([2, 4, 2, 4, 8]), paddle.full([3, 4, 1, 3, 3], 0.1), padding=1), *paddle.meshgrid(n, n),
        F.grid_sample(x, grid), F.grid_sample(x, grid, "nearest", "border", False),
        paddle.scatter_nd_add(m, n.reshape([5, 1]), paddle.ones([5, 6])), F.conv2d_transpose(x, w, groups=4),
        F.conv2d_transpose(x, w, None, 2, 1, groups=4)]),
    "rarer functions": ([_M, _M, _X], lambda x, y, c: [
        f(x) for f in (F.softshrink, F.hardshrink, F.thresholded_relu, paddle.sinh, paddle.cosh, paddle.asinh, paddle.atan,
                       paddle.erf, paddle.lgamma, paddle.digamma, paddle.i0, paddle.i1e, paddle.logit, F.swiglu)]
        + [f(F.tanh(x)) for f in (paddle.asin, paddle.acos, paddle.atanh, paddle.erfinv)]
        + [F.rrelu(x, training=False), F.maxout(c, 2), paddle.acosh(x * x + 1), paddle.logit(F.sigmoid(x), 1e-3), F.swiglu(x, y),
           paddle.heaviside(x, y), paddle.heaviside(x * 0, y), paddle.isclose(x, y, 0.5, 0.1), paddle.allclose(x, x),
           F.maxout(c, 4, -1), paddle.isclose(x / (x - x), x / (y - y), equal_nan=True)]),
    "losses": ([_M, _M, ([3], "int64"), _V], lambda x, y, i, w: [
        F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y, "none", 0.7), F.kl_div(x, F.softmax(y), "none"),
        F.kl_div(x, y, "batchmean", log_target=True), F.binary_cross_entropy(F.sigmoid(x), F.sigmoid(y)),
        F.binary_cross_entropy_with_logits(x, F.sigmoid(y)), F.cross_entropy(x, i), F.cross_entropy(x, i, ignore_index=1),
        F.cross_entropy(x, i, w * w), F.cross_entropy(x, F.softmax(y), soft_label=True), F.cross_entropy(x, i, reduction="none"),
        F.cross_entropy(F.softmax(x), i, use_softmax=False), F.nll_loss(F.log_softmax(x), i), F.nll_loss(x, i, w * w),
        F.nll_loss(x, i, w * w, 2, "sum"), F.nll_loss(x, i, reduction="none"), F.label_smooth(x, epsilon=0.2)]),
    "matrices": ([_M, ([2, 3, 6], "float32"), ([5, 5], "float32"), ([4, 6], "float32"), ([5, 3, 6], "float32")],
                 lambda x, b, q, y, w: [
        paddle.einsum("ij,kj->ik", x, y), paddle.einsum("bij,kj->kbi", b, y), paddle.einsum("ii->i", q),
        paddle.einsum("...ij,...jk->...ik", b, y.T), paddle.einsum("ij,ij->", x, x), paddle.kron(x, q), paddle.kron(q, x[0]),
        paddle.linalg.multi_dot([x, y.T, y]), paddle.linalg.matrix_power(q, 5), paddle.linalg.matrix_power(q, 0),
        paddle.diagonal(x), paddle.diagonal(b, -1, 0, 2), paddle.trace(b, 1, 1, 2), paddle.diag_embed(x, -1),
        paddle.diag_embed(x, 2, 0, 2), paddle.diag(x[0], 2), paddle.diag(x[0], -1, 3.0), paddle.diag(x, 1), paddle.diag(y, -2),
        F.bilinear(y[:, :3], y, w, x[:1, :5]), x + paddle.tril_indices(3, 3).sum().astype("float32"),
        x + paddle.triu_indices(3, 4, 1)[1].sum().astype("float32")]),
    "systems": ([([2, 5, 5], "float32"), ([2, 5, 3], "float32")], lambda a, b: [
        paddle.linalg.inv(a + 4 * paddle.eye(5)), paddle.linalg.det(a), paddle.linalg.solve(a + 4 * paddle.eye(5), b),
        paddle.linalg.solve(a[0] + 4 * paddle.eye(5), b[0]), paddle.linalg.matrix_power(a + 4 * paddle.eye(5), -2),
        paddle.linalg.cholesky(a @ a.transpose([0, 2, 1]) + paddle.eye(5)),
        paddle.linalg.cholesky(a @ a.transpose([0, 2, 1]) + paddle.eye(5), True),
        paddle.linalg.cholesky_solve(b, a + 4 * paddle.eye(5)), paddle.linalg.cholesky_solve(b, a + 4 * paddle.eye(5), True),
        *paddle.linalg.qr(b), *paddle.linalg.qr(b, "complete"), *paddle.linalg.qr(b.transpose([0, 2, 1])),
        paddle.linalg.qr(a, "r"),
        paddle.linalg.triangular_solve(a + 4 * paddle.eye(5), b), paddle.linalg.triangular_solve(
            a + 4 * paddle.eye(5), b, False, True, True), paddle.linalg.triangular_solve(a[0] + 4 * paddle.eye(5), b)]),
    "singular values": ([([2, 5, 3], "float32"), ([2, 5, 5], "float32")], lambda a, b: [
        paddle.linalg.svdvals(a), *_product(*paddle.linalg.svd(a)), *_product(*paddle.linalg.svd(a.transpose([0, 2, 1]))),
        paddle.linalg.svd(a, True)[0] @ paddle.linalg.svd(a, True)[0].transpose([0, 2, 1]), paddle.linalg.pinv(a),
        paddle.linalg.matrix_rank(a), paddle.linalg.matrix_rank(a, 1.0),
        paddle.linalg.matrix_rank(b + b.transpose([0, 2, 1]), hermitian=True),
        paddle.linalg.matrix_rank(a, atol=0.5, rtol=0.1), paddle.linalg.matrix_rank(a, paddle.to_tensor([0.5, 2.0])),
        paddle.linalg.matrix_norm(a, "nuc"), paddle.linalg.cond(a), *paddle.linalg.lstsq(a, 2 * b, driver="gelsd")[::2],
        paddle.linalg.eigvalsh(b), *_turned(*paddle.linalg.eigh(b)), *_turned(*paddle.linalg.eigh(b, "U"))]),
    "orders": ([_M, ([5, 7], "float32")], lambda m, o: [
        paddle.polygamma(m * m + 0.5, 1), paddle.polygamma(m * m + 0.5, 3),
        paddle.median(m, 1), paddle.median(m), paddle.median(o, 0, True), paddle.median(o), *paddle.kthvalue(m, 2),
        *paddle.kthvalue(m, 2, 0, True), paddle.cumprod(m, 1), paddle.logcumsumexp(m, 1), paddle.logcumsumexp(m),
        *paddle.cummax(m, 1), *paddle.cummin(m, 0, "int32"), paddle.dist(m, m * 2), paddle.dist(m, m * 2, 1),
        paddle.dist(m, m * 2, float("inf")), paddle.searchsorted(paddle.sort(m[0]), m),
        paddle.bucketize(m, paddle.sort(m[0]), right=True), paddle.searchsorted(paddle.sort(m, 1), m, out_int32=True)]),
    "places": ([_M, _N, ([3], "int64")], lambda m, n, i: [
        paddle.index_add(m, i, 0, m), paddle.index_add(m, n, 1, m[:, :5]), paddle.scatter(m, i, m, False),
        paddle.scatter(m, i * 0, m, False), paddle.index_put(m, (i,), m[0]), paddle.index_put(m, (i, i), m[:, 0], True),
        paddle.repeat_interleave(m, 2, 1), paddle.repeat_interleave(m, 3, 0), F.sequence_mask(n, 4),
        paddle.multiplex([m, m * 2, m * 3], (i.unsqueeze(1) % 3).astype("int32"))]),
    "windows": ([_X, ([2, 16, 63], "float32"), ([1, 2, 3], "float32")], lambda x, c, t: [
        F.unfold(x, 3, 1, 1), F.unfold(x, [2, 3], 2, [1, 0], [1, 2]), F.fold(c, [8, 10], 2), F.fold(c, [15, 18], 2, 2, 0),
        F.fold(F.unfold(x, 3, 2, 1, 1), 8, 3, 2, 1), F.pixel_unshuffle(x, 2), F.pixel_unshuffle(x, 2, "NHWC"),
        F.temporal_shift(x, 2, 0.25), F.temporal_shift(x, 1, 0.3), F.affine_grid(t, [1, 3, 4, 5]),
        F.affine_grid(t, [1, 3, 4, 5], False), F.local_response_norm(x, 3)]),
    "interpolation": ([_X, ([2, 3, 4, 5, 6], "float32")], lambda x, v: [
        F.interpolate(x, [5, 11], mode="bicubic"), F.interpolate(x, scale_factor=2.5, mode="bicubic", align_corners=True),
        F.interpolate(x, scale_factor=[0.5, 2.0], mode="bicubic", data_format="NHWC"),
        F.interpolate(x[:, :, 0], [13], mode="linear", data_format="NCW"), F.interpolate(v, [7, 3, 6], mode="trilinear"),
        F.interpolate(v, scale_factor=2, mode="trilinear", align_corners=True)]),
    "volumes": ([([2, 3, 4, 6, 5], "float32")], lambda v: [
        F.max_pool3d(v, 2), F.max_pool3d(v, 3, 2, 1), F.avg_pool3d(v, [2, 3, 1], 1), F.avg_pool3d(v, 3, 2, 1),
        F.avg_pool3d(v, 3, 1, 1, exclusive=False), F.adaptive_avg_pool3d(v, 2), F.adaptive_avg_pool3d(v, [3, None, 2]),
        F.adaptive_max_pool3d(v, [2, 3, 1]), F.max_pool3d(v, 2, data_format="NDHWC"), F.avg_pool3d(v, 3, 2, "SAME"),
        F.avg_pool3d(v, 3, 2, "SAME", exclusive=False)]),
    "scalars": ([([], "float32"), ([1], "float32")], lambda s, v: [s + 1, s * v, s.reshape([1]), v.squeeze(), s.unsqueeze(0),
        paddle.sort(s), paddle.argsort(s), *paddle.topk(s, 1), *paddle.kthvalue(s, 1), paddle.median(s, 0), paddle.argmax(s, 0)]),
    "detectors": ([([2, 27, 5, 6], "float32"), ([2, 30, 5, 5], "float32"), ([2, 2], "int32"), ([2, 4, 9, 8], "float32"),
                   ([2, 36, 5, 4], "float32"), ([6, 2, 3, 3], "float32"), ([2, 18, 5, 4], "float32")],
                  lambda x, y, s, i, o, w, m: [
        *paddle.vision.ops.yolo_box(x, s + 30, [10, 13, 16, 30, 5, 9], 4, 0.3, 8, scale_x_y=1.2),
        *paddle.vision.ops.yolo_box(y, s + 30, [10, 13, 16, 30, 5, 9], 4, 0.01, 8, False, iou_aware=True, iou_aware_factor=0.4),
        paddle.vision.ops.deform_conv2d(i, o, w, None, 2, 1, 1, 2, 2),
        paddle.vision.ops.deform_conv2d(i, o, w, w[:, 0, 0, 0], 2, [2, 3], [2, 3], 2, 2, m)]),
    "boxes": ([([2, 4, 9, 8], "float32"), ([6, 4], "float32"), ([3, 6, 4], "float32"), ([6], "float32")], lambda i, b, t, s: [
        *paddle.vision.ops.prior_box(i, i, [2.0, 3.0], [4.0, 5.0], [2.0, 1.5], flip=True, clip=True),
        *paddle.vision.ops.prior_box(i, i, [2.0], [4.0], [1.5], steps=[3.0, 2.0], min_max_aspect_ratios_order=True),
        paddle.vision.ops.box_coder(_boxes(b), b.abs() + 0.1, _boxes(b * 2)),
        paddle.vision.ops.box_coder(_boxes(b), [0.1, 0.1, 0.2, 0.2], t, "decode_center_size", False),
        paddle.vision.ops.box_coder(_boxes(b)[:3], b.abs()[:3], t, "decode_center_size", axis=1),
        paddle.vision.ops.nms(_boxes(b), 0.1), paddle.vision.ops.nms(_boxes(b), 0.2, s),
        *(paddle.vision.ops.roi_align(i, _boxes(b) * 2, paddle.to_tensor([2, 4], "int32"), (3, 2), 0.9, count, aligned)
          for count in (2, -1) for aligned in (True, False)),
        *(paddle.vision.ops.roi_pool(i, _boxes(b) * size, paddle.to_tensor([2, 4], "int32"), (3, 2), 0.9)
          for size in (2, 4)),
        *(paddle.vision.ops.psroi_pool(paddle.concat([i, i], 1), _boxes(b) * size, paddle.to_tensor([2, 4], "int32"), 2, 0.9)
          for size in (2, 5)),
        paddle.vision.ops.psroi_pool(i[:1], _boxes(b), paddle.to_tensor([6], "int32"), (1, 2))]),
    "complex numbers": ([([3, 6], "complex64"), ([3, 6], "complex64"), _M], lambda z, w, x: [
        z + w, z - w, z * w, z / w, -z, z * 2.0 + 1, z * x, 1 / z, 1j * z, z.conj(), paddle.real(z), z.imag(),
        z.abs(), z.angle(), paddle.exp(z), paddle.log(z), paddle.sqrt(z), paddle.sin(z), paddle.cos(z), paddle.square(z), z**2,
        z**3, z ** (0.5 + 0.25j), paddle.reciprocal(z), z.sum(), z.mean(0), z == z, z != w, paddle.isnan(z), paddle.isfinite(z),
        paddle.complex(x, x * 2), paddle.as_complex(x.reshape([3, 3, 2])), paddle.as_real(z), paddle.polar(x.abs(), x),
        z.astype("complex128"), paddle.full([3], 1 + 2j, "complex64"), paddle.to_tensor([1 + 2j, 3.0]) * z[0,
        :2].astype("complex128"),
        z.real().astype("complex64")]),
    "complex tensors": ([([3, 6], "complex64"), ([6, 4], "complex64"), _M, _V], lambda z, w, x, v: [
        z @ w, paddle.matmul(z, z, transpose_y=True), z @ paddle.ones([6, 2]).astype("complex64"), z @ w[:, 0],
        paddle.einsum("ij,kj->ik", z, z), z.reshape([2, 9]), z.T, z[1], z[:, ::2], z[..., None], paddle.concat([z, z * 2]),
        paddle.stack([z, z]), paddle.where(x > 0, z, z * 2), paddle.tile(z, [2, 1]),
        paddle.index_select(z, paddle.to_tensor([2, 0])), paddle.gather(z, paddle.to_tensor([1, 1])), paddle.flip(z, [0]),
        paddle.roll(z, 2, 1), paddle.expand(z[:1], [4, 6]), paddle.tril(z), paddle.cumsum(z, 1), paddle.add_n([z, z]),
        F.pad(z, [1, 1, 0, 2]), paddle.full_like(z, 2.0) + z, paddle.zeros_like(z) + z, z.flatten(), paddle.numel(z),
        paddle.diagonal(z)]),
    "transforms": ([_M, ([3, 6], "complex64"), ([2, 5, 4], "float32"), ([2, 200], "float32")], lambda x, z, t, s: [
        paddle.fft.fft(x), paddle.fft.fft(z, 8, 0, "ortho"), paddle.fft.fft(z, 4), paddle.fft.ifft(z),
        paddle.fft.ifft(z, norm="forward"), paddle.fft.rfft(x), paddle.fft.rfft(x, 5), paddle.fft.rfft(x, norm="forward"),
        paddle.fft.irfft(z), paddle.fft.irfft(z, 7),
        paddle.fft.irfft(z, 4), paddle.fft.hfft(z), paddle.fft.hfft(z, 5, norm="ortho"), paddle.fft.ihfft(x), paddle.fft.fft2(t),
        paddle.fft.ifft2(z), paddle.fft.rfft2(t), paddle.fft.irfft2(z), paddle.fft.fftn(t), paddle.fft.rfftn(t, axes=[0, 2]),
        paddle.fft.irfftn(z, [3, 9]), paddle.fft.hfft2(z), paddle.fft.fftshift(z), paddle.fft.ifftshift(x),
        x + paddle.fft.fftfreq(6), paddle.fft.fft(s)]),
    "signals": ([([2, 32], "float32"), ([2, 5, 10], "complex64"), ([2, 4, 6], "float32")], lambda s, z, f: [
        paddle.signal.frame(s, 5, 3), paddle.signal.frame(s, 2, 1, 0), paddle.signal.overlap_add(f, 2),
        paddle.signal.overlap_add(f, 3, 0), paddle.signal.stft(s, 8), paddle.signal.stft(s, 8, 3),
        paddle.signal.stft(s, 8, onesided=False, center=False), paddle.signal.istft(z, 8), paddle.signal.istft(z, 8, 4)]),
    "histograms": ([_M, _I, ([4], "float32")], lambda x, i, w: [
        paddle.histogram(x, 5, -1, 1), paddle.histogram(x, 5), paddle.histogram(i, 4), paddle.histogram(w, 3, -2, 2, w * w),
        paddle.histogram(x, 4, -3, 3, density=True), *paddle.mode(i), *paddle.mode(i.astype("float32"), 0, True),
        *(f(w, paddle.to_tensor([0, 1, 1, 3])) for f in (paddle.geometric.segment_sum, paddle.geometric.segment_max)),
        *(f(w, paddle.to_tensor([0, 0, 0, 2])) for f in (paddle.geometric.segment_mean, paddle.geometric.segment_min)),
        *(f(paddle.log(x), 1) for f in (paddle.argmax, paddle.argmin))]),
    "fused norms": ([_M, _M, _V], lambda x, y, w: [
        paddle.incubate.nn.functional.fused_rms_norm(x, w, None, 1e-5, 1)[0],
        *paddle.incubate.nn.functional.fused_rms_norm(x, w, w, 1e-5, 1, bias=w, residual=y),
        paddle.incubate.nn.functional.fused_layer_norm(x, w, w, 1e-5, begin_norm_axis=1)[0],
        *paddle.incubate.nn.functional.fused_layer_norm(x, w, w, 1e-5, 0.5, begin_norm_axis=1, bias=w, residual=y)[:2],
        paddle.incubate.nn.functional.fused_layer_norm(x, None, None, 1e-5, 0.5, begin_norm_axis=1, bias=w, residual=y)[0]]),
    "places and means": ([_M, ([3, 4], "int64"), ([3, 4], "float32"), _I], lambda x, i, v, w: [
        *(paddle.put_along_axis(x, i, v, 1, how, include_self=own, broadcast=False)
          for how in ("add", "mul", "mean", "amax", "amin") for own in (True, False)),
        paddle.put_along_axis(w, i, i, 1, "amax", include_self=False, broadcast=False),
        paddle.put_along_axis(w, i, i, 1, "mean", broadcast=False),
        paddle.nanmedian(paddle.log(x)), paddle.nanmedian(paddle.log(x), 1, keepdim=True),
        paddle.nanmedian(x, 0, mode="min")[0]]),
    "whole numbers": ([_I, ([3, 6], "int32"), _N], lambda x, i, n: [
        x**3, i**2, paddle.pow(x, 5), paddle.pow(i, 0), paddle.pow(x, x), x.mean(), i.mean(1), x.mean([0, 1], True),
        paddle.signbit(-x), paddle.copysign(x, 1 - x), paddle.isposinf(i)]),
    "empty": ([([0, 3], "float32"), ([0, 3, 8, 8], "float32")], lambda x, i: [
        paddle.sort(x, 0), paddle.argsort(x, 0), F.adaptive_avg_pool2d(i, 0), paddle.concat([x, x]), x.sum(0), F.softmax(x)]),
}  # fmt: skip


def _product(u: Any, values: Any, vh: Any) -> list[Any]:
    """The matrices of which these are singular values and vectors; vectors have either sign."""
    return [(u * values.unsqueeze(-2)) @ vh, values]


def _turned(values: Any, vectors: Any) -> list[Any]:
    """The symmetric matrices of which these are eigenvalues and vectors; vectors have either sign."""
    return [(vectors * values.unsqueeze(-2)) @ vectors.transpose([0, 2, 1]), values]


def _boxes(b: Any) -> Any:
    return paddle.concat([b[:, :2].abs(), b[:, :2].abs() + b[:, 2:].abs() + 0.5], 1)


def _written(m: Any) -> Any:
    m[:, 1:3] = 2.0
    return m


def _written_tensor(m: Any) -> Any:
    m[0] = m[1] * 2
    m[1:, ::2] = m[0:2, ::2]
    return m


#: Ops that other tests have: in models, in files, in traced functions.
_ELSEWHERE = {
    "rnn": "models_test, recurrent_test", "if": "models_test, files_test", "while": "models_test, files_test",
    "pylayer": "capture_test",
    "increment_": "models_test", "full_with_tensor": "files_test", "assign_out_": "tensors_test",
    "flash_attn": "capture_test", "unique": "data_sizes_test", "unique_consecutive": "data_sizes_test",
    "repeat_interleave_with_tensor_index": "data_sizes_test", "bincount": "data_sizes_test (refused)",
}  # fmt: skip
#: Forms of one op under names of their own, and what lists are made of: no rows.
_INNER = frozenset(("builtin.combine", "builtin.split", "builtin.slice", "memcpy", "memcpy_h2d", "memcpy_d2h"))


@contextlib.contextmanager
def static_mode() -> Iterator[None]:
    """Paddle's static mode, and back."""
    paddle.enable_static()
    try:
        yield
    finally:
        paddle.disable_static()


def program_of(function: Callable[..., Any], inputs: Sequence[tuple[Sequence[int], str]]) -> tuple[Any, list[Any]]:
    """A static program with the inputs x0, x1, .. of these shapes and dtypes, and the values that the function returns."""
    with static_mode():
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            data = [paddle.static.data(f"x{i}", list(shape), dtype) for i, (shape, dtype) in enumerate(inputs)]
            results = function(*data)
    return program, list(results) if isinstance(results, (list, tuple)) else [results]


def arrays(rng: np.random.Generator, inputs: Sequence[tuple[Sequence[int], str]]) -> list[Any]:
    """Random inputs: normal floats and complex numbers, small integers, bools."""
    found: list[Any] = []
    for shape, dtype in inputs:
        if dtype.startswith("complex"):
            found.append((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype))
        elif dtype == "bool":
            found.append(rng.random(shape) < 0.5)
        elif dtype.startswith("int"):
            found.append(rng.integers(0, 3, shape).astype(dtype))
        else:
            found.append(rng.standard_normal(shape).astype(dtype))
    return found


def ops_of(program: Any) -> set[str]:
    """Names of the ops of a program, those of branches and loops too."""
    return {op.short for op in pir.every_op(LiveReader().program(program, None, "").block)}


def pairs(name: str, rng: np.random.Generator) -> tuple[set[str], list[tuple[Any, Any]]]:
    """The ops of a sample, and for each result ours and Paddle's."""
    inputs, function = SAMPLES[name]
    program, fetches = program_of(function, inputs)
    compiled = compile_paddle(program, fetches=fetches)
    tensors = [paddle.to_tensor(array) for array in arrays(rng, inputs)]
    got = compiled(*tensors)
    return ops_of(program), list(zip(got, function(*tensors), strict=True))


def _is_right(got: Any, want: Any) -> bool:
    """Whether two tensors agree in element type, shape and value."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    near = 1e-12 if got.dtype in (paddle.float64, paddle.complex128) else 1e-2 if got.dtype == paddle.float16 else 2e-5
    return bool(np.allclose(got.numpy(), want.numpy(), near, near, equal_nan=True))


def markdown() -> str:
    """The table: ops, forms, and the samples of each that were right just now."""
    rng = np.random.default_rng(0)
    right: dict[str, list[str]] = {}
    wrong: dict[str, list[str]] = {}
    count = 0
    for name in SAMPLES:
        ops, results = pairs(name, rng)
        count += len(results)
        into = right if all(_is_right(a, b) for a, b in results) else wrong
        for op in ops:
            into.setdefault(op, []).append(name)
    lines = [
        "# Ops of Paddle", "",
        f"What `sl.compile` takes of Paddle's programs (PIR), with paddlepaddle {paddle.__version__}: {len(_rows())} ops. "
        f"Samples are programs of many forms, whose {count} results were compared with Paddle's; others are in tests of that "
        "name (tests/frameworks/paddle). Made by `straightline coverage paddle > docs/frameworks/paddle.md`, from the table of "
        "converters and from runs. [How a program is taken](../guides/paddle.md).", "",
        "| op | forms taken | forms refused | right in |", "|---|---|---|---|",
    ]  # fmt: skip
    for op in _rows():
        takes, refuses = FORMS[op]
        tests = ", ".join(right.get(op, [])) or _ELSEWHERE.get(op, "")
        failed = f"; wrong in {', '.join(wrong[op])}" if op in wrong else ""
        lines.append(f"| {op} | {takes or 'all'} | {refuses} | {tests}{failed} |")
    return "\n".join(lines) + "\n"


def _rows() -> list[str]:
    return sorted(op for op in CONVERTERS if op not in _INNER)
