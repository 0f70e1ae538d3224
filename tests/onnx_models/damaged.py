# SPDX-License-Identifier: Apache-2.0
"""ONNX files with damage: bytes that are changed, cut off, put in or moved, and numbers and names of the parsed model that are others.

    python -m tests.onnx_models.damaged --models 2000 --seed 1

Each is compiled, and called where it compiles, in a process that the parent watches: it ends in one of our errors that is not an
internal one, or runs. A process that ends by a signal, or an exception of another kind, is a fault; the file stays in --folder.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import straightline as sl
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper

_F = TensorProto.FLOAT
#: Seconds of one model, after which its process is ended.
_SECONDS = 60.0
#: A call that would take more memory than this is not made.
_MOST_ELEMENTS = 1 << 22


def _model(nodes: list[Any], inputs: dict[str, list[Any]], **weights: np.ndarray) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, _F, shape) for name, shape in inputs.items()]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", _F, None)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _branch(op: str) -> onnx.GraphProto:
    result = helper.make_tensor_value_info(f"{op}_y", _F, None)
    return helper.make_graph([helper.make_node(op, ["x"], [f"{op}_y"])], op, [], [result])


def bases() -> list[onnx.ModelProto]:
    """Small whole models: images, products, cells, branches, shapes that are computed."""
    numbers, node = np.random.default_rng(0), helper.make_node

    def array(*shape: int) -> np.ndarray:
        return numbers.standard_normal(shape).astype(np.float32)

    return [
        _model([node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["r"]),
                node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]), node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "v"], ["y"], transB=1)],
               {"x": [1, 3, 8, 8]}, w=array(4, 3, 3, 3), b=array(4), v=array(5, 16)),
        _model([node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["s"], axis=-1), node("Shape", ["x"], ["n"]),
                node("Gather", ["n", "i"], ["rows"]), node("Concat", ["rows", "j"], ["to"], axis=0), node("Reshape", ["s", "to"], ["y"])],
               {"x": ["n", 6]}, w=array(6, 8), i=np.asarray([0]), j=np.asarray([2, 4])),
        _model([node("LSTM", ["x", "w", "r"], ["h"], hidden_size=3), node("Transpose", ["h"], ["y"], perm=[1, 0, 2, 3])],
               {"x": [4, 2, 5]}, w=array(1, 12, 5), r=array(1, 12, 3)),
        _model([node("ReduceSum", ["x", "axes"], ["s"], keepdims=0), node("Less", ["s", "zero"], ["c"]),
                node("If", ["c"], ["y"], then_branch=_branch("Neg"), else_branch=_branch("Exp"))],
               {"x": [3, 2]}, axes=np.asarray([0, 1]), zero=np.float32(0)),
        _model([node("Pad", ["x", "pads"], ["p"]), node("Slice", ["p", "a", "e"], ["s"]), node("Resize", ["s", "", "k"], ["y"], mode="linear")],
               {"x": [1, 1, 4, 5]}, pads=np.asarray([0, 0, 1, 1, 0, 0, 1, 2]), a=np.asarray([0, 0, 1, 1]), e=np.asarray([1, 1, 5, 6]),
               k=np.asarray([1, 1, 2, 1.5], np.float32)),
    ]  # fmt: skip


def _bytes(data: bytearray, numbers: random.Random) -> None:
    """Changes bytes in one of several ways."""
    for _ in range(numbers.choice((1, 1, 1, 2, 8))):
        at, count = numbers.randrange(len(data)), numbers.randrange(1, 9)
        way = numbers.randrange(5)
        if way == 0:
            data[at] ^= 1 << numbers.randrange(8)
        elif way == 1:
            data[at] = numbers.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif way == 2:
            del data[at : at + count]
        elif way == 3:
            data[at:at] = bytes(numbers.randrange(256) for _ in range(count))
        else:
            other = numbers.randrange(len(data))
            data[at : at + count] = data[other : other + count]
        if len(data) < 2:
            data += b"\x08\x09"


def _fields(message: Message) -> Iterator[tuple[Message, Any, int]]:
    """Each number and text in a message, and its place in a list (-1: in none)."""
    for field, value in message.ListFields():
        many = field.is_repeated
        for place, item in enumerate(value if many else [value]):
            if isinstance(item, Message):
                yield from _fields(item)
            elif place < 16:
                yield message, field, place if many else -1


def _field(model: onnx.ModelProto, numbers: random.Random) -> None:
    """Gives a number or a text of the model another value."""
    places = list(_fields(model))
    message, field, place = numbers.choice(places)
    old = getattr(message, field.name)[place] if place >= 0 else getattr(message, field.name)
    if isinstance(old, bytes):
        data = bytearray(old or b"0")
        _bytes(data, numbers)
        new: Any = bytes(data)
    elif isinstance(old, str):
        texts = [
            x
            for m, f, p in places
            for x in [getattr(m, f.name)[p] if p >= 0 else getattr(m, f.name)]
            if isinstance(x, str)
        ]
        new = numbers.choice([*texts, "", old + "_"])
    elif isinstance(old, float):
        new = numbers.choice((0.0, -old, 1e30, float("nan"), float("inf")))
    else:
        new = numbers.choice((0, 1, -1, 2, old + 1, old - 1, -old, 7, 1 << 20, (1 << 31) - 1, -(1 << 31)))
    with contextlib.suppress(ValueError, TypeError):  # what the field cannot hold
        if place >= 0:
            getattr(message, field.name)[place] = new
        else:
            setattr(message, field.name, new)


def damaged(number: int, seed: int) -> bytes:
    """The file of this number."""
    numbers = random.Random(seed * 1_000_003 + number)
    known = bases()
    model = known[number % len(known)]
    for _ in range(numbers.randrange(3)):
        _field(model, numbers)
    data = bytearray(model.SerializeToString())
    if numbers.random() < 0.6:
        _bytes(data, numbers)
    return bytes(data)


def outcome(data: bytes, path: Path, call: bool = True) -> tuple[str, str]:
    """What a file gives: "ran", "compiled", an error's kind, or "bare"; and its words."""
    path.write_bytes(data)
    try:
        function = sl.compile(path, threads=1)
        arguments = []
        for given in onnx.ModelProto.FromString(data).graph.input:
            dims = [
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else 3
                for d in given.type.tensor_type.shape.dim
            ]
            arguments.append(np.ones(dims if np.prod(dims, dtype=object) < _MOST_ELEMENTS else [0], np.float32))
        if not call or function.explain().facts["arena_bytes"] > _MOST_ELEMENTS * 64:
            return "compiled", ""
        function(*arguments)
    except sl.InternalError as error:
        return "internal", str(error)
    except (sl.UserError, sl.UnsupportedError) as error:
        return "refused", str(error)
    except sl.StraightlineError as error:
        return "refused by the call", str(error)
    except MemoryError as error:
        return "out of memory", str(error)
    except Exception as error:
        return "bare", f"{type(error).__name__}: {error}"
    return "ran", ""


