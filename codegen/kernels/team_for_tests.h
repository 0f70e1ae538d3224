// SPDX-License-Identifier: Apache-2.0
// A team of std::threads for tests of kernel templates.
#ifndef STRAIGHTLINE_KERNELS_TEAM_FOR_TESTS_H
#define STRAIGHTLINE_KERNELS_TEAM_FOR_TESTS_H

#include <sched.h>

#include <thread>
#include <vector>

#include "straightline/kernels/vector.h"

/// Calls body(ctx, team) on each of `threads` threads and returns the status; details of a failure
/// go to `failure`.
template <class Body>
int32_t runTeam(int threads, Body body, sl_ctx* failure = nullptr) {
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  // wraps at the second barrier
  std::vector<uint32_t> arrive(size_t(threads) * 32, 0xfffffffeu);
  sl_team_shared shared{sizeof(sl_team_shared), arrive.data(), [] { sched_yield(); }, nullptr};
  std::vector<std::thread> others;
  for (int32_t i = 1; i < threads; ++i) {
    others.emplace_back([&, i] { body(&ctx, sl_team{&shared, i, threads}); });
  }
  body(&ctx, sl_team{threads > 1 ? &shared : nullptr, 0, threads});
  for (std::thread& t : others) {
    t.join();
  }
  if (failure != nullptr) {
    *failure = ctx;
  }
  return ctx.status;
}

#endif  // STRAIGHTLINE_KERNELS_TEAM_FOR_TESTS_H
