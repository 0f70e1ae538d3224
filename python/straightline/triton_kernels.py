# SPDX-License-Identifier: Apache-2.0
"""Triton kernels as ops: compiled with a program, then machine code as any other (docs/design/own_kernels.md, "Triton").

Triton is imported when a kernel is registered or found in a graph, and asked for machine code alone: its launcher, its driver
and its cache of loaded kernels are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightline import own_kernels, own_schemas
from straightline._triton import Options, constant_key, lock, place_of, triton, unwrapped
from straightline._triton_call import Call
from straightline.errors import UnsupportedError, UserError
from straightline.own_images import MachineCode, asked, checked_grid
from straightline.own_kernels import OwnKernel


def triton_kernel(
    fn: Any,
    schema: str,
    *,
    grid: Any,
    constants: Mapping[str, Any] | Callable[..., Mapping[str, Any]] | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    num_ctas: int | None = None,
    maxnreg: int | None = None,
    launch_cooperative_grid: bool = False,
    aligned: bool = True,
    fake: Callable[..., Any] | None = None,
    effectful: bool = False,
) -> OwnKernel:
    """Registers a Triton kernel as an op of programs for a CUDA device: a node of the call's graph, as our own kernels are.

    It is compiled with each program for its target, which need not be there, and programs hold its machine code: neither a call
    nor a saved model needs Triton. Parameters of the kernel get the op's arguments by name; those that are left get the
    constants, and then the results, in order. A `Tensor` is a pointer to its elements in row-major order (None for an absent
    `Tensor?`), an int is of 32 bits where every value of it fits, and a float of 32 bits, as Triton has them, unless the
    parameter is annotated (`tl.int64`). What a program knows of an int is used as Triton would (1, and multiples of 16).

    Args:
        fn: The function, decorated with `@triton.jit`, and with `@triton.autotune` or `@triton.heuristics` if you like.
        schema: The op, "mylib::add(Tensor x_ptr, Tensor y_ptr, SymInt n) -> Tensor", as for `c_kernel`, without lists.
        grid: One to three numbers of blocks, or a function that gives them, of a dict of the op's arguments and the constants,
            as Triton has it.
        constants: The values of `tl.constexpr` parameters, or a function of such a dict that gives them.
        num_warps: Warps of a block.
        num_stages: Stages of loops that Triton pipelines.
        num_ctas: Blocks of a cluster, up to 8, from sm_90 on. The grid counts clusters.
        maxnreg: The most registers of a thread.
        launch_cooperative_grid: Whether blocks wait for each other. Then all of them run at once, and a grid for which the device
            has no room is an error of the call.
        aligned: Whether every tensor begins at a multiple of 16 bytes. A program copies what lies otherwise in its own memory,
            and an argument of the caller's that does is an error of the call. With False the kernel takes any tensor, and loads
            and stores fewer elements at once.
        fake: As for `c_kernel`.
        effectful: As for `c_kernel`.

    Returns:
        The kernel; `torch.ops.mylib.add` is its op, on tensors of a CUDA device.

    Raises:
        UserError: something does not fit. What Triton says of the kernel is raised when a program is compiled.
        UnsupportedError: the schema has a type that a kernel is not given, or the kernel uses what only Triton's launcher has.
    """
    triton()
    jit, _ = unwrapped(fn)
    parsed = own_schemas.parse(schema, effectful)
    parameters, results = parsed.parameters, parsed.results
    for parameter in parameters:
        if parameter.is_list:
            raise UnsupportedError(
                f"{parsed.name} has the argument '{parameter.name}', a list, which a Triton kernel is not given; nearest "
                "supported form: an argument each"
            )
    if not any(parameter.kind == "tensor" for parameter in parameters):
        raise UnsupportedError(
            f"{parsed.name} has no tensor argument, which says the device; nearest supported form: Tensor"
        )
    binding = _Binding(
        fn, parsed.name, parameters, results, grid, constants if constants is not None else {},
        Options(num_warps, num_stages, num_ctas, maxnreg, launch_cooperative_grid or None), bool(aligned),
    )  # fmt: skip
    binding.check()
    with own_kernels._lock:
        own_kernels._check_free(parsed.name)
        kernel = OwnKernel(
            parsed.name, jit.__name__, "", "", jit.__name__, parsed.text, False, True, bool(effectful), 0, parameters, results,
            machine=binding.machine_code,
        )  # fmt: skip
        own_kernels._register(kernel, fake)
        own_kernels._registered[parsed.name] = kernel
    return kernel


@dataclass(frozen=True)
class _Binding:
    """A kernel as an op: which parameter gets what."""

    fn: Any
    op: str
    #: Of the schema.
    arguments: tuple[Any, ...]
    results: int
    grid: Any
    constants: Mapping[str, Any] | Callable[..., Mapping[str, Any]]
    options: Options
    aligned: bool

    def check(self) -> None:
        """Compares the schema with the kernel's parameters, as far as they are known before a call.

        Raises:
            UserError: a name of the schema or of a constant is none of the kernel's, or a parameter gets nothing.
        """
        jit, _ = unwrapped(self.fn)
        known = list(jit.arg_names)
        for argument in self.arguments:
            if argument.name not in known:
                raise UserError(
                    f"{self.op} has the argument '{argument.name}', which is no parameter of the kernel {place_of(jit)}, whose "
                    f"are {', '.join(known)}"
                )
        for parameter in jit.params:
            argument = next((a for a in self.arguments if a.name == parameter.name), None)
            if argument is None or parameter.is_constexpr:
                continue
            if argument.kind in ("text", "dtype"):
                raise UserError(
                    f"{self.op} gives '{argument.name}', a str or dtype, to a parameter of {place_of(jit)} that is no "
                    "tl.constexpr"
                )
        if not callable(self.constants):
            self._check_constants(self.constants)
            if not unwrapped(self.fn)[1]:
                self._result_parameters(self.constants)
        if not callable(self.grid):
            checked_grid(self.grid, self.op)

    def _check_constants(self, constants: Any) -> None:
        jit, _ = unwrapped(self.fn)
        if not isinstance(constants, Mapping):
            raise UserError(f"constants of {self.op} is {constants!r}, expected a dict of values by parameter")
        for name in constants:
            if name not in jit.arg_names:
                raise UserError(
                    f"constants of {self.op} has '{name}', which is no parameter of the kernel {place_of(jit)}, whose are "
                    f"{', '.join(jit.arg_names)}"
                )
            if any(argument.name == name for argument in self.arguments):
                raise UserError(f"'{name}' of {self.op} is an argument of the schema and a constant")

    def _result_parameters(self, constants: Mapping[str, Any]) -> dict[str, int]:
        """The number of the result that each other parameter points to."""
        jit, _ = unwrapped(self.fn)
        given = {*constants, *(argument.name for argument in self.arguments)}
        left = [parameter for parameter in jit.params if parameter.name not in given]
        for parameter in left:
            if parameter.is_constexpr and not parameter.has_default:
                raise UserError(
                    f"the parameter {parameter.name} of the kernel {place_of(jit)} is a tl.constexpr without a value: give it in "
                    f"constants= of {self.op}, which has {', '.join(constants) or 'none'}"
                )
        left = [parameter for parameter in left if not parameter.is_constexpr]
        if len(left) != self.results:
            names = ", ".join(parameter.name for parameter in left) or "none"
            raise UserError(
                f"{self.op} has {self.results} results but the kernel {place_of(jit)} has {len(left)} parameters that are "
                f"neither an argument of the schema nor a constant: {names}"
            )
        return {parameter.name: number for number, parameter in enumerate(left)}

    def machine_code(self, values: Mapping[str, Any], results: Sequence[Any], arch: str) -> MachineCode:
        """The launch for one call (`own_images.Maker`)."""
        jit, wrappers = unwrapped(self.fn)
        meta = dict(values)
        given = asked("constants", self.op, self.constants, meta) if callable(self.constants) else self.constants
        self._check_constants(given)
        constants = dict(given)

        def grid_of(given: dict[str, Any], _: int) -> Any:
            return asked("grid", self.op, self.grid, given) if callable(self.grid) else self.grid

        call = Call(jit, wrappers, self.op, values, list(results), grid_of, constants, self.options, self.aligned, arch)
        return call.machine_code(self._result_parameters)


@dataclass(frozen=True)
class Launch:
    """An op that is one launch of a kernel, as a traced body has it."""

    op: Any
    #: The kernel's parameters that are arguments of the op; behind them the op takes sizes of the grids that a call knows.
    names: tuple[str, ...]


@dataclass(frozen=True)
class Grids:
    """The grids of a launch, one for each configuration of its kernel."""

    #: Three numbers of blocks each: a number, or "blocks_0" for the first of `sizes`.
    blocks: tuple[tuple[int | str, ...], ...]
    #: Those that only a call knows, as torch has them.
    sizes: tuple[Any, ...]

    @classmethod
    def of(cls, grids: Sequence[Sequence[Any]]) -> Grids:
        """Grids of three numbers or sizes each."""
        sizes: dict[str, Any] = {}

        def place(value: Any) -> int | str:
            if isinstance(value, int):
                return int(value)
            sizes.setdefault(str(value), value)
            return f"blocks_{list(sizes).index(str(value))}"

        blocks = tuple(tuple(place(value) for value in grid) for grid in grids)
        return cls(blocks, tuple(sizes.values()))


#: By kernel, constants and kinds of arguments; they stay until the process ends.
_launches: dict[Any, Launch] = {}


def launch_op(
    fn: Any, wrappers: Sequence[Any], given: Mapping[str, Any], written: frozenset[str], grids: Grids,
    known: tuple[tuple[dict[str, Any], Options, str], ...] | None = None, origin: str = "",
) -> Launch:  # fmt: skip
    """The op of a launch with arguments by name, of which some are written, and a grid for each configuration.

    `known` and `origin` are those of the `Call`: configurations, where they are known, and who launches the kernel.
    """
    jit, _ = unwrapped(fn)
    kinds: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for parameter in jit.params:
        if parameter.name not in given:
            continue
        kind = None if parameter.is_constexpr else _kind_of(given[parameter.name])
        if kind is None:
            constants[parameter.name] = given[parameter.name]
        else:
            kinds[parameter.name] = kind
    tuned = tuple(str(config) for wrapper in wrappers for config in getattr(wrapper, "configs", ()))
    key = (
        id(jit),
        jit.cache_key,
        tuned,
        tuple((n, constant_key(v)) for n, v in constants.items()),
        tuple(kinds.items()),
        written,
        grids.blocks,
        known and tuple((tuple((n, constant_key(v)) for n, v in c.items()), o, name) for c, o, name in known),
        origin,
    )
    with lock:
        if key in _launches:
            return _launches[key]
        updates = [f"Tensor({chr(ord('a') + i)}!)" for i in range(26)]
        types = [
            f"{updates.pop(0) if name in written else kind} {name}" if kind == "Tensor" else f"{kind} {name}"
            for name, kind in kinds.items()
        ]
        types += [f"SymInt blocks_{number}" for number in range(len(grids.sizes))]
        name = f"straightline_triton::{jit.__name__}_{len(_launches)}"

        def grid(meta: Mapping[str, Any], number: int) -> Any:
            return tuple(meta[each] if isinstance(each, str) else each for each in grids.blocks[number])

        def machine_code(values: Mapping[str, Any], results: Sequence[Any], arch: str) -> MachineCode:
            every = [(constants | own, options, text) for own, options, text in known] if known else None
            call = Call(
                jit, list(wrappers), name, values, [], grid, dict(constants), Options(), True, arch, every, origin
            )
            return call.machine_code(lambda _: {})

        parsed = own_schemas.parse(f"{name}({', '.join(types)}) -> ()", effectful=True)
        kernel = OwnKernel(
            name, jit.__name__, "", "", jit.__name__, parsed.text, False, True, False, 0, parsed.parameters, 0,
            machine=machine_code,
        )  # fmt: skip
        own_kernels._register(kernel, None)
        own_kernels._registered[name] = kernel
        made = _launches[key] = Launch(kernel.op.default, tuple(kinds))
        return made


def _kind_of(value: Any) -> str | None:
    """The type of an argument in a schema; None: it is a constant of the kernel."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return "Tensor"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return "float"
    return "SymInt" if isinstance(value, int) or type(value).__name__ == "SymInt" else None
