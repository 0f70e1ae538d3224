// SPDX-License-Identifier: Apache-2.0
// Errors of the compiler library, before they cross the C boundary. Messages: lower case, no full
// stop, both values.
#ifndef STRAIGHTLINE_TOOLS_FAILURE_H
#define STRAIGHTLINE_TOOLS_FAILURE_H

#include <string>

namespace straightline {

// values of sl_error_kind
enum class ErrorKind { none = 0, user = 1, unsupported = 2, internal = 3 };

/// What a function that can fail returns; `kind` none is success.
struct [[nodiscard]] Failure {
  ErrorKind kind = ErrorKind::none;
  std::string message;

  bool failed() const { return kind != ErrorKind::none; }
  static Failure none() { return {}; }
  static Failure user(std::string text) { return {ErrorKind::user, std::move(text)}; }
  static Failure unsupported(std::string text) { return {ErrorKind::unsupported, std::move(text)}; }
  static Failure internal(std::string text) { return {ErrorKind::internal, std::move(text)}; }
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_FAILURE_H
