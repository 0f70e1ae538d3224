// SPDX-License-Identifier: Apache-2.0
// 2 * relu(x + b) + mean of the row, x [8, 256], b [256]: a row stays in registers or the nearest
// cache.
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static void prepare(const float* const*) {}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  constexpr int kRow = 256;
  const float* b = static_cast<const float*>(inputs[1]);
  for (int row = 0; row < 8; ++row) {
    const float* x = static_cast<const float*>(inputs[0]) + row * kRow;
    float* y = static_cast<float*>(outputs[0]) + row * kRow;
    vec total[4] = {};
    for (int i = 0; i < kRow; i += 4 * kLanes) {
      for (int u = 0; u < 4; ++u) {
        total[u] += load(x + i + u * kLanes);
      }
    }
    const float mean = sum((total[0] + total[1]) + (total[2] + total[3])) * (1.0f / kRow);
    for (int i = 0; i < kRow; i += kLanes) {
      store(y + i, relu(load(x + i) + load(b + i)) * 2.0f + mean);
    }
  }
}

FLOOR_EXPORTS
