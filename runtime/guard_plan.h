// SPDX-License-Identifier: Apache-2.0
// What sl_program_guard compares, computed once when a program is created, so that a call only
// walks flat arrays.
#ifndef STRAIGHTLINE_RUNTIME_GUARD_PLAN_H
#define STRAIGHTLINE_RUNTIME_GUARD_PLAN_H

#include <cstdint>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline {

/// How a size or a stride is compared.
enum class GuardRule : uint8_t {
  kConstant,    ///< equals `value`
  kBind,        ///< defines extent number `value`, which must lie in its bounds
  kSymbol,      ///< equals extent number `value`, bound before
  kSolve,       ///< scale * extents[value] + offset defines extent number `value`
  kExpression,  ///< equals an expression; checked after every input has bound its extents
};

struct GuardDim {
  int64_t value;
  int64_t scale;   ///< kSolve only
  int64_t offset;  ///< kSolve only
  int64_t stride;  ///< elements, when strideRule is kConstant
  GuardRule rule;
  GuardRule strideRule;  ///< kConstant or kExpression
};

struct GuardInput {
  sl_dtype dtype;
  int32_t rank;
  int32_t deviceType;      ///< DLDeviceType
  int32_t device;          ///< its number; -1: any, on the host
  uint32_t firstDim;       ///< index into GuardPlan::dims
  uint32_t alignmentMask;  ///< bytes of one element - 1
  bool late;               ///< some size or stride is an expression
  const sl_buffer* buffer;
};

/// What messages advise where a size differs, as in `sl_program_desc`; both null: the program came
/// by no front end.
struct SizeAdvice {
  const char* fixed = nullptr;
  const char* bounds = nullptr;
};

struct GuardPlan {
  std::vector<GuardInput> inputs;  ///< by input index
  std::vector<GuardDim> dims;      ///< of all inputs, one after the other
  std::vector<int32_t> computed;   ///< extents that a statement computes
  int32_t unboundExtent = -1;      ///< an extent that no input defines, -1 when there is none
  SizeAdvice advice;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_GUARD_PLAN_H
