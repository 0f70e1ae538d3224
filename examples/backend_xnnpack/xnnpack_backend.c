// SPDX-License-Identifier: Apache-2.0
// XNNPACK's float32 operators as a plug-in of Straightline: linear, convolution (also depthwise and
// grouped), pools, softmax and activations. C11, built with the headers of an installed package; it
// links XNNPACK and nothing of Straightline.
//
// An operator of XNNPACK is made once (its weights are packed) and set up for the addresses of each
// run, which writes into it. So every kernel here has SL_KERNEL_EXCLUSIVE_HANDLE: the runtime gives
// runs that overlap handles of their own.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xnnpack.h>

#include "straightline/abi/plugin.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct Handle Handle;
typedef enum xnn_status (*Setup)(Handle* handle, const float* x, float* y);
struct Handle {
  xnn_operator_t op;
  Setup setup;
  size_t batch, height, width;
  /// Some operators read up to XNN_EXTRA_BYTES behind their input, where a caller's memory may end:
  /// they get a copy here. NULL: the operator reads its input where it is.
  float* copy;
  size_t copyBytes;
};

// --- problems

static int64_t intOf(const sl_problem* problem, const char* name, int64_t fallback) {
  sl_attribute found;
  return sl_plugin_attribute(problem, name, &found) ? found.value : fallback;
}

static double floatOf(const sl_problem* problem, const char* name, double fallback) {
  sl_attribute found;
  return sl_plugin_attribute(problem, name, &found) ? found.number : fallback;
}

/// The activation that the kernel does behind its own work: all results from here on.
static float leastOf(const sl_problem* problem) {
  sl_attribute found;
  const int isRelu =
      sl_plugin_attribute(problem, "activation", &found) && strcmp(found.text, "relu") == 0;
  return isRelu ? 0 : -INFINITY;
}

static size_t countOf(const sl_operand* operand) {
  size_t count = 1;
  for (int32_t dim = 0; dim < operand->rank; ++dim) {
    count *= (size_t)operand->extents[dim];
  }
  return count;
}

static int isFloat32(const sl_operand* operand) {
  return operand->dtype.code == 2 && operand->dtype.bits == 32 && operand->dtype.lanes == 1;
}

static int32_t refuse(char* reason, size_t bytes, const char* what, int64_t given, int64_t taken) {
  snprintf(reason, bytes, "%s is %lld, it takes %lld", what, (long long)given, (long long)taken);
  return 0;
}

/// What all kernels ask: float32, of sizes that are known while compiling, and not empty.
static int32_t acceptsPlain(const sl_problem* problem, char* reason, size_t bytes) {
  for (int32_t i = 0; i < problem->inputs + problem->outputs; ++i) {
    const sl_operand* operand = sl_operand_at(problem, i);
    if (!isFloat32(operand)) {
      snprintf(reason, bytes, "operand %d has %d bits of kind %d, it takes float32", i,
               operand->dtype.bits, operand->dtype.code);
      return -1;
    }
    for (int32_t dim = 0; dim < operand->rank; ++dim) {
      if (operand->extents[dim] == SL_DYNAMIC || operand->extents[dim] == 0) {
        snprintf(reason, bytes, "dim %d of operand %d is %s, it takes fixed sizes from 1 on", dim,
                 i, operand->extents[dim] == 0 ? "0" : "known in a call only");
        return 0;
      }
    }
  }
  return 1;
}

static int32_t acceptsWeights(const sl_problem* problem, char* reason, size_t bytes) {
  const int32_t plain = acceptsPlain(problem, reason, bytes);
  for (int32_t i = 1; plain == 1 && i < problem->inputs; ++i) {
    if (!sl_operand_at(problem, i)->constant) {
      snprintf(reason, bytes, "operand %d is known in a call only, it packs weights before that",
               i);
      return 0;
    }
  }
  return plain;
}

// --- plans

