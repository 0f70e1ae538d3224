// SPDX-License-Identifier: Apache-2.0
// The compiler's C ABI: what libstraightline_compiler.so exports. Front ends build or parse a
// module of the `op` dialect and compile it; the result is a program of the runtime
// (straightline.h) plus everything a person may want to read about it.
//
// Errors: each function that can fail returns sl_error_kind and, when it is not SL_ERROR_NONE,
// hands an sl_text to `error` (never NULL), which the caller releases. Nothing throws across this
// boundary. `error` itself may not be NULL. Threads: one object is used by one thread at a time;
// different objects from any threads. Getters of a compilation are const and may run concurrently
// where they say so. Strings are UTF-8, borrowed for the call, zero-terminated unless a size goes
// along.
#ifndef STRAIGHTLINE_TOOLS_COMPILER_ABI_H
#define STRAIGHTLINE_TOOLS_COMPILER_ABI_H

#include "straightline/abi/straightline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_text sl_text;                ///< an owned string
typedef struct sl_module sl_module;            ///< an MLIR context with one module
typedef struct sl_builder sl_builder;          ///< a module in the making
typedef struct sl_compilation sl_compilation;  ///< a compiled module
typedef struct sl_library sl_library;          ///< a model's library in the making
typedef struct sl_linked sl_linked;            ///< code linked to be loaded elsewhere

typedef enum sl_error_kind {
  SL_ERROR_NONE = 0,
  SL_ERROR_USER = 1,         ///< the input is wrong (malformed module, unknown option)
  SL_ERROR_UNSUPPORTED = 2,  ///< right, but beyond what Straightline does
  /// a bug of ours; the message names files that keep what is needed to reproduce it
  SL_ERROR_INTERNAL = 3
} sl_error_kind;

SL_API const char* sl_text_data(const sl_text* text);  ///< zero-terminated, valid until release
SL_API size_t sl_text_size(const sl_text* text);       ///< bytes without the zero
SL_API void sl_text_release(sl_text* text);            ///< NULL is fine

/// "straightline 0.1.0, LLVM 22.1.8, host cpu znver4"; lives as long as the process.
SL_API const char* sl_compiler_version(void);

// Modules -----------------------------------------------------------------------------------------

/// Parses and verifies MLIR assembly or bytecode. `name` stands for the file in messages. A
/// malformed module is a user error.
SL_API int32_t sl_module_parse(const char* text, size_t bytes, const char* name, sl_module** out,
                               sl_text** error);

#define SL_PRINT_LOCATIONS 1u  ///< with loc(...) on each op
#define SL_PRINT_GENERIC 2u    ///< generic form
#define SL_PRINT_ELIDE 4u      ///< large constants as ...: for people, does not parse back
SL_API sl_text* sl_module_print(const sl_module* module, uint32_t flags);
/// What the module reads beside its inputs, as JSON: [{"name", "kind": "parameter" or "state",
/// "type": "f32", "shape": [..]}], a name once, in order of appearance, with "strides" where they
/// are not row-major; a size that is no number is text.
SL_API sl_text* sl_module_parameters(const sl_module* module);
/// The name of number `i` of them; NULL when there are fewer.
SL_API sl_text* sl_module_parameter_name(const sl_module* module, int32_t i);
/// A copy with numbers ("name=number") in place of named sizes. User error: a name that is not
/// there or whose size depends on data, a number beyond its bounds.
SL_API int32_t sl_module_with_sizes(const sl_module* module, const char* const* sizes,
                                    int32_t count, sl_module** out, sl_text** error);
SL_API void sl_module_release(sl_module* module);

// Builder -----------------------------------------------------------------------------------------
// Builds one module with one function, in program order. Values are numbers that the builder gives
// out, from 0. The ops are not verified before sl_builder_finish. Types and attributes are MLIR
// assembly ("tensor<1x64xf32>", "2 : i64"). After an error only sl_builder_release may follow.

typedef struct sl_location {
  const char* module;  ///< module path ("layers.0.fc"); NULL or "" when unknown
  const char* file;    ///< base name of the source file; NULL or "" when unknown
  int32_t line;
  /// the framework's op that the op is captured from ("add.Tensor"), for rules of `routes` that
  /// name it; NULL or "": none
  const char* overload;
} sl_location;

