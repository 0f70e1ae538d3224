// SPDX-License-Identifier: Apache-2.0
#include "registry.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "boundary.h"
#include "builtin_symbols.h"
#include "description_loader.h"
#include "message_writer.h"
#include "own_kernel.h"
#include "plugin.h"
#include "straightline/abi/cuda_calls.h"
#include "straightline/abi/device_calls.h"

// Defined by runtime/backends/native, which is linked into this library. Weak, so that a runtime
// built without it (sanitized tests of the runtime alone) still links.
extern "C" const sl_backend_desc sl_backend_native __attribute__((weak));
// Defined by runtime/backends/cuda: opens the driver when it is first used.
extern "C" const sl_backend_desc sl_backend_cuda __attribute__((weak));
// Libraries of such devices; each is opened when it is first used.
extern "C" const sl_backend_desc sl_backend_cublaslt __attribute__((weak));
extern "C" const sl_backend_desc sl_backend_cudnn __attribute__((weak));

namespace straightline {
namespace {

constexpr int32_t kMaxBackends = 64;

struct Registry {
  std::mutex mutex;  ///< held by writers only
  std::atomic<int32_t> count{0};
  const LoadedBackend* backends[kMaxBackends];
};

Registry& registry() {
  static Registry* const instance =
      new Registry;  // never destroyed: look-ups may come from exit handlers
  return *instance;
}

int32_t add(const sl_backend_desc* backend, sl_message* message, const char* file = nullptr) {
  std::unique_ptr<LoadedBackend> loaded = loadBackend(backend, message);
  if (!loaded) {
    return SL_INVALID_ARGUMENT;
  }
  if (file && !checkPlugin(loaded->desc(), message)) {
    return SL_INVALID_ARGUMENT;
  }
  loaded->setFile(file);
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const int32_t count = r.count.load(std::memory_order_relaxed);
  for (int32_t i = 0; i < count; ++i) {
    if (r.backends[i]->source() == backend) {
      return SL_OK;  // the same description again
    }
    if (std::strcmp(r.backends[i]->desc().name, backend->name) == 0) {
      MessageWriter writer(message);
      writer.text("backend '").text(backend->name).text("' is registered already");
      if (r.backends[i]->file()) {
        writer.text(", from ").text(r.backends[i]->file());
      }
      return SL_INVALID_ARGUMENT;
    }
  }
  if (count == kMaxBackends) {
    MessageWriter(message)
        .text("backend '")
        .text(backend->name)
        .text("' is one too many: there can be ")
        .number(kMaxBackends);
    return SL_INVALID_ARGUMENT;
  }
  r.backends[count] = loaded.release();  // for as long as the process lives
  r.count.store(count + 1, std::memory_order_release);
  return SL_OK;
}

/// A backend's library and the prefix of its own C names. Written while the built-in backends are
/// added, before any look-up.
struct Sibling {
  std::string prefix;
  void* library;
};

std::vector<Sibling>& siblings() {
  static std::vector<Sibling>* const instance = new std::vector<Sibling>;
  return *instance;
}

/// Opens `libstraightline_backend_<name>.so` beside this library and adds its backend. False, with
/// the reason, when it, or a library that it needs, is not installed or does not match.
bool addSibling(const char* name, std::string* why) {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&addSibling), &self) == 0 || !self.dli_fname) {
    *why = "the runtime does not know where it is installed";
    return false;
  }
  std::string path = self.dli_fname;
  const size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string(".") : path.substr(0, slash)) +
         "/libstraightline_backend_" + name + ".so";
  if (access(path.c_str(), R_OK) != 0) {
    *why = "this build comes without it";
    return false;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    *why = error ? error : "it could not be opened";
    return false;
  }
  using BackendFn = const sl_backend_desc* (*)();
  const auto backend = reinterpret_cast<BackendFn>(dlsym(library, "straightline_backend_v1"));
  if (!backend) {
    *why = path + " has no straightline_backend_v1";
    return false;
  }
  sl_message message{};
  if (add(backend(), &message) != SL_OK) {
    *why = message.text;
    return false;
  }
  siblings().push_back({std::string("sl_") + name + "_", library});
  return true;
}