static int32_t planned(sl_ctx* ctx, enum xnn_status status, Handle* handle, Setup setup,
                       void** made) {
  if (status != xnn_status_success) {
    free(handle);
    return status == xnn_status_out_of_memory
               ? SL_OUT_OF_MEMORY
               : sl_plugin_fail(ctx, SL_UNSUPPORTED, "XNNPACK makes no operator of these sizes");
  }
  handle->setup = setup;
  *made = handle;
  return SL_OK;
}

/// Of an operator that reads behind its input.
static int32_t plannedOverCopy(sl_ctx* ctx, const sl_problem* problem, enum xnn_status status,
                               Handle* handle, Setup setup, void** made) {
  handle->copyBytes = countOf(sl_operand_at(problem, 0)) * sizeof(float);
  handle->copy = status == xnn_status_success ? malloc(handle->copyBytes + XNN_EXTRA_BYTES) : NULL;
  if (status == xnn_status_success && !handle->copy) {
    xnn_delete_operator(handle->op);
    status = xnn_status_out_of_memory;
  } else if (handle->copy) {
    memset((char*)handle->copy + handle->copyBytes, 0, XNN_EXTRA_BYTES);
  }
  return planned(ctx, status, handle, setup, made);
}

static Handle* newHandle(void) {
  return xnn_initialize(NULL) == xnn_status_success ? calloc(1, sizeof(Handle)) : NULL;
}

EXPORT void sl_xnnpack_destroy(void* made) {
  Handle* handle = made;
  xnn_delete_operator(handle->op);
  free(handle->copy);
  free(handle);
}

#define PLAN(name)                                                                       \
  EXPORT void sl_xnnpack_plan_##name##_destroy(void* made) { sl_xnnpack_destroy(made); } \
  EXPORT int32_t sl_xnnpack_plan_##name(sl_ctx* ctx, const sl_problem* problem,          \
                                        const void* const* constants, void** made)

static int32_t run(void* made, const void* const* inputs, void* const* outputs) {
  Handle* handle = made;
  const float* x = inputs[0];
  if (handle->copy) {
    x = memcpy(handle->copy, x, handle->copyBytes);
  }
  const enum xnn_status set = handle->setup(handle, x, outputs[0]);
  return set == xnn_status_success && xnn_run_operator(handle->op, NULL) == xnn_status_success
             ? SL_OK
             : SL_INTERNAL;
}

#define RUN(name)                                                                   \
  EXPORT int32_t sl_xnnpack_##name(sl_ctx* ctx, sl_team team, void* handle,         \
                                   const void* const* inputs, void* const* outputs, \
                                   void* workspace) {                               \
    (void)ctx, (void)team, (void)workspace;                                         \
    return run(handle, inputs, outputs);                                            \
  }

// --- linear: x [m, k], weight [n, k]

static enum xnn_status setupLinear(Handle* handle, const float* x, float* y) {
  return xnn_setup_fully_connected_nc_f32(handle->op, handle->batch, x, y, NULL);
}

PLAN(linear) {
  Handle* handle = newHandle();
  if (!handle) {
    return SL_OUT_OF_MEMORY;
  }
  const sl_operand* weight = sl_operand_at(problem, 1);
  const size_t n = (size_t)weight->extents[0], k = (size_t)weight->extents[1];
  handle->batch = countOf(sl_operand_at(problem, 0)) / k;
  return planned(ctx,
                 xnn_create_fully_connected_nc_f32(k, n, k, n, constants[1],
                                                   problem->inputs > 2 ? constants[2] : NULL,
                                                   leastOf(problem), INFINITY, 0, &handle->op),
                 handle, setupLinear, made);
}
RUN(linear)

// --- convolution: images channels last, weight [k, c / groups, kh, kw]

static enum xnn_status setupConvolution(Handle* handle, const float* x, float* y) {
  return xnn_setup_convolution2d_nhwc_f32(handle->op, handle->batch, handle->height, handle->width,
                                          x, y, NULL);
}

