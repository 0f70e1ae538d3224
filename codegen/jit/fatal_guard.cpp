// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/fatal_guard.h"

#include <csetjmp>
#include <exception>
#include <mutex>

#include "llvm/Support/ErrorHandling.h"

namespace straightline::jit {
namespace {

struct Guard {
  std::jmp_buf place;
  std::string message;
  Guard* outer;
};

thread_local Guard* innermost = nullptr;

void onFatal(void*, const char* reason, bool) {
  Guard* guard = innermost;
  if (guard == nullptr) {
    return;  // not in guarded code: LLVM prints the reason and ends the process
  }
  guard->message = reason;
  std::longjmp(guard->place, 1);
}

void installHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(onFatal);
    llvm::install_bad_alloc_error_handler(onFatal);
  });
}

}  // namespace

bool runGuarded(const std::function<void()>& work, std::string* message) {
  installHandlers();
  Guard guard{.place = {}, .message = {}, .outer = innermost};
  if (setjmp(guard.place) != 0) {
    innermost = guard.outer;
    *message = guard.message;
    return false;
  }
  innermost = &guard;
  bool done = false;
  try {
    work();
    done = true;
  } catch (const std::exception& error) {  // bad_alloc and friends from our own code
    *message = error.what();
  }
  innermost = guard.outer;
  return done;
}

}  // namespace straightline::jit