// oneDNN is optional. Without it a stand-in backend of that name is registered whose kernel refuses
// every problem with the reason, so that `explain` shows the reason beside the kernel that was
// chosen instead.

/// Written before the stand-in is registered.
std::string& whyNoOnednn() {
  static std::string* const why = new std::string;
  return *why;
}

int32_t refuseWithoutOnednn(const sl_problem*, char* reason, size_t bytes) {
  std::snprintf(reason, bytes, "not available: %s (pip install 'straightline[onednn]')",
                whyNoOnednn().c_str());
  return 0;
}

double costWithoutOnednn(const sl_problem*) { return 0; }

const sl_kernel_desc kAbsentInnerProduct = {
    .size = sizeof(sl_kernel_desc),
    .name = "onednn.inner_product",
    .backend = "onednn",
    .op = "linear",
    .family = "",
    .summary = "oneDNN is not installed",
    .accepts = refuseWithoutOnednn,
    .cost = costWithoutOnednn,
};

const char* onednnMissing() { return whyNoOnednn().c_str(); }

const sl_backend_desc kAbsentOnednn = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "onednn",
    .kernels = &kAbsentInnerProduct,
    .kernel_count = 1,
    .device = nullptr,
    .runs_on = nullptr,
    .kernel_stride = 0,
    .version = nullptr,
    .missing = onednnMissing,
    .default_routes = nullptr,
};

/// Those that are part of this library.
void addOwn() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const sl_backend_desc* own :
         {&sl_backend_native, &sl_backend_cuda, &sl_backend_cublaslt, &sl_backend_cudnn}) {
      if (own) {
        add(own, nullptr);
      }
    }
  });
}

/// And those in libraries beside it. Opening them takes milliseconds, so that a process that runs a
/// program without them does not.
void addAll() {
  static std::once_flag once;
  std::call_once(once, [] {
    addOwn();
    if (!addSibling("onednn", &whyNoOnednn())) {
      add(&kAbsentOnednn, nullptr);
    }
    std::string whyNoAten;  // it needs nothing; where it is left out, nobody asks for it
    addSibling("aten", &whyNoAten);
  });
}

/// Of those added so far, in order, the first for which `fits` holds; null: none.
template <typename Fits>
const sl_backend_desc* findAdded(const Fits& fits) {
  const int32_t count = registry().count.load(std::memory_order_acquire);
  for (int32_t i = 0; i < count; ++i) {
    if (fits(registry().backends[i]->desc())) {
      return &registry().backends[i]->desc();
    }
  }
  return nullptr;
}

/// The same, of all; libraries are opened only if no other fits.
template <typename Fits>
const sl_backend_desc* findAmongAll(const Fits& fits) {
  addOwn();
  if (const sl_backend_desc* found = findAdded(fits)) {
    return found;
  }
  addAll();
  return findAdded(fits);
}

/// Address of a backend's function by its C name; null: it has none of that name.
void* symbolOf(const sl_backend_desc& backend, const char* name) {
  for (int32_t k = 0; k < backend.kernel_count; ++k) {
    const sl_kernel_desc& kernel = backend.kernels[k];
    if (kernel.plan_symbol && std::strcmp(kernel.plan_symbol, name) == 0) {
      return kernel.plan;
    }
    // What destroys a handle is named after what made it: `<plan_symbol>_destroy`.
    const size_t prefix = kernel.plan_symbol ? std::strlen(kernel.plan_symbol) : 0;
    if (prefix && std::strncmp(kernel.plan_symbol, name, prefix) == 0 &&
        std::strcmp(name + prefix, "_destroy") == 0) {
      return reinterpret_cast<void*>(kernel.destroy);
    }
    if (kernel.run_symbol && std::strcmp(kernel.run_symbol, name) == 0) {
      return kernel.run;
    }
  }
  return nullptr;
}

}  // namespace

