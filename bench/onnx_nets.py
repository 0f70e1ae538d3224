# SPDX-License-Identifier: Apache-2.0
"""Small nets of many kinds for `bench.onnx_routes`: each with inputs of a size, and the dims that may be named."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(NamedTuple):
    """A model, its inputs by a number of a size (0, 1), and the names of its inputs' dims that calls may differ in."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...]]
    named: tuple[dict[int, str], ...]


def _norm(channels: int) -> nn.BatchNorm2d:
    """A batch norm whose numbers are those of a trained one."""
    norm = nn.BatchNorm2d(channels)
    norm.running_mean = torch.randn(channels) * 0.1
    norm.running_var = torch.rand(channels) + 0.5
    return norm


def _conv(
    cin: int, cout: int, k: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] = nn.ReLU, dilation: int = 1
) -> nn.Sequential:
    pad = dilation * (k // 2)
    layer = nn.Conv2d(cin, cout, k, stride, pad, groups=groups, bias=False, dilation=dilation)
    return nn.Sequential(layer, _norm(cout), act())


class Residual(nn.Module):
    """Two convolutions around a skip."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a, self.b = _conv(channels, channels), _conv(channels, channels, act=nn.Identity)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.b(self.a(x)))


class ResNet(nn.Module):
    """A stem, a pool, residual blocks, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(Residual(16), _conv(16, 32, 3, 2), Residual(32))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1), 1))


