// SPDX-License-Identifier: Apache-2.0
// Which statements of a block have to stay in the order of the text.
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_DEPENDENCES_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_DEPENDENCES_H

#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "passes/levels/levels.h"

namespace straightline::passes {

/// For each statement, given what each touches, the earlier ones with which it has elements in
/// common that one of the two writes.
std::vector<llvm::BitVector> dependencesOf(llvm::ArrayRef<llvm::SmallVector<Access>> statements);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_DEPENDENCES_H
