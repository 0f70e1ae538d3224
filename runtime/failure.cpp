// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "message_writer.h"
#include "program.h"

namespace straightline {
namespace {

void writeValues(const sl_ctx& ctx, MessageWriter* writer) {
  const int64_t* detail = ctx.detail;
  switch (static_cast<sl_status>(ctx.status)) {
    case SL_OK:
      writer->text("no failure");
      return;
    case SL_INVALID_ARGUMENT:
      writer->text("invalid argument");
      break;
    case SL_INDEX_ERROR:
      // detail: index, lowest, highest allowed value; printed as a half-open range, as in Python.
      writer->text("index ")
          .number(detail[0])
          .text(" is out of range [")
          .number(detail[1])
          .text(", ")
          .number(detail[2] + 1)
          .text(")");
      return;
    case SL_ZERO_DIVISION:
      writer->text("integer division or modulo by zero");
      return;
    case SL_CHECK_FAILED:
      writer->text("check failed");
      return;
    case SL_OUT_OF_MEMORY:
      writer->text("out of memory: ").number(detail[0]).text(" bytes were asked for");
      return;
    case SL_CANCELLED:
      writer->text("cancelled by the caller");
      return;
    case SL_DEVICE_ERROR:
      writer->text("the device failed: ").text(ctx.text[0] ? ctx.text : "no reason given");
      return;
    case SL_UNSUPPORTED:
      writer->text("unsupported");
      break;
    case SL_INTERNAL:
      writer->text("internal error");
      break;
    case SL_OP_FAILED:
      writer->text(ctx.text[0] ? ctx.text : "the op failed");
      return;
  }
  if (ctx.text[0]) {
    writer->text(": ").text(ctx.text);
    return;
  }
  writer->text(" (status ").number(ctx.status).text(", detail ").tuple(detail, 3).text(")");
}

/// The entry of a library that a statement calls; null: an emitted kernel, or nothing.
const sl_entry* libraryEntryOf(const sl_program_desc& desc, const sl_statement& statement) {
  const auto* end = desc.entries + desc.entry_count;
  const auto* found = std::find_if(desc.entries, end, [&](const sl_entry& entry) {
    return statement.entry && entry.name && std::strcmp(entry.name, statement.entry) == 0;
  });
  const bool isLibrarys =
      found != end && (found->kind == SL_ENTRY_EXTERNAL || found->kind == SL_ENTRY_PLAN);
  return isLibrarys ? found : nullptr;
}

/// The computed extent that got a value outside of its bounds; null: something else failed.
const sl_extent* extentThatFailed(const sl_program_desc& desc, const sl_ctx& ctx) {
  const bool known = ctx.status == SL_CHECK_FAILED && ctx.statement >= 0 &&
                     ctx.statement < desc.statement_count &&
                     desc.statements[ctx.statement].kind == SL_STATEMENT_EXTENT;
  return known ? &desc.extents[sl_expr_value(&desc.statements[ctx.statement].scalars[1], nullptr)]
               : nullptr;
}

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether a name stands in a text, and is no part of a longer one.
bool names(const char* text, const char* name) {
  const size_t length = std::strlen(name);
  for (const char* at = std::strstr(text, name); at && length; at = std::strstr(at + 1, name)) {
    if ((at == text || !isWord(at[-1])) && !isWord(at[length])) {
      return true;
    }
  }
  return false;
}

/// Values of the sizes that a check names: ` (n = 5, m = 7)`.
void writeSizes(const sl_program_desc& desc, const char* words, const int64_t* extents,
                MessageWriter* writer) {
  bool first = true;
  for (int32_t i = 0; i < desc.extent_count; ++i) {
    if (desc.extents[i].name && names(words, desc.extents[i].name)) {
      writer->text(first ? " (" : ", ").text(desc.extents[i].name).text(" = ").number(extents[i]);
      first = false;
    }
  }
  writer->text(first ? "" : ")");
}

}  // namespace

void clearFailure(sl_ctx* ctx) {
  ctx->statement = -1;
  std::memset(ctx->detail, 0, sizeof(ctx->detail));
  ctx->text[0] = '\0';
  __atomic_store_n(&ctx->status, SL_OK, __ATOMIC_RELEASE);
}

void describeFailure(const sl_program_desc& desc, const sl_ctx& ctx, const char* prefix,
                     const int64_t* extents, sl_message* message) {
  MessageWriter writer(message);
  writer.text(prefix);
  if (const sl_extent* extent = extentThatFailed(desc, ctx)) {
    writer.text("size '")
        .text(extent->name)
        .text("', which depends on data, is ")
        .number(ctx.detail[0])
        .text(" but must be in [")
        .number(ctx.detail[1])
        .text(", ")
        .number(ctx.detail[2])
        .text("]");
  } else {
    writeValues(ctx, &writer);
  }
  if (ctx.statement < 0 || ctx.statement >= desc.statement_count) {
    writer.text(": in program '").text(desc.name ? desc.name : "").text("'");
    return;
  }
  const sl_statement& statement = desc.statements[ctx.statement];
  const bool hasOp = statement.op && statement.op[0];
  const bool hasSource = statement.source && statement.source[0];
  writer.text(": ").text(hasOp ? statement.op : statement.entry ? statement.entry : "");
  if (extents && hasOp && statement.kind == SL_STATEMENT_CHECK) {
    writeSizes(desc, statement.op, extents, &writer);
  }
  if (const sl_entry* entry = libraryEntryOf(desc, statement)) {
    writer.text(" (kernel ").text(entry->name).text(" of ").text(entry->backend);
    if (const char* file = sl_backend_file(entry->backend)) {
      writer.text(", ").text(file);
    }
    writer.text(")");
  }
  if (hasSource) {
    writer.text(" at ").text(statement.source);
  }
}

}  // namespace straightline

