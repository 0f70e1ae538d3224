// SPDX-License-Identifier: Apache-2.0
// Calls into an interpreter that may end the calling thread.
#ifndef STRAIGHTLINE_BACKENDS_ATEN_ENDED_THREAD_H
#define STRAIGHTLINE_BACKENDS_ATEN_ENDED_THREAD_H

#include <cxxabi.h>
#include <unistd.h>

namespace straightline {

/// `body()`. Python before 3.14 ends (pthread_exit) a thread that asks for its lock while the
/// process ends. That would unwind through emitted code, which has no tables for it, and through
/// calls that promise not to throw: the process would abort. Such a thread stops here instead and
/// ends with the process, as in Python 3.14.
template <typename Body>
auto stoppingWhenEnded(Body&& body) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    for (;;) {
      pause();
    }
  }
}

}  // namespace straightline

#endif  // STRAIGHTLINE_BACKENDS_ATEN_ENDED_THREAD_H
