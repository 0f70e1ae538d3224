// SPDX-License-Identifier: Apache-2.0
// The ops of the family "scan".
#ifndef STRAIGHTLINE_DIALECT_OP_SCAN_H
#define STRAIGHTLINE_DIALECT_OP_SCAN_H

#include <optional>

#include "dialect/op/op_dialect.h"

namespace straightline::op {

/// The numbers by which kernels know what `combine` names (`sl::ScanCombine` of
/// codegen/kernels/scan.h); nullopt for another name.
std::optional<int64_t> scanCombine(llvm::StringRef name);

}  // namespace straightline::op

// Generated builders leave parameters unused.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_scan.h.inc"
#pragma GCC diagnostic pop

#endif  // STRAIGHTLINE_DIALECT_OP_SCAN_H
