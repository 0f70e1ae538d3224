// SPDX-License-Identifier: Apache-2.0
// What autocast does with ops on the device: torch's own lists and wrappers. A unit by itself,
// since it is 250 instances of torch's templates and nothing else.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace sl_torch {
namespace {

// Names that torch's lists of ops go by.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

#define SL_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define SL_WIDER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define SL_SET_TYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define SL_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
#define SL_WITH_TYPE(...) KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE(__VA_ARGS__)

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(SL_LOWER)
  AT_FORALL_FP32(SL_WIDER)
  AT_FORALL_FP32_SET_OPT_DTYPE(SL_SET_TYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(SL_WITH_TYPE)
  AT_FORALL_PROMOTE(SL_PROMOTE)
}

}  // namespace
}  // namespace sl_torch