void sl_failure_message(const sl_program* program, const sl_ctx* ctx, sl_message* message) {
  straightline::describeFailure(*program->desc, *ctx, "", nullptr, message);
}

void sl_failure_message_of_sizes(const sl_program* program, const sl_ctx* ctx,
                                 const int64_t* extents, sl_message* message) {
  straightline::describeFailure(*program->desc, *ctx, "", extents, message);
}

int32_t sl_program_set_extent(const sl_program* program, sl_ctx* ctx, const sl_bindings* bindings,
                              int32_t statement, int64_t value) {
  const sl_program_desc& desc = *program->desc;
  const int64_t number = sl_expr_value(&desc.statements[statement].scalars[1], nullptr);
  const sl_extent& extent = desc.extents[number];
  const int64_t highest = sl_expr_value(&extent.bound, bindings->extents);
  if (value < extent.min || value > highest) {
    sl_fail(ctx, SL_CHECK_FAILED, value, extent.min, highest);
    ctx->statement = statement;
    return SL_CHECK_FAILED;
  }
  bindings->extents[number] = value;
  return SL_OK;
}

void sl_fail(sl_ctx* ctx, int32_t status, int64_t a, int64_t b, int64_t c) {
  int32_t none = SL_OK;
  if (__atomic_compare_exchange_n(&ctx->status, &none, status, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED)) {
    ctx->detail[0] = a;
    ctx->detail[1] = b;
    ctx->detail[2] = c;
  }
}

void sl_fail_text(sl_ctx* ctx, int32_t status, const char* text) {
  int32_t none = SL_OK;
  if (!__atomic_compare_exchange_n(&ctx->status, &none, status, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  size_t bytes = std::strlen(text);
  if (bytes >= sizeof(ctx->text)) {
    bytes = sizeof(ctx->text) - 1;
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) {
      --bytes;  // never in the middle of a character
    }
  }
  std::memcpy(ctx->text, text, bytes);
  ctx->text[bytes] = '\0';
}
