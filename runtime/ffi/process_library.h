// SPDX-License-Identifier: Apache-2.0
// Functions by name of a library that somebody else opened.
#ifndef STRAIGHTLINE_RUNTIME_FFI_PROCESS_LIBRARY_H
#define STRAIGHTLINE_RUNTIME_FFI_PROCESS_LIBRARY_H

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "message_writer.h"

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

/// Functions of such a library, looked up by the first call that finds all that are needed. Any
/// thread.
template <class Functions>
class LoadedOnce {
 public:
  /// `load` fills the functions and names one that is missing, null: none is. Null with a message
  /// otherwise: `name` has no such function, "which `since` have"; or `absent`, where the library
  /// is not there.
  const Functions* get(const char* file, const char* (*load)(const ProcessLibrary&, Functions*),
                       const char* name, const char* since, const char* absent,
                       sl_message* message) {
    if (loaded_.load(std::memory_order_acquire)) {
      return &functions_;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (loaded_.load(std::memory_order_relaxed)) {
      return &functions_;
    }
    const ProcessLibrary library(file);
    if (const char* missing = load(library, &functions_)) {
      MessageWriter writer(message);
      if (library.isThere()) {
        writer.text("the ")
            .text(name)
            .text(" in this process has no ")
            .text(missing)
            .text(", which ")
            .text(since)
            .text(" have");
      } else {
        writer.text(absent);
      }
      return nullptr;
    }
    loaded_.store(true, std::memory_order_release);
    return &functions_;
  }

 private:
  std::mutex mutex_;
  Functions functions_{};
  std::atomic<bool> loaded_ = false;
};

}  // namespace straightline::ffi

#endif  // STRAIGHTLINE_RUNTIME_FFI_PROCESS_LIBRARY_H
