// SPDX-License-Identifier: Apache-2.0
// The call path from Python: one extension module on CPython's stable ABI (3.10), nothing but C.
//
// Each file uses functions of files before it in this list only (call_path_files_test.py):
//
//   errors.c            the exceptions, and the helpers of straightline._call_support
//   interrupts.c        Ctrl-C during a run
//   tree.c              nested arguments <-> leaves in fixed positions
//   signature.c         positional and keyword arguments -> the slots of a compiled signature
//   tensors.c           memory, device and sizes of a described tensor
//   jax_arrays.c        arrays of JAX -> borrowed tensors
//   borrow.c            a Python object -> a borrowed tensor, or a refusal in words
//   streams.c           the caller's current stream
//   output_plan.c       sizes of a fresh output, and the check of a tensor given for it
//   torch_tensors.c     fresh outputs on a device, as torch's own tensors; handles of its C++
//   op_calls.c          ops of torch that are called through Python
//   fresh_outputs.c     storage of fresh outputs, and its hand-over
//   jax_results.c       fresh outputs -> arrays of JAX
//   kept_outputs.c      `reuse_outputs`: tensors of earlier results become the next ones
//   emitted/buffers.c   emitted Python: addresses with a line of the buffer table
//   emitted/io.c        emitted Python: the call, bound to a frame, executed, given back
//   emitted/entries.c   emitted Python: kernels, external entries, plans and scalar operations
//   artifacts.c         programs, weights and other contents of a saved model
//   backends.c          plug-ins: opened, listed, searched for
//   own_kernels.c       C functions of users: opened, called outside of a program
//   weights.c           parameters whose storage a program uses
//   profile.c           times of a profiled program's statements; descriptions for tools
//   plan.c              what a callable reads from its program's description when it is made
//   alias_check.c       what a program writes shares memory with nothing else of the call
//   versions.c          torch's version counters of what a program writes
//   guard.c             whether the tensors of a call are what a program was compiled for
//   hot_sizes.c         which named sizes come often
//   python_path.c       a call by emitted Python
//   call.c              a call of one program
//   slots.c             programs with other kernels, of which slot() chooses one
//   call_any.c          a call of a function with several programs
//   callable.c          the type: a program with its weights and its signature
//   programs.c          several callables as one, and new weights for all of them
//   ffi.c               functions of other systems over callables
//   guarded.c           a function of torch.compile behind Dynamo's guards
//   module.c            the module: programs from libraries, and the functions
//
// call_path.h declares what needs no Callable, emitted/emitted.h what emitted Python works with,
// callable.h the rest.
//
// Everything runs under the GIL but for sl_run and sl_weights_create. A function that returns int
// gives 0, or -1 with a Python exception set.
#ifndef STRAIGHTLINE_PYTHON_CALL_PATH_H
#define STRAIGHTLINE_PYTHON_CALL_PATH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "straightline/abi/artifact.h"
#include "straightline/abi/dlpack.h"
#include "straightline/abi/straightline.h"

#if !defined(Py_LIMITED_API)
#error "the call path is one binary for every Python: define Py_LIMITED_API"
#endif

#pragma GCC visibility push(hidden)

// ---- errors.c: classes of straightline.errors, owned by the module for the life of the process

extern PyObject* slUserError;
extern PyObject* slGuardError;
extern PyObject* slGuardTypeError;
extern PyObject* slUnsupportedError;
extern PyObject* slInternalError;
int slErrorsInit(void);
/// Raises the class that belongs to a runtime status.
void slRaiseStatus(int32_t status, const char* message);
/// Calls straightline._call_support.<name>(...), new reference.
PyObject* slSupport(const char* name, const char* format, ...);

// ---- interrupts.c

/// Lets Ctrl-C end a run. Returns the value for the cancel flag of the run's context, or NULL (not
/// the main thread, a handler that is not Python's own, or a nested run). Call the end function
/// after the run, with the GIL in both cases.
const int32_t* slInterruptsBegin(void);
/// Whether Ctrl-C came, with the exception set. `cancel` NULL: no.
int slInterruptsEnd(const int32_t* cancel);

