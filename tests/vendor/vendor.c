// SPDX-License-Identifier: Apache-2.0
// A library of plain kernels as a vendor would ship it, for tests of generic external calls: it is
// built with the ABI headers alone, and each kernel is an op that the compiler knows nothing else
// about. One plan serves them all: it keeps the problem, as a library keeps a descriptor.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "straightline/abi/kernel.h"

enum { kLargest = 16 };

typedef struct {
  sl_operand operands[kLargest];
  int32_t inputs, outputs, sizes;
  int64_t dim, k, workspaceBytes;
  int32_t hasWeight, hasBias, hasRelu;
  double eps, scale;
  float* packed;  ///< of a planned operand: a copy in the library's own order
} Plan;

static const char* textOf(const sl_problem* problem, const char* name) {
  for (int32_t i = 0; i < problem->attribute_count; ++i) {
    const sl_attribute attribute = sl_attribute_at(problem, i);
    if (strcmp(attribute.name, name) == 0 && attribute.kind == SL_TEXT) {
      return attribute.text;
    }
  }
  return "";
}

static int64_t intOf(const sl_problem* problem, const char* name, int64_t fallback) {
  for (int32_t i = 0; i < problem->attribute_count; ++i) {
    const sl_attribute attribute = sl_attribute_at(problem, i);
    if (strcmp(attribute.name, name) == 0 && attribute.kind == SL_INT) {
      return attribute.value;
    }
  }
  return fallback;
}

static double floatOf(const sl_problem* problem, const char* name) {
  for (int32_t i = 0; i < problem->attribute_count; ++i) {
    const sl_attribute attribute = sl_attribute_at(problem, i);
    if (strcmp(attribute.name, name) == 0 && attribute.kind == SL_FLOAT) {
      return attribute.number;
    }
  }
  return -1;
}

static int64_t countOf(const sl_operand* operand) {
  int64_t count = 1;
  for (int32_t dim = 0; dim < operand->rank; ++dim) {
    count *= operand->extents[dim];
  }
  return count;
}

__attribute__((visibility("default"))) int32_t sl_vendor_plan(sl_ctx* ctx,
                                                              const sl_problem* problem,
                                                              const void* const* constants,
                                                              void** handle) {
  (void)ctx;
  Plan* plan = calloc(1, sizeof(Plan));
  if (!plan || problem->inputs + problem->outputs > kLargest) {
    free(plan);
    return SL_OUT_OF_MEMORY;
  }
  plan->inputs = problem->inputs;
  plan->outputs = problem->outputs;
  plan->sizes = problem->sizes;
  for (int32_t i = 0; i < problem->inputs + problem->outputs; ++i) {
    plan->operands[i] = *sl_operand_at(problem, i);
  }
  plan->dim = intOf(problem, "dim", -1);
  plan->k = intOf(problem, "k", 0);
  plan->workspaceBytes = intOf(problem, "workspace_bytes", 0);
  plan->hasWeight = (int32_t)intOf(problem, "operands_1", 0);
  plan->hasBias = (int32_t)intOf(problem, "operands_2", 0);
  plan->hasRelu = strcmp(textOf(problem, "activation"), "relu") == 0;
  plan->eps = floatOf(problem, "eps");
  plan->scale = floatOf(problem, "scale");
  if (problem->inputs > 0 && plan->operands[0].constant && constants && constants[0]) {
    const size_t bytes = (size_t)countOf(&plan->operands[0]) * sizeof(float);
    plan->packed = malloc(bytes);
    memcpy(plan->packed, constants[0], bytes);
  }
  *handle = plan;
  return SL_OK;
}

__attribute__((visibility("default"))) void sl_vendor_plan_destroy(void* handle) {
  free(((Plan*)handle)->packed);
  free(handle);
}

