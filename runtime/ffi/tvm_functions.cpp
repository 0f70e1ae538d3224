// SPDX-License-Identifier: Apache-2.0
#include "ffi/tvm_functions.h"

#include <atomic>
#include <mutex>

#include "ffi/process_library.h"
#include "message_writer.h"

namespace straightline::ffi {
namespace {

/// The first name that is missing, or null.
const char* load(const ProcessLibrary& library, TvmFunctions* functions) {
  const char* missing = nullptr;
#define SL_TVM_OPTIONAL(name) \
  functions->name = reinterpret_cast<decltype(functions->name)>(library.find(#name));
#define SL_TVM(name)    \
  SL_TVM_OPTIONAL(name) \
  missing = missing || functions->name ? missing : #name;
  SL_TVM(TVMFFIErrorSetRaisedFromCStr)
  SL_TVM(TVMFFIFunctionCreate)
  SL_TVM(TVMFFIFunctionGetGlobal)
  SL_TVM(TVMFFIFunctionSetGlobal)
  SL_TVM(TVMFFIFunctionCall)
  SL_TVM(TVMFFIObjectDecRef)
  SL_TVM(TVMFFITensorFromDLPackVersioned)
  SL_TVM(TVMFFIEnvTensorAlloc)
  SL_TVM(TVMFFIEnvGetDLPackManagedTensorAllocator)
  SL_TVM(TVMFFIEnvGetStream)
  SL_TVM_OPTIONAL(TVMFFITensorCreateUnsafeView)
#undef SL_TVM
#undef SL_TVM_OPTIONAL
  return missing;
}

}  // namespace

const TvmFunctions* tvmFunctions(sl_message* message) {
  static std::mutex mutex;
  static TvmFunctions functions{};
  static std::atomic<bool> loaded = false;
  if (loaded.load(std::memory_order_acquire)) {
    return &functions;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded.load(std::memory_order_relaxed)) {
    return &functions;
  }
  const ProcessLibrary library("libtvm_ffi.so");
  if (const char* missing = load(library, &functions)) {
    MessageWriter writer(message);
    if (library.isThere()) {
      writer.text("the libtvm_ffi in this process has no ")
          .text(missing)
          .text(", which 0.1.13 and later have");
    } else {
      writer.text("this needs TVM-FFI in the process, and libtvm_ffi is not loaded");
    }
    return nullptr;
  }
  loaded.store(true, std::memory_order_release);
  return &functions;
}

}  // namespace straightline::ffi
