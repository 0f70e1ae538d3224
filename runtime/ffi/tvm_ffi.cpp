// SPDX-License-Identifier: Apache-2.0
// A function of TVM-FFI over a model.
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "boundary.h"
#include "few.h"
#include "ffi/function.h"
#include "ffi/tvm_functions.h"
#include "host_memory.h"
#include "message_writer.h"

namespace straightline::ffi {
namespace {

/// What a status is in TVM-FFI, which has the names of Python's exceptions.
const char* kindOf(int32_t status) {
  switch (status) {
    case SL_INVALID_ARGUMENT:
      return "ValueError";
    case SL_INDEX_ERROR:
      return "IndexError";
    case SL_ZERO_DIVISION:
      return "ZeroDivisionError";
    case SL_OUT_OF_MEMORY:
      return "MemoryError";
    case SL_UNSUPPORTED:
      return "NotImplementedError";
    default:
      return "RuntimeError";
  }
}

/// A result's memory where the environment has no allocator.
struct OwnTensor {
  sl_dl_managed managed{};
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  Block block;
};

void releaseOwn(sl_dl_managed* managed) {
  auto* own = static_cast<OwnTensor*>(managed->context);
  releaseBlock(nullptr, &own->block);
  delete own;
}

/// Bytes from the lowest element on.
int64_t spanOf(const sl_tensor& tensor) {
  int64_t last = 1;
  for (int32_t d = 0; d < tensor.rank; ++d) {
    last =
        tensor.shape[d] == 0 ? 0 : last + (last != 0) * (tensor.shape[d] - 1) * tensor.strides[d];
  }
  return last * (tensor.dtype.bits / 8);
}

bool isRowMajor(const sl_tensor& tensor) {
  int64_t expected = 1;
  for (int32_t d = tensor.rank; d-- > 0;) {
    if (tensor.shape[d] == 0) {
      return true;
    }
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) {
      return false;
    }
    expected *= tensor.shape[d];
  }
  return true;
}

sl_dl_tensor dlOf(const sl_tensor& tensor) {
  sl_dl_tensor made{};
  made.device = {tensor.device_type, tensor.device_id};
  made.rank = tensor.rank;
  made.dtype = tensor.dtype;
  made.shape = const_cast<int64_t*>(tensor.shape);
  made.strides = const_cast<int64_t*>(tensor.strides);
  return made;
}

/// Borrowed from the value; nullopt: it is no text.
std::optional<std::string_view> textIn(const TvmAny& value) {
  if (value.type == kTvmText) {
    const auto* text = reinterpret_cast<const TvmBytes*>(static_cast<const char*>(value.pointer) +
                                                         kTvmHeaderBytes);
    return std::string_view(text->data, text->size);
  }
  if (value.type == kTvmRawText) {
    return std::string_view(static_cast<const char*>(value.pointer));
  }
  if (value.type == kTvmSmallText) {
    return std::string_view(value.bytes, value.textBytes);
  }
  return std::nullopt;
}

sl_dl_tensor* contentOf(TvmObject tensor) {
  return reinterpret_cast<sl_dl_tensor*>(static_cast<char*>(tensor) + kTvmHeaderBytes);
}

class TvmCall {
 public:
  TvmCall(sl_ffi_function* function, const TvmAny* arguments, int32_t count)
      : function_(function),
        signature_(*function->signature),
        arguments_(arguments),
        count_(count),
        tensors_(signature_.input_count),
        made_(signature_.model_result_count) {}
  TvmCall(const TvmCall&) = delete;
  TvmCall& operator=(const TvmCall&) = delete;
  ~TvmCall() {
    for (TvmObject object : held_) {
      tvm_->TVMFFIObjectDecRef(object);
    }
    for (int32_t i = 0; i < signature_.model_result_count; ++i) {
      if (made_[i]) {
        tvm_->TVMFFIObjectDecRef(made_[i]);
      }
    }
  }