static int32_t acceptsConvolution(const sl_problem* problem, char* reason, size_t bytes) {
  if (intOf(problem, "transposed", 0) != 0) {
    return refuse(reason, bytes, "transposed", 1, 0);
  }
  return acceptsWeights(problem, reason, bytes);
}

PLAN(convolution) {
  Handle* handle = newHandle();
  const size_t k = (size_t)intOf(problem, "k", 0), c = (size_t)intOf(problem, "c", 0);
  const size_t groups = (size_t)intOf(problem, "groups", 1), inner = c / groups;
  const size_t kh = (size_t)intOf(problem, "kh", 1), kw = (size_t)intOf(problem, "kw", 1);
  const uint32_t padH = (uint32_t)intOf(problem, "pad_h", 0);
  const uint32_t padW = (uint32_t)intOf(problem, "pad_w", 0);
  float* filters = malloc(k * kh * kw * inner * sizeof(float));  // [k, kh, kw, c / groups]
  if (!handle || !filters) {
    free(handle);
    free(filters);
    return SL_OUT_OF_MEMORY;
  }
  const float* weight = constants[1];
  for (size_t o = 0; o < k; ++o) {
    for (size_t i = 0; i < inner; ++i) {
      for (size_t at = 0; at < kh * kw; ++at) {
        filters[(o * kh * kw + at) * inner + i] = weight[(o * inner + i) * kh * kw + at];
      }
    }
  }
  handle->batch = (size_t)intOf(problem, "n", 0);
  handle->height = (size_t)intOf(problem, "h", 0);
  handle->width = (size_t)intOf(problem, "w", 0);
  const enum xnn_status status = xnn_create_convolution2d_nhwc_f32(
      padH, padW, padH, padW, (uint32_t)kh, (uint32_t)kw, (uint32_t)intOf(problem, "stride_h", 1),
      (uint32_t)intOf(problem, "stride_w", 1), (uint32_t)intOf(problem, "dilation_h", 1),
      (uint32_t)intOf(problem, "dilation_w", 1), (uint32_t)groups, inner, k / groups, c, k, filters,
      problem->inputs > 2 ? constants[2] : NULL, leastOf(problem), INFINITY, 0, &handle->op);
  free(filters);  // it has packed them
  return planned(ctx, status, handle, setupConvolution, made);
}
RUN(convolution)

// --- pools: images channels last

static int32_t acceptsPool(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t windows = intOf(problem, "kernel_size_0", 1) * intOf(problem, "kernel_size_1", 1);
  if (sl_operand_at(problem, 0)->rank != 4) {
    return refuse(reason, bytes, "the rank of x", sl_operand_at(problem, 0)->rank, 4);
  }
  if (intOf(problem, "ceil_mode", 0) != 0) {
    return refuse(reason, bytes, "ceil_mode", 1, 0);
  }
  if (windows == 1) {
    snprintf(reason, bytes, "the window has 1 element, it takes 2 or more");
    return 0;
  }
  return acceptsPlain(problem, reason, bytes);
}

static int32_t acceptsMeans(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t pad = intOf(problem, "padding_0", 0) + intOf(problem, "padding_1", 0);
  if (pad != 0 && intOf(problem, "count_include_pad", 0) != 0) {
    snprintf(reason, bytes, "count_include_pad is 1 with padding, it divides by elements of x");
    return 0;
  }
  if (intOf(problem, "divisor_override", 0) != 0) {
    return refuse(reason, bytes, "divisor_override", intOf(problem, "divisor_override", 0), 0);
  }
  return acceptsPool(problem, reason, bytes);
}

static void readImage(const sl_problem* problem, Handle* handle) {
  const int64_t* extents = sl_operand_at(problem, 0)->extents;
  handle->batch = (size_t)extents[0];
  handle->height = (size_t)extents[2];
  handle->width = (size_t)extents[3];
}

static enum xnn_status setupMaxPool(Handle* handle, const float* x, float* y) {
  return xnn_setup_max_pooling2d_nhwc_f32(handle->op, handle->batch, handle->height, handle->width,
                                          x, y, NULL);
}

