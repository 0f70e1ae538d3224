// SPDX-License-Identifier: Apache-2.0
// The compiled function as an object: for the files from plan.c on (the list is in call_path.h).
#ifndef STRAIGHTLINE_PYTHON_CALLABLE_H
#define STRAIGHTLINE_PYTHON_CALLABLE_H

#include "emitted/emitted.h"

#pragma GCC visibility push(hidden)

/// Everything that one call needs in memory; pooled, so that a steady state allocates nothing.
typedef struct Scratch {
  struct Scratch* next;
  sl_tensor* tensors;    // [inputs], in the order of the program
  sl_borrow* borrows;    // [inputs]
  void** input_data;     // [inputs]
  PyObject** leaves;     // [inputs], owned
  PyObject** bound;      // [slots], borrowed
  int64_t* extents;      // [extents]
  sl_fresh* fresh;       // [outputs]
  void** output_data;    // [outputs]
  sl_range* out_ranges;  // [outputs]: of those given by `out=`
  PyObject** outs;       // [results], owned: tensors of `out=`
  PyObject** results;    // [results], owned
  sl_given given;        // what an op gave for one of the outputs
  sl_queue* queue;       // of this call: on a device the caller's current stream
  // with reuse_outputs that of the queue; 0: no result of another call is taken, nor this one's
  // kept
  uint64_t order;
  int32_t borrowed;           // how many borrows have begun
  Io* looked_at;              // nullable, owned: the call's, when arrays show its memory
  PyObject* weights;          // owned: the set that this call began with
  sl_weights_record* record;  // inside it
} Scratch;

/// What the guard compares when no extent is named: exact sizes and strides, known when the
/// callable is made.
typedef struct FixedInput {
  sl_dtype dtype;
  int32_t rank;
  int32_t device_type;
  int32_t device;   // its number
  int32_t written;  // 1: the program updates this input in place
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  uint8_t compare[SL_MAX_RANK];  // 0: the stride of this dim carries no meaning
} FixedInput;

/// How a result of the program reaches the user: a fresh output, or a view of something that
/// outlives the call.
typedef struct sl_result_plan {
  int32_t output;      ///< position among the fresh outputs, -1 for a view
  int32_t root_role;   ///< views: sl_role of what it is a view of
  int32_t root_index;  ///< views: its position in that role
  int identity;        ///< views: 1 when it is the root itself
  int32_t rank;
  const char* root_name;  ///< views: owned by the program
} sl_result_plan;

typedef struct HotSizes HotSizes;  // hot_sizes.c

/// Of a program that was compiled with hooks: what they call. All zero: nothing.
typedef struct Profile {
  void (*hook)(void* user, int32_t statement, int32_t begin);  // user: this struct
  int64_t* events;                                             // borrowed; see profile.c
  int64_t capacity;                                            // pairs
  PyObject* told;  // nullable: called with statement and begin
} Profile;

typedef struct Callable {
  PyObject_HEAD sl_vectorcall vectorcall;
  PyObject* weak_references;
  PyObject* attributes;  // __dict__, nullable
  sl_program* program;
  const sl_program_desc* desc;
  PyObject* weights;          // capsule: the set that the next call takes; publish exchanges it
  sl_weights_record* record;  // inside it
  // nullable: tuple of Callables for arguments that do not fit this one
  PyObject* others;
  // nullable: tuple of Callables, each for one combination of this one's named sizes
  PyObject* special;
  Py_ssize_t last_special;  // which of them took the last call
  HotSizes* hot;            // nullable: sizes of calls are counted
  // nullable: tuple of Callables with other kernels, one of which slot() chooses
  PyObject* slotted;
  PyObject* slot_place;   // gives the number of the program that a choice means: 0 is this one
  PyObject* slot_choice;  // nullable: the last choice, for which it is slot_index
  Py_ssize_t slot_index;
  sl_queue* queue;
  int32_t device_type;  // where it runs; SL_DLPACK_CUDA: on the caller's current stream
  sl_signature signature;
  sl_node output;
  sl_kind kind;  // of outputs when no input is a tensor
  int release_gil;
  int has_loops;  // that Ctrl-C may have to end
  int reuse_outputs;
  int threads;     // of its team at most; 0: as planned
  int32_t launch;  // sl_launch
  // 1: the straight line, 0: the interpreter; fast_path() around a call overrides it
  int fast_path;
  int any_written;
  int has_fixed_inputs;  // 1: no input's size is named (a size may still depend on data)
  FixedInput* inputs;
  PyObject** names;  // [inputs], borrowed from the signature's nodes
  sl_output_plan* outputs;
  sl_result_plan* results;
  sl_seen* seen;  // [inputs, then results]
  Scratch* pool;
  PyObject* python;  // nullable: emitted Python, `run(io)`, in place of the straight line
  Io* ios;           // pool of its calls
  Profile profile;
} Callable;

// ---- profile.c

int slProfileParse(PyObject* option, Profile* profile);
void slProfileClear(Profile* profile);
void slProfileNote(void* user, int32_t statement, int32_t begin);
void slProfileTell(void* user, int32_t statement, int32_t begin);
PyObject* slDescribe(PyObject* module, PyObject* args);

// ---- plan.c; what reads self->desc raises InternalError when the description does not add up

/// Tells each input that a statement updates in place, some of them several times.
void slFindWritten(const sl_program_desc* desc, void (*found)(void* user, int32_t input),
                   void* user);
