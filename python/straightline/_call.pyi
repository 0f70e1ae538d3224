# SPDX-License-Identifier: Apache-2.0
"""The call path (C extension, stable ABI)."""

from collections.abc import Callable as Callable_
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from straightline._call_support import Argument

# Capsules named "sl_program" and "sl_weights".
ProgramCapsule = Any
WeightsCapsule = Any
ArtifactCapsule = Any
#: Of the code that the runtime loads.
ABI_VERSION: int

class Options(TypedDict, total=False):
    #: Kind of the results when no argument is a tensor: "torch" (default) or "numpy".
    kind: str
    #: Estimated time of one run. The GIL is released when it is at least the threshold.
    estimated_us: float
    gil_threshold_us: float
    #: False: calls go through the interpreter unless `override_fast_path` says otherwise.
    fast_path: bool
    reuse_outputs: bool
    #: "stream" (default and on the cpu) or "graph".
    launch: str | None
    #: Of its team at most; 0 (default): as many as the program was planned for.
    threads: int
    #: Of a program with hooks: address of int64 numbers and how many pairs they hold, or a function (profile.c).
    profile: tuple[int, int] | Callable_[[int, int], None] | None

class Callable:
    """A program with its weights, bound to a signature, called like the compiled function.

    It owns a reference to the program and to the weights. Calls may come from any thread.
    """

    def __new__(
        cls,
        program: ProgramCapsule,
        weights: WeightsCapsule,
        input_spec: tuple[tuple[Any, ...], ...],
        output_spec: tuple[Any, ...],
        options: Options,
    ) -> Callable: ...
    #: The set that the next call takes.
    _weights: WeightsCapsule

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Guarded:
    """A function that torch.compile compiled, called behind Dynamo's guards.

    `_compiled` of a derived class takes other calls, and `_look_undisturbed(self)` is called after them.
    It owns neither programs nor what Dynamo keeps: the first of a plan's parts are weak references to its entries.
    """

    #: What a call goes by, exchanged as a whole; None: the ordinary way.
    _plan: tuple[Any, ...] | None
    #: Calls that entered a program.
    _direct: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def callable_type(name: str, base: type) -> type[Callable]:
    """Makes a type like `Callable` that has the methods of `base`, a class with `__slots__ = ()`.

    Instances have a `__dict__`. A Python subclass of `Callable` works too, but before Python 3.12 its
    calls are slower (no vector calls).
    """

def cuda_calls() -> dict[str, int]:
    """Calls of NVIDIA's driver by this process so far, by kind ("launches", "synchronizations", ...)."""

def cuda_missing() -> str:
    """Why there is no CUDA device; empty when there is one. Opens the driver."""

def graph_nodes(program: ProgramCapsule) -> tuple[int, str]:
    """How many nodes a run has as a CUDA graph, and ""; or -1 and why it cannot be one."""

def graph_parts(program: ProgramCapsule) -> int:
    """How many graphs a run is launched as, at most: one more than calls of torch that stand between two."""

class OpCall:
    """A call of an op of torch through Python, as it was planned."""

def op_call(
    op: Any,
    constants: tuple[Any, ...],
    keywords: tuple[str, ...],
    inference: Callable[[], bool],
    below: type,
    failed: Callable[[BaseException], bytes],
    copy: Callable[[Any, Any], None],
    places: tuple[int, ...],
    results: tuple[int, ...],
    layouts: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...],
    inputs: int,
    lists: tuple[tuple[int, ...], ...],
    skips_autograd: bool,
) -> OpCall:
    """A planned call; `runtime/backends/aten` runs it by its `id()` through `op_call_functions`.

    A place is the number of an operand, -1 for a constant, or -2 - i for the operands of `lists[i]`.
    """

def op_call_functions(other: int, forget: Callable[[int], None]) -> tuple[int, int, int]:
    """Addresses of the C functions that run planned calls by their id, forget them, and take results (0: none does).

    Calls with a negative number are run by the C function at `other`.
    """

def override_fast_path(value: bool | None) -> bool | None:
    """Which path calls of this thread take, whatever their functions say; gives what held before."""