SL_API sl_builder* sl_builder_create(void);
SL_API void sl_builder_release(sl_builder* builder);
/// The calls that follow are a user's, not a front end's of ours: what is wrong with them is a user
/// error, and compiling checks the module as it checks one that was parsed.
SL_API void sl_builder_set_user(sl_builder* builder);

/// Declares a named extent with inclusive bounds, before the function begins.
SL_API int32_t sl_builder_symbol(sl_builder* builder, const char* name, int64_t min, int64_t max,
                                 sl_text** error);

/// Attributes given before it (sl_builder_attribute with a position as name, "#op.dims<[..]>" as
/// text) are the strides of arguments that are not row-major; one named "op.size_advice" is the
/// function's: an array of two strings, as `fixed_size_advice` and `size_bounds_advice` of
/// sl_program_desc. Begins the function; the values of its arguments go to `values` [count]. Each
/// argument carries its name as op.name.
SL_API int32_t sl_builder_begin_function(sl_builder* builder, const char* name,
                                         const char* const* argument_names,
                                         const char* const* argument_types, int32_t count,
                                         int32_t* values, sl_text** error);

/// Attributes of the next op. The dense form takes row-major little-endian elements; i1 has a byte
/// of 0 or 1 each.
SL_API int32_t sl_builder_attribute(sl_builder* builder, const char* name, const char* text,
                                    sl_text** error);
SL_API int32_t sl_builder_attribute_string(sl_builder* builder, const char* name, const char* value,
                                           size_t bytes, sl_text** error);
SL_API int32_t sl_builder_attribute_dense(sl_builder* builder, const char* name, const char* type,
                                          const void* data, size_t bytes, sl_text** error);

/// Appends an op and writes its results' values to `results` [result_count]. `segments` (NULL:
/// none) are its operandSegmentSizes; the op takes the last `regions` regions that were ended and
/// not yet taken, in order.
SL_API int32_t sl_builder_op(sl_builder* builder, const char* name, const int32_t* operands,
                             int32_t operand_count, const char* const* result_types,
                             int32_t result_count, const int32_t* segments, int32_t segment_count,
                             int32_t regions, const sl_location* location, int32_t* results,
                             sl_text** error);

/// Begins a region of a later op; values from outside stay visible in it. Regions nest.
SL_API int32_t sl_builder_begin_region(sl_builder* builder, const char* const* argument_types,
                                       int32_t count, int32_t* values, sl_text** error);
/// Ends it with op.yield of `yields`.
SL_API int32_t sl_builder_end_region(sl_builder* builder, const int32_t* yields, int32_t count,
                                     const sl_location* location, sl_text** error);

/// Ends the function. `names` are the op.name of each result, `ties` its op.tie ("input:NAME",
/// "state:NAME"), "alias:TIE" for a view of what the result with that tie writes (op.alias), or
/// NULL.
SL_API int32_t sl_builder_end_function(sl_builder* builder, const int32_t* values,
                                       const char* const* names, const char* const* ties,
                                       int32_t count, sl_text** error);

/// Verifies the module and hands it over; the builder is empty afterwards and only good for
/// release. A module that does not verify is an internal error (the front end built it wrongly)
/// that names the file where its text is kept.
SL_API int32_t sl_builder_finish(sl_builder* builder, sl_module** out, sl_text** error);

// Compilation -------------------------------------------------------------------------------------

/// The progress of a compilation, for display. Zeroed by the caller; the compilation writes it with
/// relaxed atomic stores, and any thread may read it. Any thread may set `stop`: the compilation
/// then ends with a user error when the units that are being compiled are done.
typedef struct sl_progress {
  uint64_t size;       ///< sizeof(sl_progress)
  int32_t stage;       ///< 0: not begun, then SL_STAGE_*
  int32_t units_done;  ///< of `units`, when the stage is SL_STAGE_UNITS
  int32_t units;
  int32_t stop;  ///< nonzero, stored atomically by the caller: stop
} sl_progress;

enum { SL_STAGE_PASSES = 1, SL_STAGE_UNITS = 2 };

typedef enum sl_switch { SL_SWITCH_DEFAULT = 0, SL_SWITCH_ON = 1, SL_SWITCH_OFF = 2 } sl_switch;

typedef struct sl_pair {
  const char* key;
  const char* value;
} sl_pair;