  /// `choice`: of slots; null: the function's own model.
  int32_t run(const std::string_view* choice, TvmAny* result, sl_message* message) {
    const int32_t own = signature_.argument_count;
    into_ = count_ == own + signature_.result_count && signature_.result_count > 0;
    if (count_ != own && !into_) {
      MessageWriter writer(message);
      writer.text("got ").number(count_).text(" arguments but takes ").number(own);
      if (signature_.result_count > 0) {
        writer.text(", or ")
            .number(own + signature_.result_count)
            .text(" with a destination for each result");
      }
      return SL_INVALID_ARGUMENT;
    }
    int32_t status = SL_OK;
    for (int32_t i = 0; status == SL_OK && i < own; ++i) {
      status = take(signature_.arguments[i], arguments_[i], message);
    }
    Call call(function_);
    sl_model* model = status != SL_OK ? nullptr
                      : choice        ? call.model(*choice, message)
                                      : call.model(message);
    if (!model) {
      return status == SL_OK ? int32_t{SL_INVALID_ARGUMENT} : status;
    }
    if (!into_ && signature_.result_count > 0) {
      if (!(tvm_ = tvmFunctions(message))) {
        MessageWriter(message).text(
            "results need TVM-FFI in the process, and libtvm_ffi is not loaded: give a "
            "destination for each result behind the arguments");
        return SL_UNSUPPORTED;
      }
    }
    sl_model_target target{};
    target.size = sizeof(target);
    target.place = [](void* user, int32_t i, sl_tensor* to, sl_message* said) {
      return static_cast<TvmCall*>(user)->place(i, to, said);
    };
    target.user = this;
    if (function_->deviceType == 2 && (tvm_ || (tvm_ = tvmFunctions(nullptr)))) {
      target.on_stream = 1;
      target.stream = tvm_->TVMFFIEnvGetStream(2, function_->device);
    }
    status = sl_model_call_into(model, tensors_.data(), signature_.input_count, &target, message);
    return status == SL_OK ? give(result, message) : status;
  }

 private:
  int32_t refuse(const sl_ffi_argument& argument, const TvmAny& value, const char* wanted,
                 sl_message* message) const {
    MessageWriter(message)
        .text("argument '")
        .text(argument.name)
        .text("' is a value of TVM-FFI's type ")
        .number(value.type)
        .text(" but must be ")
        .text(wanted);
    return SL_INVALID_ARGUMENT;
  }

  static const sl_dl_tensor* tensorIn(const TvmAny& value) {
    return value.type == kTvmTensor     ? contentOf(value.pointer)
           : value.type == kTvmDlTensor ? static_cast<const sl_dl_tensor*>(value.pointer)
                                        : nullptr;
  }

  static void describe(const sl_dl_tensor& from, sl_tensor* to) {
    *to = {static_cast<char*>(from.data) + from.byte_offset,
           from.shape,
           from.strides,
           from.rank,
           from.dtype,
           from.device.type,
           from.device.type == 1 ? 0 : from.device.id};
    to->data = from.data ? to->data : nullptr;
  }

  int32_t take(const sl_ffi_argument& argument, const TvmAny& value, sl_message* message) {
    char given[64];
    switch (argument.kind) {
      case SL_FFI_TENSOR: {
        const sl_dl_tensor* tensor = tensorIn(value);
        if (!tensor) {
          return refuse(argument, value, "a tensor", message);
        }
        describe(*tensor, &tensors_[argument.index]);
        return SL_OK;
      }
      case SL_FFI_TENSORS:
        return takeList(argument, value, message);
      case SL_FFI_INT:
      case SL_FFI_BOOL:
        if (value.type != kTvmInt && value.type != kTvmBool) {
          return refuse(argument, value, "an int", message);
        }
        if (value.integer == argument.integer) {
          return SL_OK;
        }
        std::snprintf(given, sizeof given, "%lld", static_cast<long long>(value.integer));
        break;
      case SL_FFI_FLOAT: {
        if (value.type != kTvmFloat && value.type != kTvmInt) {
          return refuse(argument, value, "a float", message);
        }
        const double real =
            value.type == kTvmFloat ? value.real : static_cast<double>(value.integer);
        if (real == argument.real || std::memcmp(&real, &argument.real, sizeof real) == 0) {
          return SL_OK;
        }
        std::snprintf(given, sizeof given, "%.17g", real);
        break;
      }
      default: {
        const std::optional<std::string_view> text = textIn(value);
        if (!text) {
          return refuse(argument, value, "a str", message);
        }
        if (*text == argument.text) {
          return SL_OK;
        }
        std::snprintf(given, sizeof given, "'%.*s'",
                      static_cast<int>(text->size() < 48 ? text->size() : 48), text->data());
      }
    }
    saysOther(argument, given, message);
    return SL_INVALID_ARGUMENT;
  }

