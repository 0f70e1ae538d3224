// SPDX-License-Identifier: Apache-2.0
// FLOOR_LAYERS x (linear 16 -> 16, relu), x [4, 16]. Calls of one shared kernel: inlined copies
// miss the instruction cache.
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static const float* weights[FLOOR_LAYERS];  // [in][out]
static const float* biases[FLOOR_LAYERS];

static void prepare(const float* const* parameters) {  // weight, bias of each layer
  for (int i = 0; i < FLOOR_LAYERS; ++i) {
    weights[i] = packed(parameters[2 * i], 16, 16, 16);
    biases[i] = padded(parameters[2 * i + 1], 16, 16);
  }
}

static __attribute__((noinline)) void layer(const float* x, const float* w, const float* b,
                                            float* y) {
  // Two chains of sums where the registers allow it: one product of 16 is bound by latency.
  tile<4, 16 / kLanes, kLanes == 16 ? 4 : 1, 16>(x, 16, w, 16, b, y, 16,
                                                 [](vec v, const float*) { return relu(v); });
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  alignas(64) float a[64], b[64];
  const float* from = static_cast<const float*>(inputs[0]);
  for (int i = 0; i < FLOOR_LAYERS; ++i) {
    float* to = i + 1 == FLOOR_LAYERS ? static_cast<float*>(outputs[0]) : i % 2 == 0 ? a : b;
    layer(from, weights[i], biases[i], to);
    from = to;
  }
}

FLOOR_EXPORTS
