// SPDX-License-Identifier: Apache-2.0
// Checks a program description once, when the program is created, so that a call needs no check of
// it.
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "expression.h"
#include "message_writer.h"
#include "program.h"

namespace straightline {
namespace {

/// Walks one description; `fail` writes the first error.
class Checker {
 public:
  Checker(const sl_program_desc& desc, sl_message* message) : desc_(desc), message_(message) {}

  bool check() {
    return checkTables() && checkExtents() && checkBuffers() && checkRoles() && checkStatements() &&
           checkEntries() && checkResults() && checkSizes();
  }

 private:
  __attribute__((format(printf, 2, 3))) bool fail(const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    MessageWriter(message_)
        .text("program description '")
        .text(desc_.name ? desc_.name : "")
        .text("': ")
        .text(text);
    return false;
  }

  bool checkSize(const char* what, int32_t i, uint64_t size, size_t expected) {
    return size == expected || fail("%s number %d has %llu bytes but this runtime expects %zu",
                                    what, i, static_cast<unsigned long long>(size), expected);
  }

  bool checkTable(const char* what, const void* table, int32_t count) {
    if (count < 0) {
      return fail("it has %d %s", count, what);
    }
    return count == 0 || table || fail("it has %d %s but no table of them", count, what);
  }

  bool checkExpr(const char* what, int32_t i, const sl_expr& expression, bool mayReadExtents) {
    if (const char* wrong = checkExpression(expression, desc_.extent_count)) {
      return fail("%s of number %d: %s", what, i, wrong);
    }
    return mayReadExtents || isConstant(expression) ||
           fail("%s of number %d depends on an extent, but prepare runs before any is known", what,
                i);
  }

  bool checkTables() {
    if (!desc_.run) {
      return fail("it has no run entry");
    }
    if (desc_.space_count < 1 || desc_.queue_count < 1) {
      return fail("it needs at least one memory space and one queue but has %d and %d",
                  desc_.space_count, desc_.queue_count);
    }
    if (desc_.threads < 1) {
      return fail("it is planned for %d threads", desc_.threads);
    }
    return checkTable("buffers", desc_.buffers, desc_.buffer_count) &&
           checkTable("statements", desc_.statements, desc_.statement_count) &&
           checkTable("extents", desc_.extents, desc_.extent_count) &&
           checkTable("entries", desc_.entries, desc_.entry_count) &&
           checkTable("results", desc_.results, desc_.result_count) &&
           checkTable("memory spaces", desc_.spaces, desc_.space_count) &&
           checkTable("queues", desc_.queues, desc_.queue_count) &&
           checkTable("arena sizes", desc_.arena_bytes, desc_.space_count) &&
           checkTable("scratch sizes", desc_.scratch_bytes, desc_.space_count) &&
           checkTable("prepared sizes", desc_.prepared_bytes, desc_.space_count) &&
           checkTable("handles", reinterpret_cast<const void*>(desc_.destroy_handle),
                      desc_.handle_count) &&
           checkNames("memory space", desc_.spaces, desc_.space_count, "host") &&
           checkNames("queue", desc_.queues, desc_.queue_count, "cpu");
  }

  // The first queue is the caller's; the rest of the runtime relies on this name.
  bool checkNames(const char* what, const char* const* names, int32_t count, const char* first) {
    for (int32_t i = 0; i < count; ++i) {
      if (!names[i]) {
        return fail("%s number %d has no name", what, i);
      }
    }
    return std::strcmp(names[0], first) == 0 ||
           fail("%s number 0 is '%s' but must be '%s'", what, names[0], first);
  }

  bool checkExtents() {
    for (int32_t i = 0; i < desc_.extent_count; ++i) {
      const sl_extent& extent = desc_.extents[i];
      if (!checkSize("sl_extent", i, extent.size, sizeof(sl_extent))) {
        return false;
      }
      if (!extent.name || extent.min < 0 || extent.max < extent.min) {
        return fail("extent number %d has no name or wrong bounds [%lld, %lld]", i,
                    static_cast<long long>(extent.min), static_cast<long long>(extent.max));
      }
      if (extent.bound.count > 0 && !checkExpr("the bound of extent", i, extent.bound, true)) {
        return false;
      }
    }
    return true;
  }

  bool checkBuffers() {
    for (int32_t i = 0; i < desc_.buffer_count; ++i) {
      const sl_buffer& buffer = desc_.buffers[i];
      if (!checkSize("sl_buffer", i, buffer.size, sizeof(sl_buffer))) {
        return false;
      }
      if (!buffer.name || buffer.rank < 0 || buffer.rank > SL_MAX_RANK) {
        return fail("buffer number %d has no name or rank %d, which is outside [0, %d]", i,
                    buffer.rank, SL_MAX_RANK);
      }
      if (buffer.space < 0 || buffer.space >= desc_.space_count || buffer.base < -1 ||
          buffer.base >= desc_.buffer_count || buffer.base == i) {
        return fail("buffer number %d is in space %d of %d and based on buffer %d of %d", i,
                    buffer.space, desc_.space_count, buffer.base, desc_.buffer_count);
      }
      if (buffer.rank > 0 && (!buffer.extents || !buffer.strides)) {
        return fail("buffer number %d has rank %d but no extents or strides", i, buffer.rank);
      }
      for (int32_t d = 0; d < buffer.rank; ++d) {
        if (!checkExpr("an extent of buffer", i, buffer.extents[d], true) ||
            !checkExpr("a stride of buffer", i, buffer.strides[d], true)) {
          return false;
        }
      }
      if (!checkExpr("the offset of buffer", i, buffer.offset, true) ||
          !checkExpr("the size of buffer", i, buffer.bytes, true) ||
          !checkExpr("the lead of buffer", i, buffer.lead, true)) {
        return false;
      }
    }
    return checkBases();
  }

