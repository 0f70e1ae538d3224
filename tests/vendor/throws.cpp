// SPDX-License-Identifier: Apache-2.0
// A plug-in from which C++ exceptions come: out of accepts, or with -DFROM_ENTRY out of its entry.
#include <stdexcept>

#include "straightline/abi/kernel.h"

static int32_t accepts(const sl_problem*, char*, size_t) { throw std::runtime_error("no luck"); }
static double cost(const sl_problem*) { return 0; }
static int32_t run(sl_ctx*, sl_team, void*, const void* const*, void* const*, void*) { return 0; }

static const sl_calling_rule kRule = {sizeof(sl_calling_rule), nullptr, 0, 0};
static const sl_kernel_desc kKernels[] = {{
    .size = sizeof(sl_kernel_desc),
    .name = "throws.tanh",
    .backend = "throws",
    .op = "tanh",
    .family = "",
    .summary = "a tanh that throws",
    .accepts = accepts,
    .cost = cost,
    .run_symbol = "sl_throws_tanh",
    .run = reinterpret_cast<void*>(&run),
    .rule = &kRule,
}};
static const sl_backend_desc kBackend = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "throws",
    .kernels = kKernels,
    .kernel_count = 1,
    .kernel_stride = sizeof(sl_kernel_desc),
};

extern "C" __attribute__((visibility("default"))) const sl_backend_desc* straightline_backend_v1() {
#ifdef FROM_ENTRY
  throw std::runtime_error("no entry");
#endif
  return &kBackend;
}
