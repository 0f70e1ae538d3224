// SPDX-License-Identifier: Apache-2.0
// What emitted code sees: the call context, a team of threads, the bindings of one call, and the
// constant description of a program (buffers, statements, entry points). C ABI, freestanding, no
// MLIR, no framework.
//
// Versioning: every struct that crosses the boundary starts with its own size, so that it can grow
// at its end. SL_ABI_VERSION changes when a field changes meaning; the loader refuses another
// version with both numbers.
#ifndef STRAIGHTLINE_ABI_ENTRY_H
#define STRAIGHTLINE_ABI_ENTRY_H

#include "straightline/abi/types.h"

#define SL_ABI_VERSION 8

#ifdef __cplusplus
extern "C" {
#endif

/// Status codes. Each belongs to one of the kinds of CONTRIBUTING.md (user, unsupported, internal).
typedef enum sl_status {
  SL_OK = 0,
  /// user: an argument does not match what was compiled (ValueError / TypeError)
  SL_INVALID_ARGUMENT = 1,
  SL_INDEX_ERROR = 2,    ///< user: an index in the data is out of range (IndexError)
  SL_ZERO_DIVISION = 3,  ///< user: integer division by zero (ZeroDivisionError)
  /// user: a `check` statement of the program does not hold (RuntimeError)
  SL_CHECK_FAILED = 4,
  SL_OUT_OF_MEMORY = 5,  ///< sizes are in the message (MemoryError)
  SL_CANCELLED = 6,      ///< the caller's cancel flag was seen
  SL_UNSUPPORTED = 7,    ///< no kernel or backend for this (UnsupportedError)
  SL_INTERNAL = 8,       ///< ours: a bug (InternalError)
  /// user: an op of a framework or a library refused its data; `text` has its message (OpError)
  SL_OP_FAILED = 9,
  /// a device's driver reported an error; `text` has its message (DeviceError)
  SL_DEVICE_ERROR = 10
} sl_status;

#define SL_FAILURE_TEXT_BYTES 768

/// Context of one call. Owned by the caller, lives as long as the call; shared by all threads of
/// the team. `status` holds the first failure (set by sl_fail through an atomic compare-exchange;
/// later failures are dropped).
typedef struct sl_ctx {
  uint64_t size;      ///< sizeof(sl_ctx) as the caller knew it
  int32_t status;     ///< sl_status; atomic
  int32_t statement;  ///< index in the statement table of the first failure, -1 when none
  /// numbers for the message (for SL_INDEX_ERROR: index, lowest, highest allowed)
  int64_t detail[4];
  /// nullable; nonzero asks the program to stop at the next statement boundary
  const int32_t* cancel;
  /// nullable; called by thread 0 only
  void (*profile)(void* user, int32_t statement, int32_t begin);
  void* profile_user;
  /// a library's message for the first failure (sl_fail_text), "" when there is none; terminated
  char text[SL_FAILURE_TEXT_BYTES];
  /// number of the program's device; set by the runtime, 0 on the host
  int32_t device;
  /// 1: a kernel may be started before its predecessor has ended, where both wait by themselves
  /// (sl_device_code.waits); set by the runtime, for a run. 0: it may not, as in prepare, where a
  /// kernel may read early what another one writes.
  int32_t overlap;
  /// with `overlap`: the queue on which such a kernel is the last enqueued work, a pointer of its
  /// backend; NULL: none
  const void* behind;
} sl_ctx;

/// State shared by the threads of one team; emitted code uses it in barriers only. `arrive` has one
/// slot per thread, 128 bytes from one to the next. `yield` is called after a spin of about 2,000
/// rounds.
typedef struct sl_team_shared {
  uint64_t size;
  /// arrive[index * 32] counts the barriers that thread `index` has reached; atomic
  uint32_t* arrive;
  void (*yield)(void);
  /// A barrier for all threads after thread 0 has called a library that has threads of its own: the
  /// other threads spin for some 20 us and then sleep, so that the library's threads have the
  /// processors. Every thread returns the `failed` that thread 0 passed.
  int32_t (*sync_after_library)(struct sl_team_shared* shared, int32_t index, int32_t failed);
} sl_team_shared;

/// A team of threads that runs one program together. Passed by value in two registers. A team of
/// one has index 0, size 1 and may have shared == NULL.
typedef struct sl_team {
  sl_team_shared* shared;
  int32_t index;
  int32_t size;
} sl_team;

/// The arguments of one call, in the order of the program description. The caller owns the arrays.
typedef struct sl_bindings {
  uint64_t size;
  /// parameters then states: framework storage, by `sl_buffer.index`
  const void* const* parameters;
  /// prepared data of the Weights, one base pointer per memory space
  void* const* prepared;
  void* const* handles;  ///< library handles made by prepare, by `sl_buffer.index`
  void* const* arenas;   ///< the Frame's arenas, one base pointer per memory space
  void* const* inputs;   ///< data pointers
  void* const* outputs;  ///< data pointers (fresh outputs only; aliases have none)
  /// values of the named extents, by index; a run writes those that it computes (sl_extent.bound).
  /// Version 8 is the first in which it does.
  int64_t* extents;
  /// sl_queue*, by index in the program description; queues[0] is the caller's team
  void* const* queues;
  /// the devices' handles of sl_entry.code, by index in sl_program_desc.entries; NULL: no entry has
  /// code
  void* const* kernels;
} sl_bindings;

typedef int32_t (*sl_entry_fn)(sl_ctx* ctx, sl_team team, const sl_bindings* bindings);

/// Any entry behind one signature: unpacks the arguments and calls it. Devices, the interpreter and
/// Python call kernels through it.
typedef void (*sl_thunk_fn)(sl_ctx* ctx, sl_team team, void* const* pointers,
                            const int64_t* scalars);

/// Roles of a buffer. A parameter is never written while `run` runs.
typedef enum sl_role {
  SL_ROLE_PARAMETER = 0,  ///< framework storage, read only
  /// framework storage that the program updates in place (a mutated module buffer)
  SL_ROLE_STATE = 1,
  SL_ROLE_PREPARED = 2,  ///< written by prepare, read only in run; owned by the Weights
  SL_ROLE_HANDLE = 3,    ///< a library object made by prepare
  SL_ROLE_INPUT = 4,
  SL_ROLE_OUTPUT = 5,
  SL_ROLE_ARENA = 6,
  SL_ROLE_VIEW = 7,      ///< shares the storage of `base` (an offset, no code)
  SL_ROLE_CONSTANT = 8,  ///< literal data inside the program
  SL_ROLE_RUNTIME = 9    ///< made by a run-time `alloc`
} sl_role;

/// A DLPack data type (code as in DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool).
typedef struct sl_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} sl_dtype;