// ---- tree.c

typedef enum sl_node_kind {
  SL_NODE_TENSOR,
  SL_NODE_CONST,
  SL_NODE_TUPLE,
  SL_NODE_LIST,
  SL_NODE_DICT,
  SL_NODE_NAMEDTUPLE,
  SL_NODE_DATACLASS,
  SL_NODE_CUSTOM,
  SL_NODE_EXTENT  ///< results: an int computed from the named extents
} sl_node_kind;

/// One node of a compiled structure. All references are owned.
typedef struct sl_node {
  sl_node_kind kind;
  int32_t index;             ///< tensor: its position
  int32_t count;             ///< children
  struct sl_node* children;  ///< [count]
  PyObject* name;            ///< str: where it stands, "x['mask'][0]"
  PyObject* type;            ///< exact type of the container
  PyObject* keys;            ///< dict: tuple of keys; dataclass: tuple of field names
  PyObject* value;           ///< const: the value
  PyObject* flatten;         ///< custom: object -> (children, context)
  PyObject* unflatten;       ///< custom: (children, context) -> object
  sl_expr_step* steps;       ///< extent: owned
  PyObject* context;         ///< custom
} sl_node;

/// Parses the tuples that straightline._signature makes; `leaves` is the number of tensor
/// positions.
int slNodeParse(PyObject* spec, int32_t leaves, sl_node* node);
void slNodeClear(sl_node* node);
int slNodeTraverse(const sl_node* node, visitproc visit, void* arg);
/// Stores a new reference to every tensor leaf of `object` in leaves[index]. With `optional`, None
/// may stand for a tensor (leaves[index] stays NULL), as in `out=`.
int slNodeFlatten(const sl_node* node, PyObject* object, int optional, PyObject** leaves);
/// Builds the structure over leaves (borrowed), new reference.
PyObject* slNodeBuild(const sl_node* node, PyObject** leaves, const int64_t* extents);
/// 1 when `given` is the constant that was compiled (same type, same value; floats bit for bit), 0
/// if not, -1 on error.
int slSameConstant(PyObject* compiled, PyObject* given);

// ---- signature.c

typedef enum sl_slot_kind {
  SL_SLOT_POSITIONAL = 0,
  SL_SLOT_EITHER = 1,
  SL_SLOT_KEYWORD = 2
} sl_slot_kind;

typedef struct sl_slot {
  PyObject* name;  ///< interned str
  sl_slot_kind kind;
  PyObject* fallback;  ///< nullable: the parameter's default value
  int skip_fallback;   ///< 1: the default is known to match, an omitted argument needs no work
  sl_node node;
} sl_slot;

typedef struct sl_signature {
  sl_slot* slots;
  int32_t count;
  int32_t positional;  ///< how many may be given by position; they come first
  int32_t
      /// 1: a parameter is itself called "out", so that name is no option of the call
      has_out;
} sl_signature;

int slSignatureParse(PyObject* spec, int32_t leaves, sl_signature* signature);
void slSignatureClear(sl_signature* signature);
int slSignatureTraverse(const sl_signature* signature, visitproc visit, void* arg);
/// Binds a vector call's arguments and flattens them into leaves; *out is the borrowed `out=`
/// argument or NULL. `bound` has signature->count places for borrowed references.
int slSignatureBind(const sl_signature* signature, PyObject* const* args, Py_ssize_t nargs,
                    PyObject* names, PyObject** bound, PyObject** leaves, PyObject** out);

// ---- tensors.c

typedef struct sl_range {
  uintptr_t low, high;
} sl_range;  ///< bytes [low, high)

/// Bytes that a tensor touches; low == high when it is empty.
sl_range slTensorRange(const sl_tensor* tensor);
static inline int slRangesOverlap(sl_range a, sl_range b) {
  return a.low < b.high && b.low < a.high;
}
/// 1 when the range touches one of the sorted, merged ranges.
int slRangesTouch(const sl_range* ranges, int32_t count, sl_range range);
/// 0 unless the tensor is on that device; the index of "cpu" is ignored.
int slOnDevice(const sl_tensor* tensor, int32_t device_type, int32_t device);
/// "cpu", "cuda:1", "dlpack device 7": new reference.
PyObject* slDeviceName(int32_t device_type, int32_t device_id);
/// Where a buffer of a program is, in DLPack's terms.
int32_t slDeviceType(const sl_program_desc* desc, const sl_buffer* buffer);
/// Tuple of ints: new reference.
PyObject* slSizeTuple(int32_t rank, const int64_t* values);

