// SPDX-License-Identifier: Apache-2.0
// A layer of the shape of Qwen3-0.6B at one token over a cache of FLOOR_TOKENS: what takes the time
// is to read the weights once. They are packed into panels on large pages, which memory serves as
// one stream; the cache is read where it is, and the oldest token left out. A thread has heads,
// then rows of the other products.
#include "floor.h"

using namespace floor_code;

static constexpr int kDim = 1024, kHeads = 16, kKeyHeads = 8, kHead = 128, kFfn = 3072,
                     kTokens = FLOOR_TOKENS;
static constexpr int kShared = kHeads / kKeyHeads;
static constexpr int kVectors = 4, kPanel = kVectors * kLanes;

static const float *keyCache, *valueCache, *cosine, *sine, *norm1, *norm2, *queryNorm, *keyNorm;
static const float *query, *key, *value, *out, *gate, *up, *down;
static float *normed[FLOOR_THREADS], *queries, *newKeys, *newValues, *attended, *middle, *hidden;

static void prepare(const float* const* p) {
  keyCache = p[0], valueCache = p[1], cosine = p[2], sine = p[3];
  norm1 = p[4], norm2 = p[5], queryNorm = p[6], keyNorm = p[7];
  query = packed(p[8], kHeads * kHead, kDim, kPanel);
  key = packed(p[9], kKeyHeads * kHead, kDim, kPanel);
  value = packed(p[10], kKeyHeads * kHead, kDim, kPanel);
  out = packed(p[11], kDim, kHeads * kHead, kPanel);
  gate = packed(p[12], kFfn, kDim, kPanel);
  up = packed(p[13], kFfn, kDim, kPanel);
  down = packed(p[14], kDim, kFfn, kPanel);
  for (float*& place : normed) {
    place = floats(kDim);
  }
  queries = floats(kHeads * kHead);
  newKeys = floats(kKeyHeads * kHead);
  newValues = floats(kKeyHeads * kHead);
  attended = floats(kHeads * kHead);
  middle = floats(kDim);
  hidden = floats(kFfn);
}

/// y[row] = finish(w[row] . x, row) for the rows [first, last), whole panels: one stream from
/// memory.
template <int kDepth, typename Finish>
static __attribute__((noinline)) void rows(const float* x, const float* w, float* y, int first,
                                           int last, Finish finish) {
  for (int row = first; row < last; row += kPanel) {
    alignas(64) float sums[kPanel];
    tile<1, kVectors, 2, kDepth>(x, 0, w + static_cast<int64_t>(row) * kDepth, kPanel, nullptr,
                                 sums, 0, [](vec v, const float*) { return v; });
    for (int i = 0; i < kPanel; ++i) {
      y[row + i] = finish(sums[i], row + i);
    }
  }
}

static void norm(const float* x, const float* scale, float* y, int count) {
  vec squares{};
  for (int i = 0; i < count; i += kLanes) {
    squares += load(x + i) * load(x + i);
  }
  const float factor = 1.0f / std::sqrt(sum(squares) / static_cast<float>(count) + 1e-6f);
  for (int i = 0; i < count; i += kLanes) {
    store(y + i, load(x + i) * factor * load(scale + i));
  }
}

static void rotate(float* x) {
  constexpr int kHalf = kHead / 2;
  for (int i = 0; i < kHalf; i += kLanes) {
    const vec a = load(x + i), b = load(x + kHalf + i);
    store(x + i, a * load(cosine + i) - b * load(sine + i));
    store(x + kHalf + i, b * load(cosine + kHalf + i) + a * load(sine + kHalf + i));
  }
}

/// The heads that share one head of keys: both read the cache once.
static __attribute__((noinline)) void attend(int head) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(kHead));
  const float* q = queries + head * kShared * kHead;
  alignas(64) float scores[kShared][kTokens];
  // token 0 of the cache falls off its end
  const auto row = [&](const float* cache, const float* fresh, int token) {
    return token + 1 < kTokens ? cache + (static_cast<int64_t>(head) * kTokens + token) * kHead
                               : fresh + head * kHead;
  };
  for (int token = 0; token < kTokens; ++token) {
    const float* k = row(keyCache, newKeys, token);
    vec sums[kShared] = {};
    for (int i = 0; i < kHead; i += kLanes) {
      for (int s = 0; s < kShared; ++s) {
        sums[s] += load(k + i) * load(q + s * kHead + i);
      }
    }
    for (int s = 0; s < kShared; ++s) {
      scores[s][token] = sum(sums[s]) * scale;
    }
  }
  float share[kShared];
  for (int s = 0; s < kShared; ++s) {
    float most = scores[s][0];
    for (int i = 1; i < kTokens; ++i) {
      most = most < scores[s][i] ? scores[s][i] : most;
    }
    vec total{};
    for (int i = 0; i < kTokens; i += kLanes) {
      const vec e = exponential(load(scores[s] + i) - most);
      store(scores[s] + i, e);
      total += e;
    }
    share[s] = 1.0f / sum(total);
  }
  vec sums[kShared][kHead / kLanes] = {};
  for (int token = 0; token < kTokens; ++token) {
    const float* v = row(valueCache, newValues, token);
    for (int i = 0; i < kHead / kLanes; ++i) {
      const vec column = load(v + i * kLanes);
      for (int s = 0; s < kShared; ++s) {
        sums[s][i] += column * scores[s][token];
      }
    }
  }
  for (int s = 0; s < kShared; ++s) {
    for (int i = 0; i < kHead / kLanes; ++i) {
      store(attended + (head * kShared + s) * kHead + i * kLanes, sums[s][i] * share[s]);
    }
  }
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs,
                                          int thread) {
  const float* x = static_cast<const float*>(inputs[0]);
  float* y = static_cast<float*>(outputs[0]);
  float* mine = normed[thread];
  const auto first = [&](int count) { return count * thread / FLOOR_THREADS; };
  const auto last = [&](int count) { return count * (thread + 1) / FLOOR_THREADS; };
  const auto plain = [](float v, int) { return v; };
  norm(x, norm1, mine, kDim);
  rows<kDim>(mine, query, queries, first(kHeads) * kHead, last(kHeads) * kHead, plain);
  rows<kDim>(mine, key, newKeys, first(kKeyHeads) * kHead, last(kKeyHeads) * kHead, plain);
  rows<kDim>(mine, value, newValues, first(kKeyHeads) * kHead, last(kKeyHeads) * kHead, plain);
  for (int head = first(kHeads); head < last(kHeads); ++head) {
    norm(queries + head * kHead, queryNorm, queries + head * kHead, kHead);
    rotate(queries + head * kHead);
  }
  for (int head = first(kKeyHeads); head < last(kKeyHeads); ++head) {
    norm(newKeys + head * kHead, keyNorm, newKeys + head * kHead, kHead);
    rotate(newKeys + head * kHead);
    attend(head);
  }
  barrier(thread);
  rows<kHeads * kHead>(attended, out, middle, first(kDim), last(kDim),
                       [&](float v, int i) { return v + x[i]; });
  barrier(thread);
  norm(middle, norm2, mine, kDim);
  rows<kDim>(mine, gate, hidden, first(kFfn), last(kFfn),
             [](float v, int) { return v / (1.0f + std::exp(-v)); });
  rows<kDim>(mine, up, hidden, first(kFfn), last(kFfn),
             [](float v, int i) { return v * hidden[i]; });
  barrier(thread);
  rows<kFfn>(hidden, down, y, first(kDim), last(kDim),
             [](float v, int i) { return v + middle[i]; });
}

FLOOR_EXPORTS
