# SPDX-License-Identifier: Apache-2.0
"""An `onnx.backend.base.Backend`, so that tools and suites of ONNX run models with this package.

import straightline.onnx_backend as backend

prepared = backend.prepare(model)   # a ModelProto
outputs = prepared.run([x, y])      # compiled at the first call with inputs of these types and sizes
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep

from straightline import _call
from straightline.capture.onnx.values import NARROW, held
from straightline.compiled_function import CompiledFunction
from straightline.errors import UnsupportedError, UserError
from straightline.onnx_model import compile_onnx

#: Programs of a prepared model: the ones used last are kept.
_MOST_PROGRAMS = 16


class Prepared(BackendRep):
    """A model with a program for each combination of element types, sizes and decisive values that calls came with.

    May be called by one thread at a time.
    """

    def __init__(
        self, model: onnx.ModelProto, options: Mapping[str, Any], device: str = "CPU", source: Any = None
    ) -> None:
        self._model, self._options = model, dict(options)
        self._source = model if source is None else source  # a path has its weights beside it
        #: Whether programs know no more values than they need.
        self._few_values = source is not None
        #: Which of _STAGES the inputs of a kind need.
        self._stages: dict[Any, int] = {}
        self._on_cuda = device.upper().startswith("CUDA")
        if self._on_cuda:
            self._options["target"] = "cuda"
        given = {tensor.name for tensor in model.graph.initializer}
        #: Names of the inputs that a call gives.
        self.input_names = [i.name for i in model.graph.input if i.name not in given]
        self._programs: OrderedDict[tuple[Any, ...], CompiledFunction] = OrderedDict()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The model's results, in order. Inputs whose values decide shapes have a program for each value.

        Args:
            inputs: Arrays by position or by name; lists of arrays for sequences, None for an empty optional.
            kwargs: Not used.

        Raises:
            UserError: More inputs are given than the model has, or one that it does not have.
            UnsupportedError: As `compile_onnx`.
        """
        named = self._named(inputs)
        key, program = self._program(named)
        self._programs[key] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.popitem(last=False)
        arguments = [_held(named[name]) for name in self.input_names]
        found = program(*(map(_to_cuda, arguments) if self._on_cuda else arguments))
        found = _to_host(found) if self._on_cuda else found
        outputs = self._model.graph.output
        return tuple(map(_narrowed, found if len(outputs) > 1 else (found,), outputs))

    def _program(self, named: Mapping[str, Any]) -> tuple[Any, CompiledFunction]:
        """The program for these inputs and its key, taken out of those that are kept."""
        kinds = tuple(_kind(named[name]) for name in self.input_names if name in named)
        stages = (
            [self._stages[kinds]]
            if kinds in self._stages
            else range(len(_STAGES))
            if self._few_values
            else [_ALL_SMALL]
        )
        for stage in stages:
            values = {name: value for name, value in named.items() if _STAGES[stage](value)}
            key = (kinds, *((name, values[name].tobytes()) for name in sorted(values)))
            program = self._programs.pop(key, None)
            try:
                if program is None:
                    program = compile_onnx(self._source, named, values=values, **self._options)
            except UnsupportedError:
                if stage == stages[-1]:
                    raise
                continue
            self._stages[kinds] = stage
            return key, program
        raise AssertionError("the last stage returns or raises")

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        else:
            listed = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else [inputs]
            if len(listed) > len(self.input_names):
                raise UserError(f"{len(listed)} inputs are given but the model has {len(self.input_names)}")
            given = dict(zip(self.input_names, listed))
        for name in given:
            if name not in self.input_names:
                raise UserError(f"the model has no input {name!r}: it has {', '.join(map(repr, self.input_names))}")
        return {name: _array(value) for name, value in given.items()}


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_array(item) for item in value]
    return value if value is None or isinstance(value, np.ndarray) else np.asarray(value)


def _held(value: Any) -> Any:
    """Elements of fewer than 8 bits as bytes or floats, which programs take in place of them."""
    if isinstance(value, list):
        return [_held(item) for item in value]
    return held(value) if isinstance(value, np.ndarray) else value