/// What tests and the measuring of candidates ask of a compilation; nothing here is promised from
/// one version to the next. All zero: nothing.
typedef struct sl_internal_options {
  uint64_t size;  ///< sizeof(sl_internal_options)
  /// more than 1: so many kernels are compiled, and kept in the disk cache, as one unit: less work
  /// for clang, but programs share fewer units
  int32_t kernels_per_unit;
  int32_t list_candidates;  ///< 1: `explain` lists what there is to measure
  int32_t profile;          ///< 1: emitted statements tell when they begin and end
  int32_t poison;           ///< 1: arena slots are filled with NaN before their first use
  int32_t every_branch;     ///< 1: every chain becomes a branch, whatever the estimates say
  int32_t choice_count;
  const sl_pair* choices;      ///< key of a contraction, text of the candidate to take
  const char* prefer;          ///< backend whose kernels are taken wherever they accept
  const char* device_backend;  ///< backend on whose device all statements run
  int32_t links;               ///< 1: sl_compilation_links says what became of each op
  int32_t passes;              ///< 1: sl_compilation_passes has the module after each pass
  /// 1: prepared data is shared by several programs, compiled one after the other: `explain` lists
  /// its buffers as `prepared`, and what is in `prepared` is made by a program before this one
  int32_t shares_prepared;
  int32_t prepared_count;
  const char* const* prepared;  ///< "DIGEST SPACE OFFSET BYTES" of each buffer
} sl_internal_options;

/// All zero but `size`: every option has its default. A caller's struct may be shorter (what it
/// lacks has its default) or longer (what is not known here must be zero) than this library's.
typedef struct sl_compile_options {
  uint64_t size;  ///< sizeof(sl_compile_options)
  /// NULL, "" or "host": this machine; else an LLVM CPU or level ("x86-64-v3")
  const char* cpu;
  const char* target;  ///< NULL, "" or "cpu"; or a device, "cuda:sm_90"
  int32_t threads;     ///< team size to plan for; 0: 1
  /// more than `threads`: if one call of the program for `threads` is estimated to take more than
  /// `team_from_us`, the program is planned for a larger team, with one thread for each half of
  /// `team_from_us` in that estimate and at most `team` threads; decided before compilation
  int32_t team;
  double team_from_us;  ///< microseconds; see `team`
  /// number of the device, where the program is for one: it changes nothing that is compiled
  int32_t device;
  /// 1: stop after emission: there is no program, and any CPU may be named
  int32_t emit_only;
  int32_t freeze;  ///< sl_switch, default on: parameters are constant between two `prepare`
  /// sl_switch, default on: a device's graph may run long branches concurrently
  int32_t concurrent_branches;
  int32_t winograd;    ///< sl_switch, default on: convolutions may be Winograd's
  int32_t cache;       ///< sl_switch, default on: read and write the disk cache
  const char* launch;  ///< NULL or "": choose; "stream" or "graph"
  /// which products of float32 a device may round to TF32: NULL or "": none; "convolution",
  /// "matmul" or "convolution+matmul"
  const char* tf32;
  const char* const* allow;  ///< backends that kernels may come from; NULL: all
  int32_t allow_count;
  int32_t route_count;
  /// rules: "[where :] op", and "target[, target ...]"; or NULL, and the path of a file of rules
  const sl_pair* routes;
  sl_progress* progress;                ///< NULL: nobody looks
  const sl_internal_options* internal;  ///< NULL: nothing
  /// 1: tensors of a program for a device of a plug-in are in host memory; each run copies them to
  /// the device and its results back. 0: they are on the device
  int32_t host_edges;
  /// how many of `routes`, the last ones, are the targets of slots: messages name `slots`
  int32_t slot_rules;
} sl_compile_options;

/// What a front end asks of a target ("cpu", "cuda:sm_90"; "": the default one) before it chooses
/// the ops of a graph: `out` is a JSON object of names and values (tools/target_facts.h), which the
/// caller releases. User error: there is no such target.
SL_API int32_t sl_target_facts(const char* target, sl_text** out, sl_text** error);

/// The nearest problem that the target's kernels take of: the first `k` elements, in order, of each
/// of `rows` rows of `count` elements of `element_bytes` bytes (sort: k == count). Empty: this one.
SL_API int32_t sl_target_nearest_topk(const char* target, int64_t rows, int64_t count, int64_t k,
                                      int64_t element_bytes, sl_text** out, sl_text** error);

/// Whether these options can be honoured here, as sl_compile would say it: a user error names the
/// option, the value given and what is valid. Looks at no module and at no environment.
SL_API int32_t sl_compile_options_check(const sl_compile_options* options, sl_text** error);

