// SPDX-License-Identifier: Apache-2.0
// Kernels of ours for the simulated device: text to a shared object by the host's clang, and shared
// objects to functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "straightline/abi/plugin.h"

namespace sim {

/// The function NAME_start of a unit (kernel.h at sl_device_source).
using StartFunction = void (*)(sl_ctx* ctx, sl_team team, void* const* arguments);

/// What `load` gives. Immutable.
struct Kernel {
  StartFunction start = nullptr;
  int32_t argumentCount = 0;
  char name[128] = "";
  void* library = nullptr;
};

/// sl_device_desc.compile
int32_t compile(const sl_device_source* source,
                void (*give)(void* user, const void* image, uint64_t bytes), void* user,
                char* reason, size_t reasonBytes);
/// sl_device_desc.compiler: it names the processor, for which -march=native compiles.
const char* compilerVersion();

/// NULL: `reason` says why. Free it with `unloadKernel`, when nothing that was started runs.
Kernel* loadKernel(const sl_device_code* code, char* reason, size_t reasonBytes);
void unloadKernel(Kernel* kernel);

}  // namespace sim
