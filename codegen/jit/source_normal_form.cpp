// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/source_normal_form.h"

namespace straightline::jit {
namespace {

bool isIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

class Normalizer {
 public:
  explicit Normalizer(std::string_view text) : text_(text) { output_.reserve(text.size()); }

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (isSpace(c)) {
        space(c);
        ++at_;
      } else if (starts("//")) {
        skipLineComment();
      } else if (starts("/*")) {
        skipBlockComment();
      } else if (c == '"') {
        inRawPrefix() ? copyRawString() : copyQuoted('"');
      } else if (c == '\'' && !isDigitSeparator()) {
        copyQuoted('\'');
      } else {
        copy(1);
      }
    }
    return std::move(output_);
  }

 private:
  bool starts(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }

  void space(char c) { pending_ = (c == '\n' || pending_ == '\n') ? '\n' : ' '; }

  void copy(std::size_t count) {
    if (pending_ != 0 && !output_.empty()) {
      output_ += pending_;
    }
    pending_ = 0;
    output_ += text_.substr(at_, count);
    at_ += count;
  }

  void skipLineComment() {
    space(' ');
    while (at_ < text_.size() && text_[at_] != '\n') {
      // a backslash carries the comment on
      at_ += text_[at_] == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    }
  }

  void skipBlockComment() {
    space(' ');
    const std::size_t end = text_.find("*/", at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
  }

  /// The text up to and including the closing quote, or to the end when there is none (the compiler
  /// will say so).
  void copyQuoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    copy(std::min(end + 1, text_.size()) - at_);
  }

  /// R"delimiter( ... )delimiter"
  void copyRawString() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) {
      copy(text_.size() - at_);
      return;
    }
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const std::size_t end = text_.find(close, open);
    copy((end == std::string_view::npos ? text_.size() : end + close.size()) - at_);
  }

  /// At a double quote: is it preceded by R, u8R, uR, UR or LR as a whole word?
  bool inRawPrefix() const {
    std::size_t begin = at_;
    while (begin > 0 && isIdentifier(text_[begin - 1])) {
      --begin;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    return word == "R" || word == "u8R" || word == "uR" || word == "UR" || word == "LR";
  }

  /// 1'000: a quote inside a number, not the start of a character literal.
  bool isDigitSeparator() const {
    std::size_t begin = at_;
    while (begin > 0 && (isIdentifier(text_[begin - 1]) || text_[begin - 1] == '\'')) {
      --begin;
    }
    return begin < at_ && text_[begin] >= '0' && text_[begin] <= '9';
  }

  std::string_view text_;
  std::string output_;
  std::size_t at_ = 0;
  char pending_ = 0;  ///< white space seen and not yet written
};

}  // namespace

std::string sourceNormalForm(std::string_view text) { return Normalizer(text).run(); }

}  // namespace straightline::jit
