# SPDX-License-Identifier: Apache-2.0
"""The compiler's C ABI (tools/compiler_abi.h) as Python classes."""

from collections.abc import Mapping, Sequence
from typing import Any

version: str

class Module:
    """A module of the op dialect."""

    @staticmethod
    def parse(text: str | bytes, name: str = "<string>") -> Module: ...
    @property
    def parameters_json(self) -> str: ...
    def print(self, *, locations: bool = False, generic: bool = False, elide: bool = False) -> str: ...
    def with_sizes(self, sizes: Mapping[str, int]) -> Module:
        """A copy with numbers in place of named sizes.

        Raises:
            UserError: A name that is not there or whose size depends on data, a number beyond its bounds.
        """

class Builder:
    """Builds one function op by op; values are numbers."""

    def symbol(self, name: str, min: int, max: int) -> None: ...
    def begin_function(self, name: str, argument_names: Sequence[str], argument_types: Sequence[str]) -> list[int]: ...
    def attribute(self, name: str, text: str) -> None: ...
    def attribute_string(self, name: str, value: str) -> None: ...
    def attribute_dense(self, name: str, type: str, data: bytes) -> None: ...
    def op(
        self,
        name: str,
        operands: Sequence[int],
        result_types: Sequence[str],
        segments: Sequence[int] | None = None,
        regions: int = 0,
        module: str = "",
        file: str = "",
        line: int = 0,
        overload: str = "",
    ) -> list[int]: ...
    def begin_region(self, argument_types: Sequence[str]) -> list[int]: ...
    def end_region(self, yields: Sequence[int], module: str = "", file: str = "", line: int = 0) -> None: ...
    def end_function(self, values: Sequence[int], names: Sequence[str], ties: Sequence[str]) -> None: ...
    def finish(self) -> Module: ...

class Progress:
    """How far a compilation is; any thread may look."""

    #: 0: not begun, 1: passes, 2: units of emitted text.
    stage: int
    units_done: int
    units: int
    def __init__(self) -> None: ...

class Compilation:
    """What compiling a module made."""

    @property
    def code(self) -> str: ...
    @property
    def python(self) -> str: ...
    @property
    def explain_json(self) -> str: ...
    @property
    def links_json(self) -> str:
        """With the option `links`: what became of each op (tools/links.h)."""

    @property
    def passes_json(self) -> str:
        """With the option `passes`: the module after each pass (tools/pass_texts.h)."""

    def link(self) -> tuple[bytes, dict[str, bytes], int]:
        """The code as a shared object that stands alone, images of a device by name, and the version of their compiler."""

    def device_text(self) -> tuple[dict[str, bytes], int]:
        """PTX of the units of a device by name, for devices that are later than its own, and its compiler's version.

        Raises:
            UserError: The program is for no device, or for one architecture alone ("sm_90a").
        """

    @property
    def notes(self) -> str: ...
    @property
    def units(self) -> list[tuple[str, str]]: ...
    @property
    def images(self) -> list[bytes]: ...
    @property
    def counts(self) -> tuple[int, int]: ...
    @property
    def program(self) -> Any: ...
    def ir(self, level: str, *, locations: bool = False, generic: bool = False, elide: bool = False) -> str: ...

class Timing:
    """A program of fixed sizes with random parameters and inputs, to be called for its time.

    Raises:
        UnsupportedError: A library cannot do it here, as making it or `run` finds out.
    """

    def __init__(self, program: Any, seed: int, by_stream: bool = False) -> None: ...
    def run(self, seconds: float) -> float:
        """Calls it for so long, at least twice; the least microseconds of a call."""

def compile(module: Module, *, progress: Progress | None = None, **options: Any) -> Compilation:
    """Compiles a module; options are the fields of `sl_compile_options` and `sl_internal_options` by name.

    `allow` is a sequence; `prepared` another one; `routes` and `choices` are dicts; switches are bools.
    """

def check_options(**options: Any) -> None:
    """Raises UserError for options of `compile` that cannot be honoured; looks at no module and at no environment."""

def backends_json(probe: bool) -> str:
    """The backends of the registry; their versions and what they miss with `probe`, which may open devices."""

class RouteTable:
    """The rules of some options and of the environment."""

    def __init__(self, **options: Any) -> None: ...
    def rules(self) -> str: ...
    def find(self, op: str, overload: str, module: str, file: str, line: int) -> int: ...

def target_facts_json(target: str) -> str:
    """What a front end asks of a target ("cpu", "cuda:sm_90"; "": the default one), as a JSON object.

    Raises:
        UserError: There is no such target.
    """

def nearest_topk(target: str, rows: int, count: int, k: int, element_bytes: int) -> str:
    """The nearest problem that a target's kernels take of `k` of `count` elements of each of `rows` rows; empty: this one."""

class Library:
    """A model as a library in the making."""

    def __init__(self, name: str) -> None: ...
    def add(self, compilation: Compilation) -> None: ...
    def link(self, artifact: bytes, archive: bool) -> bytes: ...
    def link_exported(self, artifact: bytes, text: str, exports: Sequence[str], runtime: bytes) -> bytes: ...

def link_text(name: str, text: str, exports: Sequence[str]) -> bytes:
    """C++ text for this machine as a shared object that needs no library."""

def cache_info() -> dict[str, Any]: ...
def cache_clear() -> int: ...
def opt_main(arguments: Sequence[str]) -> int: ...
