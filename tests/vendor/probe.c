// SPDX-License-Identifier: Apache-2.0
// A plug-in with one kernel, relu, whose run writes into its handle and fails where another run is
// using that. With -DFAULT_X it has one fault each; without, none. Tests compile it
// (tests/run/plugins.py, tests/python/plugin_check_test.py).
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "straightline/abi/plugin.h"

#define EXPORT __attribute__((visibility("default")))
#ifndef BACKEND
#define BACKEND "probe"
#endif
#ifndef SYMBOL
#define SYMBOL BACKEND
#endif
#ifndef KERNEL
#define KERNEL BACKEND ".relu"
#endif

typedef struct {
  atomic_int busy;
  int64_t count, left;  ///< of the run that goes on
  float* to;
  int32_t dynamic;
} Handle;

static atomic_int plansMade, handlesAlive, failsAfter = -1;
/// How many handles were made, how many there are.
EXPORT int32_t probe_plans(void) { return atomic_load(&plansMade); }
EXPORT int32_t probe_handles(void) { return atomic_load(&handlesAlive); }
/// All plans but the next `count` fail; -1: none does.
EXPORT void probe_fail_after(int32_t count) { atomic_store(&failsAfter, count); }

EXPORT int32_t sl_probe_plan(sl_ctx* ctx, const sl_problem* problem, const void* const* constants,
                             void** handle) {
  (void)ctx, (void)constants;
#ifdef FAULT_PLAN_FAILS
  return sl_plugin_fail(ctx, SL_UNSUPPORTED, "the probe makes no plans");
#endif
  if (atomic_load(&failsAfter) == 0) {
    return SL_OUT_OF_MEMORY;
  }
  if (atomic_load(&failsAfter) > 0) {
    atomic_fetch_sub(&failsAfter, 1);
  }
  Handle* made = calloc(1, sizeof(Handle));
  made->count = 1;
  const sl_operand* x = sl_operand_at(problem, 0);
  for (int32_t dim = 0; dim < x->rank; ++dim) {
    if (x->extents[dim] == SL_DYNAMIC) {
      made->dynamic = 1;
    } else {
      made->count *= x->extents[dim];
    }
  }
#ifdef FAULT_LEAK
  void* lost = malloc(256);
  memset(lost, 1, 256);
#endif
  atomic_fetch_add(&plansMade, 1);
  atomic_fetch_add(&handlesAlive, 1);
  *handle = made;
  return SL_OK;
}

EXPORT void sl_probe_plan_destroy(void* handle) {
  atomic_fetch_sub(&handlesAlive, 1);
  free(handle);
}

EXPORT int32_t sl_probe_relu(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs,
                             void* const* outputs, void* workspace) {
  (void)ctx, (void)team, (void)workspace;
  Handle* own = handle;
  if (atomic_exchange(&own->busy, 1)) {
    return SL_INTERNAL;  // another run is using it
  }
  const float* x = inputs[0];
  const int64_t count = own->dynamic ? own->count * ((const int64_t*)inputs[1])[0] : own->count;
  own->to = outputs[0];
  for (own->left = count; own->left > 0; --own->left) {
    const int64_t i = count - own->left;
    own->to[i] = x[i] < 0 ? 0 : x[i];
  }
#ifdef FAULT_WRONG
  own->to[count / 2] += 0.01F;
#endif
#ifdef FAULT_READS_BEHIND
  own->to[0] += 0 * x[count + 3];
#endif
#ifdef FAULT_READS_BEFORE
  own->to[0] += 0 * x[-1];
#endif
#ifdef FAULT_WRITES_BEHIND
  memset(own->to + count, 1, 1);
#endif
#ifdef FAULT_CHANGES_INPUT
  *(float*)inputs[0] = 5;
#endif
#ifdef FAULT_OTHER_BITS
  static atomic_int runs;
  own->to[0] += 1e-7F * (float)(atomic_fetch_add(&runs, 1) % 7);
#endif
  struct timespec pause = {0, 20000};
  nanosleep(&pause, NULL);
  atomic_store(&own->busy, 0);
  return SL_OK;
}

__attribute__((unused)) static int32_t acceptsFloat(const sl_problem* problem, char* reason,
                                                    size_t bytes) {
#ifdef FAULT_SILENT
  (void)reason, (void)bytes;
  return 0;
#endif
#ifdef FAULT_ODD_ANSWER
  return 7;
#endif
#ifdef FAULT_CRASH
  *(volatile int*)0 = 1;
#endif
#ifdef FAULT_CHANGES_ITS_MIND
  static int asked;
  if (++asked % 2 == 0) {
    snprintf(reason, bytes, "asked %d times, it takes odd ones", asked);
    return 0;
  }
#endif
  const sl_operand* x = sl_operand_at(problem, 0);
  if (x->rank > 4) {
    snprintf(reason, bytes, "x has rank %d, it takes at most 4", x->rank);
    return 0;
  }
  for (int32_t dim = 1; dim < x->rank; ++dim) {
    if (x->extents[dim] == SL_DYNAMIC) {
      snprintf(reason, bytes, "dim %d is known in a call only, it takes that of dim 0", dim);
      return 0;
    }
  }
  return 1;
}

