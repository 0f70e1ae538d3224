// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_SMALL_IMAGES_H
#define STRAIGHTLINE_PASSES_SMALL_IMAGES_H

#include "passes/contraction_problem.h"

namespace straightline {

/// Kernels of a convolution of image sizes that only a call knows.
struct KernelsBySize {
  /// for calls with few pixels, by growing `below`; empty: one kernel is near the best of all for
  /// all sizes
  llvm::SmallVector<op::SmallImagesAttr> small;
  const sl_kernel_desc* large = nullptr;  ///< for all others
  int32_t variant = 0;                    ///< of `large`
};

/// What `chosen` should leave to other kernels. A weight of many channels decides it: F(4x4) of
/// Winograd reads four times the bytes that the taps have, which one tile does not pay for. Each
/// form of the weight is prepared.
KernelsBySize chooseKernelsBySize(op::FusionOp fusion, kernel::TargetAttr target,
                                  const sl_kernel_desc& chosen,
                                  const SelectionConstraints& constraints);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_SMALL_IMAGES_H
