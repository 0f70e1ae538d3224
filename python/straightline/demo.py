# SPDX-License-Identifier: Apache-2.0
"""`make demo`: two models on real pictures, compiled, checked against PyTorch and timed.

1. A small CNN learns scikit-learn's scanned digits, is compiled, and classifies the digits that were held out.
2. ResNet-18 (random weights: the work is the same) classifies a photograph; both sides are timed.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from rich.bar import Bar
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from torch import Tensor, nn

import straightline as sl
from straightline.demo_models import DigitsCnn, ResNet18

_EPOCHS = 10
_BATCH = 64
_ROUNDS = 12


def main() -> int:
    """Runs both parts; exit status 1 when any answer differs from PyTorch's."""
    console = Console()
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError:
        console.print("the demo needs scikit-learn for its pictures: pip install scikit-learn", style="red")
        return 1
    torch.manual_seed(0)
    return 0 if digits(console) and photograph(console) else 1


def digits(console: Console) -> bool:
    """Trains, compiles and compares on the held-out digits. Returns whether all predictions agree."""
    console.rule("[bold]1. scanned digits")
    train_x, train_y, test_x, test_y = _digit_data()
    model = DigitsCnn()
    with _step(console, f"training a small CNN on {len(train_x)} scans, {_EPOCHS} epochs"):
        _train(model, train_x, train_y)
    model.eval()
    with _step(console, "compiling it for any number of pictures"):
        pictures = torch.export.Dim("n", min=2, max=1024)
        compiled = sl.compile(model, (test_x,), dynamic_shapes=({0: pictures},))
    with torch.inference_mode():
        expected = model(test_x)
        scores = compiled(test_x)
    same = bool((scores.argmax(1) == expected.argmax(1)).all())
    right = int((scores.argmax(1) == test_y).sum())
    console.print(
        f"held-out digits: {right} of {len(test_y)} right ({right / len(test_y):.1%}); "
        f"predictions {'equal to' if same else '[red]DIFFERENT from'} eager PyTorch's, "
        f"largest difference of a score {float((scores - expected).abs().max()):.1e}\n"
    )
    _show_picture(console, test_x[0, 0], int(scores[0].argmax()))
    _show_code(console, compiled.code)
    return same


def photograph(console: Console) -> bool:
    """Compiles ResNet-18, compares its scores for a photograph and times it. Returns whether the scores agree."""
    console.rule("[bold]2. ResNet-18 on a photograph")
    model = ResNet18().eval()
    x = _photograph()
    with _step(console, "compiling ResNet-18, batch 1"):
        compiled = sl.compile(model, (x,))
    channels_last = ResNet18().eval()
    channels_last.load_state_dict(model.state_dict())
    channels_last = channels_last.to(memory_format=torch.channels_last)
    x_last = x.contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        expected = model(x)
        scores = compiled(x)
        worst = float((scores - expected).abs().max() / expected.abs().max())
        same = worst < 1e-4 and int(scores.argmax()) == int(expected.argmax())
        console.print(
            f"class {int(scores.argmax())} of 1000 from both (the weights are random, so it means nothing), "
            f"largest relative difference {worst:.1e}"
            if same
            else f"[red]the scores differ by {worst:.1e} of the largest, too much[/red]"
        )
        if not same:
            return False
        with _step(console, f"timing, {_ROUNDS} rounds in turn, {torch.get_num_threads()} thread(s)"):
            times = _best_times(
                {
                    "eager": lambda: model(x),
                    "eager, channels last": lambda: channels_last(x_last),
                    "Straightline": lambda: compiled(x),
                }
            )
    eager = min(times["eager"], times["eager, channels last"])
    _show_bars(console, {"PyTorch eager": eager, "Straightline": times["Straightline"]})
    statements = [row for row in compiled.explain().statements if row["phase"] == "run"]
    console.print(
        f"\nResNet-18 runs as {len(statements)} calls with nothing in between. All of its C++: compiled.code, "
        "what became of each layer and why: compiled.explain()"
    )
    return True


def _digit_data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns pictures [n, 1, 8, 8] in 0..1 and labels, for training and held out."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    parts = train_test_split(data.images, data.target, test_size=0.25, random_state=0, stratify=data.target)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32).unsqueeze(1) / 16 for part in parts[:2])
    train_y, test_y = (torch.tensor(part) for part in parts[2:])
    return train_x, train_y, test_x, test_y


def _train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # pictures this small only lose by sharing
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(x)).split(_BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    torch.set_num_threads(threads)


def _photograph() -> Tensor:
    """scikit-learn's sample photograph as [1, 3, 224, 224], cropped to a square and normalised as for ImageNet."""
    from sklearn.datasets import load_sample_image

    image = torch.tensor(load_sample_image("china.jpg")).permute(2, 0, 1).float() / 255
    side = min(image.shape[1:])
    top, left = (image.shape[1] - side) // 2, (image.shape[2] - side) // 2
    square = image[None, :, top : top + side, left : left + side]
    small = F.interpolate(square, size=(224, 224), mode="bilinear", antialias=True, align_corners=False)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    return ((small - mean) / deviation).contiguous()


def _best_times(candidates: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds per call: the least of all rounds, in which the candidates take turns."""
    best = dict.fromkeys(candidates, math.inf)
    for round_index in range(_ROUNDS + 2):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            elapsed = (time.perf_counter() - start) * 1e6
            if round_index >= 2:  # the first two warm up
                best[name] = min(best[name], elapsed)
    return best


@contextmanager
def _step(console: Console, text: str) -> Iterator[None]:
    """Shows `text` while the block runs, then how long it took."""
    start = time.perf_counter()
    with console.status(text):
        yield
    console.print(f"{text}: {time.perf_counter() - start:.1f} s")


def _show_picture(console: Console, picture: Tensor, digit: int) -> None:
    """The scan in shades of grey, two characters a pixel."""
    shades = " ░▒▓█"
    for row in picture:
        console.print("  " + "".join(shades[round(float(pixel) * (len(shades) - 1))] * 2 for pixel in row))
    console.print(f"  is a {digit}, says the compiled program\n")


def _show_code(console: Console, code: str) -> None:
    """The program and the kernel of the last layer; the tables and the other kernels are left out."""
    kernels = re.findall(r'^extern "C" void \w+\(.*?^}\n', code, re.DOTALL | re.MULTILINE)
    program = re.findall(r'^extern "C" int32_t sl_program_run\(.*?^}\n', code, re.DOTALL | re.MULTILINE)
    last = [kernel for kernel in kernels if kernel.startswith('extern "C" void gem')][-1:]
    console.print(Syntax("\n".join([*last, *program]), "cpp", background_color="default", word_wrap=True))
    console.print(
        f"That is what runs, and one of its {len(kernels)} kernels; compiled.code holds all {code.count(chr(10))} lines.\n"
    )


def _show_bars(console: Console, times: dict[str, float]) -> None:
    """Microseconds per call as bars."""
    slowest = max(times.values())
    table = Table(box=None, show_header=False, padding=(0, 1))
    for name, time_us in times.items():
        color = "green" if name == "Straightline" else "yellow"
        bar = Bar(slowest, 0, time_us, width=50, color=color)
        table.add_row(name, bar, f"{time_us:,.0f} us", f"{slowest / time_us:.1f}x")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