// ---- borrow.c

typedef enum sl_kind {
  SL_KIND_NONE = 0,
  SL_KIND_TORCH,
  SL_KIND_NUMPY,
  SL_KIND_EXCHANGE,  ///< another framework with DLPack's C table
  SL_KIND_DLPACK,    ///< an object with __dlpack__
  SL_KIND_JAX        ///< an array of JAX
} sl_kind;

/// What is held beside the sl_tensor of a borrowed object until the call ends.
typedef struct sl_borrow {
  sl_kind kind;
  int read_only;
  const sl_dl_exchange* exchange;  ///< NULL for numpy and __dlpack__
  /// nullable, owned: what keeps a producer's description alive
  PyObject* hold;
  /// storage for tensor->shape where the producer has none that lasts
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
} sl_borrow;

/// Grad mode of this call; looked up at most once. -1: not looked up yet.
typedef struct sl_grad_mode {
  int enabled;
} sl_grad_mode;

/// A tensor object that a place (an argument, an `out=`) was given before, known not to be a
/// negated view. Nothing but a new data address can make it one, so such an object need not be
/// asked again: tensors that are used over and over (buffers of a control loop) cost a third less.
/// All zero at first; slSeenClear at the end.
typedef struct sl_seen {
  /// nullable, owned: weak reference, so that another object at the same address is told apart
  PyObject* weak;
  PyObject* last;  ///< only compared, never dereferenced
  void* data;
  /// Of an array of JAX, whose sizes and element type stay as they are: sizes, owned (PyMem).
  int64_t* shape;
  int32_t rank;
  sl_dtype dtype;
} sl_seen;
static inline void slSeenClear(sl_seen* seen) {
  Py_CLEAR(seen->weak);
  PyMem_Free(seen->shape);
  seen->shape = NULL;
}

/// Fills `tensor` and `borrow` from a framework's tensor without copying; the tensor is valid while
/// `object` is alive and not resized. `name` (str) is for messages. `mode` NULL: requires_grad is
/// not looked at (parameters). `seen` NULL: not remembered.
int slBorrow(PyObject* object, PyObject* name, sl_grad_mode* mode, sl_seen* seen, sl_tensor* tensor,
             sl_borrow* borrow);
static inline void slBorrowEnd(sl_borrow* borrow) { Py_CLEAR(borrow->hold); }
// ---- jax_arrays.c

/// Learns JAX's type of arrays once jaxlib is imported. 0, or -1 with an exception.
int slJaxLearn(void);
/// Whether it is that type.
int slIsJaxArray(PyTypeObject* type);
/// As slBorrow, for an array of JAX, for which it waits; -1 without an exception where it does not
/// lie on one device of the host or of CUDA. Arrays of JAX are read-only.
int slBorrowJax(PyObject* object, sl_seen* seen, sl_tensor* tensor, sl_borrow* borrow);
/// JAX's object for a device by DLPack's type and number, borrowed; NULL (no exception) where no
/// array has been seen there.
PyObject* slJaxDevice(int32_t type, int32_t number);
/// Remembers it (a new reference); an older one may be forgotten.
void slJaxNoteDevice(PyObject* device, int32_t type, int32_t number);

// ---- borrow.c

