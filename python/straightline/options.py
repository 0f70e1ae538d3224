# SPDX-License-Identifier: Apache-2.0
"""`CompileOptions`: what a user may choose about a compilation, for `compile`, `compile_mlir` and the command line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, TypeVar

from straightline import _compiler, _slots
from straightline._threads import LARGEST_TEAM
from straightline.errors import UserError

Function = TypeVar("Function", bound=Callable[..., Any])
#: Rules for ops: of a dict the keys are "[where :] op", the values targets; or a file of rules, or several of both.
Rules = Mapping[str, "str | Sequence[str]"] | str | os.PathLike[str]
Routes = Rules | Sequence[Rules]


def _option(default: Any, help: str, **more: Any) -> Any:
    """A field; `help` is what the command line says of it."""
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compilation; `compile` and `compile_mlir` take each by name, or this object as `options`.

    A value of another type is refused when the object is made, and what the compiler does not take when a compilation begins:
    the `UserError` names the option, the value given and what is valid.

    Attributes:
        threads: Team size to plan for; by default 1 for small models, and for larger ones `STRAIGHTLINE_THREADS` or else torch's
            number of threads (without torch all cores).
        freeze: The program keeps what it computes from parameters once (packed weights, folded batch norms). With False it
            reads them live.
        emit: "cpp", or "python": the same program as a readable Python function over the same compiled kernels, for looking
            into it with prints and breakpoints; the same bits, slower between kernels.
        fast_path: False: calls run the same kernels one by one through an interpreter (`sl.fast_path` around a call overrides
            it). By default `STRAIGHTLINE_FAST_PATH` decides, and without it the straight line.
        reuse_outputs: Reuses an output's storage once no reference to it remains: calls take turns between two tensors (fixed
            sizes) and then allocate nothing. A view of a result does not hold it: it changes with later calls. On a device a
            call takes what one on the same stream made, and not while a graph is captured: a result that another stream reads
            must be held until that has been done.
        cpu: An LLVM CPU name or level such as "x86-64-v3"; by default this machine's.
        target: "cpu", "cuda" or "cuda:sm_90"; by default where the example inputs are (without any: the model's tensors). Of
            several CUDA devices it is the one that has them. For a device that is not here give its architecture and examples
            on the cpu: the program can be looked at then, a call says what is missing. Programs from MLIR are for the cpu.
        launch: How kernels get to a CUDA device: "stream" (one by one) or "graph" (all of a call at once, and only what changed
            since the last call is told to the driver); by default a graph, where the program can be one.
        concurrent_branches: False: a graph runs everything in one order, also long independent branches.
        cache: Use the disk cache of compiled code.
        allow: Backends that kernels may come from, such as ("native", "onednn"), on a CUDA device of "cuda", "cublaslt", "cudnn"
            and "aten"; by default all. Without "aten" an op that only the framework has is refused, with its source line.
        routes: Rules by which ops get kernels, whatever the estimates say: a dict such as {"layers.*.attn : linear":
            "onednn, native"}, the path of a file of rules, or a list of both. Before rules of the environment
            (docs/reference/options.md#routes).
        slots: Targets for an op, by its name ({"linear": ["native", "onednn"]}): a program for each combination is compiled, and
            `sl.slot` chooses one for a call. At most 16 programs.
        winograd: False: convolutions are plain sums. Winograd's need 2.25 to 4 times fewer multiplications; `explain` says per
            layer what its error is.
        tune: Measure the kernels that can do each contraction of fixed sizes on this machine instead of estimating their time,
            and keep the choices in `tuning.json` beside the compiled code: seconds the first time, none later. For a CUDA
            device the example inputs must be on it.
        specialize: Named sizes that come often get programs of their own, at most so many, which a thread compiles meanwhile.
            Each has prepared weights of its own. 0: none, but for those that the function's `specialize` is asked for.
    """

    threads: int | None = _option(None, "team size to plan for")
    freeze: bool = _option(True, "keep what is computed from parameters once")
    emit: str = _option("cpp", "the language of the code", choices=("cpp", "python"))
    fast_path: bool | None = _option(None, "run the straight line, not the interpreter")
    reuse_outputs: bool = _option(False, "reuse an output's storage once nobody refers to it")
    cpu: str = _option("", "an LLVM CPU name or level; by default this machine's")
    target: str | None = _option(None, "cpu, cuda or cuda:sm_NN; by default where the inputs are")
    launch: str | None = _option(None, "how kernels get to a device", choices=("stream", "graph"))
    concurrent_branches: bool = _option(True, "let a device's graph run long branches at once")
    cache: bool = _option(True, "use the disk cache of compiled code")
    allow: Sequence[str] | None = _option(None, "backends that kernels may come from")
    routes: Routes | None = _option(None, "[where:]op=target[,target...], or the path of a file of rules")
    slots: Mapping[str, Sequence[str]] | None = _option(
        None, "OP=TARGET,TARGET,...: programs among which sl.slot chooses"
    )
    winograd: bool = _option(True, "convolutions may be Winograd's")
    tune: bool = _option(False, "measure the kernels for each contraction here")
    specialize: int = _option(0, "so many programs for frequent sizes, compiled in the background")

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            fits, words = _TYPES[option.name]
            if not fits(value):
                raise UserError(f"{option.name} is {value!r} but must be {words}")
        if self.allow is not None:
            object.__setattr__(self, "allow", tuple(self.allow))
        if self.slots is not None:
            object.__setattr__(self, "slots", MappingProxyType(_slots.checked(self.slots)))
            if self.slots and self.specialize:
                raise UserError(f"specialize is {self.specialize}, but programs for frequent sizes have no slots")
        if isinstance(self.routes, Mapping):
            object.__setattr__(self, "routes", MappingProxyType(dict(self.routes)))

    def for_compiler(self, place: str) -> dict[str, Any]:
        """Returns the options for `_compiler`, for a program on `place`, which is "cpu" or "cuda:sm_NN"."""
        always = {name: getattr(self, name) for name in ("freeze", "concurrent_branches", "winograd", "cache", "cpu")}
        given = {"allow": self.allow, "routes": self.rules(), "launch": self.launch}
        return {**always, "target": place} | {name: value for name, value in given.items() if value is not None}

    def rules(self) -> tuple[tuple[str, str], ...] | None:
        """`routes` as pairs ("[where :] op", "target, ..."), and ("", PATH) for a file; None without any."""
        parts = self.routes if isinstance(self.routes, (list, tuple)) else [] if self.routes is None else [self.routes]
        pairs = [pair for part in parts for pair in _pairs_of(part)]
        return tuple(pairs) or None

    def check(self, place: str) -> None:
        """Raises UserError where the compiler says so of a program on `place`: it knows what each value may be."""
        _compiler.check_options(**self.for_compiler(place))

    @classmethod
    def of(cls, options: object, changes: Mapping[str, Any], function: Callable[..., Any]) -> CompileOptions:
        """The options of a call of `function`: `options`, or the defaults, with those that were given by name.

        Raises:
            UserError: A name is none of an option's; says which are near.
        """
        if options is not None and not isinstance(options, cls):
            raise UserError(f"options is a {type(options).__name__} but must be a CompileOptions")
        parameters = signature(function).parameters.values()
        named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        cls.check_names(changes, [p.name for p in parameters], named, f"sl.{function.__name__}")
        return replace(options if isinstance(options, cls) else cls(), **changes)

    @classmethod
    def check_names(cls, given: Iterable[str], near: Sequence[str], named: Sequence[str], of: str) -> None:
        """Raises UserError for a name that is none of an option's.

        Args:
            given: Names.
            near: What may have been meant.
            named: What there is, for a name that is like none of `near`.
            of: What the options are of, in words.
        """
        names = [option.name for option in fields(cls)]
        for name in given:
            if name not in names:
                close = difflib.get_close_matches(name, near, 2, 0.5)
                hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(named)}"
                raise UserError(f"unknown option {name!r} of {of}: {hint}")