/// The plan with the numbers that are known at the call, in the order of the operands: extents,
/// then strides.
static Plan at(const void* handle, const void* const* inputs) {
  Plan plan = *(const Plan*)handle;
  const int64_t* sizes = plan.sizes > 0 ? inputs[plan.inputs] : NULL;
  for (int32_t i = 0; sizes && i < plan.inputs + plan.outputs; ++i) {
    sl_operand* operand = &plan.operands[i];
    for (int32_t dim = 0; dim < operand->rank; ++dim) {
      if (operand->extents[dim] == SL_DYNAMIC) {
        operand->extents[dim] = *sizes++;
      }
    }
    for (int32_t dim = 0; dim < operand->rank; ++dim) {
      if (operand->strides[dim] == SL_DYNAMIC) {
        operand->strides[dim] = *sizes++;
      }
    }
  }
  return plan;
}

/// Where element `number`, counted in row-major order of the extents, lies.
static int64_t placeOf(const sl_operand* operand, int64_t number) {
  int64_t place = 0;
  for (int32_t dim = operand->rank - 1; dim >= 0; --dim) {
    place += number % operand->extents[dim] * operand->strides[dim];
    number /= operand->extents[dim];
  }
  return place;
}

#define RUN(name)                                                                               \
  __attribute__((visibility("default"))) int32_t sl_vendor_##name(                              \
      sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs, void* const* outputs, \
      void* workspace)
#define UNUSED (void)ctx, (void)team, (void)workspace

/// An elementwise op of one operand in memory of any strides.
#define ELEMENTWISE(name, type, expression)                       \
  RUN(name) {                                                     \
    UNUSED;                                                       \
    const Plan plan = at(handle, inputs);                         \
    const type* from = inputs[0];                                 \
    type* to = outputs[0];                                        \
    for (int64_t i = 0; i < countOf(&plan.operands[0]); ++i) {    \
      const float x = (float)from[placeOf(&plan.operands[0], i)]; \
      to[placeOf(&plan.operands[1], i)] = (type)(expression);     \
    }                                                             \
    return SL_OK;                                                 \
  }

ELEMENTWISE(relu, float, x < 0 ? 0 : x)
ELEMENTWISE(tanh, float, tanhf(x))
ELEMENTWISE(silu, _Float16, x / (1 + expf(-x)))
ELEMENTWISE(sign, float, (x > 0) - (x < 0))
ELEMENTWISE(gelu, float, 0.5F * x * (1 + tanhf(0.7978845608028654F * (x + 0.044715F * x * x * x))))

/// Fails where the logarithm is not a number.
RUN(log) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const float* from = inputs[0];
  float* to = outputs[0];
  for (int64_t i = 0; i < countOf(&plan.operands[0]); ++i) {
    if (from[i] < 0) {
      return SL_INVALID_ARGUMENT;
    }
    to[i] = logf(from[i]);
  }
  return SL_OK;
}

RUN(add) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const float *a = inputs[0], *b = inputs[1];
  float* to = outputs[0];
  for (int64_t i = 0; i < countOf(&plan.operands[2]); ++i) {
    const float sum = a[placeOf(&plan.operands[0], i)] + b[placeOf(&plan.operands[1], i)];
    to[placeOf(&plan.operands[2], i)] = plan.hasRelu && sum < 0 ? 0 : sum;
  }
  return SL_OK;
}

RUN(maximum) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const float *a = inputs[0], *b = inputs[1];
  float* to = outputs[0];
  for (int64_t i = 0; i < countOf(&plan.operands[2]); ++i) {
    to[i] = a[i] > b[i] ? a[i] : b[i];
  }
  return SL_OK;
}

/// Rows [rows, columns], one behind the other.
typedef struct {
  int64_t rows, columns;
} Rows;
static Rows rowsOf(const sl_operand* x) {
  const int64_t columns = x->extents[x->rank - 1];
  return (Rows){columns == 0 ? 0 : countOf(x) / columns, columns};
}

