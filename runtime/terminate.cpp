// SPDX-License-Identifier: Apache-2.0
// What std::terminate of the shared library says. libstdc++'s own handler brings a demangler of
// 54 KB into a library that holds libstdc++; this one says the same with the type's mangled name.
// Part of the shared library only: a program that links the static runtime keeps its own handler.
#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

namespace {

void say(const char* text) {
  // Nothing is to be done where standard error is closed.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

namespace __gnu_cxx {

/// Replaces the handler that libstdc++ installs (a name of its own, hence the namespace).
void __verbose_terminate_handler() {
  static bool isTerminating = false;
  if (isTerminating) {
    say("terminate called recursively\n");
    std::abort();
  }
  isTerminating = true;
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) {
    say("terminate called without an active exception\n");
    std::abort();
  }
  say("terminate called after throwing an instance of '");
  say(type->name());
  say("'\n");
  try {
    throw;
  } catch (const std::exception& exception) {
    say("  what():  ");
    say(exception.what());
    say("\n");
  } catch (...) {
  }
  std::abort();
}

}  // namespace __gnu_cxx
