// SPDX-License-Identifier: Apache-2.0
// `run` of each is called by the device's `launch`, on the caller's thread: it enqueues the work,
// whose addresses the worker translates. Sizes are numbers of the compilation, except that the
// first dims of x may be known in a call only.
#include "kernels.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "device_memory.h"

namespace sim {
namespace {

/// What plan keeps. `rows` is without the dynamic dims, of which there are `dynamic`, all of x
/// except the last.
struct Shape {
  int64_t rows = 1, columns = 1, inner = 1;
  int32_t dynamic = 0;
  bool hasBias = false, relu = false;
};

bool isFloat32(const sl_operand* operand) {
  return operand->dtype.code == 2 && operand->dtype.bits == 32;
}

/// Whether x and what follows are float32 and the last dim of x is a number.
int32_t acceptsRows(const sl_problem* problem, char* reason, size_t bytes) {
  for (int32_t i = 0; i < problem->inputs + problem->outputs; ++i) {
    const sl_operand* operand = sl_operand_at(problem, i);
    if (!isFloat32(operand)) {
      std::snprintf(reason, bytes, "operand %d has elements of %d bits (code %d), it takes float32",
                    i, operand->dtype.bits, operand->dtype.code);
      return -1;
    }
  }
  const sl_operand* x = sl_operand_at(problem, 0);
  if (x->rank < 1 || x->extents[x->rank - 1] == SL_DYNAMIC) {
    std::snprintf(reason, bytes,
                  "x has rank %d or a last dim that a call brings, "
                  "it takes a last dim that is known",
                  x->rank);
    return 0;
  }
  return 1;
}

int32_t acceptsLinear(const sl_problem* problem, char* reason, size_t bytes) {
  const int32_t answer = acceptsRows(problem, reason, bytes);
  const sl_operand* weight = sl_operand_at(problem, 1);
  if (answer == 1 &&
      (weight->rank != 2 || weight->extents[0] == SL_DYNAMIC || weight->extents[1] == SL_DYNAMIC)) {
    std::snprintf(reason, bytes,
                  "the weight has rank %d or sizes that a call brings, "
                  "it takes a matrix of known sizes",
                  weight->rank);
    return 0;
  }
  return answer;
}

int32_t acceptsSoftmax(const sl_problem* problem, char* reason, size_t bytes) {
  const int32_t answer = acceptsRows(problem, reason, bytes);
  sl_attribute dim;
  const int32_t last = sl_operand_at(problem, 0)->rank - 1;
  if (answer == 1 && sl_plugin_attribute(problem, "dim", &dim) && dim.value != last &&
      dim.value != -1) {
    std::snprintf(reason, bytes, "dim is %lld, it takes the last one, %d",
                  static_cast<long long>(dim.value), last);
    return 0;
  }
  return answer;
}

double elementsOf(const sl_operand* operand) {
  double count = 1;
  for (int32_t dim = 0; dim < operand->rank; ++dim) {
    count *= operand->extents[dim] == SL_DYNAMIC ? 64 : static_cast<double>(operand->extents[dim]);
  }
  return count;
}

double costOfElements(const sl_problem* problem) {
  return 1 + elementsOf(sl_operand_at(problem, 0)) / 500;
}

/// Plain loops: 1,000 multiply-adds in a microsecond.
double costOfLinear(const sl_problem* problem) {
  const sl_operand* weight = sl_operand_at(problem, 1);
  return 1 + elementsOf(sl_operand_at(problem, 0)) * static_cast<double>(weight->extents[0]) / 1000;
}

int32_t planRows(const sl_problem* problem, void** handle) {
  auto* shape = new Shape;
  const sl_operand* x = sl_operand_at(problem, 0);
  for (int32_t dim = 0; dim + 1 < x->rank; ++dim) {
    if (x->extents[dim] == SL_DYNAMIC) {
      ++shape->dynamic;
    } else {
      shape->rows *= x->extents[dim];
    }
  }
  shape->inner = shape->columns = x->extents[x->rank - 1];
  *handle = shape;
  return SL_OK;
}

/// The rows of a call: the last element of `inputs` begins with the dynamic dims of x.
int64_t rowsOf(const Shape& shape, const void* sizes) {
  int64_t rows = shape.rows;
  for (int32_t i = 0; i < shape.dynamic; ++i) {
    rows *= static_cast<const int64_t*>(sizes)[i];
  }
  return rows;
}

/// On the worker: address number `i` of an item as one of the worker's. NULL stays NULL, and what
/// is not allocated becomes the queue's failure.
float* worker(Queue& queue, Item& item, int i, int64_t elements, const char* kernel, bool* failed) {
  void* address = reinterpret_cast<void*>(item.arguments()[i]);
  if (!address || elements == 0) {
    return nullptr;
  }
  void* found =
      memoryOf(queue.device()).translate(address, static_cast<size_t>(elements) * sizeof(float));
  if (!found) {
    sl_ctx context = {};
    context.status = SL_DEVICE_ERROR;
    std::snprintf(context.text, sizeof context.text,
                  "operand %d at %p is no allocated memory of device %d", i, address,
                  queue.device());
    queue.fail(kernel, context);
    *failed = true;
  }
  return static_cast<float*>(found);
}

int32_t noQueue(sl_ctx* ctx, const char* kernel) {
  char text[128];
  std::snprintf(text, sizeof text, "%s runs by the device's launch only", kernel);
  return sl_plugin_fail(ctx, SL_INTERNAL, text);
}

/// x, weight, bias, y; rows, inner, columns, relu
void workLinear(Queue& queue, Item& item) {
  const int64_t* sizes = item.arguments() + 4;
  const int64_t rows = sizes[0], inner = sizes[1], columns = sizes[2];
  bool failed = false;
  const float* x = worker(queue, item, 0, rows * inner, "sim.linear", &failed);
  const float* weight = worker(queue, item, 1, columns * inner, "sim.linear", &failed);
  const float* bias = worker(queue, item, 2, columns, "sim.linear", &failed);
  float* y = worker(queue, item, 3, rows * columns, "sim.linear", &failed);
  for (int64_t row = 0; row < (failed ? 0 : rows); ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      double sum = bias ? bias[column] : 0;
      for (int64_t i = 0; i < inner; ++i) {
        sum += static_cast<double>(x[row * inner + i]) * weight[column * inner + i];
      }
      y[row * columns + column] = static_cast<float>(sizes[3] && sum < 0 ? 0 : sum);
    }
  }
}

void workRelu(Queue& queue, Item& item) {
  const int64_t count = item.arguments()[2];
  bool failed = false;
  const float* x = worker(queue, item, 0, count, "sim.relu", &failed);
  float* y = worker(queue, item, 1, count, "sim.relu", &failed);
  for (int64_t i = 0; i < (failed ? 0 : count); ++i) {
    y[i] = x[i] < 0 ? 0 : x[i];  // a NaN stays one
  }
}

void workSoftmax(Queue& queue, Item& item) {
  const int64_t rows = item.arguments()[2], columns = item.arguments()[3];
  bool failed = false;
  const float* x = worker(queue, item, 0, rows * columns, "sim.softmax", &failed);
  float* y = worker(queue, item, 1, rows * columns, "sim.softmax", &failed);
  for (int64_t row = 0; row < (failed ? 0 : rows); ++row, x += columns, y += columns) {
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < columns; ++i) {
      most = x[i] > most || std::isnan(x[i]) ? x[i] : most;
    }
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) {
      sum += std::exp(static_cast<double>(x[i]) - most);
    }
    for (int64_t i = 0; i < columns; ++i) {
      y[i] = static_cast<float>(std::exp(static_cast<double>(x[i]) - most) / sum);
    }
  }
}

