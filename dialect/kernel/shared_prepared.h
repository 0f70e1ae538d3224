// SPDX-License-Identifier: Apache-2.0
// What is recorded of prepared data that several programs share (recorded.h has the rest).
#ifndef STRAIGHTLINE_DIALECT_KERNEL_SHARED_PREPARED_H
#define STRAIGHTLINE_DIALECT_KERNEL_SHARED_PREPARED_H

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::kernel {

/// kernel.made_by, of a prepared buffer that several programs may share: the digest of what makes
/// it (share-prepared); empty: it is the program's own.
llvm::StringRef madeBy(PreparedOp prepared);
void setMadeBy(PreparedOp prepared, llvm::StringRef digest);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_SHARED_PREPARED_H
