// SPDX-License-Identifier: Apache-2.0
// Contractions and attention that are emitted as CUDA C++, one file each beside this one. Their problems are those of
// backends/native/native.cpp; weights are never packed. A library that can do one of them is another backend's candidate.
#ifndef STRAIGHTLINE_BACKENDS_CUDA_KERNELS_H
#define STRAIGHTLINE_BACKENDS_CUDA_KERNELS_H

#include <cstddef>

#include "straightline/abi/kernel.h"

namespace straightline::cuda {

/// A kernel that is emitted, takes the tunables that `tune` fills and has nothing to plan or to free.
template <size_t N>
constexpr sl_kernel_desc describe(const char* name, const char* op, const char* family, const char* summary,
                                  const sl_tunable (&tunables)[N], decltype(sl_kernel_desc::accepts) accepts,
                                  decltype(sl_kernel_desc::cost) cost, decltype(sl_kernel_desc::tune) tune,
                                  decltype(sl_kernel_desc::note) note = nullptr) {
  return {
      .size = sizeof(sl_kernel_desc),
      .name = name,
      .backend = "cuda",
      .op = op,
      .family = family,
      .summary = summary,
      .accepts = accepts,
      .cost = cost,
      .workspace = nullptr,
      .tunables = tunables,
      .tunable_count = N,
      .tune = tune,
      .can_fail = 0,
      .whole_team = 0,
      .plan_symbol = nullptr,
      .plan = nullptr,
      .run_symbol = nullptr,
      .run = nullptr,
      .destroy = nullptr,
      .note = note,
      .variants = nullptr,
  };
}

extern const sl_kernel_desc attentionKernel;
extern const sl_kernel_desc convolutionKernel;
extern const sl_kernel_desc gemvKernel;
extern const sl_kernel_desc gemvGroupKernel;
extern const sl_kernel_desc linearKernel;
extern const sl_kernel_desc matmulKernel;
extern const sl_kernel_desc transposeKernel;

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_BACKENDS_CUDA_KERNELS_H
