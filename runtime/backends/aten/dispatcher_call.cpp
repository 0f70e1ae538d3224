// SPDX-License-Identifier: Apache-2.0
#include "dispatcher_call.h"

#include <algorithm>
#include <cstring>

#include "few.h"

namespace straightline::aten {
namespace {

/// Arguments and results of most ops.
constexpr int32_t kFew = 16;

template <class T>
StableValue boxed(T value) {
  static_assert(sizeof(T) <= sizeof(StableValue));
  StableValue result = 0;
  std::memcpy(&result, &value, sizeof(value));
  return result;
}

template <class T>
T unboxed(StableValue value) {
  T result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

/// "2.13.0" as torch numbers it: a byte each from the highest.
uint64_t versionNumber(const std::string& text) {
  unsigned parts[3] = {0, 0, 0};
  size_t part = 0;
  for (char c : text) {
    if (c == '.' && part < 2) {
      ++part;
    } else if (c >= '0' && c <= '9') {
      parts[part] = parts[part] * 10 + static_cast<unsigned>(c - '0');
    } else {
      break;
    }
  }
  return (uint64_t{parts[0]} << 56) | (uint64_t{parts[1]} << 48) | (uint64_t{parts[2]} << 40);
}

bool isComplex(const Value& value) { return value.text.rfind("complex", 0) == 0; }

/// Replaces the names of dtypes, layouts and formats by torch's numbers.
/// `device`: where the program runs.
bool resolve(Value* value, const std::string& device, std::string* error) {
  const char* kind = nullptr;
  switch (value->kind) {
    case Value::Kind::dtype:
      kind = "dtype";
      break;
    case Value::Kind::layout:
      kind = "layout";
      break;
    case Value::Kind::format:
      kind = "memory_format";
      break;
    case Value::Kind::input:
    case Value::Kind::output:
      if (int32_t code = 0; !value->text.empty() && !torchNumber("dtype", value->text, &code)) {
        *error = "torch has no dtype " + value->text;
        return false;
      } else if (!value->text.empty()) {
        value->real = code;  // small numbers are exact
      }
      return true;
    case Value::Kind::device:
      if (value->text != device) {
        *error = "device " + value->text + " but the program runs on " + device;
        return false;
      }
      return true;
    case Value::Kind::complex:
      *error = "complex numbers are passed through Python";
      return false;
    case Value::Kind::none:
    case Value::Kind::size:
    case Value::Kind::integer:
    case Value::Kind::real:
    case Value::Kind::boolean:
    case Value::Kind::text:
      return true;
    case Value::Kind::list:
      for (Value& item : value->items) {
        if (!resolve(&item, device, error)) {
          return false;
        }
      }
      return true;
  }
  int32_t number = 0;
  if (!torchNumber(kind, value->text, &number)) {
    *error = std::string("torch has no ") + kind + " " + value->text;
    return false;
  }
  value->number = number;
  return true;
}

/// Tensors among the values.
int32_t countTensors(const std::vector<Value>& values) {
  int32_t count = 0;
  for (const Value& value : values) {
    const bool isTensor = value.kind == Value::Kind::input || value.kind == Value::Kind::output;
    count += isTensor ? 1 : countTensors(value.items);
  }
  return count;
}

int64_t denseBytes(const sl_operand& operand) {
  int64_t count = 1;
  for (int32_t dim = operand.rank - 1; dim >= 0; --dim) {
    const int64_t extent = operand.extents[dim];
    if (extent == SL_DYNAMIC || (extent != 1 && operand.strides[dim] != count)) {
      return -1;
    }
    count *= extent;
  }
  return count * ((operand.dtype.bits + 7) / 8);
}

int64_t spanBytes(const sl_operand& operand) {
  int64_t last = 0;
  for (int32_t dim = 0; dim < operand.rank; ++dim) {
    if (operand.extents[dim] == SL_DYNAMIC || operand.strides[dim] == SL_DYNAMIC) {
      return -1;
    }
    if (operand.extents[dim] == 0) {
      return 0;
    }
    last += (operand.extents[dim] - 1) * operand.strides[dim];
  }
  return (last + 1) * ((operand.dtype.bits + 7) / 8);
}

bool makeLayout(const sl_operand& operand, int32_t* nextSize, Layout* layout, std::string* error) {
  layout->dtypeName = torchDtypeName(operand.dtype);
  if (!torchNumber("dtype", layout->dtypeName, &layout->dtype)) {
    *error = "torch has no dtype " + layout->dtypeName;
    return false;
  }
  layout->rank = operand.rank;
  auto place = [&](const int64_t* from, int64_t* values, int32_t* sizes) {
    for (int32_t dim = 0; dim < operand.rank; ++dim) {
      const bool known = from[dim] != SL_DYNAMIC;
      values[dim] = known ? from[dim] : 0;
      sizes[dim] = known ? -1 : (*nextSize)++;
    }
  };
  place(operand.extents, layout->extents, layout->extentSizes);
  place(operand.strides, layout->strides, layout->strideSizes);
  layout->denseBytes = denseBytes(operand);
  layout->spanBytes = spanBytes(operand);
  return true;
}

int64_t valueOf(int64_t known, int32_t size, const int64_t* sizes) {
  return size < 0 ? known : sizes[size];
}

std::string shapeText(const int64_t* sizes, int64_t rank) {
  std::string text = "[";
  for (int64_t dim = 0; dim < rank; ++dim) {
    text += (dim ? ", " : "") + std::to_string(sizes[dim]);
  }
  return text + "]";
}

}  // namespace

std::unique_ptr<DispatcherCall> DispatcherCall::make(const TorchFunctions& torch, CallText text,
                                                     const sl_problem& problem,
                                                     std::string* error) {
  auto call = std::make_unique<DispatcherCall>();
  call->torch_ = &torch;
  call->version_ = versionNumber(text.version);
  const std::string device = deviceOf(problem);
  if (!torchNumber("device_type", device, &call->device_)) {
    *error = "torch has no device " + device;
    return nullptr;
  }
  for (auto* values : {&text.arguments, &text.results}) {
    for (Value& value : *values) {
      if (!resolve(&value, device, error)) {
        return nullptr;
      }
    }
  }
  call->isTorchs_ = text.name.rfind("aten::", 0) == 0;
  call->takesBytes_ = device == "cpu" && torch.aoti_torch_is_contiguous &&
                      torch.aoti_torch_get_data_ptr &&
                      (call->isTorchs_ || (torch.is_negated && torch.aoti_torch_get_device_type));
  call->tensors_ = countTensors(text.arguments);
  call->text_ = std::move(text);
  int32_t nextSize = 0;
  for (int32_t i = 0; i < problem.inputs + problem.outputs; ++i) {
    Layout layout{};
    if (!makeLayout(*sl_operand_at(&problem, i), &nextSize, &layout, error)) {
      return nullptr;
    }
    (i < problem.inputs ? call->inputs_ : call->outputs_).push_back(layout);
  }
  call->firstSize_ = static_cast<size_t>(nextSize);
  return call;
}

std::string DispatcherCall::failure() const {
  if (torch_->torch_exception_get_what_without_backtrace) {
    return torch_->torch_exception_get_what_without_backtrace();
  }
  return "torch " + text_.version + " writes its message to standard error only";
}

/// Tensors of a call. All are made before the first is boxed, so that a failure leaves nothing half
/// boxed; those that no box has taken are released.
class DispatcherCall::Views {
 public:
  Views(const TorchFunctions& torch, int32_t most) : torch_(torch), tensors_(most) {}
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views() {
    for (; taken_ < made_; ++taken_) {
      torch_.aoti_torch_delete_tensor_object(tensors_[taken_]);
    }
  }
  bool add(TensorHandle tensor) {
    if (tensor) {
      tensors_[made_++] = tensor;
    }
    return tensor != nullptr;
  }
  TensorHandle take() { return tensors_[taken_++]; }

