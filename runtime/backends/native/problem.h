// SPDX-License-Identifier: Apache-2.0
// Reading an sl_problem, and refusing one with a reason.
#ifndef STRAIGHTLINE_BACKENDS_NATIVE_PROBLEM_H
#define STRAIGHTLINE_BACKENDS_NATIVE_PROBLEM_H

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "backends/native/tuning.h"
#include "straightline/abi/kernel.h"

namespace sl::native {

inline const sl_operand& operandOf(const sl_problem* p, int32_t i) { return *sl_operand_at(p, i); }

/// The attribute of that name and kind; one without a name when the problem has none.
inline sl_attribute findAttribute(const sl_problem* p, const char* name, sl_attribute_kind kind) {
  for (int32_t i = 0; i < p->attribute_count; ++i) {
    const sl_attribute attribute = sl_attribute_at(p, i);
    if (attribute.kind == kind && std::strcmp(attribute.name, name) == 0) {
      return attribute;
    }
  }
  return {};
}

/// Value of an integer attribute, `fallback` when the problem has none; SL_DYNAMIC becomes
/// kUnknown.
inline int64_t attribute(const sl_problem* p, const char* name, int64_t fallback) {
  const sl_attribute found = findAttribute(p, name, SL_INT);
  return !found.name ? fallback : found.value == SL_DYNAMIC ? kUnknown : found.value;
}

/// Value of a float attribute, `fallback` when the problem has none.
inline double numberOf(const sl_problem* p, const char* name, double fallback) {
  const sl_attribute found = findAttribute(p, name, SL_FLOAT);
  return found.name ? found.number : fallback;
}

/// Whether a text attribute has this value.
inline bool isText(const sl_problem* p, const char* name, const char* text) {
  const sl_attribute found = findAttribute(p, name, SL_TEXT);
  return found.name && std::strcmp(found.text, text) == 0;
}

inline Machine machineOf(const sl_problem* p) {
  return {.vectorBytes = p->vector_bytes,
          .l1Bytes = p->l1_bytes > 0 ? p->l1_bytes : 32 << 10,
          .l2Bytes = p->l2_bytes > 0 ? p->l2_bytes : 512 << 10,
          .threads = p->threads > 0 ? p->threads : 1,
          .fmaBytes = p->fma_bytes > 0 ? p->fma_bytes : 64,
          .residentBytes = attribute(p, "resident", 0)};
}

inline const sl_operand& output(const sl_problem* p) { return operandOf(p, p->inputs); }

inline int64_t extent(const sl_operand& o, int32_t dim) {
  return o.extents[dim] == SL_DYNAMIC ? kUnknown : o.extents[dim];
}

inline bool isFloat(sl_dtype t, int bits) { return t.code == 2 && t.bits == bits && t.lanes == 1; }

inline const char* dtypeName(sl_dtype t) {
  static constexpr const char* kNames[] = {"int",    "uint",    "float", "handle",
                                           "bfloat", "complex", "bool"};
  return t.code < 7 ? kNames[t.code] : "unknown";
}

/// Writes the reason and returns 0, so that accepts functions can `return refuse(...)`.
__attribute__((format(printf, 3, 4))) inline int32_t refuse(char* reason, size_t bytes,
                                                            const char* format, ...) {
  if (reason != nullptr && bytes > 0) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(reason, bytes, format, arguments);
    va_end(arguments);
  }
  return 0;
}

/// 1 when every one of the first `count` operands is float32 (or float64 where `wide`), all alike.
inline int32_t acceptsFloats(const sl_problem* p, int32_t count, bool wide, char* reason,
                             size_t bytes) {
  for (int32_t i = 0; i < count; ++i) {
    const sl_dtype t = operandOf(p, i).dtype;
    const sl_dtype first = operandOf(p, 0).dtype;
    if (!isFloat(t, 32) && !(wide && isFloat(t, 64))) {
      return refuse(reason, bytes, "operand %d is %s%d, needs float32%s", i, dtypeName(t), t.bits,
                    wide ? " or float64" : "");
    }
    if (t.bits != first.bits) {
      return refuse(reason, bytes, "operand %d is float%d but operand 0 is float%d", i, t.bits,
                    first.bits);
    }
  }
  return 1;
}

inline int32_t needsOperands(const sl_problem* p, int32_t inputs, char* reason, size_t bytes) {
  if (p->inputs < inputs || p->outputs < 1) {
    return refuse(reason, bytes, "%d inputs and %d outputs, needs at least %d and 1", p->inputs,
                  p->outputs, inputs);
  }
  return 1;
}

inline int32_t acceptsRanks(const sl_problem* p, char* reason, size_t bytes) {
  for (int32_t i = 0; i < p->inputs + p->outputs; ++i) {
    if (operandOf(p, i).rank > SL_MAX_RANK) {
      return refuse(reason, bytes, "operand %d has rank %d, at most %d", i, operandOf(p, i).rank,
                    SL_MAX_RANK);
    }
  }
  return 1;
}

/// Of a kernel for any types: it has so many inputs at least, and no operand has too many dims.
template <int32_t kInputs>
int32_t acceptsAnyTypes(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, kInputs, reason, bytes) && acceptsRanks(p, reason, bytes) ? 1 : 0;
}

/// Microseconds to move the operands once, for kernels that do little else.
inline double moveMicroseconds(const sl_problem* p) {
  int64_t total = 0;
  for (int32_t i = 0; i < p->inputs + p->outputs; ++i) {
    const sl_operand& o = operandOf(p, i);
    int64_t elements = 1;
    for (int32_t d = 0; d < o.rank; ++d) {
      const int64_t size = extent(o, d);
      elements *= o.strides[d] == 0 ? 1 : size == kUnknown ? kTypicalRows : size;
    }
    total += elements * ((o.dtype.bits + 7) / 8);
  }
  const Machine machine = machineOf(p);
  return 0.05 + double(total) / machine.bandwidth(total) / double(machine.threads);
}

}  // namespace sl::native

#endif  // STRAIGHTLINE_BACKENDS_NATIVE_PROBLEM_H
