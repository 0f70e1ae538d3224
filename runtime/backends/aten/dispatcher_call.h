// SPDX-License-Identifier: Apache-2.0
// One op with its arguments, called through torch's boxed dispatcher over buffers of the program.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_DISPATCHER_CALL_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_DISPATCHER_CALL_H

#include <memory>
#include <string>
#include <vector>

#include "call_text.h"
#include "straightline/abi/kernel.h"
#include "torch_functions.h"

namespace straightline::aten {

/// An operand's layout; extents and strides that are known per call are looked up in the numbers of
/// the call.
struct Layout {
  int32_t dtype;  ///< torch's number
  std::string dtypeName;
  int32_t rank;
  int64_t denseBytes;  ///< of a row-major layout whose sizes are known; -1 of any other
  int64_t spanBytes;   ///< from the first element to behind the last; -1: sizes are not known
  int64_t extents[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  int32_t extentSizes[SL_MAX_RANK];  ///< which number of the call it is, -1: static
  int32_t strideSizes[SL_MAX_RANK];
};

/// Immutable once made: any number of threads may run it at once.
class DispatcherCall {
 public:
  /// Null with the reason in `error` when torch has no name for something in it.
  static std::unique_ptr<DispatcherCall> make(const TorchFunctions& torch, CallText text,
                                              const sl_problem& problem, std::string* error);
  /// Offers a tensor to who called the program, as sl_aten_python has it.
  using Give = int32_t (*)(void* tensor, int64_t bytes, const void* to);
  /// False with words in `error` when the op fails or gives other results than planned. The only
  /// result is offered by `give` (nullable) when it has been copied.
  bool run(int32_t device, const void* const* inputs, void* const* outputs, const int64_t* sizes,
           Give give, std::string* error) const;

 private:
  struct Operands {
    const void* const* inputs;
    void* const* outputs;
    const int64_t* sizes;
    int32_t device;  ///< number of that on which the program is
    Give give;
  };
  class Views;
  /// A tensor over the buffer of an input or output, of real and imaginary parts in its last dim
  /// where `value` says so; null where torch fails.
  TensorHandle view(const Value& value, const Operands& operands) const;
  /// Those of a value, in the order in which it is boxed; false where torch fails.
  bool viewAll(const Value& value, const Operands& operands, Views* views) const;
  StableValue box(const Value& value, const Operands& operands, Views* views) const;
  StableValue boxPresent(const Value& value, const Operands& operands, Views* views) const;
  bool take(const Value& result, StableValue got, const Operands& operands,
            std::string* error) const;
  /// `isGiven`: whether somebody has taken it over.
  bool takeTensor(const Value& result, TensorHandle got, const Operands& operands, bool* isGiven,
                  std::string* error) const;
  bool sameShape(const Layout& layout, const Value& value, TensorHandle got, const int64_t* sizes,
                 std::string* error) const;
  /// Whether the result is the output's bytes, which are copied then.
  bool takeBytes(const Value& result, TensorHandle got, const Operands& operands,
                 bool* isGiven) const;
  /// Offers a result at `data`. A tensor of the call path's own would take longer to make.
  bool offer(TensorHandle got, const void* data, int64_t bytes, const void* to,
             const Operands& operands) const;
  std::string failure() const;

  const TorchFunctions* torch_;
  int32_t device_ = 0;  ///< torch's number of the type
  /// Results may be copied as bytes: the program is the host's, and torch says what is needed.
  bool takesBytes_ = false;
  /// What torch's own op gives was seen when it was captured: no negation that is still to be done,
  /// and memory of the host. An op of others may give anything.
  bool isTorchs_ = false;
  CallText text_;
  int32_t tensors_ = 0;  ///< among its arguments
  uint64_t version_ = 0;
  /// of the numbers of a call: what $0 means; those of the operands' layouts come first
  size_t firstSize_ = 0;
  std::vector<Layout> inputs_, outputs_;
};

}  // namespace straightline::aten

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_DISPATCHER_CALL_H