def backend_load(path: str | PathLike[str]) -> tuple[str, str | None, tuple[tuple[str, str], ...]]:
    """Opens a plug-in; gives its name, its file (None: its description was registered before), and name and op of its kernels."""

def own_kernel_open(path: str | PathLike[str], function: str, symbol: str) -> None:
    """Opens a library and makes its function what emitted text calls by the symbol."""

def own_kernel_call(
    symbol: str, name: str, integers: tuple[int, ...], numbers: tuple[float, ...], has_status: bool
) -> None:
    """Calls such a function outside of a program; raises OpError for an exception and another status than 0."""

def ffi_function(
    name: str,
    arguments: tuple[tuple[str, int, int, int, int, float, str | None], ...],
    inputs: int,
    results: tuple[int, ...],
    model_results: int,
    callables: tuple[Any, ...],
) -> Any:
    """A function of other systems (straightline/abi/ffi.h); arguments are (name, kind, index, count, integer, real, text)."""

def ffi_publish(function: Any, name: str, callables: tuple[Any, ...] | None) -> None:
    """Later calls take these callables' programs and present weights; None: they fail."""

def ffi_addresses(function: Any) -> tuple[int, int, int]:
    """That of its sl_ffi_function, of what a kernel of torch calls with it, and of what a program does."""

def ffi_running(function: Any) -> int:
    """How many calls are running."""

def ffi_refused(function: Any) -> int:
    """How many calls have come while it was closed."""

def ffi_layouts(program: ProgramCapsule) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """(dtype code, bits, sizes, strides, updated) of inputs and results, and (name, min, max, computed) of named sizes."""

def ffi_torch_register(space: str, schema: str, key: str, kernel: int) -> int:
    """Registers an op of torch; gives what ffi_torch_unregister takes."""

def ffi_torch_unregister(registered: int) -> None:
    """Removes the op from torch."""

def ffi_tvm_global(function: Any, name: str) -> None:
    """Makes it a global function of TVM-FFI."""

def backend_names() -> tuple[str, ...]:
    """The backends of this process."""

def backend_search() -> None:
    """Opens the plug-ins that STRAIGHTLINE_BACKEND_PATH names."""

def program_from_library(path: str | PathLike[str]) -> ProgramCapsule:
    """Loads a compiled unit that exports `sl_program`."""

def symbol(name: str) -> int:
    """Address of an extern "C" function of the runtime or of a backend, 0 when there is none."""

def weights(
    program: ProgramCapsule,
    parameters: Sequence[Any],
    live: bool = False,
    prepare: Callable_[[Io], None] | None = None,
    shared: tuple[WeightsCapsule | None, list[ProgramCapsule]] | None = None,
) -> WeightsCapsule:
    """Borrows the storage of parameters, in the order of the description, and prepares them (by emitted Python).

    `shared`: the weights of the program before it, whose prepared data it adds to, and the programs that share that.

    A live set is compared with its tensors at the beginning of each call and made anew when one has other storage.
    """

def artifact_open(path: str | PathLike[str], verify: bool) -> ArtifactCapsule:
    """Opens a saved model and checks its structure; `verify`: every digest too."""

def artifact_entry(artifact: ArtifactCapsule, name: str) -> tuple[int, int]:
    """Address and bytes of a file of it; they stay valid as long as the capsule does."""

def artifact_choose(artifact: ArtifactCapsule, program: int, device_type: int, device: int) -> int:
    """Number of the variant that runs best here, of a DLPack device type (0: any) and on the device of this number."""

def artifact_program(artifact: ArtifactCapsule, program: int, variant: int, device: int) -> ProgramCapsule:
    """Maps the code of a variant."""

def artifact_tensor(artifact: ArtifactCapsule, name: str) -> tuple[str, tuple[int, ...], int, int]:
    """Dtype by safetensors' name, shape, address and bytes of a tensor of its weights."""