/// Integer expression over the named extents, in reverse Polish form: a sequence of (op, value)
/// pairs. op 'c' pushes the constant `value`, 's' pushes extent number `value`, '+', '*', '/', '%'
/// (floor) combine the top two, 'M' takes the maximum of the top two. `count` pairs. A static
/// extent is one 'c'. Only in sl_statement.scalars: 'v' pushes the scalar that statement number
/// `value` made (SIZE, SCALAR, or the counter of a FOR; a RECORD's event). Scalars travel as bits:
/// a float in the low bytes, a bool as zero or not.
typedef struct sl_expr_step {
  int64_t op;
  int64_t value;
} sl_expr_step;
typedef struct sl_expr {
  const sl_expr_step* steps;
  int64_t count;
} sl_expr;

typedef struct sl_buffer {
  uint64_t size;
  const char* name;  ///< name in the emitted text
  /// framework name (parameter, input, output) or "" ; owned by the program
  const char* source;
  int32_t role;   ///< sl_role
  int32_t space;  ///< index of the memory space
  /// position within its role (parameters+states, handles, inputs, outputs), -1 otherwise
  int32_t index;
  int32_t base;  ///< for views: the buffer whose storage it shares, -1 otherwise
  sl_dtype dtype;
  int32_t rank;
  const sl_expr* extents;  ///< [rank]
  const sl_expr* strides;  ///< [rank], elements
  sl_expr offset;          ///< bytes from the start of its storage (arena, prepared, base)
  sl_expr bytes;           ///< bytes of storage it owns, 0 for views
  /// bytes of its own storage before element 0 (a border), part of `offset`
  sl_expr lead;
} sl_buffer;

typedef enum sl_statement_kind {
  SL_STATEMENT_LAUNCH = 0,
  SL_STATEMENT_CALL,
  SL_STATEMENT_COPY,
  SL_STATEMENT_BARRIER,
  SL_STATEMENT_RECORD,
  SL_STATEMENT_WAIT,
  SL_STATEMENT_CHECK,
  SL_STATEMENT_ALLOC,
  SL_STATEMENT_VIEW,
  SL_STATEMENT_SIZE,
  SL_STATEMENT_IF,
  SL_STATEMENT_FOR,
  SL_STATEMENT_WHILE,
  SL_STATEMENT_ELSE,
  SL_STATEMENT_DO,
  SL_STATEMENT_END,
  SL_STATEMENT_RETURN,
  SL_STATEMENT_SCALAR,
  SL_STATEMENT_EXTENT
} sl_statement_kind;