int slPlanInputs(Callable* self);
int slPlanOutputs(Callable* self);
int slPlanResults(Callable* self);
/// Which outputs reuse_outputs may take again: fixed sizes, with no result that is a view of them.
void slPlanReuse(Callable* self);
/// Every input of the program must be a tensor somewhere in the arguments. Fills names, allocates
/// seen.
int slNameInputs(Callable* self);
/// Extents named by "extent" nodes must be among the program's.
int slCheckExtents(const sl_node* node, int32_t extent_count);
/// Borrowed name of tensor `index` in a tree, NULL when it is not in there.
PyObject* slLeafName(const sl_node* node, int32_t index);
void slOutputPlanClear(sl_output_plan* plan);

// ---- alias_check.c; each raises GuardError

/// Inputs that the program updates are writable and share memory with no other input.
int slCheckWritten(Callable* self, const Scratch* scratch);
/// No input shares memory with a buffer of the module that the program updates, and none that it
/// updates with any parameter.
int slCheckInputAliases(Callable* self, const Scratch* scratch);
/// A tensor of `out=`, for output number `output`, shares memory with nothing that the program
/// reads or writes.
int slCheckOutAliases(Callable* self, Scratch* scratch, int32_t output, sl_range range,
                      PyObject* name);

// ---- versions.c

/// Before a call of torch's tensors: those that the program updates are written, as autograd has to
/// know.
int slCountWrites(const Callable* self, const Scratch* scratch);

// ---- guard.c

/// Whether no extent is named and the tensors have exactly the compiled sizes.
int slAllMatch(const Callable* self, const sl_tensor* tensors);
/// Other programs that may take a call.
typedef struct sl_likely {
  PyObject* among;  ///< borrowed tuple of Callables
  Py_ssize_t at;    ///< the first of them whose sizes the tensors have, or -1
} sl_likely;
/// 0, or -1 with an exception. When there are other programs to try (`miss`), tensors of another
/// description set *miss instead, which costs no words.
int slGuard(Callable* self, Scratch* scratch, int* miss);
/// Finds the first of some callables whose sizes the borrowed tensors have.
void slFindAmong(sl_likely* likely, const Callable* self, const Scratch* scratch);

// ---- hot_sizes.c

/// After a guard that found the extents of a call: counts them, where that is asked for.
void slHotSizesCount(Callable* self, const int64_t* extents);
/// Begins to count: `told({name: size})` is called once sizes came `enough` times. None may be
/// counted yet.
int slHotSizesBegin(Callable* self, unsigned int enough, PyObject* told);
void slHotSizesEnd(Callable* self);
int slHotSizesTraverse(Callable* self, visitproc visit, void* arg);

// ---- python_path.c

/// Runs by self->python. Its exception stays as it is; `frame` is given back, or kept by what
/// looked at it.
int slExecutePython(Callable* self, Scratch* scratch, sl_frame* frame);
/// After a call whose memory arrays show: what they show of arguments and results is kept.
void slKeepLookedAt(Callable* self, Scratch* scratch, const sl_dl_exchange* exchange);

// ---- call.c

/// One program. `miss` NULL: exceptions say why the arguments do not fit; else *miss is set when
/// they do not, without an exception, and `likely` (nullable) says which other one may fit.
PyObject* slCallOne(Callable* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    int* miss, sl_likely* likely);
/// Gives the callable another set; the one it had is returned and the caller's to drop.
PyObject* slExchangeWeights(Callable* self, PyObject* weights, sl_weights_record* record);
/// override_fast_path(value): True, False or None for calls of this thread; gives what held before.
PyObject* slOverrideFastPath(PyObject* module, PyObject* value);

// ---- slots.c

/// choose_slots(value): what slot() chooses for calls of this thread, or None; gives what held
/// before.
PyObject* slChooseSlots(PyObject* module, PyObject* value);
/// Of a callable with `slotted`: the program that this thread's choice means, borrowed; NULL with
/// an exception.
Callable* slSlotted(Callable* self);
int slSlotsTraverse(Callable* self, visitproc visit, void* arg);
void slSlotsClear(Callable* self);

// ---- call_any.c

/// The whole call: programs for its very sizes, the own program, then the others in the same way.
PyObject* slCallAny(Callable* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);

// ---- callable.c

/// Makes the type. With a base (a Python class without fields), its methods are the type's as well.
/// A Python subclass would do the same but has no vector calls before 3.12, which costs 50 ns a
/// call, 160 with a keyword.
PyObject* slCallableType(const char* name, PyObject* base);
/// 0 with TypeError unless it is a Callable.
int slIsCallable(PyObject* object);

// ---- programs.c

PyObject* slPublish(PyObject* module, PyObject* args);
PyObject* slGroup(PyObject* module, PyObject* args);
PyObject* slSpecialize(PyObject* module, PyObject* args);
PyObject* slSlots(PyObject* module, PyObject* args);
PyObject* slCountSizes(PyObject* module, PyObject* args);
PyObject* slHandles(PyObject* module, PyObject* callable);

// ---- ffi.c

PyObject* slFfiFunction(PyObject* module, PyObject* args);
PyObject* slFfiPublish(PyObject* module, PyObject* args);
PyObject* slFfiAddresses(PyObject* module, PyObject* capsule);
PyObject* slFfiRunning(PyObject* module, PyObject* capsule);
PyObject* slFfiRefused(PyObject* module, PyObject* capsule);
PyObject* slFfiTorchRegister(PyObject* module, PyObject* args);
PyObject* slFfiTorchUnregister(PyObject* module, PyObject* address);
PyObject* slFfiTvmGlobal(PyObject* module, PyObject* args);
PyObject* slFfiLayouts(PyObject* module, PyObject* capsule);

#pragma GCC visibility pop

#endif  // STRAIGHTLINE_PYTHON_CALLABLE_H
