// SPDX-License-Identifier: Apache-2.0
// What a device that only notes what is asked of it was asked. For tests only.
#ifndef STRAIGHTLINE_RUNTIME_DEVICE_NOTES_FOR_TESTS_H
#define STRAIGHTLINE_RUNTIME_DEVICE_NOTES_FOR_TESTS_H

#include <string>
#include <utility>
#include <vector>

namespace straightline::testing {

/// Calls in their order.
struct DeviceCalls {
  std::vector<std::string> calls;

  /// All since the last time, with commas between them.
  std::string take() {
    std::string text;
    for (const std::string& call : std::exchange(calls, {})) {
      text += (text.empty() ? "" : ", ") + call;
    }
    return text;
  }
};

}  // namespace straightline::testing

#endif  // STRAIGHTLINE_RUNTIME_DEVICE_NOTES_FOR_TESTS_H
