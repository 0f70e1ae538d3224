# SPDX-License-Identifier: Apache-2.0
"""Asks Triton for the machine code of a kernel, without a device, and refuses what only its launcher does."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from straightline.errors import StraightlineError, UnsupportedError, UserError
from straightline.own_images import check_shared, number_of

#: What an address that a kernel may take to be aligned is a multiple of, and an integer that it may take to be divisible.
ALIGNMENT = 16
#: Kernels can wait for the one before them from this architecture on. One with more shared memory does not come early: it would
#: take room from the blocks that run.
_FIRST_THAT_WAITS, _EARLY_SHARED_BYTES = 90, 16384
#: Larger clusters are of single devices (CUDA Programming Guide, "Thread Block Clusters").
_MOST_IN_CLUSTER = 8
#: Threads of a block.
_MOST_THREADS = 1024
lock = threading.RLock()


@dataclass(frozen=True)
class Options:
    """What a kernel is compiled with beside its constants; None: Triton's default."""

    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int | None = None
    maxnreg: int | None = None
    launch_cooperative_grid: bool | None = None

    def given(self) -> dict[str, int]:
        """Those that are given."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.given().items())


@dataclass(frozen=True)
class Specialized:
    """A kernel with the types of its parameters and what is known of them."""

    jit: Any
    #: By parameter: "*fp32", "i32", or "constexpr".
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    #: Parameters that are multiples of 16.
    divisible: frozenset[str]
    options: Options


@dataclass(frozen=True)
class Compiled:
    """What Triton made of a kernel."""

    image: bytes
    symbol: str
    threads: int
    shared_bytes: int
    #: Whether it touches memory only after it has waited for the kernel before it.
    waits: bool
    #: Blocks of a cluster, which is what Triton's grid counts; its machine code says how many there are.
    cluster: int = 1
    #: Whether its blocks wait for each other.
    cooperative: bool = False


#: By everything that machine code depends on; Triton keeps files of its own as well (TRITON_CACHE_DIR).
_compiled: dict[Any, Compiled] = {}


def triton() -> Any:
    """The module.

    Raises:
        UnsupportedError: it is not installed, or too old.
    """
    try:
        import triton as module
        from triton.backends.compiler import GPUTarget  # noqa: F401
        from triton.compiler import ASTSource  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"Triton kernels need the package triton, 3.6 or newer, when they are compiled: {error}"
        ) from error
    version = tuple(int(part) for part in re.findall(r"\d+", module.__version__)[:2])
    if version < (3, 6):
        raise UnsupportedError(f"triton is {module.__version__}, Triton kernels need 3.6 or newer")
    return module


def place_of(jit: Any) -> str:
    """Where a kernel stands: "model.py:12 (add_kernel)"."""
    function = getattr(jit, "fn", jit)
    code = getattr(function, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno} " if code is not None else ""
    return f"{where}({getattr(function, '__name__', function)})"


def unwrapped(fn: Any) -> tuple[Any, list[Any]]:
    """The `triton.jit` function behind autotuners and heuristics, and these, from the outside.

    Raises:
        UserError: it is no Triton kernel.
        UnsupportedError: it has hooks, which only Triton's launcher calls, or runs in Triton's interpreter.
    """
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    wrappers = []
    while isinstance(fn, (Autotuner, Heuristics)):
        wrappers.append(fn)
        fn = fn.fn
    if isinstance(fn, InterpretedFunction):
        raise UnsupportedError(
            f"{place_of(fn)} runs in Triton's interpreter, TRITON_INTERPRET is set; nearest supported form: without it"
        )
    if not isinstance(fn, JITFunction):
        what = f"{place_of(fn)} of type {type(fn).__name__}" if callable(fn) else repr(fn)
        raise UserError(f"fn is {what}, expected a function that is decorated with @triton.jit")
    if fn.pre_run_hooks:
        raise UnsupportedError(
            f"{place_of(fn)} has a hook before each launch, add_pre_run_hook, which a program does not call; nearest supported "
            "form: a kernel without hooks"
        )
    return fn, wrappers


def refuse_hooks(jit: Any) -> None:
    """Hooks that only Triton's launcher calls."""
    from triton import knobs

    for name in ("launch_enter_hook", "launch_exit_hook"):
        hook = getattr(knobs.runtime, name, None)
        if hook is not None and getattr(hook, "calls", [hook]):
            raise UnsupportedError(
                f"triton.knobs.runtime.{name} is set, which a program does not call, at {place_of(jit)}; nearest supported form: "
                "without it while compiling"
            )


