# SPDX-License-Identifier: Apache-2.0
"""Ops that rules give to FlagGems: its Python wrapper is run over fake tensors of a CUDA device, and its launches are noted.

What the wrapper asks of torch (`empty`, views, copies) becomes ops of the graph, as what any op consists of, and each of its
launches a call of an op of its own, as in `triton_ops.py`. An op that the library lacks and that torch composes of others is
taken apart, and the library does those that it has.
"""

from __future__ import annotations

import dataclasses
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from straightline import _flaggems, _triton, own_images, triton_kernels
from straightline._triton_call import with_configuration
from straightline.capture.builder import Location
from straightline.capture.graph_builder import Reject
from straightline.capture.torch.decompose import (
    Call,
    Op,
    Recorder,
    below_autograd,
    is_composite,
    may_hide_views,
    says_views,
)
from straightline.capture.torch.triton_ops import memory_of, written_by
from straightline.errors import StraightlineError, UnsupportedError, UserError

#: Ops by which Python reads data.
_READS = frozenset(("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"))
#: Arguments of a launch that are none of the kernel's.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid")
#: And those that are for Triton's launcher alone.
_OF_LAUNCHERS = frozenset(("warmup", "device", "stream"))


def parts(mode: FakeTensorMode, op: Op, args: Any, kwargs: Any, place: Location) -> tuple[list[Call], Any] | None:
    """The calls of which FlagGems' form of a call consists, and its result; None: no rule gives it the call, or it goes on.

    Raises:
        UserError: the library lacks the op, or the program does not run on a CUDA device.
        UnsupportedError: the library is not there, or a kernel of it is of a kind that a program does not launch.
        Reject: the wrapper does what a program cannot.
    """
    rule = _routed(op, place)
    if rule is None or (rule.op == "*" and (says_views(op) or may_hide_views(op))):
        return None
    goes_on = len(rule.targets) > 1
    if goes_on and not own_images.is_for_cuda():
        return None
    arch, library = _flaggems.machine(), _flaggems.library()
    try:
        return _recorded(mode, op, args, kwargs, _Recorder(library, rule), arch)
    except (Reject, UserError, UnsupportedError):
        if goes_on:
            return None
        raise


def _routed(op: Op, place: Location) -> Any:
    """The rule that gives a call of an op to FlagGems; None: there is none."""
    asked = _flaggems.rules()
    if asked is None or op.namespace != "aten":
        return None
    names = _flaggems.names_of(op._schema.name.partition("::")[2])
    return asked(names, dataclasses.replace(place, overload=str(op).removeprefix("aten.")))


def _recorded(
    mode: FakeTensorMode, op: Op, args: Sequence[Any], kwargs: Mapping[str, Any], recorder: _Recorder, arch: str
) -> tuple[list[Call], Any]:
    library, rule = recorder.library, recorder.rule
    guards = _guards(mode)
    with _flaggems.launching(recorder.launch, arch), below_autograd(mode), recorder:
        result = op(*args, **kwargs)
    if not recorder.given:
        name = op._schema.name.partition("::")[2]
        raise UserError(
            f"route {rule}: FlagGems {library.version} has no {str(op).removeprefix('aten.')}; the nearest that it has: "
            f"{library.nearest(name)}"
        )
    if (now := _guards(mode)) != guards:
        raise Reject(
            f"FlagGems' {', '.join(recorder.given)} decides by a named size ({now[-1] if now else ''})",
            "fixed sizes, or bounds that leave no choice",
        )
    return recorder.calls, result


def _guards(mode: FakeTensorMode) -> list[str]:
    env = mode.shape_env
    return [] if env is None else [str(guard.expr) for guard in env.guards]


def _fakes(tree: Any) -> list[FakeTensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, FakeTensor)]


def _on(tree: Any, device: torch.device, instead_of: torch.device) -> Any:
    """Arguments that name a device with another one."""
    return pytree.tree_map(lambda leaf: device if leaf == instead_of and isinstance(leaf, torch.device) else leaf, tree)


