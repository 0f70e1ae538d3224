// SPDX-License-Identifier: Apache-2.0
// Addresses of a program's buffers in one call, for executors whose text does not contain them.
#include <cstring>

#include "program.h"

namespace straightline {
namespace {

void* shifted(void* base, const sl_expr& offset, const int64_t* extents) {
  return base ? static_cast<char*>(base) + sl_expr_value(&offset, extents) : nullptr;
}

void* addressOf(const sl_program& program, int32_t phase, const sl_bindings& io, int32_t number) {
  const sl_buffer& buffer = program.desc->buffers[number];
  if (!program.placed[static_cast<size_t>(number)]) {
    return nullptr;
  }
  switch (static_cast<sl_role>(buffer.role)) {
    case SL_ROLE_PARAMETER:
    case SL_ROLE_STATE:
      return const_cast<void*>(io.parameters[buffer.index]);
    case SL_ROLE_PREPARED:
      return shifted(io.prepared[buffer.space], buffer.offset, io.extents);
    case SL_ROLE_HANDLE:
      return phase == 0 ? const_cast<void**>(&io.handles[buffer.index]) : io.handles[buffer.index];
    case SL_ROLE_INPUT:
      return phase == 0 ? nullptr : io.inputs[buffer.index];
    case SL_ROLE_OUTPUT:
      return phase == 0 ? nullptr : io.outputs[buffer.index];
    case SL_ROLE_ARENA:
      return shifted(io.arenas[buffer.space], buffer.offset, io.extents);
    case SL_ROLE_VIEW:
      return shifted(addressOf(program, phase, io, buffer.base), buffer.offset, io.extents);
    case SL_ROLE_CONSTANT:
      return const_cast<void*>(program.desc->constants[buffer.index]);
    case SL_ROLE_RUNTIME:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

std::vector<uint8_t> placedBuffers(const sl_program_desc& desc) {
  std::vector<uint8_t> placed(static_cast<size_t>(desc.buffer_count), 1);
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    const sl_statement& statement = desc.statements[i];
    if (statement.kind == SL_STATEMENT_VIEW || statement.kind == SL_STATEMENT_ALLOC) {
      for (int32_t k = 0; k < statement.outputs; ++k) {
        placed[static_cast<size_t>(statement.operands[statement.inputs + k])] = 0;
      }
    }
  }
  // A view of such a buffer; the base of a view may have a higher number than the view.
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t b = 0; b < desc.buffer_count; ++b) {
      const int32_t base = desc.buffers[b].base;
      if (placed[static_cast<size_t>(b)] && base >= 0 && !placed[static_cast<size_t>(base)]) {
        placed[static_cast<size_t>(b)] = 0;
        changed = true;
      }
    }
  }
  return placed;
}

}  // namespace straightline

void sl_program_addresses(const sl_program* program, int32_t phase, const sl_bindings* bindings,
                          const int32_t* numbers, int32_t count, void** addresses) {
  for (int32_t i = 0; i < count; ++i) {
    addresses[i] = straightline::addressOf(*program, phase, *bindings, numbers ? numbers[i] : i);
  }
}
