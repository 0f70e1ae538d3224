// SPDX-License-Identifier: Apache-2.0
// x [8, 1024] + b [1024].
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static void prepare(const float* const*) {}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  const float* x = static_cast<const float*>(inputs[0]);
  const float* b = static_cast<const float*>(inputs[1]);
  float* y = static_cast<float*>(outputs[0]);
  for (int row = 0; row < 8; ++row) {
    for (int i = 0; i < 1024; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) {
        const int at = i + u * kLanes;
        store(y + row * 1024 + at, load(x + row * 1024 + at) + load(b + at));
      }
    }
  }
}

FLOOR_EXPORTS