const sl_backend_desc* findBackend(const char* name) {
  return findAmongAll(
      [&](const sl_backend_desc& desc) { return std::strcmp(desc.name, name) == 0; });
}

int32_t addPlugin(const sl_backend_desc* backend, const char* file,
                  const sl_backend_desc** registered, sl_message* message) {
  addAll();
  const int32_t status = add(backend, message, file);
  if (status == SL_OK) {
    *registered = findBackend(backend->name);
  }
  return status;
}

const LoadedBackend* findPlugin(const char* name) {
  const int32_t count = registry().count.load(std::memory_order_acquire);
  for (int32_t i = 0; i < count; ++i) {
    if (std::strcmp(registry().backends[i]->desc().name, name) == 0) {
      return registry().backends[i]->file() ? registry().backends[i] : nullptr;
    }
  }
  return nullptr;
}

const sl_device_desc* findSpace(const char* space) {
  if (std::strcmp(space, "host") == 0) {
    return nullptr;
  }
  const sl_backend_desc* backend = findAmongAll([&](const sl_backend_desc& desc) {
    return desc.device && std::strcmp(desc.device->space, space) == 0;
  });
  return backend ? backend->device : nullptr;
}

namespace {

struct Symbol {
  const char* name;
  void* address;
};

#define SL_SYMBOL(name) {#name, reinterpret_cast<void*>(&name)}
const Symbol kSymbols[] = {
    SL_SYMBOL(sl_fail),           SL_SYMBOL(sl_fail_text),     SL_SYMBOL(sl_queue_launch),
    SL_SYMBOL(sl_queue_copy),     SL_SYMBOL(sl_queue_record),  SL_SYMBOL(sl_queue_wait),
    SL_SYMBOL(sl_queue_forget),   SL_SYMBOL(sl_alloc),         SL_SYMBOL(sl_free),
    SL_SYMBOL(sl_queue_start),    SL_SYMBOL(sl_queue_step),    SL_SYMBOL(sl_queue_call),
    SL_SYMBOL(sl_exclusive_plan), SL_SYMBOL(sl_exclusive_run), SL_SYMBOL(sl_exclusive_destroy),
    SL_SYMBOL(sl_own_call),       SL_SYMBOL(sl_cuda_stream),
};
#undef SL_SYMBOL

/// Address of a function of the runtime that emitted text calls; null: it has none of that name.
void* ownSymbol(const char* name) {
  for (const Symbol& symbol : kSymbols) {
    if (std::strcmp(symbol.name, name) == 0) {
      return symbol.address;
    }
  }
  return builtinSymbol(name);
}

}  // namespace

bool isOwnSymbol(const char* name) { return ownSymbol(name) != nullptr; }

}  // namespace straightline

int32_t sl_backend_register(const sl_backend_desc* backend, sl_message* message) {
  return straightline::atBoundary(message, [&] {
    straightline::addAll();
    return straightline::add(backend, message);
  });
}

int32_t sl_backend_count(void) {
  straightline::addAll();
  return straightline::registry().count.load(std::memory_order_acquire);
}

const sl_backend_desc* sl_backend_at(int32_t i) {
  return i >= 0 && i < sl_backend_count() ? &straightline::registry().backends[i]->desc() : nullptr;
}

void* sl_symbol(const char* name) {
  if (void* own = straightline::ownSymbol(name)) {
    return own;
  }
  if (void* function = straightline::ownKernelSymbol(name)) {
    return function;
  }
  void* found = nullptr;
  const auto has = [&](const sl_backend_desc& backend) {
    found = straightline::symbolOf(backend, name);
    return found != nullptr;
  };
  if (straightline::findAmongAll(has)) {
    return found;
  }
  for (const straightline::Sibling& sibling : straightline::siblings()) {
    if (std::strncmp(name, sibling.prefix.c_str(), sibling.prefix.size()) == 0) {
      return dlsym(sibling.library, name);
    }
  }
  return nullptr;
}
