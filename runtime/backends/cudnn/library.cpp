// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <dlfcn.h>

#include <map>

#include "backends/library_version.h"

namespace straightline::cudnn {
namespace {

/// A library that the process has loaded already (torch brings it) is found by its name, and so are
/// its parts.
constexpr const char* kName = "libcudnn.so.9";

void* opened() {
  // never closed: frameworks use it as well
  static void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  return library;
}

std::string open(Functions* functions) {
  if (std::string missing = whyMissing(); !missing.empty()) {
    return missing;
  }
#define SL_CUDNN_BIND(result, member, symbol, parameters)                                      \
  functions->member = reinterpret_cast<decltype(functions->member)>(dlsym(opened(), #symbol)); \
  if (!functions->member) {                                                                    \
    return std::string(kName) + " has no " #symbol;                                            \
  }
  SL_CUDNN(SL_CUDNN_BIND)
#undef SL_CUDNN_BIND
  return "";
}

}  // namespace

std::string whyMissing() {
  if (opened()) {
    return "";
  }
  return std::string("cuDNN is missing: ") + kName + " cannot be opened";
}

std::string versionText() { return versionOf(opened(), "cudnnGetVersion", "cuDNN"); }

std::string words(const char* function, Status status) {
  const char* meaning = library().statusText ? library().statusText(status) : nullptr;
  return std::string("cuDNN: ") + function + " fails with " + std::to_string(status) +
         (meaning ? std::string(" (") + meaning + ")" : "");
}

const Functions& library() {
  static const Functions* const instance = [] {
    auto* made = new Functions;  // never destroyed: programs may go in exit handlers
    made->error = open(made);
    return made;
  }();
  return *instance;
}

DeviceHandle* handleOf(int32_t device, std::string* error) {
  static std::mutex mutex;
  static auto* const made = new std::map<int32_t, DeviceHandle>;
  const std::lock_guard<std::mutex> lock(mutex);
  DeviceHandle& found = (*made)[device];
  found.number = device;
  if (!found.handle) {
    if (const Status status = library().create(&found.handle); status != kSuccess) {
      found.handle = nullptr;
      *error = words("cudnnCreate", status);
      return nullptr;
    }
  }
  return &found;
}

Descriptor::Descriptor(Kind kind) { status_ = library().descriptorCreate(kind, &raw_); }

Descriptor::~Descriptor() {
  if (raw_) {
    library().descriptorDestroy(raw_);
  }
}

Descriptor& Descriptor::put(Attribute attribute, ValueType type, int64_t count,
                            const void* values) {
  if (status_ == kSuccess) {
    status_ = library().set(raw_, attribute, type, count, values);
  }
  return *this;
}

Descriptor& Descriptor::put(Attribute attribute, const Descriptor& other) {
  if (status_ == kSuccess) {
    status_ = other.status_;
  }
  void* raw = other.raw_;
  return put(attribute, kOfDescriptor, 1, &raw);
}

Descriptor& Descriptor::finish() {
  if (status_ == kSuccess) {
    status_ = library().finalize(raw_);
  }
  return *this;
}

}  // namespace straightline::cudnn
