// SPDX-License-Identifier: Apache-2.0
// How a kernel that is emitted from a template describes itself.
#ifndef STRAIGHTLINE_BACKENDS_EMITTED_KERNEL_H
#define STRAIGHTLINE_BACKENDS_EMITTED_KERNEL_H

#include <span>

#include "straightline/abi/kernel.h"

namespace sl {

/// The fields of sl_kernel_desc, which documents them, that an emitted kernel has; what is left out
/// is as most kernels have it. Becomes the sl_kernel_desc at compile time.
struct EmittedKernel {
  const char* name;
  const char* backend;
  const char* op;
  const char* family;
  const char* summary;
  decltype(sl_kernel_desc::accepts) accepts;
  decltype(sl_kernel_desc::cost) cost;
  decltype(sl_kernel_desc::workspace) workspace = nullptr;
  std::span<const sl_tunable> tunables = {};
  decltype(sl_kernel_desc::tune) tune = nullptr;
  bool can_fail = false;
  bool whole_team = true;
  decltype(sl_kernel_desc::note) note = nullptr;
  decltype(sl_kernel_desc::variants) variants = nullptr;

  constexpr operator sl_kernel_desc() const {
    return {
        .size = sizeof(sl_kernel_desc),
        .name = name,
        .backend = backend,
        .op = op,
        .family = family,
        .summary = summary,
        .accepts = accepts,
        .cost = cost,
        .workspace = workspace,
        .tunables = tunables.data(),
        .tunable_count = static_cast<int32_t>(tunables.size()),
        .tune = tune,
        .can_fail = can_fail ? 1 : 0,
        .whole_team = whole_team ? 1 : 0,
        .plan_symbol = nullptr,
        .plan = nullptr,
        .run_symbol = nullptr,
        .run = nullptr,
        .destroy = nullptr,
        .note = note,
        .variants = variants,
        .any_device = 0,
    };
  }
};

}  // namespace sl

#endif  // STRAIGHTLINE_BACKENDS_EMITTED_KERNEL_H
