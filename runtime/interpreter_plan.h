// SPDX-License-Identifier: Apache-2.0
// What the interpreter computes about a program before its first call: names, jumps, lifetimes.
#ifndef STRAIGHTLINE_RUNTIME_INTERPRETER_PLAN_H
#define STRAIGHTLINE_RUNTIME_INTERPRETER_PLAN_H

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline {

/// Immutable once made.
struct InterpreterPlan {
  /// Statements [first, last) of one phase.
  struct Range {
    int32_t first = 0, last = 0;
  };
  Range phases[2];
  std::unordered_map<std::string_view, const sl_entry*> entries;
  /// By statement: IF -> its ELSE or END, ELSE, FOR, WHILE and DO -> their END; -1 for others.
  std::vector<int32_t> jumps;
  /// By statement outside any region: the arena buffers whose first use it (or a statement inside
  /// it) is, and those whose last use it is. Buffers that a loop or branch touches are live
  /// throughout it.
  std::vector<std::vector<int32_t>> allocates, frees;
  std::vector<uint8_t> dynamicViews;  ///< by buffer: 1 when a VIEW statement makes its address
};

/// False with a message that names what is missing or inconsistent.
bool makeInterpreterPlan(const sl_program& program, InterpreterPlan* plan, sl_message* message);

/// Makes program.interpreter unless it is there; false with a message when it cannot be.
/// Thread-safe.
bool interpretable(const sl_program& program, sl_message* message);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_INTERPRETER_PLAN_H