FINE = ("ran", "compiled", "refused", "refused by the call", "out of memory")


def _work(pipe: Any, folder: str, seed: int, first: int, count: int, call: bool) -> None:
    for number in range(first, count):
        pipe.send((number, *outcome(damaged(number, seed), Path(folder) / "model.onnx", call)))


def run(count: int, seed: int, call: bool = True) -> Iterator[tuple[int, str, str]]:
    """Number, outcome and words of each file; "ended" where a process ended by itself, "slow" where it was ended."""
    context = multiprocessing.get_context("spawn")
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while number < count:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(there, folder, seed, number, count, call))
            process.start()
            there.close()
            while number < count:
                try:
                    found = here.recv() if here.poll(_SECONDS) else (number, "slow", f"more than {_SECONDS:g} s")
                except EOFError:
                    process.join()
                    found = number, "ended", f"status {process.exitcode}"
                yield found
                number += 1
                if found[1] in ("slow", "ended"):
                    break
            process.kill()
            process.join()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--folder", type=Path, help="where files that show a fault are kept")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    begin = time.monotonic()
    for number, kind, words in run(options.models, options.seed):
        kinds[kind] += 1
        if kind not in FINE:
            print(f"{number}: {kind}: {words[:600]}", flush=True)
            if options.folder:
                (options.folder / f"damaged_{options.seed}_{number}.onnx").write_bytes(damaged(number, options.seed))
    print(f"seed {options.seed}: {dict(kinds)} in {time.monotonic() - begin:.0f} s")
    raise SystemExit(any(kind not in FINE for kind in kinds))


if __name__ == "__main__":
    main()
