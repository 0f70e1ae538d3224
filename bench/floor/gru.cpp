// SPDX-License-Identifier: Apache-2.0
// The last state of nn.GRU(64, 64) over FLOOR_STEPS steps of one row: what depends on the inputs
// alone is one product for all steps; each step then multiplies the state.
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static constexpr int kSteps = FLOOR_STEPS, kIn = 64, kHidden = 64, kGates = 3 * kHidden;
static constexpr int kRows = 4, kVectors = 2, kPanel = kVectors * kLanes;
static constexpr int kStepVectors = kHidden / kLanes;  // a gate's columns are one panel
static_assert(kSteps % kRows == 0 && kGates % kPanel == 0);

static const float *ofInput, *ofState, *inputBias, *stateBias;
static float* given;  // [steps][gates]

// weight_ih [r, z, n], weight_hh, bias_ih, bias_hh
static void prepare(const float* const* p) {
  ofInput = packed(p[0], kGates, kIn, kPanel);
  ofState = packed(p[1], kGates, kHidden, kHidden);
  // The biases of r and z can be added once; that of n stands inside the product with r.
  float* a = floats(kGates);
  float* b = floats(kGates);
  for (int i = 0; i < kGates; ++i) {
    a[i] = p[2][i] + (i < 2 * kHidden ? p[3][i] : 0);
    b[i] = i < 2 * kHidden ? 0 : p[3][i];
  }
  inputBias = a;
  stateBias = b;
  given = floats(kSteps * kGates);
}

static __attribute__((noinline)) void step(const float* h, const float* x, float* next) {
  alignas(64) float gates[kGates];
  for (int g = 0; g < 3; ++g) {
    tile<1, kStepVectors, kLanes == 16 ? 2 : 1, kHidden>(
        h, 0, ofState + g * kHidden * kHidden, kHidden, stateBias + g * kHidden,
        gates + g * kHidden, 0, [](vec v, const float*) { return v; });
  }
  for (int i = 0; i < kHidden; i += kLanes) {
    const vec r = sigmoid(load(gates + i) + load(x + i));
    const vec z = sigmoid(load(gates + kHidden + i) + load(x + kHidden + i));
    const vec n = tangent(load(x + 2 * kHidden + i) + r * load(gates + 2 * kHidden + i));
    store(next + i, n + z * (load(h + i) - n));
  }
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  const float* x = static_cast<const float*>(inputs[0]);
  for (int column = 0; column < kGates; column += kPanel) {
    for (int row = 0; row < kSteps; row += kRows) {
      tile<kRows, kVectors, 1, kIn>(x + row * kIn, kIn, ofInput + column * kIn, kPanel,
                                    inputBias + column, given + row * kGates + column, kGates,
                                    [](vec v, const float*) { return v; });
    }
  }
  alignas(64) float states[2][kHidden] = {};
  for (int i = 0; i < kSteps; ++i) {
    step(states[i % 2], given + i * kGates,
         i + 1 == kSteps ? static_cast<float*>(outputs[0]) : states[(i + 1) % 2]);
  }
}

FLOOR_EXPORTS