def takes_options(function: Function) -> Function:
    """A function whose last parameter, `**changes`, are options by name: its signature shows them."""
    *own, _ = signature(function).parameters.values()
    named = [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
        for option in fields(CompileOptions)
    ]
    function.__signature__ = signature(function).replace(parameters=[*own, *named])  # type: ignore[attr-defined]
    return function


def _is_number_of_threads(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_TEAM)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_names(value: object) -> bool:
    return value is None or (isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is_text, value)))


def _are_rules(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_text, value)) and all(
            _is_text(targets) or (targets is not None and _is_names(targets)) for targets in value.values()
        )
    return _is_path(value)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _is_routes(value: object) -> bool:
    return value is None or (all(map(_are_rules, value)) if isinstance(value, (list, tuple)) else _are_rules(value))


def _is_slots(value: object) -> bool:
    return value is None or (
        isinstance(value, Mapping)
        and all(map(_is_text, value))
        and all(targets is not None and _is_names(targets) for targets in value.values())
    )


def _pairs_of(part: Any) -> list[tuple[str, str]]:
    if not isinstance(part, Mapping):
        return [("", os.fspath(part))]
    targets = ((left, right if isinstance(right, str) else ", ".join(right)) for left, right in part.items())
    return [(left or " ", right) for left, right in targets]  # without a left side it is no path


_FLAG = (_is_flag, "True or False")
#: By option: whether a value is of its type, and the words for what must be given. What a text may be is the compiler's to say.
_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "threads": (_is_number_of_threads, f"a whole number from 1 to {LARGEST_TEAM}, or None"),
    "freeze": _FLAG,
    "emit": (lambda value: isinstance(value, str) and value in ("cpp", "python"), "'cpp' or 'python'"),
    "fast_path": (lambda value: value is None or _is_flag(value), "True, False or None"),
    "reuse_outputs": _FLAG,
    "cpu": (_is_text, "the name of a cpu, or '' for this machine's"),
    "target": (
        lambda value: value is None or _is_text(value),
        "None, 'cpu', 'cuda' or 'cuda:sm_NN', such as 'cuda:sm_90'",
    ),
    "launch": (
        lambda value: value is None or (_is_text(value) and value in ("stream", "graph")),
        "None, 'stream' or 'graph'",
    ),
    "concurrent_branches": _FLAG,
    "cache": _FLAG,
    "allow": (_is_names, "a sequence of backends, such as ('native', 'onednn')"),
    "routes": (_is_routes, "rules such as {'linear': 'native'}, the path of a file of rules, or a list of both"),
    "slots": (_is_slots, "a dict of ops and their targets, such as {'linear': ('native', 'onednn')}"),
    "winograd": _FLAG,
    "tune": _FLAG,
    "specialize": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 64,
        "a whole number from 0 to 64",
    ),
}
