// SPDX-License-Identifier: Apache-2.0
// Errors of the compiler library, before they cross the C boundary. Messages: lower case, no full
// stop, both values.
#ifndef STRAIGHTLINE_TOOLS_FAILURE_H
#define STRAIGHTLINE_TOOLS_FAILURE_H

#include <string>

#include "dialect/error_kind.h"

namespace straightline {

/// What a function that can fail returns; `kind` none is success.
struct [[nodiscard]] Failure {
  ErrorKind kind = ErrorKind::none;
  std::string message;
  /// of an internal failure: diagnostics of many lines, which go into the file that is kept
  std::string details = {};

  bool failed() const { return kind != ErrorKind::none; }
  static Failure none() { return {}; }
  static Failure user(std::string text) { return {ErrorKind::user, std::move(text)}; }
  static Failure unsupported(std::string text) { return {ErrorKind::unsupported, std::move(text)}; }
  static Failure internal(std::string text) { return {ErrorKind::internal, std::move(text)}; }
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_FAILURE_H
