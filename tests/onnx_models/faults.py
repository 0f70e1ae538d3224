# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models of one node with one fault each: a rank, size, element type, attribute or number that does not fit.

    python -m tests.onnx_models.faults --models 500 --seed 1

A model must be refused by one of our errors that is not an internal one, or give what onnx's reference implementation gives
where the fault left a legal model.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import straightline as sl
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

#: Processor seconds that a refusal may take.
MOST_SECONDS = 1.0

F, D, H = np.float32, np.float64, np.float16
J, L, B, U, S = np.int32, np.int64, np.bool_, np.uint8, np.int8


@dataclass
class Model:
    """A node's op, its inputs (arrays; None: left out), those that are initialisers, its attributes, and what was done to it."""

    op: str
    inputs: list[np.ndarray | None]
    constants: frozenset[int] = frozenset()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    fault: str = "none"

    def proto(self) -> onnx.ModelProto:
        """The model, of op set 20, without a check of onnx's."""
        names = ["" if a is None else f"x{i}" for i, a in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, [f"y{i}" for i in range(self.outputs)], name="faulty")
        for name, value in self.attributes.items():
            node.attribute.append(helper.make_attribute(name, value, attr_type=_empty_type(value)))
        given, weights = [], []
        for i, (name, a) in enumerate(zip(names, self.inputs)):
            if a is None:
                continue
            if i in self.constants:
                weights.append(numpy_helper.from_array(a, name))
            else:
                element = helper.np_dtype_to_tensor_dtype(a.dtype)
                given.append(helper.make_tensor_value_info(name, element, a.shape))
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        graph = helper.make_graph([node], "g", given, results, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """What a call gives."""
        return {f"x{i}": a for i, a in enumerate(self.inputs) if a is not None and i not in self.constants}

    def __str__(self) -> str:
        inputs = [
            "-" if a is None
            else f"{a.dtype}{list(a.shape)}" + (f"={a.reshape(-1)[:6].tolist()}" if i in self.constants else "")
            for i, a in enumerate(self.inputs)
        ]  # fmt: skip
        return f"{self.op}({', '.join(inputs)}; {self.attributes}) with {self.fault}"


def _empty_type(value: Any) -> int | None:
    return onnx.AttributeProto.INTS if value == [] else None


def _array(numbers: random.Random, dtype: Any, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(numbers.randrange(2**32))
    if dtype is B:
        return rng.integers(0, 2, shape).astype(B)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 3, shape).astype(dtype)
    return rng.uniform(0.1, 0.9, shape).astype(dtype)


def _ints(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, L)


def _legal(numbers: random.Random) -> list[Model]:
    """A legal model of each op."""
    a: Callable[..., np.ndarray] = lambda *shape, dtype=F: _array(numbers, dtype, *shape)  # noqa: E731
    first, second = frozenset({1}), frozenset({1, 2})
    found = [
        *(Model(op, [a(2, 3, 4)]) for op in "Relu Sigmoid Tanh Exp Abs Neg Softplus Erf Elu Selu Sqrt Floor Round Sign Gelu Mish".split()),
        *(Model(op, [a(2, 3, 4), a(3, 1)]) for op in "Add Sub Mul Div Pow Max Min Less Greater Equal PRelu Mean Sum".split()),
        *(Model(op, [a(2, 3, 4), _ints(1)], first, {"keepdims": 0}) for op in "ReduceSum ReduceMean ReduceMax ReduceL2 ReduceLogSumExp".split()),
        *(Model(op, [a(2, 3, 4)], attributes={"axis": 1}) for op in "Softmax LogSoftmax Hardmax ArgMax ArgMin Flatten".split()),
        *(Model(op, [a(3, 4, dtype=B), a(3, 4, dtype=B)]) for op in ("And", "Or", "Xor")),
        Model("Not", [a(3, 4, dtype=B)]), Model("Where", [a(3, 4, dtype=B), a(3, 4), a(4)]),
        Model("MatMul", [a(2, 3, 4), a(4, 5)]), Model("MatMul", [a(2, 3, 4), a(4, 5)], first),
        Model("Gemm", [a(3, 4), a(5, 4), a(5)], second, {"transB": 1, "alpha": 0.5}), Model("Gemm", [a(3, 4), a(4, 5), a(1, 5)]),
        Model("Einsum", [a(2, 3), a(3, 4)], attributes={"equation": "ij,jk->ik"}),
        Model("MatMulInteger", [a(3, 4, dtype=U), a(4, 5, dtype=S)], first),
        Model("Conv", [a(1, 4, 6, 6), a(3, 4, 3, 3), a(3)], second, {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
        Model("Conv", [a(1, 4, 9), a(4, 2, 3)], first, {"group": 2, "dilations": [2]}),
        Model("ConvInteger", [a(1, 4, 6, 6, dtype=U), a(3, 4, 3, 3, dtype=S), np.asarray(3, U)], second),
        Model("ConvTranspose", [a(1, 4, 5, 5), a(4, 3, 3, 3)], first, {"strides": [2, 2], "output_padding": [1, 1]}),
        Model("MaxPool", [a(1, 3, 6, 6)], attributes={"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 1, 1, 0]}),
        Model("AveragePool", [a(1, 3, 6, 6)], attributes={"kernel_shape": [3, 3], "ceil_mode": 1}),
        Model("GlobalAveragePool", [a(1, 3, 6, 6)]), Model("LpPool", [a(1, 3, 6, 6)], attributes={"kernel_shape": [2, 2]}),
        Model("BatchNormalization", [a(2, 3, 4), a(3), a(3), a(3), a(3)], frozenset(range(1, 5))),
        Model("InstanceNormalization", [a(2, 3, 4), a(3), a(3)], second),
        Model("LayerNormalization", [a(2, 3, 4), a(4), a(4)], second, {"axis": -1}),
        Model("GroupNormalization", [a(2, 4, 5), a(2), a(2)], second, {"num_groups": 2}),
        Model("LRN", [a(1, 4, 5, 5)], attributes={"size": 3}),
        Model("Reshape", [a(2, 3, 4), _ints(0, -1)], first), Model("Transpose", [a(2, 3, 4)], attributes={"perm": [2, 0, 1]}),
        Model("Squeeze", [a(2, 1, 4), _ints(1)], first), Model("Unsqueeze", [a(2, 3), _ints(0, 2)], first),
        Model("Expand", [a(3, 1), _ints(2, 3, 4)], first), Model("Tile", [a(2, 3), _ints(2, 1)], first),
        Model("Concat", [a(2, 3), a(2, 4)], attributes={"axis": 1}), Model("Split", [a(2, 6), _ints(2, 4)], first, {"axis": 1}, 2),
        Model("Slice", [a(4, 6), _ints(1, 0), _ints(3, 5), _ints(0, 1), _ints(1, 2)], frozenset(range(1, 5))),
        Model("Pad", [a(2, 3), _ints(0, 1, 1, 0)], first), Model("Pad", [a(2, 5), _ints(0, 1, 0, 2)], first, {"mode": "reflect"}),
        Model("Gather", [a(4, 3), a(2, 2, dtype=L)], attributes={"axis": 0}), Model("GatherElements", [a(3, 4), a(3, 4, dtype=L)], attributes={"axis": 1}),
        Model("GatherND", [a(3, 4, 5), a(2, 2, dtype=L)]), Model("ScatterND", [a(3, 4), _ints(0, 2).reshape(2, 1), a(2, 4)], first),
        Model("ScatterElements", [a(3, 4), _ints(0, 1, 2, 0).reshape(1, 4), a(1, 4)], first, {"axis": 0}),
        Model("OneHot", [a(3, dtype=L), _ints(4), np.asarray([0, 1], F)], second), Model("TopK", [a(3, 5), _ints(2)], first, {"axis": 1}, 2),
        Model("Cast", [a(3, 4)], attributes={"to": 7}), Model("Clip", [a(3, 4), np.asarray(0.2, F), np.asarray(0.6, F)], second),
        Model("CumSum", [a(3, 4), np.asarray(1, L)], first), Model("Trilu", [a(3, 4), np.asarray(1, L)], first),
        Model("Range", [np.asarray(0, L), np.asarray(7, L), np.asarray(2, L)], frozenset(range(3))),
        Model("ConstantOfShape", [_ints(2, 3)], frozenset({0})), Model("EyeLike", [a(3, 4)], attributes={"k": 1}),
        Model("DepthToSpace", [a(1, 8, 2, 3)], attributes={"blocksize": 2}), Model("SpaceToDepth", [a(1, 2, 4, 6)], attributes={"blocksize": 2}),
        Model("Resize", [a(1, 2, 3, 4), None, np.asarray([1, 1, 2, 2], F)], second, {"mode": "nearest"}),
        Model("GridSample", [a(1, 2, 4, 4), a(1, 3, 3, 2)]), Model("Shape", [a(2, 3)], attributes={"start": 1}), Model("Size", [a(2, 3)]),
        Model("QuantizeLinear", [a(2, 3), np.asarray(0.1, F), np.asarray(3, U)], second),
        Model("DequantizeLinear", [a(2, 3, dtype=U), a(3), a(3, dtype=U)], second, {"axis": 1}),
        Model("QLinearConv", [a(1, 4, 5, 5, dtype=U), np.asarray(0.1, F), np.asarray(1, U), a(2, 4, 3, 3, dtype=S), np.asarray(0.1, F), np.asarray(0, S), np.asarray(0.2, F), np.asarray(2, U)], frozenset(range(1, 8))),
        Model("LSTM", [a(3, 1, 4), a(1, 8, 4), a(1, 8, 2)], second, {"hidden_size": 2}),
        Model("GRU", [a(3, 1, 4), a(1, 6, 4), a(1, 6, 2)], second, {"hidden_size": 2}),
        Model("ReverseSequence", [a(4, 3), _ints(1, 2, 4)], first, {"batch_axis": 1, "time_axis": 0}),
        Model("Col2Im", [a(1, 4, 4), _ints(4, 4), _ints(2, 2)], second, {"strides": [2, 2]}),
        Model("IsNaN", [a(3)]), Model("BitShift", [a(3, dtype=U), a(3, dtype=U)], attributes={"direction": "LEFT"}), Model("Mod", [a(3, dtype=J) + 4, a(3, dtype=J) + 1]),
        Model("HardSigmoid", [a(3)], attributes={"alpha": 0.3}), Model("Shrink", [a(3)], attributes={"lambd": 0.4}), Model("Dropout", [a(3)]),
    ]  # fmt: skip
    return found


# Faults ---------------------------------------------------------------------------------------------------------------


def _one_input(model: Model, numbers: random.Random) -> int:
    return numbers.choice([i for i, a in enumerate(model.inputs) if a is not None])


def _with_input(model: Model, place: int, array: np.ndarray | None, fault: str) -> Model:
    inputs = list(model.inputs)
    inputs[place] = array
    return replace(model, inputs=inputs, fault=f"{fault} of input {place}")


def _rank(model: Model, numbers: random.Random) -> Model:
    place = _one_input(model, numbers)
    array = model.inputs[place]
    assert array is not None
    if array.ndim and numbers.random() < 0.5:
        return _with_input(model, place, np.ascontiguousarray(array[0]), "a rank less")
    return _with_input(model, place, array[np.newaxis].repeat(numbers.choice([1, 2]), 0), "a rank more")


def _size(model: Model, numbers: random.Random) -> Model:
    place = _one_input(model, numbers)
    array = model.inputs[place]
    assert array is not None
    if not array.ndim:
        return _rank(model, numbers)
    dim = numbers.randrange(array.ndim)
    size = numbers.choice([0, 1, array.shape[dim] + 1, array.shape[dim] + 3])
    return _with_input(model, place, np.take(array, np.arange(size) % max(array.shape[dim], 1), axis=dim), "a size")


def _dtype(model: Model, numbers: random.Random) -> Model:
    place = _one_input(model, numbers)
    array = model.inputs[place]
    assert array is not None
    dtype = numbers.choice([d for d in (F, D, H, J, L, B, U, S) if d is not array.dtype.type])
    return _with_input(model, place, array.astype(dtype), f"elements of {np.dtype(dtype)}")


def _attribute(model: Model, numbers: random.Random) -> Model:
    if not model.attributes:
        return replace(model, attributes={"axis": numbers.choice([-9, 9, 1.5, "x"])}, fault="an attribute too many")
    name = numbers.choice(sorted(model.attributes))
    value = model.attributes[name]
    wrong: list[Any]
    if isinstance(value, list):
        wrong = [value[:-1], [*value, 1], [-1] * len(value), [0] * len(value), [2**31] * len(value), value[0], "x"]
    elif isinstance(value, str):
        wrong = ["nothing", "", value + value, 3]
    elif isinstance(value, float):
        wrong = [float("nan"), float("inf"), "x", 3]
    else:
        wrong = [-1, 0, 99, -99, 2**40, 1.5, "x", [1, 2]]
    if numbers.random() < 0.15:
        rest = {key: kept for key, kept in model.attributes.items() if key != name}
        return replace(model, attributes=rest, fault=f"no attribute {name}")
    chosen = numbers.choice(wrong)
    return replace(model, attributes=model.attributes | {name: chosen}, fault=f"{name}={chosen!r}")


def _number(model: Model, numbers: random.Random) -> Model:
    whole = [i for i in model.constants if model.inputs[i] is not None and model.inputs[i].dtype == L]  # type: ignore[union-attr]
    if not whole:
        return _size(model, numbers)
    place = numbers.choice(sorted(whole))
    array = model.inputs[place].copy()  # type: ignore[union-attr]
    if array.size:
        array.reshape(-1)[numbers.randrange(array.size)] = numbers.choice([-100, -3, -1, 0, 7, 100, 2**33, -(2**62)])
    return _with_input(model, place, array, "a number")


def _count(model: Model, numbers: random.Random) -> Model:
    if numbers.random() < 0.5:
        return replace(model, inputs=model.inputs[:-1], fault="an input less")
    if numbers.random() < 0.5:
        return replace(model, inputs=[*model.inputs, _array(numbers, F, 2)], fault="an input more")
    return _with_input(model, numbers.randrange(len(model.inputs)), None, "absence")


_FAULTS: dict[str, Callable[[Model, random.Random], Model]] = {
    "rank": _rank, "size": _size, "dtype": _dtype, "attribute": _attribute, "number": _number, "count": _count,
}  # fmt: skip


def models(count: int, seed: int) -> Iterator[Model]:
    """Models with a fault each."""
    numbers = random.Random(seed)
    legal = _legal(numbers)
    for _ in range(count):
        model = numbers.choice(legal)
        kinds = ["rank", "size", "dtype", "count", *(["number"] if model.constants else [])]
        kinds += ["attribute", "attribute"] if model.attributes else []
        yield _FAULTS[numbers.choice(kinds)](model, numbers)


# Checks ---------------------------------------------------------------------------------------------------------------


def _wanted(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What the reference gives for a model that onnx's checker takes; None: illegal, or it fails."""
    try:
        onnx.checker.check_node(proto.graph.node[0], _context())
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        with np.errstate(all="ignore"):
            return [np.asarray(y) for y in ReferenceEvaluator(proto).run(None, feeds)]
    except Exception:  # the reference raises what comes
        return None


def _context() -> Any:
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": 20}
    return context


def checked(model: Model) -> tuple[str, str]:
    """What a model came to ("refused", "right", "undecided", or what is wrong), and more words."""
    proto = model.proto()
    data = proto.SerializeToString()
    begin = time.process_time()
    try:
        compiled = sl.compile(data, threads=1)
    except sl.InternalError as error:
        return "internal error", str(error).splitlines()[0][:300]
    except (sl.UserError, sl.UnsupportedError) as error:
        seconds = time.process_time() - begin
        return ("refused", str(error)) if seconds < MOST_SECONDS else ("slow refusal", f"{seconds:.1f} s: {error}")
    except Exception as error:
        return "error of another class", f"{type(error).__name__}: {str(error)[:300]}"
    try:
        found = compiled(**model.feeds)
    except sl.StraightlineError as error:
        kind = "internal error" if isinstance(error, sl.InternalError) else "refused"
        return kind, f"in the call: {error}"
    except Exception as error:
        return "error of another class", f"in the call: {type(error).__name__}: {str(error)[:300]}"
    wanted = _wanted(proto, model.feeds)
    if wanted is None:
        return "undecided", "onnx's checker or its reference refuses it"
    found = found if isinstance(found, (tuple, list)) else (found,)
    for got, right in zip(found, wanted):
        got = np.asarray(got)
        if got.shape != right.shape or got.dtype != right.dtype:
            return "wrong", f"{got.dtype}{list(got.shape)} for {right.dtype}{list(right.shape)}"
        rough = 1e-2 if H in [right.dtype, *(a.dtype for a in model.inputs if a is not None)] else 1e-4
        if not np.allclose(got.astype(D), right.astype(D), rtol=rough, atol=rough, equal_nan=True):
            return "wrong", f"{got.reshape(-1)[:5]} for {right.reshape(-1)[:5]}"
    return "right", ""


#: What a fault may come to.
FINE = ("refused", "right", "undecided")


def main() -> None:
    """Prints what is not fine, and how many there are of each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--all", action="store_true", help="print each model")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    kinds: Counter[str] = Counter()
    for model in models(options.models, options.seed):
        kind, words = checked(model)
        kinds[kind] += 1
        if options.all or kind not in FINE:
            print(f"{kind}: {model}: {words}", flush=True)
    print(dict(kinds))
    raise SystemExit(any(kind not in FINE for kind in kinds))


if __name__ == "__main__":
    main()
