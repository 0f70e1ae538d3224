// SPDX-License-Identifier: Apache-2.0
// No exception crosses the C ABI: every function that may allocate runs its body through
// atBoundary.
#ifndef STRAIGHTLINE_RUNTIME_BOUNDARY_H
#define STRAIGHTLINE_RUNTIME_BOUNDARY_H

#include <exception>
#include <new>

#include "message_writer.h"
#include "straightline/abi/straightline.h"

namespace straightline {

/// Calls `body() -> int32_t` and turns exceptions into a status with a message.
template <typename Body>
int32_t atBoundary(sl_message* message, Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    MessageWriter(message).text("out of memory for the runtime's own tables");
    return SL_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    MessageWriter(message).text("internal error in the runtime: ").text(error.what());
    return SL_INTERNAL;
  } catch (...) {
    MessageWriter(message).text("internal error in the runtime: unknown exception");
    return SL_INTERNAL;
  }
}

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_BOUNDARY_H
