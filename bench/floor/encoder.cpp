// SPDX-License-Identifier: Apache-2.0
// nn.TransformerEncoderLayer(FLOOR_DIM, FLOOR_HEADS, 4 * FLOOR_DIM, norm first, GELU) over
// FLOOR_TOKENS tokens, batch 1. A thread does the heads that it has, from their projections to
// their results, then columns of the other products.
#include "floor.h"

using namespace floor_code;

static constexpr int kDim = FLOOR_DIM, kHeads = FLOOR_HEADS, kTokens = FLOOR_TOKENS,
                     kFfn = 4 * kDim, kHead = kDim / kHeads;
static constexpr int kRows = kTileRows;
static constexpr int kVectors = 2;
static constexpr int kPanel = kVectors * kLanes;
static constexpr int kKeys = (kTokens + kLanes - 1) / kLanes * kLanes;  // columns of the scores
static_assert(kTokens % kRows == 0 && kHead % kPanel == 0);

struct Linear {
  const float* weights;  // panels
  const float* bias;
};

static Linear qkv, out, up, down;
static const float *scale1, *shift1, *scale2, *shift2;
static float *normed, *projected, *keys, *scores, *mixed, *middle, *wide;

static void prepare(const float* const* p) {
  // The scale of the scores goes into the projection of q.
  float* w = floats(3 * kDim * kDim);
  float* b = floats(3 * kDim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(kHead));
  for (int i = 0; i < 3 * kDim * kDim; ++i) {
    w[i] = p[0][i] * (i < kDim * kDim ? scale : 1.0f);
  }
  for (int i = 0; i < 3 * kDim; ++i) {
    b[i] = p[1][i] * (i < kDim ? scale : 1.0f);
  }
  qkv = {packed(w, 3 * kDim, kDim, kPanel), b};
  out = {packed(p[2], kDim, kDim, kPanel), p[3]};
  up = {packed(p[4], kFfn, kDim, kPanel), p[5]};
  down = {packed(p[6], kDim, kFfn, kPanel), p[7]};
  scale1 = p[8], shift1 = p[9], scale2 = p[10], shift2 = p[11];
  normed = floats(kTokens * kDim);
  projected = floats(kTokens * 3 * kDim);
  keys = floats(kHeads * kHead * kKeys);
  scores = floats(kHeads * kTokens * kKeys);
  mixed = floats(kTokens * kDim);
  middle = floats(kTokens * kDim);
  wide = floats(kTokens * kFfn);
}

/// Columns [first, last) of y[kTokens][columns] = x[kTokens][kDepth] * w + bias.
template <int kDepth, typename Finish>
static __attribute__((noinline)) void product(const float* x, Linear linear, float* y, int columns,
                                              int first, int last, Finish finish) {
  for (int column = first; column < last; column += kPanel) {
    const float* panel = linear.weights + static_cast<int64_t>(column) * kDepth;
    // the first rows fetch the next panel, a prefetch past the end is harmless
    for (int row = 0; row < kTokens; row += kRows) {
      const float* next = row == 0 ? panel + kPanel * kDepth : nullptr;
      tile<kRows, kVectors, 1, kDepth>(x + row * kDepth, kDepth, panel, kPanel,
                                       linear.bias + column, y + row * columns + column, columns,
                                       finish, next);
    }
  }
}

static __attribute__((noinline)) void norm(const float* x, const float* scale, const float* shift,
                                           float* y, int first, int last) {
  for (int row = first; row < last; ++row) {
    const float* from = x + row * kDim;
    vec total{}, squares{};
    for (int i = 0; i < kDim; i += kLanes) {
      total += load(from + i);
    }
    const float mean = sum(total) / kDim;
    for (int i = 0; i < kDim; i += kLanes) {
      const vec centred = load(from + i) - mean;
      squares += centred * centred;
    }
    const float factor = 1.0f / std::sqrt(sum(squares) / kDim + 1e-5f);
    for (int i = 0; i < kDim; i += kLanes) {
      store(y + row * kDim + i,
            (load(from + i) - mean) * factor * load(scale + i) + load(shift + i));
    }
  }
}

static __attribute__((noinline)) void attend(int head) {
  const float* q = projected + head * kHead;
  const float* v = q + 2 * kDim;
  float* k = keys + head * kHead * kKeys;
  float* s = scores + head * kTokens * kKeys;
  for (int token = 0; token < kTokens; ++token) {
    for (int i = 0; i < kHead; ++i) {
      k[i * kKeys + token] = q[token * 3 * kDim + kDim + i];
    }
  }
  for (int row = 0; row < kTokens; row += kRows) {
    tile<kRows, kKeys / kLanes, 1, kHead>(q + row * 3 * kDim, 3 * kDim, k, kKeys, nullptr,
                                          s + row * kKeys, kKeys,
                                          [](vec x, const float*) { return x; });
  }
  for (int row = 0; row < kTokens; ++row) {
    float* at = s + row * kKeys;
    float most = at[0];
    for (int i = 1; i < kTokens; ++i) {
      most = most < at[i] ? at[i] : most;
    }
    float total = 0;
    for (int i = 0; i < kKeys; i += kLanes) {
      store(at + i, exponential(load(at + i) - most));
    }
    for (int i = 0; i < kTokens; ++i) {
      total += at[i];
    }
    for (int i = 0; i < kKeys; i += kLanes) {
      store(at + i, load(at + i) * (1.0f / total));
    }
  }
  for (int column = 0; column < kHead; column += kPanel) {
    for (int row = 0; row < kTokens; row += kRows) {
      tile<kRows, kVectors, 1, kTokens>(s + row * kKeys, kKeys, v + column, 3 * kDim, nullptr,
                                        mixed + row * kDim + head * kHead + column, kDim,
                                        [](vec x, const float*) { return x; });
    }
  }
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs,
                                          int thread) {
  const float* x = static_cast<const float*>(inputs[0]);
  float* y = static_cast<float*>(outputs[0]);
  const auto first = [&](int count) { return count * thread / FLOOR_THREADS; };
  const auto last = [&](int count) { return count * (thread + 1) / FLOOR_THREADS; };
  const auto plain = [](vec v, const float*) { return v; };

  norm(x, scale1, shift1, normed, first(kTokens), last(kTokens));
  barrier(thread);
  for (int part = 0; part < 3; ++part) {
    product<kDim>(normed, qkv, projected, 3 * kDim, part * kDim + first(kHeads) * kHead,
                  part * kDim + last(kHeads) * kHead, plain);
  }
  for (int head = first(kHeads); head < last(kHeads); ++head) {
    attend(head);
  }
  barrier(thread);
  product<kDim>(mixed, out, middle, kDim, first(kDim / kPanel) * kPanel,
                last(kDim / kPanel) * kPanel,
                [&](vec v, const float* at) { return v + load(x + (at - middle)); });
  barrier(thread);
  norm(middle, scale2, shift2, normed, first(kTokens), last(kTokens));
  barrier(thread);
  product<kDim>(normed, up, wide, kFfn, first(kFfn / kPanel) * kPanel, last(kFfn / kPanel) * kPanel,
                [](vec v, const float*) { return gelu(v); });
  barrier(thread);
  product<kFfn>(wide, down, y, kDim, first(kDim / kPanel) * kPanel, last(kDim / kPanel) * kPanel,
                [&](vec v, const float* at) { return v + load(middle + (at - y)); });
}

FLOOR_EXPORTS
