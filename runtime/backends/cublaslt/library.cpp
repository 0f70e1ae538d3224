// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "backends/library_version.h"

namespace straightline::cublaslt {
namespace {

/// Found by the names in torch's wheels for CUDA 13 and 12; one that is already loaded is found by
/// its name.
constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

void* opened() {
  static void* const library = [] {
    void* found = nullptr;  // never closed: frameworks use it as well
    for (const char* name : kNames) {
      found = found ? found : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return found;
  }();
  return library;
}

std::string open(Functions* functions) {
  if (std::string missing = whyMissing(); !missing.empty()) {
    return missing;
  }
#define SL_CUBLASLT_BIND(member, symbol, parameters)                                           \
  functions->member = reinterpret_cast<decltype(functions->member)>(dlsym(opened(), #symbol)); \
  if (!functions->member) {                                                                    \
    return "libcublasLt has no " #symbol ": one of CUDA 12 or newer is needed";                \
  }
  SL_CUBLASLT(SL_CUBLASLT_BIND)
#undef SL_CUBLASLT_BIND
  return "";
}

}  // namespace

std::string whyMissing() {
  if (opened()) {
    return "";
  }
  return std::string("cuBLASLt is missing: neither ") + kNames[0] + " nor " + kNames[1] +
         " can be opened";
}

std::string versionText() { return versionOf(opened(), "cublasLtGetVersion", "cuBLASLt"); }

std::string words(const char* function, Status status) {
  const char* meaning = status == 1    ? "the library could not be initialised"
                        : status == 3  ? "out of memory"
                        : status == 7  ? "a value that it does not take"
                        : status == 8  ? "the library is not made for this device"
                        : status == 13 ? "a kernel of it failed"
                        : status == 15 ? "the library has no kernel for this problem"
                                       : "";
  return std::string("cuBLASLt: ") + function + " fails with " + std::to_string(status) +
         (*meaning ? std::string(" (") + meaning + ")" : "");
}

const Functions& library() {
  static const Functions* const instance = [] {
    auto* made = new Functions;  // never destroyed: programs may go in exit handlers
    made->error = open(made);
    return made;
  }();
  return *instance;
}

Handle handleOf(int32_t device, std::string* error) {
  static std::mutex mutex;
  static auto* const made = new std::map<int32_t, Handle>;
  const std::lock_guard<std::mutex> lock(mutex);
  Handle& handle = (*made)[device];
  if (!handle) {
    if (const Status status = library().create(&handle); status != kSuccess) {
      handle = nullptr;
      *error = words("cublasLtCreate", status);
    }
  }
  return handle;
}

}  // namespace straightline::cublaslt