RUN(softmax) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const Rows n = rowsOf(&plan.operands[0]);
  for (int64_t row = 0; row < n.rows; ++row) {
    const float* x = (const float*)inputs[0] + row * n.columns;
    float* y = (float*)outputs[0] + row * n.columns;
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n.columns; ++i) {
      most = x[i] > most ? x[i] : most;
    }
    for (int64_t i = 0; i < n.columns; ++i) {
      sum += y[i] = expf(x[i] - most);
    }
    for (int64_t i = 0; i < n.columns; ++i) {
      y[i] /= sum;
    }
  }
  return SL_OK;
}

/// [.., m, k] times [.., k, n], the batch of either one product or as many as the result has.
RUN(matmul) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const sl_operand *a = &plan.operands[0], *b = &plan.operands[1], *y = &plan.operands[plan.inputs];
  const int64_t m = y->extents[y->rank - 2], n = y->extents[y->rank - 1];
  const int64_t k = a->extents[a->rank - 1], batch = countOf(y) / (m * n);
  const int64_t aStep = countOf(a) > m * k ? m * k : 0, bStep = countOf(b) > k * n ? k * n : 0;
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const float* row = (const float*)inputs[0] + i / (m * n) * aStep + i / n % m * k;
    const float* column = (const float*)inputs[1] + i / (m * n) * bStep + i % n;
    double sum = plan.inputs > 2 ? ((const float*)inputs[2])[i % n] : 0;
    for (int64_t j = 0; j < k; ++j) {
      sum += (double)row[j] * (double)column[j * n];
    }
    ((float*)outputs[0])[i] = (float)(plan.hasRelu && sum < 0 ? 0 : sum);
  }
  return SL_OK;
}

/// Queries, keys and values [batch, heads, length, width] of any strides; no mask.
RUN(attention) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const sl_operand *q = &plan.operands[0], *key = &plan.operands[1], *v = &plan.operands[2];
  const sl_operand* y = &plan.operands[3];
  const int64_t width = q->extents[3], keys = key->extents[2];
  double weights[256];
  for (int64_t i = 0; i < countOf(q) / width; ++i) {
    const int64_t at0 = i / q->extents[2] / q->extents[1], at1 = i / q->extents[2] % q->extents[1];
    const float* query = (const float*)inputs[0] + placeOf(q, i * width);
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double product = 0;
      for (int64_t d = 0; d < width; ++d) {
        product += (double)query[d * q->strides[3]] *
                   (double)((const float*)inputs[1])[at0 * key->strides[0] + at1 * key->strides[1] +
                                                     j * key->strides[2] + d * key->strides[3]];
      }
      sum += weights[j] = exp(product * plan.scale);
    }
    for (int64_t d = 0; d < v->extents[3]; ++d) {
      double value = 0;
      for (int64_t j = 0; j < keys; ++j) {
        value += weights[j] / sum *
                 (double)((const float*)inputs[2])[at0 * v->strides[0] + at1 * v->strides[1] +
                                                   j * v->strides[2] + d * v->strides[3]];
      }
      ((float*)outputs[0])[placeOf(y, i * v->extents[3] + d)] = (float)value;
    }
  }
  return SL_OK;
}

/// Of a matrix: its facts say ROWS.
RUN(layer_norm) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const float* weight = plan.hasWeight ? inputs[1] : NULL;
  const float* bias = plan.hasBias ? inputs[1 + plan.hasWeight] : NULL;
  const int64_t rows = plan.operands[0].extents[0], columns = plan.operands[0].extents[1];
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = (const float*)inputs[0] + row * columns;
    float* y = (float*)outputs[0] + row * columns;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < columns; ++i) {
      mean += x[i] / (double)columns;
    }
    for (int64_t i = 0; i < columns; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / (double)columns;
    }
    for (int64_t i = 0; i < columns; ++i) {
      const double normed = (x[i] - mean) / sqrt(variance + plan.eps);
      y[i] = (float)(normed * (weight ? weight[i] : 1) + (bias ? bias[i] : 0));
    }
  }
  return SL_OK;
}

