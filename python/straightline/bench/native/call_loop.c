// SPDX-License-Identifier: Apache-2.0
// Calls a compiled program as a C program would: a frame leased, sl_run, the frame given back. For
// the benchmark's row "from C".
#define _POSIX_C_SOURCE 199309L
#include <time.h>

#include "straightline/abi/straightline.h"

/// Seconds that `calls` calls take, negative when one fails (`message` says why). Not for two
/// threads at once.
SL_API double sl_bench_call_loop(sl_program* program, sl_weights* weights, void** inputs,
                                 void** outputs, int threads, long calls, sl_message* message) {
  sl_queue* queue = NULL;
  if (sl_queue_team(threads, &queue, message) != SL_OK) {
    return -1.0;
  }
  const sl_args args = {
      .size = sizeof(sl_args), .inputs = (void* const*)inputs, .outputs = (void* const*)outputs};
  struct timespec start, end;
  int32_t status = SL_OK;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (long i = 0; i < calls && status == SL_OK; ++i) {
    sl_frame* frame = NULL;
    sl_ctx ctx;  // sl_run clears the rest
    ctx.size = sizeof(ctx);
    ctx.cancel = NULL;
    ctx.profile = NULL;
    ctx.profile_user = NULL;
    status = sl_frame_lease(program, NULL, &frame, message);
    if (status == SL_OK) {
      status = sl_run(program, weights, frame, queue, &args, &ctx, message);
      sl_frame_return(frame);
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  sl_queue_release(queue);
  if (status != SL_OK) {
    return -1.0;
  }
  return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}
