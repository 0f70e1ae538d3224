# SPDX-License-Identifier: Apache-2.0
"""Layers that torch's modules call as one op in inference, as the ops that they consist of.

`nn.TransformerEncoderLayer` and `nn.MultiheadAttention` do so where no gradient is recorded, and Dynamo notes that one op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _keeps(mask: Tensor | None, kind: int | None) -> Tensor | None:
    """What attention keeps, by a mask over queries and keys (0), over the keys of each row (1), or of each head (2)."""
    if mask is None:
        return None
    keep = mask.to(torch.bool).logical_not()
    return keep[None, None] if kind == 0 else keep[:, None, None, :] if kind == 1 else keep


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`_native_multi_head_attention`: what `nn.MultiheadAttention` calls; the second result is None unless weights are needed."""
    if query is key and key is value:
        parts = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
        parts = [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
    q, k, v = (_heads(part, num_head) for part in parts)
    keep = _keeps(mask, mask_type)
    weights = None
    if need_weights:
        scores = (q / (embed_dim // num_head) ** 0.5) @ k.transpose(-2, -1)
        if keep is not None:
            scores = scores.masked_fill(keep.logical_not(), float("-inf"))
        weights = scores.softmax(-1)
        found = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        found = F.scaled_dot_product_attention(q, k, v, keep)
    return F.linear(found.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`_transformer_encoder_layer_fwd`: what `nn.TransformerEncoderLayer` calls."""

    def first(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(x: Tensor) -> Tensor:
        own = qkv_weight, qkv_bias, proj_weight, proj_bias
        return multi_head_attention(x, x, x, embed_dim, num_heads, *own, mask, False, True, mask_type)[0]

    def feed_forward(x: Tensor) -> Tensor:
        x = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(x) if use_gelu else x.relu(), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attention(first(src))
        return x + feed_forward(second(x))
    x = first(src + attention(src))
    return second(x + feed_forward(x))


#: By torch's function: one that calls its parts.
PARTS: Mapping[Any, Callable[..., Any]] = {
    torch._native_multi_head_attention: multi_head_attention,
    torch._transformer_encoder_layer_fwd: encoder_layer,
}