  /// Calls a global function of TVM-FFI; what it gives is the caller's.
  int32_t global(const char* name, const TvmAny* arguments, int32_t count, TvmAny* result,
                 sl_message* message) const {
    const TvmBytes text{name, std::strlen(name)};
    TvmObject function = nullptr;
    if (tvm_->TVMFFIFunctionGetGlobal(&text, &function) || !function) {
      MessageWriter(message).text("TVM-FFI has no global function ").text(name);
      return SL_UNSUPPORTED;
    }
    *result = {};
    const int failed = tvm_->TVMFFIFunctionCall(function, arguments, count, result);
    tvm_->TVMFFIObjectDecRef(function);
    if (failed) {
      MessageWriter(message).text(name).text(" of TVM-FFI failed");
      return SL_OP_FAILED;
    }
    return SL_OK;
  }

  int32_t takeList(const sl_ffi_argument& argument, const TvmAny& value, sl_message* message) {
    const bool isArray = value.type == kTvmArray;
    if (!isArray && value.type != kTvmList) {
      return refuse(argument, value, "an array of tensors", message);
    }
    if (!(tvm_ = tvmFunctions(message))) {
      return SL_UNSUPPORTED;
    }
    TvmAny size{};
    int32_t status = global(isArray ? "ffi.ArraySize" : "ffi.ListSize", &value, 1, &size, message);
    if (status == SL_OK && size.integer != argument.count) {
      MessageWriter(message)
          .text("argument '")
          .text(argument.name)
          .text("' has ")
          .number(size.integer)
          .text(" tensors but the program was compiled for ")
          .number(argument.count);
      return SL_INVALID_ARGUMENT;
    }
    for (int32_t i = 0; status == SL_OK && i < argument.count; ++i) {
      TvmAny place[2] = {value, {kTvmInt, 0, {i}}};
      TvmAny item{};
      status = global(isArray ? "ffi.ArrayGetItem" : "ffi.ListGetItem", place, 2, &item, message);
      if (status == SL_OK && item.type >= kTvmObject) {
        held_.push_back(item.pointer);
      }
      const sl_dl_tensor* tensor = status == SL_OK ? tensorIn(item) : nullptr;
      if (status == SL_OK && !tensor) {
        return refuse(argument, item, "an array of tensors alone", message);
      }
      if (tensor) {
        describe(*tensor, &tensors_[argument.index + i]);
      }
    }
    return status;
  }

  int32_t place(int32_t i, sl_tensor* result, sl_message* message) {
    for (int32_t k = 0; into_ && k < signature_.result_count; ++k) {
      if (signature_.results[k] == i) {
        return destination(k, result, message);
      }
    }
    return into_ ? int32_t{SL_INTERNAL} : fresh(i, result, message);
  }

  /// The caller's tensor for result `k`.
  int32_t destination(int32_t k, sl_tensor* result, sl_message* message) {
    const sl_dl_tensor* given = tensorIn(arguments_[signature_.argument_count + k]);
    if (!given) {
      MessageWriter(message).text("destination ").number(k).text(" is no tensor");
      return SL_INVALID_ARGUMENT;
    }
    sl_tensor to{};
    describe(*given, &to);
    bool same = to.rank == result->rank && to.dtype.code == result->dtype.code &&
                to.dtype.bits == result->dtype.bits && to.device_type == result->device_type;
    int64_t expected = 1;
    bool isEmpty = false;
    for (int32_t d = 0; same && d < to.rank; ++d) {
      isEmpty |= result->shape[d] == 0;
    }
    for (int32_t d = to.rank; same && d-- > 0;) {
      const int64_t stride = to.strides ? to.strides[d] : expected;
      same = to.shape[d] == result->shape[d] &&
             (isEmpty || to.shape[d] == 1 || stride == result->strides[d]);
      expected *= to.shape[d];
    }
    if (!same || (!to.data && !isEmpty)) {
      MessageWriter writer(message);
      writer.text("destination ").number(k).text(" is ").dtype(to.dtype).tuple(to.shape, to.rank);
      if (to.strides) {
        writer.text(" with strides ").tuple(to.strides, to.rank);
      }
      writer.text(" but the result is ").dtype(result->dtype).tuple(result->shape, result->rank);
      writer.text(" with strides ").tuple(result->strides, result->rank);
      return SL_INVALID_ARGUMENT;
    }
    const char* low = static_cast<const char*>(to.data);
    const char* high = low + spanOf(*result);
    for (int32_t i = 0; i < signature_.input_count; ++i) {
      const auto* input = static_cast<const char*>(tensors_[i].data);
      if (!isEmpty && input >= low && input < high) {
        MessageWriter(message)
            .text("destination ")
            .number(k)
            .text(" shares memory with input ")
            .number(i)
            .text(": give it memory of its own");
        return SL_INVALID_ARGUMENT;
      }
    }
    result->data = to.data;
    return SL_OK;
  }