static enum xnn_status setupMeanPool(Handle* handle, const float* x, float* y) {
  return xnn_setup_average_pooling2d_nhwc_f32(handle->op, handle->batch, handle->height,
                                              handle->width, x, y, NULL);
}

static enum xnn_status setupWholeMean(Handle* handle, const float* x, float* y) {
  return xnn_setup_global_average_pooling_nwc_f32(handle->op, handle->batch,
                                                  handle->height * handle->width, x, y, NULL);
}

PLAN(max_pool2d) {
  (void)constants;
  Handle* handle = newHandle();
  if (!handle) {
    return SL_OUT_OF_MEMORY;
  }
  readImage(problem, handle);
  const size_t c = (size_t)sl_operand_at(problem, 0)->extents[1];
  const uint32_t padH = (uint32_t)intOf(problem, "padding_0", 0);
  const uint32_t padW = (uint32_t)intOf(problem, "padding_1", 0);
  return plannedOverCopy(
      ctx, problem,
      xnn_create_max_pooling2d_nhwc_f32(
          padH, padW, padH, padW, (uint32_t)intOf(problem, "kernel_size_0", 1),
          (uint32_t)intOf(problem, "kernel_size_1", 1), (uint32_t)intOf(problem, "stride_0", 1),
          (uint32_t)intOf(problem, "stride_1", 1), (uint32_t)intOf(problem, "dilation_0", 1),
          (uint32_t)intOf(problem, "dilation_1", 1), c, c, c, -INFINITY, INFINITY, 0, &handle->op),
      handle, setupMaxPool, made);
}
RUN(max_pool2d)

PLAN(avg_pool2d) {
  (void)constants;
  Handle* handle = newHandle();
  if (!handle) {
    return SL_OUT_OF_MEMORY;
  }
  readImage(problem, handle);
  const size_t c = (size_t)sl_operand_at(problem, 0)->extents[1];
  const uint32_t padH = (uint32_t)intOf(problem, "padding_0", 0);
  const uint32_t padW = (uint32_t)intOf(problem, "padding_1", 0);
  return plannedOverCopy(
      ctx, problem,
      xnn_create_average_pooling2d_nhwc_f32(
          padH, padW, padH, padW, (uint32_t)intOf(problem, "kernel_size_0", 1),
          (uint32_t)intOf(problem, "kernel_size_1", 1), (uint32_t)intOf(problem, "stride_0", 1),
          (uint32_t)intOf(problem, "stride_1", 1), c, c, c, -INFINITY, INFINITY, 0, &handle->op),
      handle, setupMeanPool, made);
}
RUN(avg_pool2d)

static int32_t acceptsWhole(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t h = intOf(problem, "output_size_0", 0), w = intOf(problem, "output_size_1", 0);
  if (sl_operand_at(problem, 0)->rank != 4) {
    return refuse(reason, bytes, "the rank of x", sl_operand_at(problem, 0)->rank, 4);
  }
  if (h != 1 || w != 1) {
    snprintf(reason, bytes, "output_size is %lld x %lld, it takes 1 x 1", (long long)h,
             (long long)w);
    return 0;
  }
  return acceptsPlain(problem, reason, bytes);
}

PLAN(adaptive_avg_pool2d) {
  (void)constants;
  Handle* handle = newHandle();
  if (!handle) {
    return SL_OUT_OF_MEMORY;
  }
  readImage(problem, handle);
  const size_t c = (size_t)sl_operand_at(problem, 0)->extents[1];
  return plannedOverCopy(
      ctx, problem,
      xnn_create_global_average_pooling_nwc_f32(c, c, c, -INFINITY, INFINITY, 0, &handle->op),
      handle, setupWholeMean, made);
}
RUN(adaptive_avg_pool2d)

// --- rows and elements

static int32_t acceptsLastDim(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t dim = intOf(problem, "dim", -1), last = sl_operand_at(problem, 0)->rank - 1;
  return dim == last ? acceptsPlain(problem, reason, bytes)
                     : refuse(reason, bytes, "dim", dim, last);
}