int32_t enqueue(sl_ctx* ctx, const char* kernel, Item::Function work, const int64_t* arguments,
                int32_t count) {
  Queue* queue = launchingQueue();
  if (!queue) {
    return noQueue(ctx, kernel);
  }
  Item item;
  item.function = work;
  std::memcpy(item.reserve(count), arguments, static_cast<size_t>(count) * sizeof *arguments);
  queue->enqueue(std::move(item));
  return SL_OK;
}

int64_t number(const void* address) { return reinterpret_cast<int64_t>(address); }

}  // namespace

Queue*& launchingQueue() {
  static thread_local Queue* queue = nullptr;
  return queue;
}

}  // namespace sim

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int32_t sl_sim_plan_linear(sl_ctx*, const sl_problem* problem, const void* const*,
                                  void** handle) {
  const int32_t status = sim::planRows(problem, handle);
  auto* shape = static_cast<sim::Shape*>(*handle);
  sl_attribute activation;
  shape->columns = sl_operand_at(problem, 1)->extents[0];
  shape->hasBias = problem->inputs > 2;
  shape->relu = sl_plugin_attribute(problem, "activation", &activation) &&
                std::strcmp(activation.text, "relu") == 0;
  return status;
}
EXPORT void sl_sim_plan_linear_destroy(void* handle) { delete static_cast<sim::Shape*>(handle); }
EXPORT int32_t sl_sim_linear(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs,
                             void* const* outputs, void*) {
  const auto& shape = *static_cast<const sim::Shape*>(handle);
  const void* sizes = inputs[shape.hasBias ? 3 : 2];
  const int64_t arguments[] = {sim::number(inputs[0]),
                               sim::number(inputs[1]),
                               shape.hasBias ? sim::number(inputs[2]) : 0,
                               sim::number(outputs[0]),
                               sim::rowsOf(shape, shape.dynamic ? sizes : nullptr),
                               shape.inner,
                               shape.columns,
                               shape.relu};
  return sim::enqueue(ctx, "sim.linear", sim::workLinear, arguments, 8);
}