/// One line of the program as data: what an interpreter, a profiler or an artifact loader reads.
/// What stands in operands and scalars, by kind:
///   LAUNCH, CALL  operands of the entry in its order (a CALL's handle first); scalars of the entry
///   COPY          source, destination; bytes
///   WAIT          -; the RECORD's number as 'v'
///   CHECK, IF, DO -; the condition (DO stands between the two regions of a WHILE)
///   ALLOC         cell, buffer; bytes
///   VIEW          base, buffer; bytes from the base's element 0. Only views whose offset holds
///                 index values have a line.
///   SIZE          -; the value
///   FOR           -; lower, upper, step
///   SCALAR        "kernel.load": buffer; indices. Else an entry of kind SL_ENTRY_SCALAR: -; its
///                 operands
///   EXTENT        -; the value, the number of the extent that gets it
///   RETURN        the results
typedef struct sl_statement {
  uint64_t size;
  int32_t kind;             ///< sl_statement_kind
  int32_t queue;            ///< index of the queue
  int32_t phase;            ///< 0 prepare, 1 run
  int32_t team;             ///< 1: thread 0 alone, 0: the whole team
  const char* entry;        ///< name in sl_program_desc.entries, "kernel.load", or "" for others
  const char* op;           ///< ops it came from, e.g. "linear, relu"
  const char* source;       ///< "model.fc (model.py:12)"
  const int32_t* operands;  ///< buffer numbers, inputs then outputs
  int32_t inputs;           ///< how many of them are inputs
  int32_t outputs;
  const sl_expr* scalars;  ///< run-time scalars in call order
  int32_t scalar_count;
} sl_statement;

typedef enum sl_argument_role {
  SL_ARGUMENT_INPUT = 0,
  SL_ARGUMENT_OUTPUT = 1,
  SL_ARGUMENT_READWRITE = 2,  ///< an output that is read as well
  SL_ARGUMENT_WORKSPACE = 3,
  /// a library object; for SL_ENTRY_PLAN the place that receives it
  SL_ARGUMENT_HANDLE = 4,
  SL_ARGUMENT_VALUE = 5  ///< of SL_ENTRY_SCALAR: an operand, passed as bits in `scalars`
} sl_argument_role;

/// One argument of an entry, in the order of the thunk's pointers. Extents and strides as those of
/// a buffer. A rank of -1, of SL_ENTRY_KERNEL alone: statements give the kernel buffers of several
/// sizes, strides or ranks here, and those of a call are its buffers'. Version 7 is the first with
/// this rank.
typedef struct sl_argument {
  uint64_t size;
  const char* name;
  int32_t role;  ///< sl_argument_role
  int32_t space;
  sl_dtype dtype;
  int32_t rank;            ///< -1: of any rank and sizes
  const sl_expr* extents;  ///< [rank], null when there are none
  const sl_expr* strides;  ///< [rank], elements
} sl_argument;

typedef enum sl_entry_kind {
  SL_ENTRY_KERNEL = 0,  ///< an emitted kernel: inputs, outputs, workspace
  /// a library's entry: its handle where it has one, inputs, outputs, workspace
  SL_ENTRY_EXTERNAL = 1,
  SL_ENTRY_PLAN = 2,  ///< makes a library's handle: constant inputs, then the handle
  /// arithmetic between statements: pointers[0] receives the result (8 bytes), operands are scalars
  SL_ENTRY_SCALAR = 3
} sl_entry_kind;

/// Machine code of one emitted unit for a device. Lives as long as the program.
typedef struct sl_device_image {
  uint64_t size;
  const void* data;
  uint64_t bytes;
  /// CUDA version of the compiler that made it, as the driver counts: 13050 is 13.5; 0: unknown
  int32_t compiler;
} sl_device_image;

/// How many parameters machine code of a user may have.
#define SL_MAX_DEVICE_PARAMETERS 256
/// What a parameter of a user's own machine code gets: 8 bytes, of which the kernel reads as many
/// as its parameter has.
typedef struct sl_device_parameter {
  /// 's' is here an argument of the entry by number: an address, or a scalar behind the addresses
  sl_expr value;
  int64_t alignment;  ///< the value is a multiple of it; otherwise the launch is an error
} sl_device_parameter;