/// Compiles a module, which stays as it was. `options` NULL: all defaults. May block for seconds;
/// call it without interpreter locks.
SL_API int32_t sl_compile(const sl_module* module, const sl_compile_options* options,
                          sl_compilation** out, sl_text** error);
SL_API void sl_compilation_release(sl_compilation* compilation);

/// The program, retained for the caller (sl_program_release); it outlives the compilation. NULL
/// after emit_only.
SL_API sl_program* sl_compilation_program(const sl_compilation* compilation);
/// The emitted text, for people: the program, then each kernel. Thread-safe, as all getters below.
SL_API sl_text* sl_compilation_code(const sl_compilation* compilation);
/// The same program as a Python module: prepare(io) and run(io) over the same kernels.
SL_API sl_text* sl_compilation_python(const sl_compilation* compilation);
/// IR at level "op" (as it came in) or "kernel" (as it was emitted); flags as for sl_module_print.
SL_API int32_t sl_compilation_ir(const sl_compilation* compilation, const char* level,
                                 uint32_t flags, sl_text** out, sl_text** error);
/// Both levels as text, and which op became which statement, as JSON (tools/links.h); "" unless the
/// internal option `links` asked for it.
SL_API sl_text* sl_compilation_links(const sl_compilation* compilation);
/// The passes that ran and the module after each, as JSON (tools/pass_texts.h); "" unless the
/// internal option `passes` asked for it.
SL_API sl_text* sl_compilation_passes(const sl_compilation* compilation);
/// Choices and sizes as JSON (docs/reference/explain.md names the fields).
SL_API sl_text* sl_compilation_explain(const sl_compilation* compilation);
/// Units of emitted text; name and text are borrowed from the compilation. `i` counts from 0.
SL_API int32_t sl_compilation_unit_count(const sl_compilation* compilation);
SL_API void sl_compilation_unit(const sl_compilation* compilation, int32_t i, const char** name,
                                const char** text);
/// Machine code for a device, each of one kernel or several; data is borrowed from the compilation.
SL_API int32_t sl_compilation_image_count(const sl_compilation* compilation);
SL_API void sl_compilation_image(const sl_compilation* compilation, int32_t i, const void** data,
                                 size_t* bytes);
/// The program's code as a shared object that stands alone and exports one symbol (abi/code.h), for
/// the CPU that it was compiled for, which need not be this machine's. What clang compiled before
/// is in the disk cache. May block for seconds.
SL_API int32_t sl_compilation_link(const sl_compilation* compilation, sl_linked** out,
                                   sl_text** error);
/// PTX of the units of a program for a device, in place of machine code and by the same names, for
/// devices that are later than its own; no code for the host.
SL_API int32_t sl_compilation_device_text(const sl_compilation* compilation, sl_linked** out,
                                          sl_text** error);
SL_API void sl_linked_release(sl_linked* linked);  ///< NULL is fine
/// The shared object; borrowed.
SL_API void sl_linked_code(const sl_linked* linked, const void** data, size_t* bytes);
/// Machine code for a device that the shared object leaves to its loader, by name; all borrowed.
SL_API int32_t sl_linked_image_count(const sl_linked* linked);
SL_API void sl_linked_image(const sl_linked* linked, int32_t i, const char** name,
                            const void** data, size_t* bytes);
/// sl_device_image.compiler of these images.
SL_API int32_t sl_linked_image_compiler(const sl_linked* linked);

/// The instructions of a function of linked code (sl_linked_code) as text, a line each. User error:
/// there is no such function.
SL_API int32_t sl_disassemble(const void* code, size_t bytes, const char* function, sl_text** out,
                              sl_text** error);

/// A library in the making, which is one model: codes in the order of its programs and variants.
/// `name` is a C identifier.
SL_API int32_t sl_library_create(const char* name, sl_library** out, sl_text** error);
SL_API void sl_library_release(sl_library* library);  ///< NULL is fine
/// Adds a compilation's code.
SL_API int32_t sl_library_add(sl_library* library, const sl_compilation* compilation,
                              sl_text** error);
/// Links the codes and an artifact without code (abi/model.h, sl_linked_model): a shared object, or
/// with `archive` a static library. Either exports sl_model_<name> alone.
SL_API int32_t sl_library_link(const sl_library* library, const void* artifact, size_t bytes,
                               int32_t archive, sl_linked** out, sl_text** error);