 private:
  const TorchFunctions& torch_;
  Few<TensorHandle, kFew> tensors_;
  int32_t made_ = 0, taken_ = 0;
};

TensorHandle DispatcherCall::view(const Value& value, const Operands& operands) const {
  const auto index = static_cast<size_t>(value.number);
  const bool isInput = value.kind == Value::Kind::input;
  const Layout& layout = isInput ? inputs_[index] : outputs_[index];
  void* data = isInput ? const_cast<void*>(operands.inputs[index]) : operands.outputs[index];
  const int64_t* sizes = operands.sizes;
  int64_t extents[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  const bool complex = isComplex(value);
  const int32_t rank = layout.rank - (complex ? 1 : 0);
  for (int32_t dim = 0; dim < rank; ++dim) {
    extents[dim] = valueOf(layout.extents[dim], layout.extentSizes[dim], sizes);
    strides[dim] = valueOf(layout.strides[dim], layout.strideSizes[dim], sizes) / (complex ? 2 : 1);
  }
  int64_t span = 1;  // of the dims behind
  for (int32_t dim = rank - 1; dim >= 0; --dim) {
    if (extents[dim] == 1) {
      strides[dim] = span;  // as torch's own tensors have it: its kernels choose by strides
    }
    span = std::max(span, strides[dim] * extents[dim]);
  }
  if (std::find(extents, extents + rank, 0) != extents + rank) {
    // torch asks the driver for the device of any other address, which may belong to none
    data = nullptr;
  }
  const int32_t dtype = value.text.empty() ? layout.dtype : static_cast<int32_t>(value.real);
  TensorHandle tensor = nullptr;
  const bool failed =
      torch_->aoti_torch_create_tensor_from_blob(data, rank, extents, strides, 0, dtype, device_,
                                                 operands.device, &tensor) != 0;
  return failed ? nullptr : tensor;
}

bool DispatcherCall::viewAll(const Value& value, const Operands& operands, Views* views) const {
  if (value.kind == Value::Kind::input || value.kind == Value::Kind::output) {
    return views->add(view(value, operands));
  }
  return std::all_of(value.items.begin(), value.items.end(),
                     [&](const Value& item) { return viewAll(item, operands, views); });
}

StableValue DispatcherCall::box(const Value& value, const Operands& operands, Views* views) const {
  if (value.kind == Value::Kind::none) {
    return 0;
  }
  const StableValue present = boxPresent(value, operands, views);
  if (!value.optional) {
    return present;
  }
  // An optional that is present is a pointer to it, which the callee deletes.
  StableValue* place = nullptr;
  if (torch_->torch_new_stable_ivalue) {
    torch_->torch_new_stable_ivalue(&place);
  } else {
    place = new StableValue;
  }
  *place = present;
  return boxed(place);
}

StableValue DispatcherCall::boxPresent(const Value& value, const Operands& operands,
                                       Views* views) const {
  switch (value.kind) {
    case Value::Kind::none:
    case Value::Kind::complex:
      return 0;
    case Value::Kind::input:
    case Value::Kind::output:
      return boxed(views->take());
    case Value::Kind::size:
      return boxed(operands.sizes[firstSize_ + static_cast<size_t>(value.number)]);
    case Value::Kind::integer:
      return boxed(value.number);
    case Value::Kind::real:
      return boxed(value.real);
    case Value::Kind::boolean:
      return boxed(value.number != 0);
    case Value::Kind::dtype:
    case Value::Kind::layout:
    case Value::Kind::format:
      return boxed(static_cast<int32_t>(value.number));
    case Value::Kind::device:
      // Type in the upper half, index in the lower; the host has none (-1).
      return (StableValue{static_cast<uint32_t>(device_)} << 32) |
             (value.text == "cpu" ? 0xFFFFFFFFu : static_cast<uint32_t>(operands.device));
    case Value::Kind::text: {
      StringHandle text = nullptr;
      torch_->torch_new_string_handle(value.text.data(), value.text.size(), &text);
      return boxed(text);
    }
    case Value::Kind::list: {
      ListHandle list = nullptr;
      torch_->torch_new_list_reserve_size(value.items.size(), &list);
      for (const Value& item : value.items) {
        torch_->torch_list_push_back(list, box(item, operands, views));
      }
      return boxed(list);
    }
  }
  return 0;
}

bool DispatcherCall::sameShape(const Layout& layout, const Value& value, TensorHandle got,
                               const int64_t* sizes, std::string* error) const {
  int64_t planned[SL_MAX_RANK];
  const int64_t rank = layout.rank - (isComplex(value) ? 1 : 0);
  for (int64_t dim = 0; dim < rank; ++dim) {
    planned[dim] = valueOf(layout.extents[dim], layout.extentSizes[dim], sizes);
  }
  int64_t gotRank = -1;
  int64_t* gotSizes = nullptr;
  int32_t gotDtype = -1;
  torch_->aoti_torch_get_dim(got, &gotRank);
  torch_->aoti_torch_get_sizes(got, &gotSizes);
  torch_->aoti_torch_get_dtype(got, &gotDtype);
  const int32_t dtype = value.text.empty() ? layout.dtype : static_cast<int32_t>(value.real);
  if (gotRank != rank ||
      (rank && std::memcmp(gotSizes, planned, sizeof(int64_t) * static_cast<size_t>(rank)) != 0)) {
    *error = "gave a tensor of sizes " + shapeText(gotSizes, gotRank) +
             " where its fake kernel said " + shapeText(planned, rank);
    return false;
  }
  if (gotDtype != dtype) {
    *error = "gave a tensor of another dtype than " +
             (value.text.empty() ? layout.dtypeName : value.text) + ", which its fake kernel said";
    return false;
  }
  return true;
}

bool DispatcherCall::offer(TensorHandle got, const void* data, int64_t bytes, const void* to,
                           const Operands& operands) const {
  if (!operands.give || !torch_->is_negated || (isTorchs_ && torch_->is_negated(got))) {
    return false;
  }
  // Memory of the program, such as an input that the op gives back, is not the caller's to have.
  const auto low = reinterpret_cast<uintptr_t>(data);
  const auto liesIn = [&](const Layout& layout, const void* operand) {
    const auto other = reinterpret_cast<uintptr_t>(operand);
    return layout.spanBytes < 0 || (low < other + static_cast<uintptr_t>(layout.spanBytes) &&
                                    other < low + static_cast<uintptr_t>(bytes));
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (liesIn(inputs_[i], operands.inputs[i])) {
      return false;
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (liesIn(outputs_[i], operands.outputs[i])) {
      return false;
    }
  }
  return operands.give(got, bytes, to) != 0;
}

bool DispatcherCall::takeBytes(const Value& result, TensorHandle got, const Operands& operands,
                               bool* isGiven) const {
  const auto index = static_cast<size_t>(result.number);
  const int64_t bytes = outputs_[index].denseBytes;
  bool contiguous = false;
  void* from = nullptr;
  if (!takesBytes_ || bytes < 0 || isComplex(result) ||
      torch_->aoti_torch_is_contiguous(got, &contiguous) != 0 || !contiguous ||
      torch_->aoti_torch_get_data_ptr(got, &from) != 0) {
    return false;
  }
  if (!isTorchs_) {
    int32_t type = -1;
    torch_->aoti_torch_get_device_type(got, &type);
    if (type != device_ || torch_->is_negated(got) || (bytes > 0 && !from)) {
      return false;
    }
  }
  if (bytes > 0) {
    std::memcpy(operands.outputs[index], from, static_cast<size_t>(bytes));
    *isGiven = offer(got, from, bytes, operands.outputs[index], operands);
  }
  return true;
}

bool DispatcherCall::takeTensor(const Value& result, TensorHandle got, const Operands& operands,
                                bool* isGiven, std::string* error) const {
  const size_t index = static_cast<size_t>(result.number);
  if (!sameShape(outputs_[index], result, got, operands.sizes, error)) {
    return false;
  }
  if (takeBytes(result, got, operands, isGiven)) {
    return true;
  }
  // Through copy_ and not memcpy: the result may be lazily negated or conjugated, with any strides.
  TensorHandle to = view(result, operands);
  const bool copied = to && torch_->aoti_torch_copy_(to, got, 0) == 0;
  if (!copied) {
    *error = failure();
  }
  if (to) {
    torch_->aoti_torch_delete_tensor_object(to);
  }
  return copied;
}

bool DispatcherCall::take(const Value& result, StableValue got, const Operands& operands,
                          std::string* error) const {
  if (result.kind == Value::Kind::list) {
    const auto list = unboxed<ListHandle>(got);
    size_t count = 0;
    torch_->torch_list_size(list, &count);
    bool fine = count == result.items.size();
    if (!fine) {
      *error = "gave a list of " + std::to_string(count) + " where its fake kernel said " +
               std::to_string(result.items.size());
    }
    for (size_t i = 0; i < count; ++i) {
      StableValue item = 0;
      torch_->torch_list_get_item(list, i, &item);
      if (fine) {
        fine = take(result.items[i], item, operands, error);
      } else {
        torch_->aoti_torch_delete_tensor_object(unboxed<TensorHandle>(item));
      }
    }
    torch_->torch_delete_list(list);
    return fine;
  }
  const auto tensor = unboxed<TensorHandle>(got);
  bool isGiven = false;
  const bool fine =
      result.kind != Value::Kind::output || takeTensor(result, tensor, operands, &isGiven, error);
  if (!isGiven) {
    torch_->aoti_torch_delete_tensor_object(tensor);
  }
  return fine;
}

bool DispatcherCall::run(int32_t device, const void* const* inputs, void* const* outputs,
                         const int64_t* sizes, Give give, std::string* error) const {
  const bool isOnly =
      text_.results.size() == 1 && text_.results.front().kind == Value::Kind::output;
  const Operands operands{inputs, outputs, sizes, device, isOnly ? give : nullptr};
  Views views(*torch_, tensors_);
  for (const Value& argument : text_.arguments) {
    if (!viewAll(argument, operands, &views)) {
      *error = failure();
      return false;
    }
  }
  Few<StableValue, kFew> stack(
      static_cast<int32_t>(std::max(text_.arguments.size(), text_.results.size())));
  for (size_t i = 0; i < text_.arguments.size(); ++i) {
    stack.data()[i] = box(text_.arguments[i], operands, &views);
  }
  if (torch_->torch_call_dispatcher(text_.name.c_str(), text_.overload.c_str(), stack.data(),
                                    version_) != 0) {
    *error = failure();
    return false;
  }
  bool fine = true;
  for (size_t i = 0; i < text_.results.size(); ++i) {
    std::string words;
    if (!take(text_.results[i], stack.data()[i], operands, &words) && fine) {
      fine = false;
      *error = std::move(words);
    }
  }
  return fine;
}

}  // namespace straightline::aten
