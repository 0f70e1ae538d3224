// SPDX-License-Identifier: Apache-2.0
#include "call_text.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace straightline::aten {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& line) : at_(line.c_str()), begin_(at_) {}

  /// `a=1, b=[2, 3]` up to the end of the line; names are for people.
  bool values(std::vector<Value>* out) {
    skipSpace();
    while (*at_) {
      skipName();
      Value value;
      if (!parse(&value)) {
        return false;
      }
      out->push_back(std::move(value));
      skipSpace();
      if (*at_ == ',') {
        ++at_;
        skipSpace();
      } else if (*at_) {
        return fail("a comma");
      }
    }
    return true;
  }

  std::string error() const { return error_; }

 private:
  bool fail(const char* expected) {
    error_ = std::string("expected ") + expected + " at character " +
             std::to_string(at_ - begin_ + 1) + " of '" + begin_ + "'";
    return false;
  }

  void skipSpace() {
    while (*at_ == ' ') {
      ++at_;
    }
  }

  static bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  std::string word() {
    const char* start = at_;
    while (isWord(*at_)) {
      ++at_;
    }
    return {start, at_};
  }

  void skipName() {
    const char* start = at_;
    if (!word().empty() && *at_ == '=') {
      ++at_;
      return;
    }
    at_ = start;
  }

  bool parse(Value* value) {
    if (*at_ == '?') {
      ++at_;
      value->optional = true;
    }
    switch (*at_) {
      case '%':
        return tensor(Value::Kind::input, value);
      case '@':
        return tensor(Value::Kind::output, value);
      case '$':
        ++at_;
        value->kind = Value::Kind::size;
        return index(value);
      case '"':
        return text(value);
      case '[':
        return list(value);
      default:
        break;
    }
    const char* start = at_;
    if (std::isalpha(static_cast<unsigned char>(*at_)) && named(value)) {
      return true;
    }
    at_ = start;
    return number(value);
  }

  bool index(Value* value) {
    if (!std::isdigit(static_cast<unsigned char>(*at_))) {
      return fail("a number");
    }
    char* end = nullptr;
    value->number = std::strtoll(at_, &end, 10);
    at_ = end;
    return true;
  }

  bool tensor(Value::Kind kind, Value* value) {
    ++at_;
    value->kind = kind;
    if (!index(value)) {
      return false;
    }
    if (*at_ == ':') {
      ++at_;
      value->text = word();
    }
    return true;
  }

  bool text(Value* value) {
    value->kind = Value::Kind::text;
    for (++at_; *at_ && *at_ != '"'; ++at_) {
      if (*at_ == '\\' && at_[1]) {
        ++at_;
        value->text += *at_ == 'n' ? '\n' : *at_;
      } else {
        value->text += *at_;
      }
    }
    if (*at_ != '"') {
      return fail("a quote");
    }
    ++at_;
    return true;
  }

  bool list(Value* value) {
    value->kind = Value::Kind::list;
    ++at_;
    skipSpace();
    while (*at_ != ']') {
      Value item;
      if (!parse(&item)) {
        return false;
      }
      value->items.push_back(std::move(item));
      skipSpace();
      if (*at_ == ',') {
        ++at_;
        skipSpace();
      } else if (*at_ != ']') {
        return fail("a comma or ]");
      }
    }
    ++at_;
    return true;
  }

  /// true, false, none, `kind.name` and complex[..]; inf and nan are numbers.
  bool named(Value* value) {
    const std::string first = word();
    if (first == "none") {
      return true;
    }
    if (first == "true" || first == "false") {
      value->kind = Value::Kind::boolean;
      value->number = first == "true";
      return true;
    }
    if (first == "complex" && *at_ == '[') {
      const bool fine = list(value);
      value->kind = Value::Kind::complex;
      return fine && value->items.size() == 2;
    }
    static const struct {
      const char* word;
      Value::Kind kind;
    } kinds[] = {{"dtype", Value::Kind::dtype},
                 {"layout", Value::Kind::layout},
                 {"device", Value::Kind::device},
                 {"format", Value::Kind::format}};
    for (const auto& entry : kinds) {
      if (first == entry.word && *at_ == '.') {
        ++at_;
        value->kind = entry.kind;
        value->text = word();
        return true;
      }
    }
    return false;
  }

  bool number(Value* value) {
    char* whole = nullptr;
    char* all = nullptr;
    const int64_t integer = std::strtoll(at_, &whole, 10);
    const double real = std::strtod(at_, &all);
    if (all == at_) {
      return fail("a value");
    }
    value->kind = whole == all ? Value::Kind::integer : Value::Kind::real;
    value->number = integer;
    value->real = real;
    at_ = all;
    return true;
  }

  const char* at_;
  const char* begin_;
  std::string error_;
};

}  // namespace

bool parseCallText(const char* text, CallText* call, std::string* error) {
  std::vector<std::string> lines;
  const char* start = text;
  for (const char* end = text;; ++end) {
    if (*end == '\n' || *end == '\0') {
      lines.emplace_back(start, end);
      start = end + 1;
    }
    if (*end == '\0') {
      break;
    }
  }
  if (lines.size() != 7) {
    *error = "the text of the call has " + std::to_string(lines.size()) + " lines but must have 7";
    return false;
  }
  call->name = lines[0];
  call->overload = lines[1];
  call->version = lines[2];
  call->door = lines[3];
  call->schema = lines[4];
  for (auto [line, values] :
       {std::pair(&lines[5], &call->arguments), std::pair(&lines[6], &call->results)}) {
    Parser parser(*line);
    if (!parser.values(values)) {
      *error = parser.error();
      return false;
    }
  }
  return true;
}

}  // namespace straightline::aten
