// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

#include "boundary.h"
#include "expression.h"
#include "message_writer.h"
#include "program.h"
#include "straightline/abi/device_names.h"

namespace straightline {
namespace {

// ---- the plan, made once

constexpr int32_t kCpu = 1;         // kDLCPU
constexpr int32_t kCuda = 2;        // kDLCUDA
constexpr int32_t kExtension = 12;  // kDLExtDev

}  // namespace

int32_t deviceTypeOf(const char* space) {
  if (std::strcmp(space, "host") == 0) {
    return kCpu;
  }
  return std::strcmp(space, "cuda") == 0 ? kCuda : kExtension;
}

namespace {

const sl_buffer* inputBuffer(const sl_program_desc& desc, int32_t input) {
  for (int32_t i = 0; i < desc.buffer_count; ++i) {
    if (desc.buffers[i].role == SL_ROLE_INPUT && desc.buffers[i].index == input) {
      return &desc.buffers[i];
    }
  }
  return nullptr;  // checkDescription refused this
}

/// The extents that a pass over the inputs in order has defined so far.
struct Bound {
  std::vector<bool> done;
  bool operator()(int32_t symbol) const { return done[static_cast<size_t>(symbol)]; }
  void set(int32_t symbol) { done[static_cast<size_t>(symbol)] = true; }
};

/// True when an input has this extent as a bare size: then no expression needs to be solved for
/// it.
bool hasBareSize(const GuardPlan& plan, int32_t symbol) {
  for (const GuardInput& input : plan.inputs) {
    for (int32_t d = 0; d < input.rank; ++d) {
      if (bareSymbol(input.buffer->extents[d]) == symbol) {
        return true;
      }
    }
  }
  return false;
}

GuardDim planSize(const GuardPlan& plan, const sl_expr& extent, Bound* bound) {
  GuardDim dim{};
  const int32_t symbol = bareSymbol(extent);
  const LinearForm form = linearForm(extent);
  if (isConstant(extent)) {
    dim.rule = GuardRule::kConstant;
    dim.value = sl_expr_value(&extent, nullptr);
  } else if (symbol >= 0) {
    dim.rule = (*bound)(symbol) ? GuardRule::kSymbol : GuardRule::kBind;
    dim.value = symbol;
    bound->set(symbol);
  } else if (form.valid && form.scale != 0 && !(*bound)(form.symbol) &&
             !hasBareSize(plan, form.symbol)) {
    dim.rule = GuardRule::kSolve;
    dim.value = form.symbol;
    dim.scale = form.scale;
    dim.offset = form.offset;
    bound->set(form.symbol);
  } else {
    dim.rule = GuardRule::kExpression;
  }
  return dim;
}

// ---- the comparison, on every call

/// What differed, for the message.
struct Mismatch {
  enum Kind { kDtype, kDevice, kRank, kData, kAlignment, kSize, kBounds, kStride } kind;
  int32_t input;
  int32_t dim;
};

/// Checks sizes whose rule needs no other input, and defines extents. Returns the dim that differs,
/// or -1.
inline int32_t checkSizes(const GuardDim* dims, const sl_tensor& tensor, const sl_extent* bounds,
                          int64_t* extents, Mismatch::Kind* kind) {
  for (int32_t d = 0; d < tensor.rank; ++d) {
    const GuardDim& dim = dims[d];
    int64_t size = tensor.shape[d];
    switch (dim.rule) {
      case GuardRule::kConstant:
        if (size != dim.value) {
          return d;
        }
        break;
      case GuardRule::kSymbol:
        if (size != extents[dim.value]) {
          return d;
        }
        break;
      case GuardRule::kSolve:
        if ((size - dim.offset) % dim.scale != 0) {
          return d;
        }
        size = (size - dim.offset) / dim.scale;
        [[fallthrough]];
      case GuardRule::kBind:
        if (size < bounds[dim.value].min || size > bounds[dim.value].max) {
          *kind = Mismatch::kBounds;
          return d;
        }
        extents[dim.value] = size;
        break;
      case GuardRule::kExpression:
        break;
    }
  }
  return -1;
}

inline int32_t checkLateSizes(const GuardDim* dims, const sl_tensor& tensor,
                              const sl_buffer& buffer, const int64_t* extents) {
  for (int32_t d = 0; d < tensor.rank; ++d) {
    if (dims[d].rule == GuardRule::kExpression &&
        tensor.shape[d] != sl_expr_value(&buffer.extents[d], extents)) {
      return d;
    }
  }
  return -1;
}

inline bool isEmpty(const sl_tensor& tensor) {
  for (int32_t d = 0; d < tensor.rank; ++d) {
    if (tensor.shape[d] == 0) {
      return true;
    }
  }
  return false;
}

/// Strides of dims of size 1 have no meaning, and frameworks differ in what they store there.
inline int32_t checkStrides(const GuardDim* dims, const sl_tensor& tensor, const sl_buffer& buffer,
                            const int64_t* extents) {
  int64_t contiguous = 1;
  for (int32_t d = tensor.rank - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1) {
      const int64_t stride = tensor.strides ? tensor.strides[d] : contiguous;
      const int64_t compiled = dims[d].strideRule == GuardRule::kConstant
                                   ? dims[d].stride
                                   : sl_expr_value(&buffer.strides[d], extents);
      if (stride != compiled) {
        return d;
      }
    }
    contiguous *= tensor.shape[d];
  }
  return -1;
}

inline bool sameDtype(sl_dtype a, sl_dtype b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// True when everything matches; otherwise `*mismatch` describes the difference. `extents` is
/// filled up to the first difference.
bool compare(const sl_program& program, const sl_tensor* tensors, int64_t* extents,
             Mismatch* mismatch) {
  const GuardPlan& plan = program.guard;
  const sl_extent* bounds = program.desc->extents;
  const auto count = static_cast<int32_t>(plan.inputs.size());
  bool late = false;
  for (int32_t i = 0; i < count; ++i) {
    const GuardInput& input = plan.inputs[static_cast<size_t>(i)];
    const sl_tensor& tensor = tensors[i];
    const GuardDim* dims = plan.dims.data() + input.firstDim;
    if (!sameDtype(tensor.dtype, input.dtype) || tensor.device_type != input.deviceType ||
        (input.device >= 0 && tensor.device_id != input.device) || tensor.rank != input.rank) {
      const bool dtype = sameDtype(tensor.dtype, input.dtype);
      *mismatch = {!dtype                      ? Mismatch::kDtype
                   : tensor.rank != input.rank ? Mismatch::kRank
                                               : Mismatch::kDevice,
                   i, 0};
      return false;
    }
    Mismatch::Kind kind = Mismatch::kSize;
    if (const int32_t d = checkSizes(dims, tensor, bounds, extents, &kind); d >= 0) {
      *mismatch = {kind, i, d};
      return false;
    }
    const auto address = reinterpret_cast<uintptr_t>(tensor.data);
    if ((address & input.alignmentMask) != 0 || address == 0) {
      if (!isEmpty(tensor)) {
        *mismatch = {address ? Mismatch::kAlignment : Mismatch::kData, i, 0};
        return false;
      }
    }
    if (input.late) {
      late = true;
    } else if (const int32_t d = checkStrides(dims, tensor, *input.buffer, extents);
               d >= 0 && !isEmpty(tensor)) {
      *mismatch = {Mismatch::kStride, i, d};
      return false;
    }
  }
  for (int32_t i = 0; late && i < count; ++i) {
    const GuardInput& input = plan.inputs[static_cast<size_t>(i)];
    if (!input.late) {
      continue;
    }
    const GuardDim* dims = plan.dims.data() + input.firstDim;
    if (const int32_t d = checkLateSizes(dims, tensors[i], *input.buffer, extents); d >= 0) {
      *mismatch = {Mismatch::kSize, i, d};
      return false;
    }
    if (const int32_t d = checkStrides(dims, tensors[i], *input.buffer, extents);
        d >= 0 && !isEmpty(tensors[i])) {
      *mismatch = {Mismatch::kStride, i, d};
      return false;
    }
  }
  return true;
}

// ---- the message, on a mismatch

/// Appends how each extent that `expression` reads got its value: " (b = 4)".
void explainExtents(const sl_expr& expression, const sl_program_desc& desc, const int64_t* extents,
                    MessageWriter* writer) {
  const char* separator = " (";
  for (int64_t i = 0; i < expression.count; ++i) {
    if (expression.steps[i].op == 's') {
      const int64_t symbol = expression.steps[i].value;
      writer->text(separator).text(desc.extents[symbol].name).text(" = ").number(extents[symbol]);
      separator = ", ";
    }
  }
  writer->text(separator[0] == ',' ? ")" : "");
}

void describeSize(const sl_program& program, const Mismatch& mismatch, const sl_tensor& tensor,
                  const int64_t* extents, MessageWriter* writer) {
  const sl_program_desc& desc = *program.desc;
  const GuardInput& input = program.guard.inputs[static_cast<size_t>(mismatch.input)];
  const GuardDim& dim = program.guard.dims[input.firstDim + static_cast<uint32_t>(mismatch.dim)];
  const sl_expr& extent = input.buffer->extents[mismatch.dim];
  writer->text("dim ")
      .number(mismatch.dim)
      .text(" is ")
      .number(tensor.shape[mismatch.dim])
      .text(" but this program was compiled for ");
  const SizeAdvice& advice = program.guard.advice;
  if (dim.rule == GuardRule::kConstant) {
    writer->number(dim.value);
    writer->text("; ").text(
        advice.fixed ? advice.fixed
                     : "compile the module for this size, or with a named extent for the dim");
    return;
  }
  writer->expression(extent, desc);
  if (mismatch.kind == Mismatch::kBounds) {
    const sl_extent& bounds = desc.extents[dim.value];
    writer->text(bareSymbol(extent) >= 0 ? "" : " with ")
        .text(bareSymbol(extent) >= 0 ? "" : bounds.name)
        .text(" in [")
        .number(bounds.min)
        .text(", ")
        .number(bounds.max)
        .text("]; ")
        .text(advice.bounds ? advice.bounds : "compile the module for this size, or the extent")
        .text(tensor.shape[mismatch.dim] > bounds.max ? " with a larger max"
                                                      : " with a smaller min")
        .text(advice.bounds ? " to sl.compile" : "");
    return;
  }
  if (dim.rule == GuardRule::kSolve) {
    writer->text(", and no whole number ")
        .text(desc.extents[dim.value].name)
        .text(" gives this size");
    return;
  }
  writer->text(" = ").number(sl_expr_value(&extent, extents));
  explainExtents(extent, desc, extents, writer);
  writer->text("; pass inputs whose sizes agree");
  writer->text(advice.fixed ? ", or an example of these sizes to sl.compile" : "");
}

void describeStrides(const sl_program& program, const Mismatch& mismatch, const sl_tensor& tensor,
                     const int64_t* extents, MessageWriter* writer) {
  const sl_buffer& buffer = *program.guard.inputs[static_cast<size_t>(mismatch.input)].buffer;
  int64_t came[SL_MAX_RANK];
  int64_t compiled[SL_MAX_RANK];
  int64_t contiguous = 1;
  for (int32_t d = tensor.rank - 1; d >= 0; --d) {
    came[d] = tensor.strides ? tensor.strides[d] : contiguous;
    compiled[d] = sl_expr_value(&buffer.strides[d], extents);
    contiguous *= tensor.shape[d];
  }
  writer->text("strides are ")
      .tuple(came, tensor.rank)
      .text(" but this program was compiled for ")
      .tuple(compiled, tensor.rank)
      .text(" at size ")
      .tuple(tensor.shape, tensor.rank)
      .text("; pass a tensor of that layout")
      .text(program.guard.advice.fixed
                ? " (often x.contiguous()) or an example of this layout to sl.compile"
                : "");
}

/// Of devices that a framework has over a plug-in's.
std::atomic<const char*> extensionName{"plug-in"};

const char* deviceName(int32_t type) {
  switch (type) {
    case 1:
      return "cpu";
    case 2:
      return "cuda";
    case 3:
      return "cuda_host";
    case 8:
      return "metal";
    case 10:
      return "rocm";
    case 12:
      return extensionName.load();
    case 14:
      return "oneapi";
    default:
      return nullptr;
  }
}

/// `number` -1: the message does not mention it.
void writeDevice(int32_t type, int32_t number, MessageWriter* writer) {
  if (const char* name = deviceName(type)) {
    writer->text(name);
  } else {
    writer->text("device type ").number(type);
  }
  if (number >= 0) {
    writer->text(":").number(number);
  }
}

void describe(const sl_program& program, const Mismatch& mismatch, const sl_tensor& tensor,
              const int64_t* extents, sl_message* message) {
  const GuardInput& input = program.guard.inputs[static_cast<size_t>(mismatch.input)];
  const sl_buffer& buffer = *input.buffer;
  const bool hasExamples = program.guard.advice.fixed;  // a module of text has none
  MessageWriter writer(message);
  writer.text("input '").text(userName(buffer)).text("': ");
  switch (mismatch.kind) {
    case Mismatch::kDtype:
      writer.text("dtype is ")
          .dtype(tensor.dtype)
          .text(" but this program was compiled for ")
          .dtype(input.dtype)
          .text("; convert it")
          .text(hasExamples ? " or pass an example of this dtype to sl.compile" : "");
      break;
    case Mismatch::kDevice:
      writer.text("it is on ");
      writeDevice(tensor.device_type, tensor.device_type == kCpu ? -1 : tensor.device_id, &writer);
      writer.text(" but this program was compiled for ");
      writeDevice(input.deviceType, input.device, &writer);
      writer.text("; move it or compile for that device");
      break;
    case Mismatch::kRank:
      writer.text("it has ")
          .number(tensor.rank)
          .text(" dims but this program was compiled for ")
          .number(input.rank)
          .text(", ")
          .shape(buffer.extents, buffer.rank, *program.desc)
          .text(hasExamples ? "; pass an example of this rank to sl.compile"
                            : "; compile the module for this rank");
      break;
    case Mismatch::kData:
      writer.text("its data is a null pointer but its size is ").tuple(tensor.shape, tensor.rank);
      break;
    case Mismatch::kAlignment:
      writer.text("its data is not aligned to the ")
          .number(input.alignmentMask + 1)
          .text(" bytes of ")
          .dtype(input.dtype)
          .text("; pass a copy of it");
      break;
    case Mismatch::kSize:
    case Mismatch::kBounds:
      describeSize(program, mismatch, tensor, extents, &writer);
      break;
    case Mismatch::kStride:
      describeStrides(program, mismatch, tensor, extents, &writer);
      break;
  }
}

__attribute__((noinline, cold)) int32_t reportMismatch(const sl_program& program,
                                                       const Mismatch& mismatch,
                                                       const sl_tensor* tensors,
                                                       const int64_t* extents,
                                                       sl_message* message) {
  return atBoundary(message, [&] {
    describe(program, mismatch, tensors[mismatch.input], extents, message);
    return SL_INVALID_ARGUMENT;
  });
}

__attribute__((noinline, cold)) int32_t reportCount(const sl_program& program, int32_t count,
                                                    sl_message* message) {
  const auto expected = static_cast<int64_t>(program.guard.inputs.size());
  MessageWriter writer(message);
  writer.text("the program takes ")
      .number(expected)
      .text(expected == 1 ? " input" : " inputs")
      .text(" (");
  for (int64_t i = 0; i < expected; ++i) {
    writer.text(i ? ", '" : "'")
        .text(userName(*program.guard.inputs[static_cast<size_t>(i)].buffer))
        .text("'");
  }
  writer.text(") but got ").number(count);
  return SL_INVALID_ARGUMENT;
}

__attribute__((noinline, cold)) int32_t reportUnbound(const sl_program& program,
                                                      sl_message* message) {
  MessageWriter(message)
      .text("extent '")
      .text(program.desc->extents[program.guard.unboundExtent].name)
      .text(
          "' cannot be read off any input's size; it must stand alone or as a multiple plus a "
          "constant in one");
  return SL_UNSUPPORTED;
}

}  // namespace

GuardPlan buildGuardPlan(const sl_program_desc& desc, int32_t device) {
  GuardPlan plan;
  if (desc.size >= offsetof(sl_program_desc, size_bounds_advice) + sizeof(const char*)) {
    plan.advice = {desc.fixed_size_advice, desc.size_bounds_advice};
  }
  for (int32_t i = 0; i < desc.input_count; ++i) {
    const sl_buffer* buffer = inputBuffer(desc, i);
    const uint32_t itemBytes =
        (static_cast<uint32_t>(buffer->dtype.bits) * buffer->dtype.lanes + 7) / 8;
    const bool power = itemBytes != 0 && std::has_single_bit(itemBytes);
    const int32_t type = deviceTypeOf(desc.spaces[buffer->space]);
    plan.inputs.push_back({buffer->dtype, buffer->rank, type, type == kCpu ? -1 : device, 0,
                           power ? itemBytes - 1 : 0, false, buffer});
  }
  Bound bound{std::vector<bool>(static_cast<size_t>(desc.extent_count))};
  for (GuardInput& input : plan.inputs) {
    input.firstDim = static_cast<uint32_t>(plan.dims.size());
    for (int32_t d = 0; d < input.rank; ++d) {
      GuardDim dim = planSize(plan, input.buffer->extents[d], &bound);
      const sl_expr& stride = input.buffer->strides[d];
      dim.strideRule = isConstant(stride) ? GuardRule::kConstant : GuardRule::kExpression;
      dim.stride = isConstant(stride) ? sl_expr_value(&stride, nullptr) : 0;
      input.late |= dim.rule == GuardRule::kExpression || dim.strideRule == GuardRule::kExpression;
      plan.dims.push_back(dim);
    }
  }
  for (int32_t s = desc.extent_count - 1; s >= 0; --s) {
    if (desc.extents[s].bound.count > 0) {
      plan.computed.push_back(s);
    } else if (!bound(s)) {
      plan.unboundExtent = s;
    }
  }
  return plan;
}

}  // namespace straightline

int32_t sl_program_guard(const sl_program* program, const sl_tensor* inputs, int32_t count,
                         int64_t* extents, sl_message* message) {
  using namespace straightline;
  if (static_cast<size_t>(count) != program->guard.inputs.size()) {
    return reportCount(*program, count, message);
  }
  if (program->guard.unboundExtent >= 0) {
    return reportUnbound(*program, message);
  }
  Mismatch mismatch;
  if (compare(*program, inputs, extents, &mismatch)) {
    for (const int32_t computed : program->guard.computed) {
      extents[computed] = sl_expr_value(&program->desc->extents[computed].bound, extents);
    }
    return SL_OK;
  }
  return reportMismatch(*program, mismatch, inputs, extents, message);
}

void sl_name_extension_devices(const char* name) { straightline::extensionName = name; }
