// SPDX-License-Identifier: Apache-2.0
// Part of straightline.hpp: exceptions, element types and arrays in host memory.
#ifndef STRAIGHTLINE_TENSOR_HPP
#define STRAIGHTLINE_TENSOR_HPP

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "straightline/abi/straightline.h"
#include "straightline/compiler_abi.h"

namespace straightline {
inline namespace v1 {

// Errors ------------------------------------------------------------------------------------------

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, sl_status status = SL_OK)
      : std::runtime_error(message), status_(status) {}
  /// What a call ended with (SL_INDEX_ERROR, SL_OUT_OF_MEMORY, ...); SL_OK when it was no call that
  /// failed.
  sl_status status() const { return status_; }

 private:
  sl_status status_;
};

/// The input, or the way it was used, is wrong.
class UserError : public Error {
 public:
  using Error::Error;
};

/// Right, but beyond what Straightline does.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// A bug in Straightline.
class InternalError : public Error {
 public:
  using Error::Error;
};

namespace detail {

struct Release {
  void operator()(sl_text* object) const { sl_text_release(object); }
  void operator()(sl_module* object) const { sl_module_release(object); }
  void operator()(sl_builder* object) const { sl_builder_release(object); }
  void operator()(sl_compilation* object) const { sl_compilation_release(object); }
  void operator()(sl_program* object) const { sl_program_release(object); }
  void operator()(sl_weights* object) const { sl_weights_release(object); }
  void operator()(sl_queue* object) const { sl_queue_release(object); }
  void operator()(sl_frame* object) const { sl_frame_return(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

inline std::string take(sl_text* text) {
  const Owned<sl_text> owned(text);
  return owned ? std::string(sl_text_data(text), sl_text_size(text)) : std::string();
}

/// Throws what a function of the compiler's ABI reported.
inline void check(int32_t kind, sl_text* error) {
  if (kind == SL_ERROR_NONE) {
    return;
  }
  const std::string message = take(error);
  switch (kind) {
    case SL_ERROR_USER:
      throw UserError(message);
    case SL_ERROR_UNSUPPORTED:
      throw UnsupportedError(message);
    default:
      throw InternalError(message);
  }
}

/// Throws what a function of the runtime's ABI reported.
inline void check(int32_t status, const sl_message& message) {
  const auto known = static_cast<sl_status>(status);
  switch (known) {
    case SL_OK:
      return;
    case SL_UNSUPPORTED:
      throw UnsupportedError(message.text, known);
    case SL_INTERNAL:
      throw InternalError(message.text, known);
    case SL_INVALID_ARGUMENT:
    case SL_INDEX_ERROR:
    case SL_ZERO_DIVISION:
    case SL_CHECK_FAILED:
    case SL_OP_FAILED:
    case SL_OUT_OF_MEMORY:
    case SL_CANCELLED:
    case SL_DEVICE_ERROR:
      throw UserError(message.text, known);
  }
  throw InternalError(std::string(message.text) + " (unknown status " + std::to_string(status) +
                      ")");
}

template <typename T>
const T& present(const T& handle, const char* what) {
  if (!handle) {
    throw UserError(std::string(what) + " is empty: it was moved from, or never made");
  }
  return handle;
}

inline std::string join(std::span<const int64_t> values) {
  std::string text;
  for (int64_t value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

}  // namespace detail

// Element types -----------------------------------------------------------------------------------

enum class DType { f32, f64, f16, bf16, i8, i16, i32, i64, u8, boolean };

namespace detail {

struct DTypeRow {
  DType dtype;
  const char* name;  ///< in the IR
  sl_dtype code;
};
inline constexpr DTypeRow dtypes[] = {
    {DType::f32, "f32", {2, 32, 1}}, {DType::f64, "f64", {2, 64, 1}},
    {DType::f16, "f16", {2, 16, 1}}, {DType::bf16, "bf16", {4, 16, 1}},
    {DType::i8, "i8", {0, 8, 1}},    {DType::i16, "i16", {0, 16, 1}},
    {DType::i32, "i32", {0, 32, 1}}, {DType::i64, "i64", {0, 64, 1}},
    {DType::u8, "ui8", {1, 8, 1}},   {DType::boolean, "i1", {6, 8, 1}}};

inline const DTypeRow& row(DType dtype) { return dtypes[static_cast<size_t>(dtype)]; }

inline DType dtypeOf(sl_dtype code) {
  for (const DTypeRow& row : dtypes) {
    if (row.code.code == code.code && row.code.bits == code.bits && row.code.lanes == code.lanes) {
      return row.dtype;
    }
  }
  throw UnsupportedError("dlpack dtype " + std::to_string(code.code) + " of " +
                         std::to_string(code.bits) + " bits");
}

template <typename T>
constexpr DType dtypeFor() {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<Plain, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<Plain, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_same_v<Plain, uint8_t>) {
    return DType::u8;
  } else {
    static_assert(std::signed_integral<Plain>,
                  "no element type of a tensor; give the DType by itself");
    constexpr DType bySize[] = {DType::i8, DType::i16, DType::i32, DType::i64};
    return bySize[sizeof(Plain) == 1 ? 0 : sizeof(Plain) == 2 ? 1 : sizeof(Plain) == 4 ? 2 : 3];
  }
}

}  // namespace detail

/// As the IR spells it: "f32", "i1", ...
inline std::string_view name(DType dtype) { return detail::row(dtype).name; }
inline int64_t sizeBytes(DType dtype) { return detail::row(dtype).code.bits / 8; }

// Tensors -----------------------------------------------------------------------------------------

/// An array in host memory: a handle, copies of which share the elements. Strides count elements.
class Tensor {
 public:
  Tensor() = default;

  /// Fresh elements, not initialised, row-major, at a multiple of 64 bytes.
  static Tensor empty(DType dtype, std::vector<int64_t> shape) {
    Tensor tensor(dtype, std::move(shape), {});
    tensor.allocate(tensor.sizeElems() * sizeBytes(dtype));
    return tensor;
  }

  /// A copy of `values`, row-major.
  template <typename T>
  static Tensor of(std::vector<int64_t> shape, std::span<const T> values) {
    Tensor tensor = empty(detail::dtypeFor<T>(), std::move(shape));
    if (static_cast<int64_t>(values.size()) != tensor.sizeElems()) {
      throw UserError("a tensor of shape " + detail::join(tensor.shape_) + " has " +
                      std::to_string(tensor.sizeElems()) + " elements but " +
                      std::to_string(values.size()) + " are given");
    }
    if (!values.empty()) {
      std::memcpy(tensor.data_, values.data(), values.size_bytes());
    }
    return tensor;
  }
  template <typename T>
  static Tensor of(std::vector<int64_t> shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }

  /// Memory of the caller, which outlives the tensor, its copies and every Function that it is
  /// bound to. Const memory is never written: a program that would refuses it.
  template <typename T>
  static Tensor borrow(T* data, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    return borrow(static_cast<const void*>(data), detail::dtypeFor<T>(), std::move(shape),
                  std::move(strides), std::is_const_v<T>);
  }
  static Tensor borrow(const void* data, DType dtype, std::vector<int64_t> shape,
                       std::vector<int64_t> strides = {}, bool readOnly = true) {
    if (!strides.empty() && strides.size() != shape.size()) {
      throw UserError("shape " + detail::join(shape) + " has rank " + std::to_string(shape.size()) +
                      " but strides " + detail::join(strides) + " have " +
                      std::to_string(strides.size()));
    }
    Tensor tensor(dtype, std::move(shape), std::move(strides));
    if (data == nullptr && tensor.sizeElems() != 0) {
      throw UserError("a tensor of shape " + detail::join(tensor.shape_) + " over a null pointer");
    }
    tensor.data_ = const_cast<void*>(data);
    tensor.readOnly_ = readOnly;
    tensor.made_ = true;
    return tensor;
  }

  explicit operator bool() const { return made_; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t sizeElems() const {
    int64_t count = 1;
    for (int64_t extent : shape_) {
      count *= extent;
    }
    return count;
  }
  bool isReadOnly() const { return readOnly_; }
  void* data() const { return data_; }

  /// Element 0; T must be the element type.
  template <typename T>
  T* data() const {
    requireType<T>();
    if (readOnly_ && !std::is_const_v<T>) {
      throw UserError("the tensor is over const memory: ask for data<const T>()");
    }
    return static_cast<T*>(data_);
  }

  /// The elements of a row-major tensor.
  template <typename T>
  std::span<T> elements() const {
    if (!isContiguous()) {
      throw UserError("the tensor has strides " + detail::join(strides_) +
                      ", which are not row-major for shape " + detail::join(shape_));
    }
    return {data<T>(), static_cast<size_t>(sizeElems())};
  }

  bool isContiguous() const {
    int64_t expected = 1;
    for (size_t d = shape_.size(); d-- > 0;) {
      if (shape_[d] != 1 && strides_[d] != expected && sizeElems() != 0) {
        return false;
      }
      expected *= shape_[d];
    }
    return true;
  }

  /// "f32[3, 8]"
  std::string describe() const { return std::string(name(dtype_)) + detail::join(shape_); }

 private:
  friend class Function;
  friend class Model;

  Tensor(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides)
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)) {
    if (shape_.size() > SL_MAX_RANK) {
      throw UnsupportedError("shape " + detail::join(shape_) + " has rank " +
                             std::to_string(shape_.size()) + ", at most " +
                             std::to_string(SL_MAX_RANK) + " are taken");
    }
    if (std::any_of(shape_.begin(), shape_.end(), [](int64_t extent) { return extent < 0; })) {
      throw UserError("shape " + detail::join(shape_) + " has a negative extent");
    }
    if (strides_.empty() && !shape_.empty()) {
      strides_.resize(shape_.size());
      int64_t step = 1;
      for (size_t d = shape_.size(); d-- > 0;) {
        strides_[d] = step;
        step *= shape_[d];
      }
    }
  }

  void allocate(int64_t bytes) {
    constexpr std::align_val_t alignment{64};
    // Whole lines, and never none, so that every tensor has an address of its own.
    const size_t rounded = (static_cast<size_t>(bytes) / 64 + 1) * 64;
    void* memory = ::operator new(rounded, alignment, std::nothrow);
    if (memory == nullptr) {
      throw UserError(
          describe() + " needs " + std::to_string(bytes) + " bytes, which could not be allocated",
          SL_OUT_OF_MEMORY);
    }
    owner_ = std::shared_ptr<void>(memory,
                                   [](void* own) { ::operator delete(own, std::align_val_t{64}); });
    data_ = memory;
    made_ = true;
  }

  template <typename T>
  void requireType() const {
    if (!made_ || detail::dtypeFor<T>() != dtype_) {
      throw UserError(made_ ? "the tensor is " + describe() + " but " +
                                  std::string(name(detail::dtypeFor<T>())) + " is asked for"
                            : "the tensor is empty: it was never made");
    }
  }

  DType dtype_ = DType::f32;
  bool readOnly_ = false;
  bool made_ = false;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  void* data_ = nullptr;         ///< element 0
  std::shared_ptr<void> owner_;  ///< null when borrowed
};

}  // namespace v1
}  // namespace straightline

#endif  // STRAIGHTLINE_TENSOR_HPP
