# SPDX-License-Identifier: Apache-2.0
"""One launch of a Triton kernel while a program is compiled: types, constants, configuration, parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightline import _cubin, _triton_tuning
from straightline._triton import (
    ALIGNMENT,
    Compiled,
    Options,
    Specialized,
    compiled_for,
    place_of,
    pruned,
    refuse_hooks,
    refuse_tuner,
    source_of,
    triton,
)
from straightline.errors import InternalError, UnsupportedError, UserError
from straightline.own_images import MachineCode, Parameter, checked_grid, float_bits, integer_bits

#: Triton's name of what a pointer points to, by torch's dtype.
_ELEMENTS = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}  # fmt: skip
_INTEGER_BYTES = {"i1": 1, "u1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
_FLOAT_BYTES = {"fp16": 2, "fp32": 4, "fp64": 8}
#: Behind the arguments of every kernel: the scratch memory of its grid and of a profiler.
_SCRATCH_POINTERS = 2


@dataclass
class Call:
    """One launch of a kernel while a program is compiled."""

    jit: Any
    wrappers: list[Any]
    op: str
    #: What parameters get, by name.
    values: Mapping[str, Any]
    results: list[Any]
    #: Of the arguments and constants by name, and the number of the configuration.
    grid: Callable[[dict[str, Any], int], Any]
    constants: dict[str, Any]
    options: Options
    aligned: bool
    arch: str
    #: Constants, options and a name for each configuration, where they are known; None: the wrappers say.
    known: Sequence[tuple[dict[str, Any], Options, str]] | None = None
    #: Who launches the kernel, for `explain`; "": the user's own.
    origin: str = ""

    def machine_code(self, result_parameters: Callable[[Mapping[str, Any]], dict[str, int]]) -> MachineCode:
        """The launch. Of several configurations the fastest, where a device is here; else the first that can be compiled.

        Raises:
            UserError: none can be compiled.
        """
        refuse_hooks(self.jit)
        configurations = self._configurations()
        failures: dict[str, str] = {}

        def made(number: int) -> MachineCode | None:
            constants, options, name = configurations[number]
            try:
                return self._made(constants, options, result_parameters(constants), number)
            except (UserError, UnsupportedError) as error:
                if len(configurations) == 1:
                    raise
                failures[name] = str(error)
                return None

        found, note = self._fastest(configurations, made)
        if found is None:
            words = "; ".join(f"{name}: {error}" for name, error in failures.items())
            raise UserError(f"no configuration of {self.op} can be compiled: {words}")
        return dataclasses.replace(found, note=f"{found.note}{note}")

    def _fastest(
        self, configurations: Sequence[tuple[dict[str, Any], Options, str]], made: Callable[[int], MachineCode | None]
    ) -> tuple[MachineCode | None, str]:
        """A configuration, and what `explain` says of the choice."""
        numbers = [taken] if (taken := _triton_tuning.taken()) >= 0 else list(range(len(configurations)))
        names = [name for _, _, name in configurations]
        if len(numbers) > 1 and _triton_tuning.can_measure(self.arch):
            facts = "\n".join(
                (triton().__version__, self.jit.cache_key, repr(self.constants), str(self.options), *names)
            )
            valid = {number: code for number in numbers if (code := made(number)) is not None}
            if not valid:
                return None, ""
            best = _triton_tuning.choose(self.op, self.arch, self.values, facts, names, valid.__contains__)
            return valid[names.index(best.chosen)], f"; measured: {best}"
        for number in numbers:
            if (code := made(number)) is not None:
                several = f"; configuration {names[number]}, the first of {len(names)} that can be compiled: no device"
                return code, several if len(numbers) > 1 else ""
        return None, ""

    def _configurations(self) -> list[tuple[dict[str, Any], Options, str]]:
        """Constants, options and a name for each configuration of the autotuners; of heuristics what they compute."""
        from triton.runtime.autotuner import Autotuner

        if self.known is not None:
            return list(self.known)
        found: list[tuple[dict[str, Any], Options, str]] = [(dict(self.constants), self.options, "")]
        for wrapper in self.wrappers:
            if not isinstance(wrapper, Autotuner):
                found = [(self._computed(wrapper, constants), options, name) for constants, options, name in found]
                continue
            refuse_tuner(wrapper, self.jit)
            configs = pruned(wrapper, self.jit, self.values, self.constants)
            found = [
                with_configuration(constants, options, config) for constants, options, _ in found for config in configs
            ]
        return found

    def _computed(self, heuristics: Any, constants: dict[str, Any]) -> dict[str, Any]:
        given = dict(self.values) | constants
        for name, function in heuristics.values.items():
            given[name] = constants[name] = function(dict(given))
        return constants

    def _made(self, constants: dict[str, Any], options: Options, results: dict[str, int], number: int) -> MachineCode:
        known, parameters, divisible, signature = self._parameters(constants, results)
        special = Specialized(self.jit, signature, known, frozenset(divisible), options)
        compiled = compiled_for(special, self.arch, self.op)
        parameters += [Parameter("bits", 0)] * _SCRATCH_POINTERS
        self._check_parameters(compiled, signature)
        grid = checked_grid(self.grid(dict(self.values) | constants, number), self.op)
        if compiled.cluster > 1:  # program_id counts clusters, the device's grid blocks
            grid = checked_grid((grid[0] * compiled.cluster, *grid[1:]), f"{self.op}, in blocks,")
        warps = compiled.threads // 32
        facts = [
            *([self.origin] if self.origin else []),
            f"Triton {triton().__version__}",
            f"{warps} warp{'s' if warps > 1 else ''}",
        ]
        facts += [f"{name}={value}" for name, value in constants.items()]
        facts += [f"clusters of {compiled.cluster} blocks"] if compiled.cluster > 1 else []
        facts += ["a cooperative grid"] if compiled.cooperative else []
        facts += [f"grid {' x '.join(map(str, grid))}"] if grid[1:] != (1, 1) else []
        machine = _cubin.architecture_of(compiled.image)
        return MachineCode(
            compiled.image, machine, compiled.symbol, f"{', '.join(facts)}\n\n{source_of(self.jit)}", tuple(parameters),
            grid, compiled.threads, compiled.shared_bytes, ", ".join(facts), compiled.waits,
            compiled.cooperative,
        )  # fmt: skip

    def _parameters(
        self, constants: Mapping[str, Any], results: Mapping[str, int]
    ) -> tuple[dict[str, Any], list[Parameter], set[str], dict[str, str]]:
        """Constants, run-time parameters, those that are multiples of 16, and the types of all."""
        known: dict[str, Any] = {}
        parameters: list[Parameter] = []
        divisible: set[str] = set()
        signature: dict[str, str] = {}
        for parameter in self.jit.params:
            name = parameter.name
            if name in results:
                value: Any = self.results[results[name]]
            elif name in constants:
                value = constants[name]
            elif name in self.values:
                value = self.values[name]
            else:
                value = parameter.default
            kind, made, is_divisible = self._one(parameter, value, results.get(name))
            signature[name] = kind
            if made is None:
                known[name] = _constant(value)
            else:
                parameters.append(made)
            if is_divisible:
                divisible.add(name)
        return known, parameters, divisible, signature

    def _one(self, parameter: Any, value: Any, result: int | None) -> tuple[str, Parameter | None, bool]:
        """Type, place and divisibility of one parameter; no place: it is a constant."""
        name, annotated = parameter.name, parameter.annotation_type
        if parameter.is_constexpr:
            if hasattr(value, "symbols") or hasattr(value, "shape"):
                raise UserError(
                    f"the parameter {name} of {place_of(self.jit)} is a tl.constexpr but gets {value}, which only a call knows"
                )
            return "constexpr", None, False
        if hasattr(value, "shape"):
            dtype = str(value.dtype).removeprefix("torch.")
            if dtype not in _ELEMENTS:
                raise UnsupportedError(
                    f"{self.op} gives {name} a tensor of {dtype}; supported are {', '.join(_ELEMENTS)}"
                )
            aligned = self.aligned and not parameter.do_not_specialize_on_alignment
            place = Parameter("tensor" if result is None else "result", name if result is None else result,
                              ALIGNMENT if aligned else 1)  # fmt: skip
            return annotated or f"*{'k' if parameter.is_const else ''}{_ELEMENTS[dtype]}", place, aligned
        if value is None:
            return "constexpr", None, False
        what = f"'{name}' of {self.op}"
        if isinstance(value, bool):
            return annotated or "u1", Parameter("bits", int(value)), False
        if isinstance(value, float):
            kind = annotated or "fp32"
            if kind not in _FLOAT_BYTES:
                raise UserError(f"{what} is {value!r} but the parameter is {kind}, expected fp32 or fp64")
            return kind, Parameter("bits", float_bits(value, _FLOAT_BYTES[kind], what)), False
        if isinstance(value, int):
            if value == 1 and not parameter.do_not_specialize and not annotated:
                return "constexpr", None, False
            kind = annotated or ("i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64")
            if kind in _FLOAT_BYTES:
                return kind, Parameter("bits", float_bits(float(value), _FLOAT_BYTES[kind], what)), False
            bits = integer_bits(value, _INTEGER_BYTES[kind], what)
            return kind, Parameter("bits", bits), value % ALIGNMENT == 0 and not parameter.do_not_specialize
        if hasattr(value, "symbols"):
            low, high = getattr(value, "low", -(2**63)), getattr(value, "high", 2**63 - 1)
            kind = annotated or ("i32" if -(2**31) <= low and high < 2**31 else "i64")
            if kind not in ("i32", "i64", "u32", "u64"):
                raise UserError(f"{what} is a size, {value}, but the parameter is {kind}, expected i32 or i64")
            return kind, Parameter("size", value), value % ALIGNMENT == 0 and not parameter.do_not_specialize
        raise UserError(f"{what} is {value!r}, which a Triton kernel is not given")

    def _check_parameters(self, compiled: Compiled, signature: Mapping[str, str]) -> None:
        """The machine code has the parameters that are given, with their sizes."""
        sizes = [
            8 if kind.startswith("*") else {**_INTEGER_BYTES, **_FLOAT_BYTES}[kind]
            for kind in signature.values()
            if kind != "constexpr"
        ] + [8] * _SCRATCH_POINTERS
        found = list(_cubin.parameters_of(compiled.image, compiled.symbol))
        if found != sizes:
            raise InternalError(
                f"{self.op}: Triton {triton().__version__} made a kernel with parameters of {found} bytes, expected {sizes}"
            )


def _constant(value: Any) -> Any:
    """A constant as Triton has it: one of its own dtypes for torch's."""
    if type(value).__name__ != "dtype" or type(value).__module__ != "torch":
        return value
    import triton.language as tl

    names = {"bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}
    name = str(value).removeprefix("torch.")
    if (found := getattr(tl, names.get(name, name), None)) is None:
        raise UnsupportedError(f"{value} is a constant of a Triton kernel, which has no such dtype")
    return found


def with_configuration(
    constants: Mapping[str, Any], options: Options, config: Any
) -> tuple[dict[str, Any], Options, str]:
    """Constants and options with what a configuration of an autotuner says, and its name."""
    with_its = Options(
        config.num_warps, config.num_stages, config.num_ctas if config.num_ctas != 1 else None,
        config.maxnreg if config.maxnreg is not None else options.maxnreg, options.launch_cooperative_grid,
    )  # fmt: skip
    return {**constants, **config.kwargs}, with_its, str(config)