/// Running sums, which it keeps as doubles in its workspace.
RUN(cumsum) {
  (void)ctx, (void)team;
  const Plan plan = at(handle, inputs);
  const Rows n = rowsOf(&plan.operands[0]);
  if (plan.workspaceBytes < (int64_t)sizeof(double) * n.columns || !workspace) {
    return SL_INVALID_ARGUMENT;
  }
  double* sums = workspace;
  for (int64_t row = 0; row < n.rows; ++row) {
    const float* x = (const float*)inputs[0] + row * n.columns;
    double sum = 0;
    for (int64_t i = 0; i < n.columns; ++i) {
      sums[i] = sum += x[i];
    }
    for (int64_t i = 0; i < n.columns; ++i) {
      ((float*)outputs[0])[row * n.columns + i] = (float)sums[i];
    }
  }
  return SL_OK;
}

/// The k largest of each row, by k searches; the first of equal ones.
RUN(topk) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const Rows n = rowsOf(&plan.operands[0]);
  for (int64_t row = 0; row < n.rows; ++row) {
    const float* x = (const float*)inputs[0] + row * n.columns;
    float* values = (float*)outputs[0] + row * plan.k;
    int64_t* places = (int64_t*)outputs[1] + row * plan.k;
    for (int64_t found = 0; found < plan.k; ++found) {
      int64_t best = -1;
      for (int64_t i = 0; i < n.columns; ++i) {
        int taken = 0;
        for (int64_t j = 0; j < found; ++j) {
          taken |= places[j] == i;
        }
        best = !taken && (best < 0 || x[i] > x[best]) ? i : best;
      }
      values[found] = x[best];
      places[found] = best;
    }
  }
  return SL_OK;
}

RUN(gather) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const Rows n = rowsOf(&plan.operands[0]), m = rowsOf(&plan.operands[1]);
  const int64_t* index = inputs[1];
  for (int64_t i = 0; i < m.rows * m.columns; ++i) {
    if (index[i] < 0 || index[i] >= n.columns) {
      return SL_INVALID_ARGUMENT;
    }
    ((float*)outputs[0])[i] = ((const float*)inputs[0])[i / m.columns * n.columns + index[i]];
  }
  return SL_OK;
}

/// Tensors one behind the other along dim 0.
RUN(cat) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  float* to = outputs[0];
  for (int32_t part = 0; part < plan.inputs; ++part) {
    const int64_t count = countOf(&plan.operands[part]);
    memcpy(to, inputs[part], (size_t)count * sizeof(float));
    to += count;
  }
  return SL_OK;
}

/// Reads the copy of its weight that the plan has made.
RUN(embedding) {
  UNUSED;
  const Plan plan = at(handle, inputs);
  const int64_t columns = plan.operands[0].extents[1];
  const int64_t* index = inputs[1];
  for (int64_t i = 0; i < countOf(&plan.operands[1]); ++i) {
    memcpy((float*)outputs[0] + i * columns, plan.packed + index[i] * columns,
           (size_t)columns * sizeof(float));
  }
  return SL_OK;
}

static int32_t refuse(char* reason, size_t bytes, const char* what, int64_t given, int64_t taken) {
  snprintf(reason, bytes, "%s is %lld, it takes %lld", what, (long long)given, (long long)taken);
  return 0;
}

static int32_t acceptsAny(const sl_problem* problem, char* reason, size_t bytes) {
  (void)problem, (void)reason, (void)bytes;
  return 1;
}

static int32_t acceptsFloats(const sl_problem* problem, char* reason, size_t bytes) {
  const int32_t bits = sl_operand_at(problem, 0)->dtype.bits;
  if (bits != 32) {
    snprintf(reason, bytes, "x has %d bits, it takes 32", bits);
    return 0;
  }
  return 1;
}