static double cost(const sl_problem* problem) {
  (void)problem;
#ifdef FAULT_COST_NAN
  return __builtin_nan("");
#elif defined FAULT_COST_NEGATIVE
  return -1;
#else
  return 500;  // of a call that is worth letting other threads of Python run
#endif
}

#ifdef FAULT_WORKSPACE_NEGATIVE
static int64_t workspace(const sl_problem* problem) {
  (void)problem;
  return -8;
}
#endif

#ifdef FAULT_UNLOAD
__attribute__((destructor)) static void end(void) { abort(); }
#endif

static const sl_operand_facts kFacts[] = {
    {"x", SL_TYPE_F32, 0, SL_LAYOUT_ROW_MAJOR, 0, 0, 0},
    {"y", SL_TYPE_F32, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OUTPUT, 0}};
static const sl_calling_rule kRule = {sizeof(sl_calling_rule), NULL, 0, 0};

#define DESCRIBED                                      \
  {                                                    \
      .size = sizeof(sl_kernel_desc),                  \
      .name = KERNEL,                                  \
      .backend = BACKEND,                              \
      .op = "relu",                                    \
      .family = "",                                    \
      .summary = "a relu that writes into its handle", \
      .accepts = ACCEPTS,                              \
      .cost = cost,                                    \
      .workspace = WORKSPACE,                          \
      .can_fail = 1,                                   \
      .whole_team = WHOLE_TEAM,                        \
      .plan_symbol = "sl_" SYMBOL "_plan",             \
      .plan = (void*)sl_probe_plan,                    \
      .run_symbol = "sl_" SYMBOL "_relu",              \
      .run = RUN,                                      \
      .destroy = DESTROY,                              \
      .properties = PROPERTIES,                        \
      .operands = kFacts,                              \
      .operand_count = 2,                              \
      .operand_stride = sizeof(sl_operand_facts),      \
      .rule = &kRule,                                  \
  }
#ifdef FAULT_NO_ACCEPTS
#define ACCEPTS NULL
#else
#define ACCEPTS acceptsFloat
#endif
#ifdef FAULT_WORKSPACE_NEGATIVE
#define WORKSPACE workspace
#else
#define WORKSPACE NULL
#endif
#ifdef FAULT_NO_RUN
#define RUN NULL
#else
#define RUN (void*)sl_probe_relu
#endif
#ifdef FAULT_NO_DESTROY
#define DESTROY NULL
#else
#define DESTROY sl_probe_plan_destroy
#endif
#ifdef FAULT_WHOLE_TEAM
#define WHOLE_TEAM 1
#else
#define WHOLE_TEAM 0
#endif
#ifdef FAULT_SHARED
#define PROPERTIES 0
#elif defined FAULT_CONCURRENT
#define PROPERTIES (SL_KERNEL_EXCLUSIVE_HANDLE | SL_KERNEL_CONCURRENT)
#else
#define PROPERTIES SL_KERNEL_EXCLUSIVE_HANDLE
#endif

__attribute__((unused)) static const char* version(void) { return "probe 1.2"; }
__attribute__((unused)) static const char* missing(void) { return "its chip is missing"; }

static const sl_kernel_desc kKernels[] = {
    DESCRIBED,
#ifdef FAULT_TWICE
    DESCRIBED,
#endif
};

__attribute__((unused)) static const sl_backend_desc kBackend = {
#ifdef FAULT_SHORT
    .size = 16,
#else
    .size = sizeof(sl_backend_desc),
#endif
#ifdef FAULT_OTHER_VERSION
    .abi_version = 99,
#else
    .abi_version = SL_KERNEL_ABI_VERSION,
#endif
#ifndef FAULT_NO_NAME
    .name = BACKEND,
#endif
#ifndef FAULT_NO_KERNELS
    .kernels = kKernels,
#endif
    .kernel_count = (int32_t)(sizeof(kKernels) / sizeof(kKernels[0])),
    .kernel_stride = sizeof(sl_kernel_desc),
    .version = version,
#ifdef MISSING
    .missing = missing,
#endif
#ifdef DEFAULT_ROUTES
    .default_routes = DEFAULT_ROUTES,
#endif
};

#ifndef FAULT_NO_ENTRY
EXPORT const sl_backend_desc* straightline_backend_v1(void) {
#ifdef FAULT_NULL
  return NULL;
#endif
  return &kBackend;
}
#endif
