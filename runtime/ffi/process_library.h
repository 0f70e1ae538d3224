// SPDX-License-Identifier: Apache-2.0
// Functions by name of a library that somebody else opened.
#ifndef STRAIGHTLINE_RUNTIME_FFI_PROCESS_LIBRARY_H
#define STRAIGHTLINE_RUNTIME_FFI_PROCESS_LIBRARY_H

#include <dlfcn.h>

namespace straightline::ffi {

/// Python opens libraries with local visibility, so the global scope alone may not show one. The
/// handle is one more reference to the library, which is never dropped: its functions stay.
class ProcessLibrary {
 public:
  explicit ProcessLibrary(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_NOLOAD)) {}
  bool isThere() const { return handle_ != nullptr; }
  void* find(const char* name) const {
    void* address = handle_ ? dlsym(handle_, name) : nullptr;
    return address ? address : dlsym(RTLD_DEFAULT, name);
  }

 private:
  void* handle_;
};

}  // namespace straightline::ffi

#endif  // STRAIGHTLINE_RUNTIME_FFI_PROCESS_LIBRARY_H
