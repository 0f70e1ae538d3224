// SPDX-License-Identifier: Apache-2.0
// How a kernel that is emitted from a template describes itself.
#ifndef STRAIGHTLINE_BACKENDS_EMITTED_KERNEL_H
#define STRAIGHTLINE_BACKENDS_EMITTED_KERNEL_H

#include <span>

#include "straightline/abi/kernel.h"

namespace sl {

/// What most templates do behind their own work.
inline constexpr sl_epilogue kElementwise[] = {{"elementwise", 0, 0}};

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
  uint32_t properties = 0;
  std::span<const sl_operand_facts> operands = {};
  std::span<const sl_epilogue> epilogues = {};
  decltype(sl_kernel_desc::border) border = nullptr;
  const char* group_op = nullptr;

  /// Implicit: a description is written `constinit const sl_kernel_desc k = EmittedKernel{..}`.
  // NOLINTNEXTLINE(google-explicit-constructor)
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
        .tunable_stride = sizeof(sl_tunable),
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
        .properties = properties,
        .operands = operands.data(),
        .operand_count = static_cast<int32_t>(operands.size()),
        .operand_stride = sizeof(sl_operand_facts),
        .epilogues = epilogues.data(),
        .epilogue_count = static_cast<int32_t>(epilogues.size()),
        .epilogue_stride = sizeof(sl_epilogue),
        .border = border,
        .group_op = group_op,
        .rule = nullptr,
    };
  }
};

}  // namespace sl

#endif  // STRAIGHTLINE_BACKENDS_EMITTED_KERNEL_H