class Squeeze(nn.Module):
    """Squeeze and excitation as MobileNetV3 has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class MobileNet(nn.Module):
    """Inverted residuals with squeezes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 16, 3, 2, act=nn.Hardswish)
        self.mix = nn.Sequential(
            _conv(16, 64, 1, act=nn.Hardswish),
            _conv(64, 64, 5, 1, 64, nn.Hardswish),
            Squeeze(64),
            _conv(64, 16, 1, act=nn.Identity),
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.mix(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class ConvNext(nn.Module):
    """A depthwise convolution, a layer norm of channels, an MLP with a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.dw, self.norm = nn.Conv2d(32, 32, 7, padding=3, groups=32), nn.LayerNorm(32, eps=1e-6)
        self.up, self.down, self.gamma = nn.Linear(32, 128), nn.Linear(128, 32), nn.Parameter(torch.randn(32) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ShuffleNet(nn.Module):
    """Channels split, mixed and shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.right = (
            _conv(3, 32, 3, 2),
            nn.Sequential(_conv(16, 16, 1), _conv(16, 16, 3, 1, 16, nn.Identity), _conv(16, 16, 1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.stem(x).chunk(2, 1)
        y = torch.cat([a, self.right(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class DenseNet(nn.Module):
    """Layers that read all before them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 16)
        self.layers = nn.ModuleList(
            nn.Sequential(_norm(16 + 8 * i), nn.ReLU(), nn.Conv2d(16 + 8 * i, 8, 3, padding=1, bias=False))
            for i in range(3)
        )
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.pool(x)


class UNet(nn.Module):
    """Down, up by interpolation and by a transposed convolution, skips."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = _conv(3, 16), _conv(16, 32), _conv(32, 32)
        self.up, self.d, self.e, self.out = (
            nn.ConvTranspose2d(32, 16, 2, 2),
            _conv(48, 16),
            _conv(32, 16),
            nn.Conv2d(16, 2, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        y = self.d(torch.cat([self.up(c), b], 1))
        y = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.out(self.e(torch.cat([y, a], 1)))


class Fpn(nn.Module):
    """A pyramid: upper levels are made as large as lower ones and added."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = _conv(3, 16, 3, 2), _conv(16, 24, 3, 2), _conv(24, 32, 3, 2)
        self.sides = nn.ModuleList(nn.Conv2d(n, 16, 1) for n in (16, 24, 32))
        self.out = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> list[Tensor]:
        a = self.a(x)
        b = self.b(a)
        c = self.c(b)
        found = [side(t) for side, t in zip(self.sides, (a, b, c))]
        for i in (1, 0):
            found[i] = found[i] + F.interpolate(found[i + 1], size=found[i].shape[-2:], mode="nearest")
        return [out(t) for out, t in zip(self.out, found)]


class Aspp(nn.Module):
    """Dilated convolutions and a pooled branch that is made as large again."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 16, 3, 2)
        self.branches = nn.ModuleList([_conv(16, 16, 1), _conv(16, 16, dilation=3), _conv(16, 16, dilation=6)])
        self.pooled, self.out = (
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 16, 1), nn.ReLU()),
            _conv(64, 16, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        wide = F.interpolate(self.pooled(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.out(torch.cat([*(branch(y) for branch in self.branches), wide], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


class Attention(nn.Module):
    """Heads by scaled_dot_product_attention, by products and softmax, or with a mask of bools."""

    def __init__(self, width: int, heads: int, how: str = "sdpa") -> None:
        super().__init__()
        self.heads, self.how = heads, how
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.how == "written":
            scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
            scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.how == "causal")
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class Vit(nn.Module):
    """Patches, a class token, two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 64, 8, 8), nn.Parameter(torch.randn(1, 1, 64))
        self.place = nn.Parameter(torch.randn(1, 17, 64))
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(5))
        self.attention = nn.ModuleList(Attention(64, 4) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        for i in range(2):
            x = x + self.attention[i](self.norms[2 * i](x))
            x = x + self.mlp[i](self.norms[2 * i + 1](x))
        return self.head(self.norms[4](x)[:, 0])


class Bert(nn.Module):
    """Words and places, attention with a mask of tokens, tanh-gelu, a pooled head."""

    def __init__(self, how: str = "sdpa") -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(100, 64), nn.Embedding(128, 64), nn.LayerNorm(64)
        self.attention, self.norm1, self.norm2 = Attention(64, 4, how), nn.LayerNorm(64), nn.LayerNorm(64)
        self.mlp, self.pool = nn.Sequential(nn.Linear(64, 256), nn.GELU("tanh"), nn.Linear(256, 64)), nn.Linear(64, 64)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        x = self.norm1(x + self.attention(x, mask[:, None, None, :].to(torch.bool)))
        return torch.tanh(self.pool(self.norm2(x + self.mlp(x))[:, 0]))


class RmsNorm(nn.Module):
    """As decoders write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Llama(nn.Module):
    """A decoder layer: rotated queries and keys, grouped heads, a causal mask, a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(64, n, bias=False) for n in (64, 32, 32, 64))
        self.norm1, self.norm2 = RmsNorm(64), RmsNorm(64)
        self.gate, self.up, self.down = (
            nn.Linear(64, 128, bias=False),
            nn.Linear(64, 128, bias=False),
            nn.Linear(128, 64, bias=False),
        )
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16))

    def _rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        angles = torch.arange(n, device=x.device)[:, None] * self.frequencies
        angles = torch.cat([angles, angles], -1)
        cos, sin = angles.cos(), angles.sin()
        y = self.norm1(x)
        q, k, v = (f(y).view(b, n, -1, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self._rotated(q, cos, sin), self._rotated(k, cos, sin)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, 64))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """torch's own decoder layer: attention to itself and to a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(64, 4, 128, batch_first=True, norm_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return self.layer(x, memory)


class Moe(nn.Module):
    """Experts of which the gate's two largest count."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(32, 4),
            nn.Parameter(torch.randn(4, 32, 64) * 0.1),
            nn.Parameter(torch.randn(4, 64, 32) * 0.1),
        )

    def forward(self, x: Tensor) -> Tensor:
        share, which = self.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros_like(self.gate(x)).scatter(-1, which, share / share.sum(-1, keepdim=True))
        hidden = F.relu(torch.einsum("nd,edh->neh", x, self.up))
        return torch.einsum("neh,ehd,ne->nd", hidden, self.down, weights)


class Audio(nn.Module):
    """Gated dilated convolutions over a signal, group norms, a strided stem."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv1d(1, 32, 10, 5), nn.GroupNorm(4, 32)
        self.gated = nn.ModuleList(nn.Conv1d(32, 64, 3, padding=2**i, dilation=2**i) for i in range(3))
        self.out = nn.ConvTranspose1d(32, 1, 10, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.norm(self.stem(x)))
        for layer in self.gated:
            a, b = layer(y).chunk(2, 1)
            y = y + torch.tanh(a) * torch.sigmoid(b)
        return self.out(y)


class Tagger(nn.Module):
    """An embedding, a recurrent layer in both directions, a head."""

    def __init__(self, kind: type[nn.Module], layers: int = 1, both: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 32)
        self.cells = kind(32, 32, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(64 if both else 32, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return F.log_softmax(self.head(self.cells(self.words(ids))[0]), -1)


class Swin(nn.Module):
    """Attention in shifted windows with a table of biases."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.norm, self.attention = nn.Conv2d(3, 32, 4, 4), nn.LayerNorm(32), Attention(32, 2)
        self.bias = nn.Parameter(torch.randn(2, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-2, -2), (1, 2))
        y = y.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        y = self.attention(y, self.bias)
        y = y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(y, (2, 2), (1, 2))


class Mixer(nn.Module):
    """MLPs over tokens and over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.LayerNorm(32), nn.LayerNorm(32)
        self.tokens = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
        self.channels = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.a(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.b(x))


class Detector(nn.Module):
    """A head of boxes: anchors, exponentials, clamps, the best scores."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = (
            nn.Sequential(_conv(3, 16, 3, 2, act=nn.SiLU), _conv(16, 32, 3, 2, act=nn.SiLU)),
            nn.Conv2d(32, 2 * 9, 1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.head(self.stem(x))
        b, _, h, w = y.shape
        y = y.view(b, 2, 9, h, w).permute(0, 1, 3, 4, 2)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([columns, rows], -1).to(y.dtype)
        middle = (y[..., :2].sigmoid() * 2 - 0.5 + grid) * 4
        size = y[..., 2:4].clamp(max=4.0).exp() * 8
        boxes = torch.cat([middle - size / 2, middle + size / 2], -1).reshape(b, -1, 4)
        scores = (y[..., 4:5].sigmoid() * y[..., 5:].softmax(-1)).reshape(b, -1, 4)
        return boxes, scores.amax(-1).topk(10, -1).values


class Tabular(nn.Module):
    """Embeddings and numbers, batch norms, a wide and a deep part."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(3))
        self.norm, self.deep = (
            nn.BatchNorm1d(5),
            nn.Sequential(nn.Linear(29, 64), nn.LeakyReLU(0.1), nn.BatchNorm1d(64), nn.Linear(64, 1)),
        )
        self.wide = nn.Linear(5, 1)

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        numbers = self.norm(numbers)
        words = [table(kinds[:, i]) for i, table in enumerate(self.tables)]
        return torch.sigmoid(self.deep(torch.cat([numbers, *words], 1)) + self.wide(numbers)).squeeze(1)


class Norms(nn.Module):
    """Instance norms, reflected borders, PReLU, pixel shuffles: a net of images to images."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 12, 3, padding=1)
        self.norm, self.act = nn.InstanceNorm2d(16, affine=True), nn.PReLU(16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.a(F.pad(x, (1, 1, 1, 1), mode="reflect"))))
        return torch.tanh(F.pixel_shuffle(self.b(y), 2))


class Conformer(nn.Module):
    """A half-step MLP, attention, a gated depthwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norms = (
            nn.Linear(32, 64),
            nn.Linear(64, 32),
            nn.ModuleList(nn.LayerNorm(32) for _ in range(3)),
        )
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.wide, self.dw, self.norm, self.last = (
            nn.Conv1d(32, 64, 1),
            nn.Conv1d(32, 32, 7, padding=3, groups=32),
            nn.BatchNorm1d(32),
            nn.Conv1d(32, 32, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.down(F.silu(self.up(self.norms[0](x))))
        y = self.norms[1](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.wide(self.norms[2](x).transpose(1, 2)), 1)
        return x + self.last(F.silu(self.norm(self.dw(y)))).transpose(1, 2)


class Gpt(nn.Module):
    """One step against a cache of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm, self.vocabulary = (
            nn.Linear(64, 192),
            nn.Linear(64, 64),
            nn.LayerNorm(64),
            nn.Linear(64, 100, bias=False),
        )

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, 4, 16).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = (q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v
        return self.vocabulary(x + self.out(y.transpose(1, 2).reshape(b, n, 64))), k, v


def _images(*sizes: tuple[int, int]) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda which: (torch.randn(1 + which, 3, *sizes[which]),)


def _ids(b: int, n: int) -> Tensor:
    return torch.randint(0, 100, (b, n))


def _masked(which: int) -> tuple[Tensor, Tensor]:
    mask = torch.ones(1 + which, 16 + 17 * which, dtype=torch.int64)
    mask[-1, 11:] = 0
    return _ids(*mask.shape), mask


def _mixed(which: int) -> tuple[Tensor, Tensor]:
    return torch.randn(1 + 30 * which, 5), torch.randint(0, 20, (1 + 30 * which, 3))


_IMAGE: tuple[dict[int, str], ...] = ({0: "b", 2: "h", 3: "w"},)
#: Bounds of named sizes.
SIZES = {"h": {"min": 32, "max": 512}, "w": {"min": 32, "max": 512}, "n": {"min": 4, "max": 120}}
_BATCH: tuple[dict[int, str], ...] = ({0: "b"},)
_TOKENS: tuple[dict[int, str], ...] = ({0: "b", 1: "n"},)
_PIXELS, _SQUARES = _images((64, 64), (96, 64)), _images((64, 64), (64, 64))


def _tokens(width: int) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda which: (torch.randn(1 + which, 16 + 21 * which, width),)


NETS: dict[str, Net] = {
    "resnet": Net(ResNet, _PIXELS, _IMAGE),
    "mobilenet": Net(MobileNet, _PIXELS, _IMAGE),
    "convnext": Net(ConvNext, _PIXELS, _IMAGE),
    "shufflenet": Net(ShuffleNet, _SQUARES, _BATCH),
    "densenet": Net(DenseNet, _SQUARES, _BATCH),
    "unet": Net(UNet, _SQUARES, _BATCH),
    "fpn": Net(Fpn, _SQUARES, _BATCH),
    "aspp": Net(Aspp, _SQUARES, _BATCH),
    "vit": Net(Vit, _images((32, 32), (32, 32)), _BATCH),
    "swin": Net(Swin, _images((32, 32), (32, 32)), _BATCH),
    "mixer": Net(Mixer, lambda which: (torch.randn(1 + which, 24, 32),), _BATCH),
    "bert": Net(Bert, _masked, (*_TOKENS, *_TOKENS)),
    "bert written": Net(lambda: Bert("written"), _masked, (*_TOKENS, *_TOKENS)),
    "llama": Net(Llama, _tokens(64), _TOKENS),
    "decoder": Net(
        Decoder, lambda which: (*_tokens(64)(which), torch.randn(1 + which, 9, 64)), (*_TOKENS, {0: "b", 1: "m"}),
    ),
    "gpt step": Net(
        Gpt, lambda which: (torch.randn(1, 1, 64), *(torch.randn(1, 4, 32 + 40 * which, 16) for _ in range(2))),
        ({}, {2: "n"}, {2: "n"}),
    ),
    "conformer": Net(Conformer, _tokens(32), _TOKENS),
    "moe": Net(Moe, lambda which: (torch.randn(3 + 9 * which, 32),), _BATCH),
    "audio": Net(Audio, lambda which: (torch.randn(1 + which, 1, 960),), _BATCH),
    "lstm": Net(lambda: Tagger(nn.LSTM), lambda which: (_ids(1 + which, 12 + 9 * which),), _TOKENS),
    "gru": Net(lambda: Tagger(nn.GRU, 2), lambda which: (_ids(1 + which, 12 + 9 * which),), _TOKENS),
    "rnn": Net(lambda: Tagger(nn.RNN, 1, False), lambda which: (_ids(1 + which, 12 + 9 * which),), _TOKENS),
    "detector": Net(Detector, _SQUARES, _BATCH),
    "tabular": Net(Tabular, _mixed, (*_BATCH, *_BATCH)),
    "image to image": Net(Norms, _SQUARES, _BATCH),
}  # fmt: skip