/// torch's exchange table (imports torch when that has not happened), NULL with an exception when
/// there is none.
const sl_dl_exchange* slTorchExchange(void);
/// torch.Tensor, borrowed; NULL before slTorchExchange has given a table.
PyTypeObject* slTorchTensorType(void);
/// Whether a plain torch.Tensor is a negated view: 0 or 1, -1 with an exception. Precondition as of
/// slTorchTensorType.
int slTorchIsNegated(PyObject* object);
/// Whether it requires grad; as slTorchIsNegated.
int slTorchRequiresGrad(PyObject* object);
/// Tells autograd that these are written: their version counters advance. Precondition as of
/// slTorchTensorType. 0, or -1 with an exception.
int slTorchWritten(PyObject* tensors);
/// Address and strides of an ndarray that numpy just made. 0 or -1.
int slNumpyData(PyObject* array, void** data);
const char* slKindName(sl_kind kind);

// ---- op_calls.c

int slOpCallsInit(void);
/// op_call(op, constants, keywords, inference, below, failed, copy, places, results, layouts,
/// inputs): a planned call. `inference()` says whether the thread is in inference mode; elsewhere
/// the op is called in a context `below()`. `constants` has each argument, None where a tensor
/// goes, the last ones named by `keywords`; `places` for each argument the number of an operand
/// (inputs, then outputs) or -1; `results` for each result of the op the number of an output or
/// -1; a layout is (code, bits, sizes, strides). `copy(result, tensor)` copies what is not the
/// output's bytes as it is, `failed(exception)` gives words as bytes.
PyObject* slOpCall(PyObject* module, PyObject* args);
/// op_call_functions(other, forget): addresses of an sl_aten_python.run, for calls whose number is
/// their id() (a negative number is one of `other`'s, the address of such a function too), and of
/// an sl_aten_python.forget, which calls `forget` with the number; and that of an
/// sl_aten_python.give, 0 where this torch makes no objects of handles.
PyObject* slOpCallFunctions(PyObject* module, PyObject* args);

/// The result of an op, which a run has copied into the output at `data`. It may be the caller's in
/// place of a tensor over the copy, where the output is still the same when the run has ended.
typedef struct sl_given {
  PyObject* object;     ///< nullable, owned: the result
  void* handle;         ///< nullable, owned: in place of an object, a tensor of torch's C++
  const void* data;     ///< of the output
  sl_dl_tensor tensor;  ///< of the result
} sl_given;
/// Ops on this thread give small results to `given` (NULL: to nobody); returns whom they gave them
/// before.
sl_given* slOpGiveTo(sl_given* given);
/// Makes the object of a handle; drops it where it is not for the caller alone, or has a gradient.
void slGivenOpen(sl_given* given);
void slGivenClear(sl_given* given);

// ---- streams.c

/// The queue over the framework's current stream of a CUDA device; borrowed, kept for good. NULL
/// with an exception.
sl_queue* slCurrentStream(const sl_dl_exchange* exchange, int32_t device);
/// The same over a stream of a CUDA device that the caller knows.
sl_queue* slQueueOfStream(void* stream, int32_t device);
/// The queue on which this thread uses a device of a plug-in; NULL with an exception set.
sl_queue* slCurrentQueue(const char* backend, int32_t device);
/// cuda_calls(): what the runtime asked of the driver so far, by kind; None, or why there is no
/// device.
PyObject* slCudaCalls(PyObject* module, PyObject* none);
PyObject* slCudaMissing(PyObject* module, PyObject* none);
/// graph_nodes(program): how many nodes a run has as a graph, and ""; or -1 and why it cannot be
/// one.
PyObject* slGraphNodes(PyObject* module, PyObject* program);
/// graph_parts(program): how many graphs a run is launched as, at most.
PyObject* slGraphParts(PyObject* module, PyObject* program);

// ---- output_plan.c

enum { SL_KEPT = 2 };

/// A result of an earlier call, for reuse_outputs.
typedef struct sl_kept {
  PyObject* object;  ///< nullable, owned
  void* data;
  /// of the call that wrote it last (sl_queue_order): only one of the same comes behind what reads
  /// it there
  uint64_t order;
  sl_seen seen;
} sl_kept;

