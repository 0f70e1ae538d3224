// SPDX-License-Identifier: Apache-2.0
// Bounded text into an sl_message: never allocates, never overruns, always terminated. A null
// message is legal and makes every append a no-op.
#ifndef STRAIGHTLINE_RUNTIME_MESSAGE_WRITER_H
#define STRAIGHTLINE_RUNTIME_MESSAGE_WRITER_H

#include <cstdint>

#include "straightline/abi/straightline.h"

namespace straightline {

class MessageWriter {
 public:
  explicit MessageWriter(sl_message* message);

  MessageWriter& text(const char* value);
  MessageWriter& number(int64_t value);
  MessageWriter& dtype(sl_dtype value);
  /// `(1, 2, 3)`, as Python prints a tuple.
  MessageWriter& tuple(const int64_t* values, int32_t count);
  /// An expression in infix form with the program's extent names: `b * 2 + 1`.
  MessageWriter& expression(const sl_expr& value, const sl_program_desc& desc);
  /// `[b, 64]`.
  MessageWriter& shape(const sl_expr* extents, int32_t rank, const sl_program_desc& desc);

 private:
  void append(const char* value, size_t bytes);

  sl_message* message_;
  size_t used_ = 0;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_MESSAGE_WRITER_H