static int32_t acceptsAttention(const sl_problem* problem, char* reason, size_t bytes) {
  if (problem->inputs != 3 || intOf(problem, "is_causal", 0) || intOf(problem, "parts", 1) != 1 ||
      sl_operand_at(problem, 1)->extents[2] > 256) {
    snprintf(reason, bytes, "it has %d operands or more than 256 keys, or is causal or in parts",
             problem->inputs);
    return 0;
  }
  return acceptsFloats(problem, reason, bytes);
}

static int32_t acceptsRank(const sl_problem* problem, char* reason, size_t bytes) {
  const int32_t rank = sl_operand_at(problem, 0)->rank;
  if (rank > 4) {
    snprintf(reason, bytes, "x has rank %d, it takes at most 4", rank);
    return 0;
  }
  return 1;
}

static int32_t acceptsLastDim(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t dim = intOf(problem, "dim", -1), last = sl_operand_at(problem, 0)->rank - 1;
  return dim == last ? 1 : refuse(reason, bytes, "dim", dim, last);
}

static int32_t acceptsFirstDim(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t dim = intOf(problem, "dim", -1);
  return dim == 0 ? 1 : refuse(reason, bytes, "dim", dim, 0);
}

static int32_t acceptsOneDim(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t rank = intOf(problem, "normalized_rank", -1);
  return rank == 1 ? 1 : refuse(reason, bytes, "normalized_rank", rank, 1);
}

static int32_t acceptsStaticRows(const sl_problem* problem, char* reason, size_t bytes) {
  const sl_operand* x = sl_operand_at(problem, 0);
  if (x->extents[x->rank - 1] == SL_DYNAMIC) {
    snprintf(reason, bytes, "dim %d of x is dynamic, it takes a fixed one", x->rank - 1);
    return 0;
  }
  return acceptsLastDim(problem, reason, bytes);
}

static int32_t acceptsLargest(const sl_problem* problem, char* reason, size_t bytes) {
  const int64_t largest = intOf(problem, "largest", -1);
  return largest == 1 ? acceptsLastDim(problem, reason, bytes)
                      : refuse(reason, bytes, "largest", largest, 1);
}

static int32_t acceptsTanh(const sl_problem* problem, char* reason, size_t bytes) {
  const char* text = textOf(problem, "approximate");
  if (strcmp(text, "tanh") != 0) {
    snprintf(reason, bytes, "approximate is \"%s\", it takes \"tanh\"", text);
    return 0;
  }
  return 1;
}

static double cheap(const sl_problem* problem) {
  (void)problem;
  return 0.0001;
}
static double dear(const sl_problem* problem) {
  (void)problem;
  return 1e6;
}

static int64_t bytesOfRow(const sl_problem* problem) {
  const sl_operand* x = sl_operand_at(problem, 0);
  return (int64_t)sizeof(double) * x->extents[x->rank - 1];
}

#define F32 SL_TYPE_F32
#define ROW SL_LAYOUT_ROW_MAJOR
#define ANY SL_LAYOUT_STRIDED
#define LAST SL_LAYOUT_CHANNELS_LAST
#define OUT SL_OPERAND_OUTPUT

static const sl_operand_facts kStrided[] = {{"x", F32, 0, ANY, 0, 0, 0},
                                            {"y", F32, 0, ANY, 0, OUT, 0}};
static const sl_operand_facts kRows[] = {{"x", F32, 0, ROW, 0, 0, 0},
                                         {"y", F32, 0, ROW, 0, OUT, 0}};
static const sl_operand_facts kImages[] = {{"x", F32, 0, LAST, 0, 0, 0},
                                           {"y", F32, 0, LAST, 0, OUT, 0}};
static const sl_operand_facts kHalf[] = {{"x", SL_TYPE_F16, 0, ANY, 0, 0, 0},
                                         {"y", SL_TYPE_F16, 0, ANY, 0, OUT, 0}};
static const sl_operand_facts kTwo[] = {
    {"x", F32, 0, ANY, 0, 0, 0}, {"y", F32, 0, ANY, 0, 0, 0}, {"z", F32, 0, ANY, 0, OUT, 0}};
