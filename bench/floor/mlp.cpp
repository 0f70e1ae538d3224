// SPDX-License-Identifier: Apache-2.0
// FLOOR_LAYERS linear layers FLOOR_WIDTH -> FLOOR_WIDTH (the last: FLOOR_LAST) with relu, one row.
#if FLOOR_WIDTH < 128
#define FLOOR_ALONE  // half of a layer is worth less than a barrier
#endif
#include "floor.h"

using namespace floor_code;

// A panel is as wide as the registers hold sums for, in several chains.
static constexpr int kPanel = FLOOR_WIDTH >= 8 * kLanes ? 8 * kLanes : 4 * kLanes;
static constexpr int kSplit = kPanel == 8 * kLanes ? 1 : 2;

static const float* weights[FLOOR_LAYERS];
static const float* biases[FLOOR_LAYERS];
static float* rows[2];

static int width(int i) { return i + 1 == FLOOR_LAYERS ? FLOOR_LAST : FLOOR_WIDTH; }

static void prepare(const float* const* parameters) {  // weight, bias of each layer
  for (int i = 0; i < FLOOR_LAYERS; ++i) {
    weights[i] = packed(parameters[2 * i], width(i), FLOOR_WIDTH, kPanel);
    biases[i] = padded(parameters[2 * i + 1], width(i), kPanel);
  }
  rows[0] = floats(FLOOR_WIDTH + kPanel);
  rows[1] = floats(FLOOR_WIDTH + kPanel);
}

template <bool kRelu>
static __attribute__((noinline)) void panels(const float* x, const float* w, const float* b,
                                             float* y, int first, int last) {
  for (int p = first; p < last; ++p) {
    tile<1, kPanel / kLanes, kSplit, FLOOR_WIDTH>(
        x, 0, w + static_cast<int64_t>(p) * FLOOR_WIDTH * kPanel, kPanel, b + p * kPanel,
        y + p * kPanel, 0, [](vec v, const float*) { return kRelu ? relu(v) : v; });
  }
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs,
                                          int thread) {
  const float* from = static_cast<const float*>(inputs[0]);
  for (int i = 0; i < FLOOR_LAYERS; ++i) {
    const int count = (width(i) + kPanel - 1) / kPanel;
    const int first = count * thread / FLOOR_THREADS;
    const int last = count * (thread + 1) / FLOOR_THREADS;
    float* to = rows[i % 2];
    if (i + 1 < FLOOR_LAYERS || FLOOR_LAST_RELU) {
      panels<true>(from, weights[i], biases[i], to, first, last);
    } else {
      panels<false>(from, weights[i], biases[i], to, first, last);
    }
    barrier(thread);
    from = to;
  }
  if (thread == 0) {
    std::memcpy(outputs[0], from, FLOOR_LAST * sizeof(float));
  }
}

FLOOR_EXPORTS