def refuse_tuner(tuner: Any, jit: Any) -> None:
    """What an autotuner does around each launch."""
    for name in ("reset_to_zero", "restore_value"):
        if getattr(tuner, name, None):
            raise UnsupportedError(
                f"@triton.autotune of {place_of(jit)} has {name}={getattr(tuner, name)}, which Triton does before it measures; "
                "nearest supported form: a kernel that writes its results without reading them"
            )
    hooks = [config for config in tuner.configs if config.pre_hook is not None]
    if getattr(tuner, "user_defined_pre_hook", False) or getattr(tuner, "user_defined_post_hook", False) or hooks:
        raise UnsupportedError(
            f"@triton.autotune of {place_of(jit)} has hooks, which a program does not call; nearest supported form: "
            "configurations without pre_hook"
        )


def pruned(tuner: Any, jit: Any, given: Mapping[str, Any], more: Mapping[str, Any]) -> list[Any]:
    """The configurations that an autotuner's `prune_configs_by` leaves for arguments by name, as Triton finds them.

    Raises:
        UserError: it leaves none.
    """
    with lock:
        tuner.nargs = dict(given)
        try:
            configs = list(tuner.prune_configs(dict(more)))
        except Exception as error:
            if type(error).__name__ != "AutotunerError":
                raise
            configs = []
        finally:
            tuner.nargs = None
    if not configs:
        raise UserError(
            f"pruning leaves no configuration of {place_of(jit)}, of the {len(tuner.configs)} that @triton.autotune has"
        )
    return configs


def source_of(jit: Any) -> str:
    """The text of a kernel, without its decorators."""
    source = getattr(jit, "src", None)
    return str(source if source is not None else inspect.getsource(jit.fn)).rstrip()


@contextlib.contextmanager
def _without_line_info() -> Iterator[None]:
    """Machine code without the paths and lines of the source."""
    from triton import knobs

    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        yield


def compiled_for(special: Specialized, arch: str, op: str) -> Compiled:
    """The machine code of a kernel for an architecture.

    Raises:
        UserError: Triton refuses the kernel, or a block takes more shared memory than the architecture has.
        UnsupportedError: the machine code needs what only Triton's launcher gives.
    """
    key = (
        triton().__version__, special.jit.cache_key, tuple(special.signature.items()),
        tuple((name, constant_key(value)) for name, value in special.constants.items()), special.divisible,
        special.options, arch,
    )  # fmt: skip
    with lock:
        if key not in _compiled:
            _compiled[key] = _compile(special, arch, op)
        return _compiled[key]


def constant_key(value: Any) -> Any:
    """A function that is a constant counts by its text, as Triton has it."""
    return getattr(value, "cache_key", None) or (type(value).__name__, repr(value))


def _compile(special: Specialized, arch: str, op: str) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(special.jit.arg_names)
    attributes = {(names.index(name),): [["tt.divisibility", ALIGNMENT]] for name in sorted(special.divisible)}
    source = ASTSource(special.jit, dict(special.signature), dict(special.constants), attributes)
    options: dict[str, Any] = special.options.given()
    try:
        with _without_line_info():
            made = triton.compile(source, target=GPUTarget("cuda", number_of(arch), 32), options=options)
    except StraightlineError:
        raise
    except Exception as error:  # Triton has a class of error for each of its stages
        raise UserError(
            f"Triton {triton.__version__} cannot compile {op}, the kernel {place_of(special.jit)}, for {arch}: {_words(error)}"
        ) from error
    metadata, ptx = made.metadata, made.asm["ptx"]
    _refuse_launcher(metadata, ptx, special.jit)
    threads = re.search(r"\.reqntid\s+(\d+)", ptx)
    count = int(threads[1]) if threads else 32 * metadata.num_warps
    advice = f"fewer num_stages than {metadata.num_stages} or smaller blocks"
    check_shared(f"{op}, the kernel {place_of(special.jit)},", metadata.shared, arch, advice)
    if count > _MOST_THREADS:
        raise UserError(
            f"{op}, the kernel {place_of(special.jit)}, has blocks of {count} threads, num_warps={metadata.num_warps}, but "
            f"devices run {_MOST_THREADS} at most; nearest supported form: num_warps={_MOST_THREADS // 32}"
        )
    cooperative = bool(getattr(metadata, "launch_cooperative_grid", False))
    may_wait = number_of(arch) >= _FIRST_THAT_WAITS and metadata.shared <= _EARLY_SHARED_BYTES and not cooperative
    early = _waiting(ptx) if may_wait else ""
    image = _assembled(early, metadata, options) if early else bytes(made.asm["cubin"])
    return Compiled(image, metadata.name, count, metadata.shared, bool(early), metadata.num_ctas, cooperative)