static const sl_operand_facts kTwoRows[] = {
    {"x", F32, 0, ROW, 0, 0, 0}, {"y", F32, 0, ROW, 0, 0, 0}, {"z", F32, 0, ROW, 0, OUT, 0}};
static const sl_operand_facts kAttention[] = {{"q", F32, 0, ANY, 0, 0, 0},
                                              {"k", F32, 0, ANY, 0, 0, 0},
                                              {"v", F32, 0, ANY, 0, 0, 0},
                                              {"y", F32, 0, ANY, 0, OUT, 0}};
static const sl_operand_facts kNorm[] = {{"x", F32, 0, ROW, 0, SL_OPERAND_ROWS, 0},
                                         {"weight", F32, 0, ROW, 0, SL_OPERAND_OPTIONAL, 0},
                                         {"bias", F32, 0, ROW, 0, SL_OPERAND_OPTIONAL, 0},
                                         {"y", F32, 0, ROW, 0, OUT | SL_OPERAND_ROWS, 0}};
static const sl_operand_facts kTopk[] = {{"x", F32, 0, ROW, 0, 0, 0},
                                         {"values", F32, 0, ROW, 0, OUT, 0},
                                         {"indices", SL_TYPE_I64, 0, ROW, 0, OUT, 0}};
static const sl_operand_facts kIndexed[] = {{"x", F32, 0, ROW, 0, 0, 0},
                                            {"index", SL_TYPE_I64, 0, ROW, 0, 0, 0},
                                            {"y", F32, 0, ROW, 0, OUT, 0}};
static const sl_operand_facts kEmbedding[] = {{"weight", F32, 0, ROW, 0, SL_OPERAND_PLANNED, 0},
                                              {"indices", SL_TYPE_I64, 0, ROW, 0, 0, 0},
                                              {"y", F32, 0, ROW, 0, OUT, 0}};
static const sl_operand_facts kNeedsBias[] = {
    {"x", F32, 0, ROW, 0, 0, 0}, {"weight", F32, 0, ROW, 0, 0, 0}, {"y", F32, 0, ROW, 0, OUT, 0}};

static const sl_calling_rule kRule = {sizeof(sl_calling_rule), NULL, 0, 0};
static const sl_calling_rule kWithWorkspace = {sizeof(sl_calling_rule), NULL, 0, 1};
static const char* const kApproximate[] = {"approximate"};
static const sl_calling_rule kOfText = {sizeof(sl_calling_rule), kApproximate, 1, 0};
static const char* const kEps[] = {"operands", "eps"};
static const sl_calling_rule kOfNorm = {sizeof(sl_calling_rule), kEps, 2, 0};
static const char* const kUnknown[] = {"epsilon"};
static const sl_calling_rule kOfUnknown = {sizeof(sl_calling_rule), kUnknown, 1, 0};

static const sl_epilogue kRelu[] = {{"relu", F32, 0}};

#define KERNEL_AS(kernelName, opName, runName, acceptsIt, costIt, facts, ruleIt, bytes, mayFail)   \
  KERNEL_WITH(kernelName, opName, runName, acceptsIt, costIt, facts, ruleIt, bytes, mayFail, NULL, \
              0)
#define KERNEL_WITH(kernelName, opName, runName, acceptsIt, costIt, facts, ruleIt, bytes, mayFail, \
                    ends, endCount)                                                                \
  {                                                                                                \
      .size = sizeof(sl_kernel_desc),                                                              \
      .name = "vendor." kernelName,                                                                \
      .backend = "vendor",                                                                         \
      .op = opName,                                                                                \
      .family = "",                                                                                \
      .summary = "a vendor's " opName,                                                             \
      .accepts = acceptsIt,                                                                        \
      .cost = costIt,                                                                              \
      .workspace = bytes,                                                                          \
      .can_fail = mayFail,                                                                         \
      .plan_symbol = "sl_vendor_plan",                                                             \
      .plan = (void*)sl_vendor_plan,                                                               \
      .run_symbol = "sl_vendor_" kernelName,                                                       \
      .run = (void*)(runName),                                                                     \
      .destroy = sl_vendor_plan_destroy,                                                           \
      .operands = facts,                                                                           \
      .operand_count = (int32_t)(sizeof(facts) / sizeof((facts)[0])),                              \
      .operand_stride = sizeof(sl_operand_facts),                                                  \
      .epilogues = ends,                                                                           \
      .epilogue_count = endCount,                                                                  \
      .epilogue_stride = sizeof(sl_epilogue),                                                      \
      .rule = ruleIt,                                                                              \
  }