class _Recorder(Recorder):
    """Runs FlagGems' wrappers for ops that it has, and notes what comes of them."""

    def __init__(self, library: _flaggems.Library, rule: Any) -> None:
        super().__init__()
        self.library, self.rule = library, rule
        #: Names of the wrappers that were run.
        self.given: list[str] = []
        self._wrapper = ""  # that is running
        #: Where the wrapper sees its tensors, and where torch's ops see them, whose C++ code may know no such device.
        self._device = torch.device(_flaggems.device())
        self._home = self._device
        self._is_home = False  # an op of torch's is running

    def __torch_dispatch__(self, op: Op, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._wrapper:
            if op._schema.name in _READS:
                raise Reject(f"FlagGems' {self._wrapper} reads data on the host, by {op}{_place()}")
            if self._is_home or self._home == self._device:
                return super().__torch_dispatch__(op, types, args, kwargs)
            return self._at_home(op, types, args, kwargs)
        function = self.library.function(op)
        if function is not None:
            return self._run(function, op, args, kwargs)
        if is_composite(op):
            with self:
                result = op.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return super().__torch_dispatch__(op, types, args, kwargs)

    def _at_home(self, op: Op, types: Any, args: Any, kwargs: Any) -> Any:
        """An op that the wrapper calls, on tensors where the graph has them; its results are where the wrapper has its own."""
        there = [fake for fake in _fakes((args, kwargs)) if fake.fake_device == self._device]
        args, kwargs = _on((args, kwargs), self._home, self._device)
        for fake in there:
            fake.fake_device = self._home
        self._is_home = True
        try:
            result = super().__torch_dispatch__(op, types, args, kwargs)
        finally:
            self._is_home = False
            for fake in there:
                fake.fake_device = self._device
        for fake in _fakes(result):
            fake.fake_device = self._device
        return result

    def _run(self, function: Callable[..., Any], op: Op, args: Any, kwargs: Any) -> Any:
        """The wrapper of one op, on tensors of a CUDA device."""
        name = getattr(function, "__name__", str(op))
        if fault := self.library.fault(name):
            raise Reject(
                f"FlagGems {self.library.version}'s {name} is wrong: {fault}", "another target, as in 'flaggems, auto'"
            )
        given = _fakes((args, kwargs))
        self._home = next((fake.fake_device for fake in given if fake.dim() > 0), torch.device("cpu"))
        before = [(fake, fake.fake_device) for fake in given]
        first = len(self.calls)
        args, kwargs = _on((args, kwargs), self._device, self._home)
        self._wrapper = name
        self.given.append(self._wrapper)
        for fake in given:
            fake.fake_device = self._device
        result = None
        try:
            with self:
                result = function(*args, **kwargs)
            return result
        except (Reject, StraightlineError):
            raise
        except _flaggems.DrawsRandomNumbers as error:
            words = f"FlagGems' {self._wrapper} reads the generator of random numbers on the host{_place(error)}"
            raise Reject(words) from None
        except Exception as error:
            words = str(error).strip().partition("\n")[0]
            raise Reject(
                f"FlagGems' {self._wrapper} cannot be recorded{_place(error)}: {type(error).__name__}: {words}"
            ) from error
        finally:
            self._wrapper = ""
            for fake in _fakes([(c.args, c.kwargs, c.result, c.seen) for c in self.calls[first:]] + [result]):
                fake.fake_device = self._home
            for fake, device in before:
                fake.fake_device = device

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes one launch as a call of an op (`_flaggems.Launcher`)."""
        fn = _flaggems.kernel_of(kernel)
        jit, wrappers = _triton.unwrapped(fn)
        given = dict(zip(jit.arg_names, args)) | {name: kwargs[name] for name in jit.arg_names if name in kwargs}
        try:
            given = {name: _flaggems.tensor_of(value) for name, value in given.items()}
        except UnsupportedError as error:
            raise Reject(f"FlagGems' {self._wrapper}: {error}{_place()}") from None
        for name, value in given.items():
            if type(value).__name__ == "TensorDescriptor":
                raise Reject(
                    f"FlagGems' {self._wrapper} gives {name} of {jit.__name__} a tensor descriptor", "pointers"
                )
        if unknown := sorted(set(kwargs) - set(jit.arg_names) - set(_OPTIONS) - _OF_LAUNCHERS):
            raise Reject(
                f"FlagGems' {self._wrapper} launches {jit.__name__} with {unknown[0]}={kwargs[unknown[0]]!r}{_place()}"
            )
        for parameter in jit.params:
            if parameter.name not in given and parameter.has_default:
                given[parameter.name] = parameter.default
        options = _triton.Options(**{name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None})
        constants = {p.name: given.pop(p.name) for p in jit.params if p.is_constexpr and p.name in given}
        found = _configurations(wrappers, jit, given, constants, options, kwargs)
        grids = triton_kernels.Grids.of(
            [_sizes(grid, given | known | settings.given()) for known, settings, _ in found]
        )
        tensors = {
            name: memory_of(value) if isinstance(value, torch.Tensor) else value for name, value in given.items()
        }
        written = written_by(jit, {**tensors, **found[0][0]})
        origin = f"route {self.rule}: FlagGems {self.library.version}, {self._wrapper}"
        arguments = {p.name: tensors[p.name] for p in jit.params if p.name in tensors}
        launch = triton_kernels.launch_op(jit, [], arguments, written, grids, tuple(found), origin)
        launch.op(*(tensors[name] for name in launch.names), *grids.sizes)


def _configurations(
    wrappers: Sequence[Any], jit: Any, given: Mapping[str, Any], constants: dict[str, Any], options: _triton.Options,
    kwargs: dict[str, Any],
) -> list[tuple[dict[str, Any], _triton.Options, str]]:  # fmt: skip
    """Constants, options and a name for each configuration that a launch may have, as Triton finds them."""
    from triton.runtime.autotuner import Autotuner

    found = [(constants, options, "")]
    for wrapper in wrappers:
        if not isinstance(wrapper, Autotuner):
            for known, _, _ in found:
                for name, function in wrapper.values.items():
                    known[name] = function({**given, **known})
            continue
        _triton.refuse_tuner(wrapper, jit)
        configs = _triton.pruned(wrapper, jit, given, {**kwargs, **constants})
        found = [with_configuration(known, options, config) for known, options, _ in found for config in configs]
    return found


def _sizes(grid: Any, meta: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The three numbers of blocks of a launch."""
    items = grid(meta) if callable(grid) else grid
    items = tuple(items) if isinstance(items, (tuple, list)) else (items,)
    x, y, z = (*items, 1, 1)[:3]
    return x, y, z


def _place(error: BaseException | None = None) -> str:
    """Where in the library the code stands that runs, or that raised an error: " at ops/nonzero.py:31"."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else traceback.extract_stack()
    mark = f"{os.sep}flag_gems{os.sep}"
    frame = next((frame for frame in reversed(frames) if mark in frame.filename), None)
    return "" if frame is None else f" at {frame.filename.rpartition(mark)[2]}:{frame.lineno}"