def _to_cuda(value: Any) -> Any:
    """Arrays as tensors on the current CUDA device."""
    if isinstance(value, list):
        return [_to_cuda(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    import torch

    dtype = getattr(torch, value.dtype.name)
    if value.size == 0:
        return torch.empty(value.shape, dtype=dtype, device="cuda")
    flat = torch.from_numpy(np.ascontiguousarray(value).reshape(-1).view(np.uint8).copy())
    return flat.cuda().view(dtype).reshape(value.shape)


def _to_host(value: Any) -> Any:
    """Tensors as numpy arrays."""
    if isinstance(value, (list, tuple)):
        return type(value)(_to_host(item) for item in value)
    if not hasattr(value, "cpu"):
        return value
    name = str(value.dtype).removeprefix("torch.")
    try:
        dtype = np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, name))
    import torch

    if value.numel() == 0:
        return np.empty(tuple(value.shape), dtype)
    return (
        value.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().view(dtype).reshape(tuple(value.shape))
    )


def _narrowed(value: Any, info: onnx.ValueInfoProto) -> Any:
    """A result with the element type that the model says it has."""
    element = info.type.tensor_type.elem_type
    if element not in NARROW or not isinstance(value, np.ndarray):
        return value
    return value.astype(onnx.helper.tensor_dtype_to_np_dtype(element))


def _small(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size <= 64


def _small_integers(value: Any) -> bool:
    return _small(value) and value.dtype.kind in "biu"


def _none(value: Any) -> bool:
    return False


#: Of which inputs a program may know the values.
_STAGES = (_none, _small_integers, _small)
_ALL_SMALL = 2


def _kind(value: Any) -> Any:
    """Element type and sizes."""
    if isinstance(value, list):
        return tuple(_kind(item) for item in value)
    return None if value is None else (value.dtype.str, value.dtype.name, value.shape)


class ByCalls:
    """A model whose programs are made for the calls that come: `sl.compile(model, values="calls")`.

    A call whose inputs have new element types or sizes compiles a program, and where the model needs to know values (axes,
    shapes) one with new values of its small inputs. Those used last are kept. May be called by one thread at a time.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    @property
    def programs(self) -> tuple[CompiledFunction, ...]:
        """What was compiled so far, in the order of last use."""
        return tuple(self._prepared._programs.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, several as a tuple.

        Args:
            args: Arrays in the order of the model's inputs.
            kwargs: Arrays by name.

        Raises:
            UserError: An input is given twice, or there is none of that name.
            UnsupportedError: As `compile_onnx`.
        """
        names = self._prepared.input_names
        if len(args) > len(names):
            raise UserError(f"{len(args)} inputs are given but the model has {len(names)}")
        given = dict(zip(names, args))
        if twice := [name for name in kwargs if name in given]:
            raise UserError(f"the input {twice[0]!r} is given by position and by name")
        results = self._prepared.run({**given, **kwargs})
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        count = len(self.programs)
        return f"<an ONNX model with a program for each kind of call: {count} so far>"


class StraightlineBackend(Backend):
    """Runs models on the cpu."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Checks a model; `kwargs` are options of `CompileOptions`."""
        if not cls.supports_device(device):
            raise UserError(f"device is {device!r} but must be 'CPU', or 'CUDA' where there is a device")
        onnx.checker.check_model(model)
        return Prepared(model, kwargs, device)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepares a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Runs a node by itself, of the newest op set."""
        arrays = [_array(x) for x in inputs]
        names = [name for name in node.input if name]
        types = [onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
        infos = [onnx.helper.make_tensor_value_info(n, t, a.shape) for n, t, a in zip(names, types, arrays)]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        return Prepared(onnx.helper.make_model(graph), kwargs, device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether programs run there."""
        return device.upper() == "CPU" or device.upper() in ("CUDA", "CUDA:0") and not _call.cuda_missing()


prepare = StraightlineBackend.prepare
run_model = StraightlineBackend.run_model
run_node = StraightlineBackend.run_node
supports_device = StraightlineBackend.supports_device