#define KERNEL(name, accepts, facts, rule) \
  KERNEL_AS(#name, #name, sl_vendor_##name, accepts, cheap, facts, rule, NULL, 0)

static const sl_kernel_desc kKernels[] = {
    KERNEL(relu, acceptsRank, kStrided, &kRule),
    KERNEL(tanh, acceptsAny, kImages, &kRule),
    KERNEL(silu, acceptsAny, kHalf, &kRule),
    KERNEL(gelu, acceptsTanh, kStrided, &kOfText),
    KERNEL_WITH("add", "add", sl_vendor_add, acceptsAny, cheap, kTwo, &kRule, NULL, 0, kRelu, 1),
    KERNEL_AS("maximum", "maximum", sl_vendor_maximum, acceptsAny, dear, kTwoRows, &kRule, NULL, 0),
    KERNEL(softmax, acceptsLastDim, kRows, &kRule),
    KERNEL(layer_norm, acceptsOneDim, kNorm, &kOfNorm),
    KERNEL_AS("cumsum", "cumsum", sl_vendor_cumsum, acceptsStaticRows, cheap, kRows,
              &kWithWorkspace, bytesOfRow, 1),
    KERNEL(topk, acceptsLargest, kTopk, &kRule),
    KERNEL_AS("gather", "gather", sl_vendor_gather, acceptsLastDim, cheap, kIndexed, &kRule, NULL,
              1),
    KERNEL_AS("log", "log", sl_vendor_log, acceptsAny, cheap, kRows, &kRule, NULL, 1),
    KERNEL(cat, acceptsFirstDim, kRows, &kRule),
    KERNEL(embedding, acceptsAny, kEmbedding, &kRule),
    KERNEL_WITH("matmul", "matmul", sl_vendor_matmul, acceptsFloats, dear, kTwoRows, NULL, NULL, 0,
                kRelu, 1),
    KERNEL_AS("attention", "attention", sl_vendor_attention, acceptsAttention, dear, kAttention,
              NULL, NULL, 0),
    // What the compiler refuses by their descriptions.
    KERNEL_AS("floor", "floor", sl_vendor_relu, acceptsAny, cheap, kStrided, NULL, NULL, 0),
    {.size = sizeof(sl_kernel_desc),
     .name = "vendor.round",
     .backend = "vendor",
     .op = "round",
     .family = "",
     .summary = "of another symbol",
     .accepts = acceptsAny,
     .cost = cheap,
     .run_symbol = "round_run",
     .run = (void*)sl_vendor_relu,
     .rule = &kRule},
    KERNEL_AS("ceil", "ceil", sl_vendor_relu, acceptsAny, cheap, kStrided, &kOfUnknown, NULL, 0),
    KERNEL_AS("rms_norm", "rms_norm", sl_vendor_relu, acceptsAny, cheap, kNeedsBias, &kRule, NULL,
              0),
    KERNEL_AS("sign", "sign", sl_vendor_sign, acceptsAny, cheap, kTopk, &kRule, NULL, 0),
};

static const sl_backend_desc kBackend = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "vendor",
    .kernels = kKernels,
    .kernel_count = (int32_t)(sizeof(kKernels) / sizeof(kKernels[0])),
    .kernel_stride = sizeof(sl_kernel_desc),
};

__attribute__((visibility("default"))) const sl_backend_desc* straightline_backend_v1(void) {
  return &kBackend;
}