  // Chains of views end at a buffer that owns storage.
  bool checkBases() {
    for (int32_t i = 0; i < desc_.buffer_count; ++i) {
      int32_t steps = 0;
      for (int32_t b = i; b >= 0; b = desc_.buffers[b].base) {
        if (++steps > desc_.buffer_count) {
          return fail("the bases of buffer number %d form a circle", i);
        }
      }
    }
    return true;
  }

  bool checkRoles() {
    return checkPositions("input", SL_ROLE_INPUT, SL_ROLE_INPUT, desc_.input_count) &&
           checkPositions("output", SL_ROLE_OUTPUT, SL_ROLE_OUTPUT, desc_.output_count) &&
           checkPositions("parameter", SL_ROLE_PARAMETER, SL_ROLE_STATE, desc_.parameter_count);
  }

  bool checkPositions(const char* what, int32_t first, int32_t last, int32_t count) {
    if (count < 0) {
      return fail("it has %d buffers of role %s", count, what);
    }
    std::vector<bool> seen(static_cast<size_t>(count));
    int32_t found = 0;
    for (int32_t i = 0; i < desc_.buffer_count; ++i) {
      const sl_buffer& buffer = desc_.buffers[i];
      if (buffer.role < first || buffer.role > last) {
        continue;
      }
      if (buffer.index < 0 || buffer.index >= count || seen[static_cast<size_t>(buffer.index)]) {
        return fail("buffer '%s' is %s number %d, which is taken or outside [0, %d)", buffer.name,
                    what, buffer.index, count);
      }
      seen[static_cast<size_t>(buffer.index)] = true;
      ++found;
    }
    return found == count || fail("it has %d buffers of role %s but says %d", found, what, count);
  }

  bool setsComputedExtent(const sl_statement& statement) const {
    if (statement.scalar_count != 2 || statement.scalars[1].count != 1 ||
        statement.scalars[1].steps[0].op != 'c') {
      return false;
    }
    const int64_t number = statement.scalars[1].steps[0].value;
    return number >= 0 && number < desc_.extent_count && desc_.extents[number].bound.count > 0;
  }

  bool checkStatements() {
    for (int32_t i = 0; i < desc_.statement_count; ++i) {
      const sl_statement& statement = desc_.statements[i];
      if (!checkSize("sl_statement", i, statement.size, sizeof(sl_statement))) {
        return false;
      }
      for (int32_t k = 0; k < statement.inputs + statement.outputs; ++k) {
        if (statement.operands[k] < 0 || statement.operands[k] >= desc_.buffer_count) {
          return fail("statement number %d uses buffer %d of %d", i, statement.operands[k],
                      desc_.buffer_count);
        }
      }
      for (int32_t k = 0; k < statement.scalar_count; ++k) {
        if (const char* wrong =
                checkExpression(statement.scalars[k], desc_.extent_count, desc_.statement_count)) {
          return fail("a scalar of statement number %d: %s", i, wrong);
        }
      }
      if (statement.kind == SL_STATEMENT_EXTENT && !setsComputedExtent(statement)) {
        return fail("statement number %d sets no extent that is computed", i);
      }
      if (statement.queue < 0 || statement.queue >= desc_.queue_count) {
        return fail("statement number %d is on queue %d of %d", i, statement.queue,
                    desc_.queue_count);
      }
    }
    return true;
  }

  bool checkCode(int32_t i, const sl_entry& entry) {
    constexpr size_t kFirst = offsetof(sl_device_code, own);  // before it grew
    if (entry.code->size != kFirst &&
        !checkSize("sl_device_code of entry", i, entry.code->size, sizeof(sl_device_code))) {
      return false;
    }
    const int32_t expected = entry.argument_count + entry.scalar_count;
    if (entry.code->argument_count != expected) {
      return fail("the machine code of entry number %d takes %d arguments but its entry has %d", i,
                  entry.code->argument_count, expected);
    }
    return entry.code->size == kFirst || !entry.code->own || checkOwn(i, *entry.code);
  }