def _waiting(ptx: str) -> str:
    """The kernel with a wait for the one before it ahead of all else, so that a launch may overlap with that; "": it has its own.

    As our own kernels it lets the next kernel come once it has waited (docs/design/cuda_launch.md, "Programmatic edges").
    """
    begin = ptx.find("// %bb.0:", ptx.find(".visible .entry"))
    if begin < 0 or "griddepcontrol" in ptx:
        return ""
    at = ptx.index("\n", begin) + 1
    return f"{ptx[:at]}\tgriddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;\n{ptx[at:]}"


def _assembled(ptx: str, metadata: Any, options: Mapping[str, Any]) -> bytes:
    """The cubin of PTX, by Triton's last stage, and kept where Triton keeps its own."""
    from triton.backends.compiler import Language
    from triton.compiler.compiler import make_backend
    from triton.runtime.cache import get_cache_manager

    backend = make_backend(metadata.target)
    kept = get_cache_manager(hashlib.sha256(f"straightline {backend.hash()}\n{ptx}".encode()).hexdigest())
    name = f"{metadata.name[:150]}.cubin"
    if (path := kept.get_file(name)) is not None:
        with open(path, "rb") as file:
            return file.read()
    stages: dict[str, Any] = {}
    backend.add_stages(stages, backend.parse_options(dict(options)), Language.TRITON)
    with _without_line_info():
        image = bytes(stages["cubin"](ptx, metadata._asdict()))
    kept.put(image, name, binary=True)
    return image


def _words(error: BaseException) -> str:
    words = str(error).strip() or str(error.__cause__ or "").strip()
    return f"{type(error).__name__}: {words}"


def _refuse_launcher(metadata: Any, ptx: str, jit: Any) -> None:
    """What a launch of ours does not give."""
    place = place_of(jit)
    if getattr(metadata, "tensordesc_meta", None):
        raise UnsupportedError(f"{place} takes tensor descriptors; nearest supported form: pointers")
    if getattr(metadata, "global_scratch_size", 0):
        line = _line_of(jit, "make_tensor_descriptor")
        raise UnsupportedError(
            f"{line or place} needs {metadata.global_scratch_size} bytes of scratch memory of Triton's launcher a block, for "
            "tensor descriptors that it makes; nearest supported form: pointers"
        )
    if getattr(metadata, "profile_scratch_size", 0):
        raise UnsupportedError(
            f"{place} is instrumented for a profiler of Triton's; nearest supported form: without it"
        )
    if metadata.num_ctas > _MOST_IN_CLUSTER:
        raise UnsupportedError(
            f"{place} runs in clusters of num_ctas={metadata.num_ctas}; nearest supported form: num_ctas={_MOST_IN_CLUSTER}, "
            "which each device has room for"
        )
    if metadata.num_ctas > 1 and f".reqnctapercluster {metadata.num_ctas}" not in ptx:
        raise UnsupportedError(
            f"{place} runs in clusters of num_ctas={metadata.num_ctas}, which its machine code does not say, only Triton's "
            "launcher does; nearest supported form: num_ctas=1, or a newer Triton"
        )


def _line_of(jit: Any, word: str) -> str:
    """The line of a kernel's source that has a word; "": it has none."""
    lines, first = inspect.getsourcelines(jit.fn)
    found = next((number for number, line in enumerate(lines) if word in line), None)
    return "" if found is None else f"{jit.fn.__code__.co_filename}:{first + found} ({jit.__name__})"


@contextlib.contextmanager
def some_target() -> Iterator[None]:
    """A block in which Triton can be asked for its target, which torch's analysis does, also where there is no device."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    if torch.cuda.is_available():
        yield
        return

    class Driver:
        """No device, of a target that the IR hardly depends on."""

        def get_current_target(self) -> Any:
            """Any."""
            return GPUTarget("cuda", 90, 32)

    before, driver._active = driver._active, Driver()
    try:
        yield
    finally:
        driver._active = before