/// A fresh output of the program.
typedef struct sl_output_plan {
  const sl_buffer* buffer;
  int fixed;     ///< 1: shape, strides and bytes hold for every call
  int computed;  ///< 1: the run computes a size of it
  int64_t bytes;
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  int32_t device_type;
  int32_t device;         ///< its number, on the host 0
  PyObject* numpy_dtype;  ///< nullable, owned: made by the first call with numpy arrays
  PyObject* numpy_shape;  ///< nullable, owned: tuple for numpy.empty, when fixed
  /// nullable, borrowed: reuse_outputs is on, and what messages call the result
  PyObject* reused_name;
  sl_kept kept[SL_KEPT];
  int32_t next_kept;     ///< the oldest
  sl_dl_managed* spare;  ///< nullable, owned: a block of it that nobody was given, when fixed
} sl_output_plan;

/// Evaluates the buffer's extents and strides; gives the bytes to allocate.
int64_t slOutputShape(const sl_buffer* buffer, const int64_t* extents, int64_t* shape,
                      int64_t* strides);
/// The same for an output of which the run computes a size: a row of as many elements as any run
/// may write.
int64_t slOutputRoom(const sl_buffer* buffer, const int64_t* extents, int64_t* shape,
                     int64_t* strides);
/// Raises that there is no memory for an output: -1.
int slNoMemory(const sl_output_plan* plan, int64_t bytes);
/// The same with what its allocator said (nullable).
void slNotAllocated(const sl_output_plan* plan, const char* reason);
/// Checks an `out=` tensor against what was compiled for the output.
int slOutCheck(const sl_tensor* tensor, const sl_borrow* borrow, PyObject* name,
               const sl_output_plan* plan, const int64_t* shape, const int64_t* strides);

// ---- torch_tensors.c

/// Whether objects can be made of handles of the shim (tensors of torch's C++).
int slTorchHasHandles(void);
/// The object of a handle, which is taken over: new reference, NULL with an exception.
PyObject* slTorchObjectOf(void* handle);
void slTorchDrop(void* handle);
/// A tensor of torch's own allocator on the plan's device, uninitialized, in the order of the
/// current stream: new reference, and where its elements are. NULL with an exception that has
/// torch's words. `exchange` is torch's.
PyObject* slTorchEmpty(const sl_output_plan* plan, const sl_dl_exchange* exchange, int64_t bytes,
                       const int64_t* shape, const int64_t* strides, void** data);

// ---- fresh_outputs.c

/// A fresh output of one call.
typedef struct sl_fresh {
  void* data;
  sl_dl_managed* block;            ///< ours, not yet handed over
  PyObject* object;                ///< owned: an `out=` tensor, a numpy array, or the wrapped block
  int64_t sizes[2 * SL_MAX_RANK];  ///< shape and strides of a block that a framework allocated
} sl_fresh;

/// Allocates storage for a fresh output of the given kind: on a device by `exchange`. shape and
/// strides have the buffer's rank.
int slFreshAllocate(sl_fresh* fresh, sl_kind kind, const sl_dl_exchange* exchange,
                    sl_output_plan* plan, int64_t bytes, const int64_t* shape,
                    const int64_t* strides);
/// Gives an output that was allocated for the bounds of computed extents the sizes that the run
/// found; they are row-major, so that its elements are the first ones of its storage. 0 or -1.
int slFreshTrim(sl_fresh* fresh, sl_kind kind, sl_output_plan* plan, const int64_t* extents);
/// Takes the tensor of `given` for the output, if it is that of this output, with its very sizes,
/// strides and bytes; else nothing changes.
void slFreshTakeGiven(sl_fresh* fresh, sl_output_plan* plan, sl_given* given);
/// Turns a block into the framework's tensor (numpy arrays already are).
int slFreshWrap(sl_fresh* fresh, const sl_dl_exchange* exchange);
void slFreshClear(sl_fresh* fresh);

// ---- jax_results.c

/// A table whose `wrap` makes arrays of JAX; on a CUDA device memory and stream are PyTorch's.
const sl_dl_exchange* slJaxExchange(void);
/// Waits for the stream of a call on a CUDA device, before JAX gets its results. 0, or -1 with an
/// exception.
int slJaxFinish(int32_t device);

// ---- kept_outputs.c