/// What a launch has beside the arguments of its entry: that of machine code that a user gave, or
/// of an emitted kernel that takes dynamic shared memory, whose parameters are the arguments.
typedef struct sl_own_code {
  uint64_t size;
  const sl_device_parameter* parameters;  ///< in the kernel's order
  int32_t parameter_count;
  int32_t shared_bytes;  ///< of a block, in addition to what the kernel declares
  /// of the grid, over the arguments as those of a parameter
  sl_expr blocks_y, blocks_z;
  /// 1: blocks of the grid wait for each other, so all of them run at once or the launch fails.
  /// Version 8 grew by it: a description that ends before it has 0.
  int32_t cooperative;
} sl_own_code;

/// A kernel that runs on a device and not on the host: a grid of blocks of threads.
typedef struct sl_device_code {
  uint64_t size;
  const char* symbol;  ///< the kernel's name in the image
  const sl_device_image* image;
  sl_expr blocks;
  int32_t threads;  ///< of one block
  /// addresses and int64_t scalars in the order of the entry, 8 bytes each
  int32_t argument_count;
  /// 1: touches what a run writes only after it has waited for the kernel before it
  /// (griddepcontrol.wait)
  int32_t waits;
  /// NULL: the parameters are the arguments in their order, and there is no dynamic shared memory.
  /// Version 8 grew by it: a description that ends before it has none.
  const sl_own_code* own;
} sl_device_code;

/// What statements call, by name.
/// The backend of an entry that is a user's own function and called in each run, between two
/// graphs.
#define SL_OWN_OUTSIDE_BACKEND "own_outside"

typedef struct sl_entry {
  uint64_t size;
  const char* name;
  const char* backend;  ///< "native", "onednn", ..., "scalar"
  int32_t kind;         ///< sl_entry_kind
  int32_t can_fail;     ///< 1: ctx->status is tested after it
  const sl_argument* arguments;
  int32_t argument_count;
  /// names of the run-time scalars (none for SL_ENTRY_SCALAR)
  const char* const* scalars;
  int32_t scalar_count;
  double cost_us;              ///< estimated time of its slowest call, 0 when unknown
  sl_thunk_fn thunk;           ///< NULL when there is `code`
  const sl_device_code* code;  ///< nullable
} sl_entry;

typedef struct sl_extent {
  uint64_t size;
  const char* name;
  int64_t min;
  int64_t max;
  /// without steps: inputs have it among their sizes. Else a statement computes it, and it is
  /// at most this, an expression over extents that inputs have.
  sl_expr bound;
} sl_extent;

/// A result of the program in the order that the user sees: a fresh output, or a view of something
/// that outlives the call (an input, parameter or state), to be handed over as a view that keeps it
/// alive.
/// root: buffer number of the storage's owner
typedef struct sl_result {
  uint64_t size;
  int32_t buffer;
  int32_t root;
} sl_result;

/// Constant description of a program: everything the runtime needs, emitted beside the code.
/// `sl_program` is the symbol that a compiled unit exports.
typedef struct sl_program_desc {
  uint64_t size;
  uint32_t abi_version;
  const char* name;
  const char* target;   ///< text of #kernel.target
  sl_entry_fn prepare;  ///< nullable when there is nothing to prepare
  sl_entry_fn run;
  const sl_buffer* buffers;
  int32_t buffer_count;
  const sl_statement* statements;
  int32_t statement_count;
  const sl_extent* extents;
  int32_t extent_count;
  const sl_result* results;
  int32_t result_count;
  const char* const* spaces;
  int32_t space_count;  ///< spaces[0] is "host"
  /// backend of each queue; queues[0] is "cpu"
  const char* const* queues;
  int32_t queue_count;
  const sl_expr* arena_bytes;            ///< [space_count]: arena of one run
  const sl_expr* scratch_bytes;          ///< [space_count]: arena of one prepare
  const sl_expr* prepared_bytes;         ///< [space_count]
  void (*const* destroy_handle)(void*);  ///< [number of handles]
  int32_t parameter_count;               ///< parameters and states together
  int32_t handle_count, input_count, output_count;
  int32_t threads;  ///< team size planned for
  /// the entries that statements name; none: the program cannot be interpreted
  const sl_entry* entries;
  int32_t entry_count;
  /// literal data of the buffers of role CONSTANT, by `sl_buffer.index`
  const void* const* constants;
  double estimated_us;  ///< of a run by `threads` threads; 0: unknown
  // From here on a description may be shorter: it was compiled before these fields were there.
  /// What messages advise, in the words of the front end that the program came by. Where a fixed
  /// size is another: a whole clause ("pass an example of this size to sl.compile, or mark the dim
  /// with torch.export.Dim"). Where a named size is outside of its bounds: what stands before "with
  /// a larger max to sl.compile". Both null: it came by no front end and has no examples.
  const char* fixed_size_advice;
  const char* size_bounds_advice;
} sl_program_desc;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_ENTRY_H
