// SPDX-License-Identifier: Apache-2.0
#include "message_writer.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iterator>

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

namespace {

/// The name of a DLDataTypeCode whose elements have one width, nullptr for the others.
const char* smallFloatName(uint8_t code) {
  static constexpr const char* kNames[] = {
      "float8_e3m4",     "float8_e4m3",   "float8_e4m3b11fnuz", "float8_e4m3fn",
      "float8_e4m3fnuz", "float8_e5m2",   "float8_e5m2fnuz",    "float8_e8m0fnu",
      "float6_e2m3fn",   "float6_e3m2fn", "float4_e2m1fn"};
  constexpr int kFirst = 7;
  const int place = code - kFirst;
  return place >= 0 && place < static_cast<int>(std::size(kNames)) ? kNames[place] : nullptr;
}

}  // namespace

MessageWriter& MessageWriter::dtype(sl_dtype value) {
  if (const char* name = smallFloatName(value.code)) {
    text(name);
    return value.lanes == 1 ? *this : text("x").number(value.lanes);
  }
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