  /// A tensor by the environment's allocator, which knows row-major ones alone; by ours where it
  /// has none.
  int32_t fresh(int32_t i, sl_tensor* result, sl_message* message) {
    TvmObject& made = made_[i];
    if (!tvm_->TVMFFIEnvGetDLPackManagedTensorAllocator()) {
      return own(result, &made, message);
    }
    sl_dl_tensor like = dlOf(*result);
    if (isRowMajor(*result)) {
      if (tvm_->TVMFFIEnvTensorAlloc(&like, &made)) {
        return SL_OP_FAILED;  // its error is set
      }
      const sl_dl_tensor& content = *contentOf(made);
      result->data = static_cast<char*>(content.data) + content.byte_offset;
      return SL_OK;
    }
    if (!tvm_->TVMFFITensorCreateUnsafeView) {
      MessageWriter(message).text(
          "a result is not row-major, and this libtvm_ffi makes no views: give a destination");
      return SL_UNSUPPORTED;
    }
    int64_t elements = spanOf(*result) / (result->dtype.bits / 8);
    int64_t one = 1;
    sl_dl_tensor flat = like;
    flat.rank = 1;
    flat.shape = &elements;
    flat.strides = &one;
    TvmObject memory = nullptr;
    if (tvm_->TVMFFIEnvTensorAlloc(&flat, &memory)) {
      return SL_OP_FAILED;
    }
    like.data = contentOf(memory)->data;
    like.byte_offset = contentOf(memory)->byte_offset;
    const int failed = tvm_->TVMFFITensorCreateUnsafeView(memory, &like, &made);
    tvm_->TVMFFIObjectDecRef(memory);
    result->data = static_cast<char*>(like.data) + like.byte_offset;
    return failed ? int32_t{SL_OP_FAILED} : int32_t{SL_OK};
  }

  int32_t own(sl_tensor* result, TvmObject* made, sl_message* message) {
    if (result->device_type != 1) {
      MessageWriter(message).text(
          "the environment has no allocator for results on a device: give a destination for each");
      return SL_UNSUPPORTED;
    }
    auto tensor = std::make_unique<OwnTensor>();
    const auto bytes = static_cast<size_t>(spanOf(*result));
    if (!allocateBlock(nullptr, 0, bytes, &tensor->block)) {
      MessageWriter(message)
          .text("a result needs ")
          .number(static_cast<int64_t>(bytes))
          .text(" bytes");
      return SL_OUT_OF_MEMORY;
    }
    std::memcpy(tensor->shape, result->shape, sizeof(int64_t) * static_cast<size_t>(result->rank));
    std::memcpy(tensor->strides, result->strides,
                sizeof(int64_t) * static_cast<size_t>(result->rank));
    tensor->managed.version = {SL_DLPACK_MAJOR, SL_DLPACK_MINOR};
    tensor->managed.context = tensor.get();
    tensor->managed.deleter = releaseOwn;
    tensor->managed.tensor = dlOf(*result);
    tensor->managed.tensor.data = result->data = tensor->block.address;
    tensor->managed.tensor.shape = tensor->shape;
    tensor->managed.tensor.strides = tensor->strides;
    OwnTensor* given = tensor.release();
    if (tvm_->TVMFFITensorFromDLPackVersioned(&given->managed, 0, 0, made)) {
      releaseOwn(&given->managed);
      return SL_OP_FAILED;
    }
    return SL_OK;
  }

