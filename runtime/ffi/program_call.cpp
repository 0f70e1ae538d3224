// SPDX-License-Identifier: Apache-2.0
// A call of a function's model from a program: no framework is between the two.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "boundary.h"
#include "ffi/function.h"
#include "message_writer.h"
#include "straightline/abi/own_kernel.h"

namespace straightline::ffi {
namespace {

using Strides = std::array<int64_t, SL_MAX_RANK>;

class ProgramCall {
 public:
  ProgramCall(sl_ffi_function* function, const sl_kernel_tensor* const* results)
      : function_(function),
        signature_(*function->signature),
        results_(results),
        tensors_(signature_.input_count) {}

  int32_t run(const sl_kernel_tensor* const* inputs, void* stream, sl_message* message) {
    Call call(function_);
    sl_model* model = call.model(message);
    if (!model) {
      return SL_INVALID_ARGUMENT;
    }
    const int32_t count = signature_.input_count;
    if (count > kMost) {
      more_.resize(static_cast<size_t>(count));
    }
    for (int32_t i = 0; i < count; ++i) {
      describe(*inputs[i], &tensors_[i],
               more_.empty() ? &few_[static_cast<size_t>(i)] : &more_[static_cast<size_t>(i)]);
    }
    sl_model_target target{};
    target.size = sizeof(target);
    target.place = [](void* user, int32_t i, sl_tensor* to, sl_message* said) {
      return static_cast<ProgramCall*>(user)->place(i, to, said);
    };
    target.user = this;
    target.on_stream = function_->deviceType == 1 ? 0 : 1;
    target.stream = stream;
    return sl_model_call_into(model, tensors_.data(), count, &target, message);
  }

 private:
  /// A tensor of the caller, which is row-major.
  void describe(const sl_kernel_tensor& from, sl_tensor* to, Strides* strides) const {
    int64_t stride = 1;
    for (int32_t dim = from.rank; dim-- > 0;) {
      (*strides)[static_cast<size_t>(dim)] = stride;
      stride *= from.extents[dim];
    }
    *to = {from.data,  from.extents,          strides->data(),  from.rank,
           from.dtype, function_->deviceType, function_->device};
  }

  int32_t place(int32_t i, sl_tensor* result, sl_message* message) {
    const int32_t* all = signature_.results;
    const auto k = std::find(all, all + signature_.result_count, i) - all;
    if (k == signature_.result_count) {
      MessageWriter(message).text("the caller has no place for result ").number(i);
      return SL_INTERNAL;
    }
    const sl_kernel_tensor& to = *results_[k];
    bool same = to.rank == result->rank && to.dtype.code == result->dtype.code &&
                to.dtype.bits == result->dtype.bits;
    int64_t expected = 1;
    for (int32_t dim = to.rank; same && dim-- > 0;) {
      same = to.extents[dim] == result->shape[dim] &&
             (to.extents[dim] <= 1 || result->strides[dim] == expected);
      expected *= std::max<int64_t>(to.extents[dim], 1);
    }
    if (!same) {
      MessageWriter writer(message);
      writer.text("result ").number(k).text(" is ").dtype(result->dtype);
      writer.tuple(result->shape, result->rank).text(" with strides ");
      writer.tuple(result->strides, result->rank).text(" but the caller takes ");
      writer.dtype(to.dtype).tuple(to.extents, to.rank).text(" row-major");
      return SL_INVALID_ARGUMENT;
    }
    result->data = to.data;
    return SL_OK;
  }

  sl_ffi_function* function_;
  const sl_ffi_signature& signature_;
  const sl_kernel_tensor* const* results_;
  Tensors tensors_;
  std::array<Strides, kMost> few_;  // set before it is read
  std::vector<Strides> more_;
};

}  // namespace
}  // namespace straightline::ffi

using namespace straightline;

int32_t sl_ffi_program_call(sl_ffi_function* function, const sl_kernel_tensor* const* inputs,
                            const sl_kernel_tensor* const* results, void* stream, char* message) {
  sl_message said;
  said.text[0] = '\0';
  const int32_t status = atBoundary(
      &said, [&] { return ffi::ProgramCall(function, results).run(inputs, stream, &said); });
  if (status != SL_OK) {
    const size_t bytes = std::min(std::strlen(said.text), size_t{SL_KERNEL_MESSAGE_BYTES - 1});
    std::memcpy(message, said.text, bytes);
    message[bytes] = '\0';
  }
  return status;
}
