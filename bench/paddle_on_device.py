# SPDX-License-Identifier: Apache-2.0
"""Programs of Paddle on an NVIDIA device that has no Paddle: compiled and saved here, run and timed there beside those of torch.

    PYTHONPATH=build/release/python:. .venv-paddle/bin/python -m bench.paddle_on_device make FOLDER    # needs no device
    python -m bench.paddle_on_device run FOLDER                                                        # needs no Paddle

`make` compiles the cases of docs/performance/benchmark.md as layers of Paddle and as modules of torch, and saves both. Weights
in the files are zeros, so that a folder is small; either side draws them by name from a seed, and `make` stores what eager
Paddle and eager torch answer with them. `run` loads a pair, gives it the weights, compares its answers, and times both in turn:
`sync` is a single call until the device is done, `enqueue` until it came back, `back to back` of calls that follow each other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import straightline as sl
from straightline.bench import answers, machine

#: The best that is published for Paddle's own direct kernels: sync, in microseconds.
_PUBLISHED = {"single_add": 19.6, "reshape_add": 53.5, "resnet18_b1": 800.0, "resnet18_b10": 855.0}
#: Largest difference as a part of the largest value; convolutions may round their factors to TF32.
_TOLERANCE = {"resnet18_b1": 5e-3, "resnet18_b10": 5e-3}
_SINGLES, _BEHIND = 50, 50
_SEED = 26


def _numbers(name: str) -> np.random.RandomState:
    """A generator whose numbers are the same with every version of numpy."""
    return np.random.RandomState([_SEED, *name.encode()])


def weights(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Weights by name, through which signals pass: what norms divide by is about 1, sums are as large as their terms."""
    made = {}
    for name, shape in shapes.items():
        numbers, last = _numbers(name), name.rpartition(".")[2]
        if last in ("_variance", "running_var"):
            value = numbers.uniform(0.8, 1.2, shape)
        elif last == "weight" and len(shape) == 1:
            value = numbers.uniform(0.5, 1.0, shape)
        elif len(shape) < 2:
            value = numbers.uniform(-0.1, 0.1, shape)
        else:
            terms = int(np.prod(shape[1:])) if len(shape) > 2 else min(shape)
            value = numbers.standard_normal(shape) / np.sqrt(terms)
        made[name] = value.astype(np.float32)
    return made


def inputs(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The arguments of both sides."""
    return [_numbers(f"input {i}").standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)]


class _Pair(NamedTuple):
    """A case in Paddle and in torch; both take `shapes`."""

    paddle: Any
    torch: Any
    shapes: list[tuple[int, ...]]


def _encoder() -> Any:
    """Paddle's encoder layer of 256 in torch: it projects queries, keys and values by three layers where torch has one."""
    import torch
    from torch.nn import functional

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (torch.nn.Linear(256, 256) for _ in range(4))
            self.a, self.b = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)
            self.norm1, self.norm2 = torch.nn.LayerNorm(256), torch.nn.LayerNorm(256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm1(x)
            q, k, v = (part(y).reshape(1, 16, 4, 64).transpose(1, 2) for part in (self.q, self.k, self.v))
            seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 16, 256)
            x = x + self.o(seen)
            return x + self.b(functional.gelu(self.a(self.norm2(x))))

    return Encoder()


