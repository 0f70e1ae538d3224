#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the plots of docs/performance from summaries in bench/results.

    python tools/docs/plots.py            # writes them
    python tools/docs/plots.py --check    # fails when a file is not what would be written

`overhead.svg` has the time of a call against the number of layers, both logarithmic; `peers.svg` the share of the fastest peer's
time, case by case. Text and lines are written by hand, so that the same figures always give the same bytes.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "bench" / "results"
_FOLDER = _ROOT / "docs" / "performance"
_ONE_THREAD = "intel_xeon_a7d3e9b.json"
_TWO_THREADS = "intel_xeon_114e95e.json"
_LAYERS = (1, 20, 100)
_TITLES = {  # contender, its words, its colour
    "eager": ("eager PyTorch", "#9467bd"),
    "compile": ("torch.compile", "#8c564b"),
    "openvino": ("OpenVINO", "#1f77b4"),
    "onnxruntime": ("ONNX Runtime", "#2ca02c"),
    "aoti_boxed": ("AOTInductor", "#e08a00"),
    "straightline": ("Straightline", "#d62728"),
}
_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 20, 50
_LEAST_US, _MOST_US = 0.3, 1500.0


def _x(layers: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log(layers) / math.log(_LAYERS[-1])


def _y(us: float) -> float:
    share = math.log(us / _LEAST_US) / math.log(_MOST_US / _LEAST_US)
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share


def _times(summary: dict) -> dict[str, list[float]]:
    """The least microseconds of each contender for each length of the chain, on one thread."""
    rows = {r["case"]: r["contenders"] for r in summary["measurements"]["cases"]["rows"] if r["threads"] == 1}
    return {name: [rows[f"chain_{n}"][name]["least_us"] for n in _LAYERS] for name in _TITLES}


def _label_places(ends: dict[str, float]) -> dict[str, float]:
    """Heights of the names at the right end of their lines, moved apart where they would overlap."""
    places: dict[str, float] = {}
    last = -math.inf
    for name in sorted(ends, key=ends.__getitem__):
        last = places[name] = max(ends[name], last + 17)
    return places


def _begin(width: int, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]


def overhead(summary: dict) -> str:
    """Microseconds against layers, a line for each contender, on one thread."""
    out = _begin(_WIDTH, _HEIGHT)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for us in (1, 10, 100, 1000):
        y = f"{_y(us):.1f}"
        out.append(f'<line x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{_y(us) + 4:.1f}" text-anchor="end" fill="#333333">{us:,} us</text>')
    for layers in (1, 2, 5, 10, 20, 50, 100):
        x = f"{_x(layers):.1f}"
        out.append(f'<line x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 5}" stroke="#333333"/>')
        out.append(f'<text x="{x}" y="{bottom + 20}" text-anchor="middle" fill="#333333">{layers}</text>')
    out.append(f'<path d="M{_LEFT},{_TOP}V{bottom}H{right}" fill="none" stroke="#333333"/>')
    middle = (_LEFT + right) / 2
    out.append(
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle" fill="#333333">layers (linear and relu)</text>'
    )
    times = _times(summary)
    places = _label_places({name: _y(us[-1]) for name, us in times.items()})
    for name, us in times.items():
        title, colour = _TITLES[name]
        points = [f"{_x(n):.1f},{_y(t):.1f}" for n, t in zip(_LAYERS, us, strict=True)]
        width = 3 if name == "straightline" else 1.8
        out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        out += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3.5" fill="{colour}"/>' for p in points]
        weight = ' font-weight="bold"' if name == "straightline" else ""
        out.append(f'<text x="{right + 10}" y="{places[name] + 4:.1f}" fill="{colour}"{weight}>{title}</text>')
    return "\n".join([*out, "</svg>", ""])


def shares(summary: dict) -> dict[str, float]:
    """Straightline's time over the fastest peer's for each default case on two threads, the smallest first."""
    found = {}
    for row in summary["measurements"]["cases"]["rows"]:
        if row["threads"] == 2 and row["group"] == "default":
            contenders = row["contenders"].values()
            best = min(c["least_us"] for c in contenders if c.get("peer") and c.get("least_us"))
            found[row["case"]] = row["contenders"]["straightline"]["least_us"] / best
    return dict(sorted(found.items(), key=lambda item: item[1]))


def peers(summary: dict) -> str:
    """A bar for each case: the share of the fastest peer's time."""
    found = shares(summary)
    found["geometric mean"] = math.exp(sum(map(math.log, found.values())) / len(found))
    left, row_height, top = 130, 24, 30
    full = _WIDTH - left - 60
    height = top + row_height * len(found) + 10
    out = _begin(_WIDTH, height)
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = f"{left + full * share:.1f}"
        out.append(f'<line x1="{x}" y1="{top - 6}" x2="{x}" y2="{height - 8}" stroke="#dddddd"/>')
        out.append(f'<text x="{x}" y="{top - 12}" text-anchor="middle" fill="#333333">{share:g}</text>')
    for i, (name, share) in enumerate(found.items()):
        y = top + row_height * i
        colour = "#333333" if name == "geometric mean" else "#d62728"
        out.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end" fill="#333333">{name}</text>')
        out.append(
            f'<rect x="{left}" y="{y + 3}" width="{full * share:.1f}" height="{row_height - 8}" fill="{colour}"/>'
        )
        out.append(f'<text x="{left + full * share + 6:.1f}" y="{y + 15}" fill="#333333">{share:.2f}</text>')
    return "\n".join([*out, "</svg>", ""])


def plots() -> dict[Path, str]:
    """Every plot with what it should hold."""
    read = {name: json.loads((_RESULTS / name).read_text(encoding="utf-8")) for name in (_ONE_THREAD, _TWO_THREADS)}
    return {_FOLDER / "overhead.svg": overhead(read[_ONE_THREAD]), _FOLDER / "peers.svg": peers(read[_TWO_THREADS])}


def main() -> int:
    """Writes the plots, or compares them."""
    status = 0
    for path, text in plots().items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(_ROOT)} is not what bench/results gives: run tools/docs/plots.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
