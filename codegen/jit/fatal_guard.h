// SPDX-License-Identifier: Apache-2.0
// LLVM ends the process on errors that it calls fatal (and when memory runs out). Inside a user's
// Python that may not happen: guarded code comes back with a message instead. Our copy of LLVM is
// private to this library, so the handlers see only our own work.
#ifndef STRAIGHTLINE_CODEGEN_JIT_FATAL_GUARD_H
#define STRAIGHTLINE_CODEGEN_JIT_FATAL_GUARD_H

#include <functional>
#include <string>

namespace straightline::jit {

/// Runs `work` on this thread; false with `message` when LLVM aborted in it or an exception left
/// it. The process then continues, but memory that `work` had allocated is lost, because its frames
/// are left by a jump. May nest.
bool runGuarded(const std::function<void()>& work, std::string* message);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_FATAL_GUARD_H
