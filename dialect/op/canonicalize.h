// SPDX-License-Identifier: Apache-2.0
// What canonicalisation asks of values. The patterns of the dialect as a whole are in
// canonicalize.cpp; folders and patterns of one op stand with its family.
#ifndef STRAIGHTLINE_DIALECT_OP_CANONICALIZE_H
#define STRAIGHTLINE_DIALECT_OP_CANONICALIZE_H

#include "mlir/IR/PatternMatch.h"

namespace straightline::op {

/// The one value of a splat literal (`op.full`, splat `op.constant`), else null.
mlir::TypedAttr splatOf(mlir::Value value);

/// The value is a tensor that its op makes: no alias of an input, parameter, state or literal.
bool isFresh(mlir::Value value);
/// The value, or a view of it, may leave its block (be a result).
bool escapes(mlir::Value value);
/// `replacement` if folding `operation` to it cannot make a result an alias of something, else
/// null: eager's results of arithmetic are tensors of their own, so x + 0 stays a copy when it is
/// returned.
mlir::Value ifNoAlias(mlir::Operation* operation, mlir::Value replacement);

}  // namespace straightline::op

#endif  // STRAIGHTLINE_DIALECT_OP_CANONICALIZE_H
