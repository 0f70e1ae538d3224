// SPDX-License-Identifier: Apache-2.0
// Integer expressions over named extents (sl_expr): value, check, solving for one symbol, text.
#ifndef STRAIGHTLINE_RUNTIME_EXPRESSION_H
#define STRAIGHTLINE_RUNTIME_EXPRESSION_H

#include <cstddef>
#include <cstdint>

#include "straightline/abi/straightline.h"

namespace straightline {

/// Deepest stack that an expression may need; checkExpression refuses deeper ones.
inline constexpr int32_t kMaxExpressionDepth = 32;

/// Null when the expression is well formed over `extentCount` extents, else a description of the
/// error. An expression without steps is legal and has the value 0. A scalar of a statement may
/// read those of `statementCount` statements ('v').
const char* checkExpression(const sl_expr& expression, int32_t extentCount,
                            int32_t statementCount = 0);

/// Like sl_expr_value for a scalar of a statement; `scalars` are those that statements made so far.
int64_t scalarValue(const sl_expr& expression, const int64_t* extents, const int64_t* scalars);

/// True when the expression reads no extent.
bool isConstant(const sl_expr& expression);

/// The extent number when the expression is one bare symbol, else -1.
int32_t bareSymbol(const sl_expr& expression);

/// `scale * extents[symbol] + offset`; symbol is -1 for a constant. `valid` is false for every
/// other shape.
struct LinearForm {
  bool valid;
  int32_t symbol;
  int64_t scale;
  int64_t offset;
};
LinearForm linearForm(const sl_expr& expression);

/// Writes infix text (`b * 2 + 1`), truncated to `bytes` with a terminator.
void printExpression(const sl_expr& expression, const sl_program_desc& desc, char* text,
                     size_t bytes);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_EXPRESSION_H
