// SPDX-License-Identifier: Apache-2.0
// nn.LSTMCell(64, 128) on one row without a state: with h and c zero the products of h and the
// forget gate fall away.
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static constexpr int kIn = 64, kHidden = 128;
static constexpr int kVectors = 4, kPanel = kVectors * kLanes;
static_assert(kHidden % kPanel == 0);

static const float* weights[3];  // of i, g, o: panels
static const float* biases[3];

// weight_ih [i, f, g, o], weight_hh, bias_ih, bias_hh
static void prepare(const float* const* p) {
  const int gates[3] = {0, 2, 3};
  for (int g = 0; g < 3; ++g) {
    const int first = gates[g] * kHidden;
    weights[g] = packed(p[0] + first * kIn, kHidden, kIn, kPanel);
    float* bias = floats(kHidden);
    for (int i = 0; i < kHidden; ++i) {
      bias[i] = p[2][first + i] + p[3][first + i];
    }
    biases[g] = bias;
  }
}

static __attribute__((noinline)) void product(const float* x, const float* w, const float* b,
                                              float* y) {
  for (int column = 0; column < kHidden; column += kPanel) {
    tile<1, kVectors, 2, kIn>(x, 0, w + column * kIn, kPanel, b + column, y + column, 0,
                              [](vec v, const float*) { return v; });
  }
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  alignas(64) float gates[3][kHidden];
  for (int g = 0; g < 3; ++g) {
    product(static_cast<const float*>(inputs[0]), weights[g], biases[g], gates[g]);
  }
  float* h = static_cast<float*>(outputs[0]);
  float* c = static_cast<float*>(outputs[1]);
  for (int i = 0; i < kHidden; i += kLanes) {
    const vec cell = sigmoid(load(gates[0] + i)) * tangent(load(gates[1] + i));
    store(c + i, cell);
    store(h + i, sigmoid(load(gates[2] + i)) * tangent(cell));
  }
}

FLOOR_EXPORTS