/// What a library has beside the model, and what it is to export: `text` is C++ over
/// abi/exported.h, `runtime` the bytes of libstraightline_runtime.so.
typedef struct sl_exported_text {
  uint64_t size;  ///< sizeof(sl_exported_text)
  const char* text;
  const char* const* exports;
  int32_t export_count;
  int32_t reserved;
  const void* runtime;
  size_t runtime_bytes;
} sl_exported_text;
/// The same as a shared object that needs libc alone and has functions for other systems.
SL_API int32_t sl_library_link_exported(const sl_library* library, const void* artifact,
                                        size_t bytes, const sl_exported_text* exported,
                                        sl_linked** out, sl_text** error);
/// C++ text for this machine as a shared object that exports `exports` and needs nothing but what
/// the process has of libc.
SL_API int32_t sl_link_text(const char* name, const char* text, const char* const* exports,
                            int32_t export_count, sl_linked** out, sl_text** error);

/// A CPU's name ("" and "host": this machine's) and the features that code for it may use
/// ("x86-64-v3 avx avx2 bmi"), as one text with blanks between; the features are those that
/// sl_cpu_has knows. User error: no such CPU.
SL_API int32_t sl_cpu_features(const char* cpu, sl_text** out, sl_text** error);

/// How many units clang compiled and how many the disk cache held.
SL_API void sl_compilation_counts(const sl_compilation* compilation, int32_t* compiled,
                                  int32_t* cached);
/// Warnings (trouble with the cache), one per line; empty as a rule.
SL_API sl_text* sl_compilation_notes(const sl_compilation* compilation);

// Timing ------------------------------------------------------------------------------------------

/// a program with parameters, inputs and results of its own
typedef struct sl_timing sl_timing;

/// Memory for a program of fixed sizes, with numbers made from `seed`. `program` is retained.
/// `by_stream`, nonzero: on a device it is launched kernel by kernel, else as a graph where it can
/// be one.
SL_API int32_t sl_timing_create(sl_program* program, uint64_t seed, int32_t by_stream,
                                sl_timing** out, sl_text** error);
/// Calls it for at least `seconds` (and twice) and gives the least microseconds of a call. Of a
/// program that was compiled with `profile`, statements that only move data into the order that
/// a kernel reads do not count.
SL_API int32_t sl_timing_run(sl_timing* timing, double seconds, double* us, sl_text** error);
SL_API void sl_timing_release(sl_timing* timing);

// Disk cache --------------------------------------------------------------------------------------

typedef struct sl_cache_info {
  uint64_t size;                   ///< sizeof(sl_cache_info) as the caller knows it
  uint64_t bytes_used, bytes_max;  ///< 0, 0 when there is no cache
  uint64_t hits, misses, damaged, stored, evicted;  ///< of this process
} sl_cache_info;

SL_API sl_text* sl_cache_directory(void);  ///< empty when there is no cache
SL_API void sl_cache_inspect(sl_cache_info* info);
SL_API uint64_t sl_cache_clear(void);  ///< how many entries it deleted

// Routes ------------------------------------------------------------------------------------------

/// The rules of some options and of the environment, those first that count first. May be used by
/// any number of threads.
typedef struct sl_route_table sl_route_table;
SL_API int32_t sl_route_table_create(const sl_compile_options* options, sl_route_table** out,
                                     sl_text** error);
SL_API void sl_route_table_destroy(sl_route_table* table);
/// JSON: [{"op": "linear", "where": "", "targets": ["native"], "by": "routes.txt:3"}, ..].
SL_API sl_text* sl_route_table_rules(const sl_route_table* table);
/// Number of the rule that decides about an op ("linear") at this place; -1: none does, or the op
/// is never routed.
SL_API int32_t sl_route_table_find(const sl_route_table* table, const char* op,
                                   const sl_location* location);

/// The backends of the registry: {"name", "version", "file", "runs_on", "space", "emits",
/// "missing", "kernels": [{"name", "op", "family", "summary"}, ..]}, texts "" where there is
/// nothing to say; "emits": its kernels are emitted; "missing": why none can run here. "version"
/// and "missing" are empty without `probes`: asking may load a vendor's library or open a device.
SL_API sl_text* sl_backends(int32_t probes);

// Tools -------------------------------------------------------------------------------------------

/// `straightline-opt`: any pass on a file, mlir-opt's command line. Returns the exit status.
SL_API int32_t sl_opt_main(int32_t argc, char** argv);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_TOOLS_COMPILER_ABI_H