  /// The results as one value: None, a tensor, or an array.
  int32_t give(TvmAny* result, sl_message* message) {
    *result = {};
    if (into_ || signature_.result_count == 0) {
      return SL_OK;
    }
    if (signature_.result_count == 1) {
      TvmObject& made = made_[signature_.results[0]];
      result->type = kTvmTensor;
      result->pointer = made;
      made = nullptr;
      return SL_OK;
    }
    std::vector<TvmAny> all(static_cast<size_t>(signature_.result_count));
    for (int32_t k = 0; k < signature_.result_count; ++k) {
      all[static_cast<size_t>(k)].type = kTvmTensor;
      all[static_cast<size_t>(k)].pointer = made_[signature_.results[k]];
    }
    return global("ffi.Array", all.data(), signature_.result_count, result, message);
  }

  sl_ffi_function* function_;
  const sl_ffi_signature& signature_;
  const TvmAny* arguments_;
  int32_t count_;
  bool into_ = false;  // destinations were given
  const TvmFunctions* tvm_ = nullptr;
  Tensors tensors_;
  std::vector<TvmObject> held_;  // items of arrays
  Few<TvmObject, kMost> made_;   // of the model's results; null: not made
};

/// Runs a call and has TVM-FFI raise what it says; 0 or -1.
template <typename Body>
int raising(const sl_ffi_function& function, Body body) {
  sl_message message;
  message.text[0] = '\0';
  const int32_t status = atBoundary(&message, [&] { return body(&message); });
  if (status == SL_OK) {
    return 0;
  }
  const TvmFunctions* tvm = tvmFunctions(nullptr);
  // without a message of ours TVM-FFI has set an error of its own
  if (tvm && message.text[0]) {
    sl_message whole;
    MessageWriter(&whole).text(function.signature->name).text(": ").text(message.text);
    tvm->TVMFFIErrorSetRaisedFromCStr(kindOf(status), whole.text);
  }
  return -1;
}

int safeCall(void* function, const TvmAny* arguments, int32_t count, TvmAny* result) {
  return sl_ffi_tvm_call(function, arguments, count, result);
}

void release(void* function) { sl_ffi_release(static_cast<sl_ffi_function*>(function)); }

}  // namespace
}  // namespace straightline::ffi

using namespace straightline;

int sl_ffi_tvm_call(void* function, const void* arguments, int32_t count, void* result) {
  auto* own = static_cast<sl_ffi_function*>(function);
  return ffi::raising(*own, [&](sl_message* message) {
    return ffi::TvmCall(own, static_cast<const ffi::TvmAny*>(arguments), count)
        .run(nullptr, static_cast<ffi::TvmAny*>(result), message);
  });
}

int sl_ffi_tvm_call_with_slots(void* function, const void* arguments, int32_t count, void* result) {
  auto* own = static_cast<sl_ffi_function*>(function);
  const auto* given = static_cast<const ffi::TvmAny*>(arguments);
  return ffi::raising(*own, [&](sl_message* message) -> int32_t {
    const auto choice = count > 0 ? ffi::textIn(given[0]) : std::nullopt;
    if (!choice) {
      MessageWriter(message).text(
          "the first argument must be a text that chooses slots, such as 'linear = onednn'");
      return SL_INVALID_ARGUMENT;
    }
    return ffi::TvmCall(own, given + 1, count - 1)
        .run(&*choice, static_cast<ffi::TvmAny*>(result), message);
  });
}

int32_t sl_ffi_tvm_function(sl_ffi_function* function, void** out, sl_message* message) {
  const ffi::TvmFunctions* tvm = ffi::tvmFunctions(message);
  if (!tvm) {
    return SL_UNSUPPORTED;
  }
  sl_ffi_retain(function);
  if (tvm->TVMFFIFunctionCreate(function, ffi::safeCall, ffi::release, out)) {
    sl_ffi_release(function);
    MessageWriter(message).text("TVM-FFI makes no function object");
    return SL_OP_FAILED;
  }
  return SL_OK;
}

int32_t sl_ffi_tvm_global(sl_ffi_function* function, const char* name, sl_message* message) {
  void* object = nullptr;
  if (const int32_t status = sl_ffi_tvm_function(function, &object, message)) {
    return status;
  }
  const ffi::TvmFunctions* tvm = ffi::tvmFunctions(message);
  const ffi::TvmBytes text{name, std::strlen(name)};
  const int failed = tvm->TVMFFIFunctionSetGlobal(&text, object, 0);
  tvm->TVMFFIObjectDecRef(object);
  if (failed) {
    MessageWriter(message).text("TVM-FFI refuses the global name ").text(name);
    return SL_INVALID_ARGUMENT;
  }
  return SL_OK;
}