def describe(program: ProgramCapsule, sizes: dict[str, int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Its buffers and statements (sl_buffer, sl_statement), for these named sizes; others have their smallest value."""

def digest(address: int, bytes: int) -> str:
    """XXH3-128 of memory, as 32 hexadecimal digits."""

def viewed_parameters(program: ProgramCapsule) -> list[int]:
    """Numbers of the parameters that results are views of."""

def prepared(weights: WeightsCapsule) -> list[bytes]:
    """The prepared data of a set, a memory space each."""

def prepared_bytes(weights: WeightsCapsule) -> int:
    """Bytes of prepared data that a set holds itself: 0 where it shares another's."""

def parameters(weights: WeightsCapsule) -> list[Any]:
    """The tensors of a set: those that were given when it is live, else owners of the same storage."""

def group(first: Callable, others: tuple[Callable, ...]) -> None:
    """Calls of `first` whose arguments do not fit its program go to the first of `others` that they fit."""

def choose_slots(choice: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """What `slot` chooses for calls of this thread; gives what held before. Nobody may change a choice."""

def slots(callable: Callable, programs: tuple[Callable, ...], place: Callable_[[Mapping[str, str]], int]) -> None:
    """Where `slot` has chosen something, `place(choice)` is the number, from 1, of the program that takes a call; 0: its own."""

def specialize(callable: Callable, programs: tuple[Callable, ...]) -> None:
    """Calls whose sizes are exactly those of one of the programs go to that; there is at least one."""

def count_sizes(callable: Callable, enough: int, told: Callable_[[dict[str, int]], None]) -> None:
    """Counts the named sizes of calls: `told` gets those that came `enough` times, once or more. With 0 it ends."""

def handles(callable: Callable, /) -> tuple[int, int]: ...
def publish(callables: tuple[Callable, ...], weights: tuple[WeightsCapsule, ...]) -> None:
    """Gives each callable a new set, all at once. A call keeps the set that it began with."""

class Entry:
    """What a statement calls. Kernels and external entries take a queue, buffers and sizes; scalar operations values."""

    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def kind(self) -> str:
        """kernel, external, plan or scalar."""
    @property
    def can_fail(self) -> bool: ...
    @property
    def cost_us(self) -> float: ...
    @property
    def arguments(self) -> tuple[Argument, ...]: ...
    @property
    def scalars(self) -> tuple[str, ...]: ...
    def __call__(self, *arguments: Any) -> Any: ...
    def run(self, addresses: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        """The kernel by itself, on this thread; the caller has compared what lies there with `arguments`."""
    def start(self, addresses: tuple[int, ...], sizes: tuple[int, ...], extents: tuple[int, ...], stream: int) -> None:
        """The same for a kernel of a CUDA device, on a stream of it; `extents` has a value for each of `extents`."""
    @property
    def extents(self) -> tuple[str, ...]:
        """Names of all named sizes of its program."""
    @property
    def grid_sizes(self) -> tuple[str, ...]:
        """Names of those that its number of blocks depends on."""
    @property
    def device(self) -> int:
        """The number of its program's device, 0 on the host."""

def entries(program: ProgramCapsule) -> list[Entry]:
    """All that the statements of a program call."""

class Buffer:
    """Memory of one call: an address and a line of the program's buffer table."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
    @property
    def space(self) -> str: ...
    @property
    def address(self) -> int: ...
    def numpy(self) -> Any:
        """The memory as an array, which keeps what it shows; bfloat16 as float32, copied. A copy in prepare."""
    def view(self, number: int, elements: int) -> Buffer:
        """Buffer `number` of the program, `elements` elements on from this one's element 0."""
    def __getitem__(self, element: int) -> int | float | bool:
        """An element, counted in memory from element 0."""

class Event:
    """A point in the order of a queue."""

class Queue:
    """Where statements run: the caller's team, its thread alone, or a device."""

    def copy(self, destination: Buffer, source: Buffer, bytes: int) -> None: ...
    def record(self) -> Event: ...
    def wait(self, event: Event) -> None: ...

class Io:
    """One call of emitted Python."""

    buffers: tuple[Buffer, ...]
    extents: tuple[int, ...]
    queues: tuple[Queue, ...]
    team: Queue
    alone: Queue
    def stop_if_failed(self, statement: int) -> None: ...
    def check_failed(self, statement: int) -> None: ...
    def back_edge(self, statement: int) -> None: ...
    def alloc(self, number: int, bytes: int) -> Buffer: ...