  /// Of a user's own machine code: expressions over the entry's arguments.
  bool checkOwn(int32_t i, const sl_device_code& code) {
    const sl_own_code& own = *code.own;
    constexpr size_t kFirst = offsetof(sl_own_code, cooperative);  // before it grew
    if (own.size != kFirst &&
        !checkSize("sl_own_code of entry", i, own.size, sizeof(sl_own_code))) {
      return false;
    }
    constexpr int32_t kMost = SL_MAX_DEVICE_PARAMETERS;
    if (own.parameter_count < 0 || own.parameter_count > kMost || code.argument_count > kMost ||
        (own.parameter_count > 0 && !own.parameters) || own.shared_bytes < 0) {
      return fail(
          "the machine code of entry number %d has %d parameters and %d arguments, at most %d, and "
          "%d bytes of shared memory",
          i, own.parameter_count, code.argument_count, kMost, own.shared_bytes);
    }
    const auto check = [&](const sl_expr& value) {
      const char* wrong = checkExpression(value, code.argument_count);
      return !wrong || fail("the machine code of entry number %d: %s", i, wrong);
    };
    for (int32_t k = 0; k < own.parameter_count; ++k) {
      const int64_t alignment = own.parameters[k].alignment;
      if (!check(own.parameters[k].value)) {
        return false;
      }
      if (alignment < 1 || (alignment & (alignment - 1)) != 0) {
        return fail("parameter %d of the machine code of entry number %d is aligned to %lld bytes",
                    k, i, static_cast<long long>(alignment));
      }
    }
    return check(own.blocks_y) && check(own.blocks_z);
  }

  bool checkEntries() {
    for (int32_t i = 0; i < desc_.entry_count; ++i) {
      const sl_entry& entry = desc_.entries[i];
      if (!checkSize("sl_entry", i, entry.size, sizeof(sl_entry))) {
        return false;
      }
      if (!entry.name || !entry.backend || (!entry.thunk && !entry.code) ||
          (entry.argument_count > 0 && !entry.arguments) ||
          (entry.scalar_count > 0 && !entry.scalars)) {
        return fail("entry number %d has no name, backend, thunk or table of arguments", i);
      }
      if (entry.code && !checkCode(i, entry)) {
        return false;
      }
      for (int32_t k = 0; k < entry.argument_count; ++k) {
        if (!checkArgument(i, k, entry)) {
          return false;
        }
      }
    }
    return true;
  }

  bool checkArgument(int32_t i, int32_t k, const sl_entry& entry) {
    const sl_argument& argument = entry.arguments[k];
    if (!checkSize("sl_argument", k, argument.size, sizeof(sl_argument))) {
      return false;
    }
    if (argument.rank < (entry.kind == SL_ENTRY_KERNEL ? -1 : 0) || argument.rank > SL_MAX_RANK) {
      return fail("argument %d of entry number %d has rank %d", k, i, argument.rank);
    }
    for (int32_t d = 0; d < argument.rank; ++d) {
      if (!checkExpr("an extent of an argument of entry", i, argument.extents[d], true) ||
          !checkExpr("a stride of an argument of entry", i, argument.strides[d], true)) {
        return false;
      }
    }
    return true;
  }

  bool checkResults() {
    for (int32_t i = 0; i < desc_.result_count; ++i) {
      const sl_result& result = desc_.results[i];
      if (!checkSize("sl_result", i, result.size, sizeof(sl_result))) {
        return false;
      }
      if (result.buffer < 0 || result.buffer >= desc_.buffer_count || result.root < 0 ||
          result.root >= desc_.buffer_count) {
        return fail("result number %d is buffer %d rooted at %d of %d", i, result.buffer,
                    result.root, desc_.buffer_count);
      }
      int32_t b = result.buffer;
      while (b != result.root && desc_.buffers[b].base >= 0) {
        b = desc_.buffers[b].base;
      }
      if (b != result.root) {
        return fail("result number %d is buffer %d, which is not a view of its root %d", i,
                    result.buffer, result.root);
      }
    }
    return true;
  }

  bool checkSizes() {
    for (int32_t i = 0; i < desc_.space_count; ++i) {
      if (!checkExpr("the arena size", i, desc_.arena_bytes[i], true) ||
          !checkExpr("the scratch size", i, desc_.scratch_bytes[i], false) ||
          !checkExpr("the prepared size", i, desc_.prepared_bytes[i], false)) {
        return false;
      }
    }
    return true;
  }

  const sl_program_desc& desc_;
  sl_message* message_;
};

}  // namespace

bool checkDescription(const sl_program_desc* desc, sl_message* message) {
  MessageWriter writer(message);
  if (!desc) {
    writer.text("no program description");
    return false;
  }
  if (desc->abi_version != SL_ABI_VERSION) {
    writer.text("the program was compiled for abi_version ")
        .number(desc->abi_version)
        .text(" but this runtime has ")
        .number(SL_ABI_VERSION);
    return false;
  }
  constexpr size_t kFirst = offsetof(sl_program_desc, fixed_size_advice);  // before it grew
  if (desc->size < kFirst) {
    writer.text("the program description has ")
        .number(static_cast<int64_t>(desc->size))
        .text(" bytes but this runtime needs ")
        .number(kFirst);
    return false;
  }
  return Checker(*desc, message).check();
}

}  // namespace straightline