static enum xnn_status setupSoftmax(Handle* handle, const float* x, float* y) {
  return xnn_setup_softmax_nc_f32(handle->op, handle->batch, x, y, NULL);
}

PLAN(softmax) {
  (void)constants;
  Handle* handle = newHandle();
  if (!handle) {
    return SL_OUT_OF_MEMORY;
  }
  const sl_operand* x = sl_operand_at(problem, 0);
  const size_t n = (size_t)x->extents[x->rank - 1];
  handle->batch = countOf(x) / n;
  return plannedOverCopy(ctx, problem, xnn_create_softmax_nc_f32(n, n, n, 0, &handle->op), handle,
                         setupSoftmax, made);
}
RUN(softmax)

/// An activation of all elements, which it gets as one row.
#define ELEMENTWISE(name, setupName, create)                                      \
  static enum xnn_status setup_##name(Handle* handle, const float* x, float* y) { \
    return setupName(handle->op, handle->batch, x, y, NULL);                      \
  }                                                                               \
  PLAN(name) {                                                                    \
    (void)constants;                                                              \
    Handle* handle = newHandle();                                                 \
    if (!handle) {                                                                \
      return SL_OUT_OF_MEMORY;                                                    \
    }                                                                             \
    const size_t n = countOf(sl_operand_at(problem, 0));                          \
    handle->batch = 1;                                                            \
    return planned(ctx, create, handle, setup_##name, made);                      \
  }                                                                               \
  RUN(name)

ELEMENTWISE(relu, xnn_setup_clamp_nc_f32,
            xnn_create_clamp_nc_f32(n, n, n, 0, INFINITY, 0, &handle->op))
ELEMENTWISE(sigmoid, xnn_setup_sigmoid_nc_f32, xnn_create_sigmoid_nc_f32(n, n, n, 0, &handle->op))
ELEMENTWISE(hardswish, xnn_setup_hardswish_nc_f32,
            xnn_create_hardswish_nc_f32(n, n, n, 0, &handle->op))
ELEMENTWISE(leaky_relu, xnn_setup_leaky_relu_nc_f32,
            xnn_create_leaky_relu_nc_f32(n, n, n, (float)floatOf(problem, "negative_slope", 0.01),
                                         0, &handle->op))
ELEMENTWISE(elu, xnn_setup_elu_nc_f32,
            xnn_create_elu_nc_f32(n, n, n, (float)floatOf(problem, "alpha", 1), 0, &handle->op))

// --- costs: microseconds of one thread, by rule of thumb

static double costOfElements(const sl_problem* problem) {
  return 0.3 + 0.0002 * (double)countOf(sl_operand_at(problem, 0));
}

static double costOfWindows(const sl_problem* problem) {
  const int64_t taps = intOf(problem, "kernel_size_0", 1) * intOf(problem, "kernel_size_1", 1);
  return 1 + 0.0002 * (double)taps * (double)countOf(sl_operand_at(problem, problem->inputs));
}

static double costOfProducts(const sl_problem* problem) {
  const sl_operand* weight = sl_operand_at(problem, 1);
  const double terms = (double)countOf(weight) / (double)weight->extents[0];
  return 1 + terms * (double)countOf(sl_operand_at(problem, problem->inputs)) / 40000;
}

// --- descriptions

#define F32 SL_TYPE_F32
#define ROW SL_LAYOUT_ROW_MAJOR
#define LAST SL_LAYOUT_CHANNELS_LAST
#define OUT SL_OPERAND_OUTPUT

static const sl_operand_facts kProduct[] = {
    {"x", F32, 0, ROW, 0, SL_OPERAND_ROWS, 0},
    {"weight", F32, 0, ROW, 0, SL_OPERAND_PLANNED, 0},
    {"bias", F32, 0, ROW, 0, SL_OPERAND_OPTIONAL | SL_OPERAND_PLANNED, 0},
    {"y", F32, 0, ROW, 0, OUT | SL_OPERAND_ROWS, 0}};
static const sl_operand_facts kConvolution[] = {
    {"x", F32, 0, LAST, LAST, 0, 0},
    {"weight", F32, 0, ROW, 0, SL_OPERAND_PLANNED, 0},
    {"bias", F32, 0, ROW, 0, SL_OPERAND_OPTIONAL | SL_OPERAND_PLANNED, 0},
    {"y", F32, 0, LAST, LAST, OUT, 0}};
static const sl_operand_facts kImages[] = {{"x", F32, 0, LAST, LAST, 0, 0},
                                           {"y", F32, 0, LAST, LAST, OUT, 0}};
static const sl_operand_facts kElements[] = {{"x", F32, 0, ROW, 0, 0, 0},
                                             {"y", F32, 0, ROW, 0, OUT, 0}};
static const sl_epilogue kEpilogues[] = {{"bias", F32, 0}, {"relu", F32, 0}};
static const sl_calling_rule kRule = {sizeof(sl_calling_rule), NULL, 0, 0};

#define KERNEL(id, about, acceptsIt, costIt, facts, ends, endCount) \
  {.size = sizeof(sl_kernel_desc),                                  \
   .name = "xnnpack." #id,                                          \
   .backend = "xnnpack",                                            \
   .op = #id,                                                       \
   .family = "",                                                    \
   .summary = about,                                                \
   .accepts = acceptsIt,                                            \
   .cost = costIt,                                                  \
   .can_fail = 1,                                                   \
   .plan_symbol = "sl_xnnpack_plan_" #id,                           \
   .plan = (void*)sl_xnnpack_plan_##id,                             \
   .run_symbol = "sl_xnnpack_" #id,                                 \
   .run = (void*)sl_xnnpack_##id,                                   \
   .destroy = sl_xnnpack_plan_##id##_destroy,                       \
   .properties = SL_KERNEL_EXCLUSIVE_HANDLE,                        \
   .operands = facts,                                               \
   .operand_count = (int32_t)(sizeof(facts) / sizeof((facts)[0])),  \
   .operand_stride = sizeof(sl_operand_facts),                      \
   .epilogues = ends,                                               \
   .epilogue_count = endCount,                                      \
   .epilogue_stride = sizeof(sl_epilogue),                          \
   .rule = &kRule}
#define ELEMENTS(id) KERNEL(id, "XNNPACK's " #id, acceptsPlain, costOfElements, kElements, NULL, 0)

static const sl_kernel_desc kKernels[] = {
    KERNEL(linear, "XNNPACK's fully connected operator", acceptsWeights, costOfProducts, kProduct,
           kEpilogues, 2),
    KERNEL(convolution, "XNNPACK's convolution, channels last", acceptsConvolution, costOfProducts,
           kConvolution, kEpilogues, 2),
    KERNEL(max_pool2d, "XNNPACK's max pooling, channels last", acceptsPool, costOfWindows, kImages,
           NULL, 0),
    KERNEL(avg_pool2d, "XNNPACK's average pooling, channels last", acceptsMeans, costOfWindows,
           kImages, NULL, 0),
    KERNEL(adaptive_avg_pool2d, "XNNPACK's global average pooling, channels last", acceptsWhole,
           costOfElements, kImages, NULL, 0),
    KERNEL(softmax, "XNNPACK's softmax of rows", acceptsLastDim, costOfElements, kElements, NULL,
           0),
    ELEMENTS(relu),
    ELEMENTS(sigmoid),
    ELEMENTS(hardswish),
    ELEMENTS(leaky_relu),
    ELEMENTS(elu),
};

static const sl_backend_desc kBackend = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "xnnpack",
    .kernels = kKernels,
    .kernel_count = (int32_t)(sizeof(kKernels) / sizeof(kKernels[0])),
    .kernel_stride = sizeof(sl_kernel_desc),
};

EXPORT const sl_backend_desc* straightline_backend_v1(void) { return &kBackend; }