/// Takes a result of an earlier call of the same order that only the plan holds, is as it was and
/// overlaps none of the `count` inputs. 1: fresh has it; 0: there is none.
int slKeptTake(sl_output_plan* plan, sl_fresh* fresh, sl_kind kind, sl_grad_mode* mode,
               uint64_t order, const sl_tensor* inputs, int32_t count);
/// Remembers a result that is about to be handed out by a call of this order, in place of the
/// oldest.
void slKeptAdd(sl_output_plan* plan, const sl_fresh* fresh, uint64_t order);
int slKeptTraverse(sl_output_plan* plan, visitproc visit, void* arg);
void slKeptClear(sl_output_plan* plan);

// ---- artifacts.c

#define SL_PROGRAM_CAPSULE "sl_program"
/// Takes the program over, also when it fails.
PyObject* slProgramCapsule(sl_program* program);
PyObject* slArtifactOpen(PyObject* module, PyObject* args);
PyObject* slArtifactEntry(PyObject* module, PyObject* args);
PyObject* slArtifactChoose(PyObject* module, PyObject* args);
PyObject* slArtifactProgram(PyObject* module, PyObject* args);
PyObject* slArtifactTensor(PyObject* module, PyObject* args);
PyObject* slViewedParameters(PyObject* module, PyObject* capsule);
PyObject* slDigest(PyObject* module, PyObject* args);
/// Prepared data of (artifact, program, variant) for each memory space of the program.
int slPreparedOf(PyObject* prepared, const sl_program* program, const void** data, size_t* bytes);

// ---- own_kernels.c

PyObject* slOwnKernelOpen(PyObject* module, PyObject* args);
PyObject* slOwnKernelCall(PyObject* module, PyObject* args);

// ---- backends.c

PyObject* slBackendLoad(PyObject* module, PyObject* args);
PyObject* slBackendNames(PyObject* module, PyObject* args);
PyObject* slBackendSearch(PyObject* module, PyObject* args);

// ---- weights.c

#define SL_WEIGHTS_CAPSULE "sl_weights"

/// A parameter of a live set: the object that was given, and where its elements were then.
typedef struct sl_live {
  PyObject* object;  ///< owned
  PyObject* name;    ///< owned str, for messages
  void* data;
  int32_t rank;
  sl_dtype dtype;
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  sl_seen seen;
} sl_live;

/// What a weights capsule holds: one set of parameters, immutable once made.
typedef struct sl_weights_record {
  sl_weights* weights;  ///< one reference
  sl_program* program;  ///< one reference: the program it was prepared for
  PyObject*
      /// list: for every parameter an object that owns its storage and never requires grad
      bases;
  int32_t range_count;
  sl_range* ranges;  ///< storage of the parameters, sorted, merged
  int32_t state_count;
  sl_range* states;   ///< of them, those that the program updates; likewise
  PyObject* updated;  ///< list: of the bases, the tensors of torch that the program updates
  int32_t live_count;
  sl_live* live;      ///< [parameters] when the set follows the given objects, else NULL
  PyObject* prepare;  ///< emitted Python that prepares a set, or None
} sl_weights_record;

PyObject* slWeightsNew(PyObject* module, PyObject* args);
PyObject* slWeightsParameters(PyObject* module, PyObject* args);
PyObject* slWeightsPrepared(PyObject* module, PyObject* capsule);
PyObject* slWeightsPreparedBytes(PyObject* module, PyObject* capsule);
/// 1 when every parameter of a live set is at its old address, 0 when one has moved or has other
/// sizes, -1 with an exception.
int slWeightsStay(sl_weights_record* record);
/// A new live set over the same objects, where they are now; UserError when one no longer fits.
PyObject* slWeightsAgain(sl_weights_record* record);
/// NULL with TypeError unless it is a weights capsule.
sl_weights_record* slWeightsRecord(PyObject* capsule);

// ---- guarded.c

/// A type that Python classes derive from: `_plan` is what its calls go by, `_compiled` takes the
/// others, and `_look_undisturbed(self)` is called after those.
PyObject* slGuardedType(void);

#pragma GCC visibility pop

#endif  // STRAIGHTLINE_PYTHON_CALL_PATH_H
