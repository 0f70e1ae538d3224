// SPDX-License-Identifier: Apache-2.0
// One kernel of a program by itself, on a queue of the program's device.
#include <vector>

#include "boundary.h"
#include "message_writer.h"
#include "program.h"
#include "queue.h"
#include "straightline/abi/queue.h"
#include "straightline/abi/start_entry.h"

namespace straightline {
namespace {

/// A kernel of the device: its arguments are 8 bytes each, the addresses first.
void startKernel(const sl_program& program, int32_t number, sl_queue* queue, void* const* pointers,
                 const int64_t* scalars, const int64_t* extents, sl_ctx* ctx) {
  const sl_entry& entry = program.desc->entries[number];
  std::vector<void*> places;
  for (int32_t i = 0; i < entry.argument_count; ++i) {
    places.push_back(const_cast<void**>(&pointers[i]));
  }
  for (int32_t i = 0; i < entry.scalar_count; ++i) {
    places.push_back(const_cast<int64_t*>(&scalars[i]));
  }
  const sl_grid grid{sizeof(sl_grid), sl_expr_value(&entry.code->blocks, extents),
                     entry.code->threads, 0};
  sl_queue_start(ctx, queue, program.kernels.table()[number], &grid, places.data());
}

}  // namespace
}  // namespace straightline

int32_t sl_program_start(const sl_program* program, int32_t number, sl_queue* queue,
                         void* const* pointers, const int64_t* scalars, const int64_t* extents,
                         sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    const sl_entry& entry = program->desc->entries[number];
    if (!queue->device || queue->number != program->device) {
      MessageWriter words(message);
      words.text("the queue is ").text(queue->device ? "on device " : "a team of the host");
      if (queue->device) {
        words.number(queue->number);
      }
      words.text(" but the program is on device ").number(program->device);
      return SL_INVALID_ARGUMENT;
    }
    const int32_t loaded = program->kernels.load(*program->desc, program->device, message);
    if (loaded != SL_OK) {
      return loaded;
    }
    sl_ctx ctx = {};
    ctx.size = sizeof(ctx);
    ctx.statement = -1;
    if (entry.code) {
      startKernel(*program, number, queue, pointers, scalars, extents, &ctx);
    } else {
      sl_queue_launch(&ctx, queue, entry.thunk, pointers, entry.argument_count, scalars,
                      entry.scalar_count);
    }
    if (ctx.status != SL_OK) {
      sl_failure_message(program, &ctx, message);
    }
    return ctx.status;
  });
}