EXPORT int32_t sl_sim_plan_rows(sl_ctx*, const sl_problem* problem, const void* const*,
                                void** handle) {
  return sim::planRows(problem, handle);
}
EXPORT void sl_sim_plan_rows_destroy(void* handle) { delete static_cast<sim::Shape*>(handle); }
EXPORT int32_t sl_sim_relu(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs,
                           void* const* outputs, void*) {
  const auto& shape = *static_cast<const sim::Shape*>(handle);
  const int64_t rows = sim::rowsOf(shape, shape.dynamic ? inputs[1] : nullptr);
  const int64_t arguments[] = {sim::number(inputs[0]), sim::number(outputs[0]),
                               rows * shape.columns};
  return sim::enqueue(ctx, "sim.relu", sim::workRelu, arguments, 3);
}
EXPORT int32_t sl_sim_softmax(sl_ctx* ctx, sl_team, void* handle, const void* const* inputs,
                              void* const* outputs, void*) {
  const auto& shape = *static_cast<const sim::Shape*>(handle);
  const int64_t rows = sim::rowsOf(shape, shape.dynamic ? inputs[1] : nullptr);
  const int64_t arguments[] = {sim::number(inputs[0]), sim::number(outputs[0]), rows,
                               shape.columns};
  return sim::enqueue(ctx, "sim.softmax", sim::workSoftmax, arguments, 4);
}

namespace sim {
namespace {

constexpr uint32_t kRows = SL_LAYOUT_ROW_MAJOR;
const sl_operand_facts kLinear[] = {
    {"x", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_ROWS, 0},
    {"weight", SL_TYPE_F32, 0, kRows, 0, 0, 0},
    {"bias", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_OUTPUT | SL_OPERAND_ROWS, 0}};
const sl_operand_facts kElements[] = {{"x", SL_TYPE_F32, 0, kRows, 0, 0, 0},
                                      {"y", SL_TYPE_F32, 0, kRows, 0, SL_OPERAND_OUTPUT, 0}};
const sl_epilogue kEpilogues[] = {{"bias", SL_TYPE_F32, 0}, {"relu", SL_TYPE_F32, 0}};
const sl_calling_rule kRule = {sizeof(sl_calling_rule), nullptr, 0, 0};

using Accepts = int32_t (*)(const sl_problem*, char*, size_t);
using Cost = double (*)(const sl_problem*);

/// What all kernels here have in common; facts and entry points follow.
sl_kernel_desc base(const char* name, const char* op, const char* summary, Accepts accepts,
                    Cost cost) {
  sl_kernel_desc kernel = {};
  kernel.size = sizeof kernel;
  kernel.name = name;
  kernel.backend = "sim";
  kernel.op = op;
  kernel.family = "";
  kernel.summary = summary;
  kernel.accepts = accepts;
  kernel.cost = cost;
  kernel.can_fail = 1;
  kernel.operand_stride = sizeof(sl_operand_facts);
  kernel.epilogue_stride = sizeof(sl_epilogue);
  kernel.rule = &kRule;
  return kernel;
}

sl_kernel_desc linearKernel() {
  sl_kernel_desc kernel =
      base("sim.linear", "linear", "the device's own linear", acceptsLinear, costOfLinear);
  kernel.plan_symbol = "sl_sim_plan_linear";
  kernel.plan = reinterpret_cast<void*>(sl_sim_plan_linear);
  kernel.destroy = sl_sim_plan_linear_destroy;
  kernel.run_symbol = "sl_sim_linear";
  kernel.run = reinterpret_cast<void*>(sl_sim_linear);
  kernel.operands = kLinear;
  kernel.operand_count = 4;
  kernel.epilogues = kEpilogues;
  kernel.epilogue_count = 2;
  return kernel;
}

sl_kernel_desc rowsKernel(const char* name, const char* op, const char* summary, Accepts accepts,
                          const char* symbol, void* run) {
  sl_kernel_desc kernel = base(name, op, summary, accepts, costOfElements);
  kernel.plan_symbol = "sl_sim_plan_rows";
  kernel.plan = reinterpret_cast<void*>(sl_sim_plan_rows);
  kernel.destroy = sl_sim_plan_rows_destroy;
  kernel.run_symbol = symbol;
  kernel.run = run;
  kernel.operands = kElements;
  kernel.operand_count = 2;
  return kernel;
}

}  // namespace

const sl_kernel_desc kKernels[] = {
    linearKernel(),
    rowsKernel("sim.relu", "relu", "the device's own ReLU", acceptsRows, "sl_sim_relu",
               reinterpret_cast<void*>(sl_sim_relu)),
    rowsKernel("sim.softmax", "softmax", "the device's own softmax of rows", acceptsSoftmax,
               "sl_sim_softmax", reinterpret_cast<void*>(sl_sim_softmax))};
const int32_t kKernelCount = static_cast<int32_t>(sizeof kKernels / sizeof kKernels[0]);

}  // namespace sim