def _pairs() -> dict[str, _Pair]:
    import paddle

    from bench.cases.cuda import CASES

    class Add(paddle.nn.Layer):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    class ReshapeAdd(paddle.nn.Layer):
        def forward(self, x: Any, y: Any) -> Any:
            return paddle.reshape(x, [x.shape[0], -1]) + y

    class Lstm(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = paddle.nn.LSTM(64, 128)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    layers = {
        "single_add": Add,
        "reshape_add": ReshapeAdd,
        "encoder_256": lambda: paddle.nn.TransformerEncoderLayer(
            256, 4, 1024, dropout=0.0, activation="gelu", normalize_before=True
        ),
        "lstm_20": Lstm,
        "resnet18_b1": paddle.vision.models.resnet18,
        "resnet18_b10": paddle.vision.models.resnet18,
    }
    cases = {case.name: case for case in CASES}
    return {
        name: _Pair(
            made(),
            _encoder() if name == "encoder_256" else cases[name].model(),
            [one.shape for one in cases[name].inputs],
        )
        for name, made in layers.items()
    }


def _floats(state: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the state's floats by name: without counters of batches, and a tensor of several names under the first."""
    first: dict[int, str] = {}
    for name, value in state.items():
        first.setdefault(value.data_ptr(), name)
    return {name: tuple(state[name].shape) for name in first.values() if "float" in str(state[name].dtype)}


def make(folder: Path, target: str, only: list[str]) -> None:
    """Writes the saved programs, the expected answers and the list of both."""
    import paddle
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    listed: dict[str, Any] = {"target": target, "paddle": paddle.__version__, "torch": torch.__version__, "cases": {}}
    for name, pair in _pairs().items():
        if only and name not in only:
            continue
        given, row = inputs(pair.shapes), {"shapes": pair.shapes, "weights": {}, "kernels": {}}
        expected = {}
        for side, model, tensor in (("paddle", pair.paddle, paddle.to_tensor), ("torch", pair.torch, torch.from_numpy)):
            model.eval()
            shapes = _floats(model.state_dict())
            state = {key: tensor(value) for key, value in weights(shapes).items()}
            args = tuple(tensor(value) for value in given)
            with paddle.no_grad(), torch.no_grad():
                _set(model, side, state)
                expected[side] = model(*args).numpy()
                _set(model, side, {key: tensor(np.zeros(shape, np.float32)) for key, shape in shapes.items()})
                fn = sl.compile(model, args, target=target)
            with tempfile.TemporaryDirectory() as place:
                fn.save(f"{place}/model.sl", libraries=("cudnn", "cublaslt") if target.startswith("cuda") else ())
                packed = gzip.compress(Path(f"{place}/model.sl").read_bytes(), 6)
            (folder / f"{name}_{side}.sl.gz").write_bytes(packed)
            row["weights"][side] = shapes
            row["kernels"][side] = [one["kernel"] for one in fn.explain().statements if one["phase"] == "run"]
            print(f"{name}, {side}: {len(row['kernels'][side])} kernels, {len(packed):,} bytes", flush=True)
        if row["kernels"]["paddle"] != row["kernels"]["torch"]:
            print(f"{name}: other kernels than torch's: {row['kernels']}")
        np.savez_compressed(folder / f"{name}.npz", **expected)
        listed["cases"][name] = row
    (folder / "cases.json").write_text(json.dumps(listed, indent=1) + "\n")


def _set(model: Any, side: str, state: dict[str, Any]) -> None:
    if side == "paddle":
        model.set_state_dict(state)
    else:
        model.load_state_dict(state, strict=False)


def _wait(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    import torch

    return torch.cuda.synchronize


def _singles(call: Callable[[], Any], wait: Callable[[], None]) -> tuple[float, float, float]:
    """Medians of single calls, until done and until they came back, and of calls behind each other; in microseconds."""
    done, back = [], []
    for _ in range(_SINGLES):
        wait()
        begin = time.perf_counter()
        call()
        came = time.perf_counter()
        wait()
        done.append(time.perf_counter() - begin)
        back.append(came - begin)
    begin = time.perf_counter()
    for _ in range(_BEHIND):
        call()
    wait()
    stream = (time.perf_counter() - begin) / _BEHIND
    return statistics.median(done) * 1e6, statistics.median(back) * 1e6, stream * 1e6


def _loaded(folder: Path, name: str, side: str, row: Mapping[str, Any], device: str) -> Any:
    """The saved program with the weights of the seed."""
    import torch

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.sl"
        path.write_bytes(gzip.decompress((folder / f"{name}_{side}.sl.gz").read_bytes()))
        fn = sl.load(path)
    drawn = weights({key: tuple(shape) for key, shape in row["weights"][side].items()})
    if drawn:
        fn.load_parameters({key: torch.from_numpy(value).to(device) for key, value in drawn.items()})
    return fn


def run(folder: Path, rounds: int, only: list[str], json_path: Path | None) -> int:
    """Compares and times what is there; 1 if an answer is wrong."""
    import torch

    listed = json.loads((folder / "cases.json").read_text())
    device = "cuda" if listed["target"].startswith("cuda") else "cpu"
    wait, records, wrong = _wait(device), [], 0
    print(f"{machine.description(device)}; torch {torch.__version__}")
    print(f"compiled with Paddle {listed['paddle']} for {listed['target']}; microseconds\n")
    print(
        "| case | Paddle's: sync / enqueue / back to back | torch's | ratio of sync | Paddle's with `out=` | published | error |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, row in listed["cases"].items():
        if only and name not in only:
            continue
        given = [torch.from_numpy(value).to(device) for value in inputs([tuple(shape) for shape in row["shapes"]])]
        expected, calls, errors, failed = np.load(folder / f"{name}.npz"), {}, {}, False
        for side in ("paddle", "torch"):
            fn = _loaded(folder, name, side, row, device)
            got = fn(*given)
            why, errors[side] = answers.judge([got.cpu().numpy()], [expected[side]], None, _TOLERANCE.get(name, 1e-4))
            if why:
                print(f"| {name} | WRONG, {side}: {why} | | | | | |")
                wrong, failed = 1, True
            calls[side] = lambda fn=fn: fn(*given)
            calls[f"{side}, out"] = lambda fn=fn, out=torch.empty_like(got): fn(*given, out=out)
        if failed:
            continue
        times: dict[str, list[tuple[float, float, float]]] = {side: [] for side in calls}
        with machine.on_core(machine.quietest_core()):
            for _ in range(rounds):
                for side, call in calls.items():
                    call()
                    times[side].append(_singles(call, wait))
        medians = {side: [statistics.median(column) for column in zip(*seen)] for side, seen in times.items()}
        ratio = statistics.median(p[0] / t[0] for p, t in zip(times["paddle"], times["torch"], strict=True))
        ours, theirs, out = (
            " / ".join(f"{v:.1f}" for v in medians[side]) for side in ("paddle", "torch", "paddle, out")
        )
        print(
            f"| {name} | {ours} | {theirs} | {ratio:.2f} | {out} | {_PUBLISHED.get(name, '')} | {errors['paddle']:.1e} |",
            flush=True,
        )
        records.append({"case": name, "medians_us": medians, "sync_ratio": ratio, "errors": errors})
    if json_path:
        facts = {
            "machine": machine.description(device),
            "date": machine.date(),
            "torch": torch.__version__,
            "compiled": listed,
        }
        json_path.write_text(json.dumps({**facts, "records": records}, indent=1) + "\n")
    return wrong


def main() -> int:
    """Makes or runs a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument(
        "--target", default="cuda:sm_90", help="what `make` compiles for; with cpu `run` needs no device"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder, options.target, options.only)
        return 0
    return run(options.folder, options.rounds, options.only, options.json)


if __name__ == "__main__":
    sys.exit(main())
