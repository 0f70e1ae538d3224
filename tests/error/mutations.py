# SPDX-License-Identifier: Apache-2.0
"""mutations.py SEED COUNT [ONLY]: compiles valid MLIR with small mistakes; any exception of ours is fine, a crash is not.

Before each case its text goes to $STRAIGHTLINE_DUMP/case.mlir, so that the parent has it when this process dies.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import torch
from straightline import _compiler
from straightline.capture import TextBuilder, capture
from straightline.errors import InternalError, StraightlineError, UserError
from torch import nn
from torch.nn import functional as F

_NUMBER = re.compile(r"-?\d+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_PHRASE = re.compile(
    r"%[A-Za-z0-9_]+|@[a-z0-9_]+|tensor<[^>]*>|buffer<[^>]*>|array<[^>]*>|\{[^{}\n]*\}|\[[^][\n]*\]|\([^()\n]*\)"
)
_NUMBERS = (0, 1, -1, 2, 3, 7, 64, 2**31, 2**62, -(2**63), 2**63, 2**64)
_CHARACTERS = '\0\n"%(),:<>?@[]{}=#x0-'


def sources() -> dict[str, str]:
    """Valid texts at both levels, of all families."""
    x, index = torch.randn(3, 4), torch.zeros(3, 2, dtype=torch.int64)
    batch = torch.export.Dim("b", min=1, max=64)

    def mixed(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        joined = torch.cat([x, x[:, 1:]], 1).flip(0).cumsum(0)
        return joined, F.pad(x, (1, 1)), x.argmax(-1), torch.gather(x, 1, i), torch.softmax(x, -1) @ x.T, i // (i + 1)

    models = {
        "mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (x,), ({0: batch},)),
        "conv": (
            nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)),
            (torch.randn(1, 1, 8, 8),),
            None,
        ),
        "lstm": (nn.LSTM(4, 4, batch_first=True), (torch.randn(1, 3, 4),), None),
        "gru": (nn.GRU(4, 4, batch_first=True), (torch.randn(1, 3, 4),), None),
        "rnn": (nn.RNN(4, 4, batch_first=True), (torch.randn(1, 3, 4),), None),
        "norm": (nn.Sequential(nn.LayerNorm(4), nn.GELU()), (x,), ({0: batch},)),
        "embedding": (nn.Embedding(5, 4), (index,), None),
        "mixed": (mixed, (x, index), None),
        "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), (torch.randn(1, 2, 4, 8),), None),
        "cond": (lambda p, x: torch.cond(p, lambda x: x + 1, lambda x: x * 2, (x,)), (torch.tensor(True), x), None),
    }
    texts: dict[str, str] = {}
    for name, (model, args, shapes) in models.items():
        if isinstance(model, nn.Module):
            model.eval()
        builder = TextBuilder()
        capture(model, args, dynamic_shapes=shapes, builder=builder)
        texts[name] = builder.text()
        compilation = _compiler.compile(_compiler.Module.parse(texts[name]), cpu="x86-64-v3", emit_only=True)
        texts[f"{name} kernel"] = compilation.ir("kernel")
    return texts


def _number(text: str, generator: random.Random) -> str:
    place = generator.choice(list(_NUMBER.finditer(text)))
    return text[: place.start()] + str(generator.choice((*_NUMBERS, generator.randrange(100)))) + text[place.end() :]


def _exchange(pattern: re.Pattern[str], text: str, generator: random.Random) -> str:
    places = list(pattern.finditer(text))
    if not places:
        return text
    place = generator.choice(places)
    alike = [other for other in places if other.group()[0] == place.group()[0]]
    return text[: place.start()] + generator.choice(alike).group() + text[place.end() :]


def _line(text: str, generator: random.Random) -> str:
    lines = text.split("\n")
    at, other = generator.randrange(len(lines)), generator.randrange(len(lines))
    kind = generator.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, lines[other])
    return "\n".join(lines)


def _character(text: str, generator: random.Random) -> str:
    at = generator.randrange(len(text))
    return text[:at] + generator.choice(("", *_CHARACTERS)) + text[at + generator.randrange(2) :]


def mutate(text: str, generator: random.Random) -> str:
    """One to three small mistakes."""
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        kind = generator.random()
        if kind < 0.4:
            text = _number(text, generator)
        elif kind < 0.75:
            text = _exchange(_PHRASE, text, generator)
        elif kind < 0.8:
            text = _exchange(_WORD, text, generator)
        elif kind < 0.93:
            text = _line(text, generator)
        else:
            text = _character(text, generator)
    return text


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    only = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    folder = Path(os.environ["STRAIGHTLINE_DUMP"])
    texts = sources()
    names = sorted(texts)
    outcomes: dict[str, int] = {}
    for case in range(count):
        generator = random.Random(f"{seed}:{case}")
        text = mutate(texts[names[case % len(names)]], generator)
        if only not in (-1, case):
            continue
        (folder / "case.mlir").write_text(f"// seed {seed} case {case}: {names[case % len(names)]}\n{text}")
        try:
            _compiler.compile(_compiler.Module.parse(text), cpu="x86-64-v3", emit_only=True)
            outcome = "compiled"
        except StraightlineError as error:
            outcome = (
                "user"
                if isinstance(error, UserError)
                else "internal"
                if isinstance(error, InternalError)
                else "unsupported"
            )
            assert str(error)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print("outcomes", outcomes)


if __name__ == "__main__":
    main()
