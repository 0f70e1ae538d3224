// SPDX-License-Identifier: Apache-2.0
#include "message_writer.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "expression.h"

namespace straightline {

MessageWriter::MessageWriter(sl_message* message) : message_(message) {
  if (message_) {
    message_->text[0] = '\0';
  }
}

void MessageWriter::append(const char* value, size_t bytes) {
  if (!message_) {
    return;
  }
  const size_t room = sizeof(message_->text) - 1 - used_;
  const size_t count = bytes < room ? bytes : room;
  std::memcpy(message_->text + used_, value, count);
  used_ += count;
  message_->text[used_] = '\0';
}

MessageWriter& MessageWriter::text(const char* value) {
  append(value, std::strlen(value));
  return *this;
}

MessageWriter& MessageWriter::number(int64_t value) {
  char digits[24];
  const int count = std::snprintf(digits, sizeof(digits), "%" PRId64, value);
  append(digits, static_cast<size_t>(count));
  return *this;
}

MessageWriter& MessageWriter::dtype(sl_dtype value) {
  // DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool.
  const char* family = nullptr;
  switch (value.code) {
    case 0:
      family = "int";
      break;
    case 1:
      family = "uint";
      break;
    case 2:
      family = "float";
      break;
    case 4:
      family = "bfloat";
      break;
    case 5:
      family = "complex";
      break;
    case 6:
      return text("bool");
    default:
      break;
  }
  if (!family) {
    return text("dtype(code=").number(value.code).text(", bits=").number(value.bits).text(")");
  }
  text(family).number(value.bits);
  return value.lanes == 1 ? *this : text("x").number(value.lanes);
}

MessageWriter& MessageWriter::tuple(const int64_t* values, int32_t count) {
  text("(");
  for (int32_t i = 0; i < count; ++i) {
    text(i ? ", " : "").number(values[i]);
  }
  return text(count == 1 ? ",)" : ")");
}

MessageWriter& MessageWriter::expression(const sl_expr& value, const sl_program_desc& desc) {
  char buffer[256];
  printExpression(value, desc, buffer, sizeof(buffer));
  return text(buffer);
}

MessageWriter& MessageWriter::shape(const sl_expr* extents, int32_t rank,
                                    const sl_program_desc& desc) {
  text("[");
  for (int32_t d = 0; d < rank; ++d) {
    text(d ? ", " : "").expression(extents[d], desc);
  }
  return text("]");
}

}  // namespace straightline
