// SPDX-License-Identifier: Apache-2.0
// The version of a library of NVIDIA's that is opened when it is first used.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_LIBRARY_VERSION_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_LIBRARY_VERSION_H

#include <dlfcn.h>

#include <cstddef>
#include <string>

namespace straightline {

/// "cuDNN 9.19.0" of what the function `symbol` of the library gives (10,000 for a major, 100 for a
/// minor version); "" where `library` is NULL or has no such function.
inline std::string versionOf(void* library, const char* symbol, const char* name) {
  const auto version = library ? reinterpret_cast<size_t (*)()>(dlsym(library, symbol)) : nullptr;
  if (!version) {
    return "";
  }
  const size_t number = version();
  return std::string(name) + " " + std::to_string(number / 10000) + "." +
         std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_LIBRARY_VERSION_H
