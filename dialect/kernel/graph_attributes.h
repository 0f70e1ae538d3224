// SPDX-License-Identifier: Apache-2.0
// Attributes that say how statements of a device become graphs.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_GRAPH_ATTRIBUTES_H
#define STRAIGHTLINE_DIALECT_KERNEL_GRAPH_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace straightline::kernel {

/// Unit attribute of a kernel.decl with kernel.runs_on: the work of its calls is never part of a
/// graph. What a run has gathered before such a call is launched first; what comes behind the call
/// is gathered as the next part of the run.
inline constexpr llvm::StringLiteral kApartAttr = "kernel.apart";

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_GRAPH_ATTRIBUTES_H
